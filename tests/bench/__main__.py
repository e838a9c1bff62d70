"""Measure what the product adds on top of its model.

JSON lines on standard output, one for each value; then a table of the medians beside the
goals. The line that no server can go below ("limit") is measured in the same run: the
same turns, straight on the gateway.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections import Counter
from dataclasses import replace
from types import FrameType

from tests.bench import document, goals, meter, scenarios, stage
from tests.bench.records import Records
from tests.bench.run import Run, Target

STARTUP = "startup"
NAMES = (STARTUP, *scenarios.SCENARIOS)
QUICK = 0.1
SCENARIO_LIMIT_S = 240.0
PATIENCE_S = 60.0
ATTEMPTS = 3
DISTURBED_PERCENT = 25.0


def options_of(arguments: list[str]) -> argparse.Namespace:
    """The command line, checked."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="scenario", help=", ".join(NAMES))
    parser.add_argument("--repeats", type=int, default=0, help="5, or 1 when quick")
    parser.add_argument("--quick", action="store_true", help="a tenth of the turns, for a look")
    parser.add_argument(
        "--wait-for-quiet",
        action="store_true",
        help="wait up to a minute for a machine that does nothing else before a scenario, and"
        f" keep the quietest of {ATTEMPTS} attempts at one that was disturbed",
    )
    parser.add_argument(
        "--database-url",
        default=os.environ.get("DATABASE_URL", ""),
        help="a PostgreSQL server on which databases may be made; SQLite without one",
    )
    parser.add_argument(
        "--write-doc", action="store_true", help="put the table into docs/performance.md"
    )
    options = parser.parse_args(arguments)
    if unknown := set(options.scenarios) - set(NAMES):
        parser.error(f"no scenario {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    if options.write_doc and (options.scenarios or options.quick):
        parser.error("--write-doc needs every scenario in full")
    options.repeats = options.repeats or (1 if options.quick else 5)
    if not 1 <= options.repeats <= 20:
        parser.error("between 1 and 20 repeats")
    options.scenarios = options.scenarios or list(NAMES)
    return options


class Bench:
    """All repeats of one call."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.records = Records(out=sys.stdout)
        self.failures: Counter[str] = Counter()

    async def run(self) -> None:
        """Every repeat has a fresh server and database, and the limit measured beside it."""
        url = self.options.database_url
        with stage.gateway() as gateway:
            others = (gateway.target.pid, *filter(None, [stage.database_pid(url)]))
            for repeat in range(self.options.repeats):
                await self._scenarios(gateway.target, repeat)
                with stage.server(gateway.base, url) as server:
                    first = await stage.start(server, others)
                    server.stop()
                    self._wait()
                    again = await stage.start(server, others)
                    if STARTUP in self.options.scenarios:
                        first.put(self._one(first.target, repeat), goals.FIRST_START)
                        again.put(self._one(again.target, repeat), goals.NEXT_START)
                    await self._scenarios(again.target, repeat)

    def _one(self, target: Target, repeat: int) -> Run:
        scale = QUICK if self.options.quick else 1.0
        return Run(target, self.records, repeat, scale, self.failures)

    async def _scenarios(self, target: Target, repeat: int) -> None:
        for name in scenarios.SCENARIOS:
            if name in self.options.scenarios and scenarios.applies(name, target.name):
                await self._scenario(name, self._one(target, repeat))

    async def _scenario(self, name: str, run: Run) -> None:
        """The values of one scenario; chosen by the noise beside it, never by themselves."""
        may_repeat = self.options.wait_for_quiet and name not in scenarios.ONCE
        tries: list[Records] = []
        for _ in range(ATTEMPTS if may_repeat else 1):
            self._wait()
            tries.append(Records())
            await scenarios.measured(replace(run, records=tries[-1]), name, SCENARIO_LIMIT_S)
            if tries[-1].noise <= DISTURBED_PERCENT:
                break
        for record in min(tries, key=lambda one: one.noise).all:
            self.records.add(record)

    def _wait(self) -> None:
        if self.options.wait_for_quiet:
            meter.wait_until_quiet(PATIENCE_S)


def _end(number: int, frame: FrameType | None) -> None:
    # An exception, so that whatever was started is ended too.
    raise SystemExit(128 + number)


def main(arguments: list[str]) -> int:
    """Measure and print; 0 unless turns have failed."""
    options = options_of(arguments)
    signal.signal(signal.SIGTERM, _end)
    bench = Bench(options)
    asyncio.run(bench.run())
    database = "PostgreSQL" if options.database_url.startswith("postgres") else "SQLite"
    block = "\n\n".join(
        (
            goals.conditions(bench.records, database),
            goals.table(bench.records),
            goals.verdict(bench.records),
        )
    )
    print(f"\n{block}", flush=True)
    for reason, count in bench.failures.most_common(10):
        print(f"{count} failed turns: {reason}", file=sys.stderr)
    if options.write_doc:
        document.write(database, block)
    return 1 if bench.failures else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1:]))
    sys.exit(130)
