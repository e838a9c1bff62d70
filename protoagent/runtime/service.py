"""What surfaces ask of the runtime. Sync, one thing each, safe from any thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.db import transaction

from protoagent.core import clock
from protoagent.core.errors import BadValue, InvalidForm, NotFound
from protoagent.core.queue import enqueue
from protoagent.journal.models import (
    ChatSession,
    InterruptionKind,
    InterruptionState,
    QueuedMessage,
    TurnStatus,
)
from protoagent.journal.services import pauses, pending, sessions, stuck, turns
from protoagent.journal.services.pauses import Resolution
from protoagent.journal.services.turns import Accepted, Message
from protoagent.providers import catalog
from protoagent.runtime import runner
from protoagent.security.redaction import mask_text, mask_value, one_masked_line
from protoagent.uploads import services as uploads
from tools_app import forms, inflight
from tools_app.models import CallStatus, ToolCall

RUN_TURN = "protoagent.workers.run_turn"
MAX_ANSWER_CHARS = 64 * 1024
KICK_AGAIN_AFTER_S = 5.0
ADOPT_AFTER_S = 3.0


def kick(turn_id: str) -> None:
    """The turn starts or goes on: in this process if it runs turns, else in a worker."""
    mine = runner.here()
    if mine is not None:
        mine.start_soon(turn_id)
    else:
        enqueue(RUN_TURN, turn_id)


def send(session: ChatSession, message: Message, *, attachments: Sequence[str] = ()) -> Accepted:
    """The message is stored and, when nothing else runs in the session, its turn starts.

    `attachments` are ids of uploaded files; with some, the text may be blank. Key-shaped
    strings and configured secrets are masked before anything is stored. Autonomous turns
    always go to a worker. Raises BadValue for the text, the files and the name of the
    model, TooLarge for the text and too many files.
    """
    text = _checked_text(message.text, attachments)
    model = sessions.check_model(message.model)
    clean = Message(text, message.client_id[:128], message.origin, model)
    mine = None if message.origin.is_autonomous else runner.here()
    accept = partial(
        turns.accept,
        holder=mine.holder if mine else "",
        default_model=catalog.default_name(),
    )
    if attachments:
        with transaction.atomic():
            files = tuple(uploads.bind(session, attachments))
            accepted = accept(session, replace(clean, attachments=files))
    else:
        accepted = accept(session, clean)
    if accepted.claim is not None and mine is not None:
        mine.start_soon(accepted.claim)
    elif accepted.mode == "turn" and not accepted.duplicate:
        if mine is not None:
            mine.start_soon(accepted.turn_id)
        else:
            enqueue(RUN_TURN, accepted.turn_id)
    return accepted


def _checked_text(text: str, attachments: Sequence[str]) -> str:
    return mask_text(turns.check_text(text, may_be_blank=bool(attachments)))


def steer(
    session: ChatSession, text: str, *, client_id: str = "", attachments: Sequence[str] = ()
) -> tuple[QueuedMessage, bool]:
    """The running turn reads the text before its next model call; `(message, is_new)`.

    Raises NotFound when no turn is active in the session, and as `send` does.
    """
    text = _checked_text(text, attachments)
    with transaction.atomic():
        files = uploads.bind(session, attachments)
        row, is_new = turns.steer(session, text, client_id=client_id[:128], attachments=files)
    mine = runner.here()
    if mine is not None:
        mine.steered(session.pk)
    return row, is_new


def queue(
    session: ChatSession, text: str, *, client_id: str = "", attachments: Sequence[str] = ()
) -> QueuedMessage:
    """The text is the session's next turn, after the running one and those queued before."""
    text = _checked_text(text, attachments)
    with transaction.atomic():
        files = uploads.bind(session, attachments)
        row = turns.queue(session, text, client_id=client_id[:128], attachments=files)
    start_next(session)
    return row


def start_next(session: ChatSession) -> str | None:
    """Start what is due in an idle session; the id of the turn, if any."""
    turn_id = turns.promote_next(session.pk)
    if turn_id is not None:
        kick(turn_id)
    return turn_id


def send_held_back(session: ChatSession) -> int:
    """What a stop left on hold is sent now; how many messages that are."""
    released = pending.release(session.pk)
    start_next(session)
    return released


def answer(
    session: ChatSession, interrupt_id: str, value: Any, *, by: str, digest: str = ""
) -> Resolution:
    """The interruption has this answer, and its turn goes on. The first answer wins.

    A question takes a string; a form takes one object of all steps, checked against its
    schema; an approval takes a decision. `digest`, when given, must be that of what is
    shown. Raises NotFound, Conflict, BadValue and, for a form, InvalidForm.
    """
    row = pauses.find(interrupt_id, session_id=session.pk)
    if digest and digest != row.digest:
        raise BadValue("what this answers has changed; look at it again")
    clean = mask_value(_checked(row.kind, row.payload, value))
    outcome = InterruptionState.ANSWERED
    return _resolve(interrupt_id, outcome, clean, by)


def dismiss(session: ChatSession, interrupt_id: str, *, by: str) -> Resolution:
    """The operator closed the card: the agent is told and goes on without an answer."""
    pauses.find(interrupt_id, session_id=session.pk)
    return _resolve(interrupt_id, InterruptionState.DISMISSED, None, by)


def _resolve(interrupt_id: str, outcome: str, value: Any, by: str) -> Resolution:
    resolution = pauses.resolve(interrupt_id, outcome=str(outcome), value=value, by=by)
    kick(resolution.turn_id)
    return resolution


def _checked(kind: str, payload: dict[str, Any], value: Any) -> Any:
    if kind == InterruptionKind.QUESTION:
        text = value if isinstance(value, str) else ""
        if not text.strip():
            raise BadValue("an answer needs some text; dismiss the question instead")
        if len(text) > MAX_ANSWER_CHARS:
            raise BadValue(f"an answer has at most {MAX_ANSWER_CHARS:,} characters")
        return text.strip()
    if kind == InterruptionKind.FORM:
        if not isinstance(value, dict):
            raise BadValue("a form takes one object with the values of all steps")
        clean, errors = forms.check_answers(payload["steps"], value)
        if errors:
            raise InvalidForm("some fields need another value", errors)
        return clean
    if not isinstance(value, bool | str | dict):
        raise BadValue("an approval takes a decision: approved or denied")
    return value


def stop(session: ChatSession, *, by: str) -> bool:
    """The session's active turn ends within two seconds; False when none is active."""
    turn = turns.request_stop(session, by=by)
    if turn is None:
        return False
    mine = runner.here()
    if mine is not None and turn.pk in mine.legs:
        mine.stop(turn.pk)
    elif turn.status == TurnStatus.WAITING:
        kick(turn.pk)
    return True


def cancel_call(call_id: str, *, by: str, session: ChatSession | None = None) -> bool:
    """End one call wherever it runs, the turn goes on; False when it had ended already.

    A call that waits for an answer counts as dismissed. Raises NotFound for an unknown id.
    """
    rows = ToolCall.objects.filter(call_id=call_id).select_related("turn")
    if session is not None:
        rows = rows.filter(turn__session=session)
    call = rows.order_by("-pk").first()
    if call is None:
        raise NotFound(f"no call {one_masked_line(call_id, 60)!r}")
    if call.status == CallStatus.WAITING:
        return _dismiss_call(call, by)
    return inflight.request_cancel(call, by=by)


def _dismiss_call(call: ToolCall, by: str) -> bool:
    rows = pauses.open_in_session(call.turn.session_id)
    mine = [row for row in rows if row.turn_id == call.turn_id and row.call_id == call.call_id]
    for row in mine:
        _resolve(row.pk, InterruptionState.DISMISSED, None, by)
    return bool(mine)


def in_flight(agent_key: str) -> list[ToolCall]:
    """Every call of the agent that has begun and not ended, in any process."""
    return list(inflight.open_calls(agent_key))


_kicked_at: dict[str, float] = {}


def recover(*, grace_s: float = 1.0) -> int:
    """Kick every turn that could go on and that nobody runs; how many there were.

    Called twice a second by the ticker: lost kicks, expired leases, stranded messages. A
    turn is kicked again only after five seconds, or a busy worker's queue would fill up.
    """
    due = stuck.due_for_a_kick(grace_s=grace_s)
    for session_id in stuck.sessions_with_stranded_messages(grace_s=grace_s):
        if turn_id := turns.promote_next(session_id):
            due.append(turn_id)
    now = clock.monotonic()
    for turn_id in [known for known, at in _kicked_at.items() if at < now - KICK_AGAIN_AFTER_S]:
        del _kicked_at[turn_id]
    fresh = [turn_id for turn_id in due if turn_id not in _kicked_at]
    for turn_id in fresh:
        _kicked_at[turn_id] = now
        enqueue(RUN_TURN, turn_id)
    return len(fresh)


def adopt() -> int:
    """Run here what was interrupted and waits for a busy worker; how many turns that are.

    Called by web processes every few seconds: a crash may leave more turns than workers.
    """
    mine = runner.here()
    if mine is None:
        return 0
    due = stuck.due_for_a_kick(grace_s=ADOPT_AFTER_S, begun_only=True)
    for turn_id in due:
        mine.start_soon(turn_id)
    return len(due)
