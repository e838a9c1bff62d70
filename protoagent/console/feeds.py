"""Rendered frames of the sessions that pages of this process look at.

All pages that show a session in the same way share one feed: it follows the journal,
draws each event once and keeps the newest frames for those who reconnect. Drawing
happens in a thread, so that a long answer never stalls other sockets.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from dataclasses import dataclass
from typing import Any

from channels.db import database_sync_to_async as in_db
from django.db import DatabaseError

from protoagent.console import snapshot, status
from protoagent.console.rendering import Look
from protoagent.console.transcript import Event, TurnView
from protoagent.core.errors import AgentError, NotFound, TooMany
from protoagent.journal import live
from protoagent.journal.models import ChatSession

log = logging.getLogger(__name__)

MAX_BEHIND = 2000
MAX_RECENT = 1000
FRAMES_AT_ONCE = 50
RETRY_S = 1.0
GONE = {"t": "gone"}
# Events after which the session's state can look different.
_STATE_EVENTS = frozenset(
    {
        "message.received",
        "turn.started",
        "turn.finished",
        "input.required",
        "input.resolved",
        "note",
    }
)


@dataclass(frozen=True)
class Drawn:
    """A frame as text, ready to be sent. It covers the events `first` to `seq`."""

    first: int
    seq: int
    text: str


def as_text(frame: dict[str, Any]) -> str:
    """The frame as compact JSON."""
    return json.dumps(frame, ensure_ascii=False, separators=(",", ":"))


class Painter:
    """Draws a session's events in order. Its memory is one `TurnView` for each open turn."""

    def __init__(self, session_id: int, look: Look) -> None:
        self.session_id = session_id
        self.look = look
        self._views: dict[str, TurnView] = {}
        self._drawn: dict[str, str] = {}

    async def paint(self, events: list[Event]) -> list[Drawn]:
        """The frames of events that follow one another; a run of text is one frame."""
        events = merged(events)
        earlier: dict[str, list[Event]] = {}
        if any(self._needs_rows(event) for event in events):
            earlier = await in_db(self._read)(events)
        return await asyncio.to_thread(self._paint, events, earlier)

    def _needs_rows(self, event: Event) -> bool:
        return event["type"].startswith("input.") or event["turn"] not in self._views

    def _read(self, events: list[Event]) -> dict[str, list[Event]]:
        """What drawing needs from the rows: cards, and how turns that are new to us began."""
        self._drawn.update(snapshot.cards_of(events, self.look))
        unknown = {e["turn"]: e["first"] for e in reversed(events) if e["turn"]}
        for turn_id in {*self._views, *(e["turn"] for e in events if _begins_turn(e))}:
            unknown.pop(turn_id, None)
        if not unknown:
            return {}
        found = snapshot.events_of(unknown, upto=max(unknown.values()))
        return {t: [e for e in found[t] if e["seq"] < unknown[t]] for t in unknown}

    def _paint(self, events: list[Event], earlier: dict[str, list[Event]]) -> list[Drawn]:
        return [self._frame(event, earlier) for event in events]

    def _frame(self, event: Event, earlier: dict[str, list[Event]]) -> Drawn:
        first, seq = event["first"], event["seq"]
        frame: dict[str, Any] = {"t": "ops", "s": seq, "sid": self.look.session_key, "ops": []}
        if first != seq:
            frame["f"] = first
        if turn_id := event["turn"]:
            view = self._view(turn_id, earlier)
            change = view.apply(event)
            frame["ops"] = change.ops
            if change.say:
                frame |= {"say": change.say, "at": event["at"]}
            if view.has_ended:
                del self._views[turn_id]
        return Drawn(first, seq, as_text(frame))

    def _view(self, turn_id: str, earlier: dict[str, list[Event]]) -> TurnView:
        view = self._views.get(turn_id)
        if view is None:
            view = self._views[turn_id] = TurnView(self.look, self._drawn)
            for event in earlier.get(turn_id, ()):
                view.apply(event, live=False)
        return view


def merged(events: list[Event]) -> list[Event]:
    """The events with each run of text as one; `first` is the number of its first event."""
    found: list[Event] = []
    for event in events:
        last = found[-1] if found else None
        is_text = event["type"] == "text.delta"
        if is_text and last and last["type"] == "text.delta" and last["turn"] == event["turn"]:
            last["data"]["pieces"].append((event["seq"], str(event["data"].get("text", ""))))
            last["seq"] = event["seq"]
        elif is_text:
            pieces = [(event["seq"], str(event["data"].get("text", "")))]
            found.append({**event, "first": event["seq"], "data": {"pieces": pieces}})
        else:
            found.append({**event, "first": event["seq"]})
    return found


def _begins_turn(event: Event) -> bool:
    """Whether nothing of the turn can have come before."""
    return event["type"] == "message.received" and event["data"].get("mode") == "turn"


class Listener:
    """One page that shows a session. Frames reach `queue` in order, without gap or repeat.

    Until `release`, they are held back: what the page has missed goes out first.
    """

    def __init__(self, queue: asyncio.Queue[str], after: int) -> None:
        self.after = after
        self._queue = queue
        self._held: list[str] | None = []
        self.is_overrun = False

    def take(self, frame: Drawn) -> None:
        if frame.seq <= self.after:
            return
        self.after = frame.seq
        self.tell(frame.text)

    def tell(self, text: str) -> None:
        """Something that has no number: the session's state."""
        if self._held is not None:
            self._held.append(text)
            return
        try:
            self._queue.put_nowait(text)
        except asyncio.QueueFull:
            self.is_overrun = True

    def release(self) -> list[str]:
        """What was held back; from now on frames go to the queue."""
        held, self._held = self._held or [], None
        return held


class Feed:
    """One session, drawn for one look, from the event behind `start`."""

    def __init__(self, session_id: int, look: Look, start: int) -> None:
        self.session_id = session_id
        self.look = look
        self.cursor = start
        self.listeners: set[Listener] = set()
        self._painter = Painter(session_id, look)
        self._recent: deque[Drawn] = deque(maxlen=MAX_RECENT)
        self._state = ""
        self._state_wanted = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._follow()), loop.create_task(self._watch_state())]

    def recent(self, after: int) -> list[Drawn] | None:
        """The frames behind `after`, or None when there are none that begin right there."""
        frames = [frame for frame in self._recent if frame.seq > after]
        is_whole = frames[0].first == after + 1 if frames else after >= self.cursor
        return frames if is_whole else None

    def look_at_state(self) -> None:
        """The session's state may have changed."""
        self._state_wanted.set()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def state_text(self) -> str:
        """The newest state frame."""
        if not self._state:
            await self._read_state()
        return self._state

    async def _follow(self) -> None:
        while True:
            subscription = live.hub.subscribe(self.session_id, self.cursor)
            try:
                async for events in subscription:
                    await self._take(events)
            except TooMany:  # drawing fell behind; the rows have it all
                continue
            except (DatabaseError, AgentError):
                log.exception("following a session failed; trying again")
                await asyncio.sleep(RETRY_S)
            finally:
                subscription.close()

    async def _take(self, events: list[Event]) -> None:
        for number, frame in enumerate(await self._painter.paint(events)):
            self.cursor = frame.seq
            self._recent.append(frame)
            for listener in tuple(self.listeners):
                listener.take(frame)
            if number % FRAMES_AT_ONCE == FRAMES_AT_ONCE - 1:
                await asyncio.sleep(0)  # let the sockets send what they have
        if any(event["type"] in _STATE_EVENTS for event in events):
            self.look_at_state()

    async def _watch_state(self) -> None:
        while True:
            await self._state_wanted.wait()
            self._state_wanted.clear()
            try:
                await self._read_state()
            except DatabaseError:
                log.exception("reading a session's state failed; trying again")
                await asyncio.sleep(RETRY_S)
                self._state_wanted.set()

    async def _read_state(self) -> None:
        text = await in_db(_state_text)(self.session_id, self.look)
        if text == self._state:
            return
        self._state = text
        for listener in tuple(self.listeners):
            listener.tell(text)


def _state_text(session_id: int, look: Look) -> str:
    try:
        return as_text(status.of(session_id, look).frame())
    except NotFound:
        return as_text({**GONE, "sid": look.session_key})


class Feeds:
    """All feeds of one event loop."""

    def __init__(self) -> None:
        self._feeds: dict[tuple[int, Look], Feed] = {}

    def sessions(self) -> set[int]:
        """The sessions that are looked at."""
        return {session_id for session_id, _ in self._feeds}

    def of_session(self, session_id: int) -> list[Feed]:
        return [feed for (known, _), feed in self._feeds.items() if known == session_id]

    async def join(
        self, session: ChatSession, look: Look, listener: Listener
    ) -> tuple[Feed, list[Drawn]]:
        """The listener follows the session; with what it has missed since its cursor."""
        after, key = listener.after, (session.pk, look)
        feed = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = Feed(session.pk, look, max(after, session.last_seq))
        feed.listeners.add(listener)
        missed = feed.recent(after)
        upto = listener.after = max(after, feed.cursor)
        if missed is None:
            missed = await catch_up(session.pk, look, after, upto)
        return feed, missed

    def leave(self, feed: Feed, listener: Listener) -> None:
        """A feed that nobody listens to ends."""
        feed.listeners.discard(listener)
        key = (feed.session_id, feed.look)
        if not feed.listeners and self._feeds.get(key) is feed:
            del self._feeds[key]
            feed.close()


async def catch_up(session_id: int, look: Look, after: int, upto: int) -> list[Drawn]:
    """The frames from the event behind `after` to the event `upto`, drawn for one page alone."""
    painter = Painter(session_id, look)
    frames: list[Drawn] = []
    while after < upto:
        events = await live.hub.read(session_id, after)
        events = [event for event in events if event["seq"] <= upto]
        if not events:
            break
        frames += await painter.paint(events)
        after = events[-1]["seq"]
    return frames


async def reset_frame(session: ChatSession, look: Look) -> Drawn:
    """The newest stretch of the transcript, for a page whose cursor is of no use any more."""
    stretch = await in_db(snapshot.newest)(session, look)
    html = await in_db(stretch.stream)()
    frame = {"t": "reset", "sid": session.key, "s": stretch.seq, "h": html}
    return Drawn(stretch.seq, stretch.seq, as_text(frame))
