"""The messages of a transcript and the parts that an agent's message is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from protoagent.console import components, markdown, rendering
from protoagent.console.attached import File
from protoagent.console.rendering import Look, fragment
from protoagent.console.streaming import Edit, StreamMarkdown

WORKING, WAITING, QUEUED = "working", "waiting", "queued"
COMPLETED, STOPPED, FAILED, INTERRUPTED = "completed", "stopped", "failed", "interrupted"
ENDED = (COMPLETED, STOPPED, FAILED, INTERRUPTED)

# Badge of an agent's message: text, icon, tone.
BADGES = {
    "question": ("waiting on you", "hand", "warn"),
    "form": ("waiting on you", "hand", "warn"),
    "approval": ("needs approval", "hand", "warn"),
    STOPPED: ("stopped", "circle-slash", "line"),
    FAILED: ("failed", "circle-x", "err"),
    INTERRUPTED: ("interrupted", "circle-alert", "warn"),
}


class Part(Protocol):
    """A piece of an agent's message with an element of its own."""

    @property
    def element_id(self) -> str: ...

    def html(self, look: Look) -> str: ...


@dataclass(eq=False)
class Prose:
    """A run of the answer's text. `pieces` remember which event brought them."""

    seq: int
    pieces: list[tuple[int, str]] = field(default_factory=list)
    is_closed: bool = False
    _stream: StreamMarkdown | None = None
    _final: str | None = None

    @property
    def element_id(self) -> str:
        return f"p-{self.seq}"

    @property
    def source(self) -> str:
        return "".join(text for _, text in self.pieces).lstrip("\n")

    @property
    def is_visible(self) -> bool:
        """Whether there is anything to show; white space alone is nothing."""
        return any(not text.isspace() for _, text in self.pieces if text)

    def add(self, pieces: list[tuple[int, str]], *, live: bool) -> list[Edit]:
        """Append pieces; the edits that bring an open page up to date, if it is live."""
        before = self.source if live and self._stream is None and self.is_visible else ""
        is_first = not self.is_visible
        self.pieces += pieces
        if not live or is_first:
            return []
        if self._stream is None:
            self._stream = StreamMarkdown()
            self._stream.feed(before)
        return self._stream.feed("".join(text for _, text in pieces))

    def close(self, *, live: bool) -> list[Edit]:
        """The text is complete."""
        if self.is_closed:
            return []
        edits = self._streamed().close() if live else []
        self.is_closed = True
        return edits

    def rewind(self, limit: int) -> bool:
        """Forget what events after `limit` brought; whether anything changed."""
        kept = [piece for piece in self.pieces if piece[0] <= limit]
        has_changed = len(kept) != len(self.pieces)
        if has_changed:
            self.pieces, self._stream, self._final = kept, None, None
        return has_changed

    def reopen(self) -> None:
        """More text follows."""
        self.is_closed, self._stream, self._final = False, None, None

    def _streamed(self) -> StreamMarkdown:
        if self._stream is None:
            self._stream = StreamMarkdown()
            self._stream.feed(self.source)
        return self._stream

    def html(self, look: Look) -> str:
        if not self.is_closed:
            inner = self._streamed().html
        else:
            if self._final is None:
                self._final = markdown.render(self.source)
            inner = self._final
        return f'<div class="prose" id="{self.element_id}">{inner}</div>'


@dataclass(eq=False)
class Component:
    """A table, key figures or a timeline."""

    seq: int
    kind: str
    props: dict[str, Any]

    @property
    def element_id(self) -> str:
        return f"c-{self.seq}"

    def html(self, look: Look) -> str:
        return components.render(self.element_id, self.kind, self.props)


@dataclass(eq=False)
class Card:
    """A question, form or approval. `drawn` is shared: the newest drawing of each card."""

    interrupt_id: str
    kind: str
    call_id: str
    title: str
    drawn: dict[str, str]
    is_open: bool = True

    @property
    def element_id(self) -> str:
        return f"hitl-{self.interrupt_id}"

    def html(self, look: Look) -> str:
        drawn = self.drawn.get(self.interrupt_id)
        return drawn if drawn else fragment("_card_gone.html", {"card": self})


@dataclass(eq=False)
class Remark:
    """What the runtime says about its own work: a retry, another model, a cut history."""

    seq: int
    text: str

    @property
    def element_id(self) -> str:
        return f"n-{self.seq}"

    def html(self, look: Look) -> str:
        return format_html('<p class="work__note" id="{}">{}</p>', self.element_id, self.text)


@dataclass(eq=False)
class Ending:
    """How a turn ended when it did not just complete."""

    seq: int
    status: str
    at: datetime
    error: str
    turn_id: str

    @property
    def element_id(self) -> str:
        return f"e-{self.seq}"

    @property
    def reason(self) -> str:
        """The error as a sentence of its own; an address at its beginning stays as it is."""
        is_address = "://" in self.error.partition(" ")[0]
        return self.error if is_address else self.error[:1].upper() + self.error[1:]

    def html(self, look: Look) -> str:
        time = rendering.time_tag(self.at, look.zone)
        return fragment("_ending.html", {"ending": self, "look": look, "time": time})


@dataclass
class Usage:
    """Tokens and cost of a turn so far."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0

    def add(self, data: dict[str, Any]) -> None:
        self.input_tokens += int(data.get("input_tokens") or 0)
        self.output_tokens += int(data.get("output_tokens") or 0)
        self.cost_usd += float(data.get("cost_usd") or 0)

    @property
    def tokens(self) -> str:
        """`31.8k in · 2.1k out`, or blank."""
        if not self.input_tokens and not self.output_tokens:
            return ""
        sent, got = rendering.amount(self.input_tokens), rendering.amount(self.output_tokens)
        return f"{sent} in · {got} out"

    @property
    def cost(self) -> str:
        return rendering.money(self.cost_usd)

    @property
    def text(self) -> str:
        """`12.4k tokens · $0.021`, or blank."""
        tokens = self.input_tokens + self.output_tokens
        parts = [f"{rendering.amount(tokens)} tokens"] if tokens else []
        parts += [rendering.money(self.cost_usd)] if self.cost_usd > 0 else []
        return " · ".join(parts)


@dataclass(eq=False)
class Message:
    """One article of the transcript.

    `kind` is user, agent, or note: somebody else than the operator asked.
    """

    seq: int
    kind: str
    at: datetime
    turn_id: str
    text: str = ""
    origin: str = ""
    note: str = ""
    attachments: tuple[File, ...] = ()
    parts: list[Part] = field(default_factory=list)
    badge: str = ""
    thinking_since: datetime | None = None
    has_foot: bool = False
    usage: str = ""

    @property
    def element_id(self) -> str:
        return f"m-{self.seq}"

    @property
    def flow_id(self) -> str:
        return f"{self.element_id}-flow"

    @property
    def pieces(self) -> dict[str, Any]:
        """What each small piece depends on, so that only those that changed are sent."""
        return {
            "head": (self.badge, self.note),
            "live": self.thinking_since,
            "foot": (self.has_foot, self.usage),
        }

    def piece(self, name: str, look: Look) -> SafeString:
        """The head, the live line or the foot."""
        return fragment(
            f"_message_{name}.html", {"message": self, "look": look, "view": self.view(look)}
        )

    def html(self, look: Look) -> SafeString:
        parts = [mark_safe(part.html(look)) for part in self.parts if _is_shown(part)]  # noqa: S308 — fragments
        context = {
            "message": self,
            "look": look,
            "view": self.view(look),
            "parts": parts,
        }
        return fragment("_message.html", context)

    def view(self, look: Look) -> MessageView:
        return MessageView(self, look)


@dataclass(frozen=True)
class Sent:
    """A message on its way to the running turn."""

    seq: int
    text: str
    mode: str
    origin: str
    attachments: list[dict[str, Any]]


def _is_shown(part: Part) -> bool:
    return not isinstance(part, Prose) or part.is_visible


@dataclass(frozen=True)
class MessageView:
    """What the templates of a message ask for."""

    message: Message
    look: Look

    @property
    def who(self) -> str:
        if self.message.kind == "agent":
            return self.look.agent_name
        return self.look.you

    @property
    def origin(self) -> tuple[str, str] | None:
        """Label and icon of whoever spoke, unless it was the operator."""
        return rendering.ORIGINS.get(self.message.origin)

    @property
    def label(self) -> str:
        """The accessible name: who, and when."""
        who = self.origin[0] if self.origin and self.message.kind != "agent" else self.who
        local = self.message.at.astimezone(self.look.zone)
        return f"{who}, {local:%H:%M}"

    @property
    def time(self) -> SafeString:
        return rendering.time_tag(self.message.at, self.look.zone)

    @property
    def badge(self) -> tuple[str, str, str] | None:
        return BADGES.get(self.message.badge)

    @property
    def thinking(self) -> SafeString | str:
        since = self.message.thinking_since
        return rendering.running_since(since) if since else ""
