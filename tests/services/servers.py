"""The real product as real processes: `serve` on a free port with a home of its own."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests import run_dir
from tests.services import postgres, shared

CHECKOUT = Path(__file__).resolve().parents[2]
_SIGN_IN = re.compile(r"https?://\S+/login/[^\s/]+/")


@dataclass
class Server:
    """One `serve`, running or not. Stopping and starting it again keeps its home.

    `token` is an operator's bearer token. `log` holds what all starts printed.
    """

    home: Path
    environment: dict[str, str]
    arguments: list[str] = field(default_factory=list)
    port: int = field(default_factory=shared.free_port)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where the console is, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """Everything printed so far."""
        file = self.home.parent / f"{self.home.name}.log"
        return file.read_text(errors="replace") if file.exists() else ""

    @property
    def sign_in_link(self) -> str:
        """The one-time link that the last start printed."""
        return _SIGN_IN.findall(self.log)[-1]

    def client(self, **kwargs: Any) -> httpx.Client:
        """An HTTP client that is the operator."""
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30, **kwargs)

    def manage(self, *arguments: str, **kwargs: Any) -> subprocess.CompletedProcess[str]:
        """Run a management command beside the server, on the same home; its output is captured."""
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            **{
                "cwd": CHECKOUT,
                "env": self.full_environment(),
                "capture_output": True,
                "text": True,
                "timeout": 60,
                "check": False,
                **kwargs,
            },
        )

    def full_environment(self) -> dict[str, str]:
        """What the processes of this server see; nothing of the developer's own configuration."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {
            **kept,
            "PROTOAGENT_HOME": str(self.home),
            "PROTOAGENT_PORT": str(self.port),
            "PROTOAGENT_TOKEN": self.token,
            "PYTHONPATH": os.pathsep.join([str(CHECKOUT / "tests/offline"), str(CHECKOUT)]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OLLAMA_HOST": "http://127.0.0.1:9",
            **self.environment,
        }

    def start(self, *, wait: bool = True) -> Server:
        """The server runs; with `wait` it is also ready, or the test fails with its log."""
        with (self.home.parent / f"{self.home.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "serve", *self.arguments],
                cwd=CHECKOUT,
                env=self.full_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if wait and not shared.wait_until(self._is_ready_or_gone, 40, 0.05):
            pytest.fail(f"the server did not become ready:\n{self.log}")
        if wait and self.process.poll() is not None:
            pytest.fail(f"the server ended with {self.process.returncode}:\n{self.log}")
        return self

    def _is_ready_or_gone(self) -> bool:
        return self.process is None or self.process.poll() is not None or self.is_ready()

    def is_ready(self) -> bool:
        """Whether /readyz answers 200."""
        return self.answers("/readyz")

    def answers(self, path: str) -> bool:
        """Whether `path` answers 200."""
        try:
            return httpx.get(f"{self.url}{path}", timeout=2).status_code == 200
        except httpx.HTTPError:
            return False

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of one SELECT on the server's own database."""
        url = self.environment.get("DATABASE_URL")
        if url:
            with psycopg.connect(url) as connection:
                return connection.execute(statement).fetchall()  # type: ignore[call-overload]
        with contextlib.closing(sqlite3.connect(self.home / "db.sqlite3", timeout=20)) as database:
            return database.execute(statement).fetchall()

    def children(self) -> dict[int, str]:
        """Process id → command line of every process below the supervisor (Linux)."""
        found: dict[int, str] = {}
        queue = [self.process.pid] if self.process else []
        for parent in queue:
            for file in Path(f"/proc/{parent}/task").glob("*/children"):
                queue += [int(pid) for pid in file.read_text().split()]
        for pid in queue[1:]:
            line = Path(f"/proc/{pid}/cmdline")
            if line.exists():
                found[pid] = line.read_bytes().replace(b"\0", b" ").decode().strip()
        return found

    def stop(self, number: int = signal.SIGTERM) -> int | None:
        """Signal the supervisor, wait for it, and return its exit code."""
        if self.process is None:
            return None
        below = list(self.children())
        if self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(5)
        for pid in below:
            if not shared.wait_until(partial(shared.is_gone, pid), 10):
                shared.stop(pid, (signal.SIGKILL,))
        return self.process.returncode


ServerFactory = Callable[..., Server]


def _new_home(*, bare: bool) -> Path:
    """A home as an earlier start has left it, with an empty journal; or one with nothing in it."""
    home = Path(tempfile.mkdtemp(prefix="home-", dir=run_dir.root()))
    if not bare:
        template = shared.made_once("template-home", _make_template)
        shutil.copy(template / "db.sqlite3", home)
        shutil.copytree(template / "static", home / "static", copy_function=os.link)
    return home


def _make_template(home: Path) -> None:
    home.mkdir(mode=0o700)
    server = Server(home, {}, ["--role", "web"]).start(wait=False)
    shared.wait_until(lambda: server.answers("/healthz"), 60, 0.05)
    server.stop()


@contextlib.contextmanager
def _database() -> Iterator[dict[str, str]]:
    """The environment that names a server's database: PostgreSQL when the run is on PostgreSQL."""
    if not os.environ.get("DATABASE_URL", "").startswith("postgres"):
        yield {}
        return
    with postgres.scratch_database() as url:
        yield {"DATABASE_URL": url}


@contextlib.contextmanager
def servers() -> Iterator[ServerFactory]:
    """`make(env={…}, arguments=[…], home=…, start=True)` → Server, ended with the block.

    With `bare` its home has no database yet, as on a first start.
    """
    ending = contextlib.ExitStack()

    def make(
        env: dict[str, str] | None = None,
        arguments: list[str] | None = None,
        *,
        home: Path | None = None,
        start: bool = True,
        bare: bool = False,
    ) -> Server:
        database = ending.enter_context(_database())
        place = home or _new_home(bare=bare or bool(database))
        server = Server(place, {**database, **(env or {})}, arguments or [])
        ending.callback(server.stop)
        return server.start() if start else server

    with ending:
        yield make


@pytest.fixture
def make_server() -> Iterator[ServerFactory]:
    """`servers`, ended after the test."""
    with servers() as make:
        yield make


@pytest.fixture
def server(make_server: ServerFactory) -> Server:
    """A ready server of this test's own: offline model, all roles."""
    return make_server()


@pytest.fixture(scope="module")
def shared_server() -> Iterator[Server]:
    """A ready server for all tests of a module; use session keys of your own."""
    with _database() as environment:
        server = Server(_new_home(bare=bool(environment)), environment).start()
        yield server
        server.stop()
