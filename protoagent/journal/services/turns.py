"""Turns: accepting a message, claiming, parking and ending. Every change is one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.models import F, Max, Q

from protoagent.core import clock, events
from protoagent.core.context import Origin
from protoagent.core.errors import BadValue, NotFound, TooLarge
from protoagent.core.ids import new_id
from protoagent.journal.models import (
    ChatSession,
    Interruption,
    InterruptionState,
    QueuedKind,
    QueuedMessage,
    QueuedState,
    Turn,
    TurnEvent,
    TurnStatus,
)
from protoagent.journal.services import pending, sessions
from protoagent.journal.services.events import Frame, NewEvent, append
from protoagent.journal.services.pauses import publish_attention, stop_open

LEASE = timedelta(seconds=30)
MAX_MESSAGE_CHARS = 256 * 1024
MAX_QUEUED_TURNS = 100

Files = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Message:
    """What somebody said to a session. `client_id` makes sending it twice one message.

    `attachments` are summaries of files that belong to the session already.
    """

    text: str
    client_id: str = ""
    origin: Origin = Origin.OPERATOR
    model: str = ""
    attachments: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Hold:
    """The right to write for a running turn: valid while `fence` is the turn's newest."""

    turn_id: str
    session_id: int
    fence: int


@dataclass
class Claim:
    """A turn that is this process's to run, with all that the runtime needs of its row."""

    hold: Hold
    number: int
    session_key: str
    agent_key: str
    origin: Origin
    text: str
    model: str
    incognito: bool
    resumed: bool
    auto_answers: int
    crashes: int
    stop_requested: bool
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    attachments: tuple[dict[str, Any], ...] = ()
    frames: list[Frame] = field(default_factory=list)


@dataclass(frozen=True)
class Accepted:
    """What became of a message. `claim` is set when it is the caller's to run, now."""

    mode: str
    turn_id: str
    client_id: str
    duplicate: bool = False
    claim: Claim | None = None
    frames: tuple[Frame, ...] = ()


def check_text(text: str, *, may_be_blank: bool = False) -> str:
    """The text, stripped. Raises BadValue when blank, TooLarge above 256 Ki characters.

    It may be blank when files are sent.
    """
    text = text.strip()
    if not text and not may_be_blank:
        raise BadValue("a message needs some text")
    if len(text) > MAX_MESSAGE_CHARS:
        raise TooLarge(f"a message has at most {MAX_MESSAGE_CHARS:,} characters")
    if "\x00" in text:
        raise BadValue("a message cannot contain NUL characters")
    return text


@transaction.atomic
def accept(
    session: ChatSession, message: Message, *, holder: str = "", default_model: str = ""
) -> Accepted:
    """The message is stored, and is a turn, a held message or a duplicate of one.

    Nothing runs in the session: a turn, claimed by `holder` at once when one is given.
    A turn runs: a turn that is queued behind it. A turn waits for an answer: held, to be
    read after the answer. The same `client_id` again changes nothing.
    """
    _lock(session.pk)
    number = _next_number(session.pk)
    if message.client_id and number > 1 and (known := _find_duplicate(session.pk, message)):
        return known
    active = Turn.objects.filter(session=session).active().first() if number > 1 else None
    if active and active.status == TurnStatus.WAITING and not message.origin.is_autonomous:
        return _hold_message(session, active, message)
    runs_now = bool(holder) and active is None and (number == 1 or not _has_queued(session.pk))
    if not runs_now and number > MAX_QUEUED_TURNS:
        _refuse_when_full(session.pk)
    now = clock.now()
    turn = Turn(
        session=session,
        number=number,
        origin=message.origin.value,
        text=message.text,
        attachments=list(message.attachments),
        client_id=message.client_id,
        model=message.model,
        announced=True,
    )
    new_events = [_received(turn, "turn")]
    if runs_now:
        turn.status, turn.fence, turn.holder = TurnStatus.RUNNING, 1, holder
        turn.lease_until, turn.started_at = now + LEASE, now
        new_events.append(_started(turn, session, default_model))
    turn.save(force_insert=True)
    if not session.title:
        sessions.title_if_untitled(session, _heading(turn))
    frames = append(session.pk, new_events)
    claim = _claim_of(turn, session, resumed=False, frames=frames) if runs_now else None
    _publish_state(session)
    return Accepted("turn", turn.pk, message.client_id, claim=claim, frames=tuple(frames))


def _heading(turn: Turn) -> str:
    """What a session is named after: the text, else the first file."""
    return turn.text or next((str(one.get("name", "")) for one in turn.attachments), "")


def resumed_event(claim: Claim, model: str, rewind_to: int | None) -> NewEvent:
    """`turn.started` of a later leg.

    `rewind_to` is there when the answer is written again from an earlier place: the
    `text.delta` events of this turn numbered above it and below this event are void.
    """
    data: dict[str, Any] = {"origin": claim.origin.value, "model": model, "resumed": True}
    if rewind_to is not None:
        data["rewind_to"] = rewind_to
    return NewEvent("turn.started", data, claim.hold.turn_id)


def rewind_point(turn_id: str, model_calls_kept: int) -> int | None:
    """Above which event the turn's deltas are void when so many model calls are kept.

    None when nothing is void: nothing came after the usage event of the last kept call.
    """
    rows = TurnEvent.objects.filter(turn_id=turn_id).order_by("seq")
    starts: list[int] = []
    ends: list[int] = []
    marks = rows.filter(type__in=["turn.started", "usage"])
    for seq, kind, rewind_to in marks.values_list("seq", "type", "data__rewind_to"):
        (ends if kind == "usage" else starts).append(seq)
        if rewind_to is not None:  # an earlier leg has lost these calls already
            ends = [end for end in ends if end <= rewind_to]
    point = ends[model_calls_kept - 1] if 0 < model_calls_kept <= len(ends) else min(starts or [0])
    is_void = rows.filter(type__in=["text.delta", "usage"], seq__gt=point).exists()
    return point if is_void else None


def legs_without_progress(turn_id: str) -> int:
    """How often the turn has begun or gone on since something of it was last completed."""
    rows = TurnEvent.objects.filter(turn_id=turn_id)
    progress = ["usage", "tool.finished", "input.resolved", "turn.finished"]
    last = rows.filter(type__in=progress).aggregate(m=Max("seq"))["m"] or 0
    return rows.filter(type="turn.started", seq__gt=last).count()


@transaction.atomic
def steer(
    session: ChatSession, text: str, *, client_id: str = "", attachments: Files = ()
) -> tuple[QueuedMessage, bool]:
    """The text is handed to the running turn before its next model call; `(message, new)`.

    While a card is open it is held until the answer. A text that was sent already, also
    as a message of its own, changes nothing. Raises NotFound when no turn is active: the
    caller sends a message instead.
    """
    _lock(session.pk)
    client_id = client_id or new_id("m")
    if (known := _known_as(session.pk, client_id)) is not None:
        return known, False
    active = Turn.objects.filter(session=session).active().first()
    if active is None:
        raise NotFound("nothing is running in this session that could be steered")
    is_waiting = active.status == TurnStatus.WAITING
    kind = QueuedKind.HELD if is_waiting else QueuedKind.STEER
    row = pending.add(
        session.pk, kind, text, client_id=client_id, turn=active, attachments=attachments
    )
    event = _received_text(active, text, client_id, kind.value, attachments=attachments)
    append(session.pk, [event])
    return row, True


@transaction.atomic
def queue(
    session: ChatSession, text: str, *, client_id: str = "", attachments: Files = ()
) -> QueuedMessage:
    """The text becomes a turn of its own once the running one has ended."""
    _lock(session.pk)
    client_id = client_id or new_id("m")
    known = _known_as(session.pk, client_id)
    return known or pending.add(
        session.pk, QueuedKind.QUEUE, text, client_id=client_id, attachments=attachments
    )


@transaction.atomic
def promote_next(session_id: int) -> str | None:
    """The id of the turn that should run next in an idle session; made of the queue if need be.

    Steers that came too late go first, all as one turn; then queued messages one by one.
    Messages on hold stay. None when there is nothing, or a turn is active.
    """
    if not _has_something_next(session_id):
        return None
    _lock(session_id)
    if Turn.objects.filter(session_id=session_id).active().exists():
        return None
    queued = Turn.objects.filter(session_id=session_id, status=TurnStatus.QUEUED)
    if first := queued.order_by("number").first():
        return first.pk
    rows = QueuedMessage.objects.filter(
        session_id=session_id, state=QueuedState.PENDING, on_hold=False
    )
    late = list(rows.exclude(kind=QueuedKind.QUEUE)) or list(rows[:1])
    if not late:
        return None
    turn = Turn.objects.create(
        session_id=session_id,
        number=_next_number(session_id),
        text="\n\n".join(row.text for row in late if row.text),
        attachments=[one for row in late for one in row.attachments],
        client_id=_free_client_id(session_id, late[0].client_id),
    )
    QueuedMessage.objects.filter(pk__in=[row.pk for row in late]).update(
        state=QueuedState.PROMOTED, turn=turn, settled_at=clock.now()
    )
    pending.publish_changed(session_id)
    return turn.pk


@transaction.atomic
def claim(turn_id: str, *, holder: str, default_model: str = "") -> Claim | None:
    """The turn is this holder's until the lease ends, or None when it is not to be had.

    To be had: queued and first in line of an idle session; waiting and woken; running
    with an expired lease. Losing a race is None, never an error.
    """
    turn = Turn.objects.select_related("session__agent").filter(pk=turn_id).first()
    if turn is None or turn.is_ended or turn.session.deleted_at is not None:
        return None
    _lock(turn.session_id)
    now = clock.now()
    if turn.status == TurnStatus.QUEUED and _is_behind(turn):
        return None
    mine = Turn.objects.filter(pk=turn.pk, fence=turn.fence, status=turn.status).filter(
        Q(status=TurnStatus.QUEUED)
        | Q(status=TurnStatus.WAITING, wake_at__isnull=False)
        | Q(status=TurnStatus.RUNNING, lease_until__lt=now)
    )
    resumed = turn.status != TurnStatus.QUEUED
    try:
        with transaction.atomic():
            changed = mine.update(
                status=TurnStatus.RUNNING,
                fence=F("fence") + 1,
                holder=holder,
                lease_until=now + LEASE,
                wake_at=None,
                crashes=F("crashes") + int(turn.status == TurnStatus.RUNNING),
                started_at=turn.started_at or now,
            )
    except IntegrityError:  # another turn of the session became active between look and update
        return None
    if not changed:
        return None
    turn.fence += 1
    turn.crashes += turn.status == TurnStatus.RUNNING
    frames = append(turn.session_id, _beginning(turn, default_model, resumed=resumed))
    _publish_state(turn.session)
    return _claim_of(turn, turn.session, resumed=resumed, frames=frames)


def _beginning(turn: Turn, default_model: str, *, resumed: bool) -> list[NewEvent]:
    """What a claim has to tell: the message, unless that is told, and that the turn starts."""
    new_events = []
    if not turn.announced:
        new_events.append(_received(turn, "turn"))
        Turn.objects.filter(pk=turn.pk).update(announced=True)
        if not turn.session.title:
            sessions.title_if_untitled(turn.session, _heading(turn))
    if not resumed:  # the runtime tells of a resumed leg itself: it knows from where
        new_events.append(_started(turn, turn.session, default_model))
    return new_events


@transaction.atomic
def renew(holder: str, turn_ids: Iterable[str]) -> set[str]:
    """Extend the leases of these turns; the ids that are still this holder's."""
    held = Turn.objects.filter(pk__in=list(turn_ids), holder=holder, status=TurnStatus.RUNNING)
    # Locked in the order of ids, as the group commit does: two orders would block each other.
    ids = list(held.select_for_update(no_key=True).order_by("pk").values_list("pk", flat=True))
    Turn.objects.filter(pk__in=ids).update(lease_until=clock.now() + LEASE)
    return set(ids)


def park(hold: Hold) -> bool:
    """The turn waits for the operator; False when an answer came first and it goes on at once.

    Runs inside a transaction that has checked the fence.
    """
    unread = Interruption.objects.filter(
        turn_id=hold.turn_id, consumed_at=None, resolved_at__isnull=False
    )
    if unread.exists():
        return False
    Turn.objects.filter(pk=hold.turn_id).update(
        status=TurnStatus.WAITING, lease_until=None, holder=""
    )
    publish_attention(hold.session_id)
    return True


def finish(hold: Hold, status: str, **fields: Any) -> None:
    """The turn has ended with this status. Inside a transaction that has checked the fence.

    What is still pending is kept on hold unless the turn completed.
    """
    Turn.objects.filter(pk=hold.turn_id).update(
        status=status,
        lease_until=None,
        holder="",
        wake_at=None,
        finished_at=clock.now(),
        **fields,
    )
    if status != TurnStatus.COMPLETED:
        pending.hold_back(hold.session_id)
    payload = {"session": hold.session_id, "turn": hold.turn_id}
    transaction.on_commit(lambda: events.publish("turn.closed", payload))


def close_questions(hold: Hold) -> list[NewEvent]:
    """Open interruptions of an ending turn are stopped; their events. In a transaction."""
    new_events = stop_open(hold.turn_id)
    if new_events:
        publish_attention(hold.session_id)
    return new_events


@transaction.atomic
def request_stop(session: ChatSession, *, by: str) -> Turn | None:
    """The active turn is to stop; it, or None when nothing is active. Twice is once."""
    turn = Turn.objects.filter(session=session).active().first()
    if turn is None:
        return None
    now = clock.now()
    Turn.objects.filter(pk=turn.pk, stop_requested_at=None).update(
        stop_requested_at=now, stopped_by=by
    )
    Turn.objects.filter(pk=turn.pk, status=TurnStatus.WAITING).update(wake_at=now)
    _publish_state(session)
    turn.refresh_from_db()
    return turn


def stops_wanted(turn_ids: Iterable[str]) -> list[str]:
    """Those of these turns that somebody wants to stop."""
    rows = Turn.objects.filter(pk__in=list(turn_ids), stop_requested_at__isnull=False)
    return list(rows.filter(status=TurnStatus.RUNNING).values_list("pk", flat=True))


def history(session_id: int, *, after_number: int = 0) -> list[tuple[int, list[dict[str, Any]]]]:
    """`(number, messages)` of the session's ended turns above `after_number`, in order."""
    rows = Turn.objects.filter(session_id=session_id, number__gt=after_number).ended()
    return [
        (number, messages)
        for number, messages in rows.order_by("number").values_list("number", "messages")
    ]


def _lock(session_id: int) -> None:
    """Serialise changes of one session. On SQLite every writing transaction is alone anyway."""
    list(ChatSession.objects.select_for_update().filter(pk=session_id).values_list("pk"))


def knows(session_id: int, client_id: str) -> bool:
    """Whether a message with this id was sent to the session before."""
    return bool(client_id) and _known_as(session_id, client_id) is not None


def _find_duplicate(session_id: int, message: Message) -> Accepted | None:
    client_id = message.client_id
    turn = Turn.objects.filter(session_id=session_id, client_id=client_id).first()
    if turn is not None:
        return Accepted("turn", turn.pk, client_id, duplicate=True)
    row = QueuedMessage.objects.filter(session_id=session_id, client_id=client_id).first()
    if row is not None:
        return Accepted(row.kind, row.turn_id or "", client_id, duplicate=True)
    return None


def _known_as(session_id: int, client_id: str) -> QueuedMessage | None:
    """The message that was sent with this id; an unsaved one stands for a turn's own text."""
    row = QueuedMessage.objects.filter(session_id=session_id, client_id=client_id).first()
    turn = Turn.objects.filter(session_id=session_id, client_id=client_id).first()
    if row is not None or turn is None:
        return row
    return QueuedMessage(
        session_id=session_id,
        turn=turn,
        kind=QueuedKind.QUEUE,
        state=QueuedState.PROMOTED,
        text=turn.text,
        attachments=turn.attachments,
        client_id=client_id,
    )


def _free_client_id(session_id: int, client_id: str) -> str:
    taken = Turn.objects.filter(session_id=session_id, client_id=client_id).exists()
    return new_id("m") if taken else client_id


def _hold_message(session: ChatSession, active: Turn, message: Message) -> Accepted:
    client_id = message.client_id or new_id("m")
    files = message.attachments
    pending.add(
        session.pk,
        QueuedKind.HELD,
        message.text,
        client_id=client_id,
        turn=active,
        attachments=files,
    )
    event = _received_text(
        active, message.text, client_id, "held", origin=message.origin.value, attachments=files
    )
    frames = append(session.pk, [event])
    return Accepted("held", active.pk, client_id, frames=tuple(frames))


def _next_number(session_id: int) -> int:
    last = Turn.objects.filter(session_id=session_id).aggregate(m=Max("number"))["m"]
    return (last or 0) + 1


def _has_queued(session_id: int) -> bool:
    return Turn.objects.filter(session_id=session_id, status=TurnStatus.QUEUED).exists()


def _has_something_next(session_id: int) -> bool:
    """One cheap look, as nearly every turn ends with nothing behind it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT 1 FROM journal_turn WHERE session_id = %s AND status = 'queued')"
            " OR EXISTS (SELECT 1 FROM journal_queuedmessage WHERE session_id = %s"
            " AND state = 'pending' AND NOT on_hold)",
            [session_id, session_id],
        )
        return bool(cursor.fetchone()[0])


def _refuse_when_full(session_id: int) -> None:
    queued = Turn.objects.filter(session_id=session_id, status=TurnStatus.QUEUED).count()
    if queued >= MAX_QUEUED_TURNS:
        raise TooLarge(f"{queued} messages wait in this session already")


def _is_behind(turn: Turn) -> bool:
    """Whether another turn of the session runs, waits or stands before this one."""
    others = Turn.objects.filter(session_id=turn.session_id).exclude(pk=turn.pk)
    return others.filter(
        Q(status__in=["running", "waiting"]) | Q(status="queued", number__lt=turn.number)
    ).exists()


def _received(turn: Turn, mode: str) -> NewEvent:
    return _received_text(turn, turn.text, turn.client_id, mode, attachments=turn.attachments)


def _received_text(
    turn: Turn,
    text: str,
    client_id: str,
    mode: str,
    *,
    origin: str | None = None,
    attachments: Files = (),
) -> NewEvent:
    data: dict[str, Any] = {
        "text": text,
        "client_id": client_id,
        "mode": mode,
        "origin": origin or turn.origin,
    }
    if attachments:
        data["attachments"] = list(attachments)
    return NewEvent("message.received", data, turn.pk)


def _started(turn: Turn, session: ChatSession, default_model: str) -> NewEvent:
    data: dict[str, Any] = {
        "origin": turn.origin,
        "model": turn.model or session.model or session.agent.model or default_model,
    }
    return NewEvent("turn.started", data, turn.pk)


def _claim_of(turn: Turn, session: ChatSession, *, resumed: bool, frames: list[Frame]) -> Claim:
    return Claim(
        hold=Hold(turn.pk, session.pk, turn.fence),
        number=turn.number,
        session_key=session.key,
        agent_key=session.agent.key,
        origin=Origin(turn.origin),
        text=turn.text,
        model=turn.model or session.model or session.agent.model,
        incognito=session.incognito,
        resumed=resumed,
        auto_answers=turn.auto_answers,
        crashes=turn.crashes,
        stop_requested=turn.stop_requested_at is not None,
        allow=tuple(session.agent.allow),
        deny=tuple(session.agent.deny),
        attachments=tuple(turn.attachments),
        frames=frames,
    )


def _publish_state(session: ChatSession) -> None:
    payload = {"session": session.key}
    transaction.on_commit(lambda: events.publish("session.changed", payload))


def usage_of(turn_id: str) -> tuple[int, int, int, float]:
    """`(calls, input tokens, output tokens, cost)` over every leg of the turn."""
    rows = TurnEvent.objects.filter(turn_id=turn_id, type="usage").values_list("data", flat=True)
    data = list(rows)
    return (
        len(data),
        sum(int(d.get("input_tokens", 0)) for d in data),
        sum(int(d.get("output_tokens", 0)) for d in data),
        sum(float(d.get("cost_usd", 0)) for d in data),
    )


def release(holder: str) -> int:
    """This holder's turns may be continued by anybody, at once; how many there are."""
    return Turn.objects.filter(holder=holder, status=TurnStatus.RUNNING).update(
        lease_until=clock.now() - timedelta(seconds=1)
    )


def open_questions(turn_id: str) -> bool:
    """Whether something of this turn still waits for an answer."""
    return Interruption.objects.filter(turn_id=turn_id, state=InterruptionState.OPEN).exists()
