"""`/ws/`: the one socket of a page, from the server to the browser only (ui/SPEC.md §3.2).

Frames of a session carry the number `s` of the newest event that they show, and `f` when
they show several; the page asks again from its cursor whenever they do not continue it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async as in_db

from protoagent.accounts.services import browsers
from protoagent.accounts.sessions import SessionStore
from protoagent.console import feeds
from protoagent.console.bulletin import Bulletin
from protoagent.console.feeds import Feed, Feeds, Listener
from protoagent.console.rendering import Look, agent_name
from protoagent.core import clock
from protoagent.core.errors import BadValue, NotFound
from protoagent.core.ids import is_session_key
from protoagent.journal.models import ChatSession
from protoagent.journal.services import agents, sessions
from protoagent.web.sockets import Frame, GuardedConsumer
from protoagent.web.timezones import valid_zone

PING_EVERY_S = 20.0
MAX_QUEUED = 256
MAX_SESSIONS = 16
OVERRUN = 4408


@dataclass
class Switchboard:
    """What the sockets of one event loop share."""

    feeds: Feeds
    bulletin: Bulletin


_boards: WeakKeyDictionary[asyncio.AbstractEventLoop, Switchboard] = WeakKeyDictionary()


def switchboard() -> Switchboard:
    """The running loop's own."""
    loop = asyncio.get_running_loop()
    if loop not in _boards:
        all_feeds = Feeds()
        _boards[loop] = Switchboard(all_feeds, Bulletin(all_feeds))
    return _boards[loop]


class LinkConsumer(GuardedConsumer):
    """The live link of one page. The page says which sessions it shows, and nothing else."""

    kind_field: ClassVar[str] = "t"
    viewer_frames: ClassVar[frozenset[str]] = frozenset({"sub", "unsub", "ping"})

    async def opened(self) -> None:
        self._board = switchboard()
        self._queue: asyncio.Queue[str] = asyncio.Queue(MAX_QUEUED)
        self._sending = asyncio.Lock()
        self._joined: dict[str, tuple[Feed, Listener]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._zone = await in_db(_zone_of)(self.grant.session_key)
        await self._board.bulletin.join(self._tell)
        waiting = self._board.bulletin.waiting_count
        await self.send_frame({"t": "hello", "now": _now(), "waiting": waiting})
        loop = asyncio.get_running_loop()
        self._tasks += [loop.create_task(self._write()), loop.create_task(self._keep_alive())]

    async def closed(self, code: int) -> None:
        for task in self._tasks:
            task.cancel()
        for key in tuple(self._joined):
            self._part(key)
        self._board.bulletin.leave(self._tell)

    async def received(self, frame: Frame) -> None:
        kind, key = frame.get("t"), frame.get("sid")
        if kind == "ping":
            await self.send_frame({"t": "ping", "now": _now()})
            return
        if kind not in ("sub", "unsub"):
            raise BadValue("this socket takes sub and unsub; everything else is an HTTP post")
        if not isinstance(key, str) or not is_session_key(key):
            raise BadValue("sid must be the key of a session")
        if kind == "unsub":
            self._part(key)
            return
        after = frame.get("after")
        if not isinstance(after, int) or isinstance(after, bool) or after < 0:
            raise BadValue("after must be the number of the last event that the page shows")
        await self._join(key, after)

    async def _join(self, key: str, after: int) -> None:
        """Send what the page has missed since `after`, and follow the session."""
        if key not in self._joined and len(self._joined) >= MAX_SESSIONS:
            raise BadValue(f"a page follows at most {MAX_SESSIONS} sessions")
        self._part(key)
        session = await in_db(_session)(key)
        if session is None:
            await self.send_frame({**feeds.GONE, "sid": key})
            return
        look = self._look(key)
        async with self._sending:
            if after > session.last_seq or session.last_seq - after > feeds.MAX_BEHIND:
                reset = await feeds.reset_frame(session, look)
                await self._send_text(reset.text)
                after = reset.seq
            listener = Listener(self._queue, after)
            feed, missed = await self._board.feeds.join(session, look, listener)
            self._joined[key] = feed, listener
            for frame in missed:
                await self._send_text(frame.text)
            await self._send_text(await feed.state_text())
            for text in listener.release():
                await self._send_text(text)
        if not self.is_open:
            self._part(key)

    def _part(self, key: str) -> None:
        joined = self._joined.pop(key, None)
        if joined is not None:
            self._board.feeds.leave(*joined)

    def _look(self, key: str) -> Look:
        return Look(
            session_key=key,
            agent_name=agent_name(),
            can_write=self.actor.can_write,
            zone_name=self._zone,
            actor=self.actor,
        )

    def _tell(self, text: str) -> None:
        if not self._queue.full():
            self._queue.put_nowait(text)  # a lost hint costs little; the page asks again

    async def _write(self) -> None:
        """Send what the feeds and the bulletin have queued, in order."""
        while True:
            text = await self._queue.get()
            async with self._sending:
                await self._send_text(text)
            if any(listener.is_overrun for _, listener in self._joined.values()):
                await self.end(OVERRUN)

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(PING_EVERY_S)
            await self.send_frame({"t": "ping", "now": _now()})

    async def _send_text(self, text: str) -> None:
        if self.is_open:
            await self.send(text_data=text)


def _now() -> int:
    """Milliseconds since the epoch, for the clocks of a page on a machine whose own is wrong."""
    return round(clock.now().timestamp() * 1000)


def _session(key: str) -> ChatSession | None:
    try:
        return sessions.find(agents.current(), key)
    except NotFound:
        return None


def _zone_of(session_key: str) -> str:
    """The time zone that the browser named at sign-in."""
    if not session_key:
        return "UTC"
    return valid_zone(browsers.zone_of(SessionStore(session_key))) or "UTC"
