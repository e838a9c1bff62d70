"""The worker role: a django-q2 cluster for what needs no web process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
import threading
import time
import uuid
from typing import Any

from django.db import DatabaseError, connections
from django_q.cluster import Sentinel
from django_q.signals import post_spawn

from protoagent.journal.services import processes
from protoagent.runtime import runner
from protoagent.server import family

log = logging.getLogger(__name__)

BEAT_EVERY_S = 5.0
HARD_END_S = 10.0
STUCK_AFTER_S = 60.0
BROKEN = 70


def run() -> None:
    """Work off the queue until SIGTERM; running turns then give their leases back.

    When a queue process is killed, the whole role exits with 70 and is started again:
    the killed one may have held a lock of the pipe that all of them read.
    """
    logging.getLogger("django-q").setLevel(logging.WARNING)
    family.follow_in_children(signal.SIGKILL)
    post_spawn.connect(_prepare_queue_process, dispatch_uid="protoagent.server.worker")
    pulse = Pulse()
    guard = Guard(pulse, threading.Event(), uuid.uuid4(), start=False)

    def stop(*_: object) -> None:
        family.end_by(HARD_END_S)
        pulse.set()

    # The sentinel has set handlers of its own by now.
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    guard.start()
    with contextlib.suppress(DatabaseError):
        processes.farewell()


class Pulse(family.StopFlag):
    """django-q2's stop event. Its guard loop waits on it, and so beats as long as it turns."""

    _beat_at = 0.0

    def wait(self, timeout: float) -> bool:
        """Beat if it is time, wait at most `timeout` seconds, and tell whether to stop."""
        if not self.is_set():
            family.end_by(STUCK_AFTER_S)
        now = time.monotonic()
        if now >= self._beat_at:
            self._beat_at = now + BEAT_EVERY_S
            try:
                processes.beat("worker")
            except DatabaseError as error:
                log.warning("heartbeat not stored: %s", error)
                connections.close_all()
        return super().wait(timeout)


class Guard(Sentinel):  # type: ignore[misc]
    """django-q2's sentinel, in the process of the role itself instead of a further one."""

    def reincarnate(self, process: Any) -> None:
        """Replace a process that ended by itself or ran out of time; give up on a killed one."""
        is_over = process in self.pool and int(process.timer.value) in (0, -2)
        if is_over or process.exitcode == 0:
            super().reincarnate(process)
            return
        log.error("a queue process ended unexpectedly, exit code %s", process.exitcode)
        sys.exit(BROKEN)

    def stop(self) -> None:
        """No new work is taken, and what runs is asked to end."""
        for process in self.pool:
            process.terminate()
        super().stop()


def _prepare_queue_process(**_: object) -> None:
    family.rename("protoagent-job")
    signal.signal(signal.SIGTERM, _give_back)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _give_back(*_: object) -> None:
    """The turn that runs here, if any, is given back; the queue process ends after it."""
    mine = runner.here()
    if mine is not None:
        asyncio.run_coroutine_threadsafe(mine.shutdown(), mine.loop)
