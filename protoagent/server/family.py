"""What ties a forked process to its parent, so that none outlives the family."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_POLL_S = 1.0
# Looked up before any fork: children share the page and need no import of their own.
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def follow(parent: int, number: int) -> None:
    """This process gets the signal `number` when `parent` ends, however it ends.

    Linux tells by itself; elsewhere a thread looks once a second. A parent that has
    ended already counts as ended now.
    """
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, number)
    else:
        threading.Thread(
            target=_watch, args=(parent, number), name="parent-watch", daemon=True
        ).start()
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def follow_in_children(number: int) -> None:
    """Every process that this one forks from now on, and theirs in turn, follows its parent."""
    forking_in: list[int] = []

    def begin() -> None:
        # The parent's handlers are about the parent.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        follow(forking_in.pop(), number)

    os.register_at_fork(
        before=lambda: forking_in.append(os.getpid()),
        after_in_parent=forking_in.clear,
        after_in_child=begin,
    )


def rename(name: str) -> None:
    """`ps` and `top` show `name` (at most 15 characters) for this process, where they can."""
    if _libc is not None:
        _libc.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)


class StopFlag:
    """An event that a signal handler may set while the same thread waits for it.

    `threading.Event` may not: its lock is held for a moment around each wait.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)

    def is_set(self) -> bool:
        """Whether it has been set."""
        return self._is_set

    def set(self) -> None:
        """End every wait, now and later."""
        self._is_set = True
        with contextlib.suppress(OSError):
            os.write(self._write, b"!")

    def wait(self, timeout: float) -> bool:
        """Wait until it is set, but at most `timeout` seconds; whether it is."""
        select.select([self._read], [], [], timeout)
        return self._is_set


def end_by(seconds: float) -> None:
    """The process is gone after `seconds`, whatever it waits for, unless this is called again."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _watch(parent: int, number: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_S)
    os.kill(os.getpid(), number)
