"""Group commit: what running turns write at the same moment becomes one transaction.

Each turn writes small things often (a delta, the start of a call, a checkpoint). With one
transaction for each, 32 turns at once spend their time in commits. Here writes queue up
while a commit is under way and go into the next one together, in the order in which they
were asked for. A write is stored before its future resolves and before anybody sees it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async
from django.db import DatabaseError, connection, transaction

from protoagent.core.errors import AgentError, LeaseLost
from protoagent.journal import live
from protoagent.journal.services.events import Frame, NewEvent, insert_many
from protoagent.journal.services.turns import Hold

log = logging.getLogger(__name__)

Effect = Callable[[], list[NewEvent] | None]
Gaps = dict[Hold, BaseException]
MAX_BATCH = 64
LAZY_S = 0.02


@dataclass
class Write:
    """One thing to store: `effect` changes rows and may name further events.

    With a `hold` the write is refused (LeaseLost) when another process has claimed the
    turn, and with the error of an earlier write of the same leg that failed: what comes
    after a gap is not stored, except the end of the turn (`is_last`). An effect runs again
    if its group fails, so it does nothing but database work.
    """

    session_id: int | None = None
    events: list[NewEvent] = field(default_factory=list)
    effect: Effect | None = None
    hold: Hold | None = None
    is_last: bool = False
    future: asyncio.Future[list[Frame]] | None = None
    error: BaseException | None = None
    frames: list[Frame] = field(default_factory=list)


class Writer:
    """The group commit of one event loop."""

    def __init__(self) -> None:
        self._queue: list[Write] = []
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._gaps: Gaps = {}

    def submit(self, write: Write, *, lazy: bool = False) -> asyncio.Future[list[Frame]]:
        """Queue `write`; the future gives its frames once they are committed.

        Nobody has to await the future: a failure is logged and met again by the next
        write that somebody does await. A lazy write goes along with the next one, or
        alone after 20 ms; it keeps its place in the order.
        """
        loop = asyncio.get_running_loop()
        write.future = loop.create_future()
        write.future.add_done_callback(_retrieve)
        self._queue.append(write)
        if not lazy:
            self._start(loop)
        elif self._timer is None:
            self._timer = loop.call_later(LAZY_S, self._start, loop)
        return write.future

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is None or self._task.done():
            # A context of its own: the asking task may be inside a bridged call.
            self._task = loop.create_task(self._drain(), name="journal-writer", context=Context())

    async def write(self, write: Write) -> list[Frame]:
        """Store `write` and return its frames. A cancelled caller does not undo it."""
        return await asyncio.shield(self.submit(write))

    async def flushed(self) -> None:
        """Returns when everything submitted so far is stored or has failed."""
        if self._queue:
            self._start(asyncio.get_running_loop())
        if self._task is not None and not self._task.done():
            await asyncio.shield(self._task)

    async def _drain(self) -> None:
        while self._queue:
            batch, self._queue = self._queue[:MAX_BATCH], self._queue[MAX_BATCH:]
            try:
                await database_sync_to_async(_store)(batch, self._gaps)
            except BaseException as error:
                for write in batch:
                    write.error = write.error or error
                raise
            finally:
                for write in batch:
                    _settle(write)


def _settle(write: Write) -> None:
    if write.frames and write.session_id is not None and write.error is None:
        live.hub.deliver(write.session_id, write.frames)
    if write.future is None or write.future.done():
        return
    if write.error is not None:
        write.future.set_exception(write.error)
    else:
        write.future.set_result(write.frames)


def _retrieve(future: asyncio.Future[list[Frame]]) -> None:
    if not future.cancelled():
        future.exception()


def _store(batch: list[Write], gaps: Gaps) -> None:
    """Commit the whole batch; if that fails, each write for itself."""
    try:
        with transaction.atomic():
            _apply(batch, gaps)
        for write in batch:
            if write.is_last and write.hold is not None:
                gaps.pop(write.hold, None)
        return
    except Exception as error:  # noqa: BLE001 — one write among many: it must not take the others along
        if len(batch) == 1:
            _failed(batch[0], error, gaps)
            return
    for write in batch:
        write.error, write.frames = None, []
        _store([write], gaps)


def _failed(write: Write, error: Exception, gaps: Gaps) -> None:
    is_foreseen = isinstance(error, DatabaseError | AgentError)
    log.warning("a journal write failed: %s", error, exc_info=None if is_foreseen else error)
    write.error = error
    if write.hold is not None:
        gaps[write.hold] = error


def _apply(batch: list[Write], gaps: Gaps) -> None:
    fences = _fences([write.hold for write in batch if write.hold is not None])
    groups: list[tuple[Write, list[NewEvent]]] = []
    for write in batch:
        hold = write.hold
        if hold is not None and fences.get(hold.turn_id) != hold.fence:
            write.error = LeaseLost(f"turn {hold.turn_id} is held by another process now")
            continue
        if hold in gaps and not write.is_last:
            write.error = gaps[hold]  # type: ignore[index]
            continue
        further = (write.effect() or []) if write.effect is not None else []
        if write.events or further:
            groups.append((write, [*write.events, *further]))
    ordered = insert_many([(w.session_id, new_events) for w, new_events in groups])
    for (write, _), frames in zip(groups, ordered, strict=True):
        write.frames = frames


def _fences(holds: list[Hold]) -> dict[str, int]:
    """The newest fence of each running turn, locked so that no claim comes in between."""
    ids = sorted({hold.turn_id for hold in holds})
    if not ids:
        return {}
    marks = ", ".join(["%s"] * len(ids))
    # Not FOR UPDATE: whoever inserts an event or a steer of the turn locks its key, while it
    # has the session that this transaction wants next.
    lock = " FOR NO KEY UPDATE" if connection.features.has_select_for_no_key_update else ""
    with connection.cursor() as cursor:
        # Plain SQL: it stands before every commit of every running turn.
        cursor.execute(
            f"SELECT id, fence FROM journal_turn WHERE id IN ({marks})"  # noqa: S608 — only marks
            f" AND status = 'running' ORDER BY id{lock}",
            ids,
        )
        return dict(cursor.fetchall())


_writers: WeakKeyDictionary[asyncio.AbstractEventLoop, Writer] = WeakKeyDictionary()


def writer() -> Writer:
    """The writer of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _writers:
        _writers[loop] = Writer()
    return _writers[loop]


def submit(*, lazy: bool = False, **fields: Any) -> asyncio.Future[list[Frame]]:
    """Queue a write on this loop's writer without waiting for it; see `Writer.submit`."""
    return writer().submit(Write(**fields), lazy=lazy)


async def store(**fields: Any) -> list[Frame]:
    """Store a write through this loop's writer."""
    return await writer().write(Write(**fields))
