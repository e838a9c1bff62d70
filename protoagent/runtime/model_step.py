"""One model call of a turn: what is sent, retried, streamed, counted and stored."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Coroutine
from typing import Any

from channels.db import database_sync_to_async

from protoagent.config import services as config
from protoagent.core import clock
from protoagent.core.errors import AgentError, ModelFailed
from protoagent.core.ids import new_id
from protoagent.core.text import storable
from protoagent.journal.services import pending
from protoagent.journal.services.events import NewEvent
from protoagent.journal.services.pending import Said
from protoagent.journal.writer import store, submit
from protoagent.providers import catalog, pricing
from protoagent.providers.base import CallRequest, ChatModel, ModelReply, ModelRequest
from protoagent.runtime import files, guards, history
from protoagent.runtime.leg import Leg, Message
from protoagent.runtime.stream import AnswerStream
from protoagent.security.redaction import mask_text, mask_value

log = logging.getLogger(__name__)

FIRST_RETRY_S = 0.5
CALL_ID_CHARS = 9  # Mistral accepts exactly nine letters and digits
STEER_FRAME = "[message from the operator while you work]\n{text}"


class TurnOver(AgentError):
    """The turn ends here, on purpose, with this reason."""

    code = "turn_over"


async def run(leg: Leg, messages: list[Message]) -> list[Message]:
    """Ask the model once; the messages to append: steers that it read, then its answer.

    Raises ModelFailed when every model and retry failed, TurnOver when a guard ends it.
    """
    new_messages = await _read_steers(leg)
    # At once, because they count as read also when the answer to them is cut off.
    leg.messages += new_messages
    so_far = [*messages, *new_messages]
    verdict = guards.judge(
        so_far,
        nudge_after=int(config.get("model.round_nudge_after")),
        hard_cap=int(config.get("model.round_hard_cap")),
    )
    if verdict.end:
        raise TurnOver(verdict.end)
    await _load_images(leg, so_far)
    reply, model, stream = await _ask_with_fallbacks(leg, so_far, verdict.note)
    _record(leg, reply, model, stream)
    message = _message_of(reply, leg)
    leg.messages.append(message)
    if leg.partial:
        leg.segments.append(leg.partial)
        leg.partial = ""
    return [*new_messages, message]


async def _read_steers(leg: Leg) -> list[Message]:
    """What the operator sent to the running turn, as user messages; taken exactly once."""
    if not leg.may_have_steers:
        return []
    leg.may_have_steers = False
    again, leg.unread = leg.unread, []
    taken: list[Said] = []
    hold = leg.hold

    def effect() -> list[NewEvent]:
        delivery = pending.deliver(hold.session_id, hold.turn_id)
        taken[:] = [*again, *(delivery.said if delivery else ())]
        return list(delivery.events) if delivery else []

    await store(session_id=hold.session_id, effect=effect, hold=hold)
    if any(said.attachments for said in taken):
        return await database_sync_to_async(steer_messages)(taken)
    return steer_messages(taken)


def steer_messages(taken: list[Said]) -> list[Message]:
    """What the operator said while the turn ran, as the model reads it; files are looked up."""
    return [
        files.attach(
            {"role": "user", "content": STEER_FRAME.format(text=said.text)}, said.attachments
        )
        for said in taken
    ]


def request_for(leg: Leg, messages: list[Message], note: str = "") -> ModelRequest:
    """The request as the provider gets it; what is projected here is never checkpointed."""
    said = history.paired([*leg.history, *messages])
    projected = [
        {"role": "system", "content": leg.system_prompt},
        *files.project(said, leg.images, sees=_sees(leg)),
    ]
    if note:
        projected.append({"role": "user", "content": note})
    return ModelRequest(projected, list(leg.tools.schemas), leg.options)


def _sees(leg: Leg) -> bool:
    """Whether images are sent; a model that has refused them gets their names instead."""
    return bool(config.get("model.vision")) and not leg.is_blind


async def _load_images(leg: Leg, messages: list[Message]) -> None:
    """Read the images that the request sends and that no earlier one of this leg has sent."""
    if not _sees(leg):
        return
    chosen = files.wanted([*leg.history, *messages])
    missing = [image for image in chosen if image["id"] not in leg.images]
    if missing:
        leg.images.update(await database_sync_to_async(files.urls_of)(missing))


def _leave_out_images(leg: Leg, error: ModelFailed) -> bool:
    """Name the images from now on instead of sending them; False when none was sent."""
    if not leg.images or leg.is_blind:
        return False
    leg.is_blind = True
    _note(leg, f"{_closed(error)} Asking again without the images.", "images")
    return True


async def _ask_with_fallbacks(
    leg: Leg, messages: list[Message], note: str
) -> tuple[ModelReply, ChatModel, AnswerStream]:
    """The first model that answers; the primary model's error when none does."""
    primary: ModelFailed | None = None
    for model in [catalog.resolve(leg.claim.model or None), *catalog.fallbacks()]:
        if primary is not None:
            _note(leg, f"{_closed(primary)} Going on with {model.name}.", "fallback")
        try:
            return await _ask_with_retries(leg, model, messages, note)
        except ModelFailed as error:
            if leg.partial:
                raise
            primary = primary or error
    raise primary or ModelFailed("no model is configured")


async def _ask_with_retries(
    leg: Leg, model: ChatModel, messages: list[Message], note: str
) -> tuple[ModelReply, ChatModel, AnswerStream]:
    """Ask again after 0.5 s, 1 s, … as long as nothing of the answer has been shown."""
    retries = int(config.get("model.max_retries"))
    for attempt in range(retries + 2):  # one more: without images
        leg.last_step = f"model {model.name}"
        stream = AnswerStream(leg)
        try:
            request = request_for(leg, messages, note)
            reply = await _watched(leg, model.complete(request, stream), stream)
        except ModelFailed as error:
            stream.discard()
            if error.refused and _leave_out_images(leg, error):
                continue
            if error.overflow and _forget_oldest(leg):
                continue
            if not error.retryable or stream.content_seen or attempt >= retries:
                raise
            log.info("model call retried turn_id=%s attempt=%d", leg.hold.turn_id, attempt + 1)
            _note(leg, f"{_closed(error)} Trying again.", "retry")
            await clock.sleep(FIRST_RETRY_S * 2**attempt)
        except BaseException:
            stream.discard()
            raise
        else:
            return reply, model, stream
    raise ModelFailed("the model did not answer")


def _closed(error: ModelFailed) -> str:
    """The error as a sentence that another one may follow."""
    return f"{str(error).rstrip('.')}."


async def _watched(
    leg: Leg, answer: Coroutine[Any, Any, ModelReply], stream: AnswerStream
) -> ModelReply:
    """The answer, unless the model is silent for longer than the stall limit."""
    limit = float(config.get("model.turn_stall_timeout_seconds"))
    task = asyncio.ensure_future(answer)
    try:
        while True:
            silent = clock.monotonic() - stream.heard_at
            wait = limit - silent if limit else None
            done, _ = await asyncio.wait({task}, timeout=wait)
            if done:
                return task.result()
            if limit and clock.monotonic() - stream.heard_at >= limit:
                raise ModelFailed(f"nothing was heard for {limit:g} s; last step: {leg.last_step}")
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=5)


def _forget_oldest(leg: Leg) -> bool:
    """Drop the older half of the projected history once; False when there is none left."""
    if not leg.history:
        return False
    keep = len(leg.history) // 2
    rest = leg.history[len(leg.history) - keep :] if keep else []
    while rest and rest[0].get("role") != "user":
        rest = rest[1:]
    leg.history = rest
    _note(leg, "The conversation is too long for this model; its oldest part was left out.", "trim")
    return True


def _message_of(reply: ModelReply, leg: Leg) -> Message:
    """The assistant message as it is stored: what was shown, and calls under our own ids.

    Ids of providers repeat (some count from one in every answer); ours do not.
    """
    message: Message = {"role": "assistant", "content": leg.partial or None}
    if reply.calls:
        message["tool_calls"] = [_call(call, leg) for call in reply.calls]
    return message


def _call(call: CallRequest, leg: Leg) -> dict[str, Any]:
    # A tool that exists is never renamed; whatever else stands in the place of a name is text.
    is_known = leg.tools.get(call.name) is not None
    name = call.name if is_known else mask_text(storable(call.name))
    return {
        "id": new_id(length=CALL_ID_CHARS),
        "type": "function",
        "function": {"name": name, "arguments": _canonical(call.arguments)},
    }


def _canonical(arguments: str) -> str:
    """The arguments as the model wrote them; anew, when a secret in them had to be masked.

    Masked by their values, so that they stay JSON and an escaped secret is found as well.
    An empty object for nothing.
    """
    if not arguments.strip():
        return "{}"
    text = storable(arguments)
    masked = mask_text(text)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return masked
    clean = mask_value(value)
    return text if masked == text and clean == value else json.dumps(clean, ensure_ascii=False)


def _record(leg: Leg, reply: ModelReply, model: ChatModel, stream: AnswerStream) -> None:
    """Count the call; send what was held back and the usage, with the next write."""
    usage = reply.usage
    cost = pricing.cost_usd(model.name, usage, provider=model.provider)
    leg.model_calls += 1
    leg.input_tokens += usage.input_tokens
    leg.output_tokens += usage.output_tokens
    leg.cost_usd += cost
    data = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": cost,
        "model": mask_text(storable(reply.model or model.name)),
    }
    events = [*stream.finish(), NewEvent("usage", data, leg.hold.turn_id)]
    if reply.calls:
        leg.persist = True
    submit(lazy=True, session_id=leg.hold.session_id, events=events, hold=leg.hold)


def _note(leg: Leg, text: str, kind: str) -> None:
    event = NewEvent("note", {"text": mask_text(storable(text)), "kind": kind}, leg.hold.turn_id)
    submit(session_id=leg.hold.session_id, events=[event], hold=leg.hold)
