"""A stretch of a session's transcript as HTML, out of its rows.

No transaction is needed for a consistent page: events never change, so what they say up
to the number that is read first is the same whenever it is read. A card may be drawn
newer than that number; the event that says so then draws it the same way again.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Max, QuerySet
from django.utils.safestring import SafeString, mark_safe

from protoagent.console import hitl
from protoagent.console.rendering import Look, fragment
from protoagent.console.transcript import Article, Event, TurnView
from protoagent.core.errors import NotFound
from protoagent.journal.models import ChatSession, Interruption, Turn, TurnEvent

PAGE_TURNS = 30  # a turn is a question and its answer: 60 messages
CACHED_TURNS = 400
_ANCHOR = re.compile(r"(?:(m|call|hitl)-)?([A-Za-z0-9._:-]{1,128})\Z")
_CARD_EVENTS = ("input.required", "input.resolved")


@dataclass(frozen=True)
class Stretch:
    """Part of a transcript as of event `seq`.

    `older` and `newer` are the addresses' anchors of what lies before and behind it, or
    blank. `target` is the id of the element that was asked for.
    """

    session_key: str
    seq: int
    html: SafeString
    older: str = ""
    newer: str = ""
    target: str = ""

    @property
    def is_empty(self) -> bool:
        return not self.html

    def stream(self) -> SafeString:
        """The stretch with the buttons that lead on: what stands inside the log."""
        return fragment("_stream.html", {"stretch": self})


class _Cache:
    """Articles of ended turns: they never change, and drawing them is most of a page's work."""

    def __init__(self) -> None:
        self._rows: OrderedDict[tuple[str, Look], tuple[int, list[Article]]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, turn_id: str, look: Look, last_seq: int) -> list[Article] | None:
        with self._lock:
            found = self._rows.get((turn_id, look))
            if found is None or found[0] != last_seq:
                return None
            self._rows.move_to_end((turn_id, look))
            return found[1]

    def put(self, turn_id: str, look: Look, last_seq: int, articles: list[Article]) -> None:
        with self._lock:
            self._rows[(turn_id, look)] = (last_seq, articles)
            while len(self._rows) > CACHED_TURNS:
                self._rows.popitem(last=False)


cache = _Cache()


def newest(session: ChatSession, look: Look) -> Stretch:
    """The end of the transcript."""
    return _stretch(session, look, _turns(session).order_by("-number"))


def older(session: ChatSession, look: Look, before: str) -> Stretch:
    """What lies before the message with the anchor `before`. Raises NotFound."""
    turn, _ = _resolve(session, before)
    return _stretch(
        session, look, _turns(session).filter(number__lt=turn.number).order_by("-number")
    )


def around(session: ChatSession, look: Look, anchor: str) -> Stretch:
    """The stretch that holds the anchor's message: the newest one if that does.

    An anchor is the number of an event, or `m-…`, `call-…`, `hitl-…`. Raises NotFound.
    """
    turn, target = _resolve(session, anchor)
    newer_turns = _turns(session).filter(number__gt=turn.number)
    if newer_turns.count() < PAGE_TURNS:
        stretch = newest(session, look)
        return _aimed(stretch, session, look, turn, target, newer="")
    ahead = list(newer_turns.order_by("number").values_list("number", flat=True)[: PAGE_TURNS // 2])
    rows = _turns(session).filter(number__lte=ahead[-1]).order_by("-number")
    stretch = _stretch(session, look, rows)
    following = _turns(session).filter(number__gt=ahead[-1]).order_by("number").first()
    newer = f"t-{following.pk}" if following else ""
    return _aimed(stretch, session, look, turn, target, newer=newer)


def source_of(session: ChatSession, look: Look, element_id: str) -> str:
    """The message with this element id as it was written. Raises NotFound."""
    turn, _ = _resolve(session, element_id)
    view = TurnView(look)
    for event in events_of([turn.pk], upto=_last_seq(session)).get(turn.pk, ()):
        view.apply(event, live=False)
    source = view.source(element_id)
    if source is None:
        raise NotFound("this message is not here any more")
    return source


def events_of(turn_ids: Iterable[str], *, upto: int) -> dict[str, list[Event]]:
    """The events of these turns up to number `upto`, by turn, in order."""
    rows = (
        TurnEvent.objects.filter(turn_id__in=list(turn_ids), seq__lte=upto)
        .order_by("seq")
        .values_list("turn_id", "seq", "at", "type", "data")
    )
    found: dict[str, list[Event]] = defaultdict(list)
    for turn_id, seq, at, kind, data in rows.iterator(chunk_size=2000):
        event = {"seq": seq, "turn": turn_id, "at": at.isoformat(), "type": kind, "data": data}
        found[turn_id].append(event)
    return found


def cards_of(events: Iterable[Event], look: Look) -> dict[str, str]:
    """Drawings of the cards that these events are about, as the cards stand now."""
    ids = {str(e["data"].get("interrupt_id", "")) for e in events if e["type"] in _CARD_EVENTS}
    if not ids:
        return {}
    rows = Interruption.objects.filter(pk__in=ids).select_related("turn__session")
    return {
        row.pk: hitl.render_card(row, actor=look.actor, user_timezone=look.zone_name)
        for row in rows
    }


def _turns(session: ChatSession) -> QuerySet[Turn]:
    return Turn.objects.filter(session=session)


def _stretch(session: ChatSession, look: Look, rows: QuerySet[Turn]) -> Stretch:
    seq = _last_seq(session)
    turns = list(rows.only("pk", "number", "status")[: PAGE_TURNS + 1])
    shown, has_older = turns[:PAGE_TURNS], len(turns) > PAGE_TURNS
    articles = _articles(shown, look, seq)
    return Stretch(
        session.key,
        seq,
        _joined(articles),
        older=articles[0].element_id if has_older and articles else "",
    )


def _last_seq(session: ChatSession) -> int:
    """How far the session's journal goes now, not when its row was read."""
    found = ChatSession.objects.filter(pk=session.pk).values_list("last_seq", flat=True).first()
    if found is None:
        raise NotFound("this session does not exist any more")
    return found


def _articles(turns: list[Turn], look: Look, seq: int) -> list[Article]:
    """The messages of the turns in the order in which the turns were first heard of."""
    ended = [turn.pk for turn in turns if turn.is_ended]
    last_of = dict(
        TurnEvent.objects.filter(turn_id__in=ended, seq__lte=seq)
        .values_list("turn_id")
        .annotate(last=Max("seq"))
    )
    ready: list[tuple[int, list[Article]]] = []
    todo: list[str] = []
    for turn in turns:
        known = cache.get(turn.pk, look, last_of.get(turn.pk, 0)) if turn.is_ended else None
        if known is None:
            todo.append(turn.pk)
        else:
            ready.append((_first_seq(known), known))
    for turn_id, events in events_of(todo, upto=seq).items():
        view = TurnView(look, cards_of(events, look))
        for event in events:
            view.apply(event, live=False)
        articles = view.articles()
        if turn_id in last_of and view.has_ended:
            cache.put(turn_id, look, last_of[turn_id], articles)
        ready.append((_first_seq(articles), articles))
    return [article for _, group in sorted(ready, key=lambda row: row[0]) for article in group]


def _first_seq(articles: list[Article]) -> int:
    return int(articles[0].element_id.removeprefix("m-")) if articles else 0


def _joined(articles: list[Article]) -> SafeString:
    """The articles with a separator above the first one of each day."""
    days: set[str] = set()
    html: list[str] = []
    for article in articles:
        name, separator = article.day
        if name not in days:
            days.add(name)
            html.append(separator)
        html.append(article.html)
    return mark_safe("\n".join(html))  # noqa: S308 — drawn by our templates


def _resolve(session: ChatSession, anchor: str) -> tuple[Turn, str]:
    """The turn that the anchor names something of, and the id of the element, if that is known."""
    match = _ANCHOR.match(anchor)
    kind, name = (match[1] or "m", match[2]) if match else ("", "")
    turn: Turn | None = None
    if anchor.startswith("t-"):
        turn = _turns(session).filter(pk=anchor.removeprefix("t-")).first()
        return _found(turn), ""
    if kind == "call":
        turn = _turns(session).filter(tool_calls__call_id=name).order_by("-number").first()
    elif kind == "hitl":
        turn = _turns(session).filter(interruptions__pk=name).first()
    elif kind == "m" and name.isdecimal() and len(name) < 10:
        event = TurnEvent.objects.filter(session=session, seq=int(name)).first()
        turn = event.turn if event else None
        return _found(turn), f"m-{name}"
    return _found(turn), f"{kind}-{name}"


def _found(turn: Turn | None) -> Turn:
    if turn is None:
        raise NotFound("this link leads to something that is not here any more")
    return turn


def _aimed(
    stretch: Stretch, session: ChatSession, look: Look, turn: Turn, target: str, *, newer: str
) -> Stretch:
    """The stretch with the element that the link meant: for an event, the message around it."""
    if target.startswith("m-"):
        wanted = int(target.removeprefix("m-"))
        names = [article.element_id for article in _articles([turn], look, stretch.seq)]
        if target not in names:
            earlier = [n for n in names if int(n.removeprefix("m-")) <= wanted]
            target = (earlier or names or [""])[-1]
    return Stretch(session.key, stretch.seq, stretch.html, stretch.older, newer, target)
