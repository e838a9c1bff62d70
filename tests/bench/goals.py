"""The figures to beat, and the table that sets the measured ones beside them."""

from __future__ import annotations

import os
import platform
import statistics
from dataclasses import dataclass

from tests.bench.records import ELSEWHERE, FAILED, LIMIT, OURS, Records

LOWER, HIGHER = "≤", "≥"


@dataclass(frozen=True)
class Row:
    """One line of the table. `original` is protoAgent 0.145, its stream and in brackets REST."""

    label: str
    scenario: str
    metric: str
    unit: str
    original: str = "–"
    sign: str = ""
    goal: float = 0.0

    def reached(self, value: float) -> str:
        """`yes` or `no`, or nothing where there is no goal."""
        if not self.sign:
            return ""
        return "yes" if (value <= self.goal if self.sign == LOWER else value >= self.goal) else "no"


IN_A_ROW, AT_ONCE = "10 tool calls in a row", "10 tool calls at once"
CPU = "processor time a turn"
SESSION = "session of 100 turns"
BUSY = "while 16 streams run"
FIRST_START, NEXT_START = "first start, new database", "start"
DONE = "until the first turn is done"

ROWS = (
    Row("first token, one-token answer, p50", "one token", "first token p50", "ms",
        "63 [47]", LOWER, 15),
    Row("the same, p99", "one token", "first token p99", "ms"),
    Row("whole turn, no tool", "no tool call", "turn p50", "ms", "75 [45]", LOWER, 20),
    Row("whole turn, one tool call", "1 tool call", "turn p50", "ms"),
    Row("whole turn, ten tool calls in a row", IN_A_ROW, "turn p50", "ms"),
    Row("each further tool call in a row", IN_A_ROW, "each further call", "ms",
        "54 [40]", LOWER, 10),
    Row("whole turn, ten tool calls at once", AT_ONCE, "turn p50", "ms", "300 [115]", LOWER, 60),
    Row("processor time of a turn without a tool", "no tool call", CPU, "ms",
        "80 [44]", LOWER, 15),
    Row("processor time of a turn with one tool call", "1 tool call", CPU, "ms",
        "130 [83]", LOWER, 25),
    Row("relay, one stream", "1 stream", "relayed", "tokens/s", "686 [2,147]", HIGHER, 10_000),
    Row("relay, 16 streams together", "16 streams", "relayed", "tokens/s",
        "725 [2,823]", HIGHER, 10_000),
    Row("first token of 16 streams that start together, p50", "16 streams", "first token p50",
        "ms", "1,092", LOWER, 60),
    Row("first token of a 17th turn while 16 paced streams run, p50", BUSY, "first token p50",
        "ms", "–", LOWER, 60),
    Row("turns, 1 at once", "1 at once", "rate", "turns/s", "9.1 [16]", HIGHER, 45),
    Row("turns, 8 at once", "8 at once", "rate", "turns/s", "9.5 [19]", HIGHER, 60),
    Row("turns, 32 at once", "32 at once", "rate", "turns/s", "9.3 [20]", HIGHER, 60),
    Row("failed turns, 32 at once", "32 at once", "failed", "turns", "–", LOWER, 0),
    Row("turn in a session of 100 turns, p50", SESSION, "turn p50", "ms", "126", LOWER, 25),
    Row("its turns 1 to 10, p50", SESSION, "turns 1-10 p50", "ms"),
    Row("its turns 21 to 30, p50", SESSION, "turns 21-30 p50", "ms"),
    Row("its turns 91 to 100, p50", SESSION, "turns 91-100 p50", "ms", "–", LOWER, 25),
    Row("memory idle, all processes together (PSS)", "idle", "memory", "MiB",
        "188 to 219, one process", LOWER, 260),
    Row("memory growth over 1,000 turns", "1,000 turns", "growth a turn", "KiB a turn",
        "9.8", LOWER, 2),
    Row("processor use idle, all roles", "idle", "processor", "% of a core", "0.65", LOWER, 1),
    Row("start until HTTP 200", NEXT_START, "until HTTP 200", "ms", "2,900", LOWER, 3000),
    Row("start until the first turn is done", NEXT_START, DONE, "ms", "3,500", LOWER, 3500),
    Row("first start, which makes the database, until HTTP 200", FIRST_START, "until HTTP 200",
        "ms"),
    Row("the same, until the first turn is done", FIRST_START, DONE, "ms"),
)  # fmt: skip

HEADER = ("Scenario", "Unit", "Limit", "Measured", "Original", "Goal", "Reached")


def table(records: Records) -> str:
    """Markdown: the medians of the repeats, with the least and the most of them."""
    lines = [HEADER, tuple("---" for _ in HEADER)]
    for row in ROWS:
        ours = records.values(OURS, row.scenario, row.metric)
        if ours:
            lines.append(_cells(row, records.values(LIMIT, row.scenario, row.metric), ours))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def conditions(records: Records, database: str) -> str:
    """One sentence: where, how often and beside how much noise it was measured."""
    repeats = len({record.repeat for record in records.all})
    noise = records.of_metric(ELSEWHERE) or [0.0]
    failed = sum(records.of_metric(FAILED))
    return (
        f"{os.cpu_count()} cores, Python {'.'.join(platform.python_version_tuple()[:2])}, "
        f"{database}, {repeats} {'repeat' if repeats == 1 else 'repeats'}; "
        f"failed turns: {failed:.0f}; "
        f"processor used elsewhere: {statistics.median(noise):.0f} % of a core in the median "
        f"scenario, {max(noise):.0f} % in the noisiest."
    )


def missed(records: Records) -> list[str]:
    """The labels of the rows whose median does not reach its goal."""
    found = []
    for row in ROWS:
        values = records.values(OURS, row.scenario, row.metric)
        if values and row.reached(statistics.median(values)) == "no":
            found.append(row.label)
    return found


def verdict(records: Records) -> str:
    """One sentence: which goals are not reached."""
    labels = missed(records)
    return f"Not reached: {'; '.join(labels)}." if labels else "Every goal is reached."


def _cells(row: Row, limit: list[float], ours: list[float]) -> tuple[str, ...]:
    goal = f"{row.sign} {short(row.goal)}" if row.sign else ""
    measured = figure(ours)
    return (
        row.label,
        row.unit,
        short(statistics.median(limit)) if limit else "–",
        measured,
        row.original,
        goal,
        row.reached(statistics.median(ours)),
    )


def figure(values: list[float]) -> str:
    """The median, and between which two the values lie when there are several."""
    text = short(statistics.median(values))
    if len(values) == 1:
        return text
    return f"{text} ({short(min(values))} to {short(max(values))})"


def short(value: float) -> str:
    """Three digits of what has a fraction, whole numbers with thousands set apart."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
