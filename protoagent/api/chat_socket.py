"""`/ws/chat/<session>/`: a session's journal out, an operator's frames in (contract §3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async as in_db

from protoagent.api import inline_files
from protoagent.api.inline_files import Files
from protoagent.core.context import Actor, Origin
from protoagent.core.errors import BadValue, Forbidden, NotFound, TooMany
from protoagent.core.ids import new_id
from protoagent.journal import live
from protoagent.journal.models import ChatSession
from protoagent.journal.services import agents, pending, sessions, turns
from protoagent.journal.services.turns import Message
from protoagent.runtime import runner, service
from protoagent.web.sockets import GuardedConsumer

Frame = dict[str, Any]
TOO_SLOW = 4408


def _text(frame: Frame, name: str, *, required: bool = True, max_chars: int = 300_000) -> str:
    value = frame.get(name, "")
    if not isinstance(value, str) or (required and not value.strip()):
        raise BadValue(f"{name} must be a text")
    if len(value) > max_chars:
        raise BadValue(f"{name} has more than {max_chars:,} characters")
    return value


def _id(frame: Frame, name: str, *, required: bool = True) -> str:
    value = _text(frame, name, required=required, max_chars=128)
    if "\x00" in value:
        raise BadValue(f"{name} cannot contain NUL characters")
    return value


class ChatFrames:
    """What each client frame does. Sync services behind one thread hop each."""

    def __init__(self, session: ChatSession, actor: Actor) -> None:
        self.session = session
        self.actor = actor
        self._handlers: dict[str, Callable[[Frame], Awaitable[Frame | None]]] = {
            "message": self._message,
            "answer": self._answer,
            "dismiss": self._dismiss,
            "steer": self._steer,
            "unsteer": self._unsteer,
            "stop": self._stop,
            "cancel_call": self._cancel_call,
        }

    async def handle(self, frame: Frame) -> Frame | None:
        """Do what the frame asks; a frame to answer with, if any.

        Raises AgentError for a frame that is refused; then nothing has changed.
        """
        kind = frame.get("type")
        if kind == "ping":
            return {"type": "pong"}
        handler = self._handlers.get(kind) if isinstance(kind, str) else None
        if handler is None:
            known = ", ".join([*self._handlers, "ping"])
            raise BadValue(f"unknown frame type; known are {known}")
        if not self.actor.can_write:
            raise Forbidden(f"{self.actor.scope.value} credentials may watch but not write")
        return await handler(frame)

    async def _message(self, frame: Frame) -> None:
        files = inline_files.read(frame.get("attachments"))
        message = Message(
            text=_text(frame, "text", required=not files),
            client_id=_id(frame, "client_id", required=False) or new_id("m"),
            origin=Origin.OPERATOR,
            model=_id(frame, "model", required=False),
        )
        incognito = frame.get("incognito")
        if incognito is not None and not isinstance(incognito, bool):
            raise BadValue("incognito must be true or false")
        await in_db(self._send)(message, incognito, files)

    def _send(self, message: Message, incognito: bool | None, files: Files) -> None:
        if files and turns.knows(self.session.pk, message.client_id):
            return  # the same message again: its inline files are stored already
        with inline_files.kept(self.actor.name, self.session, files) as ids:
            if incognito is not None and incognito != self.session.incognito:
                sessions.set_incognito(self.session, incognito=incognito)
            service.send(self.session, message, attachments=ids)

    async def _answer(self, frame: Frame) -> None:
        if "value" not in frame:
            raise BadValue("value is missing")
        interrupt_id = _id(frame, "interrupt_id")
        value = frame["value"]
        await in_db(service.answer)(self.session, interrupt_id, value, by=self.actor.name)

    async def _dismiss(self, frame: Frame) -> None:
        interrupt_id = _id(frame, "interrupt_id")
        await in_db(service.dismiss)(self.session, interrupt_id, by=self.actor.name)

    async def _steer(self, frame: Frame) -> None:
        files = inline_files.read(frame.get("attachments"))
        text = _text(frame, "text", required=not files)
        client_id = _id(frame, "client_id", required=False) or new_id("m")
        await in_db(self._steer_or_send)(text, client_id, files)

    def _steer_or_send(self, text: str, client_id: str, files: Files) -> None:
        if files and turns.knows(self.session.pk, client_id):
            return
        with inline_files.kept(self.actor.name, self.session, files) as ids:
            try:
                service.steer(self.session, text, client_id=client_id, attachments=ids)
            except NotFound:
                # The turn ended on the way: the text is the next message, not lost.
                service.send(self.session, Message(text, client_id), attachments=ids)

    async def _unsteer(self, frame: Frame) -> None:
        await in_db(pending.withdraw)(self.session.pk, _id(frame, "client_id"))

    async def _stop(self, frame: Frame) -> None:
        await in_db(service.stop)(self.session, by=self.actor.name)

    async def _cancel_call(self, frame: Frame) -> None:
        call_id = _id(frame, "call_id")
        await in_db(service.cancel_call)(call_id, by=self.actor.name, session=self.session)


def open_session(key: str, *, may_create: bool) -> ChatSession:
    """The session of this instance's agent; made on first use by those who may write.

    Raises NotFound for a viewer's unknown key and BadValue for a key that cannot be one.
    """
    agent = agents.current()
    session = sessions.ensure(agent, key) if may_create else sessions.find(agent, key)
    session.agent = agent
    return session


def parse_after(query: str) -> int | None:
    """The `after` of a query string; None without one. Raises BadValue unless it is a number."""
    values = parse_qs(query, keep_blank_values=True).get("after")
    if not values:
        return None
    if not values[0].isdecimal() or len(values[0]) > 9:
        raise BadValue("after must be the number of an event")
    return int(values[0])


class ChatConsumer(GuardedConsumer):
    """One client of one session. Closing it never stops a turn."""

    _frames: ChatFrames | None = None
    _subscription: live.Subscription | None = None
    _pump: asyncio.Task[None] | None = None

    async def opened(self) -> None:
        """Greet with the session's newest event number, then replay and follow."""
        key = self.scope["url_route"]["kwargs"]["session_key"]
        after = parse_after(self.scope.get("query_string", b"").decode("latin-1"))
        may_create = self.actor.can_write
        session = await in_db(open_session)(key, may_create=may_create)
        self._frames = ChatFrames(session, self.actor)
        runner.attach()
        cursor = session.last_seq if after is None else min(after, session.last_seq)
        await self.send_frame({"type": "hello", "session": key, "last_seq": session.last_seq})
        self._subscription = live.hub.subscribe(
            session.pk, cursor, caught_up=cursor == session.last_seq
        )
        self._pump = asyncio.get_running_loop().create_task(self._follow(self._subscription))

    async def received(self, frame: Frame) -> None:
        if self._frames is None:
            return
        self._frames.actor = self.actor
        answer = await self._frames.handle(frame)
        if answer is not None:
            await self.send_frame(answer)

    async def closed(self, code: int) -> None:
        if self._subscription is not None:
            self._subscription.close()
        if self._pump is not None:
            self._pump.cancel()

    async def _follow(self, subscription: live.Subscription) -> None:
        try:
            async for frames in subscription:
                for frame in frames:
                    await self.send_frame(frame)
        except TooMany:
            await self.end(TOO_SLOW)
