"""Rows of the journal and of the tools: valid ones, so that a test names only what it is about."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

from protoagent.core import clock
from protoagent.journal.models import (
    ENDED,
    Agent,
    ChatSession,
    Heartbeat,
    Interruption,
    InterruptionState,
    QueuedMessage,
    Turn,
    TurnEvent,
    TurnStatus,
)
from protoagent.journal.services import agents, pauses
from protoagent.uploads.models import Attachment, AttachmentContent
from tools_app.models import CallStatus, ToolCall

_numbers = itertools.count(1)
LEASE = timedelta(seconds=30)


def make_agent(key: str = "main", **fields: Any) -> Agent:
    """The agent with this key; made when it is missing."""
    agent = agents.ensure(key)
    for name, value in fields.items():
        setattr(agent, name, value)
    agent.save()
    return agent


def make_session(**fields: Any) -> ChatSession:
    """A session of the main agent, without any turn."""
    values = {"key": f"s{next(_numbers)}", "title": "Weather", **fields}
    if "agent" not in values:
        values["agent"] = make_agent()
    return ChatSession.objects.create(**values)


def make_turn(**fields: Any) -> Turn:
    """A completed turn of a session of its own; another status brings its lease or end along."""
    values: dict[str, Any] = {"status": TurnStatus.COMPLETED, "text": "hello", **fields}
    session = values.setdefault("session", None) or make_session()
    values["session"] = session
    values.setdefault("number", session.turns.count() + 1)
    now = clock.now()
    if values["status"] == TurnStatus.RUNNING:
        values.setdefault("lease_until", now + LEASE)
        values.setdefault("holder", "elsewhere:1:b")
        values.setdefault("fence", 1)
    if values["status"] in ENDED:
        values.setdefault("finished_at", now)
    return Turn.objects.create(**values)


def make_event(turn: Turn | None = None, **fields: Any) -> TurnEvent:
    """The next event of the turn's session: a piece of text unless said otherwise."""
    turn = turn or make_turn()
    session = ChatSession.objects.get(pk=turn.session_id)
    session.last_seq += 1
    session.save(update_fields=["last_seq"])
    values = {"type": "text.delta", "data": {"text": "hi"}, "at": clock.now(), **fields}
    return TurnEvent.objects.create(session=session, turn=turn, seq=session.last_seq, **values)


def make_interruption(**fields: Any) -> Interruption:
    """An open question of a turn that waits for it."""
    values: dict[str, Any] = {
        "payload": {"kind": "question", "question": "Which port?"},
        "call_id": f"c{next(_numbers)}",
        **fields,
    }
    if "turn" not in values:
        values["turn"] = make_turn(status=TurnStatus.WAITING)
    values.setdefault("kind", values["payload"]["kind"])
    values.setdefault("digest", pauses.digest_of(values["payload"]))
    if values.get("state", InterruptionState.OPEN) != InterruptionState.OPEN:
        values.setdefault("resolved_at", clock.now())
    return Interruption.objects.create(**values)


def make_call(**fields: Any) -> ToolCall:
    """A finished call of the calculator."""
    values: dict[str, Any] = {
        "call_id": f"c{next(_numbers)}",
        "name": "calculator",
        "arguments": {"expression": "2 ** 10"},
        "status": CallStatus.OK,
        "output": "2 ** 10 = 1024",
        **fields,
    }
    if "turn" not in values:
        values["turn"] = make_turn()
    if values["status"] not in (CallStatus.RUNNING, CallStatus.WAITING):
        values.setdefault("finished_at", clock.now())
    return ToolCall.objects.create(**values)


def make_queued(**fields: Any) -> QueuedMessage:
    """A pending message that becomes the next turn of its session."""
    values: dict[str, Any] = {
        "kind": "queue",
        "text": "and then?",
        "client_id": f"m{next(_numbers)}",
        **fields,
    }
    if "session" not in values:
        values["session"] = make_session()
    return QueuedMessage.objects.create(**values)


def make_heartbeat(**fields: Any) -> Heartbeat:
    """A process that has just shown life."""
    values = {"role": "worker", "host": "here", "pid": next(_numbers), "boot_id": "b", **fields}
    return Heartbeat.objects.create(**values)


def make_attachment(*, body: bytes = b"hello", **fields: Any) -> Attachment:
    """A text file of a session, as it is kept; without a session it is still to be sent."""
    values: dict[str, Any] = {
        "owner": "ada",
        "name": f"notes{next(_numbers)}.txt",
        "content_type": "text/plain",
        "kind": "text",
        "size": len(body),
        **fields,
    }
    if "session" not in values:
        values["session"] = make_session()
    if values["kind"] == "text":
        values.setdefault("chars", len(body.decode()))
    row = Attachment.objects.create(**values)
    AttachmentContent.objects.create(attachment=row, body=body)
    return row
