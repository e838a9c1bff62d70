"""Waiting for a turn: following its session's journal until the turn parks or ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from channels.db import database_sync_to_async as in_db

from protoagent.core.errors import NotFound, TooMany
from protoagent.core.text import one_line
from protoagent.journal.live import Frame, hub
from protoagent.journal.models import Interruption, Turn, TurnEvent, TurnStatus
from protoagent.journal.services import pauses

LOOK_EVERY_S = 5.0
RAISED_HAND = "\N{RAISED HAND}"


@dataclass(frozen=True)
class Result:
    """Where a turn stands after the wait. `pending` is what it asks the operator."""

    turn_id: str
    status: str
    text: str
    error: str = ""
    pending: list[dict[str, Any]] = field(default_factory=list)

    @property
    def response(self) -> str:
        """What was said; a turn that waits ends with what it needs (spec/behaviour-tools §2.3)."""
        if self.status != TurnStatus.WAITING or not self.pending:
            return self.text
        asked = f"{RAISED_HAND} Input needed: {prompt_of(self.pending[0])}"
        return f"{self.text}\n\n{asked}" if self.text else asked


def prompt_of(shown: dict[str, Any]) -> str:
    """The question in one line: its text, else its title."""
    text = shown.get("question") or shown.get("title") or ""
    return one_line(str(text), 300) or "Input required."


def pending_of(rows: list[Interruption]) -> list[dict[str, Any]]:
    """Open interruptions as the `input.required` event shows them."""
    return [pauses.required_event(row).data for row in rows]


async def settled(session_id: int, turn_id: str, after: int) -> Result:
    """The turn once it waits for the operator or has ended. `after` is an event before its end.

    Cancelling the wait, as a lost client does, leaves the turn alone. Raises NotFound
    when the turn is deleted meanwhile.
    """
    batches = _Batches(session_id, after)
    try:
        while True:
            batch = await batches.next()
            end = next((f for f in batch or () if _is_end(f, turn_id)), None)
            if end is not None:
                return await in_db(_result_of_frame)(session_id, turn_id, end)
            # Nothing for a while: the turn may be gone without an event, with its session.
            if batch is None and (result := await in_db(result_now)(turn_id)):
                return result
    finally:
        batches.close()


class _Batches:
    """The session's events in batches, with a pause in which to look elsewhere."""

    def __init__(self, session_id: int, after: int) -> None:
        self._subscription = hub.subscribe(session_id, after)
        self._frames = aiter(self._subscription)
        self._reading: asyncio.Task[list[Frame] | None] | None = None

    async def next(self) -> list[Frame] | None:
        """The next batch, or None when five seconds passed without one."""
        if self._reading is None:
            self._reading = asyncio.create_task(_one(self._frames))
        # Not wait_for: it would cancel the read and with it end the subscription.
        done, _ = await asyncio.wait({self._reading}, timeout=LOOK_EVERY_S)
        if not done:
            return None
        reading, self._reading = self._reading, None
        try:
            return reading.result()
        except TooMany:  # the agent wrote faster than this loop read; the rows have it all
            place = self._subscription
            self._subscription = hub.subscribe(place.session_id, place.cursor)
            self._frames = aiter(self._subscription)
            return []

    def close(self) -> None:
        self._subscription.close()
        if self._reading is not None:
            self._reading.cancel()


async def _one(frames: AsyncIterator[list[Frame]]) -> list[Frame] | None:
    return await anext(frames, None)


def result_now(turn_id: str) -> Result | None:
    """Where the turn stands when it neither runs nor is queued, else None.

    Raises NotFound when there is no such turn.
    """
    turn = Turn.objects.select_related("session").filter(pk=turn_id).first()
    if turn is None or turn.session.deleted_at is not None:
        raise NotFound("this session has been deleted meanwhile")
    if turn.is_ended:
        return Result(turn.pk, turn.status, turn.answer, turn.error)
    if turn.status != TurnStatus.WAITING or turn.wake_at is not None:
        return None
    ends = TurnEvent.objects.filter(turn_id=turn_id, type="turn.finished").order_by("-seq")
    text = ends.values_list("data__text", flat=True).first()
    rows = pauses.open_in_session(turn.session_id)
    return Result(turn.pk, turn.status, str(text or ""), pending=pending_of(rows))


def _result_of_frame(session_id: int, turn_id: str, frame: Frame) -> Result:
    data = frame["data"]
    status = str(data.get("status", ""))
    rows = pauses.open_in_session(session_id) if status == TurnStatus.WAITING else []
    text, error = str(data.get("text") or ""), str(data.get("error") or "")
    return Result(turn_id, status, text, error, pending_of(rows))


def _is_end(frame: Frame, turn_id: str) -> bool:
    return frame["turn"] == turn_id and frame["type"] == "turn.finished"
