"""Searching sessions by title and by what was said."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from protoagent.core import clock
from protoagent.journal.models import ChatSession, Turn
from protoagent.journal.services import agents, events, pending, search, sessions, turns
from protoagent.journal.services.events import NewEvent

pytestmark = pytest.mark.django_db


def make_session(key: str, **fields: Any) -> ChatSession:
    session = sessions.ensure(agents.ensure("main"), key)
    ChatSession.objects.filter(pk=session.pk).update(**fields)
    session.refresh_from_db()
    return session


def say(session: ChatSession, text: str, answer: str = "", *, client_id: str = "") -> Turn:
    """A message and its finished turn."""
    accepted = turns.accept(session, turns.Message(text, client_id=client_id), holder="h:1:b")
    assert accepted.claim is not None
    turns.finish(accepted.claim.hold, "completed", answer=answer)
    events.append(
        session.pk,
        [NewEvent("turn.finished", {"status": "completed", "text": answer}, accepted.turn_id)],
    )
    return Turn.objects.get(pk=accepted.turn_id)


def find(text: str, **options: Any) -> search.Found:
    return search.find(agents.ensure("main"), text, **options)


def shown(hit: search.Hit) -> str:
    return "".join(f"[{p.text}]" if p.is_hit else p.text for p in hit.snippet)


def test_a_message_and_an_answer_are_found_with_the_event_to_open() -> None:
    session = make_session("s1")
    say(session, "hello there", "nothing")
    turn = say(session, "which pump is loud?", "The Laing pump is.")

    found = find("pump")

    seqs = {e.seq: e.type for e in turn.events.all()}
    assert [(hit.role, seqs[hit.seq]) for hit in found.hits] == [
        ("agent", "turn.started"),
        ("user", "message.received"),
    ]
    assert shown(found.hits[0]) == "The Laing [pump] is."


def test_every_word_must_be_in_the_same_message() -> None:
    session = make_session("s1")
    say(session, "red pump", "blue valve")

    assert [hit.role for hit in find("PUMP red").hits] == ["user"]
    assert find("red valve").hits == ()


@pytest.mark.parametrize(
    ("said", "query"),
    [
        ("请把日志保存到磁盘", "日志"),
        ("ディスクの使用量を調べて", "使用量"),
        ("Die Größe der ÜBERSICHT", "übersicht"),
        ("резервная КОПИЯ диска", "копия"),
        ("cafe\u0301 au lait", "café"),
        ("the 🦊 fox", "🦊"),
        ("مرحبا بالعالم", "بالعالم"),
    ],
)
def test_words_of_any_script_are_found(said: str, query: str) -> None:
    say(make_session("s1"), said)

    hits = find(query).hits

    assert len(hits) == 1
    assert any(piece.is_hit for piece in hits[0].snippet)


@pytest.mark.parametrize(
    "query", ["100%", "a_b", "x' OR 1=1 --", '"quoted"', "NEAR(a", "c:\\dir", "(["]
)
def test_what_is_typed_is_text_and_never_query_syntax(query: str) -> None:
    session = make_session("s1")
    say(session, f"literally {query} here")
    say(session, "100 axb nothing of it")

    hits = find(query).hits

    assert len(hits) == 1
    assert "literally" in shown(hits[0])


@pytest.mark.parametrize("query", ["", "   ", "\x00", "\u200b\u202e", "\n\t"])
def test_an_empty_question_finds_nothing(query: str) -> None:
    say(make_session("s1", title="anything"), "anything")

    assert find(query) == search.Found((), (), (), is_cut=False)


def test_hidden_characters_in_the_question_are_ignored() -> None:
    say(make_session("s1"), "pump")

    assert len(find("\u202epump\x00").hits) == 1


def test_titles_are_found_and_deleted_and_foreign_sessions_are_not() -> None:
    make_session("kept", title="Pump notes", archived_at=clock.now())
    make_session("gone", title="Pump plans", deleted_at=clock.now())
    other = sessions.ensure(agents.ensure("other"), "foreign")
    ChatSession.objects.filter(pk=other.pk).update(title="Pump parts")
    say(other, "pump pump pump")

    found = find("pump")

    assert [session.key for session in found.titles] == ["kept"]
    assert found.hits == ()


def test_a_steered_message_is_found_once_the_agent_has_read_it() -> None:
    session = make_session("s1")
    accepted = turns.accept(session, turns.Message("start"), holder="h:1:b")
    turns.steer(session, "only the pump please", client_id="m1")

    before = find("pump").hits
    pending.deliver(session.pk, accepted.turn_id)
    after = find("pump").hits

    assert before == ()
    assert [(hit.role, hit.turn_id) for hit in after] == [("user", accepted.turn_id)]


def test_one_session_does_not_crowd_out_the_others() -> None:
    chatty = make_session("chatty")
    for number in range(6):
        say(chatty, f"pump {number}")
    say(make_session("calm"), "pump once")

    hits = find("pump").hits

    assert len([hit for hit in hits if hit.session_id == chatty.pk]) == 3
    assert len(hits) == 4


def test_the_number_of_hits_is_bounded_and_says_so() -> None:
    for number in range(4):
        say(make_session(f"s{number}"), "pump")

    found = find("pump", limit=3)

    assert (len(found.hits), found.is_cut) == (3, True)


def test_the_number_of_queries_does_not_depend_on_the_number_of_hits() -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as context:
            find("pump")
        return len(context)

    say(make_session("s0"), "pump", "pump")
    few = queries()
    for number in range(1, 12):
        say(make_session(f"s{number}"), "pump", "pump")

    assert queries() == few


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("short pump", "short [pump]"),
        ("a " * 100 + "pump" + " b" * 100, "…"),
        ("no match at all", "no match at all"),
        ("the **pump** of `df -h`", "the [pump] of df -h"),
        ("pumpPUMP\n\npump", "[pump][PUMP] [pump]"),
    ],
)
def test_a_snippet_shows_the_first_match_on_one_line(text: str, expected: str) -> None:
    pieces = search.snippet(text, ["pump"])

    line = "".join(f"[{piece.text}]" if piece.is_hit else piece.text for piece in pieces)
    assert line.startswith(expected)
    assert sum(len(piece.text) for piece in pieces) <= search.SNIPPET_CHARS + 2


def test_marks_are_shown_when_they_are_what_was_asked_for() -> None:
    pieces = search.snippet("a **pump** here", ["**pump"])

    assert [piece.text for piece in pieces] == ["a ", "**pump", "** here"]
