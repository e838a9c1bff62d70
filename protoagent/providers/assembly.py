"""Puts the pieces of a streamed chat completion together."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from protoagent.core import ids
from protoagent.core.errors import ModelFailed
from protoagent.providers.base import CallRequest, ModelReply, ModelSink, Usage


@dataclass
class _Call:
    call_id: str = ""
    name: str = ""
    arguments: str = ""


class Assembly:
    """One answer while it arrives.

    The first text goes to the sink at once; more waits for `flush`, so that a read of
    hundreds of tokens costs one hand-over.
    """

    def __init__(self, sink: ModelSink) -> None:
        self._sink = sink
        self._waiting: list[str] = []
        self._parts: list[str] = []
        self._is_alive = False
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._usage = Usage()
        self.finish_reason = ""
        self.has_content = False

    @property
    def has_calls(self) -> bool:
        """Whether the model has begun to ask for a tool."""
        return bool(self._calls)

    def flush(self) -> None:
        """Hand what has arrived to the sink."""
        if self._waiting:
            text = "".join(self._waiting)
            self._waiting.clear()
            self._parts.append(text)
            self.has_content = True
            self._sink.text(text)
        elif self._is_alive:
            self._sink.alive()
        self._is_alive = False

    def add_text(self, text: str) -> None:
        """More of the answer."""
        self._waiting.append(text)
        if not self.has_content:
            self.flush()

    def add_life(self) -> None:
        """Something that is no answer, such as reasoning; it is never stored."""
        self._is_alive = True

    def add_chunk(self, chunk: dict[str, Any]) -> None:
        """One event of a stream, or a whole completion."""
        usage = chunk.get("usage")
        if usage:
            self._usage = read_usage(usage)
        choices = chunk.get("choices")
        if not choices:
            self._is_alive = True
            return
        choice = choices[0]
        delta = choice["delta"] if "delta" in choice else choice.get("message")
        if delta:
            self._add_delta(delta)
        reason = choice.get("finish_reason")
        if reason:
            self.finish_reason = str(reason)

    def _add_delta(self, delta: dict[str, Any]) -> None:
        content = delta.get("content")
        if content:
            text = content if type(content) is str else _text_of(content)
            if text:
                self.add_text(text)
            if len(delta) == 1 or (len(delta) == 2 and "role" in delta):
                return  # the usual piece: nothing else to look at
        self._is_alive = True
        if delta.get("refusal"):
            self.add_text(str(delta["refusal"]))
        for piece in delta.get("tool_calls") or ():
            self.add_call(piece)
        if delta.get("function_call"):  # the form before parallel calls
            self.add_call({"index": 0, "function": delta["function_call"]})

    def add_call(self, piece: dict[str, Any]) -> None:
        """A piece of a tool call, in the form of `delta.tool_calls`."""
        function = piece.get("function") or {}
        call = self._call_of(piece, str(function.get("name") or ""))
        call.call_id = call.call_id or str(piece.get("id") or "")
        call.name = call.name or str(function.get("name") or "")
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            call.arguments += arguments
        elif arguments is not None:
            call.arguments += json.dumps(arguments)

    def _call_of(self, piece: dict[str, Any], name: str) -> _Call:
        """The call a piece belongs to.

        Servers differ: some give no index, some give each whole call the index 0, some
        repeat id and name in every piece. A name is what begins a call.
        """
        index, call_id = piece.get("index"), piece.get("id")
        if not isinstance(index, int):
            same = next((c for c in self._calls if call_id and c.call_id == call_id), None)
            if same is None and not name and self._calls:
                same = self._calls[-1]
            return same or self._begin(None)
        known = self._by_index.get(index)
        if known is None or (name and known.name and _is_another(known, call_id)):
            return self._begin(index)
        return known

    def _begin(self, index: int | None) -> _Call:
        call = _Call()
        self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
        return call

    def set_usage(self, usage: Usage) -> None:
        """What the provider says the call has used."""
        self._usage = usage

    def reply(self, model: str, taken_ids: Iterable[str] = ()) -> ModelReply:
        """The whole answer, with ids that are not among `taken_ids`.

        Raises ModelFailed when the stream broke off inside a call.
        """
        self.flush()
        calls = self._finished_calls(set(taken_ids))
        return ModelReply(
            text="".join(self._parts),
            calls=calls,
            usage=self._usage,
            finish_reason=self.finish_reason or ("tool_calls" if calls else "stop"),
            model=model,
        )

    def _finished_calls(self, taken: set[str]) -> tuple[CallRequest, ...]:
        finished = []
        for call in self._calls:
            if not call.name and not call.arguments.strip():
                continue
            if not call.name or (not self.finish_reason and not _is_json(call.arguments)):
                raise ModelFailed(
                    "the model's answer broke off inside a tool call",
                    retryable=not self.has_content,
                )
            call_id = call.call_id
            if not call_id or call_id in taken:
                call_id = ids.new_id("call_")
            taken.add(call_id)
            arguments = call.arguments if call.arguments.strip() else "{}"
            finished.append(CallRequest(call_id, call.name, arguments))
        return tuple(finished)


def read_usage(usage: dict[str, Any]) -> Usage:
    """Tokens in the words of any OpenAI-compatible server; cached ones are part of the input."""
    details = usage.get("prompt_tokens_details") or {}
    cached = (
        details.get("cached_tokens")
        or usage.get("prompt_cache_hit_tokens")
        or usage.get("cache_read_input_tokens")
    )
    return Usage(
        input_tokens=_count(usage.get("prompt_tokens") or usage.get("input_tokens")),
        output_tokens=_count(usage.get("completion_tokens") or usage.get("output_tokens")),
        cached_tokens=_count(cached),
    )


def used_ids(messages: list[dict[str, Any]]) -> set[str]:
    """Ids of the calls that the conversation already has."""
    return {
        str(call.get("id", ""))
        for message in messages
        for call in (message.get("tool_calls") or ())
    }


def _is_another(known: _Call, call_id: Any) -> bool:
    """Whether a piece that carries a name begins a call of its own at a known index."""
    if call_id and known.call_id:
        return bool(call_id != known.call_id)
    return not call_id and _is_json(known.arguments)


def _is_json(text: str) -> bool:
    try:
        json.loads(text or "{}")
    except ValueError:
        return False
    return True


def _text_of(content: Any) -> str:
    """The text of content in parts; reasoning parts are left out."""
    if not isinstance(content, list):
        return ""
    return "".join(
        str(part.get("text") or "")
        for part in content
        if isinstance(part, dict) and part.get("type") in (None, "text", "output_text")
    )


def _count(value: Any) -> int:
    return max(0, int(value)) if isinstance(value, int | float) else 0
