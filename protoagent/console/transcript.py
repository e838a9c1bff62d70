"""The events of one turn → its messages, and what each event changes on an open page.

One code path makes both: a page is what a `TurnView` looks like after some events, and a
live frame is what the next event changes on it (`ops.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from protoagent.console import attached, calls, messages, rendering
from protoagent.console.calls import Call, CallGroup
from protoagent.console.messages import Card, Component, Ending, Message, Part, Prose, Remark, Sent
from protoagent.console.ops import Op, OpenPage
from protoagent.console.rendering import Look
from protoagent.core.text import one_line

Event = dict[str, Any]

_CALL_STATES = {
    "ok": calls.OK,
    "error": calls.ERROR,
    "cancelled": calls.CANCELLED,
    "declined": calls.DECLINED,
}
_OPERATOR = "operator"
_QUEUED_NOTE = "queued"


@dataclass
class Change:
    """What one event changes.

    `say` is for the status line: (level, text), where level is work, now or alert.
    """

    ops: list[Op] = field(default_factory=list)
    say: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Article:
    """A message as it stands in the page."""

    element_id: str
    day: tuple[str, str]
    html: str


class TurnView:
    """One turn. `drawn` holds the newest drawing of each of its cards by interruption id."""

    def __init__(self, look: Look, drawn: dict[str, str] | None = None) -> None:
        self.look = look
        self.drawn = drawn if drawn is not None else {}
        self.messages: list[Message] = []
        self.status = messages.QUEUED
        self.usage = messages.Usage()
        self._turn_id = ""
        self._sent: dict[str, Sent] = {}
        self._calls: dict[str, Call] = {}
        self._roots: dict[str, Call] = {}
        self._cards: dict[str, Card] = {}
        self._thinking_since: datetime | None = None
        self._page = OpenPage(look)
        self._say: list[tuple[str, str]] = []
        self._seq, self._at = 0, datetime.min
        self._handlers: dict[str, Callable[[dict[str, Any]], None]] = {
            "message.received": self._received,
            "turn.started": self._started,
            "text.delta": self._delta,
            "tool.started": self._call_started,
            "tool.finished": self._call_finished,
            "component": self._component,
            "input.required": self._asked,
            "input.resolved": self._resolved,
            "usage": self.usage.add,
            "note": self._noted,
            "turn.finished": self._finished,
        }

    @property
    def has_ended(self) -> bool:
        return self.status in messages.ENDED

    def apply(self, event: Event, *, live: bool = True) -> Change:
        """Take the turn's next event. Without `live` nothing is drawn, which is much cheaper."""
        self._page.begin(live=live)
        self._say = []
        # Elements are named after the first of several events that come as one.
        self._seq = int(event.get("first") or event["seq"])
        self._at = rendering.moment_of(event["at"])
        self._turn_id = event["turn"] or ""
        before = {message.seq: message.pieces for message in self.messages} if live else {}
        if handler := self._handlers.get(event["type"]):
            handler(event["data"])
        self._settle(before)
        return Change(self._page.drawn(), self._say)

    def articles(self) -> list[Article]:
        """The messages as they stand in the page."""
        return [
            Article(
                message.element_id,
                rendering.day_tag(message.at, self.look.zone),
                message.html(self.look),
            )
            for message in self.messages
        ]

    def _settle(self, before: dict[int, dict[str, Any]]) -> None:
        """Bring heads, live lines and feet up to date with the state of the turn."""
        if not self._is_thinking():
            self._thinking_since = None
        elif self._thinking_since is None:
            self._thinking_since = self._at
        for message in self.messages:
            self._update(message)
            old = before.get(message.seq)
            if old is None:
                continue
            for name, value in message.pieces.items():
                if value != old[name]:
                    self._page.set_piece(message, name)

    def _update(self, message: Message) -> None:
        if message.kind != "agent":
            if message.note in ("", _QUEUED_NOTE):
                message.note = _QUEUED_NOTE if self.status == messages.QUEUED else ""
            return
        is_newest = message is self._newest_agent_message()
        message.thinking_since = self._thinking_since if is_newest else None
        message.badge = self._badge() if is_newest else ""
        message.has_foot = self.has_ended or not is_newest
        message.usage = self.usage.text if is_newest and self.has_ended else ""

    def _badge(self) -> str:
        if self.has_ended:
            return self.status
        kinds = [card.kind for card in self._cards.values() if card.is_open]
        return ("approval" if "approval" in kinds else kinds[0]) if kinds else ""

    def _is_thinking(self) -> bool:
        if self.status != messages.WORKING or any(card.is_open for card in self._cards.values()):
            return False
        if any(call.is_open for call in self._calls.values()):
            return False
        newest = self._newest_agent_message()
        last = newest.parts[-1] if newest and newest.parts else None
        return not (isinstance(last, Prose) and last.is_visible and not last.is_closed)

    def source(self, element_id: str) -> str | None:
        """A message as it was written, or None when it is not here."""
        for message in self.messages:
            if message.element_id == element_id:
                prose = [part.source for part in message.parts if isinstance(part, Prose)]
                return message.text if message.kind != "agent" else "\n\n".join(prose)
        return None

    # — parts —

    def _add_message(self, message: Message) -> Message:
        self._page.add(message, self.messages[-1] if self.messages else None)
        self.messages.append(message)
        return message

    def _newest_agent_message(self) -> Message | None:
        return next((m for m in reversed(self.messages) if m.kind == "agent"), None)

    def _agent(self) -> Message:
        """The agent's message that is being written; a new one when somebody spoke since."""
        last = self.messages[-1] if self.messages else None
        if last is not None and last.kind == "agent":
            return last
        return self._add_message(Message(self._seq, "agent", self._at, self._turn_id))

    def _add_part(self, part: Part) -> None:
        message = self._agent()
        self._close_prose(message)
        message.parts.append(part)
        self._page.put(message, part)

    def _close_prose(self, message: Message) -> None:
        last = message.parts[-1] if message.parts else None
        if not isinstance(last, Prose) or last.is_closed:
            return
        if not last.is_visible:
            message.parts.pop()
            return
        live = self._page.live and not self._page.is_fresh(message)
        self._page.edit(last, last.close(live=live), is_last=True)

    # — events —

    def _received(self, data: dict[str, Any]) -> None:
        mode, origin = str(data.get("mode", "turn")), str(data.get("origin", _OPERATOR))
        text, client_id = str(data.get("text", "")), str(data.get("client_id", ""))
        sent = Sent(self._seq, text, mode, origin, data.get("attachments") or [])
        if mode in ("steer", "held"):
            self._sent[client_id] = sent
        else:
            self._add_message(self._spoken(sent, text))

    def _spoken(self, sent: Sent, text: str) -> Message:
        is_operators = sent.origin == _OPERATOR or sent.origin not in rendering.ORIGINS
        kind = "user" if is_operators else "note"
        files = attached.shown(sent.attachments)
        return Message(
            sent.seq, kind, self._at, self._turn_id, text, sent.origin, attachments=files
        )

    def _started(self, data: dict[str, Any]) -> None:
        self.status = messages.WORKING
        self._agent()
        limit = data.get("rewind_to")
        if isinstance(limit, int):
            self._rewind(limit)
        if not data.get("resumed"):
            self._say.append(("work", f"{self.look.agent_name} is working"))

    def _rewind(self, limit: int) -> None:
        """Text behind the event `limit` is void: it will be written again."""
        for message in self.messages:
            for part in tuple(message.parts):
                if not isinstance(part, Prose):
                    continue
                was_visible = part.is_visible
                if not part.rewind(limit):
                    continue
                if part.is_visible:
                    self._page.set(part)
                    continue
                message.parts.remove(part)
                if was_visible:
                    self._page.drop(part.element_id)
        newest = self._newest_agent_message()
        last = newest.parts[-1] if newest and newest.parts else None
        if isinstance(last, Prose) and last.is_closed:
            last.reopen()
            self._page.set(last)

    def _delta(self, data: dict[str, Any]) -> None:
        message = self._agent()
        last = message.parts[-1] if message.parts else None
        if not isinstance(last, Prose) or last.is_closed:
            last = Prose(self._seq)
            message.parts.append(last)
        was_visible = last.is_visible
        live = self._page.live and not self._page.is_fresh(message)
        pieces = data.get("pieces") or [(self._seq, str(data.get("text", "")))]
        edits = last.add(pieces, live=live)
        if was_visible:
            self._page.edit(last, edits)
        elif last.is_visible:
            self._page.put(message, last)

    def _call_started(self, data: dict[str, Any]) -> None:
        call_id = str(data.get("call_id", ""))
        known = self._calls.get(call_id)
        if known is not None:
            known.state, known.started_at = calls.RUNNING, self._at
            known.attempt = int(data.get("attempt") or 1)
            self._page.set(self._roots[call_id])
            return
        self._new_call(call_id, data)
        self._say.append(("work", f"{data.get('name', 'a tool')} started"))

    def _new_call(self, call_id: str, data: dict[str, Any]) -> Call:
        name, source = str(data.get("name", "")), str(data.get("source", ""))
        call = Call(call_id, self._seq, name, data.get("args"), source, self._at)
        self._calls[call_id] = call
        parent = self._calls.get(str(data.get("parent_call_id", "")))
        if parent is not None:
            self._roots[call_id] = self._roots[parent.call_id]
            parent.kids.append(call)
            self._page.set(self._roots[call_id])
            return call
        self._roots[call_id] = call
        message = self._agent()
        self._close_prose(message)
        last = message.parts[-1] if message.parts else None
        if isinstance(last, CallGroup):
            last.calls.append(call)
            self._page.put(message, call, inside=last.list_id)
        else:
            self._add_part(CallGroup(self._seq, [call]))
        return call

    def _call_finished(self, data: dict[str, Any]) -> None:
        call_id = str(data.get("call_id", ""))
        call = self._calls.get(call_id) or self._new_call(call_id, data)
        call.state = _CALL_STATES.get(str(data.get("status")), calls.ERROR)
        call.output = str(data.get("output", ""))
        call.output_chars = int(data.get("output_chars") or len(call.output))
        call.duration_ms = int(data.get("duration_ms") or 0)
        call.finished_at = self._at
        self._page.set(self._roots[call_id])
        if call.state == calls.ERROR:
            self._say.append(("work", f"{call.name} failed"))

    def _component(self, data: dict[str, Any]) -> None:
        props = data.get("props")
        kind = str(data.get("component", ""))
        self._add_part(Component(self._seq, kind, props if isinstance(props, dict) else {}))

    def _asked(self, data: dict[str, Any]) -> None:
        kind, call_id = str(data.get("kind", "question")), str(data.get("call_id", ""))
        title = one_line(str(data.get("title") or data.get("question") or ""), 120)
        card = Card(str(data.get("interrupt_id", "")), kind, call_id, title, self.drawn)
        self._cards[card.interrupt_id] = card
        self._add_part(card)
        self._set_call_state(
            call_id, calls.WAIT, calls.WAITS_FOR.get(kind, "waits for your answer")
        )
        wanted = "approval" if kind == "approval" else "answer"
        self._say.append(("now", f"waiting for your {wanted}: {title}"))

    def _resolved(self, data: dict[str, Any]) -> None:
        card = self._cards.get(str(data.get("interrupt_id", "")))
        if card is None:
            return
        card.is_open = False
        self._page.set(card)
        if not any(c.is_open and c.call_id == card.call_id for c in self._cards.values()):
            self._set_call_state(card.call_id, calls.RUNNING)

    def _set_call_state(self, call_id: str, state: str, waits_for: str = "") -> None:
        call = self._calls.get(call_id)
        if call is not None and call.is_open:
            call.state, call.waits_for = state, waits_for
            self._page.set(self._roots[call_id])

    def _noted(self, data: dict[str, Any]) -> None:
        kind = data.get("kind")
        client_ids = [str(client_id) for client_id in data.get("client_ids") or ()]
        if kind == "withdrawn":
            for client_id in client_ids:
                self._sent.pop(client_id, None)
        elif kind == "delivered":
            self._deliver(client_ids, data.get("texts") or ())
        elif text := str(data.get("text", "")).strip():
            self._add_part(Remark(self._seq, text))

    def _deliver(self, client_ids: list[str], texts: Any) -> None:
        """What the operator sent to the running turn appears where the agent read it."""
        sent = [(self._sent.pop(client_id, None), client_id) for client_id in client_ids]
        last = self.messages[-1] if self.messages else None
        if last is not None and last.kind == "agent":
            self._close_prose(last)
            if not last.parts:
                self.messages.pop()
                self._page.drop(last.element_id)
        for position, (message, _) in enumerate(sent):
            if message is None:
                continue
            text = str(texts[position]) if position < len(texts) else message.text
            spoken = self._spoken(message, text)
            spoken.note = "steered" if message.mode == "steer" else ""
            self._add_message(spoken)
        self._agent()

    def _finished(self, data: dict[str, Any]) -> None:
        status = str(data.get("status", messages.COMPLETED))
        if status == messages.WAITING:
            self.status = messages.WAITING
            return
        text = str(data.get("text") or "")
        if text.strip() and not any(self._prose()):
            self._delta({"text": text})
        message = self._agent()
        self._close_prose(message)
        self.status = status if status in messages.ENDED else messages.COMPLETED
        for group in [part for m in self.messages for part in m.parts]:
            if isinstance(group, CallGroup) and group.fold():
                self._page.set(group)
        if self.status != messages.COMPLETED:
            error = str(data.get("error") or "")
            self._add_part(Ending(self._seq, self.status, self._at, error, self._turn_id))
        self._say.append(self._last_words(text, str(data.get("error") or "")))

    def _prose(self) -> list[Prose]:
        parts = [part for message in self.messages for part in message.parts]
        return [part for part in parts if isinstance(part, Prose) and part.is_visible]

    def _last_words(self, text: str, error: str) -> tuple[str, str]:
        if self.status == messages.COMPLETED:
            words = rendering.count_of(len(text.split()), "word")
            return ("now", f"reply finished, {words}")
        if self.status == messages.STOPPED:
            return ("now", "stopped")
        what = "failed" if self.status == messages.FAILED else "was interrupted"
        return ("alert", f"The turn {what}. {error}".strip())
