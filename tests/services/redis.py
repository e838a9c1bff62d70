"""A Redis server of the run's own, in memory and on a free port."""

from __future__ import annotations

import itertools
import shutil
import socket
import subprocess

import pytest

from tests import run_dir
from tests.services import shared

_numbers = itertools.count()


def _start(binary: str) -> shared.Record:
    port = shared.free_port()
    directory = run_dir.root() / "services" / "redis"
    directory.mkdir()
    process = subprocess.Popen(
        [binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--databases", "64"],
        cwd=directory,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    if not shared.wait_until(lambda: _answers(port), 20):
        raise RuntimeError("Redis did not start")
    return {"pid": process.pid, "port": port}


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as client:
            client.sendall(b"PING\r\n")
            return client.recv(16).startswith(b"+PONG")
    except OSError:
        return False


@pytest.fixture
def redis_url() -> str:
    """REDIS_URL of a database of its own; see `new_database`."""
    return new_database()


def new_database() -> str:
    """REDIS_URL of a database of the run's server that no other test of this worker uses.

    Pub/sub channels are shared by all databases of a server: use session keys of your own.
    """
    binary = shutil.which("redis-server") or shutil.which("valkey-server")
    if binary is None:
        shared.lacking("Redis", "apt-get install redis-server")
        raise AssertionError
    record = shared.once("redis", lambda: _start(binary))
    return f"redis://127.0.0.1:{record['port']}/{next(_numbers) % 64}"
