"""One leg of one turn, from its claim to its pause or end."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from channels.db import database_sync_to_async
from langgraph.errors import GraphRecursionError

from protoagent.config import services as config
from protoagent.core import clock
from protoagent.core.errors import AgentError, LeaseLost
from protoagent.core.text import storable
from protoagent.journal.models import TurnStatus
from protoagent.journal.services import pending, turns
from protoagent.journal.services.events import NewEvent
from protoagent.journal.services.pending import Said
from protoagent.journal.services.turns import Claim
from protoagent.journal.writer import store
from protoagent.providers import catalog
from protoagent.runtime import checkpoints, files, graph, history, leg, model_step, prompt
from protoagent.runtime.hitl import OutOfAutoAnswers
from protoagent.runtime.leg import Leg, Message
from tools_app import boundary, registry
from tools_app.models import CallStatus

log = logging.getLogger(__name__)

NO_ANSWER = "(The model gave no answer.)"
MAX_FRUITLESS_LEGS = 5
MAX_COUNT = 2**31 - 1
MAX_CRASHES = 10  # a turn that takes its process down each time must not do so for ever
CANCEL_GRACE_S = 1.2  # stop is promised within 2 s, also when a tool ignores cancellation


@dataclass
class Ending:
    """How a leg ends."""

    status: str
    error: str = ""


async def run_leg(here: Leg) -> str | None:
    """Run a claimed turn until it waits or has ended; the id of the turn to run next, if any.

    Never raises for what the turn does. A lost lease ends the leg silently: another
    process has the turn. Cancelling without a wish to stop (shutdown) is passed on.
    """
    leg.current.set(here)
    began = clock.monotonic()
    try:
        ending = await _resume(here) or await _drive(here, began)
        return None if ending is None else await _finish_somehow(here, ending, began)
    except LeaseLost:
        log.warning("turn lost to another process turn_id=%s", here.hold.turn_id)
        return None


async def prepare(claim: Claim, holder: str) -> Leg:
    """Everything a claimed turn needs that is not in its row."""
    number, session_id = claim.number, claim.hold.session_id
    earlier = history.cache.cached(session_id, number)
    if earlier is None:
        earlier = await database_sync_to_async(history.cache.before)(session_id, number)
    here = Leg(
        claim=claim,
        holder=holder,
        tools=registry.assemble(allow=claim.allow, deny=claim.deny),
        system_prompt=prompt.system_prompt(),
        history=earlier,
        opening=await _opening(claim),
        options=catalog.options(),
        may_have_steers=claim.resumed,
        auto_answers=claim.auto_answers,
    )
    if claim.stop_requested:
        here.stop.set()
    return here


async def _opening(claim: Claim) -> Message:
    """The turn's first message with its files, the same in every leg."""
    message = history.opening(claim.origin, claim.text)
    if not claim.attachments:
        return message
    return await database_sync_to_async(files.attach)(message, claim.attachments)


@dataclass
class Past:
    """What earlier legs have left: messages, the place to write on from, steers to read again.

    `usage` is theirs alone: this leg's own may not be stored yet when the turn's end is.
    """

    kept: list[Message] | None
    rewind_to: int | None
    unread: list[Said]
    fruitless: int
    usage: tuple[int, int, int, float]


async def _resume(here: Leg) -> Ending | None:
    """For a later leg: take over the checkpoint and say from where the answer goes on.

    A turn that brings its process down each time is ended instead of tried for ever.
    """
    if not here.claim.resumed:
        here.messages = [here.opening]
        return None
    past = await database_sync_to_async(_past_of)(here)
    here.persist = here.has_checkpoint = past.kept is not None
    here.messages = list(past.kept or [here.opening])
    here.segments = [m["content"] for m in here.messages if _is_answer(m)]
    here.unread = past.unread
    here.model_calls, here.input_tokens, here.output_tokens, here.cost_usd = past.usage
    model = here.claim.model or catalog.default_name()
    event = turns.resumed_event(here.claim, model, past.rewind_to)
    await store(session_id=here.hold.session_id, events=[event], hold=here.hold)
    reason = "" if here.stop.is_set() else _why_give_up(here.claim.crashes, past.fruitless)
    return Ending(TurnStatus.INTERRUPTED, reason) if reason else None


def _why_give_up(crashes: int, fruitless: int) -> str:
    """The same step again and again, or every step once: the turn ends its process. Else ""."""
    if fruitless >= MAX_FRUITLESS_LEGS:
        return f"interrupted: the server ended {fruitless} times in a row during this step"
    if crashes > MAX_CRASHES:
        return f"interrupted: the server ended {crashes} times while this turn ran"
    return ""


def _past_of(here: Leg) -> Past:
    saved = graph.compiled().checkpointer.get_tuple(_config(here))
    kept = None if saved is None else saved.checkpoint["channel_values"].get("messages")
    calls = sum(1 for message in kept or () if message["role"] == "assistant")
    # All but the first are steers: one taken by a model call that was lost is not among them.
    steers = sum(1 for message in (kept or ())[1:] if message["role"] == "user")
    turn_id = here.hold.turn_id
    return Past(
        kept,
        turns.rewind_point(turn_id, calls),
        pending.delivered_to(turn_id)[steers:],
        turns.legs_without_progress(turn_id),
        turns.usage_of(turn_id),
    )


def _is_answer(message: Message) -> bool:
    return message["role"] == "assistant" and bool(message.get("content"))


async def _drive(here: Leg, began: float) -> Ending | None:
    """Run the graph until it ends, or pause; None means that the turn waits now."""
    first = None if here.has_checkpoint else {"messages": here.messages[:]}
    while not here.stop.is_set():
        here.asked.clear()
        task = asyncio.get_running_loop().create_task(_invoke(here, first))
        try:
            paused = await asyncio.shield(task)
        except asyncio.CancelledError:
            await _end_task(task)
            if here.lost:
                raise LeaseLost("the lease ended") from None
            if not here.stop.is_set():
                raise
            break
        except LeaseLost:
            raise
        except Exception as error:  # noqa: BLE001 — the turn's boundary: it must end, not hang
            return _ending_of(error, here)
        if not paused:
            return Ending(TurnStatus.COMPLETED)
        if await _park(here, began):
            return None
        here.announced.clear()
        first, here.has_checkpoint, here.may_have_steers = None, True, True
    return Ending(TurnStatus.STOPPED)


def _ending_of(error: Exception, here: Leg) -> Ending:
    """What an exception out of the graph means: nothing may leave a turn stuck."""
    if isinstance(error, OutOfAutoAnswers):
        return Ending(TurnStatus.COMPLETED)
    if isinstance(error, GraphRecursionError):
        rounds = config.get("model.max_iterations")
        return Ending(TurnStatus.FAILED, f"the turn reached its limit of {rounds} rounds")
    if isinstance(error, AgentError):
        return Ending(TurnStatus.FAILED, storable(str(error)))
    log.error("turn failed turn_id=%s", here.hold.turn_id, exc_info=error)
    return Ending(TurnStatus.FAILED, f"{type(error).__name__} in the runtime; it was logged")


async def _invoke(here: Leg, first: dict[str, Any] | None) -> bool:
    """Run the graph once; whether it has paused."""
    result = await graph.compiled().ainvoke(first, _config(here), durability="sync")
    return "__interrupt__" in result


def _config(here: Leg) -> dict[str, Any]:
    rounds = int(config.get("model.max_iterations"))
    return {
        "configurable": {"thread_id": here.hold.turn_id},
        "recursion_limit": rounds * graph.STEPS_PER_ROUND + 1,
    }


async def _end_task(task: asyncio.Task[bool]) -> None:
    """Cancel the graph and wait a little; a tool that ignores it is left to itself."""
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=CANCEL_GRACE_S)
    if not done:
        log.warning("a tool ignores cancellation; its turn goes on without it")
        _stragglers.add(task)
        task.add_done_callback(_stragglers.discard)


_stragglers: set[asyncio.Task[bool]] = set()


async def _park(here: Leg, began: float) -> bool:
    """The turn waits for the operator; False when an answer was faster."""
    parked: list[bool] = []

    def effect() -> list[NewEvent]:
        parked[:] = [turns.park(here.hold)]
        return [_finished(here, TurnStatus.WAITING, began)] if parked[0] else []

    await store(session_id=here.hold.session_id, effect=effect, hold=here.hold)
    return parked[0]


async def _finish_somehow(here: Leg, ending: Ending, began: float) -> str | None:
    """As `_finish`; when that cannot be stored, the turn fails without what it has said."""
    try:
        return await _finish(here, ending, began)
    except LeaseLost:
        raise
    except Exception:
        log.exception("the end of a turn could not be stored turn_id=%s", here.hold.turn_id)
    here.messages, here.segments, here.partial, here.unread = here.messages[:1], [], "", []
    failed = Ending(TurnStatus.FAILED, "the end of this turn could not be stored; it was logged")
    return await _finish(here, failed, began)


async def _finish(here: Leg, ending: Ending, began: float) -> str | None:
    """Write the end of the turn: its rows, its events, its messages for later turns."""
    hold, answer = here.hold, here.answer
    next_turn: list[str | None] = [None]
    extra: list[NewEvent] = []
    if ending.status == TurnStatus.COMPLETED and not answer:
        answer = _last_output(here) or NO_ANSWER
        extra = [NewEvent("text.delta", {"text": answer}, hold.turn_id)]
    messages: list[Message] = []

    def effect() -> list[NewEvent]:
        events = [*extra]
        if here.persist or here.claim.resumed:
            events += turns.close_questions(hold)
            output, status = _closing(ending)
            events += boundary.close_open_calls(hold.turn_id, output, status)
            checkpoints.forget(hold.turn_id)
        messages[:] = _final_messages(here, answer)
        events.append(_finished(here, ending.status, began, text=answer, error=ending.error))
        fields = {"answer": answer, "error": ending.error, "messages": messages}
        turns.finish(hold, ending.status, **fields, **_totals(here))
        next_turn[:] = [turns.promote_next(hold.session_id)]
        return events

    await store(session_id=hold.session_id, effect=effect, hold=hold, is_last=True)
    history.cache.add(hold.session_id, here.claim.number, messages)
    log.info(
        "turn ended turn_id=%s status=%s model_calls=%d",
        hold.turn_id,
        ending.status,
        here.model_calls,
    )
    return next_turn[0]


def _closing(ending: Ending) -> tuple[str, str]:
    """What a call says that the end of its turn cuts off."""
    if ending.status == TurnStatus.STOPPED:
        return boundary.STOPPED, CallStatus.CANCELLED
    return boundary.OUTCOME_UNKNOWN, CallStatus.ERROR


def _final_messages(here: Leg, answer: str) -> list[Message]:
    """The turn as later turns see it, with a result for each call and the text that was shown."""
    messages = [*here.messages, *model_step.steer_messages(here.unread)]
    if here.partial:
        messages.append({"role": "assistant", "content": here.partial})
    elif _says_nothing(messages[-1]):
        messages[-1] = {"role": "assistant", "content": answer}
    if any(message.get("tool_calls") for message in messages):
        known = {m["tool_call_id"] for m in messages if m["role"] == "tool"}
        for call_id, output in boundary.outputs_of(here.hold.turn_id).items():
            if call_id not in known:
                messages.append({"role": "tool", "tool_call_id": call_id, "content": output})
    return history.paired(messages)


def _says_nothing(message: Message) -> bool:
    is_empty = not message.get("content") and not message.get("tool_calls")
    return message["role"] == "assistant" and is_empty


def _totals(here: Leg) -> dict[str, Any]:
    return {
        "model_calls": here.model_calls,
        "input_tokens": min(here.input_tokens, MAX_COUNT),
        "output_tokens": min(here.output_tokens, MAX_COUNT),
        "cost_usd": round(here.cost_usd, 6),
    }


def _last_output(here: Leg) -> str:
    outputs = [m["content"] for m in here.messages if m["role"] == "tool"]
    return str(outputs[-1]) if outputs else ""


def _finished(
    here: Leg, status: str, began: float, *, text: str | None = None, error: str = ""
) -> NewEvent:
    data: dict[str, Any] = {
        "status": str(status),
        "text": here.answer if text is None else text,
        "duration_ms": round((clock.monotonic() - began) * 1000),
    }
    if error:
        data["error"] = error
    return NewEvent("turn.finished", data, here.hold.turn_id)
