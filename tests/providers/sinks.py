"""What a test hands to a model in place of the runtime."""

from __future__ import annotations


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
