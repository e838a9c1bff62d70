"""The routes of `/api/`. Each router belongs to one module; this is where they meet."""

from __future__ import annotations

from django.urls import path

from protoagent.api import chat, chat_sessions, files, runtime
from protoagent.api.app import api

api.add_router("", chat.router)
api.add_router("", chat_sessions.router)
api.add_router("", files.router)
api.add_router("", runtime.router)

urlpatterns = [path("api/", api.urls)]
