"""What a test hands to a model in place of the runtime."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Collector:
    """Keeps every delta, and counts signs of life."""

    def __init__(self) -> None:
        self.deltas: list[str] = []
        self.lives = 0

    @property
    def whole(self) -> str:
        return "".join(self.deltas)

    def text(self, delta: str) -> None:
        self.deltas.append(delta)

    def alive(self) -> None:
        self.lives += 1


async def until(is_true: Callable[[], object]) -> None:
    """Wait until `is_true`, for at most five seconds."""
    for _ in range(1000):
        if is_true():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never became true")
