"""Live delivery of journal events to the sockets of this process.

Rows are the truth: a subscription has a cursor, takes pushed frames only when they
continue it, and reads the rows whenever they do not. Pushes come from writers of this
process after their commit; a look at the sessions' counters every 50 ms, while anybody
listens, finds what other processes wrote, so a lost hint costs 50 ms at most.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from contextvars import Context
from typing import Any

from channels.db import database_sync_to_async
from django.db import DatabaseError

from protoagent.core.errors import TooMany
from protoagent.journal.models import ChatSession, TurnEvent

log = logging.getLogger(__name__)
Frame = dict[str, Any]

POLL_S = 0.05
MAX_PENDING_FRAMES = 256
READ_BATCH = 500
RETRY_S = 1.0


class Subscription:
    """One listener's place in one session's journal. Use as `async for frames in …`."""

    def __init__(self, hub: LiveHub, session_id: int, cursor: int, *, caught_up: bool) -> None:
        self.session_id = session_id
        self.cursor = cursor
        self._hub = hub
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._pushed: deque[Frame] = deque()
        self._behind = not caught_up
        self._wake = asyncio.Event()
        if self._behind:
            self._wake.set()
        self._closed = False
        self._has_overflowed = False

    def push(self, frames: list[Frame]) -> None:
        """Frames of this session that were just committed; called from any thread."""
        if threading.get_ident() == self._thread:
            self._accept(frames)
        else:
            self._call(self._accept, frames)

    def notice(self, last_seq: int) -> None:
        """The session's counter as another process may have moved it."""
        if last_seq > self.cursor and not self._pushed:
            self._behind = True
            self._wake.set()

    def close(self) -> None:
        """No more frames; a reader that waits ends."""
        self._closed = True
        self._hub.drop(self)
        self._call(self._wake.set)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop has ended, and with it everybody who listened
            self._hub.drop(self)

    def _accept(self, frames: list[Frame]) -> None:
        if len(self._pushed) > MAX_PENDING_FRAMES:
            # The reader may be stuck in sending: nothing may pile up until it notices.
            self._has_overflowed = True
            self._pushed.clear()
        if not self._has_overflowed:
            self._pushed.extend(frames)
        self._wake.set()

    async def __aiter__(self) -> AsyncIterator[list[Frame]]:
        while not self._closed:
            await self._wake.wait()
            self._wake.clear()
            if frames := self._take_pushed():
                yield frames
            while self._behind and not self._closed:
                self._end_if_too_slow()
                self._behind = False
                rows = await self._hub.read(self.session_id, self.cursor)
                if rows:
                    self.cursor = rows[-1]["seq"]
                    self._behind = len(rows) >= READ_BATCH
                    yield rows

    def _end_if_too_slow(self) -> None:
        if self._has_overflowed or len(self._pushed) > MAX_PENDING_FRAMES:
            self.close()
            raise TooMany("this client reads more slowly than the agent writes")

    def _take_pushed(self) -> list[Frame]:
        self._end_if_too_slow()
        frames: list[Frame] = []
        while self._pushed:
            frame = self._pushed.popleft()
            if frame["seq"] <= self.cursor:
                continue
            if frame["seq"] > self.cursor + 1:
                self._pushed.clear()
                self._behind = True
                break
            self.cursor = frame["seq"]
            frames.append(frame)
        return frames


class LiveHub:
    """All subscriptions of this process. `deliver` may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_session: dict[int, set[Subscription]] = defaultdict(set)
        self._pollers: dict[asyncio.AbstractEventLoop, asyncio.Task[None]] = {}

    def subscribe(self, session_id: int, after: int, *, caught_up: bool = False) -> Subscription:
        """Follow a session from the event after `after`. Call on the listener's loop.

        `caught_up` says that `after` was the newest event a moment ago: then the first
        look at the rows is left to the next poll.
        """
        loop = asyncio.get_running_loop()
        subscription = Subscription(self, session_id, after, caught_up=caught_up)
        with self._lock:
            self._by_session[session_id].add(subscription)
        poller = self._pollers.get(loop)
        if poller is None or poller.done():
            # A context of its own: a poller outlives the request in which it was started, and
            # asgiref binds the context of a request to the thread of that request.
            self._pollers[loop] = loop.create_task(
                self._poll(loop), name="journal-poll", context=Context()
            )
        return subscription

    def drop(self, subscription: Subscription) -> None:
        """Forget a subscription; dropping it twice is harmless."""
        with self._lock:
            listeners = self._by_session.get(subscription.session_id)
            if listeners:
                listeners.discard(subscription)
                if not listeners:
                    del self._by_session[subscription.session_id]

    def deliver(self, session_id: int, frames: list[Frame]) -> None:
        """Hand committed frames to this process's listeners of the session."""
        if not frames or session_id not in self._by_session:
            return
        with self._lock:
            listeners = tuple(self._by_session.get(session_id, ()))
        for listener in listeners:
            listener.push(frames)

    async def read(self, session_id: int, after: int) -> list[Frame]:
        """The next stored events of a session."""
        return await database_sync_to_async(rows_after)(session_id, after)

    async def _poll(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while watched := self._watched_on(loop):
                await asyncio.sleep(POLL_S)
                try:
                    counters = await database_sync_to_async(_counters)(watched)
                except DatabaseError:
                    log.exception("reading the journal's counters failed; trying again")
                    await asyncio.sleep(RETRY_S)
                    continue
                for session_id, last_seq in counters.items():
                    for listener in tuple(self._by_session.get(session_id, ())):
                        listener.notice(last_seq)
        finally:
            self._pollers.pop(loop, None)

    def _watched_on(self, loop: asyncio.AbstractEventLoop) -> list[int]:
        with self._lock:
            return [
                session_id
                for session_id, listeners in self._by_session.items()
                if any(listener._loop is loop for listener in listeners)
            ]


def rows_after(session_id: int, seq: int, limit: int = READ_BATCH) -> list[Frame]:
    """Up to `limit` events of a session numbered above `seq`, in order."""
    rows = TurnEvent.objects.filter(session_id=session_id, seq__gt=seq).order_by("seq")
    return [row.frame for row in rows[:limit]]


def _counters(session_ids: list[int]) -> dict[int, int]:
    rows = ChatSession.objects.filter(pk__in=session_ids).values_list("pk", "last_seq")
    return dict(rows)


hub = LiveHub()
