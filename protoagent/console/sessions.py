"""The session list as a person sees it: groups, dots, second lines, search results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, tzinfo
from typing import Any
from urllib.parse import urlencode

from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.urls import reverse

from protoagent.console.rendering import agent_name, zone_of
from protoagent.core import clock
from protoagent.core.context import Origin
from protoagent.core.text import one_line
from protoagent.journal.models import Agent, ChatSession, Interruption, Turn, TurnStatus
from protoagent.journal.services import attention, search, sessions
from protoagent.security.redaction import mask_text

PAGE_ROWS = 50
MAX_ROWS = 2000
SHOWN = {"mine": "Mine", "agent": "Agent-started", "archived": "Archived"}
EMPTY = {
    "mine": "No sessions yet. Write a message to start one.",
    "agent": "Nothing was started without you yet.",
    "archived": "Nothing is archived.",
}
OWN_ORIGINS = (Origin.OPERATOR.value, Origin.API.value)


@dataclass(frozen=True)
class Query:
    """What the list is asked for; the whole of it is in the URL, so every view has a link."""

    show: str = "mine"
    text: str = ""
    rows: int = PAGE_ROWS
    current: str = ""
    is_selecting: bool = False

    @classmethod
    def of(cls, parameters: Mapping[str, str], *, current: str = "") -> Query:
        """A query out of URL parameters; what makes no sense is the default."""
        rows = parameters.get("rows", "")
        wanted = int(rows) if rows.isascii() and rows.isdecimal() and len(rows) < 7 else PAGE_ROWS
        show = parameters.get("show", "")
        return cls(
            show=show if show in SHOWN else "mine",
            text=mask_text(parameters.get("q", ""))[: search.MAX_QUERY_CHARS],
            rows=min(max(wanted, PAGE_ROWS), MAX_ROWS),
            current=current or parameters.get("current", ""),
            is_selecting=parameters.get("select") == "1",
        )

    def url(self, **changes: Any) -> str:
        """The address of the list with some of it changed."""
        values: dict[str, Any] = {
            "show": self.show,
            "q": self.text,
            "rows": self.rows,
            "current": self.current,
            "select": "1" if self.is_selecting else "",
            **changes,
        }
        plain = {"show": "mine", "rows": PAGE_ROWS}
        told = {name: value for name, value in values.items() if value and plain.get(name) != value}
        address = reverse("console:sessions")
        return f"{address}?{urlencode(told)}" if told else address


@dataclass(frozen=True)
class Row:
    """One session of the list."""

    key: str
    title: str
    url: str
    dot: str
    state: str
    second_line: str
    at: datetime
    time: str
    is_pinned: bool
    is_archived: bool
    is_current: bool
    is_incognito: bool
    is_agent_started: bool


@dataclass(frozen=True)
class Group:
    """Rows under one heading; `slug` is the address of the heading in the page."""

    label: str
    slug: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Hit:
    """A message that was found, with the link that opens it."""

    url: str
    title: str
    who: str
    time: str
    at: datetime
    pieces: tuple[search.Piece, ...]


@dataclass(frozen=True)
class SessionList:
    """Everything that the list's template shows."""

    query: Query
    groups: tuple[Group, ...]
    hits: tuple[Hit, ...] = ()
    more_url: str = ""
    is_cut: bool = False
    filters: tuple[tuple[str, str, bool], ...] = ()
    status: str = ""

    @property
    def is_empty(self) -> bool:
        return not self.groups and not self.hits

    @property
    def empty_text(self) -> str:
        if self.query.text:
            return f"Nothing contains “{one_line(self.query.text, 60)}”."
        return EMPTY[self.query.show]

    @property
    def all_url(self) -> str:
        return self.query.url(q="")

    @property
    def refresh_url(self) -> str:
        return self.query.url()

    @property
    def select_url(self) -> str:
        return self.query.url(select="" if self.query.is_selecting else "1")


@dataclass
class _Clock:
    """The moment and zone in which a list is drawn."""

    zone: tzinfo
    now: datetime = field(default_factory=clock.now)

    def day(self, at: datetime) -> date:
        return at.astimezone(self.zone).date()

    def short(self, at: datetime) -> str:
        """`now`, `5 min`, `14:02`, `9 Mar` or `9 Mar 2025`, whichever says enough."""
        age = self.now - at
        if age < timedelta(minutes=1):
            return "now"
        if age < timedelta(hours=1):
            return f"{int(age.total_seconds()) // 60} min"
        day, today = self.day(at), self.day(self.now)
        if today - day <= timedelta(days=1):
            return at.astimezone(self.zone).strftime("%H:%M")
        text = f"{day.day} {day:%b}"
        return text if day.year == today.year else f"{text} {day.year}"

    def group(self, at: datetime) -> tuple[str, str]:
        """Label and slug of the dated group that `at` belongs to."""
        day, today = self.day(at), self.day(self.now)
        if day >= today:
            return "Today", "today"
        if day == today - timedelta(days=1):
            return "Yesterday", "yesterday"
        if day > today - timedelta(days=30):
            return "Last 30 days", "recent"
        return f"{day:%B %Y}", f"{day:%Y-%m}"


def session_list(agent: Agent, query: Query, *, user_timezone: str = "") -> SessionList:
    """The list for `query`: groups in the person's time zone, or what a search found.

    The number of database queries does not depend on the number of sessions.
    """
    now = _Clock(zone_of(user_timezone))
    if search.terms_of(query.text):
        return _found(agent, query, now)
    waiting = _waiting(agent)
    rows = _with_state(_shown(agent, query, waiting))
    on_top = list(rows.filter(Q(pk__in=list(waiting)) | Q(pinned_at__isnull=False)))
    rest = list(rows.exclude(pk__in=[row.pk for row in on_top])[: query.rows + 1])
    groups = [
        *_top_groups(on_top, waiting, query, now),
        *_dated_groups(rest[: query.rows], query, now),
    ]
    has_more = len(rest) > query.rows and query.rows < MAX_ROWS
    more_url = query.url(rows=query.rows + PAGE_ROWS) if has_more else ""
    return SessionList(query, tuple(groups), more_url=more_url, filters=_filters(query))


def row_of(session: ChatSession, *, user_timezone: str = "", current: str = "") -> Row:
    """One session's row, as it stands in the list."""
    drawn = _with_state(ChatSession.objects.filter(pk=session.pk)).get()
    question = _waiting(session.agent).get(session.pk)
    return _row(drawn, question, Query(current=current), _Clock(zone_of(user_timezone)))


def _waiting(agent: Agent) -> dict[int, Interruption]:
    """The oldest open question of each session that has one, by session id."""
    oldest: dict[int, Interruption] = {}
    for question in attention.waiting(agent):
        oldest.setdefault(question.turn.session_id, question)
    return oldest


def _shown(agent: Agent, query: Query, waiting: Iterable[int]) -> QuerySet[ChatSession]:
    rows = sessions.listing(agent, archived=query.show == "archived")
    if query.show == "archived":
        return rows
    own = Q(origin__in=OWN_ORIGINS)
    return rows.filter((own if query.show == "mine" else ~own) | Q(pk__in=list(waiting)))


def _with_state(rows: QuerySet[ChatSession]) -> QuerySet[ChatSession]:
    active = Turn.objects.active().filter(session=OuterRef("pk"))
    return rows.annotate(
        turn_status=Subquery(active.values("status")[:1]),
        turn_started_at=Subquery(active.values("started_at")[:1]),
    )


def _top_groups(
    rows: list[ChatSession], waiting: dict[int, Interruption], query: Query, now: _Clock
) -> list[Group]:
    """Waiting on you, longest wait first, then what is pinned, newest pin first."""
    wait = sorted(
        (row for row in rows if row.pk in waiting), key=lambda row: waiting[row.pk].asked_at
    )
    pinned = [row for row in rows if row.pk not in waiting and row.pinned_at]
    pinned.sort(key=lambda row: row.pinned_at or now.now, reverse=True)
    named = (("Waiting on you", "waiting", wait), ("Pinned", "pinned", pinned))
    return [
        Group(label, slug, tuple(_row(row, waiting.get(row.pk), query, now) for row in part))
        for label, slug, part in named
        if part
    ]


def _dated_groups(rows: Iterable[ChatSession], query: Query, now: _Clock) -> list[Group]:
    by_group: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_group.setdefault(now.group(row.last_event_at), []).append(_row(row, None, query, now))
    return [Group(label, slug, tuple(part)) for (label, slug), part in by_group.items()]


def _row(session: ChatSession, question: Interruption | None, query: Query, now: _Clock) -> Row:
    is_current = session.key == query.current
    dot, state, second_line = _state(session, question, now, is_current=is_current)
    at = question.asked_at if question else session.last_event_at
    return Row(
        key=session.key,
        title=session.title or "New session",
        url=chat_url(session.key),
        dot=dot,
        state=state,
        second_line=second_line,
        at=at,
        time=now.short(at),
        is_pinned=session.pinned_at is not None,
        is_archived=session.archived_at is not None,
        is_current=is_current,
        is_incognito=session.incognito,
        is_agent_started=session.origin not in OWN_ORIGINS,
    )


def _state(
    session: ChatSession, question: Interruption | None, now: _Clock, *, is_current: bool
) -> tuple[str, str, str]:
    """Dot, its meaning in words, and the second line."""
    if question is not None:
        return "wait", "Waiting on you", wait_line(question)
    status = getattr(session, "turn_status", None)
    if status == TurnStatus.RUNNING:
        started = getattr(session, "turn_started_at", None)
        return "run", "Working", f"Working, {now.short(started)}" if started else "Working"
    if status == TurnStatus.WAITING:
        return "run", "Working", "About to go on"
    if session.last_seq > session.seen_seq and not is_current:
        return "new", "New", ""
    return "", "", ""


def wait_line(question: Interruption) -> str:
    """What an open question waits for, in one line."""
    payload = question.payload
    if question.kind == "question":
        plain = str(payload.get("question", "")).replace("**", "").replace("`", "")
        return one_line(plain, 120) or "A question"
    title = one_line(str(payload.get("title", "")), 120)
    steps = payload.get("steps")
    if question.kind == "form" and isinstance(steps, list) and len(steps) > 1:
        number = min(question.step, len(steps) - 1)
        step = steps[number] if isinstance(steps[number], dict) else {}
        name = one_line(str(step.get("title", "")), 60) or title or "Form"
        return f"{name}, step {number + 1} of {len(steps)}"
    if question.kind == "approval":
        return f"Needs your approval: {title}" if title else "Needs your approval"
    return title or "A form"


def _found(agent: Agent, query: Query, now: _Clock) -> SessionList:
    found = search.find(agent, query.text)
    titled = list(_with_state(ChatSession.objects.filter(pk__in=[row.pk for row in found.titles])))
    titled.sort(key=lambda row: row.last_event_at, reverse=True)
    names = {
        row.pk: row
        for row in ChatSession.objects.filter(pk__in={hit.session_id for hit in found.hits})
    }
    groups = []
    if titled:
        waiting = _waiting(agent)
        rows = tuple(_row(row, waiting.get(row.pk), query, now) for row in titled)
        groups.append(Group("Sessions", "titles", rows))
    hits = tuple(_hit(hit, names[hit.session_id], now) for hit in found.hits)
    return SessionList(
        query,
        tuple(groups),
        hits=hits,
        is_cut=found.is_cut,
        filters=_filters(query),
        status=f"{_count(len(titled), 'session')}, {_count(len(hits), 'message')} found",
    )


def _hit(hit: search.Hit, session: ChatSession, now: _Clock) -> Hit:
    return Hit(
        url=message_url(session.key, hit.seq),
        title=session.title or "New session",
        who="You" if hit.role == "user" else agent_name(),
        time=now.short(hit.at),
        at=hit.at,
        pieces=hit.snippet,
    )


def _filters(query: Query) -> tuple[tuple[str, str, bool], ...]:
    return tuple(
        (label, query.url(show=show, rows=PAGE_ROWS, select=""), show == query.show)
        for show, label in SHOWN.items()
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def chat_url(key: str) -> str:
    """The page of a session."""
    return reverse("console:chat", args=[key])


def message_url(key: str, seq: int) -> str:
    """The page of a session, opened at the message of this event."""
    return f"{chat_url(key)}?at={seq}#m-{seq}"
