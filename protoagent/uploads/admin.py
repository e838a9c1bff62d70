"""Attachments in the admin: to read. Their bytes are not shown there."""

from __future__ import annotations

from django.contrib import admin

from protoagent.accounts.admin import ReadOnlyAdmin
from protoagent.uploads.models import Attachment


@admin.register(Attachment)
class AttachmentAdmin(ReadOnlyAdmin):
    list_display = ("id", "name", "kind", "size", "session", "owner", "created_at")
    list_filter = ("kind",)
    list_select_related = ("session",)
    search_fields = ("id", "name", "session__key")
    date_hierarchy = "created_at"
