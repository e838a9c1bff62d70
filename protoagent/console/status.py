"""What a session is doing now: what the top bar, the composer and the row above it show."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils.safestring import SafeString

from protoagent.console import attached, hitl
from protoagent.console.attached import File
from protoagent.console.rendering import Look, fragment, running_since
from protoagent.core.errors import NotFound
from protoagent.core.text import one_line
from protoagent.journal.models import (
    ChatSession,
    Interruption,
    InterruptionKind,
    QueuedKind,
    QueuedMessage,
    Turn,
    TurnStatus,
)
from protoagent.journal.services import pauses, pending

IDLE, QUEUED, WORKING, WAITING, STOPPING = "idle", "queued", "working", "waiting", "stopping"
KICKERS = {
    IDLE: "",
    QUEUED: "Starts in a moment",
    WORKING: "Working",
    WAITING: "Waiting for your answer",
    STOPPING: "Stopping",
}
DELIVERIES = {
    QueuedKind.STEER: ("Steer", "next step", "corner-down-right"),
    QueuedKind.HELD: ("Steer", "after your answer", "hand"),
    QueuedKind.QUEUE: ("Queue", "after this turn", "clock"),
}


@dataclass(frozen=True)
class Row:
    """A message that is not delivered yet, as the list above the composer shows it."""

    client_id: str
    text: str
    label: str
    when: str
    icon: str
    is_queue: bool
    files: tuple[File, ...] = ()
    can_move_up: bool = False
    can_move_down: bool = False


@dataclass(frozen=True)
class Status:
    """A session as of now. `ask` is the question that text in the composer answers, or blank."""

    session_key: str
    title: str
    turn: str
    since: datetime | None
    kicker: str
    model: str
    incognito: bool
    ask: str
    cards: tuple[tuple[str, str], ...] = ()
    rows: tuple[Row, ...] = ()
    has_held_back: bool = False
    look: Look = field(compare=False, default_factory=lambda: Look("", ""))

    @property
    def is_busy(self) -> bool:
        """Whether Enter steers instead of starting a turn."""
        return self.turn in (WORKING, WAITING, STOPPING)

    @property
    def clock(self) -> SafeString | str:
        return running_since(self.since) if self.since else ""

    @property
    def placeholder(self) -> str:
        """What the empty composer says."""
        name = self.look.agent_name
        if self.ask:
            return "Answer here or above…"
        return {
            WAITING: "Answer above, or write instead…",
            WORKING: "Steer the agent while it works…",
            STOPPING: f"Write to {name} while it stops…",
        }.get(self.turn, f"Message {name}…")

    @property
    def hindrance(self) -> str:
        """Why messages cannot be moved forward now; blank when they can."""
        return "Answer the open card first." if self.turn == WAITING else ""

    def frame(self) -> dict[str, Any]:
        """The status as the live link sends it."""
        return {
            "t": "state",
            "sid": self.session_key,
            "v": {
                "turn": self.turn,
                "title": self.title,
                "kicker": fragment("_kicker.html", {"status": self}),
                "pending": fragment("_pending.html", {"status": self, "look": self.look}),
                "placeholder": self.placeholder,
                "cards": [{"id": card, "title": title} for card, title in self.cards],
                "ask": self.ask,
                "model": self.model,
                "incognito": self.incognito,
            },
        }


def blank(look: Look) -> Status:
    """The status of a session that does not exist yet."""
    return Status(
        session_key="",
        title="New session",
        turn=IDLE,
        since=None,
        kicker="",
        model="",
        incognito=False,
        ask="",
        look=look,
    )


def of(session_id: int, look: Look) -> Status:
    """The status of a session. Raises NotFound when it is deleted."""
    session = ChatSession.objects.present().filter(pk=session_id).first()
    if session is None:
        raise NotFound("this session does not exist any more")
    open_turns = Turn.objects.filter(session=session).exclude(finished_at__isnull=False)
    turns = {turn.status: turn for turn in open_turns.defer("messages").order_by("-number")}
    cards = pauses.open_in_session(session.pk)
    active = turns.get(TurnStatus.RUNNING) or turns.get(TurnStatus.WAITING)
    turn, since = _state(active, turns.get(TurnStatus.QUEUED), cards)
    waiting = pending.waiting_in(session.pk)
    return Status(
        session_key=session.key,
        title=session.title or "New session",
        turn=turn,
        since=since,
        kicker=_kicker(turn, cards),
        model=session.model,
        incognito=session.incognito,
        ask=cards[0].pk if len(cards) == 1 and cards[0].kind == InterruptionKind.QUESTION else "",
        cards=tuple((f"hitl-{card.pk}", one_line(hitl.heading_of(card), 120)) for card in cards),
        rows=_rows(waiting),
        has_held_back=any(row.on_hold for row in waiting) and active is None,
        look=look,
    )


def _state(
    active: Turn | None, queued: Turn | None, cards: list[Interruption]
) -> tuple[str, datetime | None]:
    """What the session is doing, and since when."""
    if active is None:
        return (QUEUED, queued.queued_at) if queued else (IDLE, None)
    if active.stop_requested_at:
        return STOPPING, active.stop_requested_at
    if cards:
        return WAITING, cards[0].asked_at
    return WORKING, active.started_at


def _kicker(turn: str, cards: list[Interruption]) -> str:
    if turn == WAITING and any(card.kind == InterruptionKind.APPROVAL for card in cards):
        return "Needs your approval"
    return KICKERS[turn]


def _rows(waiting: list[QueuedMessage]) -> tuple[Row, ...]:
    queue = [row.pk for row in waiting if row.kind == QueuedKind.QUEUE]
    rows = []
    for row in waiting:
        label, when, icon = DELIVERIES[QueuedKind(row.kind)]
        is_queue = row.kind == QueuedKind.QUEUE
        place = queue.index(row.pk) if is_queue else -1
        rows.append(
            Row(
                client_id=row.client_id,
                text=row.text,
                label="On hold" if row.on_hold else label,
                when="kept" if row.on_hold else when,
                icon="pause" if row.on_hold else icon,
                is_queue=is_queue,
                files=attached.shown(row.attachments),
                can_move_up=place > 0,
                can_move_down=is_queue and place < len(queue) - 1,
            )
        )
    return tuple(rows)
