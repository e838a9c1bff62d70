"""Anthropic's Messages API, spoken directly: the same connections, limits and faults as every
other model, and no second HTTP client beside the guarded one."""

from __future__ import annotations

import json
import re
from itertools import groupby
from typing import Any

from protoagent.core.errors import ModelFailed
from protoagent.providers.assembly import Assembly
from protoagent.providers.base import ModelRequest, Usage
from protoagent.providers.faults import Faults
from protoagent.providers.served import Answer, ServedModel
from protoagent.providers.wire import decode

VERSION = "2023-06-01"
DEFAULT_MAX_TOKENS = 32_768  # the API wants a limit in every request

_CACHE_HERE = {"type": "ephemeral"}
_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_DATA_URL = re.compile(r"data:(?P<type>[\w.+/-]+);base64,(?P<data>.*)\Z", re.DOTALL)
_TOO_MANY = re.compile(r"max_tokens: \d+ > (\d+)")


class AnthropicModel(ServedModel):
    """A Claude model behind `POST <base>/messages`."""

    path = "/messages"

    def authorisation(self, key: str) -> dict[str, str]:
        return {"x-api-key": key, "anthropic-version": VERSION}

    def body(self, request: ModelRequest, name: str) -> dict[str, Any]:
        system, messages = translate(request.messages)
        body: dict[str, Any] = {
            "model": name,
            "messages": messages,
            "stream": True,
            "max_tokens": request.options.get("max_tokens") or DEFAULT_MAX_TOKENS,
        }
        if system:
            body["system"] = system
        if request.tools:
            body["tools"] = [_tool(tool["function"]) for tool in request.tools]
        for option in ("temperature", "top_p"):
            value = request.options.get(option)
            if value is not None:
                # Temperatures of this API end at 1, those of the others at 2.
                body[option] = min(value, 1) if option == "temperature" else value
        return body

    def answer(self, assembly: Assembly) -> Answer:
        return _Events(assembly, self.faults)

    def choose(self, names: list[str]) -> str:
        """The newest of the middle size: names come newest first."""
        return next((name for name in names if "sonnet" in name), names[0] if names else "")

    def adapt(self, said: str, body: dict[str, Any]) -> str:
        if limit := _TOO_MANY.search(said):
            return f"max_tokens={limit[1]}"
        # Some models refuse the two together; the temperature is the one with a meaning here.
        for option in ("top_p", "temperature"):
            if option in body and re.search(rf"\b{option}\b", said):
                return option
        return ""

    def apply(self, note: str, body: dict[str, Any]) -> None:
        option, _, limit = note.partition("=")
        if limit:
            body[option] = min(body[option], int(limit))
        else:
            body.pop(option, None)


def translate(
    messages: list[dict[str, Any]],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """System blocks and alternating messages in Anthropic's format.

    The end of the system prompt and of the conversation are marked for the provider's cache.
    """
    system = [
        block
        for message in messages
        if message["role"] in ("system", "developer")
        for block in _parts(message.get("content"))
    ]
    turns = [
        ("assistant" if message["role"] == "assistant" else "user", _blocks(message))
        for message in messages
        if message["role"] not in ("system", "developer")
    ]
    translated = []
    for role, group in groupby((turn for turn in turns if turn[1]), key=lambda turn: turn[0]):
        content = [block for _, blocks in group for block in blocks]
        # Results must come first in the message that follows their calls.
        content.sort(key=lambda block: block["type"] != "tool_result")
        translated.append({"role": role, "content": content})
    if translated and translated[0]["role"] != "user":
        translated.insert(0, {"role": "user", "content": [{"type": "text", "text": "…"}]})
    for blocks in (system, translated[-1]["content"] if translated else []):
        if blocks:
            blocks[-1] = {**blocks[-1], "cache_control": _CACHE_HERE}
    return system, translated


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    if message["role"] == "tool":
        content = _parts(message.get("content"))
        text = content[0].get("text", "") if content else ""
        result = {"type": "tool_result", "tool_use_id": _id(message.get("tool_call_id"))}
        is_error = {"is_error": True} if text.startswith("Error:") else {}
        return [{**result, "content": content, **is_error}]
    blocks = _parts(message.get("content"))
    for call in message.get("tool_calls") or ():
        function = call["function"]
        blocks.append(
            {
                "type": "tool_use",
                "id": _id(call.get("id")),
                "name": function["name"],
                "input": _input(function.get("arguments")),
            }
        )
    if message["role"] == "assistant" and blocks and blocks[-1]["type"] == "text":
        blocks[-1]["text"] = blocks[-1]["text"].rstrip()  # the API refuses white space there
    return [block for block in blocks if block.get("text") != ""]


def _parts(content: Any) -> list[dict[str, Any]]:
    """Content blocks; blank texts are left out, because the API refuses them."""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    found = []
    for part in content or ():
        if part.get("type") == "image_url":
            found.append({"type": "image", "source": _image(part["image_url"])})
        elif str(part.get("text") or "").strip():
            found.append({"type": "text", "text": part["text"]})
    return found


def _image(image: Any) -> dict[str, str]:
    url = image["url"] if isinstance(image, dict) else image
    if match := _DATA_URL.match(url):
        return {"type": "base64", "media_type": match["type"], "data": match["data"]}
    return {"type": "url", "url": url}


def _input(arguments: Any) -> dict[str, Any]:
    try:
        value = json.loads(arguments or "{}")
    except (TypeError, ValueError):
        value = None
    return value if isinstance(value, dict) else {"unreadable": str(arguments)}


def _id(call_id: Any) -> str:
    """A call id with the characters that this API allows; others come from another provider."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", str(call_id or "")) or "call"


def _tool(function: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": function["name"],
        "description": function.get("description", ""),
        "input_schema": function.get("parameters") or {"type": "object", "properties": {}},
    }


class _Events:
    """Takes the events of the Messages API apart."""

    def __init__(self, assembly: Assembly, faults: Faults) -> None:
        self.assembly = assembly
        self.flush = assembly.flush
        self._faults = faults
        self._is_done = False
        self._usage: dict[str, Any] = {}

    @property
    def has_content(self) -> bool:
        return self.assembly.has_content

    @property
    def is_complete(self) -> bool:
        return self._is_done or bool(self.assembly.finish_reason)

    def event(self, data: bytes) -> bool:
        try:
            event = decode(data)
            self._take(event)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise self._broken("an event of an unknown form") from None
        return self._is_done

    def whole(self, body: dict[str, Any]) -> None:
        if body.get("type") == "error" or "content" not in body:
            raise self._error(body.get("error") or body)
        for index, block in enumerate(body["content"]):
            self._begin(index, block)
            if block["type"] == "tool_use":
                self._call(index, json.dumps(block["input"]))
        self._end(body.get("stop_reason"), body.get("usage"))
        self._is_done = True

    def ended(self) -> None:
        if not self.is_complete:
            raise self._broken("an answer without an end")

    def _take(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case "content_block_delta":
                self._delta(event["index"], event["delta"])
            case "content_block_start":
                self._begin(event["index"], event["content_block"])
            case "message_start":
                self._end(None, event["message"].get("usage"))
            case "message_delta":
                self._end(event["delta"].get("stop_reason"), event.get("usage"))
            case "message_stop":
                self._is_done = True
            case "error":
                raise self._error(event["error"])
            case "ping":
                pass
            case _:
                self.assembly.add_life()

    def _begin(self, index: int, block: dict[str, Any]) -> None:
        self.assembly.add_life()
        if block["type"] == "text" and block.get("text"):
            self.assembly.add_text(block["text"])
        elif block["type"] == "tool_use":
            function = {"name": block["name"]}
            self.assembly.add_call({"index": index, "id": block["id"], "function": function})

    def _delta(self, index: int, delta: dict[str, Any]) -> None:
        if delta["type"] == "text_delta":
            self.assembly.add_text(delta["text"])
            return
        self.assembly.add_life()
        if delta["type"] == "input_json_delta":
            self._call(index, delta["partial_json"])

    def _call(self, index: int, arguments: str) -> None:
        self.assembly.add_call({"index": index, "function": {"arguments": arguments}})

    def _end(self, reason: str | None, usage: dict[str, Any] | None) -> None:
        """Counts of later events replace those of earlier ones."""
        self._usage.update((name, n) for name, n in (usage or {}).items() if isinstance(n, int))
        read = self._usage.get("cache_read_input_tokens", 0)
        written = self._usage.get("cache_creation_input_tokens", 0)
        fresh = self._usage.get("input_tokens", 0)
        output = self._usage.get("output_tokens", 0)
        self.assembly.set_usage(Usage(fresh + read + written, output, read))
        if reason:
            self.assembly.finish_reason = _FINISH.get(reason, reason)

    def _error(self, error: Any) -> ModelFailed:
        if self.has_content:
            self.flush()
        return self._faults.of_object(error, has_content=self.has_content)

    def _broken(self, what: str) -> ModelFailed:
        return self._faults.of_network(f"sent {what}", has_content=self.has_content)
