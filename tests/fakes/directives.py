"""The language in which a test tells the fake gateway what the model shall answer.

The newest user message that has a directive at the start of a line decides, unless a
finished answer came after it. Of several answers in one message the last one counts:

    say N                        N tokens of five characters: "0000 0001 …"
    say N every MS ms            one each MS milliseconds
    reply TEXT                   the rest of the line, word by word
    stream NAME [every MS ms]    a registered text in pieces of twelve characters
    call TOOL {json}             one tool call, then "done: " and 200 characters of its result
    loop K TOOL {json}           K calls, one after the other
    parallel K TOOL {json}       K calls in one message
    then …                       any of these, after the results of the line before

Lines that change how it is answered, with or without one of the above:

    fail STATUS [TIMES] [retry-after S]   answer with this HTTP status, TIMES times or always
    drop after N [TIMES]                  close the connection after N tokens
    hang [after N]                        fall silent, at once or after N tokens
    usage IN OUT [CACHED]                 report these numbers of tokens
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

_MS = r"(?: every (?P<{0}>[\d.]+) ?ms)?"
_STEP = re.compile(
    r"^(?P<then>then )?(?:"
    rf"say (?P<tokens>\d+){_MS.format('say_ms')}"
    r"|reply (?P<reply>.+)"
    rf"|stream (?P<stream>[\w-]+){_MS.format('stream_ms')}"
    r"|call (?P<call>\w+)"
    r"|(?P<kind>loop|parallel) (?P<count>\d+) (?P<tool>\w+)"
    r")",
    re.MULTILINE,
)
_FAIL = re.compile(
    r"^fail (?P<status>\d{3})(?: (?P<times>\d+))?(?: retry-after (?P<wait>\d+))?\s*$", re.MULTILINE
)
_DROP = re.compile(r"^drop after (?P<tokens>\d+)(?: (?P<times>\d+))?\s*$", re.MULTILINE)
_HANG = re.compile(r"^hang(?: after (?P<tokens>\d+))?\s*$", re.MULTILINE)
_USAGE = re.compile(r"^usage (\d+) (\d+)(?: (\d+))?\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """One thing the model does: a text (`tool` empty) or `count` calls."""

    text: str = ""
    tokens: int = 0
    stream: str = ""
    delay_s: float | None = None
    tool: str = ""
    arguments: str = "{}"
    count: int = 1
    is_parallel: bool = False


@dataclass
class Script:
    """What one user message asks for."""

    steps: list[Step] = field(default_factory=list)
    fail_status: int = 0
    fail_times: int | None = None
    retry_after: str = ""
    drop_after: int | None = None
    drop_times: int | None = None
    hang_after: int | None = None
    usage: tuple[int, int, int] | None = None
    text: str = ""

    @property
    def is_empty(self) -> bool:
        return not (
            self.steps
            or self.fail_status
            or self.usage
            or self.drop_after is not None
            or self.hang_after is not None
        )


def parse(text: str) -> Script:
    """The script in the text of one message; empty when it has no directive."""
    script = Script(text=text)
    for match in _STEP.finditer(text):
        if not match["then"]:
            script.steps.clear()
        script.steps.append(_step(match, text[match.end() :]))
    if found := _FAIL.search(text):
        script.fail_status, script.fail_times = int(found["status"]), _number(found["times"])
        script.retry_after = found["wait"] or ""
    if found := _DROP.search(text):
        script.drop_after, script.drop_times = int(found["tokens"]), _number(found["times"])
    if found := _HANG.search(text):
        script.hang_after = int(found["tokens"] or 0)
    if found := _USAGE.search(text):
        script.usage = (int(found[1]), int(found[2]), int(found[3] or 0))
    return script


def _step(match: re.Match[str], rest: str) -> Step:
    if match["tokens"]:
        return Step(tokens=int(match["tokens"]), delay_s=_seconds(match["say_ms"]))
    if match["reply"]:
        return Step(text=match["reply"])
    if match["stream"]:
        return Step(stream=match["stream"], delay_s=_seconds(match["stream_ms"]))
    return Step(
        tool=match["call"] or match["tool"],
        arguments=_arguments(rest),
        count=int(match["count"] or 1),
        is_parallel=match["kind"] == "parallel",
    )


def _arguments(rest: str) -> str:
    rest = rest.lstrip(" ")
    if not rest.startswith("{"):
        return "{}"
    value, _ = json.JSONDecoder().raw_decode(rest)
    return json.dumps(value)


def _number(text: str | None) -> int | None:
    return int(text) if text else None


def _seconds(text: str | None) -> float | None:
    return float(text) / 1000 if text else None


def newest(messages: list[dict[str, Any]]) -> tuple[Script, list[dict[str, Any]]]:
    """The script of the running turn, and the messages after it."""
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if message.get("role") == "user":
            script = parse(text_of(message.get("content")))
            if not script.is_empty:
                return script, messages[position + 1 :]
        elif message.get("role") == "assistant" and not message.get("tool_calls"):
            break
    return Script(), []


def text_of(content: Any) -> str:
    """The text of a message's content, whether it is one string or a list of parts."""
    if isinstance(content, str):
        return content
    parts = (part.get("text", "") for part in content or [] if isinstance(part, dict))
    return "\n".join(parts)


def unpaired(messages: list[dict[str, Any]]) -> list[str]:
    """Ids of calls without exactly one result right after them, and of results without a call."""
    wrong: list[str] = []
    waiting: dict[str, int] = {}
    for message in [*messages, {"role": "end"}]:
        if message["role"] == "tool":
            call_id = message.get("tool_call_id", "")
            if waiting.get(call_id, 0) != 1:
                wrong.append(call_id)
            waiting.pop(call_id, None)
            continue
        wrong += list(waiting)
        waiting = {}
        for call in message.get("tool_calls") or []:
            waiting[call["id"]] = waiting.get(call["id"], 0) + 1
    return wrong
