"""One streaming client for every OpenAI-compatible server.

LiteLLM, Ollama, LM Studio, vLLM, llama.cpp, OpenRouter and OpenAI differ in small things;
what one of them refuses is left out from then on.
"""

from __future__ import annotations

import re
from typing import Any

from protoagent.core.errors import ModelFailed
from protoagent.providers.assembly import Assembly
from protoagent.providers.base import ModelRequest
from protoagent.providers.faults import Faults
from protoagent.providers.served import Answer, ServedModel
from protoagent.providers.wire import decode

# OpenAI's newer models refuse the old name of the limit, most other servers the new one.
_RENAMED = {"max_tokens": "max_completion_tokens"}
# Parameters that a request can do without. A renamed one comes before its new name.
_ADAPTABLE = (
    "max_tokens",
    "max_completion_tokens",
    "stream_options",
    "temperature",
    "top_p",
    "reasoning_effort",
)
_NO_CHAT_MODEL = re.compile(
    r"embed|whisper|tts|dall-e|rerank|moderation|transcri|audio|image|realtime|bge-|clip", re.I
)


class GatewayModel(ServedModel):
    """A model behind `POST <base>/chat/completions`."""

    path = "/chat/completions"

    def authorisation(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"} if key else {}

    def body(self, request: ModelRequest, name: str) -> dict[str, Any]:
        body: dict[str, Any] = {"model": name, "messages": request.messages, "stream": True}
        body["stream_options"] = {"include_usage": True}
        if request.tools:
            body["tools"] = request.tools
        body.update((key, value) for key, value in request.options.items() if value is not None)
        if body.get("reasoning_effort") == "max":
            body["reasoning_effort"] = "high"  # the highest that this format knows
        return body

    def answer(self, assembly: Assembly) -> Answer:
        return _Chunks(assembly, self.faults)

    def choose(self, names: list[str]) -> str:
        return next((name for name in names if not _NO_CHAT_MODEL.search(name)), "")

    def adapt(self, said: str, body: dict[str, Any]) -> str:
        return next((p for p in _ADAPTABLE if p in body and _is_about(p, said)), "")

    def apply(self, note: str, body: dict[str, Any]) -> None:
        if note in body:
            value = body.pop(note)
            if note in _RENAMED:
                body[_RENAMED[note]] = value


def _is_about(parameter: str, said: str) -> bool:
    if re.search(rf"\b{parameter}\b", said):
        return True
    # "you requested 33000 tokens (232 in the messages, 32768 in the completion)"
    return parameter in (*_RENAMED, *_RENAMED.values()) and "in the completion" in said


class _Chunks:
    """Takes `chat.completion.chunk` events apart."""

    def __init__(self, assembly: Assembly, faults: Faults) -> None:
        self.assembly = assembly
        self.flush = assembly.flush
        self._faults = faults
        self._is_done = False
        self._has_events = False

    @property
    def has_content(self) -> bool:
        return self.assembly.has_content

    @property
    def is_complete(self) -> bool:
        return self._is_done or bool(self.assembly.finish_reason)

    def event(self, data: bytes) -> bool:
        if data.startswith(b"[DONE]"):
            self._is_done = True
            if not self._has_events:
                raise self._broken("an empty answer")
            return True
        try:
            chunk = decode(data)
        except ValueError:
            raise self._broken("an event that is no JSON") from None
        if isinstance(chunk, dict):
            self._take(chunk)
        return False

    def whole(self, body: dict[str, Any]) -> None:
        self._take(body)
        if not body.get("choices"):
            raise self._broken("no answer")
        self._is_done = True

    def ended(self) -> None:
        if not self._has_events:
            raise self._broken("an empty answer")

    def _take(self, chunk: dict[str, Any]) -> None:
        error = chunk.get("error") or (chunk if chunk.get("object") == "error" else None)
        if error:
            if self.has_content:
                self.flush()
            raise self._faults.of_object(error, has_content=self.has_content)
        self._has_events = True
        try:
            self.assembly.add_chunk(chunk)
        except (AttributeError, KeyError, TypeError, IndexError):
            raise self._broken("an answer of an unknown form") from None

    def _broken(self, what: str) -> ModelFailed:
        return self._faults.of_network(f"sent {what}", has_content=self.has_content)
