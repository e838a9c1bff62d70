"""The listening socket, and the rule that one home is served once."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

from protoagent.core.errors import BadValue, Conflict

BACKLOG = 1024
PATIENCE_S = 15.0


def open_socket(host: str, port: int) -> socket.socket:
    """A socket that listens on `host` and `port` already, before anything answers there.

    The supervisor keeps it open, so that connections made while the web process is
    started again wait instead of failing. Raises Conflict when the port is taken and
    BadValue when the address cannot be used.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.create_server(address[:2], family=family, backlog=BACKLOG)
        # Twisted accepts until there is nothing more, and would wait for it here.
        listener.setblocking(False)
        return listener
    except OSError as error:
        raise _explain(error, host, port) from None


def _explain(error: OSError, host: str, port: int) -> Conflict | BadValue:
    if error.errno == errno.EADDRINUSE:
        return Conflict(
            f"port {port} on {host} is in use; stop what listens there or choose another --port"
        )
    if error.errno == errno.EACCES:
        return BadValue(f"not allowed to listen on port {port}; choose one above 1023")
    return BadValue(f"cannot listen on {host} port {port}: {error.strerror or error}")


def url(host: str, port: int) -> str:
    """Where a browser on this machine finds the console, without a slash at the end."""
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104 — a wildcard is no name to call
    if ":" in name and not name.startswith("["):
        name = f"[{name}]"
    return f"http://{name}:{port}"


def claim_home(file: Path, boot_id: str, say: Callable[[str], None]) -> str:
    """This process and its children hold the exclusive lock on `file`; the previous boot id.

    Forked processes inherit the lock, so once it is had, nobody of the previous family
    lives. The processes of a killed supervisor are waited for. Raises Conflict while
    another supervisor lives.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    give_up_at = time.monotonic() + PATIENCE_S
    told = False
    while not _try_lock(descriptor):
        owner = _read(descriptor)[0]
        if _is_alive(owner) or time.monotonic() > give_up_at:
            os.close(descriptor)
            raise Conflict(f"{file.parent.parent} is served already, by process {owner or '?'}")
        if not told:
            say("waiting for the processes of a killed server to end …")
            told = True
        time.sleep(0.1)
    _, previous = _read(descriptor)
    os.truncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()} {boot_id}".encode(), 0)
    return previous


def _read(descriptor: int) -> tuple[str, str]:
    """The process id and the boot id of the supervisor that had the lock last."""
    pid, _, boot_id = os.pread(descriptor, 100, 0).decode("ascii", "ignore").partition(" ")
    return pid.strip(), boot_id.strip()


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_alive(pid: str) -> bool:
    if not pid.isdecimal():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
