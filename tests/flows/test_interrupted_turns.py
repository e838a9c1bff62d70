"""What a lost process leaves behind: rewinding, giving up, and failures of a single write."""

from __future__ import annotations

import asyncio

from channels.db import database_sync_to_async as in_db

from protoagent.core.ids import new_id
from protoagent.journal.models import TurnEvent
from protoagent.journal.services import agents, pauses, sessions
from protoagent.runtime import service
from tests.clients.chat import answer_of
from tests.fakes.model import call, hang, say
from tests.runtime.conftest import Chat, ran


async def stored_events(chat) -> list[dict]:
    rows = TurnEvent.objects.filter(session=chat.session).order_by("seq")
    return [row.frame for row in await in_db(list)(rows)]


async def test_the_deltas_of_a_turn_that_crashed_three_times_are_its_answer(chat, crash):
    chat.model.steps = [
        hang("lost one"),
        call(("echo", '{"text": "a"}'), text="First."),
        hang("lost two"),
        call(("echo", '{"text": "b"}'), text="Second."),
        hang("lost three"),
        say("Third."),
    ]
    accepted = await chat.send()
    for lost in ("lost one", "\n\nlost two", "\n\nlost three"):
        await chat.until("text.delta", text=lost)
        await crash()

    event = await chat.ended()

    assert event["data"]["text"] == "First.\n\nSecond.\n\nThird."
    assert answer_of(await stored_events(chat), accepted.turn_id) == event["data"]["text"]
    assert ran == ["a", "b"]


async def test_usage_of_an_answer_that_was_lost_does_not_shift_later_rewinds(chat, crash):
    """An answer whose usage was stored and whose checkpoint was not is asked for again."""
    chat.model.steps = [
        call(("echo", '{"text": "a"}'), text="First."),
        hang("lost"),
        call(("echo", '{"text": "b"}'), text="Second."),
        hang("also lost"),
        say("Third."),
    ]
    accepted = await chat.send()
    await chat.until("text.delta", text="\n\nlost")
    await in_db(_add_usage)(chat, accepted.turn_id)
    await crash()
    await chat.until("text.delta", text="\n\nalso lost")
    await crash()

    event = await chat.ended()

    assert answer_of(await stored_events(chat), accepted.turn_id) == event["data"]["text"]


async def test_a_turn_that_was_continued_counts_the_usage_of_every_leg(chat, crash):
    chat.model.steps = [
        call(("echo", '{"text": "a"}'), text="First."),
        hang("lost"),
        call(("ask_one", "{}")),
        say("Second."),
    ]
    await chat.send()
    await chat.until("text.delta", text="\n\nlost")
    await crash()
    await chat.until("turn.finished", status="waiting")
    (row,) = await in_db(pauses.open_in_session)(chat.session.pk)

    await in_db(service.answer)(chat.session, row.pk, "because", by="ada")
    await chat.ended()

    turn, said = await chat.turn(), chat.of("usage")
    assert len(said) == turn.model_calls == 3
    assert turn.input_tokens == sum(data["input_tokens"] for data in said) > 0
    assert turn.output_tokens == sum(data["output_tokens"] for data in said) > 0


def _add_usage(chat, turn_id: str) -> None:
    from protoagent.journal.services.events import NewEvent, append

    append(chat.session.pk, [NewEvent("usage", {"input_tokens": 1, "output_tokens": 1}, turn_id)])


async def test_a_turn_that_brings_its_process_down_again_and_again_ends_as_interrupted(chat, crash):
    chat.model.steps = [hang("lost") for _ in range(20)]
    await chat.send()
    for _ in range(5):
        await chat.until("text.delta", text="lost")
        await crash()

    event = await chat.ended("interrupted")

    assert "interrupted" in event["data"]["error"]
    assert len(chat.model.requests) == 5
    chat.model.steps = [say("fine")]
    assert await chat.ask("next") == "fine"


async def test_an_end_that_cannot_be_stored_fails_the_turn_instead_of_repeating_it(
    chat, monkeypatch
):
    from protoagent.runtime import turn

    totals = turn._totals
    broken = {"cost_usd": "not a number"}
    monkeypatch.setattr(turn, "_totals", lambda here: {**totals(here), **broken})
    chat.model.steps = [say("fine")]
    await chat.send()
    await asyncio.sleep(0)
    monkeypatch.setattr(turn, "_finish", _once_then(turn._finish, monkeypatch, totals))

    event = await chat.ended("failed")

    assert "could not be stored" in event["data"]["error"]


def _once_then(finish, monkeypatch, totals):
    from protoagent.runtime import turn

    async def finish_twice(here, ending, began):
        try:
            return await finish(here, ending, began)
        finally:
            monkeypatch.setattr(turn, "_totals", totals)

    return finish_twice


async def test_a_turn_that_gets_on_between_crashes_is_never_given_up(chat, crash):
    chat.model.steps = []
    for number in range(8):
        chat.model.steps += [call(("echo", f'{{"text": "{number}"}}')), hang("lost")]
    chat.model.steps += [say("done")]
    await chat.send()
    for number in range(8):
        await chat.until("text.delta", text="lost")
        await crash()
        if number == 7:
            break
        await chat.until("tool.finished", output=f"echo {number + 1}")

    event = await chat.ended()

    assert event["data"]["text"] == "done"
    assert ran == [str(number) for number in range(8)]


async def test_what_a_model_cannot_say_in_text_does_not_hurt_the_turn_or_its_neighbours(chat):
    agent = await in_db(agents.ensure)("main")
    other = Chat(await in_db(sessions.ensure)(agent, new_id("s")), chat.model)
    other.session.agent = agent
    chat.model.steps = [say("half \ud83d", " a pair, and a \x00 byte"), say("unharmed")]

    await asyncio.gather(chat.send(), other.send())
    mine, theirs = await asyncio.gather(chat.ended(), other.ended())

    assert {mine["data"]["text"], theirs["data"]["text"]} == {
        "half \ufffd a pair, and a \ufffd byte",
        "unharmed",
    }


async def test_a_character_that_comes_in_two_halves_is_put_together(chat):
    chat.model.steps = [say("owl: \ud83e", "\udd89!")]

    assert await chat.ask() == "owl: \U0001f989!"
    assert answer_of(chat.events, chat.events[0]["turn"]) == "owl: \U0001f989!"


async def test_arguments_and_outputs_with_unstorable_characters_are_cleaned(chat):
    chat.model.steps = [
        call(("echo", '{"text": "a\\u0000b\\ud83d"}'), ("ec\x00ho\ud83d", "{}")),
        say("done"),
    ]

    assert await chat.ask() == "done"
    outputs = sorted(data["output"] for data in chat.of("tool.finished"))
    assert outputs[0].startswith("Error: there is no tool named")
    assert outputs[1] == "echo a\ufffdb\ufffd"


async def test_numbers_that_no_json_has_are_refused_as_arguments(chat):
    chat.model.steps = [call(("echo", '{"text": NaN}'), ("echo", '{"text": 1e999}')), say("done")]

    assert await chat.ask() == "done"
    outputs = [data["output"] for data in chat.of("tool.finished")]
    assert all("not valid JSON" in output for output in outputs)
    assert len(outputs) == 2


async def test_steers_and_stops_while_the_turn_writes_never_fail(chat):
    """On PostgreSQL each of them locks rows that the running turn locks too."""
    chat.model.steps = [say(*(f"{n} " for n in range(200))) for _ in range(4)]
    chat.model.steps.insert(0, call(*[("nap", '{"seconds": 0.3}')] * 4))
    await chat.send()
    await chat.until("tool.started")

    steers = [
        in_db(service.steer)(chat.session, f"steer {n}", client_id=f"s{n}") for n in range(20)
    ]
    results = await asyncio.gather(*steers, return_exceptions=True)
    await chat.ended()

    assert [result for result in results if isinstance(result, Exception)] == []
