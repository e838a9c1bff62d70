"""Message lists as the model gets them: earlier turns, paired calls, a bounded size."""

from __future__ import annotations

import json
from typing import Any

from protoagent.core.context import Origin
from protoagent.journal.services import turns
from protoagent.runtime import files
from protoagent.runtime.leg import Message

# A program with an operator's token speaks for the operator.
_OPERATORS = (Origin.OPERATOR, Origin.API)
MISSING_RESULT = "Error: interrupted, outcome unknown. Check before you repeat this call."
MAX_HISTORY_CHARS = 320_000  # about 80,000 tokens: the window is not known for every model
MAX_CACHED_SESSIONS = 256


def opening(origin: Origin, text: str) -> Message:
    """A turn's first message; one that the operator did not write says so in its first line."""
    if origin not in _OPERATORS:
        text = f"[from {origin.value}; the operator has not written this]\n{text}"
    return {"role": "user", "content": text}


def paired(messages: list[Message]) -> list[Message]:
    """`messages` with a result right behind each tool call, and no result without its call.

    Providers refuse a request otherwise. A turn that was cut off leaves such calls.
    """
    results = {m["tool_call_id"]: m for m in messages if m.get("role") == "tool"}
    clean: list[Message] = []
    for message in messages:
        if message.get("role") == "tool":
            continue
        clean.append(message)
        for call in message.get("tool_calls") or ():
            missing = {"role": "tool", "tool_call_id": call["id"], "content": MISSING_RESULT}
            clean.append(results.get(call["id"], missing))
    return clean


class HistoryCache:
    """The earlier messages of the sessions that this process served last."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, list[list[Message]]]] = {}

    def before(self, session_id: int, number: int) -> list[Message]:
        """The messages of the session's ended turns below turn `number`, oldest first.

        The oldest turns are left out beyond 320,000 characters. Reads only the turns
        that are not cached yet.
        """
        through, turns_seen = self._known.pop(session_id, (0, []))
        if through < number - 1:
            rows = turns.history(session_id, after_number=through)
            turns_seen = turns_seen + [messages for n, messages in rows if n < number]
            through = number - 1
        kept = _fit(turns_seen)
        self._known[session_id] = (through, kept)
        if len(self._known) > MAX_CACHED_SESSIONS:
            self._known.pop(next(iter(self._known)))
        return [message for messages in kept for message in messages]

    def cached(self, session_id: int, number: int) -> list[Message] | None:
        """What `before` gives, when that takes no look at the rows; else None."""
        through, _ = self._known.get(session_id, (0, []))
        return self.before(session_id, number) if through >= number - 1 else None

    def add(self, session_id: int, number: int, messages: list[Message]) -> None:
        """A turn that this process has just ended, so that the next one need not read it."""
        through, turns_seen = self._known.get(session_id, (0, []))
        if through == number - 1:
            self._known[session_id] = (number, [*turns_seen, messages])

    def forget(self, session_id: int) -> None:
        """Read the session anew next time."""
        self._known.pop(session_id, None)


def _fit(turns_seen: list[list[Message]]) -> list[list[Message]]:
    total = images = 0
    kept: list[list[Message]] = []
    for messages in reversed(turns_seen):
        count = sum(len(message.get("images") or ()) for message in messages)
        total += sum(_size(message) for message in messages)
        total += files.chars_of_images(count, images)
        images += count
        if total > MAX_HISTORY_CHARS and kept:
            break
        kept.append(messages)
    return kept[::-1]


def _size(message: Message) -> int:
    content: Any = message.get("content") or ""
    size = len(content) if isinstance(content, str) else len(json.dumps(content))
    return size + sum(len(c["function"]["arguments"]) for c in message.get("tool_calls") or ())


cache = HistoryCache()
