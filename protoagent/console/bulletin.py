"""What pages hear besides the transcript: that a list, a count or a session's state changed.

Hints of this process come at once. Once a second, while pages are open, a look at a few
small sets of rows finds what other processes did, so a lost hint costs a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from channels.db import database_sync_to_async as in_db
from django.db import DatabaseError

from protoagent.console.feeds import Feeds, as_text
from protoagent.core import events
from protoagent.journal.models import (
    ChatSession,
    Interruption,
    InterruptionState,
    QueuedMessage,
    QueuedState,
    Turn,
)
from protoagent.journal.services import agents, attention

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
SETTLE_S = 0.05  # one change often hints several times
LISTED = 200
_HINTS = frozenset({"session.changed", "attention.changed", "pending.changed", "turn.closed"})
_PASSED_ON = frozenset({"turn.closed", "config.changed"})
Send = Callable[[str], None]


@dataclass(frozen=True)
class Signs:
    """What the rows look like: a difference means that a page should ask again."""

    sessions: tuple[Any, ...] = ()
    waiting: tuple[str, ...] = ()
    watched: dict[int, tuple[Any, ...]] = field(default_factory=dict)


class Bulletin:
    """The bus of one event loop. It sleeps while nobody listens."""

    def __init__(self, feeds: Feeds) -> None:
        self._feeds = feeds
        self._listeners: set[Send] = set()
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._has_looked = asyncio.Event()
        self._signs = Signs()
        self._task: asyncio.Task[None] | None = None
        self._stop_hearing: Callable[[], None] | None = None

    @property
    def waiting_count(self) -> int:
        """How much waits on the operator, as of the last look."""
        return len(self._signs.waiting)

    async def join(self, send: Send) -> None:
        """`send` is called with each frame from now on."""
        self._listeners.add(send)
        if self._task is None or self._task.done():
            self._has_looked.clear()
            self._stop_hearing = events.listen(self._hear)
            self._task = self._loop.create_task(self._run(), name="console-bulletin")
        await self._has_looked.wait()

    def leave(self, send: Send) -> None:
        self._listeners.discard(send)
        if not self._listeners:
            self.close()

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self._stop_hearing is not None:
            self._stop_hearing()
            self._stop_hearing = None

    def _hear(self, name: str, payload: dict[str, Any]) -> None:
        """A hint, from any thread."""
        try:
            if name in _PASSED_ON:
                self._loop.call_soon_threadsafe(self._tell, name, {})
            if name in _HINTS:
                self._loop.call_soon_threadsafe(self._wake.set)
        except RuntimeError:  # the loop has ended, and its pages with it
            self.close()

    async def _run(self) -> None:
        try:
            self._signs = await in_db(_read)(self._feeds.sessions())
        except DatabaseError:
            log.exception("the first look for changes failed; trying again")
        finally:
            self._has_looked.set()
        while True:
            try:
                await asyncio.wait_for(self._wake.wait(), LOOK_EVERY_S)
                await asyncio.sleep(SETTLE_S)
            except TimeoutError:
                pass
            self._wake.clear()
            try:
                self._compare(await in_db(_read)(self._feeds.sessions()))
            except DatabaseError:
                log.exception("looking for changes failed; trying again")

    def _compare(self, now: Signs) -> None:
        before, self._signs = self._signs, now
        if now.sessions != before.sessions:
            self._tell("session.changed", {})
        if now.waiting != before.waiting:
            self._tell("attention.changed", {"count": len(now.waiting)})
        for session_id, signs in now.watched.items():
            if signs != before.watched.get(session_id):
                for feed in self._feeds.of_session(session_id):
                    feed.look_at_state()

    def _tell(self, topic: str, data: dict[str, Any]) -> None:
        text = as_text({"t": "bus", "topic": topic, "data": data})
        for send in tuple(self._listeners):
            send(text)


def _read(watched: set[int]) -> Signs:
    agent = agents.current()
    waiting = attention.waiting(agent)
    return Signs(
        sessions=_sessions(agent.pk),
        waiting=tuple(row.pk for row in waiting),
        watched=_watched(watched) if watched else {},
    )


def _sessions(agent_pk: int) -> tuple[Any, ...]:
    """The newest sessions as their list shows them; the time only to the minute."""
    rows = ChatSession.objects.filter(agent_id=agent_pk).order_by("-last_event_at", "-pk")
    fields = ("pk", "title", "pinned_at", "archived_at", "deleted_at", "last_seq", "seen_seq")
    active = dict(Turn.objects.active().values_list("session_id", "status"))
    return tuple(
        (*row[:5], row[5] > row[6], row[7].replace(second=0, microsecond=0), active.get(row[0]))
        for row in rows.values_list(*fields, "last_event_at")[:LISTED]
    )


def _watched(session_ids: set[int]) -> dict[int, tuple[Any, ...]]:
    """What each open session's state is made of."""
    signs: dict[int, list[Any]] = {session_id: [] for session_id in session_ids}
    sources = (
        ChatSession.objects.filter(pk__in=session_ids).values_list(
            "pk", "title", "model", "incognito", "deleted_at"
        ),
        Turn.objects.filter(session_id__in=session_ids, finished_at=None)
        .order_by("number")
        .values_list("session_id", "pk", "status", "stop_requested_at"),
        QueuedMessage.objects.filter(
            session_id__in=session_ids, state=QueuedState.PENDING
        ).values_list("session_id", "pk", "kind", "text", "position", "on_hold"),
        Interruption.objects.filter(turn__session_id__in=session_ids, state=InterruptionState.OPEN)
        .order_by("pk")
        .values_list("turn__session_id", "pk"),
    )
    for rows in sources:
        for row in rows:
            signs[row[0]].append(row[1:])
    return {session_id: tuple(rows) for session_id, rows in signs.items()}
