"""The group commit: order, fences, failures, and rows before frames."""

from __future__ import annotations

import asyncio

import pytest
from channels.db import database_sync_to_async as in_db
from django.db import IntegrityError

from protoagent.core.errors import LeaseLost
from protoagent.journal import live
from protoagent.journal.models import ChatSession, TurnEvent
from protoagent.journal.services import agents, sessions, turns
from protoagent.journal.services.events import NewEvent
from protoagent.journal.writer import store, submit

pytestmark = pytest.mark.django_db(transaction=True)


async def running_turn(key: str = "s1") -> turns.Hold:
    def make() -> turns.Hold:
        session = sessions.ensure(agents.ensure("main"), key)
        accepted = turns.accept(session, turns.Message("hi", key), holder="me")
        assert accepted.claim is not None
        return accepted.claim.hold

    return await in_db(make)()


def note(hold: turns.Hold, text: str) -> dict[str, object]:
    event = NewEvent("note", {"text": text}, hold.turn_id)
    return {"session_id": hold.session_id, "events": [event], "hold": hold}


async def notes(hold: turns.Hold) -> list[str]:
    rows = TurnEvent.objects.filter(session_id=hold.session_id, type="note").order_by("seq")
    return [row["text"] async for row in rows.values_list("data", flat=True)]


async def test_writes_keep_their_order_lazy_or_not():
    hold = await running_turn()

    submit(lazy=True, **note(hold, "a"))
    submit(**note(hold, "b"))
    submit(lazy=True, **note(hold, "c"))
    await store(**note(hold, "d"))

    assert await notes(hold) == ["a", "b", "c", "d"]


async def test_a_lazy_write_alone_is_stored_soon():
    hold = await running_turn()

    frames = await asyncio.wait_for(submit(lazy=True, **note(hold, "a")), 1)

    assert frames[0]["data"] == {"text": "a"}


async def test_numbers_have_no_gaps_with_many_writers_at_once():
    holds = [await running_turn(f"s{n}") for n in range(4)]

    await asyncio.gather(*(store(**note(hold, str(n))) for n in range(50) for hold in holds))

    for hold in holds:
        rows = TurnEvent.objects.filter(session_id=hold.session_id).order_by("seq")
        seqs = [seq async for seq in rows.values_list("seq", flat=True)]
        assert seqs == list(range(1, len(seqs) + 1))
        session = await ChatSession.objects.aget(pk=hold.session_id)
        assert session.last_seq == len(seqs)


async def test_an_old_fence_is_refused_and_the_others_of_its_group_are_stored():
    old, other = await running_turn("s1"), await running_turn("s2")
    stale = turns.Hold(old.turn_id, old.session_id, old.fence - 1)

    refused, stored = await asyncio.gather(
        store(**note(stale, "stale")), store(**note(other, "good")), return_exceptions=True
    )

    assert isinstance(refused, LeaseLost)
    assert stored[0]["data"] == {"text": "good"}
    assert await notes(old) == []


async def test_one_bad_write_does_not_take_its_group_along():
    hold = await running_turn()

    def clash() -> None:
        ChatSession.objects.create(agent_id=1, key="s1")

    results = await asyncio.gather(
        store(**note(hold, "before")),
        store(effect=clash),
        store(**note(hold, "after")),
        return_exceptions=True,
    )

    assert isinstance(results[1], IntegrityError)
    assert await notes(hold) == ["before", "after"]


async def test_a_listener_sees_frames_only_once_they_are_rows():
    hold = await running_turn()
    session = await ChatSession.objects.aget(pk=hold.session_id)
    subscription = live.hub.subscribe(hold.session_id, session.last_seq)
    seen = []

    async def listen() -> None:
        async for frames in subscription:
            for frame in frames:
                row = TurnEvent.objects.filter(session_id=hold.session_id, seq=frame["seq"])
                seen.append((frame["data"]["text"], await row.aexists()))
            if len(seen) == 3:
                subscription.close()

    task = asyncio.create_task(listen())
    for text in "abc":
        await store(**note(hold, text))
    await asyncio.wait_for(task, 5)

    assert seen == [("a", True), ("b", True), ("c", True)]
