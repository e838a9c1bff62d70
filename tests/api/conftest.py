"""Callers of the API: tokens, clients, and a process that runs turns."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from asgiref.sync import ThreadSensitiveContext
from django.test import AsyncClient, Client

from protoagent.accounts.services import programs
from protoagent.core import extensions
from protoagent.core.context import Scope
from protoagent.providers import catalog
from protoagent.runtime import runner
from tests.fakes.model import FakeModel
from tools_app import registry
from tools_app.spec import ToolContext, tool


@tool(group="test")
async def ask_form(ctx: ToolContext) -> str:
    """Ask for a form of one step."""
    schema = {
        "type": "object",
        "properties": {"engine": {"type": "string"}, "size": {"type": "integer"}},
        "required": ["engine"],
    }
    form = {"kind": "form", "title": "Storage", "steps": [{"schema": schema}]}
    return str(await ctx.ask(form))


@tool(group="test")
async def ask_why(ctx: ToolContext, question: str = "why?") -> str:
    """Ask one question."""
    return str(await ctx.ask({"kind": "question", "question": question}))


class ThreadedClient(AsyncClient):
    """Gives each request a thread of its own, as the ASGI handler does and AsyncClient does not."""

    async def request(self, **request: Any) -> Any:
        async with ThreadSensitiveContext():
            return await super().request(**request)


@dataclass
class Api:
    """A program with a token; bodies are JSON unless they are bytes."""

    client: Any
    secret: str

    def headers(self, more: dict[str, str] | None = None) -> dict[str, str]:
        return {"authorization": f"Bearer {self.secret}", **(more or {})}

    def get(self, path: str, **query: Any) -> Any:
        return self.client.get(path, query_params=query, headers=self.headers())

    def post(
        self, path: str, body: Any = None, content_type: str = "application/json", **more: str
    ) -> Any:
        data = b"" if body is None else body
        return self.client.post(path, data, content_type=content_type, headers=self.headers(more))

    def delete(self, path: str, **query: Any) -> Any:
        return self.client.delete(path, query_params=query, headers=self.headers())


@pytest.fixture
def operator(db: None) -> Api:
    """A synchronous operator."""
    return Api(Client(), programs.create("tests", Scope.OPERATOR).secret)


@pytest.fixture
def writer(transactional_db: None) -> Api:
    """A synchronous operator whose messages are stored but not run.

    Without the test's own transaction: a bridge out of async code closes a connection
    that is inside one.
    """
    return Api(Client(), programs.create("tests", Scope.OPERATOR).secret)


@pytest.fixture
def viewer(db: None) -> Api:
    """A synchronous viewer."""
    return Api(Client(), programs.create("watcher", Scope.VIEWER).secret)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> FakeModel:
    """The model behind every turn of the test."""
    fake = FakeModel()
    monkeypatch.setattr(catalog, "resolve", lambda name=None: fake)
    monkeypatch.setattr(catalog, "fallbacks", lambda: [])
    return fake


@pytest.fixture
def asking_tools() -> Iterator[None]:
    """Tools that pause the turn."""
    extensions.register("tool_sources", "plugins", lambda: (ask_form, ask_why))
    registry._cache.clear()
    yield
    extensions.register("tool_sources", "plugins", lambda: ())
    registry._cache.clear()


@pytest.fixture
async def live(transactional_db: None, model: FakeModel, asking_tools: None) -> AsyncIterator[Api]:
    """An asynchronous operator in a process that runs turns."""
    from channels.db import database_sync_to_async as in_db

    mine = runner.attach()
    secret = (await in_db(programs.create)("tests", Scope.OPERATOR)).secret
    yield Api(ThreadedClient(), secret)
    await mine.shutdown()
    runner.detach()


async def until(is_so: Callable[[], Any]) -> None:
    """Wait until `is_so()` is true; fails after five seconds."""
    async with asyncio.timeout(5):
        while True:
            found = is_so()
            if await found if inspect.isawaitable(found) else found:
                return
            await asyncio.sleep(0.01)
