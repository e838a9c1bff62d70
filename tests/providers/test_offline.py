"""The offline model: what it understands, what it says, and that it never claims to be one."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from protoagent.core import clock
from protoagent.providers.base import ModelReply, ModelRequest
from protoagent.providers.scripted import OfflineModel
from tests.providers.sinks import Collector

SEVEN = (
    "current_time",
    "calculator",
    "web_search",
    "fetch_url",
    "ask_human",
    "request_user_input",
    "show_component",
)
LATER = (
    "memory_ingest",
    "memory_recall",
    "memory_list",
    "schedule_task",
    "list_schedules",
    "task_create",
    "task_list",
    "check_inbox",
)


def tools(*names: str) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": name, "parameters": {}}} for name in names]


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def ask(*messages: dict[str, Any], names: tuple[str, ...] = SEVEN + LATER) -> ModelReply:
    sink = Collector()
    reply = await OfflineModel().complete(ModelRequest(list(messages), tools(*names)), sink)
    assert sink.whole == reply.text
    return reply


async def wishes(text: str, names: tuple[str, ...] = SEVEN + LATER) -> list[tuple[str, Any]]:
    reply = await ask(user(text), names=names)
    return [(call.name, json.loads(call.arguments)) for call in reply.calls]


async def after(tool: str, result: str, text: str = "go") -> str:
    call = {"id": "c1", "type": "function", "function": {"name": tool, "arguments": "{}"}}
    reply = await ask(
        user(text),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": result},
    )
    assert reply.calls == ()
    return reply.text


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("what is 2 ** 10?", "2 ** 10"),
        ("What's 12% of 80", "80 * 12 / 100"),
        ("calculate (1 + 2) * 3", "(1 + 2) * 3"),
        ("2+2", "2+2"),
        ("-5 + 3 =", "-5 + 3"),
        ("what is 17 times 23?", "17 * 23"),
        ("what is 7 squared", "7 ** 2"),
        ("What is 2 to the power of 100?", "2 ** 100"),
        ("how much is 1,000 plus 2,500?", "1000 + 2500"),
        ("compute 3 x 4 please", "3 * 4"),
        ("what is 10 // 3?", "10 // 3"),
        ("could you work out 7.5 divided by 2.5", "7.5 / 2.5"),
    ],
)
async def test_a_sum_asks_for_the_calculator(text: str, expression: str) -> None:
    assert await wishes(text) == [("calculator", {"expression": expression})]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("What time is it?", {}),
        ("what time is it in Tokyo?", {"timezone": "Asia/Tokyo"}),
        ("What is the current time in New York right now?", {"timezone": "America/New_York"}),
        ("time in Germany", {"timezone": "Europe/Berlin"}),
        ("what's the date in Europe/Paris", {"timezone": "Europe/Paris"}),
        ("what time is it in Atlantis?", {"timezone": "Atlantis"}),
    ],
)
async def test_a_question_for_the_time_asks_for_the_clock(text: str, arguments: Any) -> None:
    assert await wishes(text) == [("current_time", arguments)]


@pytest.mark.parametrize(
    ("text", "tool", "arguments"),
    [
        ("remember that the key is red", "memory_ingest", {"content": "the key is red"}),
        ("What do you know about the key?", "memory_recall", {"query": "the key"}),
        ("what do you remember?", "memory_list", {}),
        ("add a task to water the plants", "task_create", {"title": "water the plants"}),
        ("List my tasks", "task_list", {}),
        ("list my reminders", "list_schedules", {}),
        ("check my inbox", "check_inbox", {}),
        ("search the web for tall trees", "web_search", {"query": "tall trees"}),
        ("read https://example.org/a?b=c", "fetch_url", {"url": "https://example.org/a?b=c"}),
        ("ask me what my name is", "ask_human", {"question": "What my name is?"}),
        (
            "ask me a question",
            "ask_human",
            {"question": "What would you like to tell me?"},
        ),
    ],
)
async def test_plain_requests_ask_for_their_tool(text: str, tool: str, arguments: Any) -> None:
    assert await wishes(text) == [(tool, arguments)]


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("in 20 minutes", "2026-03-01T10:20:00+00:00"),
        ("in 2 days", "2026-03-03T10:00:00+00:00"),
        ("at 11:30", "2026-03-01T11:30:00+00:00"),
        ("at 9", "2026-03-02T09:00:00+00:00"),
        ("tomorrow at 5pm", "2026-03-02T17:00:00+00:00"),
        ("tomorrow", "2026-03-02T09:00:00+00:00"),
        ("every day at 18:30", "30 18 * * *"),
        ("every hour", "0 * * * *"),
        ("every 15 minutes", "*/15 * * * *"),
    ],
)
async def test_a_reminder_gets_its_moment(monkeypatch, when: str, expected: str) -> None:
    monkeypatch.setattr(clock, "now", lambda: datetime(2026, 3, 1, 10, tzinfo=UTC))

    found = await wishes(f"Remind me to stretch {when}.")

    assert found == [("schedule_task", {"prompt": "Remind me to stretch.", "when": expected})]


@pytest.mark.parametrize("when", ["", "in 3 months", "at 25:00", "every blue moon", "at 13pm"])
async def test_a_reminder_without_a_clear_moment_asks_for_one(when: str) -> None:
    reply = await ask(user(f"remind me to stretch {when}"))

    assert reply.calls == ()
    assert "Say when" in reply.text


async def test_several_tool_lines_are_parallel_calls_with_ids_of_their_own() -> None:
    reply = await ask(user('/tool calculator {"expression": "1 + 1"}\n/tool current_time\n'))

    assert [(c.name, json.loads(c.arguments)) for c in reply.calls] == [
        ("calculator", {"expression": "1 + 1"}),
        ("current_time", {}),
    ]
    assert reply.finish_reason == "tool_calls"
    assert len({call.call_id for call in reply.calls}) == 2


async def test_the_arguments_of_a_tool_line_may_span_lines() -> None:
    found = await wishes('/tool request_user_input {"title": "Trip",\n "steps": [\n{}\n]}')

    assert found == [("request_user_input", {"title": "Trip", "steps": [{}]})]


@pytest.mark.parametrize("rest", ["{", "[1]", "soon", '{"a": }'])
async def test_a_tool_line_with_bad_arguments_runs_nothing(rest: str) -> None:
    reply = await ask(user(f"/tool current_time\n/tool calculator {rest}"))

    assert reply.calls == ()
    assert "one JSON object" in reply.text


async def test_a_tool_that_is_not_bound_is_not_asked_for() -> None:
    reply = await ask(user("/tool launch {}"))
    assert reply.calls == () and "There is no tool `launch` here." in reply.text

    reply = await ask(user("remember that the key is red"), names=SEVEN)
    assert reply.calls == () and "no tool `memory_ingest`" in reply.text


async def test_a_time_and_a_sum_in_one_sentence_are_two_calls() -> None:
    found = await wishes("What time is it in Oslo and what is 3 * 4?")

    assert found == [
        ("current_time", {"timezone": "Europe/Oslo"}),
        ("calculator", {"expression": "3 * 4"}),
    ]


@pytest.mark.parametrize(
    "text", ["hello", "", "we met on 2024-01-05", "10-20 people came", "tell me a story"]
)
async def test_anything_else_is_told_that_no_model_is_connected(text: str) -> None:
    reply = await ask(user(text), names=SEVEN)

    assert reply.calls == ()
    assert reply.text.startswith("No model is connected.")
    for words in ("OPENAI_API_KEY", "PROTOAGENT__MODEL__API_BASE", "model.provider: ollama"):
        assert words in reply.text
    assert "2 ** 10" in reply.text
    assert "water the plants" not in reply.text


async def test_the_explanation_offers_nothing_that_is_not_bound() -> None:
    reply = await ask(user("hello"), names=())

    assert "no tool is offered" in reply.text
    assert "/tool" not in reply.text


@pytest.mark.parametrize(
    ("tool", "result", "sentence"),
    [
        ("calculator", "2 ** 10 = 1024", "2 ** 10 = 1024."),
        (
            "current_time",
            "2026-04-17T13:23:42-04:00 (America/New_York)\nHuman: Friday, April 17 2026, 13:23 EDT",
            "It is Friday, April 17 2026, 13:23 EDT (America/New_York).",
        ),
        ("ask_human", "Ada", "You answered: Ada"),
        ("ask_human", "[dismissed] The operator closed it.", "You closed the question"),
        ("ask_human", "[no interactive operator available] Go on.", "Nobody is there to answer"),
        ("check_inbox", "Inbox empty.", "`check_inbox` answered: Inbox empty."),
        ("web_search", "1. a\n2. b", "`web_search` answered:\n\n1. a\n2. b"),
        ("calculator", "Error: division by zero", "`calculator` failed: division by zero"),
        ("run", "Error: interrupted, outcome unknown. Check.", "was interrupted"),
        ("run", "Cancelled by the operator. Do not repeat it.", "The call of `run` was cancelled."),
        ("run", "The operator declined this call; it was not executed.", "You declined `run`"),
        ("run", "", "`run` answered: (nothing)"),
    ],
)
async def test_a_result_becomes_a_sentence(tool: str, result: str, sentence: str) -> None:
    assert sentence in await after(tool, result)


async def test_results_of_parallel_calls_are_all_told() -> None:
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": "calculator", "arguments": "{}"}}
        for n in (1, 2)
    ]
    reply = await ask(
        user("go"),
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "1 + 1 = 2"},
        {"role": "tool", "tool_call_id": "c2", "content": "2 + 2 = 4"},
    )

    assert reply.text == "1 + 1 = 2.\n\n2 + 2 = 4."


async def test_a_message_that_came_while_tools_ran_is_answered_itself() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "calculator", "arguments": "{}"}}
    reply = await ask(
        user("what is 1 + 1?"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "1 + 1 = 2"},
        user("what is 3 * 3?"),
    )

    assert [json.loads(call.arguments) for call in reply.calls] == [{"expression": "3 * 3"}]


async def test_injected_context_is_not_taken_for_the_request() -> None:
    frame = user("<injected_context>\nwhat is 9 * 9?\n</injected_context>")

    reply = await ask(user("what is 2 + 2?"), frame)

    assert [json.loads(call.arguments) for call in reply.calls] == [{"expression": "2 + 2"}]


async def test_a_message_sent_while_the_model_works_is_read_without_its_frame() -> None:
    reply = await ask(user("[message from the operator while you work]\nremember that it rains"))

    assert [json.loads(call.arguments) for call in reply.calls] == [{"content": "it rains"}]


async def test_a_notice_after_a_result_does_not_hide_the_result() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "calculator", "arguments": "{}"}}
    reply = await ask(
        user("what is 1 + 1?"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "1 + 1 = 2"},
        user("[notice] This turn has used 25 rounds of tools."),
    )

    assert reply.text == "1 + 1 = 2."


async def test_content_in_parts_is_read() -> None:
    reply = await ask(user([{"type": "text", "text": "what is 2 + 2?"}, {"type": "image_url"}]))

    assert [call.name for call in reply.calls] == ["calculator"]


async def test_the_answer_comes_word_by_word() -> None:
    sink = Collector()

    await OfflineModel().complete(ModelRequest([user("hello")]), sink)

    assert len(sink.deltas) > 50
    assert all(len(delta.split()) == 1 for delta in sink.deltas)


@pytest.mark.parametrize(
    "text",
    [
        "1" * 200_000,
        "what is " + "1+" * 100_000,
        "what is " + "- " * 100_000,
        "what time in " + "a " * 100_000,
        "remind me to " + "in 1 " * 50_000,
        "recall " + "?" * 200_000,
        "/tool x " + "[" * 100_000,
    ],
)
@pytest.mark.timeout(5)
async def test_hostile_text_takes_no_time(text: str) -> None:
    assert await ask(user(text)) is not None
