"""One row per tool call: what was asked, who ran it, how it ended."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from protoagent.core import clock
from protoagent.journal.models import Turn


class CallStatus(models.TextChoices):
    RUNNING = "running", "running"
    WAITING = "waiting", "waiting for an answer"
    OK = "ok", "ok"
    ERROR = "error", "failed"
    CANCELLED = "cancelled", "cancelled"
    DECLINED = "declined", "declined"


OPEN = (CallStatus.RUNNING, CallStatus.WAITING)


class ToolCall(models.Model):
    """A call of a tool by a turn.

    The row is what decides whether a call has happened: a call with an end is never run
    again, its `output` is handed out instead. `cancel_requested_at` is a wish that the
    process which runs the call sees within a second. `arguments` are masked.
    """

    turn = models.ForeignKey(Turn, on_delete=models.CASCADE, related_name="tool_calls")
    call_id = models.CharField(max_length=64)
    parent_call_id = models.CharField(max_length=64, blank=True)
    name = models.CharField(max_length=128)
    source = models.CharField(max_length=64, default="builtin")
    arguments = models.JSONField(default=dict)
    status = models.CharField(max_length=10, choices=CallStatus.choices, default=CallStatus.RUNNING)
    attempt = models.PositiveSmallIntegerField(default=1)
    holder = models.CharField(max_length=100, blank=True)
    output = models.TextField(blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    cancelled_by = models.CharField(max_length=150, blank=True)
    started_at = models.DateTimeField(default=clock.now)
    finished_at = models.DateTimeField(null=True, blank=True)
    duration_ms = models.PositiveIntegerField(default=0)

    class Meta:
        verbose_name = "tool call"
        constraints = [
            models.UniqueConstraint(fields=["turn", "call_id"], name="tools_call_id"),
            models.CheckConstraint(
                condition=Q(status__in=["running", "waiting"], finished_at__isnull=True)
                | Q(
                    status__in=["ok", "error", "cancelled", "declined"],
                    finished_at__isnull=False,
                ),
                name="tools_call_end",
            ),
        ]
        indexes = [
            models.Index(
                fields=["started_at"],
                condition=Q(status__in=["running", "waiting"]),
                name="tools_call_open",
            ),
            models.Index(fields=["call_id"], name="tools_call_by_id"),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.call_id} ({self.status})"
