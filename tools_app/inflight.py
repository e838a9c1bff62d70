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


Key = tuple[str, str]  # turn id, call id

_running: dict[Key, Running] = {}


def enter(key: Key, task: asyncio.Task[str]) -> Running:
    """The call runs in this process until `leave`."""
    entry = Running(task, asyncio.get_running_loop())
    _running[key] = entry
    return entry


def leave(key: Key) -> None:
    """The call no longer runs here."""
    _running.pop(key, None)


def cancel_here(key: Key) -> bool:
    """Cancel the call if it runs in this process; whether it does. From any thread."""
    entry = _running.get(key)
    if entry is None:
        return False
    entry.cancelled = True
    entry.loop.call_soon_threadsafe(entry.task.cancel)
    return True


def open_calls(agent_key: str) -> QuerySet[ToolCall]:
    """Every call of the agent that has begun and not ended, in any process, oldest first."""
    rows = ToolCall.objects.filter(status__in=OPEN, turn__session__agent__key=agent_key)
    return rows.select_related("turn__session").order_by("started_at", "pk")


def request_cancel(call: ToolCall, *, by: str) -> bool:
    """The process that runs the call ends it within a second; False when it has ended."""
    changed = ToolCall.objects.filter(
        pk=call.pk, status=CallStatus.RUNNING, cancel_requested_at=None
    ).update(cancel_requested_at=clock.now(), cancelled_by=by)
    still_open = bool(changed) or ToolCall.objects.filter(pk=call.pk, status__in=OPEN).exists()
    if still_open:
        cancel_here((call.turn_id, call.call_id))
    return still_open


def sweep() -> None:
    """Cancel the calls of this process that somebody elsewhere wished to cancel."""
    if not _running:
        return
    wanted = ToolCall.objects.filter(
        turn_id__in={turn_id for turn_id, _ in tuple(_running)},
        cancel_requested_at__isnull=False,
        status=CallStatus.RUNNING,
    )
    for key in wanted.values_list("turn_id", "call_id"):
        cancel_here(key)
