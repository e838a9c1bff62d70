"""Sessions over HTTP: the list, one, its events, a download, deletion."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from protoagent.journal.models import ChatSession, Turn
from protoagent.journal.services import agents, events, sessions, turns
from protoagent.journal.services.events import NewEvent
from tests.api.conftest import Api
from tests.console.asking import ask_approval, ask_question

NOW = datetime(2026, 3, 18, 14, 0, tzinfo=UTC)
PATH = "/api/chat/sessions"


def make(key: str, **fields: Any) -> ChatSession:
    session = sessions.ensure(agents.current(), key)
    ChatSession.objects.filter(pk=session.pk).update(**{"title": key, **fields})
    session.refresh_from_db()
    return session


def say(session: ChatSession, text: str, answer: str = "") -> Turn:
    claim = turns.accept(session, turns.Message(text), holder="h:1:b").claim
    assert claim is not None
    turns.finish(claim.hold, "completed", answer=answer)
    data = {"status": "completed", "text": answer}
    events.append(session.pk, [NewEvent("turn.finished", data, claim.hold.turn_id)])
    return Turn.objects.get(pk=claim.hold.turn_id)


def keys(response: Any) -> list[str]:
    return [row["key"] for row in response.json()["sessions"]]


def test_a_session_is_told_with_its_state(operator: Api) -> None:
    make("idle", pinned_at=NOW, incognito=True)
    running = make("running")
    turns.accept(running, turns.Message("go"), holder="h:1:b")
    queued = make("queued")
    turns.accept(queued, turns.Message("go"))
    ask_question(key="waiting")
    ask_approval(key="waiting")

    rows = {row["key"]: row for row in operator.get(PATH).json()["sessions"]}

    states = {key: (row["status"], row["open_questions"]) for key, row in rows.items()}
    assert states == {
        "idle": ("idle", 0),
        "running": ("running", 0),
        "queued": ("queued", 0),
        "waiting": ("waiting", 2),
    }
    assert rows["idle"]["session_id"] == "idle"
    assert (rows["idle"]["pinned"], rows["idle"]["incognito"]) == (True, True)
    assert rows["running"]["last_seq"] == 2


def test_pages_follow_each_other_without_gap_or_repeat(operator: Api) -> None:
    for number in range(25):
        # Several with the same moment: the place in the list must be unambiguous.
        make(f"s{number:02}", last_event_at=NOW - timedelta(minutes=number // 4))

    seen: list[str] = []
    query: dict[str, Any] = {"limit": 10}
    while True:
        response = operator.get(PATH, **query)
        seen += keys(response)
        cursor = response.json()["next"]
        if cursor is None:
            break
        query = {"limit": 10, "cursor": cursor}

    assert len(seen) == 25
    assert len(set(seen)) == 25
    assert seen == list(
        ChatSession.objects.order_by("-last_event_at", "-pk").values_list("key", flat=True)
    )


@pytest.mark.parametrize(
    "query",
    [
        {"cursor": "x"},
        {"cursor": "eyJ4Ijox"},
        {"cursor": "MjAyNi0wMy0xOFQxNDowMDowMH4x"},
        {"cursor": "é"},
        {"limit": 0},
        {"limit": 201},
        {"limit": "many"},
        {"archived": "perhaps"},
    ],
)
def test_a_query_without_sense_is_a_bad_value(operator: Api, query: dict[str, Any]) -> None:
    response = operator.get(PATH, **query)

    assert response.status_code == 400
    assert response.json()["detail"]


def test_archived_deleted_and_foreign_sessions_stay_out(operator: Api) -> None:
    make("here")
    make("archived", archived_at=NOW)
    make("deleted", deleted_at=NOW)
    sessions.ensure(agents.ensure("other"), "foreign")

    assert keys(operator.get(PATH)) == ["here"]
    assert keys(operator.get(PATH, archived="true")) == ["archived"]
    for key in ("deleted", "foreign", "nobody"):
        assert operator.get(f"{PATH}/{key}").status_code == 404


def test_a_search_finds_titles_and_messages(operator: Api) -> None:
    make("a", title="Pump notes")
    say(make("b"), "which pump?")
    make("c")

    assert set(keys(operator.get(PATH, q="PUMP"))) == {"a", "b"}


def test_the_number_of_queries_does_not_grow_with_the_list(operator: Api) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as context:
            operator.get(PATH, limit=200)
        return len(context)

    for number in range(3):
        ask_question(key=f"s{number}")
    queries()  # the first one also notes that the token was used
    few = queries()
    for number in range(3, 30):
        ask_question(key=f"s{number}")

    assert queries() == few


def test_one_session_comes_with_what_waits_in_it(operator: Api) -> None:
    row = ask_question("Which colour?")
    turns.steer(row.turn.session, "and hurry", client_id="m1")

    found = operator.get(f"{PATH}/s1").json()

    assert (found["status"], found["turns"]) == ("waiting", 1)
    assert [(p["interrupt_id"], p["question"]) for p in found["pending"]] == [
        (row.pk, "Which colour?")
    ]
    assert [(q["id"], q["text"], q["mode"]) for q in found["queued"]] == [
        ("m1", "and hurry", "held")
    ]


def test_events_are_the_frames_of_the_socket_in_stretches(operator: Api) -> None:
    session = make("s1")
    turn = say(session, "hello", "hi")

    first = operator.get(f"{PATH}/s1/events", limit=2).json()
    rest = operator.get(f"{PATH}/s1/events", after=first["next"]).json()

    assert [e["type"] for e in first["events"]] == ["message.received", "turn.started"]
    assert first["next"] == "2"
    assert rest["events"] == [
        {
            "seq": 3,
            "turn": turn.pk,
            "at": rest["events"][0]["at"],
            "type": "turn.finished",
            "data": {"status": "completed", "text": "hi"},
        }
    ]
    assert rest["events"][0]["at"].endswith("Z")
    assert (rest["next"], rest["last_seq"]) == (None, 3)
    assert operator.get(f"{PATH}/s1/events", after=3).json()["events"] == []


@pytest.mark.parametrize("query", [{"after": -1}, {"after": "x"}, {"after": 2**31}, {"limit": 0}])
def test_a_place_that_cannot_be_is_a_bad_value(operator: Api, query: dict[str, Any]) -> None:
    make("s1")

    assert operator.get(f"{PATH}/s1/events", **query).status_code == 400


def test_an_export_is_a_download(operator: Api) -> None:
    say(make("s1", title="Disk check"), "hello", "hi")

    plain = operator.get(f"{PATH}/s1/export")
    structured = operator.get(f"{PATH}/s1/export", format="json")

    assert plain["Content-Type"] == "text/markdown; charset=utf-8"
    assert plain["Content-Disposition"] == 'attachment; filename="disk-check-s1.md"'
    assert b"# Disk check" in plain.content
    assert json.loads(structured.content)["session"]["key"] == "s1"
    assert operator.get(f"{PATH}/s1/export", format="html").status_code == 400


def test_an_incognito_session_is_not_exported(operator: Api) -> None:
    make("s1", incognito=True)

    response = operator.get(f"{PATH}/s1/export")

    assert response.status_code == 409
    assert "incognito" in response.json()["detail"]


def test_deleting_stops_what_runs_and_takes_the_session_out_of_every_list(operator: Api) -> None:
    session = make("s1")
    accepted = turns.accept(session, turns.Message("go"), holder="h:1:b")

    response = operator.delete(f"{PATH}/s1", harvest="true")

    assert response.json() == {"deleted": True, "harvested": False}
    assert Turn.objects.get(pk=accepted.turn_id).stop_requested_at is not None
    assert operator.get(f"{PATH}/s1").status_code == 404
    assert operator.delete(f"{PATH}/s1").status_code == 404


def test_a_viewer_reads_everything_and_changes_nothing(viewer: Api) -> None:
    row = ask_question()

    for path in (PATH, f"{PATH}/s1", f"{PATH}/s1/events", f"{PATH}/s1/export", f"{PATH}/s1/steer"):
        assert viewer.get(path).status_code == 200
    answer = {"interrupt_id": row.pk, "value": "x"}
    for path, body in (
        ("/api/chat", {"message": "hi"}),
        (f"{PATH}/s1/answer", answer),
        (f"{PATH}/s1/dismiss", {"interrupt_id": row.pk}),
        (f"{PATH}/s1/steer", {"text": "x"}),
        (f"{PATH}/s1/stop", None),
    ):
        assert viewer.post(path, body).status_code == 403
    assert viewer.delete(f"{PATH}/s1").status_code == 403
    row.refresh_from_db()
    assert row.state == "open"


@pytest.mark.parametrize("key", ["%00", "a%20b", "x" * 129, "..", "%2e%2e%2fetc", "é"])
def test_a_key_that_cannot_be_one_is_not_found(operator: Api, key: str) -> None:
    assert operator.get(f"{PATH}/{key}").status_code == 404


def test_a_new_session_needs_a_key_that_can_be_one(writer: Api) -> None:
    for key in ("a b", "../x", "x" * 129, "é", "a/b"):
        response = writer.post("/api/chat", {"message": "hi", "session_id": key})

        assert response.status_code == 400
    assert ChatSession.objects.count() == 0
