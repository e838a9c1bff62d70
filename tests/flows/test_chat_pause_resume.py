"""The flow of a conversation that pauses for its operator, with and without a crash in between."""

from __future__ import annotations

import asyncio
import json

from channels.db import database_sync_to_async as in_db

from protoagent.core.errors import Conflict, NotFound
from protoagent.journal.models import QueuedMessage, Turn, TurnEvent
from protoagent.journal.services import pauses
from protoagent.runtime import service
from tests.fakes.directives import unpaired
from tests.fakes.model import call, hang, say
from tests.runtime.conftest import ran
from tools_app.models import ToolCall

FORM = (
    '{"title": "Storage", "steps": [{"schema": {"properties": {"engine": {"type": "string"},'
    ' "size": {"type": "integer"}}, "required": ["engine"]}}]}'
)


async def only_open(chat) -> str:
    (row,) = await in_db(pauses.open_in_session)(chat.session.pk)
    return row.pk


async def ends_of(chat) -> list[str]:
    rows = TurnEvent.objects.filter(session=chat.session, type="turn.finished").order_by("seq")
    return [data["status"] for data in await in_db(list)(rows.values_list("data", flat=True))]


async def is_gapless(chat) -> bool:
    rows = TurnEvent.objects.filter(session=chat.session).order_by("seq")
    numbers = await in_db(list)(rows.values_list("seq", flat=True))
    return numbers == list(range(1, len(numbers) + 1))


async def test_a_form_pauses_the_turn_and_the_same_call_gets_all_its_fields(chat):
    chat.model.steps = [
        call(("echo", '{"text": "before"}'), text="One moment."),
        call(("request_user_input", FORM)),
        call(("echo", '{"text": "after"}')),
        say("Stored."),
    ]
    await chat.send("set it up")
    await chat.until("turn.finished", status="waiting")
    asked = chat.of("input.required")[0]

    value = {"engine": "pg", "size": 3}
    await in_db(service.answer)(chat.session, asked["interrupt_id"], value, by="ada")
    event = await chat.ended()

    assert event["data"]["text"] == "One moment.\n\nStored."
    assert ran == ["before", "after"]
    outputs = {data["call_id"]: data["output"] for data in chat.of("tool.finished")}
    assert json.loads(outputs[asked["call_id"]]) == value
    assert [data["call_id"] for data in chat.of("tool.started")].count(asked["call_id"]) == 1
    assert unpaired(chat.model.requests[-1].messages) == []
    assert await ends_of(chat) == ["waiting", "completed"]
    assert await is_gapless(chat)


async def test_a_crash_while_a_form_waits_changes_nothing(chat, crash):
    chat.model.steps = [call(("ask_one", "{}")), say("thanks")]
    await chat.send()
    await chat.until("turn.finished", status="waiting")
    interrupt_id = await only_open(chat)

    await crash()
    await in_db(service.answer)(chat.session, interrupt_id, "because", by="ada")
    event = await chat.ended()

    assert event["data"]["text"] == "thanks"
    assert ran == ["ask_one because"]
    assert len(chat.of("input.required")) == 1
    assert chat.types().count("tool.started") == 1


async def test_a_crash_right_after_the_answer_still_continues_the_call_once(chat, crash):
    chat.model.steps = [call(("ask_one", "{}")), say("thanks")]
    await chat.send()
    await chat.until("turn.finished", status="waiting")
    interrupt_id = await only_open(chat)

    await in_db(pauses.resolve)(interrupt_id, outcome="answered", value="because", by="ada")
    await crash()
    kicked = await in_db(service.recover)(grace_s=-1)
    from protoagent.runtime import runner

    turn = await chat.turn()
    runner.here().start_soon(turn.pk)
    await chat.ended()

    assert kicked == 1
    assert ran == ["ask_one because"]


async def test_two_answers_at_once_have_one_winner_and_the_other_is_told(chat):
    chat.model.steps = [call(("ask_one", "{}")), say("thanks")]
    await chat.send()
    await chat.until("turn.finished", status="waiting")
    interrupt_id = await only_open(chat)

    results = await asyncio.gather(
        in_db(service.answer)(chat.session, interrupt_id, "from tab one", by="ada"),
        in_db(service.answer)(chat.session, interrupt_id, "from tab two", by="bob"),
        return_exceptions=True,
    )
    await chat.ended()

    refused = [str(result) for result in results if isinstance(result, Conflict)]
    assert refused == ["already answered"]
    assert len(ran) == 1
    assert len(chat.of("input.resolved")) == 1


async def test_an_answer_for_another_session_is_not_found(chat):
    chat.model.steps = [call(("ask_one", "{}")), say("thanks")]
    await chat.send()
    await chat.until("turn.finished", status="waiting")
    interrupt_id = await only_open(chat)

    from protoagent.journal.services import agents, sessions

    other = await in_db(sessions.ensure)(await in_db(agents.ensure)("main"), "another")
    refused = None
    try:
        await in_db(service.answer)(other, interrupt_id, "sneaky", by="mallory")
    except NotFound as error:
        refused = error

    assert refused is not None
    assert await only_open(chat) == interrupt_id


async def test_messages_held_behind_a_form_survive_a_crash_and_are_read_after_the_answer(
    chat, crash
):
    chat.model.steps = [call(("ask_one", "{}")), say("thanks")]
    await chat.send()
    await chat.until("turn.finished", status="waiting")
    await chat.send("also: keep it small", client_id="h1")

    await crash()
    await in_db(service.answer)(chat.session, await only_open(chat), "because", by="ada")
    await chat.ended()

    messages = chat.model.requests[-1].messages
    assert sum("keep it small" in str(m["content"]) for m in messages) == 1
    assert unpaired(messages) == []


async def test_a_steer_that_was_read_is_read_again_when_the_answer_to_it_was_lost(chat, crash):
    chat.model.steps = [
        call(("nap", '{"seconds": 0.2}')),
        hang("half an answer"),
        say("short answer"),
        say("next"),
    ]
    await chat.send("go")
    await chat.until("tool.started")
    await in_db(service.steer)(chat.session, "shorter please", client_id="s1")
    await chat.until("text.delta")

    await crash()
    event = await chat.ended()

    contents = [str(m["content"]) for m in chat.model.requests[-1].messages]
    assert sum("shorter please" in content for content in contents) == 1
    assert event["data"]["text"] == "short answer"
    await chat.ask("and now?")
    contents = [str(m["content"]) for m in chat.model.requests[-1].messages]
    assert sum("shorter please" in content for content in contents) == 1


async def test_a_steer_that_the_checkpoint_holds_is_not_read_twice(chat, crash):
    chat.model.steps = [
        call(("nap", '{"seconds": 0.2}')),
        call(("echo", '{"text": "x"}')),
        hang("half"),
        say("whole"),
    ]
    await chat.send("go")
    await chat.until("tool.started")
    await in_db(service.steer)(chat.session, "shorter please", client_id="s1")
    await chat.until("text.delta")

    await crash()
    await chat.ended()

    contents = [str(m["content"]) for m in chat.model.requests[-1].messages]
    assert sum("shorter please" in content for content in contents) == 1
    assert ran == ["nap", "x"]


async def test_a_call_that_was_cut_off_is_not_repeated_and_the_model_is_told(chat, crash):
    chat.model.steps = [call(("nap", "{}"), ("echo", '{"text": "x"}')), say("I will check.")]
    await chat.send()
    await chat.until("tool.finished", name="echo")

    await crash()
    await chat.ended()

    assert ran == ["nap", "x"]
    results = [m["content"] for m in chat.model.requests[-1].messages if m["role"] == "tool"]
    assert "outcome unknown" in results[0]
    assert results[1] == "echo x"
    assert [data["name"] for data in chat.of("tool.started")] == ["nap", "echo"]


async def test_stop_with_a_form_open_and_the_next_message_is_an_ordinary_turn(chat):
    chat.model.steps = [call(("request_user_input", FORM)), say("fine")]
    await chat.send()
    await chat.until("turn.finished", status="waiting")

    stopped = await in_db(service.stop)(chat.session, by="ada")
    await chat.ended("stopped")
    text = await chat.ask("next")

    assert stopped
    assert text == "fine"
    assert await in_db(pauses.open_in_session)(chat.session.pk) == []
    assert await in_db(ToolCall.objects.filter(finished_at=None).count)() == 0
    assert unpaired(chat.model.requests[-1].messages) == []


async def test_a_steer_that_was_read_before_a_stop_is_known_to_the_next_turn(chat):
    chat.model.steps = [call(("nap", '{"seconds": 0.2}')), hang("half an answer"), say("fine")]
    await chat.send("go")
    await chat.until("tool.started")
    await in_db(service.steer)(chat.session, "shorter please", client_id="s1")
    await chat.until("text.delta")

    await in_db(service.stop)(chat.session, by="ada")
    await chat.ended("stopped")
    await chat.ask("next")

    contents = [str(m["content"]) for m in chat.model.requests[-1].messages]
    assert sum("shorter please" in content for content in contents) == 1
    assert unpaired(chat.model.requests[-1].messages) == []


async def test_a_stop_that_comes_together_with_a_crash_still_stops(chat, crash):
    chat.model.steps = [hang("text"), say("never")]
    await chat.send()
    await chat.until("text.delta")

    from protoagent.journal.services import turns

    await in_db(turns.request_stop)(chat.session, by="ada")
    await crash()
    event = await chat.ended("stopped")

    assert event["data"]["status"] == "stopped"
    assert len(chat.model.requests) == 1


async def test_a_late_steer_with_the_id_of_the_message_before_it_is_not_lost(chat):
    chat.model.steps = [hang("text"), say("second")]
    await chat.send("one", client_id="same")
    await chat.until("text.delta")

    await in_db(service.steer)(chat.session, "two", client_id="same")
    chat.model.gate.set()
    await chat.ended()

    pending = QueuedMessage.objects.filter(session=chat.session, state="pending")
    assert await in_db(pending.count)() == 0
    assert await in_db(Turn.objects.active().count)() == 0
