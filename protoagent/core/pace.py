"""Which work of an event loop goes first: an answer that begins before answers that go on.

Relaying an answer takes whatever processor time there is. Without this the first word of
somebody else's answer would wait until all that has arrived by then is relayed.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self
from weakref import WeakKeyDictionary

MAX_WAIT_S = 0.05


class Beginning:
    """Work that goes first until `end`, or until the block of `with` is left."""

    def __init__(self, pace: Pace) -> None:
        self._pace: Pace | None = pace

    def end(self, *_: object) -> None:
        """The work is done. Takes any argument, so that it can be a callback; twice is once."""
        known, self._pace = self._pace, None
        if known is not None:
            known.ended()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()


class Pace:
    """What begins on one event loop, and what gives way to it."""

    def __init__(self) -> None:
        self._beginnings = 0
        self._waiting: list[asyncio.Future[None]] = []

    def begin(self) -> Beginning:
        """What is about to begin; for work of milliseconds, not for waiting on a model."""
        self._beginnings += 1
        return Beginning(self)

    def ended(self) -> None:
        """One beginning less; after the last one everybody goes on."""
        self._beginnings -= 1
        if self._beginnings:
            return
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            _let_go(future)

    async def give_way(self) -> None:
        """Returns when nothing begins, after 50 ms at the latest."""
        if not self._beginnings:
            return
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append(future)
        timer = loop.call_later(MAX_WAIT_S, _let_go, future)
        try:
            await future
        finally:
            timer.cancel()


def _let_go(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


_paces: WeakKeyDictionary[asyncio.AbstractEventLoop, Pace] = WeakKeyDictionary()


def pace() -> Pace:
    """That of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _paces:
        _paces[loop] = Pace()
    return _paces[loop]
