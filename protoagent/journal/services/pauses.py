"""Questions, forms and approvals: opening, drafting and resolving them.

First answer wins: resolving is a compare-and-set on the open state.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from protoagent.core import clock, events
from protoagent.core.errors import Conflict, NotFound
from protoagent.journal.models import (
    Interruption,
    InterruptionKind,
    InterruptionState,
    Turn,
    TurnStatus,
)
from protoagent.journal.services.events import Frame, NewEvent, append


@dataclass(frozen=True)
class Resolution:
    """An interruption that has just been resolved, and the turn that can go on."""

    turn_id: str
    session_id: int
    frames: list[Frame]


def digest_of(payload: dict[str, Any]) -> str:
    """SHA-256 of the payload in canonical JSON: what an answer is bound to."""
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def required_event(interruption: Interruption) -> NewEvent:
    """The `input.required` event of an open interruption."""
    shown = {key: value for key, value in interruption.payload.items() if key != "kind"}
    data = {
        "interrupt_id": interruption.pk,
        "call_id": interruption.call_id,
        "kind": interruption.kind,
        **shown,
    }
    return NewEvent("input.required", data, interruption.turn_id)


def resolved_event(interruption_id: str, turn_id: str, outcome: str, value: Any) -> NewEvent:
    """The `input.resolved` event; `value` is left out when there is none."""
    data: dict[str, Any] = {"interrupt_id": interruption_id, "outcome": outcome}
    if value is not None:
        data["value"] = value
    return NewEvent("input.resolved", data, turn_id)


def open_for_call(
    turn_id: str, call_id: str, position: int, payload: dict[str, Any]
) -> tuple[Interruption, bool]:
    """The interruption at this place of the call, and whether it is new.

    Runs inside the caller's transaction. A row with another digest is an older question
    at the same place: it is replaced, so that its answer cannot serve the new one.
    """
    digest = digest_of(payload)
    row = Interruption.objects.filter(turn_id=turn_id, call_id=call_id, position=position).first()
    if row is not None and row.digest == digest:
        return row, False
    if row is not None:
        row.delete()
    row = Interruption.objects.create(
        turn_id=turn_id,
        call_id=call_id,
        position=position,
        kind=InterruptionKind(payload["kind"]),
        payload=payload,
        digest=digest,
    )
    return row, True


def find(interruption_id: str, *, session_id: int | None = None) -> Interruption:
    """Raises NotFound when there is none, or none in this session."""
    rows = Interruption.objects.select_related("turn__session")
    if session_id is not None:
        rows = rows.filter(turn__session_id=session_id)
    try:
        return rows.get(pk=interruption_id)
    except Interruption.DoesNotExist:
        raise NotFound("no such question; it may belong to another session") from None


def open_in_session(session_id: int) -> list[Interruption]:
    """What waits for an answer in a session, oldest first."""
    rows = Interruption.objects.filter(turn__session_id=session_id, state=InterruptionState.OPEN)
    return list(rows.order_by("asked_at", "pk"))


@transaction.atomic
def save_draft(interruption_id: str, *, step: int, draft: dict[str, Any]) -> bool:
    """The wizard continues at `step` with `draft` wherever it is opened; False once resolved."""
    changed = Interruption.objects.filter(pk=interruption_id, state=InterruptionState.OPEN).update(
        step=step, draft=draft
    )
    return bool(changed)


@transaction.atomic
def resolve(interruption_id: str, *, outcome: str, value: Any, by: str) -> Resolution:
    """The interruption has this outcome for good, and its turn is marked to continue.

    `outcome` is answered or dismissed. Raises NotFound for an unknown id and Conflict
    when somebody was faster or the turn has ended.
    """
    now = clock.now()
    changed = Interruption.objects.filter(pk=interruption_id, state=InterruptionState.OPEN).update(
        state=outcome, value=value, resolved_by=by, resolved_at=now, draft={}
    )
    row = Interruption.objects.select_related("turn").filter(pk=interruption_id).first()
    if row is None:
        raise NotFound("no such question")
    if not changed:
        raise Conflict(f"already {row.get_state_display()}")
    Turn.objects.filter(pk=row.turn_id, status=TurnStatus.WAITING).update(wake_at=now)
    event = resolved_event(row.pk, row.turn_id, outcome, value)
    frames = append(row.turn.session_id, [event])
    publish_attention(row.turn.session_id)
    return Resolution(row.turn_id, row.turn.session_id, frames)


def stop_open(turn_id: str, *, state: str = InterruptionState.STOPPED) -> list[NewEvent]:
    """Every open interruption of the turn gets `state`; their events, to be appended.

    Runs inside the caller's transaction.
    """
    rows = list(Interruption.objects.filter(turn_id=turn_id, state=InterruptionState.OPEN))
    Interruption.objects.filter(pk__in=[row.pk for row in rows]).update(
        state=state, resolved_at=clock.now(), draft={}
    )
    return [resolved_event(row.pk, turn_id, state, None) for row in rows]


def publish_attention(session_id: int) -> None:
    """Tell open pages that what waits on the operator has changed, after commit."""
    transaction.on_commit(lambda: events.publish("attention.changed", {"session": session_id}))
