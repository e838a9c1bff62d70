"""What a scenario has at hand: a target to have turns with, and a place for its values."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.bench import meter
from tests.bench.drivers import Driver, Turn
from tests.bench.records import Record, Records, median_ms, percentile


@dataclass(frozen=True)
class Target:
    """Something that has turns. `pid` is the process whose time and memory count."""

    name: str
    open: Callable[[], Driver]
    pid: int
    others: tuple[int, ...] = ()


@dataclass
class Run:
    """One repeat of the scenarios on one target. `scale` shortens them."""

    target: Target
    records: Records
    repeat: int
    scale: float = 1.0
    failures: Counter[str] = field(default_factory=Counter)

    def count(self, number: int, least: int = 2) -> int:
        """So many, or fewer in a quick run."""
        return max(least, round(number * self.scale))

    def clock(self) -> meter.Clock:
        """Counts processor time from now on."""
        return meter.Clock(self.target.pid, (*self.target.others, os.getpid()))

    def put(self, scenario: str, metric: str, value: float, unit: str) -> None:
        """One value of this repeat."""
        name = self.target.name
        self.records.add(Record(name, scenario, metric, round(value, 3), unit, self.repeat))

    def put_times(self, scenario: str, metric: str, seconds: Iterable[float]) -> None:
        """Median and 99th percentile, in milliseconds; nothing of no times at all."""
        if times := list(seconds):
            self.put(scenario, f"{metric} p50", median_ms(times), "ms")
            self.put(scenario, f"{metric} p99", percentile(times, 99) * 1000, "ms")

    async def in_a_row(self, message: str, how_many: int, session: str = "") -> list[Turn]:
        """The good ones of `how_many` turns, each in a new session unless one is named."""
        async with self.target.open() as driver:
            turns = [await driver.turn(message, session or new_session()) for _ in range(how_many)]
        return self.good(turns)

    async def together(self, message: str, how_many: int, at_once: int) -> tuple[list[Turn], float]:
        """The good ones of `how_many` turns that `at_once` users had, and the seconds it took."""
        numbers = iter(range(how_many))

        async def user(driver: Driver) -> list[Turn]:
            return [await driver.turn(message, new_session()) for _ in numbers]

        async with contextlib.AsyncExitStack() as stack:
            drivers = [await stack.enter_async_context(self.target.open()) for _ in range(at_once)]
            began = time.perf_counter()
            shares = await asyncio.gather(*map(user, drivers))
            took_s = time.perf_counter() - began
        return self.good(list(itertools.chain(*shares))), took_s

    def good(self, turns: list[Turn]) -> list[Turn]:
        """Those that ended well; the others are counted."""
        for turn in turns:
            if not turn.is_good:
                self.failures[(turn.error or "no text")[:200]] += 1
        return [turn for turn in turns if turn.is_good]


def new_session() -> str:
    """A session key that nobody has used."""
    return f"bench-{uuid.uuid4().hex}"


def answer_of(tokens: int) -> str:
    """What the gateway says to `say <tokens>`."""
    return "".join(f"{number % 10000:04d} " for number in range(tokens))
