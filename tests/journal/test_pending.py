"""Operator text on its way: order, edits, withdrawal, and what a stop leaves behind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from protoagent.core.errors import BadValue, Conflict, NotFound
from protoagent.journal.models import ChatSession, QueuedMessage, Turn
from protoagent.journal.services import agents, pauses, pending, sessions, turns

pytestmark = pytest.mark.django_db


@pytest.fixture
def session() -> ChatSession:
    return sessions.ensure(agents.ensure("main"), "s1")


def begin(session: ChatSession) -> turns.Hold:
    claim = turns.accept(session, turns.Message("go"), holder="h:1:b").claim
    assert claim is not None
    return claim.hold


def line(session: ChatSession) -> list[tuple[str, str]]:
    return [(row.kind, row.text) for row in pending.waiting_in(session.pk)]


def notes(session: ChatSession) -> list[tuple[str, list[str]]]:
    rows = session.events.filter(type="note").order_by("seq")
    return [(row.data["kind"], row.data["client_ids"]) for row in rows]


def test_a_steer_is_read_in_order_and_told_once(session: ChatSession) -> None:
    hold = begin(session)
    turns.steer(session, "one", client_id="m1")
    turns.steer(session, "two", client_id="m2")

    first = pending.deliver(session.pk, hold.turn_id)
    second = pending.deliver(session.pk, hold.turn_id)

    assert first is not None
    assert (first.texts, first.client_ids) == (("one", "two"), ("m1", "m2"))
    assert first.events[0].data["kind"] == "delivered"
    assert second is None
    assert line(session) == []


def test_the_same_steer_twice_is_one(session: ChatSession) -> None:
    begin(session)

    first = turns.steer(session, "one", client_id="m1")
    second = turns.steer(session, "one", client_id="m1")

    assert (first[1], second[1]) == (True, False)
    assert first[0].pk == second[0].pk


def test_a_queued_message_is_not_read_by_the_running_turn(session: ChatSession) -> None:
    hold = begin(session)
    turns.queue(session, "later", client_id="m1")

    assert pending.deliver(session.pk, hold.turn_id) is None
    assert line(session) == [("queue", "later")]


def test_a_message_can_be_withdrawn_until_it_is_read(session: ChatSession) -> None:
    hold = begin(session)
    turns.steer(session, "one", client_id="m1")
    turns.steer(session, "two", client_id="m2")

    pending.withdraw(session.pk, "m1")
    delivery = pending.deliver(session.pk, hold.turn_id)

    assert delivery is not None
    assert delivery.texts == ("two",)
    assert notes(session) == [("withdrawn", ["m1"])]
    with pytest.raises(Conflict, match="read this message"):
        pending.withdraw(session.pk, "m2")
    with pytest.raises(NotFound):
        pending.withdraw(session.pk, "m3")


def test_a_message_of_another_session_is_out_of_reach(session: ChatSession) -> None:
    begin(session)
    turns.steer(session, "one", client_id="m1")
    other = sessions.ensure(session.agent, "other")

    with pytest.raises(NotFound):
        pending.withdraw(other.pk, "m1")
    assert line(session) == [("steer", "one")]


def test_a_pending_message_can_be_edited_but_not_emptied(session: ChatSession) -> None:
    hold = begin(session)
    turns.steer(session, "one", client_id="m1")

    pending.edit(session.pk, "m1", "uno")
    with pytest.raises(BadValue, match="withdraw"):
        pending.edit(session.pk, "m1", "  ")

    assert line(session) == [("steer", "uno")]
    pending.deliver(session.pk, hold.turn_id)
    with pytest.raises(Conflict):
        pending.edit(session.pk, "m1", "eins")


def test_queued_messages_change_places(session: ChatSession) -> None:
    begin(session)
    for name in ("a", "b", "c"):
        turns.queue(session, name, client_id=name)

    pending.move(session.pk, "c", up=True)
    pending.move(session.pk, "a", up=True)
    pending.move(session.pk, "b", up=False)

    assert [text for _, text in line(session)] == ["a", "c", "b"]


def test_a_queued_message_can_become_a_steer_of_the_running_turn(session: ChatSession) -> None:
    hold = begin(session)
    turns.queue(session, "now please", client_id="m1")

    pending.turn_into_steer(session.pk, "m1")
    delivery = pending.deliver(session.pk, hold.turn_id)

    assert delivery is not None
    assert delivery.texts == ("now please",)


def test_nothing_can_be_steered_when_nothing_runs(session: ChatSession) -> None:
    turns.queue(session, "later", client_id="m1")

    with pytest.raises(Conflict, match="no turn is running"):
        pending.turn_into_steer(session.pk, "m1")
    with pytest.raises(NotFound, match="nothing is running"):
        turns.steer(session, "one")


def test_while_a_card_is_open_a_steer_is_held(session: ChatSession) -> None:
    hold = begin(session)
    pauses.open_for_call(hold.turn_id, "c1", 0, {"kind": "question", "question": "why?"})
    Turn.objects.update(status="waiting", lease_until=None, holder="")

    row, _ = turns.steer(session, "and hurry", client_id="m1")

    assert row.kind == "held"
    assert session.events.latest("seq").data["mode"] == "held"


@pytest.mark.parametrize("status", ["stopped", "failed", "interrupted"])
def test_what_a_turn_leaves_behind_is_kept_on_hold(session: ChatSession, status: str) -> None:
    hold = begin(session)
    turns.steer(session, "one", client_id="m1")
    turns.queue(session, "two", client_id="m2")

    turns.finish(hold, status)

    assert line(session) == [("queue", "one"), ("queue", "two")]
    assert all(row.on_hold for row in pending.waiting_in(session.pk))
    assert turns.promote_next(session.pk) is None


def test_what_is_on_hold_is_sent_when_the_operator_says_so(session: ChatSession) -> None:
    hold = begin(session)
    turns.queue(session, "two", client_id="m2")
    turns.finish(hold, "stopped")

    released = pending.release(session.pk)
    turn_id = turns.promote_next(session.pk)

    assert (released, pending.release(session.pk)) == (1, 0)
    assert Turn.objects.get(pk=turn_id).text == "two"
    assert QueuedMessage.objects.get().state == "promoted"


def test_steers_that_came_too_late_are_the_next_turn_together(session: ChatSession) -> None:
    hold = begin(session)
    turns.queue(session, "later", client_id="q1")
    turns.steer(session, "one", client_id="m1")
    turns.steer(session, "two", client_id="m2")
    turns.finish(hold, "completed")

    turn_id = turns.promote_next(session.pk)

    assert Turn.objects.get(pk=turn_id).text == "one\n\ntwo"
    assert line(session) == [("queue", "later")]


def test_positions_are_the_sessions_own(session: ChatSession) -> None:
    other = sessions.ensure(session.agent, "other")
    begin(session)
    begin(other)
    place: Callable[[ChatSession], int] = lambda s: pending.waiting_in(s.pk)[-1].position  # noqa: E731
    turns.queue(session, "a", client_id="a")
    turns.queue(other, "b", client_id="b")

    assert (place(session), place(other)) == (1, 1)
