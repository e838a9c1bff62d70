"""POST /api/chat and what belongs to a turn that runs: answering, steering, stopping."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_db

from protoagent.core.context import Origin
from protoagent.journal.models import ChatSession, Turn
from protoagent.journal.services import agents, pauses, sessions, turns
from tests.api.conftest import Api, until
from tests.fakes.model import FakeModel, call, fail, hang, say


async def row(key: str) -> ChatSession:
    return await in_db(lambda: ChatSession.objects.get(key=key))()


async def ask(live: Api, message: str = "hello", **fields: Any) -> dict[str, Any]:
    response = await live.post("/api/chat", {"message": message, **fields})
    assert response.status_code == 200, response.content
    return response.json()


async def test_a_message_is_answered_with_the_whole_turn(live: Api, model: FakeModel) -> None:
    model.steps = [say("Hello ", "there.")]

    reply = await ask(live, session_id="s1")

    turn = await in_db(Turn.objects.get)()
    assert reply == {
        "session_id": "s1",
        "turn": turn.pk,
        "status": "completed",
        "response": "Hello there.",
    }
    assert turn.origin == Origin.API.value


async def test_parts_of_an_answer_are_joined_by_a_blank_line(live: Api, model: FakeModel) -> None:
    model.steps = [call(("current_time", "{}"), text="Looking."), say("It is late.")]

    reply = await ask(live)

    assert reply["response"] == "Looking.\n\nIt is late."


async def test_a_session_without_a_name_gets_one(live: Api) -> None:
    first, second = await ask(live), await ask(live, session_id="  ")

    assert re.fullmatch(r"api-\d{13}-[0-9a-z]{6}", first["session_id"])
    assert first["session_id"] != second["session_id"]


async def test_a_turn_that_asks_answers_with_what_it_needs(live: Api, model: FakeModel) -> None:
    model.steps = [call(("ask_why", '{"question": "Which disk?"}'), text="One moment.")]

    reply = await ask(live, session_id="s1")

    assert reply["status"] == "waiting"
    assert reply["response"] == "One moment.\n\n✋ Input needed: Which disk?"
    [pending] = reply["pending"]
    assert (pending["kind"], pending["question"]) == ("question", "Which disk?")
    assert pending["interrupt_id"]


async def test_the_answer_lets_the_same_call_go_on(live: Api, model: FakeModel) -> None:
    model.steps = [call(("ask_why", "{}")), say("Because of it.")]
    reply = await ask(live, session_id="s1")
    body = {"interrupt_id": reply["pending"][0]["interrupt_id"], "value": "it"}

    answered = await live.post("/api/chat/sessions/s1/answer", body)
    again = await live.post("/api/chat/sessions/s1/answer", {**body, "value": "that"})

    assert (answered.status_code, answered.json()) == (200, {"ok": True, "status": "answered"})
    assert again.status_code == 409
    assert "already" in again.json()["detail"]
    await settle("s1")
    assert [m["content"] for m in model.requests[-1].messages if m["role"] == "tool"] == ["it"]


async def settle(key: str) -> None:
    """Wait until a turn of the session has ended."""
    ended = Turn.objects.filter(session__key=key).ended()
    await until(in_db(ended.exists))


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ({"interrupt_id": "q-none", "value": "x"}, 404, "no such question"),
        ({"interrupt_id": "", "value": "x"}, 404, "no such question"),
        ({"value": "x"}, 400, "interrupt_id"),
        ({"interrupt_id": "ID"}, 400, "value"),
        ({"interrupt_id": "ID", "value": "  "}, 400, "text"),
        ({"interrupt_id": "ID", "value": 7}, 400, "text"),
        ({"interrupt_id": "ID", "value": "x", "digest": "0" * 64}, 400, "changed"),
    ],
)
async def test_a_wrong_answer_changes_nothing(
    live: Api, model: FakeModel, body: dict[str, Any], status: int, word: str
) -> None:
    model.steps = [call(("ask_why", "{}"))]
    reply = await ask(live, session_id="s1")
    if body.get("interrupt_id") == "ID":
        body = {**body, "interrupt_id": reply["pending"][0]["interrupt_id"]}

    response = await live.post("/api/chat/sessions/s1/answer", body)

    assert response.status_code == status
    assert word in response.json()["detail"]
    assert len(await in_db(pauses.open_in_session)((await row("s1")).pk)) == 1


async def test_a_form_that_is_wrong_names_the_fields(live: Api, model: FakeModel) -> None:
    model.steps = [call(("ask_form", "{}"))]
    reply = await ask(live, session_id="s1")
    number = reply["pending"][0]["interrupt_id"]

    wrong = {"interrupt_id": number, "value": {"size": "big"}}
    response = await live.post("/api/chat/sessions/s1/answer", wrong)

    assert response.status_code == 422
    assert set(response.json()["errors"]) == {"engine", "size"}


async def test_a_message_while_a_question_is_open_is_held(live: Api, model: FakeModel) -> None:
    model.steps = [call(("ask_why", "{}")), say("Thanks.")]
    first = await ask(live, session_id="s1")

    second = await ask(live, "and hurry", session_id="s1")

    assert (second["turn"], second["status"]) == (first["turn"], "waiting")
    assert second["response"] == "✋ Input needed first: why? Your message is queued."
    assert len(second["pending"]) == 1


async def test_hitl_resume_answers_the_open_question_and_waits(live: Api, model: FakeModel) -> None:
    model.steps = [call(("ask_why", "{}")), say("Then so.")]
    first = await ask(live, session_id="s1")

    second = await ask(live, "because", session_id="s1", hitl_resume=True)

    assert (second["turn"], second["status"]) == (first["turn"], "completed")
    assert second["response"].endswith("Then so.")


async def test_hitl_resume_with_nothing_open_is_an_ordinary_message(
    live: Api, model: FakeModel
) -> None:
    model.steps = [say("Fine.")]

    reply = await ask(live, "because", session_id="s1", hitl_resume=True)

    assert (reply["status"], reply["response"]) == ("completed", "Fine.")


async def test_hitl_resume_answers_a_form_with_json_only(live: Api, model: FakeModel) -> None:
    model.steps = [call(("ask_form", "{}")), say("Stored.")]
    await ask(live, session_id="s1")

    path = "/api/chat"
    prose = await live.post(path, {"message": "postgres", "session_id": "s1", "hitl_resume": True})
    json = await ask(live, '{"engine": "pg"}', session_id="s1", hitl_resume=True)

    assert (prose.status_code, "JSON" in prose.json()["detail"]) == (400, True)
    assert json["response"].endswith("Stored.")


async def test_dismissing_tells_the_agent_and_goes_on(live: Api, model: FakeModel) -> None:
    model.steps = [call(("ask_why", "{}")), say("Without you then.")]
    reply = await ask(live, session_id="s1")
    body = {"interrupt_id": reply["pending"][0]["interrupt_id"]}

    response = await live.post("/api/chat/sessions/s1/dismiss", body)

    assert response.json() == {"ok": True, "status": "dismissed"}
    await settle("s1")
    [told] = [m["content"] for m in model.requests[-1].messages if m["role"] == "tool"]
    assert told.startswith("[dismissed]")


async def test_the_same_client_id_is_one_turn_and_one_answer(live: Api, model: FakeModel) -> None:
    model.steps = [say("First."), say("Second.")]

    first = await ask(live, session_id="s1", client_id="m1")
    second = await ask(live, session_id="s1", client_id="m1")

    assert second == first
    assert len(model.requests) == 1


async def test_two_at_once_with_one_client_id_wait_for_the_same_turn(
    live: Api, model: FakeModel
) -> None:
    model.steps = [hang("Slow.")]

    async def release() -> None:
        await asyncio.sleep(0.3)
        model.gate.set()

    one, two, _ = await asyncio.gather(
        ask(live, session_id="s1", client_id="m1"),
        ask(live, session_id="s1", client_id="m1"),
        release(),
    )

    assert one == two
    assert one["response"] == "Slow."


async def test_a_failed_turn_is_told_with_its_reason(live: Api, model: FakeModel) -> None:
    model.steps = [fail("the gateway is away", after="Well,")]

    reply = await ask(live)

    assert (reply["status"], reply["response"]) == ("failed", "Well,")
    assert "the gateway is away" in reply["error"]


async def test_a_client_that_goes_away_does_not_stop_the_turn(live: Api, model: FakeModel) -> None:
    model.steps = [hang("Still here.")]
    asking = asyncio.create_task(live.post("/api/chat", {"message": "hi", "session_id": "s1"}))
    await until(lambda: model.requests)

    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    model.gate.set()
    await settle("s1")

    turn = await in_db(Turn.objects.get)()
    assert (turn.status, turn.answer) == ("completed", "Still here.")


async def test_stop_ends_the_turn_and_the_wait(live: Api, model: FakeModel) -> None:
    model.steps = [hang("never")]
    asking = asyncio.create_task(ask(live, session_id="s1"))
    await until(lambda: model.requests)

    stopped = await live.post("/api/chat/sessions/s1/stop")
    reply = await asyncio.wait_for(asking, 5)
    again = await live.post("/api/chat/sessions/s1/stop")

    assert stopped.json() == {"ok": True, "stopped": True}
    assert reply["status"] == "stopped"
    assert again.json() == {"ok": True, "stopped": False}


async def test_a_session_that_is_deleted_ends_the_wait(
    live: Api, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("protoagent.api.waiting.LOOK_EVERY_S", 0.05)
    session = await in_db(lambda: sessions.ensure(agents.current(), "s1"))()
    await in_db(lambda: turns.accept(session, turns.Message("other"), holder="h:1:b"))()
    asking = asyncio.create_task(live.post("/api/chat", {"message": "hi", "session_id": "s1"}))
    await asyncio.sleep(0.3)

    await in_db(lambda: sessions.delete(ChatSession.objects.get(key="s1")))()
    response = await asyncio.wait_for(asking, 5)

    assert response.status_code == 404
    assert "deleted" in response.json()["detail"]


async def test_steering_a_running_turn_can_be_listed_and_withdrawn(
    live: Api, model: FakeModel
) -> None:
    model.steps = [hang("done")]
    asking = asyncio.create_task(ask(live, session_id="s1"))
    await until(lambda: model.requests)
    path = "/api/chat/sessions/s1/steer"

    sent = (await live.post(path, {"text": "shorter"})).json()
    listed = (await live.get(path)).json()
    removed = (await live.delete(f"{path}/{sent['id']}")).json()
    again = (await live.delete(f"{path}/{sent['id']}")).json()
    unknown = (await live.delete(f"{path}/m-none")).json()
    model.gate.set()
    await asking

    assert (sent["ok"], sent["pending"]) == (True, 1)
    assert [(m["id"], m["text"], m["mode"]) for m in listed["messages"]] == [
        (sent["id"], "shorter", "steer")
    ]
    assert removed == {"removed": True, "pending": 0}
    assert again == unknown == {"removed": False, "pending": 0}


async def test_steering_needs_a_turn_and_a_text(live: Api, model: FakeModel) -> None:
    await ask(live, session_id="s1")

    nothing_runs = await live.post("/api/chat/sessions/s1/steer", {"text": "hi"})
    blank = await live.post("/api/chat/sessions/s1/steer", {"text": " "})

    assert nothing_runs.status_code == 404
    assert blank.status_code == 400


async def test_incognito_and_model_reach_the_session_and_the_turn(
    live: Api, model: FakeModel
) -> None:
    await ask(live, session_id="s1", incognito=True, model="special")

    session = await row("s1")
    turn = await in_db(Turn.objects.get)()
    assert (session.incognito, turn.model) == (True, "special")
