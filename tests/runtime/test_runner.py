"""Leases: renewed for what runs, given up for what was taken, never for what has just begun."""

from __future__ import annotations

import asyncio

from channels.db import database_sync_to_async as in_db

from protoagent.core import clock
from protoagent.journal.models import Turn
from protoagent.journal.services import turns
from protoagent.runtime import runner, service
from tests.fakes.model import hang, say


async def test_a_turn_that_begins_while_leases_are_renewed_is_not_given_up(chat, monkeypatch):
    mine = runner.here()
    chat.model.steps = [hang("a"), say("b")]
    await chat.send()
    await chat.until("text.delta")
    leg = next(iter(mine.legs.values()))
    real = mine._read

    def read_while_another_begins(asked, renew):
        found = real(asked, renew)
        mine.legs["another"] = leg
        return found

    monkeypatch.setattr(mine, "_read", read_while_another_begins)
    mine._renewed_at = clock.monotonic() - runner.RENEW_EVERY_S

    await mine._look()
    del mine.legs["another"]
    chat.model.gate.set()

    assert not leg.lost
    assert (await chat.ended())["data"]["text"] == "a"


async def test_a_turn_that_another_process_claimed_ends_here_without_a_word(chat):
    chat.model.steps = [hang("a"), say("b")]
    accepted = await chat.send()
    await chat.until("text.delta")

    def take_over() -> None:
        Turn.objects.filter(pk=accepted.turn_id).update(lease_until=clock.now())
        assert turns.claim(accepted.turn_id, holder="somebody else") is not None

    await in_db(take_over)()
    chat.model.gate.set()
    for task in runner.here().tasks():
        await task

    turn = await chat.turn()
    assert (turn.status, turn.holder, turn.fence) == ("running", "somebody else", 2)


async def test_an_expired_turn_is_continued_from_where_it_was(chat):
    from tests.fakes.model import call
    from tests.runtime.conftest import ran

    chat.model.steps = [call(("echo", '{"text": "once"}'), text="First."), hang("half")]
    accepted = await chat.send()
    await chat.until("text.delta", text="\n\nhalf")
    mine = runner.here()
    tasks = mine.tasks()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await in_db(turns.release)(mine.holder)
    chat.model.steps = [say("whole")]

    mine.start_soon(accepted.turn_id)
    event = await chat.ended()

    assert event["data"]["text"] == "First.\n\nwhole"
    assert ran == ["once"]
    again = [data for data in chat.of("turn.started") if data.get("resumed")]
    kept = [e for e in chat.events if e["type"] == "text.delta"]
    kept = [e for e in kept if e["seq"] <= again[0]["rewind_to"]] + kept[-1:]
    assert "".join(e["data"]["text"] for e in kept) == "First.\n\nwhole"


async def test_recover_kicks_what_nobody_runs(chat, monkeypatch):
    kicked = []
    monkeypatch.setattr("protoagent.runtime.service.enqueue", lambda name, pk: kicked.append(pk))
    runner.detach()
    accepted = await chat.send()

    await in_db(service.recover)(grace_s=-1)

    assert accepted.turn_id in kicked


async def test_a_turn_that_ends_its_process_each_time_is_given_up(chat):
    from protoagent.runtime.turn import MAX_CRASHES

    accepted = await chat.send()
    await chat.ended()

    def crash_again() -> None:
        Turn.objects.filter(pk=accepted.turn_id).update(
            status="running", lease_until=clock.now(), finished_at=None, crashes=MAX_CRASHES
        )

    await in_db(crash_again)()
    runner.here().start_soon(accepted.turn_id)
    event = await chat.ended("interrupted")

    assert "11 times" in event["data"]["error"]
