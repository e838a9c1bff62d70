"""What waits on the operator, over all sessions of an agent."""

from __future__ import annotations

from django.db.models import QuerySet

from protoagent.journal.models import Agent, Interruption, InterruptionState

MAX_LISTED = 200


def waiting(agent: Agent) -> list[Interruption]:
    """Open questions, forms and approvals of sessions that are not deleted, longest wait first.

    At most 200; each comes with its turn and session.
    """
    rows = _open(agent).select_related("turn__session__agent").order_by("asked_at", "position")
    return list(rows[:MAX_LISTED])


def count(agent: Agent) -> int:
    """How many there are: the number at the bell and in front of the page title."""
    return _open(agent).count()


def _open(agent: Agent) -> QuerySet[Interruption]:
    return Interruption.objects.filter(
        state=InterruptionState.OPEN,
        turn__session__agent=agent,
        turn__session__deleted_at=None,
    )
