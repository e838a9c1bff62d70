"""Pausing a turn for the operator, and answering for an operator who is not there."""

from __future__ import annotations

from typing import Any

from langgraph.types import interrupt

from protoagent.core import clock
from protoagent.core.errors import AgentError
from protoagent.journal.models import Interruption, InterruptionState, Turn
from protoagent.journal.services import pauses
from protoagent.journal.services.events import NewEvent
from protoagent.journal.writer import store
from protoagent.runtime.leg import Leg
from protoagent.security.redaction import mask_value
from tools_app.models import CallStatus, ToolCall

MAX_AUTO_ANSWERS = 3
NO_OPERATOR = (
    "[no interactive operator available] Nobody is watching this turn. Use your own judgement, "
    "state the assumption you make, and go on."
)
DISMISSED = "[dismissed] The operator closed this without answering. Go on without the answer."


class OutOfAutoAnswers(AgentError):
    """An autonomous turn asks a fourth time; it ends instead of talking to itself."""

    code = "out_of_auto_answers"


async def ask(leg: Leg, call_id: str, payload: dict[str, Any]) -> Any:
    """The operator's answer to `payload`, or a pause of the whole turn until there is one.

    The n-th question of a call finds its answer again when the body runs once more after
    the pause. Dismissing gives a sentence for the model; an autonomous turn gets one that
    says that nobody is there, three times at most.
    """
    position = leg.asked.get(call_id, 0)
    leg.asked[call_id] = position + 1
    if leg.claim.origin.is_autonomous and leg.auto_answers >= MAX_AUTO_ANSWERS:
        raise OutOfAutoAnswers("this turn asked again although nobody is there to answer")
    row = await _open(leg, call_id, position, mask_value(payload))
    if row.state == InterruptionState.OPEN:
        interrupt({"interrupt_id": row.pk})
    if row.state == InterruptionState.ANSWERED:
        return row.value
    return NO_OPERATOR if row.state == InterruptionState.AUTO else DISMISSED


async def _open(leg: Leg, call_id: str, position: int, payload: dict[str, Any]) -> Interruption:
    found: list[Interruption] = []
    hold = leg.hold

    def effect() -> list[NewEvent]:
        row, is_new = pauses.open_for_call(hold.turn_id, call_id, position, payload)
        found[:] = [row]
        events = [pauses.required_event(row)] if is_new else []
        if is_new and leg.claim.origin.is_autonomous:
            leg.auto_answers += 1
            events += _answer_automatically(row, leg.auto_answers)
        if row.state == InterruptionState.OPEN:
            calls = ToolCall.objects.filter(turn_id=hold.turn_id, call_id=call_id)
            calls.update(status=CallStatus.WAITING)
            pauses.publish_attention(hold.session_id)
        elif row.consumed_at is None:
            row.consumed_at = clock.now()
            row.save(update_fields=["consumed_at"])
        return events

    await store(session_id=hold.session_id, effect=effect, hold=hold)
    return found[0]


def _answer_automatically(row: Interruption, count: int) -> list[NewEvent]:
    """The interruption is answered by nobody, and the turn counts it."""
    Turn.objects.filter(pk=row.turn_id).update(auto_answers=count)
    row.state = InterruptionState.AUTO
    row.resolved_at = clock.now()
    row.save(update_fields=["state", "resolved_at"])
    return [pauses.resolved_event(row.pk, row.turn_id, "auto", None)]
