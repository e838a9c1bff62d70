"""Tool calls in the admin: to read."""

from __future__ import annotations

from django.contrib import admin

from protoagent.accounts.admin import ReadOnlyAdmin
from tools_app.models import ToolCall


@admin.register(ToolCall)
class ToolCallAdmin(ReadOnlyAdmin):
    list_display = ("call_id", "name", "source", "status", "turn", "started_at", "duration_ms")
    list_filter = ("status", "name", "source")
    list_select_related = ("turn",)
    search_fields = ("call_id", "turn__id", "name")
