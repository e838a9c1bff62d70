from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_db

from protoagent.config import services as config
from protoagent.core import extensions
from protoagent.core.context import Origin
from protoagent.core.ids import new_id
from protoagent.journal import live
from protoagent.journal.models import ChatSession, Turn
from protoagent.journal.services import agents, sessions
from protoagent.journal.services.turns import Accepted, Message
from protoagent.providers import catalog
from protoagent.runtime import runner, service
from tests.fakes.model import FakeModel
from tools_app import registry
from tools_app.spec import ToolContext, tool

ENDED = ("completed", "failed", "stopped", "interrupted")


@dataclass
class Chat:
    """One session and everything that its journal says."""

    session: ChatSession
    model: FakeModel
    events: list[dict[str, Any]] = field(default_factory=list)

    async def send(self, text: str = "hello", **fields: Any) -> Accepted:
        message = Message(text, fields.pop("client_id", new_id("m")), **fields)
        return await in_db(service.send)(self.session, message)

    async def until(self, type_: str, **data: Any) -> dict[str, Any]:
        """The next event of this type with these data; fails after five seconds."""
        last = self.events[-1]["seq"] if self.events else 0
        subscription = live.hub.subscribe(self.session.pk, last)
        try:
            async with asyncio.timeout(5):
                async for frames in subscription:
                    self.events += frames
                    for frame in frames:
                        found = frame["data"]
                        if frame["type"] == type_ and all(found.get(k) == data[k] for k in data):
                            return frame
        finally:
            subscription.close()
        raise AssertionError(f"no {type_} {data}")

    async def ended(self, status: str = "completed") -> dict[str, Any]:
        """The end of the running turn."""
        while True:
            event = await self.until("turn.finished")
            if event["data"]["status"] in ENDED:
                assert event["data"]["status"] == status, event
                return event

    async def ask(self, text: str = "hello", **fields: Any) -> str:
        await self.send(text, **fields)
        return (await self.ended())["data"]["text"]

    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    def of(self, type_: str) -> list[dict[str, Any]]:
        return [event["data"] for event in self.events if event["type"] == type_]

    async def turn(self) -> Turn:
        return await in_db(lambda: Turn.objects.filter(session=self.session).latest("number"))()


ran: list[str] = []


@tool(group="test", repeatable=True)
async def echo(text: str = "") -> str:
    """Say it again."""
    ran.append(text)
    return f"echo {text}"


@tool(group="test")
async def nap(seconds: float = 30) -> str:
    """Sleep."""
    ran.append("nap")
    await asyncio.sleep(seconds)
    return "slept"


@tool(group="test")
async def stubborn() -> str:
    """Ignore being cancelled for a while."""
    for _ in range(60):
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            continue
    return "never mind"


@tool(group="test", timeout_s=0.05)
async def hasty() -> str:
    """Takes longer than it may."""
    await asyncio.sleep(5)
    return "late"


@tool(group="test")
async def broken() -> str:
    """Fail."""
    raise RuntimeError("secret detail")


@tool(group="test")
async def ask_two(ctx: ToolContext) -> str:
    """Ask twice."""
    first = await ctx.ask({"kind": "question", "question": "first?"})
    second = await ctx.ask({"kind": "question", "question": "second?"})
    ran.append("ask_two")
    return f"{first} {second}"


@tool(group="test")
async def ask_one(ctx: ToolContext, question: str = "why?") -> str:
    """Ask once."""
    answer = await ctx.ask({"kind": "question", "question": question})
    ran.append(f"ask_one {answer}")
    return str(answer)


TOOLS = (echo, nap, stubborn, hasty, broken, ask_one, ask_two)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> FakeModel:
    fake = FakeModel()
    monkeypatch.setattr(catalog, "resolve", lambda name=None: fake)
    monkeypatch.setattr(catalog, "fallbacks", lambda: [])
    return fake


@pytest.fixture
async def chat(transactional_db: None, model: FakeModel):
    ran.clear()
    config.reload()  # an environment that an earlier test had is not this one's
    extensions.register("tool_sources", "plugins", lambda: TOOLS)
    registry._cache.clear()
    mine = runner.attach()
    agent = await in_db(agents.ensure)("main")
    session = await in_db(sessions.ensure)(agent, new_id("s"))
    session.agent = agent
    yield Chat(session, model)
    await mine.shutdown()
    runner.detach()
    extensions.register("tool_sources", "plugins", lambda: ())


__all__ = ["Chat", "Origin", "ran"]
