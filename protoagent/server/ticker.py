"""The ticker role: twice a second it sends on what is due."""

from __future__ import annotations

import contextlib
import logging
import signal
import time

from django.db import DatabaseError, close_old_connections, connections

from protoagent import workers
from protoagent.journal.services import leases, processes
from protoagent.server import family

log = logging.getLogger(__name__)

TICK_EVERY_S = 0.5
BEAT_EVERY_S = 5.0
LOOK_EVERY_S = 1.0
TIDY_EVERY_S = 60.0
HARD_END_S = 8.0
STUCK_AFTER_S = 120.0


def run() -> None:
    """Tick until SIGTERM. A failing tick is logged and tried again, at most every 5 s."""
    stopping = family.StopFlag()

    def stop(*_: object) -> None:
        family.end_by(HARD_END_S)
        stopping.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    beat_at = tidy_at = look_at = 0.0
    pause = TICK_EVERY_S
    while not stopping.wait(pause):
        now = time.monotonic()
        family.end_by(STUCK_AFTER_S)
        try:
            if now >= beat_at:
                close_old_connections()
                processes.beat("ticker")
                beat_at = now + BEAT_EVERY_S
            if now >= look_at:
                leases.end_of_dead_relatives()
                look_at = now + LOOK_EVERY_S
            workers.tick()
            if now >= tidy_at:
                workers.tidy()
                tidy_at = now + TIDY_EVERY_S
            pause = TICK_EVERY_S
        except Exception:
            log.exception("a tick failed")
            connections.close_all()
            pause = min(pause * 2, BEAT_EVERY_S)
    with contextlib.suppress(DatabaseError):
        processes.farewell()
