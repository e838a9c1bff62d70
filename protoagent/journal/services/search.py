"""Finding what was said: plain text search over messages and answers.

The text that a person types is a list of words to be contained, never query syntax, and
the match is by substring, so that it serves scripts without word breaks as well.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet
from django.db.models.fields.json import KT

from protoagent.core.text import is_hidden_character
from protoagent.journal.models import (
    Agent,
    ChatSession,
    QueuedMessage,
    QueuedState,
    Turn,
    TurnEvent,
)

MAX_QUERY_CHARS = 200
MAX_TERMS = 8
MAX_HITS = 60
MAX_HITS_PER_SESSION = 3
SNIPPET_CHARS = 160
_MARKS = re.compile(r"\*\*|`+")


@dataclass(frozen=True)
class Piece:
    """A stretch of a snippet; `is_hit` when it is one of the words that were asked for."""

    text: str
    is_hit: bool


@dataclass(frozen=True)
class Hit:
    """One message or answer that contains every word.

    `seq` is the event at which it begins: that of the message, or of the turn's start.
    """

    session_id: int
    turn_id: str
    seq: int
    role: str
    at: datetime
    snippet: tuple[Piece, ...]


@dataclass(frozen=True)
class Found:
    """What a search found: sessions by title, and messages, newest first."""

    terms: tuple[str, ...]
    titles: tuple[ChatSession, ...]
    hits: tuple[Hit, ...]
    is_cut: bool


def terms_of(text: str) -> tuple[str, ...]:
    """The words of a search box: at most eight, without control and hidden characters."""
    shown = "".join(" " if is_hidden_character(char) else char for char in text)
    words = unicodedata.normalize("NFC", shown)[:MAX_QUERY_CHARS].split()
    return tuple(dict.fromkeys(words))[:MAX_TERMS]


def find(agent: Agent, text: str, *, limit: int = MAX_HITS) -> Found:
    """Sessions and messages of the agent that contain every word of `text`.

    Archived sessions are searched too, deleted ones are not. At most three messages of
    one session come back; `is_cut` tells that there are more than `limit` in all.
    """
    terms = terms_of(text)
    if not terms:
        return Found((), (), (), is_cut=False)
    present = ChatSession.objects.present().filter(agent=agent)
    titles = present.filter(_contains("title", terms)).order_by("-last_event_at", "-pk")[:limit]
    candidates = sorted(
        [*_in_turns(present, terms, limit), *_in_late_messages(present, terms, limit)],
        key=lambda found: (found.at, found.role == "agent"),
        reverse=True,
    )
    kept, is_cut = _cap(candidates, limit)
    return Found(terms, tuple(titles), tuple(_with_seq(kept, terms)), is_cut)


def snippet(
    text: str, terms: Iterable[str], *, max_chars: int = SNIPPET_CHARS
) -> tuple[Piece, ...]:
    """The stretch of `text` around the first match, on one line, cut into pieces."""
    whole, pattern = " ".join(text.split()), _pattern(terms)
    # Without the marks of bold text and code, unless they are what was asked for.
    line = _MARKS.sub("", whole)
    if not pattern.search(line):
        line = whole
    first = pattern.search(line)
    start = max(0, first.start() - max_chars // 3) if first else 0
    if start:
        word = line.find(" ", start, first.start() if first else None)
        start = word + 1 if word >= 0 else start
    window = line[start : start + max_chars]
    pieces = [Piece("…", is_hit=False)] if start else []
    position = 0
    for match in pattern.finditer(window):
        if match.start() > position:
            pieces.append(Piece(window[position : match.start()], is_hit=False))
        pieces.append(Piece(match[0], is_hit=True))
        position = match.end()
    rest = window[position:] + ("…" if start + max_chars < len(line) else "")
    if rest:
        pieces.append(Piece(rest, is_hit=False))
    return tuple(pieces)


@dataclass(frozen=True)
class _Candidate:
    session_id: int
    turn_id: str
    role: str
    at: datetime
    text: str
    client_id: str


def _in_turns(
    sessions: QuerySet[ChatSession], terms: tuple[str, ...], limit: int
) -> list[_Candidate]:
    rows = (
        Turn.objects.filter(session__in=sessions)
        .filter(_contains("text", terms) | _contains("answer", terms))
        .order_by("-queued_at", "-number")
        .values_list("session_id", "pk", "text", "answer", "client_id", "queued_at", "finished_at")[
            : limit + 1
        ]
    )
    pattern = [_pattern([term]) for term in terms]
    found = []
    for session_id, turn_id, asked, answer, client_id, queued_at, finished_at in rows:
        for role, text, at in (("user", asked, queued_at), ("agent", answer, finished_at)):
            if text and at and all(part.search(text) for part in pattern):
                found.append(_Candidate(session_id, turn_id, role, at, text, client_id))
    return found


def _in_late_messages(
    sessions: QuerySet[ChatSession], terms: tuple[str, ...], limit: int
) -> list[_Candidate]:
    """Messages that a running turn read: steers and those held while a card was open."""
    rows = (
        QueuedMessage.objects.filter(session__in=sessions, state=QueuedState.DELIVERED)
        .filter(_contains("text", terms))
        .order_by("-created_at", "-pk")
        .values_list("session_id", "turn_id", "text", "client_id", "created_at")[: limit + 1]
    )
    return [
        _Candidate(session_id, turn_id or "", "user", at, text, client_id)
        for session_id, turn_id, text, client_id, at in rows
    ]


def _cap(candidates: list[_Candidate], limit: int) -> tuple[list[_Candidate], bool]:
    per_session: dict[int, int] = {}
    kept = []
    for candidate in candidates:
        count = per_session.get(candidate.session_id, 0)
        per_session[candidate.session_id] = count + 1
        if count < MAX_HITS_PER_SESSION:
            kept.append(candidate)
    return kept[:limit], len(kept) > limit or len(candidates) > limit


def _with_seq(candidates: list[_Candidate], terms: tuple[str, ...]) -> list[Hit]:
    """The candidates as hits; one without an event (a turn that still queues) is left out."""
    places = _places({candidate.turn_id for candidate in candidates if candidate.turn_id})
    hits = []
    for found in candidates:
        key = found.client_id if found.role == "user" else "answer"
        seq = places.get((found.turn_id, found.role, key))
        if seq is None:
            continue
        hits.append(
            Hit(
                found.session_id,
                found.turn_id,
                seq,
                found.role,
                found.at,
                snippet(found.text, terms),
            )
        )
    return hits


def _places(turn_ids: set[str]) -> dict[tuple[str, str, str], int]:
    """Where each message stands, and where the answer of each turn begins: (turn, role, key)."""
    rows = (
        TurnEvent.objects.filter(turn_id__in=turn_ids)
        .filter(type__in=["message.received", "turn.started"])
        .order_by("seq")
        .values_list("turn_id", "type", "seq", KT("data__client_id"))
    )
    places: dict[tuple[str, str, str], int] = {}
    for turn_id, kind, seq, client_id in rows:
        if kind == "message.received":
            places.setdefault((turn_id, "user", client_id or ""), seq)
        else:
            places.setdefault((turn_id, "agent", "answer"), seq)
    return places


def _contains(field: str, terms: Iterable[str]) -> Q:
    """Every term is contained in `field`, in any case of any script."""
    condition = Q()
    for term in terms:
        any_case = Q()
        for variant in _variants(term):
            any_case |= Q(**{f"{field}__icontains": variant})
        condition &= any_case
    return condition


def _variants(term: str) -> tuple[str, ...]:
    """Spellings to ask the database for: SQLite, and PostgreSQL under the C locale, know
    upper and lower case of ASCII only."""
    if term.isascii():
        return (term,)
    cases = (term, term.lower(), term.upper(), term.capitalize(), term.title())
    forms = [unicodedata.normalize(form, case) for case in cases for form in ("NFC", "NFD")]
    return tuple(dict.fromkeys(forms))


def _pattern(terms: Iterable[str]) -> re.Pattern[str]:
    spellings = {variant for term in terms for variant in _variants(term)}
    longest_first = sorted(spellings, key=lambda text: (-len(text), text))
    return re.compile("|".join(map(re.escape, longest_first)) or r"\Z\A", re.IGNORECASE)
