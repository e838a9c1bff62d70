"""What is measured. Each function is one scenario; its first line is its description."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

from tests.bench import meter
from tests.bench.drivers import Turn
from tests.bench.records import ELSEWHERE, FAILED, OURS, median_ms
from tests.bench.run import Run, answer_of, new_session

WARM_UP_TURNS = 10
STREAMS = 16
RATES = {1: 60, 8: 160, 32: 320}
LONG_SESSION_TURNS = 100
SOAK_TURNS, SOAK_AT_ONCE = 1000, 4
IDLE_S = 20.0
SETTLE_S = 5.0
CALLS = 10

Scenario = Callable[[Run], Awaitable[None]]


async def idle(run: Run) -> None:
    """Memory and processor time while nothing is asked."""
    await asyncio.sleep(SETTLE_S * run.scale)
    roles = meter.by_role(run.target.pid)
    before = {role: meter.processor_s(pids) for role, pids in roles.items()}
    clock = run.clock()
    await asyncio.sleep(IDLE_S * run.scale)
    wall_s = clock.wall_s
    run.put("idle", "processor", clock.used_s() / wall_s * 100, "% of a core")
    run.put("idle", "memory", meter.memory_mib(meter.family(run.target.pid)), "MiB")
    for role, pids in roles.items():
        used_s = meter.processor_s(pids) - before[role]
        run.put("idle", f"processor, {role}", used_s / wall_s * 100, "% of a core")
        run.put("idle", f"memory, {role}", meter.memory_mib(pids), "MiB")


async def first_token(run: Run) -> None:
    """Answers of one token, then answers at the pace of a real model."""
    turns = await run.in_a_row("say 1", run.count(60))
    run.put_times("one token", "first token", _first(turns))
    run.put_times("one token", "turn", _whole(turns))
    clock = run.clock()
    turns = await run.in_a_row("say 100 every 10 ms", run.count(5))
    run.put("100 tokens at 10 ms", "processor", clock.used_s() / clock.wall_s * 100, "% of a core")
    run.put_times("100 tokens at 10 ms", "first token", _first(turns))
    run.put("100 tokens at 10 ms", "frames a turn", _mean([t.frames for t in turns]), "frames")


async def tools(run: Run) -> None:
    """Turns without a tool call, with one, with ten in a row and with ten at once."""
    medians: dict[str, float] = {}
    for scenario, message, how_many in (
        ("no tool call", "say 1", 30),
        ("1 tool call", "call current_time {}", 30),
        (f"{CALLS} tool calls in a row", f"loop {CALLS} current_time {{}}", 10),
        (f"{CALLS} tool calls at once", f"parallel {CALLS} current_time {{}}", 12),
    ):
        clock, count = run.clock(), run.count(how_many)
        turns = await run.in_a_row(message, count)
        run.put(scenario, "processor time a turn", clock.used_s() / count * 1000, "ms")
        run.put_times(scenario, "turn", _whole(turns))
        medians[scenario] = median_ms(_whole(turns)) if turns else 0.0
    further = medians[f"{CALLS} tool calls in a row"] - medians["1 tool call"]
    run.put(f"{CALLS} tool calls in a row", "each further call", further / (CALLS - 1), "ms")


async def relay(run: Run) -> None:
    """Tokens a second when the model is never what holds them up."""
    for scenario, tokens, streams in (
        ("1 stream", 3000, 1),
        (f"{STREAMS} streams", 500, STREAMS),
    ):
        turns, took_s = await run.together(f"say {tokens}", streams, streams)
        garbled = sum(turn.text.strip() != answer_of(tokens).strip() for turn in turns)
        run.put(scenario, "relayed", tokens * len(turns) / took_s, "tokens/s")
        run.put_times(scenario, "first token", _first(turns))
        run.put(scenario, "garbled answers", garbled, "turns")


async def busy(run: Run) -> None:
    """The first token of a further user while sixteen answers are being streamed."""
    tokens = run.count(600, least=300)
    async with contextlib.AsyncExitStack() as stack:
        drivers = [await stack.enter_async_context(run.target.open()) for _ in range(STREAMS)]
        streams = [
            asyncio.create_task(driver.turn(f"say {tokens} every 10 ms", new_session()))
            for driver in drivers
        ]
        await asyncio.sleep(1.0)
        turns = await run.in_a_row("say 1", run.count(30))
        still_running = sum(not stream.done() for stream in streams)
        streamed = run.good(list(await asyncio.gather(*streams)))
    scenario = f"while {STREAMS} streams run"
    run.put_times(scenario, "first token", _first(turns))
    run.put(scenario, "streams that outlasted it", still_running, "streams")
    garbled = sum(turn.text.strip() != answer_of(tokens).strip() for turn in streamed)
    run.put(scenario, "garbled answers", garbled, "turns")


async def rate(run: Run) -> None:
    """Short turns a second, each in a session of its own, for 1, 8 and 32 users at once."""
    for at_once, how_many in RATES.items():
        scenario, count, clock = f"{at_once} at once", run.count(how_many, at_once), run.clock()
        turns, took_s = await run.together("say 20", count, at_once)
        run.put(scenario, "rate", len(turns) / took_s, "turns/s")
        run.put(scenario, "failed", count - len(turns), "turns")
        run.put(scenario, "processor time a turn", clock.used_s() / count * 1000, "ms")
        run.put_times(scenario, "turn", _whole(turns))
        run.put_times(scenario, "first token", _first(turns))


async def long_session(run: Run) -> None:
    """What a growing history costs: a hundred turns in one session."""
    turns = await run.in_a_row("say 20", LONG_SESSION_TURNS, new_session())
    scenario = f"session of {LONG_SESSION_TURNS} turns"
    run.put_times(scenario, "turn", _whole(turns))
    for first in (1, 21, LONG_SESSION_TURNS - 9):
        part = turns[first - 1 : first + 9]
        run.put_times(scenario, f"turns {first}-{first + 9}", _whole(part))


async def soak(run: Run) -> None:
    """Memory before and after a thousand turns, each in a session of its own."""
    count = run.count(SOAK_TURNS)
    roles = meter.by_role(run.target.pid)
    before = {role: meter.memory_mib(pids) for role, pids in roles.items()}
    turns, took_s = await run.together("say 20", count, SOAK_AT_ONCE)
    after = {role: meter.memory_mib(pids) for role, pids in roles.items()}
    scenario = f"{SOAK_TURNS:,} turns"
    grown = sum(after.values()) - sum(before.values())
    run.put(scenario, "memory before", sum(before.values()), "MiB")
    run.put(scenario, "memory after", sum(after.values()), "MiB")
    run.put(scenario, "growth a turn", grown * 1024 / count, "KiB")
    for role in roles:
        grown = after[role] - before[role]
        run.put(scenario, f"growth a turn, {role}", grown * 1024 / count, "KiB")
    run.put(scenario, "rate", len(turns) / took_s, "turns/s")
    run.put(scenario, "failed", count - len(turns), "turns")
    in_order = sorted(turns, key=lambda turn: turn.started)
    tenth = max(1, count // 10)
    run.put_times(scenario, "turn, first tenth", _whole(in_order[:tenth]))
    run.put_times(scenario, "turn, last tenth", _whole(in_order[-tenth:]))


# In the order in which they run. `startup` is the stage's own: it starts the server.
SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (idle, first_token, tools, relay, busy, rate, long_session, soak)
}
WITH_A_LIMIT = ("first_token", "tools", "relay", "busy", "rate")
COLD = ("idle",)
# Not to be had twice: a second soak on the same server would grow less.
ONCE = ("idle", "soak")


async def warm_up(run: Run) -> None:
    """The first turns of a process are not what a scenario is about."""
    await run.in_a_row("say 1", WARM_UP_TURNS)


async def measured(run: Run, name: str, limit_s: float) -> None:
    """Run one scenario, at most `limit_s` seconds; its noise and failed turns are recorded."""
    if name not in COLD:
        await warm_up(run)
    failed, clock = run.failures.total(), run.clock()
    began = time.monotonic()
    async with asyncio.timeout(limit_s):
        await SCENARIOS[name](run)
    run.put(name, FAILED, run.failures.total() - failed, "turns")
    run.put(name, ELSEWHERE, clock.elsewhere_percent(), "% of a core")
    run.put(name, "took", time.monotonic() - began, "s")


def applies(name: str, target: str) -> bool:
    """Whether the scenario says anything about this target."""
    return target == OURS or name in WITH_A_LIMIT


def _first(turns: list[Turn]) -> list[float]:
    return [turn.first_text_s for turn in turns]


def _whole(turns: list[Turn]) -> list[float]:
    return [turn.total_s for turn in turns]


def _mean(numbers: list[int]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0
