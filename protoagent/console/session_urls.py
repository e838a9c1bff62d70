"""Routes of the session list, of what waits on the operator, and of cards."""

from __future__ import annotations

from django.urls import path

from protoagent.console.views import attention, hitl, sessions

urlpatterns = [
    path("sessions/", sessions.index, name="sessions"),
    path("sessions/bulk/", sessions.bulk, name="sessions-bulk"),
    path("sessions/restore/", sessions.restore, name="sessions-restore"),
    path("attention/", attention.index, name="attention"),
    path("chat/<str:key>/row/", sessions.row, name="session-row"),
    path("chat/<str:key>/menu/", sessions.menu, name="session-menu"),
    path("chat/<str:key>/rename/", sessions.rename, name="session-rename"),
    path("chat/<str:key>/pin/", sessions.pin, name="session-pin"),
    path("chat/<str:key>/archive/", sessions.archive, name="session-archive"),
    path("chat/<str:key>/delete/", sessions.delete, name="session-delete"),
    path("chat/<str:key>/export/", sessions.download, name="session-export"),
    path("chat/<str:key>/hitl/<str:number>/", hitl.card, name="hitl-card"),
    path("chat/<str:key>/hitl/<str:number>/step/<int:step_number>/", hitl.step, name="hitl-step"),
    path("chat/<str:key>/hitl/<str:number>/draft/", hitl.draft, name="hitl-draft"),
    path("chat/<str:key>/hitl/<str:number>/answer/", hitl.answer, name="hitl-answer"),
    path("chat/<str:key>/hitl/<str:number>/dismiss/", hitl.dismiss, name="hitl-dismiss"),
]
