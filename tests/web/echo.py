"""A socket to try the doors with: it answers each frame with what it knows of the caller."""

from __future__ import annotations

from typing import Any

from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator
from django.urls import path

from protoagent.core.context import Scope
from protoagent.core.errors import BadValue, NotFound
from protoagent.web.sockets import Frame, GuardedConsumer

HOST = "localhost:7870"
ORIGIN = f"http://{HOST}"


class Echo(GuardedConsumer):
    seen: list[Frame] = []
    ends: list[int] = []

    async def opened(self) -> None:
        if self.scope["path"].endswith("/missing/"):
            raise NotFound("no such session")
        if self.scope["path"].endswith("/broken/"):
            raise RuntimeError("secret detail")
        await self.send_frame({"type": "hello", "name": self.actor.name})

    async def received(self, frame: Frame) -> None:
        if frame.get("type") == "bad":
            raise BadValue("this is bad")
        if frame.get("type") == "boom":
            raise RuntimeError("secret detail")
        self.seen.append(frame)
        await self.send_frame({"type": "echo", "scope": self.actor.scope.value, "got": frame})

    async def closed(self, code: int) -> None:
        self.ends.append(code)


class InboxEcho(Echo):
    scopes = frozenset({Scope.INBOX})


application = URLRouter(
    [
        path("ws/echo/", Echo.as_asgi()),
        path("ws/missing/", Echo.as_asgi()),
        path("ws/broken/", Echo.as_asgi()),
        path("ws/inbox/", InboxEcho.as_asgi()),
    ]
)


def connect_as(
    *,
    token: str = "",
    session: str = "",
    origin: str | None = None,
    host: str | None = HOST,
    path_: str = "/ws/echo/",
    extra: list[tuple[bytes, bytes]] | None = None,
    app: Any = None,
) -> WebsocketCommunicator:
    """A socket with these handshake headers."""
    headers: list[tuple[bytes, bytes]] = []
    if host is not None:
        headers.append((b"host", host.encode()))
    if origin is not None:
        headers.append((b"origin", origin.encode()))
    if token:
        headers.append((b"authorization", f"Bearer {token}".encode()))
    if session:
        headers.append((b"cookie", f"theme=dark; protoagent_session={session}".encode()))
    return WebsocketCommunicator(app or application, path_, headers=headers + (extra or []))


async def outcome(socket: WebsocketCommunicator) -> int:
    """0 for an open socket that said hello, else the code it was closed with after accepting."""
    accepted, _ = await socket.connect(timeout=5)
    assert accepted, "a refused handshake is accepted first, so that the client can read the code"
    message = await socket.receive_output(timeout=5)
    if message["type"] == "websocket.close":
        return int(message["code"])
    assert '"type":"hello"' in message["text"]
    return 0


async def closing_code(socket: WebsocketCommunicator, timeout: float = 2.0) -> int:
    """The code that the server closes this open socket with, within `timeout` seconds."""
    while True:
        message = await socket.receive_output(timeout=timeout)
        if message["type"] == "websocket.close":
            return int(message["code"])
