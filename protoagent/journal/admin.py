"""The journal in the admin: to read. History is never edited there."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest  # noqa: TID251 — the admin is an adapter

from protoagent.accounts.admin import ReadOnlyAdmin
from protoagent.core.text import one_line, reveal_hidden
from protoagent.journal.models import (
    Agent,
    ChatSession,
    Heartbeat,
    Interruption,
    QueuedMessage,
    Turn,
    TurnEvent,
)


@admin.register(Agent)
class AgentAdmin(admin.ModelAdmin):
    list_display = ("key", "name", "model", "created_at")
    search_fields = ("key", "name")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """The key is what everything is found by: chosen once."""
        return ("key", "created_at") if obj else ("created_at",)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(ChatSession)
class ChatSessionAdmin(ReadOnlyAdmin):
    list_display = ("key", "title", "agent", "origin", "last_seq", "last_event_at", "archived_at")
    list_filter = ("origin", "incognito", "agent")
    list_select_related = ("agent",)
    search_fields = ("key", "title")
    date_hierarchy = "last_event_at"


@admin.register(Turn)
class TurnAdmin(ReadOnlyAdmin):
    list_display = ("id", "session", "number", "status", "origin", "shown_text", "queued_at")
    list_filter = ("status", "origin")
    list_select_related = ("session",)
    search_fields = ("id", "text", "answer", "session__key")
    date_hierarchy = "queued_at"

    @admin.display(description="text")
    def shown_text(self, turn: Turn) -> str:
        return one_line(reveal_hidden(turn.text), 80)


@admin.register(TurnEvent)
class TurnEventAdmin(ReadOnlyAdmin):
    list_display = ("session", "seq", "type", "turn", "at")
    list_filter = ("type",)
    list_select_related = ("session", "turn")
    search_fields = ("session__key", "turn__id")


@admin.register(Interruption)
class InterruptionAdmin(ReadOnlyAdmin):
    list_display = ("id", "kind", "state", "turn", "call_id", "asked_at", "resolved_by")
    list_filter = ("kind", "state")
    list_select_related = ("turn",)
    search_fields = ("id", "turn__id", "call_id")


@admin.register(QueuedMessage)
class QueuedMessageAdmin(ReadOnlyAdmin):
    list_display = ("session", "kind", "state", "shown_text", "on_hold", "created_at")
    list_filter = ("kind", "state", "on_hold")
    list_select_related = ("session",)
    search_fields = ("session__key", "client_id", "text")

    @admin.display(description="text")
    def shown_text(self, message: QueuedMessage) -> str:
        return one_line(reveal_hidden(message.text), 80)


@admin.register(Heartbeat)
class HeartbeatAdmin(ReadOnlyAdmin):
    list_display = ("role", "host", "pid", "started_at", "at")
    list_filter = ("role",)
