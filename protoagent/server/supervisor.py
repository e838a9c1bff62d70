"""Keeps a few forked processes running until it is told to stop.

The supervisor itself holds no thread, no database connection and no event loop: that is
what makes forking from it sound, at the start and at every restart.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from protoagent.server import family

log = logging.getLogger(__name__)

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
DELAYS_S = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
STEADY_AFTER_S = 30.0


@dataclass
class Child:
    """One role and the process that does it now, if any."""

    name: str
    run: Callable[[], None]
    pid: int = 0
    started_at: float = 0.0
    failures: int = 0
    due_at: float = 0.0


class Supervisor:
    """Runs each of `roles` in a process of its own and starts it again when it ends.

    A role is a function that returns when its process has got SIGTERM. Each process leads
    a session of its own, so that stopping it also stops what it has started, and follows
    the supervisor when that is killed. `say` gets one line for each thing an operator
    should know.
    """

    def __init__(
        self,
        roles: dict[str, Callable[[], None]],
        *,
        say: Callable[[str], None] = print,
        grace_s: float = 12.0,
    ) -> None:
        self._children = [Child(name, run) for name, run in roles.items()]
        self._say = say
        self._grace_s = grace_s
        self._stops = 0
        self._wake_read, self._wake_write = os.pipe()

    def run(self) -> None:
        """Returns when everything has been stopped, after SIGTERM, SIGINT or SIGHUP."""
        self._install()
        try:
            while not self._stops:
                self._start_due()
                self._sleep(self._next_due())
                self._reap()
            self._stop_all()
        finally:
            self._kill_all()

    def _install(self) -> None:
        for descriptor in (self._wake_read, self._wake_write):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in STOP_SIGNALS:
            signal.signal(number, self._on_stop)
        # A handler, because an ignored SIGCHLD would not write to the wake-up pipe.
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _on_stop(self, *_: object) -> None:
        self._stops += 1

    def _sleep(self, until: float | None) -> None:
        """Until a signal comes or it is `until`; an idle supervisor uses no processor time."""
        timeout = None if until is None else max(0.0, until - time.monotonic())
        select.select([self._wake_read], [], [], timeout)
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)

    def _next_due(self) -> float | None:
        return min((child.due_at for child in self._children if not child.pid), default=None)

    def _start_due(self) -> None:
        now = time.monotonic()
        for child in self._children:
            if not child.pid and child.due_at <= now:
                child.started_at = now
                child.pid = self._fork(child)

    def _fork(self, child: Child) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        supervisor = os.getpid()
        # A signal that comes between the fork and the child's own handlers would be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
            return pid
        code = 1
        try:
            self._become(supervisor, child.name)
            child.run()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:  # noqa: BLE001 — the outermost frame of a process; nothing sees it after this
            traceback.print_exc()
        finally:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _become(self, supervisor: int, name: str) -> None:
        signal.set_wakeup_fd(-1)
        for number in (*STOP_SIGNALS, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        os.close(self._wake_read)
        os.close(self._wake_write)
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        family.rename(f"protoagent-{name}")
        family.follow(supervisor, signal.SIGTERM)

    def _reap(self) -> None:
        """Take note of every child that has ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            child = next((one for one in self._children if one.pid == pid), None)
            if child is not None:
                self._ended(child, status)

    def _ended(self, child: Child, status: int) -> None:
        _kill_group(child.pid)
        child.pid = 0
        now = time.monotonic()
        if self._stops:
            return
        child.failures = 0 if now - child.started_at > STEADY_AFTER_S else child.failures + 1
        delay = DELAYS_S[min(max(child.failures - 1, 0), len(DELAYS_S) - 1)]
        child.due_at = now + delay
        self._say(f"{child.name} {_describe(status)}; starting it again in {delay:g} s")

    def _stop_all(self) -> None:
        """Ask every child to end and wait for it; a second signal ends the wait."""
        self._say("stopping …")
        give_up_at = time.monotonic() + self._grace_s
        stops = self._stops
        for child in self._running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGTERM)
        while self._running() and self._stops == stops and time.monotonic() < give_up_at:
            self._sleep(give_up_at)
            self._reap()
        if names := [child.name for child in self._running()]:
            self._say(f"{', '.join(names)} did not end in time and is killed")
        else:
            self._say("stopped")

    def _running(self) -> list[Child]:
        return [child for child in self._children if child.pid]

    def _kill_all(self) -> None:
        for child in self._running():
            _kill_group(child.pid)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child.pid, 0)
            child.pid = 0


def _kill_group(leader: int) -> None:
    """What the ended or unwilling `leader` has started ends now, and so does the leader."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _describe(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
        return f"was killed by signal {-code}"
    return "ended" if code == 0 else f"failed with exit code {code}"
