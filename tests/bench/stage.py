"""The processes of a run: one gateway, and a fresh server for every repeat."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg

from tests.bench import meter
from tests.bench.drivers import ChatDriver, GatewayDriver
from tests.bench.records import ELSEWHERE, LIMIT, OURS
from tests.bench.run import Run, Target, new_session
from tests.services.servers import CHECKOUT, Server

POLL_S = 0.01
START_LIMIT_S = 60.0


@dataclass(frozen=True)
class Gateway:
    """The scripted gateway, which is also the limit. `base` is what `model.api_base` should be."""

    base: str
    target: Target


@contextlib.contextmanager
def gateway() -> Iterator[Gateway]:
    """A gateway in a process of its own, until the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.fakes.gateway", "--port", "0"],
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        base = process.stdout.readline().rpartition(" ")[2].strip()
        yield Gateway(base, Target(LIMIT, partial(GatewayDriver, base), process.pid))
    finally:
        process.kill()
        process.wait(10)


@contextlib.contextmanager
def server(base: str, database_url: str) -> Iterator[Server]:
    """A server, not running yet, with a home and a database that nothing has used."""
    with (
        tempfile.TemporaryDirectory(prefix="protoagent-bench-") as scratch,
        _fresh_database(database_url) as database,
    ):
        home = Path(scratch) / "home"
        home.mkdir(mode=0o700)
        one = Server(home, {**_environment(base), **database})
        try:
            yield one
        finally:
            one.stop()


def _environment(base: str) -> dict[str, str]:
    return {
        "PROTOAGENT__MODEL__API_BASE": base,
        "PROTOAGENT__MODEL__NAME": "fake-model",
        "PROTOAGENT__MODEL__API_KEY": "x",
        # As an operator starts it: compiled modules are kept, nothing is patched.
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPATH": "",
    }


@contextlib.contextmanager
def _fresh_database(url: str) -> Iterator[dict[str, str]]:
    """Nothing for SQLite; an empty database on the PostgreSQL server of `url`, dropped again."""
    if not url.startswith("postgres"):
        yield {}
        return
    base, name = url.rpartition("/")[0], f"bench_{time.time_ns()}"

    def execute(statement: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[call-overload]

    execute(f'CREATE DATABASE "{name}"')
    try:
        yield {"DATABASE_URL": f"{base}/{name}"}
    finally:
        execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def database_pid(url: str) -> int | None:
    """The PostgreSQL server behind `url` when it is a process of this machine."""
    if not url.startswith("postgres"):
        return None
    with psycopg.connect(url) as connection:
        pid = meter.parent(connection.info.backend_pid)
    return pid if pid and meter.name_of(pid) == "postgres" else None


@dataclass(frozen=True)
class Start:
    """A server that has just been started, and how long that took."""

    target: Target
    answered_s: float
    first_turn_s: float
    elsewhere_percent: float

    def put(self, run: Run, scenario: str) -> None:
        """Record the times under this name."""
        run.put(scenario, "until HTTP 200", self.answered_s * 1000, "ms")
        run.put(scenario, "until the first turn is done", self.first_turn_s * 1000, "ms")
        run.put(scenario, ELSEWHERE, self.elsewhere_percent, "% of a core")


async def start(one: Server, others: tuple[int, ...]) -> Start:
    """The server runs and has had one turn. `others` belong to the benchmark too.

    Raises RuntimeError, with what the server printed, when it does not get there in a minute.
    """
    clock, began = meter.Clock(os.getpid(), others), time.perf_counter()
    one.start(wait=False)
    assert one.process is not None
    while not _answers(one.port):
        if one.process.poll() is not None or time.perf_counter() - began > START_LIMIT_S:
            raise RuntimeError(f"the server does not answer:\n{one.log}")
        await asyncio.sleep(POLL_S)
    answered_s = time.perf_counter() - began
    running = Target(OURS, partial(ChatDriver, one.url, one.token), one.process.pid, others)
    async with running.open() as driver:
        turn = await driver.turn("say 1", new_session())
    if not turn.is_good:
        raise RuntimeError(f"the first turn failed: {turn.error}\n{one.log}")
    first_turn_s = time.perf_counter() - began
    return Start(running, answered_s, first_turn_s, clock.elsewhere_percent())


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
