"""Calls that run in this process, and wishes to cancel them from any process."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from django.db.models import QuerySet

from protoagent.core import clock
from tools_app.models import OPEN, CallStatus, ToolCall


@dataclass
class Running:
    """A tool body that runs here. `cancelled` is set before its task is cancelled."""

    task: asyncio.Task[str]
    loop: asyncio.AbstractEventLoop
    cancelled: bool = False


_running: dict[int, Running] = {}  # by ToolCall pk


def enter(call_pk: int, task: asyncio.Task[str]) -> Running:
    """The call runs in this process until `leave`."""
    entry = Running(task, asyncio.get_running_loop())
    _running[call_pk] = entry
    return entry


def leave(call_pk: int) -> None:
    """The call no longer runs here."""
    _running.pop(call_pk, None)


def cancel_here(call_pk: int) -> bool:
    """Cancel the call if it runs in this process; whether it does. From any thread."""
    entry = _running.get(call_pk)
    if entry is None:
        return False
    entry.cancelled = True
    entry.loop.call_soon_threadsafe(entry.task.cancel)
    return True


def open_calls(agent_key: str) -> QuerySet[ToolCall]:
    """Every call of the agent that has begun and not ended, in any process, oldest first."""
    rows = ToolCall.objects.filter(status__in=OPEN, turn__session__agent__key=agent_key)
    return rows.select_related("turn__session").order_by("started_at", "pk")


def request_cancel(call_pk: int, *, by: str) -> bool:
    """The process that runs the call ends it within a second; False when it has ended."""
    changed = ToolCall.objects.filter(
        pk=call_pk, status=CallStatus.RUNNING, cancel_requested_at=None
    ).update(cancel_requested_at=clock.now(), cancelled_by=by)
    still_open = bool(changed) or ToolCall.objects.filter(pk=call_pk, status__in=OPEN).exists()
    if still_open:
        cancel_here(call_pk)
    return still_open


def sweep() -> None:
    """Cancel the calls of this process that somebody elsewhere wished to cancel."""
    if not _running:
        return
    wanted = ToolCall.objects.filter(
        pk__in=list(_running), cancel_requested_at__isnull=False, status=CallStatus.RUNNING
    )
    for pk in wanted.values_list("pk", flat=True):
        cancel_here(pk)
