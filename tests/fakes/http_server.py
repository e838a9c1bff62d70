"""A small HTTP/1.1 server for fakes: keep-alive, chunked bodies, aborts on demand.

A handler is `async (request, reply) -> None`. It is cancelled when the client hangs up.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any


@dataclass(frozen=True)
class Request:
    """One request. Header names are lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body or b"null")


class Reply:
    """Writes one answer to one connection."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection

    def raw(self, data: bytes) -> None:
        self._connection.transport.write(data)

    def whole(
        self,
        status: int,
        body: bytes,
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> None:
        lines = [f"HTTP/1.1 {status} {_phrase(status)}", f"Content-Type: {content_type}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        lines += [f"Content-Length: {len(body)}", "", ""]
        self.raw("\r\n".join(lines).encode() + body)

    def json(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.whole(status, json.dumps(value).encode(), headers=headers)

    def start_events(self) -> None:
        self.raw(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
        )

    def chunk(self, data: bytes) -> None:
        self.raw(b"%x\r\n%s\r\n" % (len(data), data))

    def end(self) -> None:
        self.raw(b"0\r\n\r\n")

    def abort(self) -> None:
        """Close the connection in the middle of the answer."""
        self._connection.transport.close()

    async def writable(self) -> None:
        """Wait until the client has read enough."""
        await self._connection.can_write.wait()


Handler = Callable[[Request, Reply], Awaitable[None]]


class _Connection(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._received = b""
        self._task: asyncio.Task[None] | None = None
        self.can_write = asyncio.Event()
        self.can_write.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def pause_writing(self) -> None:
        self.can_write.clear()

    def resume_writing(self) -> None:
        self.can_write.set()

    def connection_lost(self, error: Exception | None) -> None:
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._task is None:
            self._next()

    def _next(self) -> None:
        head, found, rest = self._received.partition(b"\r\n\r\n")
        if not found:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        size = int(headers.get("content-length", 0))
        if len(rest) < size:
            return
        self._received = rest[size:]
        method, path, _ = first.split(" ", 2)
        self._task = asyncio.ensure_future(
            self._answer(Request(method, path, headers, rest[:size]))
        )

    async def _answer(self, request: Request) -> None:
        try:
            await self._handler(request, Reply(self))
        except asyncio.CancelledError:
            if not self.transport.is_closing():
                raise
            return
        except Exception as error:
            Reply(self).json({"error": {"message": f"fake broke: {error!r}"}}, status=500)
        self._task = None
        if not self.transport.is_closing():
            self._next()


async def listen(handler: Handler, host: str = "127.0.0.1", port: int = 0) -> asyncio.Server:
    """A listening server; port 0 takes a free one."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: _Connection(handler), host, port, backlog=512)


def port_of(server: asyncio.Server) -> int:
    return int(server.sockets[0].getsockname()[1])


@contextlib.contextmanager
def in_thread(handler: Handler) -> Iterator[str]:
    """The URL of a server that runs in a thread of its own until the block ends."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="fake-server", daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(listen(handler), loop).result(10)
    try:
        yield f"http://127.0.0.1:{port_of(server)}"
    finally:
        asyncio.run_coroutine_threadsafe(_close(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _close(server: asyncio.Server) -> None:
    server.close()
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Odd"
