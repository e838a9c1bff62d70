"""Short ways to ask the OpenAI-compatible client, and the events of its streams."""

from __future__ import annotations

from typing import Any

import pytest

from protoagent.core.errors import ModelFailed
from protoagent.providers.base import ModelReply, ModelRequest
from protoagent.providers.gateway import GatewayModel
from tests.providers.conftest import streamed, whole
from tests.providers.sinks import Collector

KEY = "sk-test-very-secret-1"


def model(base: str, **options: Any) -> GatewayModel:
    values: dict[str, Any] = {"name": "m", "key": KEY, "provider": "openai", "timeout_s": 5}
    return GatewayModel(base=base, **{**values, **options})


def asking(text: str = "hi", **fields: Any) -> ModelRequest:
    return ModelRequest([{"role": "user", "content": text}], **fields)


async def ask(base: str, text: str = "hi", sink: Collector | None = None) -> ModelReply:
    return await model(base).complete(asking(text), sink or Collector())


async def failure(base: str, sink: Collector | None = None, **options: Any) -> ModelFailed:
    with pytest.raises(ModelFailed) as caught:
        await model(base, **options).complete(asking(), sink or Collector())
    assert KEY not in str(caught.value)
    return caught.value


def delta(text: str, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


STOP = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
DONE = b"data: [DONE]\n\n"
HI = streamed(delta("hi"), STOP, DONE)


def refusal(message: str) -> list[Any]:
    return whole({"error": {"message": message}}, 400)
