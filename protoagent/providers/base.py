"""What the runtime asks of a model, whoever serves it.

Messages and tools are plain dictionaries in the OpenAI chat format: the one format
that every gateway of the field reads. A provider that speaks another translates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class ModelRequest:
    """One question to a model.

    `messages` and `tools` are in the OpenAI chat format. `options` holds only sampling
    parameters that the operator set: temperature, top_p, max_tokens, reasoning_effort …
    """

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CallRequest:
    """A tool call the model asks for. `arguments` is the raw JSON text it wrote."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Usage:
    """Tokens of one model call; zero where the provider does not say."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True)
class ModelReply:
    """The whole answer of one model call. `text` is everything that was streamed."""

    text: str
    calls: tuple[CallRequest, ...] = ()
    usage: Usage = Usage()
    finish_reason: str = "stop"
    model: str = ""


class ModelSink(Protocol):
    """Receives an answer while it is written. Methods return at once and never fail."""

    def text(self, delta: str) -> None:
        """More of the answer."""

    def alive(self) -> None:
        """Something else arrived (reasoning, a role, a piece of a call): the model works."""


class ChatModel(Protocol):
    """A model that can be asked."""

    @property
    def name(self) -> str:
        """As configured; blank until a server without a configured name has been asked."""

    @property
    def provider(self) -> str:
        """One of the names that model.provider takes."""

    async def complete(self, request: ModelRequest, sink: ModelSink) -> ModelReply:
        """Ask once and stream into `sink`; the reply holds the same text again, whole.

        No retry in here. Raises ModelFailed; `retryable` only when nothing of the
        answer's content had reached `sink`. Cancelling closes the connection.
        """
        ...
