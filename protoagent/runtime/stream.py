"""Model output → `text.delta` events: cleaned, coalesced, stored."""

from __future__ import annotations

import asyncio

from protoagent.core import clock
from protoagent.core.pace import pace
from protoagent.journal.services.events import NewEvent
from protoagent.journal.writer import submit
from protoagent.runtime.leg import Leg
from protoagent.runtime.output import CharacterFilter, ThinkingFilter
from protoagent.security.redaction import StreamMask

DELTA_EVERY_S = 0.05


class AnswerStream:
    """The sink of one model call.

    The first text goes out at once, later text at most once per 50 ms (contract §3). What
    is neither masked nor decided yet is held back and comes with `finish`.
    """

    def __init__(self, leg: Leg) -> None:
        self._leg = leg
        self._loop = asyncio.get_running_loop()
        self._mask = StreamMask()
        self._characters = CharacterFilter()
        self._thinking = ThinkingFilter()
        self._buffer: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self._last_sent = 0.0
        self._began = False
        self.content_seen = False
        self.heard_at = clock.monotonic()

    def alive(self) -> None:
        """The model works, though nothing of it is to be shown."""
        self.heard_at = clock.monotonic()

    def text(self, delta: str) -> None:
        """More of the answer, as the provider got it."""
        self.heard_at = clock.monotonic()
        if delta:
            self.content_seen = True
            self._show(self._mask.feed(self._thinking.feed(self._characters.feed(delta))))

    def finish(self) -> list[NewEvent]:
        """The events of what has not been sent; the caller stores them."""
        rest = self._thinking.feed(self._characters.flush()) + self._thinking.flush()
        self._show(self._mask.feed(rest) + self._mask.flush(), send=False)
        return self._take()

    def discard(self) -> None:
        """Nothing more of this call is sent."""
        self._cancel_timer()
        self._buffer.clear()

    def _show(self, visible: str, *, send: bool = True) -> None:
        if not visible:
            return
        if not self._began:
            visible = visible.lstrip("\n") if not self._leg.partial else visible
            if not visible:
                return
            self._began = True
            if self._leg.segments:
                # Keeps the deltas of a turn, put together, equal to its whole answer.
                self._buffer.append("\n\n")
        self._leg.partial += visible
        self._buffer.append(visible)
        if send:
            self._schedule()

    def _schedule(self) -> None:
        if self._timer is not None:
            return
        wait = self._last_sent + DELTA_EVERY_S - clock.monotonic()
        if wait <= 0:
            self._send()
        else:
            self._timer = self._loop.call_later(wait, self._send)

    def _send(self) -> None:
        is_first = not self._last_sent
        self._last_sent = clock.monotonic()
        events = self._take()
        if not events:
            return
        stored = submit(session_id=self._leg.hold.session_id, events=events, hold=self._leg.hold)
        if is_first:
            stored.add_done_callback(pace().begin().end)

    def _take(self) -> list[NewEvent]:
        self._cancel_timer()
        if not self._buffer:
            return []
        text = "".join(self._buffer)
        self._buffer.clear()
        return [NewEvent("text.delta", {"text": text}, self._leg.hold.turn_id)]

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
