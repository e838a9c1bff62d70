"""Exporting a session: what the document tells, and what it must not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from protoagent.core.errors import BadValue, Conflict
from protoagent.journal.models import ChatSession, Turn
from protoagent.journal.services import agents, events, export, sessions, transcript, turns
from protoagent.journal.services.events import NewEvent

pytestmark = pytest.mark.django_db

KEY = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3


def make_session(title: str = "Disk check", **fields: Any) -> ChatSession:
    session = sessions.ensure(agents.ensure("main"), "s1")
    ChatSession.objects.filter(pk=session.pk).update(title=title, **fields)
    session.refresh_from_db()
    return session


def begin(session: ChatSession, text: str = "check the disks") -> turns.Hold:
    claim = turns.accept(session, turns.Message(text), holder="h:1:b").claim
    assert claim is not None
    return claim.hold


def tell(session: ChatSession, hold: turns.Hold, *told: tuple[str, dict[str, Any]]) -> None:
    events.append(session.pk, [NewEvent(kind, data, hold.turn_id) for kind, data in told])
    session.refresh_from_db()


def call(number: str, **more: Any) -> tuple[tuple[str, dict[str, Any]], tuple[str, dict[str, Any]]]:
    started = {"call_id": number, "name": "run_command", "args": {"command": "df -h"}}
    finished = {"call_id": number, "name": "run_command", "status": "ok", "output": "short"}
    return ("tool.started", started), ("tool.finished", {**finished, "duration_ms": 1400, **more})


def markdown(session: ChatSession, **options: Any) -> str:
    return export.export(session, fmt="md", **options).body


def test_markdown_tells_who_said_what_in_order() -> None:
    session = make_session()
    hold = begin(session)
    started, finished = call("c1")
    tell(
        session,
        hold,
        ("text.delta", {"text": "Looking "}),
        ("text.delta", {"text": "now."}),
        started,
        finished,
        ("text.delta", {"text": "All fine."}),
        ("turn.finished", {"status": "completed", "text": "Looking now.\n\nAll fine."}),
    )

    text = markdown(session)

    lines = [line for line in text.splitlines() if line]
    assert lines[0] == "# Disk check"
    assert lines[2].startswith("## You · ")
    assert lines[3] == "check the disks"
    assert lines[4].startswith("## protoagent · ")
    assert lines[5:] == ["Looking now.", "- Tool `run_command`: ok, 1.4 s", "All fine."]


def test_what_tools_were_given_and_returned_is_optional_and_then_complete() -> None:
    session = make_session()
    hold = begin(session)
    tell(session, hold, *call("c1"))
    whole = "line\n```\nfence\n" + "x" * 2000
    Turn.objects.filter(pk=hold.turn_id).update(
        messages=[{"role": "tool", "tool_call_id": "c1", "content": whole}]
    )

    without, with_bodies = markdown(session), markdown(session, tool_bodies=True)

    assert "df -h" not in without
    assert "short" not in without
    assert "df -h" in with_bodies
    assert f"````\n{whole}\n````" in with_bodies


def test_text_that_a_crash_made_void_is_left_out() -> None:
    session = make_session()
    hold = begin(session)
    tell(session, hold, ("text.delta", {"text": "kept. "}))
    limit = session.last_seq
    tell(
        session,
        hold,
        ("text.delta", {"text": "void"}),
        ("turn.started", {"resumed": True, "rewind_to": limit}),
        ("text.delta", {"text": "again"}),
    )

    answers = [entry.text for entry in transcript.entries(session) if entry.kind == "answer"]

    assert answers == ["kept. again"]


def test_a_call_that_started_twice_is_one_call() -> None:
    session = make_session()
    hold = begin(session)
    started, finished = call("c1")
    again = ("tool.started", {**started[1], "attempt": 2})
    tell(session, hold, started, again, finished)

    calls = [entry for entry in transcript.entries(session) if entry.kind == "call"]

    assert [(entry.data["attempt"], entry.data["status"]) for entry in calls] == [(2, "ok")]


def test_messages_on_their_way_say_what_became_of_them() -> None:
    session = make_session()
    hold = begin(session)
    received = {"mode": "steer", "origin": "operator"}
    tell(
        session,
        hold,
        ("message.received", {"text": "shorter", "client_id": "m1", **received}),
        ("message.received", {"text": "no", "client_id": "m2", **received}),
        ("note", {"text": "Read.", "kind": "delivered", "client_ids": ["m1"]}),
        ("note", {"text": "Gone.", "kind": "withdrawn", "client_ids": ["m2"]}),
        ("note", {"text": "The model was busy; asking again.", "kind": "retry"}),
    )

    text = markdown(session)

    assert " · steered\n\nshorter" in text
    assert " · withdrawn\n\nno" in text
    assert "Read." not in text
    assert "*The model was busy; asking again.*" in text


def test_a_message_that_was_edited_on_its_way_stands_as_it_was_read() -> None:
    session = make_session()
    hold = begin(session)
    received = {"mode": "steer", "origin": "operator"}
    note = {"text": "Read.", "kind": "delivered", "client_ids": ["m1"], "texts": ["longer please"]}
    tell(
        session,
        hold,
        ("message.received", {**received, "text": "shorter please", "client_id": "m1"}),
        ("note", note),
    )

    text = markdown(session)

    assert " · steered\n\nlonger please" in text
    assert "shorter" not in text


@pytest.mark.parametrize(
    ("outcome", "value", "expected"),
    [
        ("answered", "blue", "> **Answer:** blue\n\n> Answered."),
        ("answered", {"engine": "pg"}, '"engine": "pg"'),
        ("dismissed", None, "> Dismissed."),
        ("auto", None, "> No operator, the agent went on."),
        ("stopped", None, "> Stopped before an answer."),
        ("", None, "> Not answered yet."),
    ],
)
def test_questions_are_told_with_their_outcome(outcome: str, value: Any, expected: str) -> None:
    session = make_session()
    hold = begin(session)
    tell(session, hold, ("input.required", {"interrupt_id": "q1", "question": "Which\ncolour?"}))
    if outcome:
        resolved = {"interrupt_id": "q1", "outcome": outcome, "value": value}
        tell(session, hold, ("input.resolved", resolved))

    text = markdown(session)

    assert "> **Asked:** Which colour?" in text
    assert expected in text


def test_passwords_typed_into_a_form_are_hidden() -> None:
    session = make_session()
    hold = begin(session)
    schema = {"properties": {"pin": {"type": "string", "format": "password"}, "user": {}}}
    asked = {"interrupt_id": "q1", "kind": "form", "title": "Login", "steps": [{"schema": schema}]}
    value = {"pin": "4711-secret", "user": "ada"}
    resolved = {"interrupt_id": "q1", "outcome": "answered", "value": value}
    tell(session, hold, ("input.required", asked), ("input.resolved", resolved))

    for fmt in ("md", "json"):
        body = export.export(session, fmt=fmt).body

        assert "4711-secret" not in body
        assert "ada" in body


def test_secrets_are_masked_everywhere_and_counted() -> None:
    session = make_session(title=f"Key {KEY}")
    hold = begin(session, f"use {KEY}")
    started = {"call_id": "c1", "name": "x", "args": {"command": f"echo {KEY}"}}
    finished = {"call_id": "c1", "name": "x", "status": "ok", "output": KEY}
    told = [
        ("text.delta", {"text": f"got {KEY}"}),
        ("tool.started", started),
        ("tool.finished", finished),
        ("component", {"component": "table", "props": {"rows": [[KEY]]}}),
        ("turn.finished", {"status": "failed", "error": f"bad key {KEY}"}),
    ]
    tell(session, hold, *told)

    for fmt in ("md", "json"):
        document = export.export(session, fmt=fmt, tool_bodies=True)

        assert KEY not in document.body
        assert KEY.lower() not in document.name
    assert json.loads(document.body)["masked"] >= 6
    assert "Masked in" in markdown(session)


def test_json_has_every_entry_with_its_place() -> None:
    session = make_session()
    hold = begin(session)
    tell(session, hold, ("text.delta", {"text": "hi"}), ("turn.finished", {"status": "stopped"}))

    document = json.loads(export.export(session, fmt="json").body)

    assert document["schema"] == "protoagent.session/1"
    assert document["session"]["key"] == "s1"
    kinds = [(entry["kind"], entry["seq"], entry["turn"]) for entry in document["entries"]]
    assert kinds == [
        ("message", 1, hold.turn_id),
        ("answer", 3, hold.turn_id),
        ("end", 4, hold.turn_id),
    ]


def test_an_unfinished_and_an_empty_session_are_no_error() -> None:
    empty = sessions.ensure(agents.ensure("main"), "nothing-yet")

    document = export.export(empty, fmt="md")

    assert document.body.startswith("# Session\n")
    assert document.name == "session-nothing-yet.md"


def test_an_incognito_session_is_not_exported() -> None:
    with pytest.raises(Conflict, match="incognito"):
        export.export(make_session(incognito=True))


@pytest.mark.parametrize("fmt", ["", "html", "MD", "../md", "x" * 400])
def test_an_unknown_format_is_refused(fmt: str) -> None:
    with pytest.raises(BadValue, match="md or json"):
        export.export(make_session(), fmt=fmt)


def test_the_file_name_is_safe_whatever_the_title_is() -> None:
    document = export.export(make_session('../../etc/"passwd"\r\nX: y 日本'))

    assert document.name == "etc-passwd-x-y-s1.md"
