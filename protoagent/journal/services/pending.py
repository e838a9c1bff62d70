"""Operator text on its way: steers, held messages and the queue of next turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Max

from protoagent.core import clock, events
from protoagent.core.errors import BadValue, Conflict, NotFound
from protoagent.journal.models import (
    QueuedKind,
    QueuedMessage,
    QueuedState,
    Turn,
    TurnStatus,
)
from protoagent.journal.services.events import NewEvent, append


@dataclass(frozen=True)
class Said:
    """A text on its way, and summaries of the files that go along with it."""

    text: str
    attachments: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Delivery:
    """Messages that the running turn reads now, in the order in which they came."""

    said: tuple[Said, ...]
    client_ids: tuple[str, ...]
    events: tuple[NewEvent, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(one.text for one in self.said)


def waiting_in(session_id: int) -> list[QueuedMessage]:
    """Everything of a session that is not delivered yet, in order."""
    rows = QueuedMessage.objects.filter(session_id=session_id, state=QueuedState.PENDING)
    return list(rows)


def add(
    session_id: int,
    kind: str,
    text: str,
    *,
    client_id: str,
    turn: Turn | None = None,
    on_hold: bool = False,
    attachments: Sequence[dict[str, Any]] = (),
) -> QueuedMessage:
    """A pending message at the end of the line. Runs inside the caller's transaction."""
    last = QueuedMessage.objects.filter(session_id=session_id).aggregate(m=Max("position"))["m"]
    row = QueuedMessage.objects.create(
        session_id=session_id,
        turn=turn,
        kind=kind,
        text=text,
        attachments=list(attachments),
        client_id=client_id,
        position=(last or 0) + 1,
        on_hold=on_hold,
    )
    publish_changed(session_id)
    return row


def deliver(session_id: int, turn_id: str) -> Delivery | None:
    """Take what the running turn should read before its next model call, or None.

    Runs inside the caller's transaction; the events are the caller's to append.
    """
    rows = list(
        QueuedMessage.objects.filter(
            session_id=session_id,
            state=QueuedState.PENDING,
            kind__in=[QueuedKind.STEER, QueuedKind.HELD],
        )
    )
    if not rows:
        return None
    QueuedMessage.objects.filter(pk__in=[row.pk for row in rows]).update(
        state=QueuedState.DELIVERED, turn_id=turn_id, settled_at=clock.now()
    )
    publish_changed(session_id)
    client_ids = tuple(row.client_id for row in rows)
    note: dict[str, Any] = {
        "text": "Read your message." if len(rows) == 1 else f"Read your {len(rows)} messages.",
        "kind": "delivered",
        "client_ids": list(client_ids),
        "texts": [row.text for row in rows],  # an edited message was received with another text
    }
    if any(row.attachments for row in rows):
        note["attachments"] = [row.attachments for row in rows]
    said = tuple(_said(row.text, row.attachments) for row in rows)
    return Delivery(said, client_ids, (NewEvent("note", note, turn_id),))


def delivered_to(turn_id: str) -> list[Said]:
    """What this turn has taken so far, in the order in which it did."""
    rows = QueuedMessage.objects.filter(turn_id=turn_id, state=QueuedState.DELIVERED)
    ordered = rows.order_by("settled_at", "position", "pk")
    return [_said(*row) for row in ordered.values_list("text", "attachments")]


def _said(text: str, attachments: list[dict[str, Any]]) -> Said:
    return Said(text, tuple(attachments))


@transaction.atomic
def withdraw(session_id: int, client_id: str) -> QueuedMessage:
    """The message will not be delivered. Raises NotFound, and Conflict once it has been read."""
    row = find(session_id, client_id)
    changed = QueuedMessage.objects.filter(pk=row.pk, state=QueuedState.PENDING).update(
        state=QueuedState.WITHDRAWN, settled_at=clock.now()
    )
    if not changed:
        raise Conflict("the agent has read this message already")
    note = {"text": "Message withdrawn.", "kind": "withdrawn", "client_ids": [client_id]}
    append(session_id, [NewEvent("note", note, row.turn_id)])
    publish_changed(session_id)
    return row


@transaction.atomic
def edit(session_id: int, client_id: str, text: str) -> QueuedMessage:
    """The pending message says `text` instead, with the same files.

    Raises BadValue for no text without files, and Conflict once it has been read.
    """
    row = find(session_id, client_id)
    if not text.strip() and not row.attachments:
        raise BadValue("a message needs some text; withdraw it instead")
    if not QueuedMessage.objects.filter(pk=row.pk, state=QueuedState.PENDING).update(text=text):
        raise Conflict("the agent has read this message already")
    publish_changed(session_id)
    row.text = text
    return row


@transaction.atomic
def move(session_id: int, client_id: str, *, up: bool) -> None:
    """The queued message changes places with its neighbour; at the end nothing happens."""
    row = find(session_id, client_id)
    rows = QueuedMessage.objects.filter(
        session_id=session_id, state=QueuedState.PENDING, kind=row.kind
    )
    neighbour = (
        rows.filter(position__lt=row.position).order_by("-position").first()
        if up
        else rows.filter(position__gt=row.position).order_by("position").first()
    )
    if neighbour is None:
        return
    QueuedMessage.objects.filter(pk=row.pk).update(position=neighbour.position)
    QueuedMessage.objects.filter(pk=neighbour.pk).update(position=row.position)
    publish_changed(session_id)


@transaction.atomic
def turn_into_steer(session_id: int, client_id: str) -> QueuedMessage:
    """The queued message is handed to the running turn instead of waiting for its end.

    Raises Conflict when no turn is running.
    """
    row = find(session_id, client_id)
    turn = Turn.objects.filter(session_id=session_id, status=TurnStatus.RUNNING).first()
    if turn is None:
        raise Conflict("no turn is running that could be steered")
    changed = QueuedMessage.objects.filter(pk=row.pk, state=QueuedState.PENDING).update(
        kind=QueuedKind.STEER, turn=turn, on_hold=False
    )
    if not changed:
        raise Conflict("the agent has read this message already")
    data = {"text": row.text, "client_id": client_id, "mode": "steer", "origin": turn.origin}
    if row.attachments:
        data["attachments"] = row.attachments
    append(session_id, [NewEvent("message.received", data, turn.pk)])
    publish_changed(session_id)
    row.kind, row.turn = QueuedKind.STEER, turn
    return row


@transaction.atomic
def release(session_id: int, *, client_id: str = "") -> int:
    """What a stopped turn left on hold is due again, or one of it; how many messages that are."""
    rows = QueuedMessage.objects.filter(
        session_id=session_id, state=QueuedState.PENDING, on_hold=True
    )
    if client_id:
        rows = rows.filter(client_id=client_id)
    changed = rows.update(on_hold=False)
    if changed:
        publish_changed(session_id)
    return changed


def hold_back(session_id: int) -> None:
    """Everything pending stays, but nothing of it starts a turn. Inside a transaction."""
    changed = QueuedMessage.objects.filter(
        session_id=session_id, state=QueuedState.PENDING, on_hold=False
    ).update(kind=QueuedKind.QUEUE, on_hold=True)
    if changed:
        publish_changed(session_id)


def find(session_id: int, client_id: str) -> QueuedMessage:
    """Raises NotFound when the session has no such message."""
    try:
        return QueuedMessage.objects.get(session_id=session_id, client_id=client_id)
    except QueuedMessage.DoesNotExist:
        raise NotFound("no such message") from None


def publish_changed(session_id: int) -> None:
    """Tell open pages that the pending list looks different, after commit."""
    transaction.on_commit(lambda: events.publish("pending.changed", {"session": session_id}))
