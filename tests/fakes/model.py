"""A model that follows a script: the wall behind which the real one would be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from protoagent.core.errors import ModelFailed
from protoagent.providers.base import CallRequest, ModelReply, ModelRequest, ModelSink, Usage

Step = Callable[["FakeModel", ModelRequest, ModelSink], Any]


@dataclass
class FakeModel:
    """Takes the next step of `steps` for each call; without one it says "ok"."""

    name: str = "fake"
    provider: str = "offline"
    steps: list[Step] = field(default_factory=list)
    requests: list[ModelRequest] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def complete(self, request: ModelRequest, sink: ModelSink) -> ModelReply:
        self.requests.append(request)
        step = self.steps.pop(0) if self.steps else say("ok")
        reply = step(self, request, sink)
        return await reply if asyncio.iscoroutine(reply) else reply


def say(*deltas: str) -> Step:
    """Stream these texts and end."""

    def step(model: FakeModel, request: ModelRequest, sink: ModelSink) -> ModelReply:
        for delta in deltas:
            sink.text(delta)
        return ModelReply("".join(deltas), usage=Usage(10, len(deltas)))

    return step


def call(*calls: tuple[str, str], text: str = "") -> Step:
    """Ask for these `(tool, arguments)` in one message."""

    def step(model: FakeModel, request: ModelRequest, sink: ModelSink) -> ModelReply:
        if text:
            sink.text(text)
        wanted = tuple(CallRequest("call_1", name, arguments) for name, arguments in calls)
        return ModelReply(text, wanted, Usage(10, 5), "tool_calls")

    return step


def fail(message: str = "the gateway is away", *, after: str = "", **flags: bool) -> Step:
    """Fail, after having streamed `after`."""

    def step(model: FakeModel, request: ModelRequest, sink: ModelSink) -> ModelReply:
        if after:
            sink.text(after)
        raise ModelFailed(message, **flags)

    return step


def hang(*deltas: str) -> Step:
    """Stream these texts and then say nothing more until `model.gate` is set."""

    async def step(model: FakeModel, request: ModelRequest, sink: ModelSink) -> ModelReply:
        for delta in deltas:
            sink.text(delta)
        await model.gate.wait()
        return ModelReply("".join(deltas))

    return step
