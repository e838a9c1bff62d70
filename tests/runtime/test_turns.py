"""A turn from its message to its end."""

from __future__ import annotations

import asyncio
import time

from channels.db import database_sync_to_async as in_db

from protoagent.core.context import Origin
from protoagent.journal.models import Checkpoint, CheckpointWrite, Turn
from protoagent.journal.services import pauses
from protoagent.runtime import service
from tests.fakes.model import call, fail, hang, say
from tests.runtime.conftest import ran
from tools_app.models import ToolCall


async def open_ids(chat) -> list[str]:
    return [row.pk for row in await in_db(pauses.open_in_session)(chat.session.pk)]


async def test_a_plain_turn_has_its_events_in_order(chat):
    chat.model.steps = [say("Hel", "lo")]

    text = await chat.ask("hi", client_id="c1")

    assert text == "Hello"
    assert chat.types()[:2] == ["message.received", "turn.started"]
    assert chat.types()[-2:] == ["usage", "turn.finished"]
    assert "".join(d["text"] for d in chat.of("text.delta")) == "Hello"
    assert chat.of("message.received")[0] == {
        "text": "hi",
        "client_id": "c1",
        "mode": "turn",
        "origin": "operator",
    }
    assert [event["seq"] for event in chat.events] == list(range(1, len(chat.events) + 1))


async def test_the_same_client_id_twice_is_one_message(chat):
    await chat.ask("hi", client_id="c1")

    again = await chat.send("hi", client_id="c1")

    assert again.duplicate
    assert await in_db(Turn.objects.count)() == 1


async def test_tool_calls_of_one_message_run_at_once_and_are_paired(chat):
    chat.model.steps = [call(("nap", '{"seconds": 0.5}'), ("nap", '{"seconds": 0.5}')), say("done")]

    started = time.monotonic()
    text = await chat.ask()

    assert text == "done"
    assert time.monotonic() - started < 0.95
    messages = chat.model.requests[-1].messages
    calls = [c["id"] for m in messages for c in m.get("tool_calls") or ()]
    assert len(set(calls)) == 2
    assert [m["tool_call_id"] for m in messages if m["role"] == "tool"] == calls


async def test_text_before_and_after_tools_joins_to_the_answer(chat):
    chat.model.steps = [call(("echo", '{"text": "x"}'), text="Looking."), say("Found.")]

    text = await chat.ask()

    assert text == "Looking.\n\nFound."
    assert "".join(d["text"] for d in chat.of("text.delta")) == text


async def test_a_plain_turn_leaves_no_checkpoint_and_neither_does_one_with_tools(chat):
    chat.model.steps = [say("a"), call(("echo", "{}")), say("b")]

    await chat.ask()
    await chat.ask()

    assert await in_db(Checkpoint.objects.count)() == 0
    assert await in_db(CheckpointWrite.objects.count)() == 0


async def test_the_next_turn_sees_what_was_said_before(chat):
    chat.model.steps = [say("first answer"), say("second answer")]

    await chat.ask("one")
    await chat.ask("two")

    said = [(m["role"], m["content"]) for m in chat.model.requests[-1].messages[1:]]
    assert said == [("user", "one"), ("assistant", "first answer"), ("user", "two")]


async def test_failing_tools_become_error_results_and_the_turn_goes_on(chat):
    chat.model.steps = [
        call(
            ("broken", "{}"), ("nope", "{}"), ("echo", "{"), ("echo", '{"x": 1}'), ("hasty", "{}")
        ),
        say("done"),
    ]

    await chat.ask()

    outputs = [event["output"] for event in chat.of("tool.finished")]
    assert all(output.startswith("Error: ") for output in outputs)
    assert len(outputs) == 5
    assert not any("secret detail" in output for output in outputs)


async def test_a_model_that_fails_before_content_is_asked_again(chat):
    chat.model.steps = [fail(retryable=True), say("fine")]

    text = await chat.ask()

    assert text == "fine"
    assert chat.of("note")[0]["kind"] == "retry"


async def test_a_model_that_fails_after_content_ends_the_turn_as_failed(chat):
    chat.model.steps = [fail("it broke", after="Half an ans", retryable=True), say("never")]

    await chat.send()
    event = await chat.ended("failed")

    assert event["data"]["error"] == "it broke"
    assert event["data"]["text"] == "Half an ans"
    assert (await chat.turn()).messages[-1]["content"] == "Half an ans"


async def test_fallback_models_answer_for_the_primary(chat, monkeypatch):
    from protoagent.providers import catalog
    from tests.fakes.model import FakeModel

    other = FakeModel("other", steps=[say("from the other")])
    monkeypatch.setattr(catalog, "fallbacks", lambda: [other])
    chat.model.steps = [fail("primary is down")]

    text = await chat.ask()

    assert text == "from the other"
    assert chat.of("note")[0]["kind"] == "fallback"


async def test_the_primary_error_is_told_when_every_model_fails(chat, monkeypatch):
    from protoagent.providers import catalog
    from tests.fakes.model import FakeModel

    other = FakeModel("other", steps=[fail("other is down")])
    monkeypatch.setattr(catalog, "fallbacks", lambda: [other])
    chat.model.steps = [fail("primary is down")]

    await chat.send()

    assert (await chat.ended("failed"))["data"]["error"] == "primary is down"


async def test_a_silent_model_is_given_up_on(chat, monkeypatch):
    monkeypatch.setenv("PROTOAGENT__MODEL__TURN_STALL_TIMEOUT_SECONDS", "0.2")
    from protoagent.config import services as config

    config.reload()
    chat.model.steps = [hang("so far")]

    await chat.send()
    event = await chat.ended("failed")

    assert "nothing was heard" in event["data"]["error"]
    assert "model fake" in event["data"]["error"]


async def test_stop_ends_a_sleeping_tool_and_keeps_the_partial_text(chat):
    chat.model.steps = [call(("nap", "{}"), text="Going to sleep.")]
    await chat.send()
    await chat.until("tool.started")

    started = time.monotonic()
    stopped = await in_db(service.stop)(chat.session, by="ada")
    event = await chat.ended("stopped")

    assert stopped
    assert time.monotonic() - started < 2
    assert event["data"]["text"] == "Going to sleep."
    assert chat.of("tool.finished")[-1]["status"] == "cancelled"


async def test_stop_ends_a_tool_that_ignores_it(chat):
    chat.model.steps = [call(("stubborn", "{}"))]
    await chat.send()
    await chat.until("tool.started")

    started = time.monotonic()
    await in_db(service.stop)(chat.session, by="ada")
    await chat.ended("stopped")

    assert time.monotonic() - started < 2
    assert await chat.ask("next") == "ok"


async def test_a_stop_wished_by_another_process_is_seen(chat):
    chat.model.steps = [hang("text")]
    await chat.send()
    await chat.until("text.delta")

    started = time.monotonic()
    from protoagent.journal.services import turns

    await in_db(turns.request_stop)(chat.session, by="ada")
    await chat.ended("stopped")

    assert time.monotonic() - started < 2


async def test_cancelling_one_call_lets_the_turn_go_on(chat):
    chat.model.steps = [call(("nap", "{}"), ("echo", '{"text": "x"}')), say("after")]
    await chat.send()
    started = await chat.until("tool.started", name="nap")

    cancelled = await in_db(service.cancel_call)(started["data"]["call_id"], by="ada")
    event = await chat.ended()

    assert cancelled
    assert event["data"]["text"] == "after"
    status = {e["name"]: e["status"] for e in chat.of("tool.finished")}
    assert status == {"nap": "cancelled", "echo": "ok"}
    assert not await in_db(service.cancel_call)(started["data"]["call_id"], by="ada")


async def test_a_steer_is_read_before_the_next_model_call(chat):
    chat.model.steps = [call(("nap", '{"seconds": 0.2}')), say("done")]
    await chat.send()
    await chat.until("tool.started")

    await in_db(service.steer)(chat.session, "shorter please", client_id="s1")
    await chat.ended()

    assert "shorter please" in chat.model.requests[-1].messages[-1]["content"]
    assert chat.of("note")[-1]["client_ids"] == ["s1"]


async def test_a_steer_that_comes_too_late_becomes_the_next_turn(chat):
    chat.model.steps = [hang("text"), say("second")]
    await chat.send()
    await chat.until("text.delta")

    await in_db(service.steer)(chat.session, "one more thing", client_id="s1")
    chat.model.gate.set()
    await chat.ended()
    event = await chat.ended()

    assert event["data"]["text"] == "second"
    assert (await chat.turn()).text == "one more thing"


async def test_a_message_while_a_turn_runs_is_the_next_turn(chat):
    chat.model.steps = [hang("a"), say("b")]
    await chat.send("one")
    await chat.until("text.delta")

    accepted = await chat.send("two")
    chat.model.gate.set()
    await chat.ended()
    event = await chat.ended()

    assert accepted.mode == "turn"
    assert event["turn"] == accepted.turn_id
    assert event["data"]["text"] == "b"


async def test_a_queued_message_stays_on_hold_after_a_stop(chat):
    chat.model.steps = [hang("a"), say("b")]
    await chat.send("one")
    await chat.until("text.delta")
    await in_db(service.queue)(chat.session, "later", client_id="q1")

    await in_db(service.stop)(chat.session, by="ada")
    await chat.ended("stopped")
    await asyncio.sleep(0.1)
    before = await in_db(Turn.objects.count)()
    await in_db(service.send_held_back)(chat.session)
    event = await chat.ended()

    assert before == 1
    assert event["data"]["text"] == "b"


async def test_a_question_waits_and_the_same_call_gets_the_answer(chat):
    chat.model.steps = [call(("ask_one", "{}")), say("thanks")]
    await chat.send()
    await chat.until("turn.finished", status="waiting")
    (interrupt_id,) = await open_ids(chat)

    await in_db(service.answer)(chat.session, interrupt_id, "because", by="ada")
    event = await chat.ended()

    assert event["data"]["text"] == "thanks"
    assert ran == ["ask_one because"]
    assert chat.types().count("tool.started") == 1
    assert chat.of("turn.started")[-1]["resumed"] is True


async def test_a_call_may_ask_twice(chat):
    chat.model.steps = [call(("ask_two", "{}")), say("thanks")]
    await chat.send()
    await chat.until("turn.finished", status="waiting")
    await in_db(service.answer)(chat.session, (await open_ids(chat))[0], "one", by="ada")
    await chat.until("turn.finished", status="waiting")

    await in_db(service.answer)(chat.session, (await open_ids(chat))[0], "two", by="ada")
    await chat.ended()

    assert chat.of("tool.finished")[0]["output"] == "one two"
    assert ran == ["ask_two"]


async def test_several_questions_are_open_at_once_and_answered_in_any_order(chat):
    chat.model.steps = [
        call(("ask_one", '{"question": "a?"}'), ("ask_one", '{"question": "b?"}'), ("echo", "{}")),
        say("thanks"),
    ]
    await chat.send()
    await chat.until("turn.finished", status="waiting")
    first, second = await open_ids(chat)

    await in_db(service.answer)(chat.session, second, "B", by="ada")
    await chat.until("turn.finished", status="waiting")
    still_open = await open_ids(chat)
    await in_db(service.answer)(chat.session, first, "A", by="ada")
    await chat.ended()

    assert still_open == [first]
    assert sorted(ran) == ["", "ask_one A", "ask_one B"]
    results = [m["content"] for m in chat.model.requests[-1].messages if m["role"] == "tool"]
    assert results == ["A", "B", "echo "]


async def test_the_first_answer_wins(chat):
    from protoagent.core.errors import Conflict

    chat.model.steps = [call(("ask_one", "{}")), say("thanks")]
    await chat.send()
    await chat.until("turn.finished", status="waiting")
    (interrupt_id,) = await open_ids(chat)

    results = await asyncio.gather(
        *(
            in_db(service.answer)(chat.session, interrupt_id, f"answer {n}", by="ada")
            for n in range(5)
        ),
        return_exceptions=True,
    )
    await chat.ended()

    assert sum(isinstance(result, Conflict) for result in results) == 4
    assert len(ran) == 1


async def test_messages_while_a_card_is_open_are_held_and_read_after_the_answer(chat):
    chat.model.steps = [call(("ask_one", "{}")), say("thanks")]
    await chat.send()
    await chat.until("turn.finished", status="waiting")

    held = [await chat.send("first"), await chat.send("second")]
    asked = len(chat.model.requests)
    await in_db(service.dismiss)(chat.session, (await open_ids(chat))[0], by="ada")
    await chat.ended()

    assert [accepted.mode for accepted in held] == ["held", "held"]
    assert asked == 1
    contents = [m["content"] for m in chat.model.requests[-1].messages[-3:]]
    assert contents[0].startswith("[dismissed]")
    assert "first" in contents[1]
    assert "second" in contents[2]


async def test_stop_with_an_open_card_and_the_next_message_works(chat):
    chat.model.steps = [call(("ask_one", "{}")), say("fine")]
    await chat.send()
    await chat.until("turn.finished", status="waiting")

    await in_db(service.stop)(chat.session, by="ada")
    await chat.ended("stopped")
    text = await chat.ask("next")

    assert text == "fine"
    assert chat.of("input.resolved")[0]["outcome"] == "stopped"
    assert ran == []
    assert await in_db(ToolCall.objects.filter(finished_at=None).count)() == 0


async def test_an_autonomous_turn_answers_itself_three_times_at_most(chat):
    chat.model.steps = [call(("ask_one", "{}")) for _ in range(4)] + [say("never")]
    accepted = await chat.send(origin=Origin.SCHEDULER)

    from protoagent.runtime import runner

    runner.here().start_soon(accepted.turn_id)
    await chat.ended()

    outcomes = [data["outcome"] for data in chat.of("input.resolved")]
    assert outcomes == ["auto", "auto", "auto"]
    assert len(chat.model.requests) == 4
    assert "[no interactive operator available]" in chat.of("tool.finished")[0]["output"]


async def test_a_turn_that_repeats_itself_is_ended(chat):
    chat.model.steps = [call(("echo", '{"text": "x"}')) for _ in range(10)]

    await chat.send()
    event = await chat.ended("failed")

    assert "6 times in a row" in event["data"]["error"]
    assert len(ran) == 6


async def test_an_empty_answer_becomes_the_last_tool_output(chat):
    chat.model.steps = [call(("echo", '{"text": "x"}')), say()]

    assert await chat.ask() == "echo x"


async def test_secrets_are_masked_in_what_is_stored_and_sent_to_the_model(chat):
    secret = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
    chat.model.steps = [call(("echo", f'{{"text": "{secret}"}}')), say("it is ", secret, " indeed")]

    await chat.ask(f"my key is {secret}")

    everything = str(chat.events) + str((await chat.turn()).messages)
    everything += str(chat.model.requests[-1].messages)
    assert secret not in everything
