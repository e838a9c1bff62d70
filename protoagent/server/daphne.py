"""Daphne, fitted to this product. Importing this module installs the Twisted reactor.

What differs from the stock server: it takes over a listening socket, sends no faster
than the client reads, bounds what it keeps of a body or frame without closing the
connection, has no age limit for sockets, and ends in an orderly way.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

from daphne.http_protocol import HTTPFactory, WebRequest
from daphne.server import Server
from daphne.ws_protocol import WebSocketFactory, WebSocketProtocol
from twisted.internet import reactor as _installed_reactor
from twisted.logger import LogPublisher, globalLogBeginner

from protoagent.core.errors import AgentError

log = logging.getLogger(__name__)

MIB = 1024 * 1024
# Both are above the product's own limits of 1 MiB, which are answered in its own words.
MAX_BODY = 16 * MIB
# A text cut here still has more than 1 Mi characters, so it is still seen to be too long.
MAX_FRAME = 4 * MIB + 4
RESTARTING = 1012
GRACE_S = 3.0
RETRY_AFTER = [(b"content-type", b"application/json"), (b"retry-after", b"1")]

Message = dict[str, Any]
# Twisted types the module as an interface, but it is the object that Daphne has installed.
reactor = cast(Any, _installed_reactor)


@dataclass(frozen=True)
class Uploads:
    """Which requests may have a larger body, how large, and from whom.

    `check` raises AgentError for a head whose sender may not send files.
    """

    is_one: Callable[[str, str], bool]
    max_bytes: Callable[[], int]
    check: Callable[[Iterable[tuple[bytes, bytes]]], Awaitable[None]]


class Request(WebRequest):  # type: ignore[misc]
    """An HTTP request whose body stops being kept at `MAX_BODY`, or at the limit of files.

    The body of a file is read on only when it is known who sends it.
    """

    content: Any
    max_body = MAX_BODY
    refusal: tuple[int, str] | None = None
    _checking: asyncio.Task[None] | None = None

    def gotLength(self, length: int | None) -> None:
        """The headers are read and announce a body of `length` bytes, or of unknown length."""
        super().gotLength(length)
        uploads: Uploads | None = self.server.uploads
        is_upload = uploads is not None and uploads.is_one(*self._method_and_path())
        if uploads is not None and is_upload:
            self.max_body = max(MAX_BODY, uploads.max_bytes() + MIB)
        if length is not None and length > self.max_body:
            self._drop(413, self._limit())
        elif uploads is not None and is_upload and (length is None or length > MIB):
            self.channel._networkProducer.pauseProducing()
            self._checking = self.server.loop.create_task(self._check(uploads))

    def _method_and_path(self) -> tuple[str, str]:
        path = self.channel._path.partition(b"?")[0]
        return self.channel._command.decode("latin-1"), path.decode("latin-1")

    async def _check(self, uploads: Uploads) -> None:
        lines = self.requestHeaders.getAllRawHeaders()
        try:
            await uploads.check([(name, value) for name, values in lines for value in values])
        except AgentError as error:
            self._drop(error.status, str(error))
        except Exception:  # the database may be away; the next file is asked about again
            log.exception("it could not be checked who sends a file")
            self._drop(503, "it cannot be checked who you are at the moment; send it again")
        finally:
            if self.channel is not None:
                self.channel._networkProducer.resumeProducing()

    def _limit(self) -> str:
        return f"a request has at most {self.max_body // MIB} MiB"

    def _drop(self, status: int, why: str) -> None:
        """What has arrived of the body is forgotten and the rest of it is not kept."""
        self.refusal = (status, why)
        self.content.close()
        self.content = io.BytesIO()

    def handleContentChunk(self, data: bytes) -> None:
        """Keep a piece of the body, or drop all of it once it is too much."""
        if self.refusal is None and self.content.tell() + len(data) > self.max_body:
            self._drop(413, self._limit())
        if self.refusal is None:
            super().handleContentChunk(data)

    def process(self) -> Any:
        """Hand the request to the application, or answer why not.

        A short body of unknown length may be whole before its sender is known; then the
        application asks.
        """
        if self._checking is not None:
            self._checking.cancel()
        if self.refusal is not None:
            return self.refuse(*self.refusal)
        return super().process()

    def handle_reply(self, message: Message) -> None:
        """Send a part of the response.

        The answer to HEAD has no body: what came after its headers, the client would take
        for the answer to its next request on this connection.
        """
        if self.method == b"HEAD" and message.get("body"):
            message = {**message, "body": b""}
        super().handle_reply(message)

    def refuse(self, status: int, detail: str) -> None:
        """Answer without asking the application. `detail` must not need escaping in HTML."""
        headers = [*RETRY_AFTER] if status == 503 else RETRY_AFTER[:1]
        self.handle_reply({"type": "http.response.start", "status": status, "headers": headers})
        body = json.dumps({"detail": detail}).encode()
        self.handle_reply({"type": "http.response.body", "body": body})

    @property
    def is_unanswered(self) -> bool:
        """Whether no part of a response has been sent yet."""
        return not self._response_started


class RequestFactory(HTTPFactory):  # type: ignore[misc]
    """Makes channels whose requests are `Request`s."""

    def buildProtocol(self, addr: Any) -> Any:
        protocol = super().buildProtocol(addr)
        protocol.requestFactory = Request
        return protocol


class Socket(WebSocketProtocol):  # type: ignore[misc]
    """A WebSocket that no frame can close and that its client slows down."""

    def onConnect(self, request: Any) -> Any:
        self._kept = 0
        self._writable = asyncio.Event()
        self._writable.set()
        # The HTTP channel that this connection began as is still registered.
        self.transport.unregisterProducer()
        self.transport.registerProducer(self, True)
        return super().onConnect(request)

    def onMessageBegin(self, isBinary: bool) -> None:
        self._kept = 0
        super().onMessageBegin(isBinary)

    def onMessageFrameData(self, payload: bytes) -> None:
        piece = payload[: MAX_FRAME - self._kept]
        if piece:
            self._kept += len(piece)
            self.frame_data.append(piece)

    def onMessage(self, payload: bytes, isBinary: bool) -> None:
        """Text that is not UTF-8 reaches the application as bytes, which it refuses in words."""
        if not isBinary:
            errors = "ignore" if len(payload) >= MAX_FRAME else "strict"
            try:
                payload = payload.decode("utf-8", errors).encode()
            except UnicodeDecodeError:
                isBinary = True
        super().onMessage(payload, isBinary)

    def pauseProducing(self) -> None:
        """The client reads more slowly than is sent."""
        self._writable.clear()

    def resumeProducing(self) -> None:
        """The client has caught up."""
        self._writable.set()

    def stopProducing(self) -> None:
        """The client is gone."""
        self._writable.set()

    def onClose(self, wasClean: bool, code: int, reason: str) -> None:
        self._writable.set()
        super().onClose(wasClean, code, reason)

    async def drained(self) -> None:
        """Returns when the client has caught up or is gone."""
        await self._writable.wait()


class SocketFactory(WebSocketFactory):  # type: ignore[misc]
    """Makes `Socket`s."""

    protocol = Socket


class WebServer(Server):  # type: ignore[misc]
    """Serves `application` on a socket that listens already.

    `on_start` and `on_stop` run on the event loop, the latter while connections end.
    """

    def __init__(
        self,
        application: Any,
        listener: socket.socket,
        *,
        on_start: Callable[[], Awaitable[None]],
        on_stop: Callable[[], Awaitable[None]],
        uploads: Uploads | None = None,
    ) -> None:
        super().__init__(
            application,
            endpoints=["inherited"],
            server_name="",
            http_timeout=None,
            websocket_timeout=-1,
            websocket_handshake_timeout=10,
        )
        self._listener = listener
        self._on_start = on_start
        self._on_stop = on_stop
        self.uploads = uploads
        self._stopping: asyncio.Task[None] | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the reactor."""
        return reactor._asyncioEventloop

    def run(self) -> None:
        """Serve until `stop_soon`."""
        self.connections: dict[Any, Message] = {}
        self.http_factory = RequestFactory(self)
        self.ws_factory = SocketFactory(self, server="")
        self.ws_factory.setProtocolOptions(
            autoPingTimeout=self.ping_timeout,
            allowNullOrigin=True,
            openHandshakeTimeout=self.websocket_handshake_timeout,
            utf8validateIncoming=False,
        )
        # Twisted's own log says nothing that our loggers do not; this observer has no readers.
        globalLogBeginner.beginLoggingTo(
            [cast(Any, LogPublisher())], redirectStandardIO=False, discardBuffer=True
        )
        asyncio.set_event_loop(self.loop)
        reactor.callLater(1, self.application_checker)
        reactor.callLater(2, self.timeout_checker)
        reactor.callWhenRunning(self._begin)
        reactor.run(installSignalHandlers=False)

    def _begin(self) -> None:
        self._starting = self.loop.create_task(self._start(), name="web-start")

    async def _start(self) -> None:
        try:
            await self._on_start()
            self._port = reactor.adoptStreamPort(
                self._listener.fileno(), self._listener.family, self.http_factory
            )
        except BaseException:
            log.exception("the web server could not start")
            reactor.stop()
            raise

    async def handle_reply(self, protocol: Any, message: Message) -> None:
        """Hand `message` to the connection; returns when its client keeps up."""
        await super().handle_reply(protocol, message)
        if isinstance(protocol, Socket):
            await protocol.drained()

    def stop_soon(self) -> None:
        """Begin to end; called on the event loop. A second call does nothing."""
        if self._stopping is None:
            self._stopping = self.loop.create_task(self._stop(), name="web-stop")

    async def _stop(self) -> None:
        try:
            self._port.stopListening()
            await asyncio.gather(self._end_connections(), self._on_stop(), return_exceptions=True)
        finally:
            reactor.stop()

    async def _end_connections(self) -> None:
        """Tell everybody, give the applications a moment, then cancel what still runs."""
        for protocol in tuple(self.connections):
            if isinstance(protocol, Socket) and protocol.state == Socket.STATE_OPEN:
                protocol.sendCloseFrame(code=RESTARTING, reasonUtf8=b"the server restarts")
        tasks = self._applications()
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE_S)
        for protocol in tuple(self.connections):
            if isinstance(protocol, Request) and protocol.is_unanswered and protocol.path:
                protocol.refuse(503, "the server restarts")
        tasks = self._applications()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE_S)

    def _applications(self) -> list[asyncio.Future[Any]]:
        found = (details.get("application_instance") for details in self.connections.values())
        return [task for task in found if task is not None and not task.done()]
