"""Work for the worker role, put on the queue after commit.

Arguments are pickled by django-q2, so they are ids and strings, never models.
"""

from __future__ import annotations

from django.db import transaction
from django_q.tasks import async_task


def enqueue(dotted_name: str, *ids: str | int) -> None:
    """Call `dotted_name(*ids)` in a worker once the running transaction has committed.

    Delivery is at least once; the named function must tolerate a second call.
    """
    transaction.on_commit(lambda: async_task(dotted_name, *ids, save=False))
