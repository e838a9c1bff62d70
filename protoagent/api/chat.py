"""Talking over HTTP (contract §4): a message and its answer, steering, answering, stopping."""

from __future__ import annotations

import json
import secrets
import string
from dataclasses import dataclass
from typing import Any

from channels.db import database_sync_to_async as in_db
from django.http import HttpRequest
from ninja import Field, Router
from ninja.schema import Schema

from protoagent.api import waiting
from protoagent.api.app import Body
from protoagent.core import clock
from protoagent.core.context import Actor, Origin
from protoagent.core.errors import BadValue, Conflict, NotFound
from protoagent.core.ids import new_id
from protoagent.journal.models import ChatSession, Interruption, QueuedKind, QueuedMessage
from protoagent.journal.services import agents, pauses, pending, sessions, turns
from protoagent.journal.services.turns import Message
from protoagent.runtime import service
from protoagent.uploads import services as uploads
from protoagent.web.auth import actor_of

router = Router(tags=["chat"])
BASE36 = string.digits + string.ascii_lowercase


class ChatIn(Body):
    """A message to the agent."""

    message: str = Field(
        description="What to say; with hitl_resume, the answer to what is asked. Files may come "
        "with a blank one.",
    )
    attachments: list[str] = Field([], description="Ids of files from /api/chat/files.")
    session_id: str = Field("", description="Made on first use; blank mints one.")
    incognito: bool | None = Field(None, description="No memory is read or written; no export.")
    model: str = Field("", max_length=200, description="Overrides the session's model.")
    client_id: str = Field("", max_length=128, description="The same id twice is one message.")
    hitl_resume: bool = Field(False, description="Answers the oldest open question instead.")


class ChatOut(Schema):
    """The turn once it waits for the operator or has ended."""

    session_id: str
    turn: str
    status: str
    response: str
    error: str | None = None
    pending: list[dict[str, Any]] | None = None


class AnswerIn(Body):
    """An answer to an open question, form or approval."""

    interrupt_id: str = Field(max_length=128)
    value: Any = Field(description="A text, one object of all steps, or a decision.")
    digest: str = Field("", max_length=64, description="Refuses when what is shown has changed.")


class DismissIn(Body):
    """Which question to close without an answer."""

    interrupt_id: str = Field(max_length=128)


class AnswerOut(Schema):
    """What became of an interruption."""

    ok: bool
    status: str


class SteerIn(Body):
    """Text for the running turn."""

    text: str = Field(description="May be blank when files are attached.")
    client_id: str = Field("", max_length=128)
    attachments: list[str] = Field([], description="Ids of files from /api/chat/files.")


class SteerOut(Schema):
    """A message on its way; `pending` counts what is not delivered yet."""

    ok: bool
    id: str
    pending: int


class SteersOut(Schema):
    """What the running turn has not read yet."""

    pending: int
    messages: list[dict[str, Any]]


class UnsteerOut(Schema):
    """Whether the message was still there to be withdrawn."""

    removed: bool
    pending: int


class StopOut(Schema):
    """Whether a turn was there to be stopped."""

    ok: bool
    stopped: bool


@dataclass(frozen=True)
class _Begun:
    """A turn to wait for, or the message's fate when it is held behind an open card."""

    session: ChatSession
    turn_id: str
    after: int
    held: bool
    now: waiting.Result | None


@router.post("/chat", response=ChatOut, exclude_none=True)
async def chat(request: HttpRequest, body: ChatIn) -> ChatOut:
    """Say something and wait until the turn asks the operator or has ended.

    A client that goes away does not stop the turn; the session can be read later. While
    a question is open a message is held until it is answered: the reply says so at once.
    """
    begun = await in_db(_begin)(body, actor_of(request))
    result = begun.now or await waiting.settled(begun.session.pk, begun.turn_id, begun.after)
    response = result.response
    if begun.held and result.pending:
        asked = waiting.prompt_of(result.pending[0])
        response = f"{waiting.RAISED_HAND} Input needed first: {asked} Your message is queued."
    return ChatOut(
        session_id=begun.session.key,
        turn=begun.turn_id,
        status=result.status,
        response=response,
        error=result.error or None,
        pending=result.pending or None,
    )


def _begin(body: ChatIn, actor: Actor) -> _Begun:
    # Before a session is made for a message that cannot be.
    turns.check_text(body.message, may_be_blank=bool(body.attachments))
    sessions.check_model(body.model)
    if body.hitl_resume and body.attachments:
        raise BadValue("an answer has no files; send them as a message of their own")
    key = body.session_id.strip() or mint_key()
    agent = agents.current()
    uploads.check(sessions.known(agent, key), body.attachments)
    session = sessions.ensure(agent, key, origin=Origin.API)
    if body.incognito is not None and body.incognito != session.incognito:
        sessions.set_incognito(session, incognito=body.incognito)
    after = session.last_seq
    open_rows = pauses.open_in_session(session.pk)
    if body.hitl_resume and open_rows:
        row = open_rows[0]
        service.answer(session, row.pk, value_of(row, body.message), by=actor.name)
        return _Begun(session, row.turn_id, after, held=False, now=None)
    message = Message(body.message, body.client_id or new_id("m"), Origin.API, body.model)
    accepted = service.send(session, message, attachments=body.attachments)
    held = accepted.mode == QueuedKind.HELD
    now = waiting.result_now(accepted.turn_id) if held or accepted.duplicate else None
    return _Begun(session, accepted.turn_id, after, held=held, now=now)


def mint_key() -> str:
    """A session key for a caller that named none: `api-<ms>-<6 base36>`."""
    milliseconds = int(clock.now().timestamp() * 1000)
    return f"api-{milliseconds}-{''.join(secrets.choice(BASE36) for _ in range(6))}"


def value_of(row: Interruption, text: str) -> Any:
    """A plain message as the answer to what is asked. Raises BadValue for a form without JSON."""
    if row.kind != "form":
        return text
    try:
        value = json.loads(text)
    except ValueError:
        raise BadValue("a form is answered with one JSON object of all steps") from None
    return value


@router.post("/chat/sessions/{key}/answer", response=AnswerOut)
def answer(request: HttpRequest, key: str, body: AnswerIn) -> AnswerOut:
    """Answer an open question, form or approval; the first answer wins."""
    session = find(key)
    by = actor_of(request).name
    service.answer(session, body.interrupt_id, body.value, by=by, digest=body.digest)
    return AnswerOut(ok=True, status="answered")


@router.post("/chat/sessions/{key}/dismiss", response=AnswerOut)
def dismiss(request: HttpRequest, key: str, body: DismissIn) -> AnswerOut:
    """Close an open question without an answer; the agent is told and goes on."""
    service.dismiss(find(key), body.interrupt_id, by=actor_of(request).name)
    return AnswerOut(ok=True, status="dismissed")


@router.post("/chat/sessions/{key}/steer", response=SteerOut)
def steer(request: HttpRequest, key: str, body: SteerIn) -> SteerOut:
    """Hand text to the running turn, which reads it before its next model call.

    404 when nothing runs: send a message instead.
    """
    session = find(key)
    row, _ = service.steer(
        session, body.text, client_id=body.client_id, attachments=body.attachments
    )
    return SteerOut(ok=True, id=row.client_id, pending=len(pending.waiting_in(session.pk)))


@router.get("/chat/sessions/{key}/steer", response=SteersOut)
def steers(request: HttpRequest, key: str) -> SteersOut:
    """What the operator has sent and no turn has read yet, in order."""
    rows = pending.waiting_in(find(key).pk)
    return SteersOut(pending=len(rows), messages=[queued_of(row) for row in rows])


@router.delete("/chat/sessions/{key}/steer/{client_id}", response=UnsteerOut)
def unsteer(request: HttpRequest, key: str, client_id: str) -> UnsteerOut:
    """Withdraw a message. `removed` is false when the agent has read it, or never got it."""
    session = find(key)
    removed = False
    waits = {row.client_id for row in pending.waiting_in(session.pk)}
    if client_id in waits:
        removed = _withdraw(session, client_id)
    return UnsteerOut(removed=removed, pending=len(pending.waiting_in(session.pk)))


@router.post("/chat/sessions/{key}/stop", response=StopOut)
def stop(request: HttpRequest, key: str) -> StopOut:
    """End the session's active turn; `stopped` is false when none is active."""
    return StopOut(ok=True, stopped=service.stop(find(key), by=actor_of(request).name))


def find(key: str) -> ChatSession:
    """The session of this instance's agent. Raises NotFound."""
    return sessions.find(agents.current(), key)


def queued_of(row: QueuedMessage) -> dict[str, Any]:
    """A message on its way, as every route shows it."""
    return {
        "id": row.client_id,
        "text": row.text,
        "attachments": row.attachments,
        "mode": row.kind,
        "on_hold": row.on_hold,
        "created_at": row.created_at,
    }


def _withdraw(session: ChatSession, client_id: str) -> bool:
    try:
        pending.withdraw(session.pk, client_id)
    except (Conflict, NotFound):  # the turn read it between the look and the withdrawal
        return False
    return True
