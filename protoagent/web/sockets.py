"""WebSockets that know who is at the other end, from the handshake to the last frame."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable
from typing import Any, ClassVar

from channels.db import database_sync_to_async as in_db
from channels.generic.websocket import AsyncWebsocketConsumer

from protoagent.accounts.services import credentials
from protoagent.accounts.services.credentials import Grant
from protoagent.core import events
from protoagent.core.context import Actor, Scope
from protoagent.core.errors import AgentError, BadValue, Forbidden, Unauthenticated
from protoagent.core.ids import new_id
from protoagent.core.pace import pace
from protoagent.security.redaction import mask_text, mask_value
from protoagent.web import bodies
from protoagent.web.auth import socket_grant

log = logging.getLogger(__name__)
Frame = dict[str, Any]

WHO_ARE_YOU = 4401
NOT_YOURS = 4403
BROKEN = 1006
CHECK_EVERY_S = 1.0


class GuardedConsumer(AsyncWebsocketConsumer):
    """A WebSocket of JSON objects behind the same doors as HTTP.

    A refused handshake is accepted and then closed with 4401 or 4403, so that clients
    can read the code. While the socket is open its credential is read again once a
    second and before each frame; when it is over, the socket closes with 4401.
    Subclasses fill `opened`, `received` and `closed`; a frame that cannot be used or
    makes `received` fail is answered with an `error` frame and never closes the socket.
    """

    scopes: ClassVar[frozenset[Scope]] = frozenset({Scope.OPERATOR, Scope.VIEWER})
    kind_field: ClassVar[str] = "type"
    viewer_frames: ClassVar[frozenset[str]] = frozenset({"ping"})

    grant: Grant
    actor: Actor
    is_open = False
    _was_opened = False

    async def opened(self) -> None:
        """The caller is known and the socket accepted. Raise AgentError to close with 4403."""

    async def received(self, frame: Frame) -> None:
        """One frame from the client, from a caller who may send it."""

    async def closed(self, code: int) -> None:
        """The socket is gone; called once after every `opened`, however it ended."""

    async def send_frame(self, frame: Frame) -> None:
        """Send one JSON object; after the end of the socket it goes nowhere."""
        if self.is_open:
            await self.send(text_data=json.dumps(frame, ensure_ascii=False, separators=(",", ":")))

    async def send_error(self, error: AgentError, frame: Any = None) -> None:
        """Tell the client what was refused; `client_id` says which of its frames."""
        answer: Frame = {"type": "error", "code": error.code, "message": mask_text(str(error))}
        client_id = frame.get("client_id") if isinstance(frame, dict) else None
        if isinstance(client_id, str):
            answer["client_id"] = client_id[:128]
        if problems := getattr(error, "errors", None):
            answer["errors"] = mask_value(problems)
        await self.send_frame(answer)

    async def end(self, code: int) -> None:
        """Close from our side; nothing is sent after it, and a second call does nothing."""
        if self.is_open:
            self.is_open = False
            await self.close(code)

    async def connect(self) -> None:
        await self.accept()
        self.is_open = True
        try:
            self.grant = await socket_grant(self.scope)
            self._take(self.grant.actor)
        except Unauthenticated:
            await self.end(WHO_ARE_YOU)
            return
        except Forbidden:
            await self.end(NOT_YOURS)
            return
        watch(self)
        self._was_opened = True
        try:
            await self.opened()
        except AgentError as error:
            await self.send_error(error)
            await self.end(NOT_YOURS)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if not self.is_open:
            return
        frame: Any = None
        try:
            frame = _object(text_data)
            with pace().begin():
                await self._recheck()
                if self.is_open:
                    self._check_frame(frame)
                    await self.received(frame)
        except AgentError as error:
            await self.send_error(error, frame)
        except Exception:  # one frame's failure must not end the socket
            number = new_id("e", 10)
            log.exception("frame failed error_id=%s", number)
            await self.send_error(
                AgentError(f"something broke here; the log has it under {number}"), frame
            )

    async def disconnect(self, code: int) -> None:
        await self._leave(code)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        try:
            return await super().__call__(scope, receive, send)
        finally:
            # A consumer that breaks or is cancelled gets no disconnect message.
            await self._leave(BROKEN)

    async def _leave(self, code: int) -> None:
        self.is_open = False
        unwatch(self)
        if self._was_opened:
            self._was_opened = False
            await self.closed(code)

    async def judge(self, actor: Actor | None) -> None:
        """Go on as what the records say now, or end."""
        if actor is None:
            await self.end(WHO_ARE_YOU)
            return
        try:
            self._take(actor)
        except Forbidden:
            await self.end(NOT_YOURS)

    async def _recheck(self) -> None:
        found = await in_db(credentials.recheck)([self.grant])
        await self.judge(found[self.grant])

    def _take(self, actor: Actor) -> None:
        if actor.scope not in self.scopes:
            raise Forbidden(f"the scope {actor.scope.value} does not open this socket")
        self.actor = actor

    def _check_frame(self, frame: Frame) -> None:
        kind = frame.get(self.kind_field)
        is_reading = isinstance(kind, str) and kind in self.viewer_frames
        if not self.actor.can_write and not is_reading:
            raise Forbidden("a viewer may look at everything and change nothing")


def _object(text: str | None) -> Frame:
    if text is None:
        raise BadValue("frames are JSON texts, not bytes")
    value = bodies.parse_json(text)
    if not isinstance(value, dict):
        raise BadValue("a frame is a JSON object")
    return value


class _Watch:
    """The open sockets of one event loop: one look at their credentials a second, for all.

    A hint that a credential was revoked makes the look happen at once. Without sockets
    there is no task and no query.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.sockets: set[GuardedConsumer] = set()
        self._loop = loop
        self._wake = asyncio.Event()
        self._stop_listening: Callable[[], None] = events.listen(self._hear)
        self._task = loop.create_task(self._run(), name="socket-credentials")

    def _hear(self, name: str, payload: dict[str, Any]) -> None:
        if name == "credential.revoked":
            try:
                self._loop.call_soon_threadsafe(self._wake.set)
            except RuntimeError:  # the loop has ended, and its sockets with it
                self._stop_listening()

    async def _run(self) -> None:
        try:
            while self.sockets:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), CHECK_EVERY_S)
                self._wake.clear()
                await self._look()
        finally:
            self._stop_listening()
            _watches.pop(self._loop, None)

    async def _look(self) -> None:
        sockets = tuple(self.sockets)
        try:
            found = await in_db(credentials.recheck)({socket.grant for socket in sockets})
            for socket in sockets:
                await socket.judge(found[socket.grant])
        except Exception:  # the other sockets stay watched
            log.exception("credentials of open sockets could not be checked; trying again")


_watches: dict[asyncio.AbstractEventLoop, _Watch] = {}


def watch(socket: GuardedConsumer) -> None:
    """The socket's credential is looked at until `unwatch`."""
    loop = asyncio.get_running_loop()
    if loop not in _watches:
        _watches[loop] = _Watch(loop)
    _watches[loop].sockets.add(socket)


def unwatch(socket: GuardedConsumer) -> None:
    """Forget the socket."""
    current = _watches.get(asyncio.get_running_loop())
    if current is not None:
        current.sockets.discard(socket)
