"""Routes of the chat page, of writing to a session, and of the frame around every page."""

from __future__ import annotations

from django.urls import path

from protoagent.console.views import calls, chat, files, messages, palette, setup, shell

urlpatterns = [
    path("", shell.home, name="home"),
    path("me/theme/", shell.theme, name="theme"),
    path("palette/", palette.palette, name="palette"),
    path("setup/", setup.setup, name="setup"),
    path("models/", chat.model_menu, name="models"),
    path("files/", files.collection, name="files"),
    path("files/<str:file_id>/", files.show, name="file"),
    path("files/<str:file_id>/alt/", files.alt, name="file-alt"),
    path("files/<str:file_id>/remove/", files.remove, name="file-remove"),
    path("chat/", messages.new, name="new"),
    path("chat/<str:key>/", chat.session, name="chat"),
    path("chat/<str:key>/messages/", chat.messages, name="messages"),
    path("chat/<str:key>/news/", chat.news, name="news"),
    path("chat/<str:key>/messages/<int:number>/source/", chat.source, name="message-source"),
    path("chat/<str:key>/aside/", chat.aside, name="aside"),
    path("chat/<str:key>/send/", messages.send, name="send"),
    path("chat/<str:key>/stop/", messages.stop, name="stop"),
    path("chat/<str:key>/pending/", messages.queued, name="pending"),
    path("chat/<str:key>/model/", messages.choose_model, name="model"),
    path("chat/<str:key>/seen/", messages.seen, name="seen"),
    path("chat/<str:key>/calls/<str:call_id>/", calls.body, name="call"),
    path("chat/<str:key>/calls/<str:call_id>/cancel/", calls.cancel, name="call-cancel"),
]
