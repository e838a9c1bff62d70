"""The rest of the internet, on one loopback socket: names, addresses, pages, connections."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpcore

from tests.fakes import http_server
from tests.fakes.http_server import Reply, Request

PUBLIC = "93.184.215.14"
OTHER_PUBLIC = "198.41.0.4"
PUBLIC_V6 = "2606:4700::1111"

Answer = Callable[[Request, Reply], Awaitable[None] | None]


@dataclass
class FakeWeb(httpcore.AsyncNetworkBackend):
    """A resolver and a network for `egress.client`.

    `names` maps a host to what the resolver answers: a list of addresses, or a list of such
    lists that are given in turn, again and again. Every address that is dialled leads to
    the one fake server; `dialled` says which ones were. `seen` has the requests.
    """

    port: int = 0
    names: dict[str, list[Any]] = field(default_factory=dict)
    pages: dict[str, Answer] = field(default_factory=dict)
    unreachable: set[str] = field(default_factory=set)
    dialled: list[tuple[str, int]] = field(default_factory=list)
    looked_up: list[str] = field(default_factory=list)
    seen: list[Request] = field(default_factory=list)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.looked_up.append(host)
        answers = self.names.get(host)
        if not answers:
            raise OSError("name not known")
        if isinstance(answers[0], list):
            return answers[(self.looked_up.count(host) - 1) % len(answers)]
        return answers

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        self.dialled.append((host, port))
        if host in self.unreachable:
            raise httpcore.ConnectError("connection refused")
        return await httpcore.AnyIOBackend().connect_tcp("127.0.0.1", self.port, timeout)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def page(self, url: str, body: str | bytes = b"", **options: Any) -> None:
        """`http://host/path` answers with this body; the port of a request does not matter."""
        data = body.encode() if isinstance(body, str) else body
        status = options.pop("status", 200)
        content_type = options.pop("content_type", "text/html; charset=utf-8")
        headers = options.pop("headers", {})
        assert not options, options

        def answer(request: Request, reply: Reply) -> None:
            reply.whole(status, data, content_type, headers)

        self.pages[url] = answer

    def redirect(self, url: str, location: str, status: int = 302) -> None:
        self.page(url, status=status, headers={"Location": location})

    async def handle(self, request: Request, reply: Reply) -> None:
        self.seen.append(request)
        host = request.headers.get("host", "")
        name = host if host.endswith("]") else host.rsplit(":", 1)[0]
        answer = self.pages.get(f"http://{name}{request.path}")
        if answer is None:
            reply.whole(404, b"no such page", "text/plain")
            return
        done = answer(request, reply)
        if done is not None:
            await done


@contextlib.asynccontextmanager
async def fake_web(tls: ssl.SSLContext | None = None) -> AsyncIterator[FakeWeb]:
    """A web with one name, `public.example`, until the block ends."""
    web = FakeWeb(names={"public.example": [PUBLIC], "other.example": [OTHER_PUBLIC]})
    if tls is None:
        server = await http_server.listen(web.handle)
    else:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: http_server._Connection(web.handle), "127.0.0.1", 0, ssl=tls
        )
    web.port = http_server.port_of(server)
    try:
        yield web
    finally:
        server.close()
