"""What could go on and does not: turns that nobody runs, messages that nobody sent on."""

from __future__ import annotations

from datetime import timedelta

from django.db import connection
from django.db.models import Exists, OuterRef, Q

from protoagent.core import clock
from protoagent.journal.models import QueuedMessage, QueuedState, Turn, TurnStatus


def open_turn_ids() -> list[str]:
    """Turns that have not ended, 1,000 at most.

    Literals, not parameters: only with them can SQLite use the partial index, and this
    is asked twice a second for as long as the instance lives.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id FROM journal_turn WHERE status IN ('queued', 'running', 'waiting')"
            " LIMIT 1000"
        )
        return [row[0] for row in cursor.fetchall()]


def has_pending_messages() -> bool:
    """Whether any message is not delivered yet; one look into a partial index."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT 1 FROM journal_queuedmessage WHERE state = 'pending')"
        )
        return bool(cursor.fetchone()[0])


def due_for_a_kick(*, grace_s: float = 1.0, begun_only: bool = False) -> list[str]:
    """Turns that nobody runs although they could go on: lost kicks, crashes, late answers.

    They could for `grace_s` seconds already. With `begun_only` queued ones are left out.
    """
    since = clock.now() - timedelta(seconds=grace_s)
    candidates = open_turn_ids()
    if not candidates:
        return []
    busy = Turn.objects.active().filter(session=OuterRef("session"))
    due = Q(status=TurnStatus.RUNNING, lease_until__lt=since)
    due |= Q(status=TurnStatus.WAITING, wake_at__lt=since)
    if not begun_only:
        due |= Q(~Exists(busy), status=TurnStatus.QUEUED, queued_at__lt=since)
    rows = Turn.objects.filter(pk__in=candidates, session__deleted_at=None).filter(due)
    return list(rows.order_by("queued_at").values_list("pk", flat=True)[:100])


def sessions_with_stranded_messages(*, grace_s: float = 1.0) -> list[int]:
    """Idle sessions whose pending messages should have become a turn."""
    if not has_pending_messages():
        return []
    since = clock.now() - timedelta(seconds=grace_s)
    busy = Turn.objects.filter(
        session=OuterRef("session"), status__in=["queued", "running", "waiting"]
    )
    rows = QueuedMessage.objects.filter(
        state=QueuedState.PENDING, on_hold=False, created_at__lt=since
    ).filter(~Exists(busy))
    return list(rows.values_list("session_id", flat=True).distinct()[:100])
