"""Measured values, one JSON line each."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TextIO

LIMIT, OURS = "limit", "ours"
ELSEWHERE = "cpu used elsewhere"
FAILED = "failed turns"


@dataclass(frozen=True)
class Record:
    """One value of one repeat. `target` says whether it is the product's or the limit's."""

    target: str
    scenario: str
    metric: str
    value: float
    unit: str
    repeat: int


@dataclass
class Records:
    """Everything measured so far; with `out` each value is also printed there at once."""

    all: list[Record] = field(default_factory=list)
    out: TextIO | None = None

    @property
    def noise(self) -> float:
        """The most that others used of the processor beside any scenario, % of a core."""
        return max(self.of_metric(ELSEWHERE), default=0.0)

    def add(self, record: Record) -> None:
        """Keep one value."""
        self.all.append(record)
        if self.out is not None:
            print(json.dumps(asdict(record)), file=self.out, flush=True)

    def values(self, target: str, scenario: str, metric: str) -> list[float]:
        """The values of all repeats, in their order."""
        wanted = (target, scenario, metric)
        return [r.value for r in self.all if (r.target, r.scenario, r.metric) == wanted]

    def of_metric(self, metric: str) -> list[float]:
        """The values of one metric in every scenario, repeat and target."""
        return [record.value for record in self.all if record.metric == metric]


def median_ms(seconds: Iterable[float]) -> float:
    """The median of times in seconds, as milliseconds."""
    return statistics.median(seconds) * 1000


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that is not below `percent` % of all values (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]
