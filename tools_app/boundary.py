"""Where a tool call happens: the one place in which a failure becomes "Error: …".

The ToolCall row decides whether a call has happened. A call that has an end is never run
again; its stored output is handed out, so that a crash between a tool's end and the
engine's checkpoint repeats nothing. A call whose process died is run again only when the
tool says that this does no harm; otherwise its outcome is unknown, and the model is told.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass
from typing import Any

from protoagent.core import clock
from protoagent.core.errors import AgentError, BadValue
from protoagent.core.text import (
    refuse_constant,
    storable,
    storable_value,
    truncate,
    whole_float,
)
from protoagent.journal.services.events import NewEvent
from protoagent.journal.services.turns import Hold
from protoagent.journal.writer import store, submit
from protoagent.security.redaction import mask_text, mask_value, one_masked_line
from tools_app import inflight
from tools_app.approvals import Declined
from tools_app.components import split_component
from tools_app.models import CallStatus, ToolCall
from tools_app.spec import ToolContext, ToolSpec

log = logging.getLogger(__name__)

PREVIEW_CHARS = 800
RENDERING = "rendering"
MAX_OUTPUT_CHARS = 400_000
OUTCOME_UNKNOWN = (
    "Error: interrupted, outcome unknown. The server stopped while this call ran; it may or may "
    "not have taken effect. Check before you repeat it."
)
CANCELLED = "Cancelled by the operator. The call was ended before it finished; do not repeat it."
STOPPED = "Cancelled: the operator stopped the turn."


@dataclass(frozen=True)
class CallSpec:
    """A tool call as the model asked for it. `arguments` is the raw JSON text."""

    call_id: str
    name: str
    arguments: str
    parent_call_id: str = ""


@dataclass(frozen=True)
class Outcome:
    """How a call ended. `output` is what the model reads."""

    output: str
    status: str


def announce(calls: list[tuple[CallSpec, ToolSpec | None]], hold: Hold, holder: str) -> None:
    """The calls of a new model message have rows and `tool.started` events, with the next commit.

    Called once per message, before its calls run; `run_call` then gets `announced=True`.
    """

    def effect() -> list[NewEvent]:
        rows = [_row(call, spec, hold, holder) for call, spec in calls]
        ToolCall.objects.bulk_create(rows)
        return [_started(row) for row in rows]

    submit(lazy=True, session_id=hold.session_id, effect=effect, hold=hold)


async def run_call(
    call: CallSpec,
    spec: ToolSpec | None,
    context: ToolContext,
    hold: Hold,
    *,
    holder: str,
    announced: bool = False,
    passthrough: tuple[type[BaseException], ...] = (),
) -> Outcome:
    """Run one call to its end, at most once, and record it.

    `passthrough` are exceptions that are no failure (a pause): they are re-raised and the
    row stays open. Cancelling the caller re-raises too, after the tool body has ended.
    The end is stored together with whatever the turn stores next, within 20 ms.
    """
    if not announced and (done := await _take_up(call, spec, hold, holder)):
        return done
    began = clock.monotonic()
    arguments, problem = _parse(call, spec)
    if problem or spec is None:
        outcome = Outcome(problem, CallStatus.ERROR)
    else:
        key = (hold.turn_id, call.call_id)
        outcome = await _execute(spec, arguments, context, key, passthrough)
    renders = spec is not None and spec.group == RENDERING
    return _end(call, outcome, hold, began, renders=renders)


def _parse(call: CallSpec, spec: ToolSpec | None) -> tuple[dict[str, Any], str]:
    """The arguments as an object, and what is wrong with the call."""
    try:
        arguments = storable_value(
            json.loads(
                call.arguments or "{}", parse_constant=refuse_constant, parse_float=whole_float
            )
        )
    except (ValueError, RecursionError) as error:
        detail = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        return {"_raw": truncate(call.arguments, 2000)}, (
            f"Error: the arguments of {call.name} are not valid JSON ({detail}); "
            "send one JSON object."
        )
    if not isinstance(arguments, dict):
        return {"_raw": arguments}, f"Error: the arguments of {call.name} must be one JSON object."
    if spec is None:
        return arguments, f"Error: there is no tool named {one_masked_line(call.name, 80)!r} here."
    return arguments, ""


async def _take_up(
    call: CallSpec, spec: ToolSpec | None, hold: Hold, holder: str
) -> Outcome | None:
    """Begin or go on with a call in a later leg; its outcome when it has one already."""
    done: list[Outcome] = []

    def effect() -> list[NewEvent]:
        row = ToolCall.objects.filter(turn_id=hold.turn_id, call_id=call.call_id).first()
        if row is None:
            row = _row(call, spec, hold, holder)
            row.save(force_insert=True)
            return [_started(row)]
        if row.status not in (CallStatus.RUNNING, CallStatus.WAITING):
            done[:] = [Outcome(row.output, row.status)]
            return []
        if row.status == CallStatus.WAITING:
            _update(row, status=CallStatus.RUNNING, holder=holder)
            return []
        if spec is not None and spec.repeatable:
            _update(row, attempt=row.attempt + 1, holder=holder, started_at=clock.now())
            return [_started(row)]
        done[:] = [Outcome(OUTCOME_UNKNOWN, CallStatus.ERROR)]
        return _finish_row(row, done[0])

    await store(session_id=hold.session_id, effect=effect, hold=hold)
    return done[0] if done else None


def _row(call: CallSpec, spec: ToolSpec | None, hold: Hold, holder: str) -> ToolCall:
    arguments, _ = _parse(call, spec)
    return ToolCall(
        turn_id=hold.turn_id,
        call_id=call.call_id,
        parent_call_id=call.parent_call_id,
        name=truncate(call.name, 128),
        source=spec.source if spec else "unknown",
        arguments=mask_value(arguments),
        holder=holder,
    )


def _update(row: ToolCall, **fields: Any) -> None:
    for name, value in fields.items():
        setattr(row, name, value)
    row.save(update_fields=list(fields))


async def _execute(
    spec: ToolSpec,
    arguments: dict[str, Any],
    context: ToolContext,
    key: inflight.Key,
    passthrough: tuple[type[BaseException], ...],
) -> Outcome:
    try:
        values = spec.validate(arguments)
    except BadValue as error:
        return Outcome(f"Error: {error}", CallStatus.ERROR)
    if spec.context_parameter:
        values[spec.context_parameter] = context
    task = asyncio.get_running_loop().create_task(_body(spec, values), name=f"tool-{spec.name}")
    entry = inflight.enter(key, task)
    try:
        async with asyncio.timeout(spec.timeout_s):
            output = await task
    except passthrough:
        raise
    except TimeoutError:
        return Outcome(
            f"Error: {spec.name} did not finish within {spec.timeout_s:g} s and was ended.",
            CallStatus.ERROR,
        )
    except asyncio.CancelledError:
        if entry.cancelled and task.done():
            return Outcome(CANCELLED, CallStatus.CANCELLED)
        task.cancel()
        raise
    except AgentError as error:
        return Outcome(f"Error: {error}", CallStatus.ERROR)
    except Exception as error:
        log.exception("tool %s failed", spec.name)
        return Outcome(
            f"Error: {type(error).__name__} inside {spec.name}; it was logged.", CallStatus.ERROR
        )
    finally:
        inflight.leave(key)
    return _judge(output)


async def _body(spec: ToolSpec, values: dict[str, Any]) -> str:
    return await spec.run(**values)


def _judge(output: Any) -> Outcome:
    if isinstance(output, Declined):
        return Outcome(str(output), CallStatus.DECLINED)
    text = output if isinstance(output, str) else str(output)
    status = CallStatus.ERROR if text.startswith("Error") else CallStatus.OK
    return Outcome(text, status)


def _end(call: CallSpec, outcome: Outcome, hold: Hold, began: float, *, renders: bool) -> Outcome:
    duration_ms = round((clock.monotonic() - began) * 1000)
    clean = truncate(mask_text(storable(outcome.output)), MAX_OUTPUT_CHARS)
    # Only a tool that may render: a page or a server could write the marker into its text.
    sentence, shown = split_component(clean) if renders else (clean, None)
    component = mask_value(storable_value(shown))
    result = Outcome(sentence, outcome.status)

    def effect() -> list[NewEvent]:
        ToolCall.objects.filter(turn_id=hold.turn_id, call_id=call.call_id).update(
            status=result.status,
            output=result.output,
            duration_ms=duration_ms,
            finished_at=clock.now(),
        )
        finished = _finished(call.call_id, call.name, result, duration_ms, hold.turn_id)
        if component is None:
            return [finished]
        data = {"call_id": call.call_id, **component}
        return [NewEvent("component", data, hold.turn_id), finished]

    submit(lazy=True, session_id=hold.session_id, effect=effect, hold=hold)
    return result


def _finish_row(row: ToolCall, outcome: Outcome) -> list[NewEvent]:
    now = clock.now()
    duration_ms = max(0, round((now - row.started_at).total_seconds() * 1000))
    _update(
        row,
        status=outcome.status,
        output=outcome.output,
        duration_ms=duration_ms,
        finished_at=now,
    )
    return [_finished(row.call_id, row.name, outcome, duration_ms, row.turn_id)]


def _started(row: ToolCall) -> NewEvent:
    data: dict[str, Any] = {
        "call_id": row.call_id,
        "name": row.name,
        "args": row.arguments,
        "source": row.source,
    }
    if row.parent_call_id:
        data["parent_call_id"] = row.parent_call_id
    if row.attempt > 1:
        data["attempt"] = row.attempt
    return NewEvent("tool.started", data, row.turn_id)


def _finished(
    call_id: str, name: str, outcome: Outcome, duration_ms: int, turn_id: str
) -> NewEvent:
    data = {
        "call_id": call_id,
        "name": name,
        "status": str(outcome.status),
        "output": truncate(outcome.output, PREVIEW_CHARS),
        "output_chars": len(outcome.output),
        "duration_ms": duration_ms,
    }
    return NewEvent("tool.finished", data, turn_id)


def close_open_calls(turn_id: str, output: str, status: str) -> list[NewEvent]:
    """Every call of the turn that has not ended gets this end; the events, to be appended.

    For turns that stop or fail. Runs inside the caller's transaction.
    """
    events: list[NewEvent] = []
    for row in ToolCall.objects.filter(turn_id=turn_id, finished_at=None).order_by("pk"):
        events += _finish_row(row, Outcome(output, status))
    return events


def outputs_of(turn_id: str) -> dict[str, str]:
    """What each ended call of the turn answered, by call id."""
    rows = ToolCall.objects.filter(turn_id=turn_id, finished_at__isnull=False)
    return dict(rows.values_list("call_id", "output"))
