"""Servers that a provider talks to: the scripted gateway, and one that replays exact bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from protoagent.providers import pool, served
from tests.fakes import gateway as fake_gateway
from tests.fakes import http_server
from tests.fakes.http_server import Reply, Request


@pytest.fixture(autouse=True)
async def no_memory() -> AsyncIterator[None]:
    """Nothing learned from one server reaches the next test, and no connection stays open."""
    served._adaptations.clear()
    served._default_names.clear()
    yield
    await pool.close()


@pytest.fixture
def gateway() -> Iterator[fake_gateway.Gateway]:
    with fake_gateway.running() as running:
        yield running


Step = bytes | float


@dataclass
class Replay:
    """Answers each request with the next script: bytes as they are, numbers are seconds to wait."""

    scripts: list[list[Step]]
    base: str = ""
    requests: list[Request] = field(default_factory=list)
    connections: set[Any] = field(default_factory=set)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [request.json() for request in self.requests]

    async def __call__(self, request: Request, reply: Reply) -> None:
        self.requests.append(request)
        self.connections.add(reply._connection)
        script = self.scripts[min(len(self.requests), len(self.scripts)) - 1]
        for step in script:
            if isinstance(step, bytes):
                reply.raw(step)
                await asyncio.sleep(0)
            else:
                await asyncio.sleep(step)
        if CLOSE in script:
            reply.abort()


CLOSE = b""
ReplayMaker = Callable[..., Replay]


@pytest.fixture
def replay() -> Iterator[ReplayMaker]:
    """Make a server that answers with the given scripts, the last one again and again."""
    with ExitStack() as stack:

        def make(*scripts: list[Step]) -> Replay:
            made = Replay(list(scripts))
            made.base = stack.enter_context(http_server.in_thread(made)) + "/v1"
            return made

        yield make


def stream_head(content_type: str = "text/event-stream") -> bytes:
    return (
        f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
    ).encode()


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


END = b"0\r\n\r\n"


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def streamed(*events: Any) -> list[Step]:
    """A whole streamed answer; dictionaries become events, bytes stay as they are."""
    parts = (part if isinstance(part, bytes) else event(part) for part in events)
    return [stream_head(), *map(chunked, parts), END]


def whole(value: Any, status: int = 200, content_type: str = "application/json") -> list[Step]:
    """A whole answer that is not streamed."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}"
    return [head.encode() + b"\r\n\r\n" + body]
