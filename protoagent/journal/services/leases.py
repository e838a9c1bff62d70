"""Leases of processes that are known to be dead end at once instead of running out."""

from __future__ import annotations

import os
import socket
from datetime import timedelta

from protoagent.core import clock
from protoagent.journal.models import Turn, TurnStatus
from protoagent.journal.services import processes


def end_of_boot(boot_id: str) -> int:
    """Nobody of the family with this boot id lives any more; how many turns that frees."""
    if not boot_id:
        return 0
    return _expire(holder__endswith=f":{boot_id}")


def end_of_dead_relatives() -> int:
    """Processes of this one's own family that are gone lose their leases; how many turns.

    Only the own family, because a process id means nothing in another container, even
    one with the same host name.
    """
    ending = f":{processes.BOOT_ID}"
    running = Turn.objects.filter(status=TurnStatus.RUNNING, holder__endswith=ending)
    dead = [holder for holder in set(running.values_list("holder", flat=True)) if _is_gone(holder)]
    return _expire(holder__in=dead) if dead else 0


def _is_gone(holder: str) -> bool:
    host, pid, _ = holder.rsplit(":", 2)
    if host != socket.gethostname()[:60]:
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _expire(**whose: object) -> int:
    past = clock.now() - timedelta(seconds=1)
    running = Turn.objects.filter(status=TurnStatus.RUNNING, lease_until__gt=past)
    return running.filter(**whose).update(lease_until=past)
