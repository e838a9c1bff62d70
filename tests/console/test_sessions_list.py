"""The session list: what it shows, how it is grouped, found and refreshed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from protoagent.console import sessions as lists
from protoagent.core.context import Scope
from protoagent.journal.models import ChatSession, Turn
from protoagent.journal.services import agents, events, sessions, turns
from protoagent.journal.services.events import NewEvent
from tests.console.asking import Tab, ask_approval, ask_form, ask_question, open_tab

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 18, 14, 0, tzinfo=UTC)


def make(key: str, title: str = "", at: datetime = NOW, **fields: Any) -> ChatSession:
    session = sessions.ensure(agents.current(), key)
    values = {"title": title or key, "last_event_at": at, **fields}
    ChatSession.objects.filter(pk=session.pk).update(**values)
    session.refresh_from_db()
    return session


def shown(query: lists.Query | None = None, **options: Any) -> lists.SessionList:
    return lists.session_list(agents.current(), query or lists.Query(), **options)


def groups(query: lists.Query | None = None, **options: Any) -> list[tuple[str, list[str]]]:
    found = shown(query, **options).groups
    return [(group.label, [row.key for row in group.rows]) for group in found]


def row_of(key: str, query: lists.Query | None = None) -> lists.Row:
    return next(row for g in shown(query).groups for row in g.rows if row.key == key)


@pytest.fixture
def tab() -> Tab:
    return open_tab()


@time_machine.travel(NOW, tick=False)
def test_sessions_stand_under_their_day_newest_first() -> None:
    make("now")
    make("morning", at=NOW - timedelta(hours=9))
    make("yesterday", at=NOW - timedelta(hours=20))
    make("week", at=NOW - timedelta(days=9))
    make("edge", at=NOW - timedelta(days=29))
    make("month", at=NOW - timedelta(days=30))
    make("old", at=datetime(2025, 11, 5, tzinfo=UTC))

    assert groups() == [
        ("Today", ["now", "morning"]),
        ("Yesterday", ["yesterday"]),
        ("Last 30 days", ["week", "edge"]),
        ("February 2026", ["month"]),
        ("November 2025", ["old"]),
    ]


@time_machine.travel(datetime(2026, 3, 18, 2, 0, tzinfo=UTC), tick=False)
def test_a_day_is_the_readers_day() -> None:
    make("late", at=datetime(2026, 3, 17, 23, 30, tzinfo=UTC))

    assert groups(user_timezone="UTC") == [("Yesterday", ["late"])]
    assert groups(user_timezone="Europe/Paris") == [("Today", ["late"])]
    assert groups(user_timezone="No/Such") == [("Yesterday", ["late"])]


@time_machine.travel(NOW, tick=False)
@pytest.mark.parametrize(
    ("age", "text"),
    [
        (timedelta(seconds=-5), "now"),
        (timedelta(seconds=59), "now"),
        (timedelta(minutes=2), "2 min"),
        (timedelta(minutes=59, seconds=59), "59 min"),
        (timedelta(hours=3), "11:00"),
        (timedelta(hours=20), "18:00"),
        (timedelta(days=9), "9 Mar"),
        (timedelta(days=200), "30 Aug 2025"),
    ],
)
def test_times_say_enough_and_no_more(age: timedelta, text: str) -> None:
    make("s1", at=NOW - age)

    assert row_of("s1").time == text


@time_machine.travel(NOW, tick=False)
def test_what_waits_stands_above_what_is_pinned_above_the_days() -> None:
    make("plain")
    make("pin-old", pinned_at=NOW - timedelta(days=2), at=NOW - timedelta(days=50))
    make("pin-new", pinned_at=NOW - timedelta(days=1), at=NOW - timedelta(days=60))
    with time_machine.travel(NOW - timedelta(minutes=5), tick=False):
        ask_question(key="second")
    with time_machine.travel(NOW - timedelta(hours=2), tick=False):
        ask_question(key="first")
    ChatSession.objects.filter(key="first").update(pinned_at=NOW)

    assert groups() == [
        ("Waiting on you", ["first", "second"]),
        ("Pinned", ["pin-new", "pin-old"]),
        ("Today", ["plain"]),
    ]
    assert row_of("first").time == "12:00"


def test_dots_and_second_lines_say_what_happens() -> None:
    make("read", last_seq=5, seen_seq=5)
    make("unread", last_seq=5, seen_seq=3)
    running = make("running")
    turns.accept(running, turns.Message("go"), holder="h:1:b")
    ask_question("Which **colour**,\n`red` or *blue*?", key="question")

    assert [
        (row_of(k).dot, row_of(k).state) for k in ("read", "unread", "running", "question")
    ] == [
        ("", ""),
        ("new", "New"),
        ("run", "Working"),
        ("wait", "Waiting on you"),
    ]
    assert row_of("running").second_line == "Working, now"
    assert row_of("question").second_line == "Which colour, red or *blue*?"
    assert row_of("unread", lists.Query(current="unread")).dot == ""


def test_the_second_line_of_a_form_says_where_it_stands() -> None:
    row = ask_form()
    type(row).objects.filter(pk=row.pk).update(step=1)

    assert row_of("s1").second_line == "Storage, step 2 of 3"


def test_the_second_line_of_an_approval_names_it() -> None:
    ask_approval(title="Run this command on nas-02?")

    assert row_of("s1").second_line == "Needs your approval: Run this command on nas-02?"


def test_filters_tell_mine_from_what_the_agent_started() -> None:
    make("mine")
    make("from-api", origin="api")
    make("scheduled", origin="scheduler")
    make("archived", archived_at=NOW)
    make("deleted", deleted_at=NOW)
    sessions.ensure(agents.ensure("other"), "foreign")

    def keys(show: str) -> set[str]:
        return {key for _, rows in groups(lists.Query(show=show)) for key in rows}

    assert keys("mine") == {"mine", "from-api"}
    assert keys("agent") == {"scheduled"}
    assert keys("archived") == {"archived"}


def test_what_waits_is_shown_whoever_started_it() -> None:
    ask_question(key="scheduled")
    ChatSession.objects.update(origin="scheduler")

    for show in ("mine", "agent"):
        assert groups(lists.Query(show=show)) == [("Waiting on you", ["scheduled"])]


def test_fifty_rows_come_at_first_and_then_fifty_more() -> None:
    for number in range(120):
        make(f"s{number:03}", at=NOW - timedelta(minutes=number))

    first = shown()
    second = shown(lists.Query.of({"rows": "100"}))
    third = shown(lists.Query.of({"rows": "150"}))

    counts = [sum(len(g.rows) for g in found.groups) for found in (first, second, third)]
    assert counts == [50, 100, 120]
    assert first.more_url == "/sessions/?rows=100"
    assert second.more_url == "/sessions/?rows=150"
    assert third.more_url == ""


def test_the_number_of_queries_does_not_grow_with_the_list(tab: Tab) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as context:
            assert tab.get("/sessions/").status == 200
        return len(context)

    for number in range(3):
        make(f"s{number}")
    ask_question(key="w0")
    few = queries()
    for number in range(3, 30):
        make(f"s{number}", pinned_at=NOW if number % 3 else None)
        ask_question(key=f"w{number}")

    assert queries() == few


@pytest.mark.parametrize(
    "parameters",
    [
        {"rows": "-1"},
        {"rows": "x"},
        {"rows": "9" * 30},
        {"rows": "²"},
        {"show": "nobody"},
        {"select": "yes"},
        {"q": "\x00"},
    ],
)
def test_parameters_that_make_no_sense_are_the_default(
    tab: Tab, parameters: dict[str, str]
) -> None:
    make("s1")

    page = tab.get("/sessions/", **parameters)

    assert page.status == 200
    assert page.has("#session-s1")


@pytest.mark.parametrize(
    ("show", "text"),
    [
        ("mine", "No sessions yet. Write a message to start one."),
        ("agent", "Nothing was started without you yet."),
        ("archived", "Nothing is archived."),
    ],
)
def test_an_empty_list_says_what_belongs_there(tab: Tab, show: str, text: str) -> None:
    page = tab.get("/sessions/", show=show)

    assert page.words(".sessions__empty") == text


def say(session: ChatSession, text: str, answer: str = "") -> Turn:
    claim = turns.accept(session, turns.Message(text), holder="h:1:b").claim
    assert claim is not None
    turns.finish(claim.hold, "completed", answer=answer)
    events.append(session.pk, [NewEvent("turn.finished", {"text": answer}, claim.hold.turn_id)])
    return Turn.objects.get(pk=claim.hold.turn_id)


def test_a_search_shows_titles_and_messages_with_the_words_marked(tab: Tab) -> None:
    session = make("s1", "Pump notes")
    turn = say(make("s2", "Other"), "which pump is loud?", "The Laing pump, say <b>I</b>.")

    page = tab.get("/sessions/", q="PUMP")

    assert [
        e.text_content().strip() for e in page.all(".session:not(.session--hit) .session__title")
    ] == ["Pump notes"]
    hits = page.all(".session--hit")
    asked = turn.events.get(type="message.received").seq
    began = turn.events.get(type="turn.started").seq
    assert [hit.get("href") for hit in hits] == [
        f"/chat/s2/?at={began}#m-{began}",
        f"/chat/s2/?at={asked}#m-{asked}",
    ]
    assert [mark.text_content() for mark in page.all("mark")] == ["pump", "pump"]
    assert "<b>I" not in page.text
    assert page.words("#session-count") == "1 session, 2 messages found"
    assert session.pk


def test_a_search_without_a_result_says_so_and_offers_the_list(tab: Tab) -> None:
    page = tab.get("/sessions/", q="<nothing>")

    assert page.words(".sessions__empty").startswith("Nothing contains “<nothing>”.")
    assert page.one("[data-sessions-clear]").get("href") == "/sessions/"


def test_a_link_to_a_found_message_opens_a_page(tab: Tab) -> None:
    say(make("s1"), "pump")
    tab.htmx = False

    page = tab.get(tab.get("/sessions/", q="pump").one(".session--hit").get("href").split("#")[0])

    assert page.status == 200


def test_titles_are_text_whatever_they_hold(tab: Tab) -> None:
    make("s1", "<script>alert(1)</script>\u202eevil")

    page = tab.get("/sessions/")

    assert "<script>alert" not in page.text
    assert page.has(".session__title[dir=auto]")


def test_a_key_with_every_allowed_character_has_working_addresses(tab: Tab) -> None:
    key = "a.B_c:d-9"
    make(key)

    page = tab.get("/sessions/")
    row = page.one("[data-session]")

    assert row.get("data-session") == key
    assert tab.get(row.all("[data-session-menu]")[0].get("href")).status == 200


def test_the_open_session_is_marked_and_the_list_refreshes_as_it_is(tab: Tab) -> None:
    make("s1")
    make("s2")

    page = tab.get("/sessions/", current="s2", show="mine", rows="100")

    assert page.one("[aria-current=page]").get("href") == "/chat/s2/"
    assert page.one("#session-list").get("hx-get") == "/sessions/?rows=100&current=s2"
    assert "session.changed from:body" in page.one("#session-list").get("hx-trigger")


def test_a_viewer_sees_the_list_and_none_of_its_controls() -> None:
    make("s1")
    page = open_tab("vera", scope=Scope.VIEWER).get("/sessions/")

    assert page.has("#session-s1")
    assert not page.has("[data-session-menu]")


def test_a_swap_gets_the_list_and_a_page_load_the_page(tab: Tab) -> None:
    make("s1")

    fragment = tab.get("/sessions/")
    tab.htmx = False
    page = tab.get("/sessions/")

    assert not fragment.has("title")
    assert page.has("title")
    assert page.has("#session-list")
    assert "HX-Request" in fragment.headers["Vary"]
    assert "HX-Request" in page.headers["Vary"]


def test_select_mode_offers_a_box_for_each_session(tab: Tab) -> None:
    make("s1")

    page = tab.get("/sessions/", select="1")

    assert page.one("input[type=checkbox]").get("value") == "s1"
    assert [b.text_content() for b in page.all("button[name=action]")] == ["Archive", "Delete"]
