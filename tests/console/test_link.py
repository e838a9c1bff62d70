"""The live link: what a page gets over `/ws/`, whenever it asks and however often it is cut off."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
import pytest_asyncio
from channels.db import database_sync_to_async as in_db
from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator
from django.urls import path

from protoagent.console import feeds, link, snapshot
from protoagent.console.rendering import Look
from protoagent.core.context import Scope
from protoagent.core.ids import new_id
from protoagent.journal.models import ChatSession
from protoagent.journal.services import agents, events, pauses, pending, sessions
from protoagent.journal.services.events import NewEvent
from tests.accounts.factories import browser_of, make_account, make_token
from tests.console import dom
from tests.console.asking import begin
from tests.web.echo import ORIGIN, connect_as

pytestmark = pytest.mark.django_db(transaction=True)
APP = URLRouter([path("ws/", link.LinkConsumer.as_asgi())])


class Tab:
    """A page with its link: applies frames as the browser's script does."""

    def __init__(self, socket: WebsocketCommunicator) -> None:
        self.socket = socket
        self.page = dom.parse("")
        self.cursor = 0
        self.states: list[dict[str, Any]] = []
        self.topics: list[tuple[str, dict[str, Any]]] = []
        self.resets = 0
        self.errors: list[dict[str, Any]] = []

    async def send(self, **frame: Any) -> None:
        await self.socket.send_to(text_data=json.dumps(frame))

    async def follow(self, key: str, after: int | None = None) -> None:
        self.cursor = self.cursor if after is None else after
        await self.send(t="sub", sid=key, after=self.cursor)

    async def read(self, timeout: float = 3.0) -> dict[str, Any]:
        """The next frame, applied."""
        frame = json.loads(await self.socket.receive_from(timeout=timeout))
        self.take(frame)
        return frame

    def take(self, frame: dict[str, Any]) -> None:
        if frame.get("type") == "error":
            self.errors.append(frame)
        elif frame["t"] == "state":
            self.states.append(frame["v"])
        elif frame["t"] == "bus":
            self.topics.append((frame["topic"], frame["data"]))
        elif frame["t"] == "reset":
            self.page, self.cursor, self.resets = dom.parse(frame["h"]), frame["s"], self.resets + 1
        elif frame["t"] == "ops":
            first = frame.get("f", frame["s"])
            assert first == self.cursor + 1, f"a gap or a repeat: {first} after {self.cursor}"
            dom.apply(self.page, frame["ops"])
            self.cursor = frame["s"]

    async def until_seq(self, seq: int) -> None:
        while self.cursor < seq:
            await self.read()

    async def until(self, kind: str) -> dict[str, Any]:
        while (frame := await self.read()).get("t") != kind:
            pass
        return frame

    async def until_state(self, **wanted: Any) -> dict[str, Any]:
        """The first state, from now on, that has these values; texts need only be contained."""
        while True:
            frame = await self.until("state")
            if all(value in frame["v"][name] for name, value in wanted.items()):
                return frame["v"]

    async def quiet(self) -> None:
        """Everything that is on its way has arrived."""
        while not await self.socket.receive_nothing(0.3):
            await self.read()


async def open_tab(token: str = "") -> Tab:
    token = token or await in_db(make_token)(new_id("t"))
    tab = Tab(connect_as(token=token, path_="/ws/", app=APP))
    accepted, _ = await tab.socket.connect(timeout=5)
    assert accepted
    assert (await tab.read())["t"] == "hello"
    return tab


@pytest_asyncio.fixture
async def tab():
    opened = await open_tab()
    yield opened
    await opened.socket.disconnect()


async def append(session: ChatSession, *new: tuple[str, dict[str, Any]], turn_id: str) -> int:
    """Events as a running turn writes them; the number of the last one."""
    rows = [NewEvent(kind, data, turn_id) for kind, data in new]
    frames = await in_db(events.append)(session.pk, rows)
    return int(frames[-1]["seq"])


def delta(text: str) -> tuple[str, dict[str, Any]]:
    return "text.delta", {"text": text}


async def page_of(session: ChatSession) -> dom.Node:
    """What a page that is loaded now shows."""
    look = Look(session.key, link.agent_name())
    snapshot.cache = snapshot._Cache()
    return dom.parse((await in_db(snapshot.newest)(session, look)).html)


async def test_a_page_sees_a_turn_as_it_happens(tab):
    session, hold = await in_db(begin)()
    await tab.follow(session.key)
    await tab.until_seq(2)

    last = await append(session, delta("Hello **wor"), delta("ld**."), turn_id=hold.turn_id)
    await tab.until_seq(last)

    assert "Hello world." in " ".join(tab.page.text.split())
    assert tab.page.html() == (await page_of(session)).html()


async def test_a_page_that_was_rendered_in_the_middle_goes_on_from_there(tab):
    session, hold = await in_db(begin)()
    await append(session, delta("```py\nx = 1\n"), turn_id=hold.turn_id)
    tab.page = await page_of(session)
    last = await append(session, delta("y = 2\n```\n"), delta("end"), turn_id=hold.turn_id)

    await tab.follow(session.key, after=3)
    await tab.until_seq(last)

    assert tab.page.html() == (await page_of(session)).html()


async def test_cut_links_lose_and_repeat_nothing(tab):
    session, hold = await in_db(begin)()
    tabs = [tab, await open_tab(), await open_tab()]
    for one in tabs:
        await one.follow(session.key)

    last = 0
    for number in range(60):
        text = f"word{number} " + ("**b** `c`\n\n" if number % 7 == 0 else "")
        last = await append(session, delta(text), turn_id=hold.turn_id)
        if number % 9 == 4:  # one of them drops its link and comes back
            cut = tabs[number % 3]
            await cut.socket.disconnect()
            again = await open_tab()
            again.page, again.cursor = cut.page, cut.cursor
            tabs[number % 3] = again
            await again.follow(session.key)
    for one in tabs:
        await one.until_seq(last)

    expected = (await page_of(session)).html()
    assert [one.page.html() == expected for one in tabs] == [True] * 3
    assert re.findall(r"word(\d+)", tabs[0].page.text) == [str(number) for number in range(60)]
    for one in tabs[1:]:
        await one.socket.disconnect()


async def test_asking_again_from_the_cursor_sends_what_is_missing_once(tab):
    session, hold = await in_db(begin)()
    last = await append(session, *[delta(f"w{n} ") for n in range(20)], turn_id=hold.turn_id)
    await tab.follow(session.key, after=0)
    await tab.until_seq(last)
    await tab.quiet()

    tab.page, tab.cursor = dom.parse(""), 0
    await tab.follow(session.key)
    await tab.until_seq(last)
    await tab.quiet()

    assert tab.page.html() == (await page_of(session)).html()


async def test_text_that_was_missed_comes_as_one_frame(tab):
    session, hold = await in_db(begin)()
    last = await append(session, *[delta(f"w{n} ") for n in range(300)], turn_id=hold.turn_id)

    await tab.follow(session.key, after=0)
    frames = [await tab.read()]
    while tab.cursor < last:
        frames.append(await tab.read())

    spans = [(frame.get("f", frame["s"]), frame["s"]) for frame in frames if frame["t"] == "ops"]
    assert spans == [(1, 1), (2, 2), (3, 302)]


async def test_a_cursor_that_is_too_old_gets_the_transcript_anew(tab, monkeypatch):
    monkeypatch.setattr(feeds, "MAX_BEHIND", 10)
    session, hold = await in_db(begin)()
    last = await append(session, *[delta(f"w{n} ") for n in range(20)], turn_id=hold.turn_id)

    await tab.follow(session.key, after=0)
    await tab.until("state")
    further = await append(session, delta("more"), turn_id=hold.turn_id)
    await tab.until_seq(further)

    assert tab.resets == 1
    assert further == last + 1
    assert tab.page.html() == (await page_of(session)).html()


async def test_a_cursor_ahead_of_the_journal_gets_the_transcript_anew(tab):
    session, _ = await in_db(begin)()

    await tab.follow(session.key, after=999)
    await tab.until("state")

    assert (tab.resets, tab.cursor) == (1, 2)


async def test_what_another_process_writes_arrives_too(tab):
    session, hold = await in_db(begin)()
    await tab.follow(session.key)
    await tab.until_seq(2)

    def write_silently() -> None:
        from django.db import transaction

        with transaction.atomic():
            events.insert(session.pk, [NewEvent("text.delta", {"text": "far away"}, hold.turn_id)])

    await in_db(write_silently)()
    await tab.until_seq(3)

    assert "far away" in tab.page.text


async def test_a_page_is_told_what_the_session_does(tab):
    session, hold = await in_db(begin)()
    await tab.follow(session.key)
    await tab.until("state")

    await in_db(pending.add)(session.pk, "queue", "later <b>", client_id="c-12345678")
    await tab.until_state(turn="working", pending="later &lt;b&gt;")
    await in_db(_ask)(session, hold.turn_id)
    asking = await tab.until_state(turn="waiting")

    assert tab.states[0]["turn"] == "working"
    assert len(asking["cards"]) == 1
    assert asking["ask"] == asking["cards"][0]["id"].removeprefix("hitl-")


def _ask(session: ChatSession, turn_id: str) -> None:
    row, _ = pauses.open_for_call(turn_id, "a", 0, {"kind": "question", "question": "Which?"})
    events.append(session.pk, [pauses.required_event(row)])
    pauses.publish_attention(session.pk)


async def test_pages_that_open_at_the_same_moment_share_one_bulletin():
    tabs = await asyncio.gather(*(open_tab() for _ in range(5)))
    session, _ = await in_db(begin)()

    await in_db(sessions.rename)(session, "Another name")
    for one in tabs:
        await one.until("bus")
        await one.quiet()

    names = [task.get_name() for task in asyncio.all_tasks()]
    assert names.count("console-bulletin") == 1
    assert all(one.topics == tabs[0].topics for one in tabs)
    for one in tabs:
        await one.socket.disconnect()
    await asyncio.sleep(0)
    assert "console-bulletin" not in [task.get_name() for task in asyncio.all_tasks()]


async def test_every_page_hears_that_something_waits(tab):
    session, hold = await in_db(begin)()

    await in_db(_ask)(session, hold.turn_id)
    while ("attention.changed", {"count": 1}) not in tab.topics:
        await tab.until("bus")

    assert ("attention.changed", {"count": 1}) in tab.topics
    assert all(set(data) <= {"count"} for _, data in tab.topics)


async def test_the_session_list_is_told_about_changes_but_not_about_every_word(tab):
    session, hold = await in_db(begin)()
    await tab.quiet()
    tab.topics.clear()

    for number in range(10):
        await append(session, delta(f"w{number}"), turn_id=hold.turn_id)
    await tab.quiet()
    while_writing = len(tab.topics)
    await in_db(sessions.rename)(session, "Another name")
    await tab.until("bus")

    assert while_writing <= 1
    assert ("session.changed", {}) in tab.topics[while_writing:]


async def test_a_session_that_does_not_exist_is_gone(tab):
    await tab.follow("nowhere")

    assert await tab.read() == {"t": "gone", "sid": "nowhere"}


async def test_a_deleted_session_tells_its_pages(tab):
    session, _ = await in_db(begin)()
    await tab.follow(session.key)
    await tab.until("state")

    await in_db(sessions.delete)(session)

    assert (await tab.until("gone"))["sid"] == session.key


@pytest.mark.parametrize(
    "frame",
    [
        {"t": "send", "text": "hi"},
        {"t": "sub"},
        {"t": "sub", "sid": 3, "after": 0},
        {"t": "sub", "sid": "../x", "after": 0},
        {"t": "sub", "sid": "s1"},
        {"t": "sub", "sid": "s1", "after": -1},
        {"t": "sub", "sid": "s1", "after": True},
        {"t": "sub", "sid": "s1", "after": "1"},
        {},
    ],
)
async def test_frames_that_no_page_sends_are_refused_and_change_nothing(tab, frame):
    await tab.socket.send_to(text_data=json.dumps(frame))

    answer = await tab.read()

    assert answer["type"] == "error"
    await tab.send(t="ping")
    assert await tab.until("ping")


async def test_a_page_follows_sixteen_sessions_at_most(tab):
    for number in range(16):
        session, _ = await in_db(begin)(f"s{number}")
        await tab.follow(session.key, after=2)
    await in_db(begin)("one-more")
    await tab.quiet()

    await tab.follow("one-more", after=2)
    while not tab.errors:
        await tab.read()

    assert "at most 16" in tab.errors[0]["message"]


async def test_leaving_a_session_ends_its_frames(tab):
    session, hold = await in_db(begin)()
    await tab.follow(session.key)
    await tab.until_seq(2)
    await tab.quiet()

    await tab.send(t="unsub", sid=session.key)
    await tab.send(t="ping")
    await tab.until("ping")
    await append(session, delta("unseen"), turn_id=hold.turn_id)
    await tab.quiet()

    assert tab.cursor == 2
    assert not link.switchboard().feeds.sessions()


async def test_pages_that_see_the_same_share_one_feed(tab):
    session, hold = await in_db(begin)()
    other = await open_tab()
    for one in (tab, other):
        await one.follow(session.key, after=0)
        await one.until("state")

    last = await append(session, delta("both"), turn_id=hold.turn_id)
    await tab.until_seq(last)
    await other.until_seq(last)

    assert len(link.switchboard().feeds.of_session(session.pk)) == 1
    await other.socket.disconnect()
    await tab.socket.disconnect()
    assert not link.switchboard().feeds.sessions()


async def test_a_viewer_watches_without_controls():
    viewer = await open_tab(await in_db(make_token)("v", Scope.VIEWER))
    session, hold = await in_db(begin)()
    await viewer.follow(session.key)
    started = ("tool.started", {"call_id": "a", "name": "calculator", "args": {}, "source": "x"})

    last = await append(session, started, turn_id=hold.turn_id)
    await viewer.until_seq(last)

    assert viewer.page.by_class("tool--running")
    assert not viewer.page.by_class("tool__cancel")
    await viewer.socket.disconnect()


async def test_times_are_in_the_zone_that_the_browser_named():
    def signed_in() -> str:
        client = browser_of(make_account("ada"))
        session = client.session
        session["timezone"] = "Asia/Tokyo"
        session.save()
        return client.cookies["protoagent_session"].value

    cookie = await in_db(signed_in)()
    tab = Tab(connect_as(session=cookie, origin=ORIGIN, path_="/ws/", app=APP))
    await tab.socket.connect(timeout=5)
    await tab.read()
    session, _ = await in_db(begin)()

    await tab.follow(session.key)
    await tab.until_seq(2)

    assert "JST" in tab.page.html()
    await tab.socket.disconnect()


async def test_a_client_that_does_not_read_is_cut_off_and_catches_up(tab, monkeypatch):
    session, hold = await in_db(begin)()
    await tab.follow(session.key)
    await tab.until("state")
    board = link.switchboard()
    (feed,) = board.feeds.of_session(session.pk)
    (listener,) = feed.listeners

    for number in range(3, 400):
        listener.take(feeds.Drawn(number, number, "{}"))

    assert listener.is_overrun
    await append(session, delta("x"), turn_id=hold.turn_id)
    for _ in range(400):
        message = await tab.socket.receive_output(timeout=3)
        if message["type"] == "websocket.close":
            break
    assert message["code"] == 4408


async def test_a_session_of_another_agent_is_not_there(tab):
    def elsewhere() -> ChatSession:
        return sessions.ensure(agents.ensure("other"), "theirs")

    await in_db(elsewhere)()

    await tab.follow("theirs")

    assert (await tab.read())["t"] == "gone"


async def test_the_link_says_that_it_is_alive(monkeypatch):
    monkeypatch.setattr(link, "PING_EVERY_S", 0.05)
    tab = await open_tab()

    frame = await tab.read()

    assert frame["t"] == "ping"
    assert frame["now"] > 1_700_000_000_000
    await tab.socket.disconnect()
    await asyncio.sleep(0)
