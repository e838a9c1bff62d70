"""The turns that this process runs: their tasks, leases and wishes from elsewhere."""

from __future__ import annotations

import asyncio
import logging
from contextvars import Context

from channels.db import database_sync_to_async
from django.db import DatabaseError

from protoagent.core import clock
from protoagent.core.pace import pace
from protoagent.journal.models import QueuedKind, QueuedMessage, QueuedState
from protoagent.journal.services import processes, turns
from protoagent.journal.services.turns import Claim
from protoagent.providers import catalog
from protoagent.runtime import turn
from protoagent.runtime.leg import Leg
from tools_app import inflight

log = logging.getLogger(__name__)

WATCH_EVERY_S = 0.5
RENEW_EVERY_S = 10.0


class Runner:
    """Runs turns on one event loop. Every task it starts is its own to await or cancel."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.holder = processes.holder()
        self.legs: dict[str, Leg] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._watch: asyncio.Task[None] | None = None
        self._renewed_at = 0.0
        self._closing = False

    def start(self, turn_id: str) -> asyncio.Task[None] | None:
        """Claim and run this turn unless it runs here or is not to be had."""
        return self._spawn(turn_id, self._claim_and_run(turn_id))

    def start_claimed(self, claim: Claim) -> asyncio.Task[None] | None:
        """Run a turn that was claimed in this process's name."""
        return self._spawn(claim.hold.turn_id, self._run(claim))

    def start_soon(self, what: Claim | str) -> None:
        """`start` or `start_claimed`, from any thread."""
        if isinstance(what, str):
            self.loop.call_soon_threadsafe(self.start, what)
        else:
            self.loop.call_soon_threadsafe(self.start_claimed, what)

    def stop(self, turn_id: str) -> None:
        """End the turn now, if it runs here; from any thread."""
        self.loop.call_soon_threadsafe(self._stop, turn_id)

    def steered(self, session_id: int) -> None:
        """Let the session's running turn look for steers before its next model call."""
        for leg in tuple(self.legs.values()):
            if leg.hold.session_id == session_id:
                leg.may_have_steers = True

    async def shutdown(self) -> None:
        """Cancel what runs and give the leases back, so that others can go on at once."""
        self._closing = True
        tasks = [task for task in self._tasks.values() if not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5)
        if self._watch is not None:
            self._watch.cancel()
        await database_sync_to_async(turns.release)(self.holder)

    def tasks(self) -> list[asyncio.Task[None]]:
        """What runs now."""
        return [task for task in self._tasks.values() if not task.done()]

    def _spawn(self, turn_id: str, coroutine) -> asyncio.Task[None] | None:  # type: ignore[no-untyped-def]
        running = self._tasks.get(turn_id)
        if self._closing or (running is not None and not running.done()):
            coroutine.close()
            return None
        # A context of its own: a turn outlives the request that started it, and asgiref
        # marks the context of a bridged call in a way that would refuse bridging again.
        task = self.loop.create_task(coroutine, name=f"turn-{turn_id}", context=Context())
        self._tasks[turn_id] = task
        task.add_done_callback(lambda done: self._forget(turn_id, done))
        return task

    def _forget(self, turn_id: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(turn_id) is task:
            del self._tasks[turn_id]
        if not task.cancelled() and (error := task.exception()):
            log.error("turn task failed turn_id=%s", turn_id, exc_info=error)

    async def _claim_and_run(self, turn_id: str) -> None:
        model = catalog.default_name()
        claim = await database_sync_to_async(turns.claim)(
            turn_id, holder=self.holder, default_model=model
        )
        if claim is not None:
            await self._run(claim)

    async def _run(self, claim: Claim) -> None:
        with pace().begin():
            leg = await turn.prepare(claim, self.holder)
        self.legs[claim.hold.turn_id] = leg
        self._ensure_watch()
        try:
            next_turn = await turn.run_leg(leg)
        finally:
            self.legs.pop(claim.hold.turn_id, None)
        if next_turn is not None:
            self.start(next_turn)

    def _stop(self, turn_id: str) -> None:
        leg = self.legs.get(turn_id)
        task = self._tasks.get(turn_id)
        if leg is None or task is None or leg.stop.is_set():
            return
        leg.stop.set()
        task.cancel()

    def _ensure_watch(self) -> None:
        if self._watch is None or self._watch.done():
            self._renewed_at = clock.monotonic()
            self._watch = self.loop.create_task(
                self._watch_legs(), name="turn-watch", context=Context()
            )

    async def _watch_legs(self) -> None:
        """Renew leases and see wishes of other processes, as long as something runs."""
        while self.legs:
            await asyncio.sleep(WATCH_EVERY_S)
            try:
                await self._look()
            except DatabaseError:
                log.exception("looking after the running turns failed; trying again")

    async def _look(self) -> None:
        renew = clock.monotonic() - self._renewed_at >= RENEW_EVERY_S
        asked = tuple(self.legs)  # turns that begin during the look are not part of it
        held, stops, steered = await database_sync_to_async(self._read)(asked, renew)
        if renew:
            self._renewed_at = clock.monotonic()
            for turn_id in set(asked) - held:
                self._lose(turn_id)
        for turn_id in stops:
            self._stop(turn_id)
        for session_id in steered:
            self.steered(session_id)

    def _read(
        self, turn_ids: tuple[str, ...], renew: bool
    ) -> tuple[set[str], list[str], list[int]]:
        inflight.sweep()
        held = turns.renew(self.holder, turn_ids) if renew else set(turn_ids)
        sessions = {leg.hold.session_id for leg in tuple(self.legs.values())}
        pending = QueuedMessage.objects.filter(
            session_id__in=sessions,
            state=QueuedState.PENDING,
            kind__in=[QueuedKind.STEER, QueuedKind.HELD],
        )
        return (
            held,
            turns.stops_wanted(turn_ids),
            list(pending.values_list("session", flat=True)),
        )

    def _lose(self, turn_id: str) -> None:
        leg, task = self.legs.get(turn_id), self._tasks.get(turn_id)
        if leg is not None and task is not None:
            leg.lost = True
            task.cancel()


_runner: Runner | None = None


def attach() -> Runner:
    """The runner of the running event loop becomes this process's; made when there is none."""
    global _runner
    if _runner is None or _runner.loop is not asyncio.get_running_loop():
        _runner = Runner()
    return _runner


def here() -> Runner | None:
    """This process's runner, if it runs turns itself."""
    if _runner is None or _runner.loop.is_closed():
        return None
    return _runner


def detach() -> None:
    """This process runs no turns any more; what it starts goes to the queue."""
    global _runner
    _runner = None
