"""Services that one test run starts once and all its xdist workers use."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import run_dir

Record = dict[str, Any]


def free_port() -> int:
    """A TCP port of the loopback interface that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def lacking(what: str, how: str) -> None:
    """Skip the test for a stranger; fail it in CI, where everything must be there."""
    sentence = f"{what} is not installed; get it with: {how}"
    if os.environ.get("CI") == "true":
        pytest.fail(sentence)
    pytest.skip(sentence)


@contextlib.contextmanager
def _locked(name: str) -> Iterator[Path]:
    directory = run_dir.root() / "services"
    directory.mkdir(exist_ok=True)
    directory.chmod(0o711)
    with (directory / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield directory / f"{name}.json"


def once(name: str, start: Callable[[], Record]) -> Record:
    """What `start` returned in whichever process of the run called it first.

    The record must hold the service's `pid`, by which the run ends it.
    """
    with _locked(name) as file:
        if not file.exists():
            record = start()
            _end_with_the_run(record["pid"])
            file.write_text(json.dumps(record))
        return json.loads(file.read_text())


def _end_with_the_run(pid: int) -> None:
    """The service ends also when the run is killed and can end nothing itself."""
    script = f"while kill -0 {run_dir.owner()}; do sleep 2; done; kill -INT {pid}"
    subprocess.Popen(
        ["sh", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """The path that `make` filled in whichever process of the run asked first."""
    with _locked(name) as file:
        path = file.with_suffix(".d")
        if not path.exists():
            make(path)
        return path


def stop_all() -> None:
    """End every service of this run, gently first."""
    for file in (run_dir.root() / "services").glob("*.json"):
        stop(json.loads(file.read_text())["pid"])
        file.unlink()


def stop(pid: int, signals: tuple[int, ...] = (signal.SIGINT, signal.SIGKILL)) -> None:
    """End one process by its id and wait until it is gone, at most 10 s for each signal."""
    for number in signals:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        if wait_until(lambda: not is_alive(pid), 10):
            return


def is_gone(pid: int) -> bool:
    """Whether `pid` runs no more."""
    return not is_alive(pid)


def is_alive(pid: int) -> bool:
    """Whether `pid` runs; a child that ended is reaped by the way."""
    with contextlib.suppress(ChildProcessError):
        if os.waitpid(pid, os.WNOHANG)[0] == pid:
            return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def wait_until(condition: Callable[[], Any], timeout_s: float, every_s: float = 0.02) -> Any:
    """The first true value of `condition`, or its last false one when time is up."""
    give_up_at = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value or time.monotonic() > give_up_at:
            return value
        time.sleep(every_s)
