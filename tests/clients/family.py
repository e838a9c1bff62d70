"""The processes of a running `serve`, by role, and ways to lose them (Linux: reads /proc)."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from tests.services import shared
from tests.services.servers import Server

ROLES = ("web", "worker", "ticker")


def role_pid(server: Server, role: str) -> int:
    """The process that does `role`; 0 while there is none."""
    assert server.process is not None
    place = f"/proc/{server.process.pid}/task/{server.process.pid}/children"
    for pid in map(int, Path(place).read_text().split()):
        with contextlib.suppress(FileNotFoundError):
            if Path(f"/proc/{pid}/comm").read_text().strip() == f"protoagent-{role}"[:15]:
                return pid
    return 0


def kill_role(server: Server, role: str) -> None:
    """`kill -9` of one role, as soon as it runs."""
    pid = shared.wait_until(lambda: role_pid(server, role), 20)
    assert pid, f"no {role} runs:\n{server.log[-2000:]}"
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_everything(server: Server) -> None:
    """`kill -9` of the supervisor and everything below it at once."""
    assert server.process is not None
    below = list(server.children())
    server.process.kill()
    for pid in below:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    server.process.wait(10)
    assert shared.wait_until(lambda: not any(shared.is_alive(pid) for pid in below), 10)
