"""Which processes of this instance are alive."""

from __future__ import annotations

import os
import socket
from datetime import timedelta

from protoagent.core import clock
from protoagent.core.ids import new_id
from protoagent.journal.models import Heartbeat

BOOT_ID = new_id("b")
STALE_AFTER_S = 15.0


def holder() -> str:
    """The name under which this process claims turns and runs calls."""
    return f"{socket.gethostname()[:60]}:{os.getpid()}:{BOOT_ID}"


def beat(role: str) -> None:
    """Record that this process does `role`, now. Rows older than an hour go away."""
    now = clock.now()
    mine = {"role": role, "host": socket.gethostname()[:120], "pid": os.getpid()}
    if not Heartbeat.objects.filter(**mine, boot_id=BOOT_ID).update(at=now):
        Heartbeat.objects.create(**mine, boot_id=BOOT_ID, started_at=now, at=now)
        Heartbeat.objects.filter(at__lt=now - timedelta(hours=1)).delete()


def farewell() -> None:
    """Forget the heartbeats of this process; it is about to end."""
    Heartbeat.objects.filter(pid=os.getpid(), boot_id=BOOT_ID).delete()


def is_alive(role: str) -> bool:
    """Whether some process did `role` within the last 15 seconds."""
    since = clock.now() - timedelta(seconds=STALE_AFTER_S)
    return Heartbeat.objects.filter(role=role, at__gte=since).exists()
