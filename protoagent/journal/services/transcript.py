"""A session's events put together to what a person would read: messages, answers, calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest
from typing import Any

from protoagent.journal.models import ChatSession, Turn, TurnEvent


@dataclass
class Entry:
    """One thing that happened. `kind` is message, answer, call, component, question, note or end.

    `parts` are the pieces of an answer with the number of the event that brought them.
    """

    kind: str
    at: datetime
    turn_id: str | None
    seq: int
    data: dict[str, Any] = field(default_factory=dict)
    parts: list[tuple[int, str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """What was said; an answer is the sum of its pieces."""
        if self.parts:
            return "".join(piece for _, piece in self.parts)
        return str(self.data.get("text", ""))


def entries(session: ChatSession) -> list[Entry]:
    """Everything that the session's journal tells, in order.

    Text that a crash made void is left out. A call carries its result, a question its
    outcome, a message on its way its fate (delivered, withdrawn), and an answer that came
    without pieces the text of the turn's end.
    """
    builder = _Builder()
    rows = TurnEvent.objects.filter(session=session, seq__lte=session.last_seq).order_by("seq")
    for event in rows.iterator(chunk_size=2000):
        builder.add(event)
    return builder.finished()


def tool_outputs(turn_id: str) -> dict[str, str]:
    """The full result of each call of an ended turn by call id; empty while it runs."""
    messages = Turn.objects.filter(pk=turn_id).values_list("messages", flat=True).first() or []
    return {
        str(message.get("tool_call_id", "")): _plain(message.get("content"))
        for message in messages
        if message.get("role") == "tool"
    }


def _plain(content: Any) -> str:
    """Message content as text; a multipart one is flattened and says what is not text."""
    if not isinstance(content, list):
        return "" if content is None else str(content)
    parts = [
        str(part.get("text", "")) if part.get("type") == "text" else f"[{part.get('type', 'part')}]"
        for part in content
        if isinstance(part, dict)
    ]
    return "\n".join(parts)


class _Builder:
    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._calls: dict[tuple[str | None, str], Entry] = {}
        self._questions: dict[str, Entry] = {}
        self._answers: dict[str | None, list[Entry]] = defaultdict(list)
        self._messages: dict[str, Entry] = {}
        self._by_type: dict[str, Callable[[TurnEvent], object]] = {
            "message.received": self._received,
            "turn.started": self._started,
            "text.delta": self._delta,
            "tool.started": self._call_started,
            "tool.finished": self._call_finished,
            "component": lambda event: self._put("component", event),
            "input.required": self._asked,
            "input.resolved": self._resolved,
            "note": self._noted,
            "turn.finished": self._ended,
        }

    def add(self, event: TurnEvent) -> None:
        handler = self._by_type.get(event.type)
        if handler is not None:
            handler(event)

    def finished(self) -> list[Entry]:
        return [entry for entry in self._entries if entry.kind != "answer" or entry.text.strip()]

    def _put(self, kind: str, event: TurnEvent) -> Entry:
        entry = Entry(kind, event.at, event.turn_id, event.seq, dict(event.data))
        self._entries.append(entry)
        return entry

    def _answer(self, event: TurnEvent) -> Entry:
        entry = self._put("answer", event)
        entry.data = {}
        self._answers[event.turn_id].append(entry)
        return entry

    def _received(self, event: TurnEvent) -> None:
        entry = self._put("message", event)
        if client_id := str(event.data.get("client_id", "")):
            self._messages[client_id] = entry

    def _noted(self, event: TurnEvent) -> None:
        fate = event.data.get("kind")
        if fate not in ("delivered", "withdrawn"):
            self._put("note", event)
            return
        texts = event.data.get("texts") or ()  # what was read: the message may have been edited
        for client_id, text in zip_longest(event.data.get("client_ids") or (), texts):
            if entry := self._messages.get(str(client_id)):
                entry.data["fate"] = fate
                entry.data["text"] = entry.data["text"] if text is None else text

    def _started(self, event: TurnEvent) -> None:
        limit = event.data.get("rewind_to")
        if isinstance(limit, int):
            for entry in self._answers[event.turn_id]:
                entry.parts = [part for part in entry.parts if part[0] <= limit]

    def _delta(self, event: TurnEvent) -> None:
        last = self._entries[-1] if self._entries else None
        if last is None or last.kind != "answer" or last.turn_id != event.turn_id:
            last = self._answer(event)
        last.parts.append((event.seq, str(event.data.get("text", ""))))

    def _call_started(self, event: TurnEvent) -> None:
        key = (event.turn_id, str(event.data.get("call_id", "")))
        if key in self._calls:  # started again after a crash: the same call, not another one
            self._calls[key].data.update(event.data)
        else:
            self._calls[key] = self._put("call", event)

    def _call_finished(self, event: TurnEvent) -> None:
        key = (event.turn_id, str(event.data.get("call_id", "")))
        entry = self._calls.get(key) or self._put("call", event)
        entry.data.update(event.data)

    def _asked(self, event: TurnEvent) -> None:
        self._questions[str(event.data.get("interrupt_id", ""))] = self._put("question", event)

    def _resolved(self, event: TurnEvent) -> None:
        entry = self._questions.get(str(event.data.get("interrupt_id", "")))
        if entry is not None:
            entry.data["outcome"] = event.data.get("outcome", "")
            entry.data["value"] = event.data.get("value")

    def _ended(self, event: TurnEvent) -> None:
        if event.data.get("status") == "waiting":
            return
        text = str(event.data.get("text") or "")
        if text.strip() and not any(entry.text for entry in self._answers[event.turn_id]):
            self._answer(event).parts.append((event.seq, text))
        end = self._put("end", event)
        end.data.pop("text", None)
