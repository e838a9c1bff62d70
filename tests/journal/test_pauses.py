"""Questions, forms and approvals as rows: bound to what is shown, answered once."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import close_old_connections, connection

from protoagent.core.errors import Conflict, NotFound
from protoagent.journal.models import ChatSession, Interruption, Turn
from protoagent.journal.services import agents, attention, pauses, sessions, turns
from protoagent.journal.services.events import append

QUESTION = {"kind": "question", "question": "why?"}
pytestmark = pytest.mark.django_db


@pytest.fixture
def hold(db: None) -> turns.Hold:
    session = sessions.ensure(agents.current(), "s1")
    claim = turns.accept(session, turns.Message("go"), holder="h:1:b").claim
    assert claim is not None
    return claim.hold


def ask(hold: turns.Hold, call_id: str = "c1", **payload: Any) -> Interruption:
    return pauses.open_for_call(hold.turn_id, call_id, 0, {**QUESTION, **payload})[0]


def park(hold: turns.Hold) -> None:
    Turn.objects.filter(pk=hold.turn_id).update(status="waiting", lease_until=None, holder="")


def test_asking_again_after_a_pause_finds_the_same_question(hold: turns.Hold) -> None:
    first = pauses.open_for_call(hold.turn_id, "c1", 0, QUESTION)
    second = pauses.open_for_call(hold.turn_id, "c1", 0, dict(reversed(QUESTION.items())))

    assert (first[1], second[1]) == (True, False)
    assert first[0].pk == second[0].pk


def test_another_question_at_the_same_place_replaces_the_old_one(hold: turns.Hold) -> None:
    old = ask(hold)
    pauses.resolve(old.pk, outcome="answered", value="because", by="ada")

    new, is_new = pauses.open_for_call(hold.turn_id, "c1", 0, {**QUESTION, "question": "who?"})

    assert (is_new, new.state, new.value) == (True, "open", None)
    assert not Interruption.objects.filter(pk=old.pk).exists()


def test_the_digest_covers_everything_that_is_shown() -> None:
    base = {"kind": "approval", "title": "Run?", "detail": "rm -rf a", "session_allow": False}
    others = [
        {**base, "detail": "rm -rf b"},
        {**base, "detail": "rm -rf a\u200b"},
        {**base, "session_allow": True},
        {**base, "folder": "/"},
        {**base, "title": "run?"},
    ]

    digests = {pauses.digest_of(payload) for payload in (base, *others)}

    assert len(digests) == 6
    assert pauses.digest_of(dict(reversed(base.items()))) == pauses.digest_of(base)


def test_an_answer_is_stored_told_and_wakes_the_turn(hold: turns.Hold) -> None:
    row = ask(hold)
    park(hold)

    resolution = pauses.resolve(row.pk, outcome="answered", value="because", by="ada")

    row.refresh_from_db()
    assert (row.state, row.value, row.resolved_by) == ("answered", "because", "ada")
    assert (resolution.turn_id, resolution.session_id) == (hold.turn_id, hold.session_id)
    [frame] = resolution.frames
    assert (frame["type"], frame["data"]) == (
        "input.resolved",
        {"interrupt_id": row.pk, "outcome": "answered", "value": "because"},
    )
    assert Turn.objects.get().wake_at is not None


def test_a_dismissal_has_no_value(hold: turns.Hold) -> None:
    row = ask(hold)

    [frame] = pauses.resolve(row.pk, outcome="dismissed", value=None, by="ada").frames

    assert frame["data"] == {"interrupt_id": row.pk, "outcome": "dismissed"}


@pytest.mark.parametrize("later", ["answered", "dismissed"])
def test_the_first_resolution_wins(hold: turns.Hold, later: str) -> None:
    row = ask(hold)
    pauses.resolve(row.pk, outcome="answered", value="mine", by="ada")

    with pytest.raises(Conflict, match="already answered"):
        pauses.resolve(row.pk, outcome=later, value="theirs", by="bob")

    row.refresh_from_db()
    assert (row.value, row.resolved_by) == ("mine", "ada")
    assert ChatSession.objects.get().events.filter(type="input.resolved").count() == 1


def test_what_is_not_there_or_not_of_this_session_is_not_found(hold: turns.Hold) -> None:
    row = ask(hold)
    other = sessions.ensure(agents.current(), "other")

    with pytest.raises(NotFound):
        pauses.find("q-none")
    with pytest.raises(NotFound, match="another session"):
        pauses.find(row.pk, session_id=other.pk)
    with pytest.raises(NotFound):
        pauses.resolve("q-none", outcome="answered", value="x", by="ada")


def test_a_draft_is_kept_while_the_card_is_open_and_gone_afterwards(hold: turns.Hold) -> None:
    row = ask(hold)

    kept = pauses.save_draft(row.pk, step=2, draft={"a": "x"})
    row.refresh_from_db()
    assert (kept, row.step, row.draft) == (True, 2, {"a": "x"})
    pauses.resolve(row.pk, outcome="answered", value="x", by="ada")
    late = pauses.save_draft(row.pk, step=0, draft={"a": "late"})

    row.refresh_from_db()
    assert (late, row.draft) == (False, {})


def test_a_stop_closes_every_open_card_and_leaves_the_answered_ones(hold: turns.Hold) -> None:
    answered, first, second = ask(hold, "c1"), ask(hold, "c2"), ask(hold, "c3")
    pauses.resolve(answered.pk, outcome="answered", value="x", by="ada")

    told = pauses.stop_open(hold.turn_id)
    append(hold.session_id, told)

    states = dict(Interruption.objects.values_list("pk", "state"))
    assert states == {answered.pk: "answered", first.pk: "stopped", second.pk: "stopped"}
    assert {event.data["interrupt_id"] for event in told} == {first.pk, second.pk}
    assert pauses.open_in_session(hold.session_id) == []


def test_the_event_of_a_question_shows_what_the_card_shows(hold: turns.Hold) -> None:
    row = ask(hold, title="T", detail="D", options=[{"value": "x"}], session_allow=False)

    event = pauses.required_event(row)

    assert event.data == {
        "interrupt_id": row.pk,
        "call_id": "c1",
        "kind": "question",
        "question": "why?",
        "title": "T",
        "detail": "D",
        "options": [{"value": "x"}],
        "session_allow": False,
    }


def test_what_waits_is_listed_over_all_sessions_oldest_first(hold: turns.Hold) -> None:
    first = ask(hold)
    other = sessions.ensure(agents.current(), "other")
    claim = turns.accept(other, turns.Message("go"), holder="h:1:b").claim
    assert claim is not None
    second = ask(claim.hold)
    foreign = sessions.ensure(agents.ensure("elsewhere"), "foreign")
    foreign_claim = turns.accept(foreign, turns.Message("go"), holder="h:1:b").claim
    assert foreign_claim is not None
    ask(foreign_claim.hold)

    agent = agents.current()

    assert [row.pk for row in attention.waiting(agent)] == [first.pk, second.pk]
    assert attention.count(agent) == 2
    sessions.delete(other)
    assert attention.count(agent) == 1


@pytest.mark.django_db(transaction=True)
def test_of_many_answers_at_once_exactly_one_counts() -> None:
    session = sessions.ensure(agents.current(), "s1")
    claim = turns.accept(session, turns.Message("go"), holder="h:1:b").claim
    assert claim is not None
    row = ask(claim.hold)
    park(claim.hold)
    start, outcomes = threading.Barrier(6), []

    def answer(number: int) -> None:
        close_old_connections()
        start.wait(5)
        try:
            pauses.resolve(row.pk, outcome="answered", value=number, by=f"p{number}")
            outcomes.append(number)
        except Conflict:
            outcomes.append(None)
        finally:
            connection.close()

    threads = [threading.Thread(target=answer, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    winners = [number for number in outcomes if number is not None]
    row.refresh_from_db()
    assert (len(outcomes), winners) == (6, [row.value])
    assert session.events.filter(type="input.resolved").count() == 1
