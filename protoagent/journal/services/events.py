"""Appending to a session's journal."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from protoagent.core import clock
from protoagent.core.errors import BadValue, NotFound
from protoagent.journal import live
from protoagent.journal.models import frame_of

Frame = dict[str, Any]


@dataclass(frozen=True)
class NewEvent:
    """An event that has no number yet."""

    type: str
    data: dict[str, Any] = field(default_factory=dict)
    turn_id: str | None = None


def insert_many(groups: list[tuple[int | None, list[NewEvent]]]) -> list[list[Frame]]:
    """Number and store the events of several `(session_id, events)`; the frames of each.

    Must run inside a transaction: numbering locks the session's row until its end,
    which is what keeps the numbers without gaps and in the order of commits.
    """
    now = clock.now()
    counts: dict[int, int] = defaultdict(int)
    for session_id, new_events in groups:
        if session_id is None:
            raise BadValue("an event belongs to a session")
        counts[session_id] += len(new_events)
    # In the order of ids, so that two groups never wait for each other's sessions.
    number = {pk: _reserve(pk, counts[pk], now) - counts[pk] for pk in sorted(counts)}
    rows: list[tuple[Any, ...]] = []
    frames: list[list[Frame]] = []
    for session_id, new_events in groups:
        group: list[Frame] = []
        for event in new_events:
            number[session_id] += 1  # type: ignore[index]
            seq = number[session_id]  # type: ignore[index]
            rows.append((session_id, event.turn_id, seq, event.type, event.data))
            group.append(frame_of(seq, event.turn_id, now, event.type, event.data))
        frames.append(group)
    _insert_rows(rows, now)
    return frames


def insert(session_id: int, new_events: list[NewEvent]) -> list[Frame]:
    """Number and store events of one session; must run inside a transaction."""
    return insert_many([(session_id, new_events)])[0] if new_events else []


@transaction.atomic
def append(session_id: int, new_events: list[NewEvent]) -> list[Frame]:
    """Store `new_events` and, after commit, hand them to whoever watches the session."""
    frames = insert(session_id, new_events)
    transaction.on_commit(lambda: live.hub.deliver(session_id, frames))
    return frames


def _insert_rows(rows: list[tuple[Any, ...]], now: datetime) -> None:
    """Plain SQL: it runs for every delta of every answer, and the ORM takes four times as long."""
    at = connection.ops.adapt_datetimefield_value(now)
    values = [
        (session_id, turn_id, seq, kind, json.dumps(data, ensure_ascii=False), at)
        for session_id, turn_id, seq, kind, data in rows
    ]
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO journal_turnevent (session_id, turn_id, seq, type, data, at)"
            " VALUES (%s, %s, %s, %s, %s, %s)",
            values,
        )


def _reserve(session_id: int, count: int, now: datetime) -> int:
    """The session's last event number after reserving `count` more."""
    at = connection.ops.adapt_datetimefield_value(now)
    with connection.cursor() as cursor:
        # One statement that counts and answers: an UPDATE and a SELECT cost twice as much.
        cursor.execute(
            "UPDATE journal_chatsession SET last_seq = last_seq + %s, last_event_at = %s"
            " WHERE id = %s RETURNING last_seq",
            [count, at, session_id],
        )
        row = cursor.fetchone()
    if row is None:
        raise NotFound("this session does not exist any more")
    return int(row[0])
