"""The Messages API: translation both ways, its stream, its errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from protoagent.core.errors import ModelFailed
from protoagent.providers.anthropic import AnthropicModel, translate
from protoagent.providers.base import CallRequest, ModelReply, ModelRequest, Usage
from tests.providers.conftest import CLOSE, ReplayMaker, streamed, whole
from tests.providers.sinks import Collector

KEY = "sk-ant-very-secret-1"
CACHED = {"cache_control": {"type": "ephemeral"}}


def model(base: str, name: str = "claude-x") -> AnthropicModel:
    return AnthropicModel(base=base, provider="anthropic", name=name, key=KEY, timeout_s=5)


async def ask(base: str, sink: Collector | None = None, **fields: Any) -> ModelReply:
    request = ModelRequest([{"role": "user", "content": "hi"}], **fields)
    return await model(base).complete(request, sink or Collector())


START = {
    "type": "message_start",
    "message": {
        "usage": {
            "input_tokens": 10,
            "cache_read_input_tokens": 100,
            "cache_creation_input_tokens": 5,
            "output_tokens": 1,
        }
    },
}
STOP = {"type": "message_stop"}


def text(value: str, index: int = 0) -> dict[str, Any]:
    delta = {"type": "text_delta", "text": value}
    return {"type": "content_block_delta", "index": index, "delta": delta}


def begin(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def ends(reason: str, output: int = 7) -> dict[str, Any]:
    usage = {"output_tokens": output}
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


ANSWER = streamed(
    START,
    begin(0, type="text", text=""),
    {"type": "ping"},
    text("Hello"),
    text(" there"),
    {"type": "content_block_stop", "index": 0},
    ends("end_turn"),
    STOP,
)


async def test_an_answer_is_streamed_with_its_usage(replay: ReplayMaker) -> None:
    server, sink = replay(ANSWER), Collector()

    reply = await ask(server.base, sink)

    assert reply.text == sink.whole == "Hello there"
    assert reply.usage == Usage(input_tokens=115, output_tokens=7, cached_tokens=100)
    assert reply.finish_reason == "stop"


async def test_the_request_has_key_version_and_a_limit(replay: ReplayMaker) -> None:
    server = replay(ANSWER)
    function = {"name": "t", "description": "d", "parameters": {"type": "object"}}

    await ask(
        server.base,
        tools=[{"type": "function", "function": function}],
        options={"temperature": 1.5, "max_tokens": 99, "reasoning_effort": "high"},
    )

    request = server.requests[0]
    assert request.path == "/v1/messages"
    assert request.headers["x-api-key"] == KEY
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert request.json() == {
        "model": "claude-x",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", **CACHED}]}],
        "stream": True,
        "max_tokens": 99,
        "temperature": 1,
        "tools": [{"name": "t", "description": "d", "input_schema": {"type": "object"}}],
    }


async def test_text_thinking_and_parallel_calls_are_told_apart(replay: ReplayMaker) -> None:
    def args(index: int, part: str) -> dict[str, Any]:
        delta = {"type": "input_json_delta", "partial_json": part}
        return {"type": "content_block_delta", "index": index, "delta": delta}

    thought = {"type": "thinking_delta", "thinking": "hmm"}
    server, sink = (
        replay(
            streamed(
                START,
                begin(0, type="thinking", thinking=""),
                {"type": "content_block_delta", "index": 0, "delta": thought},
                begin(1, type="text", text=""),
                text("Let me see.", 1),
                begin(2, type="tool_use", id="toolu_1", name="one", input={}),
                args(2, '{"x":'),
                args(2, " 1}"),
                begin(3, type="tool_use", id="toolu_2", name="two", input={}),
                ends("tool_use"),
                STOP,
            )
        ),
        Collector(),
    )

    reply = await ask(server.base, sink)

    assert reply.text == sink.whole == "Let me see."
    assert reply.calls == (
        CallRequest("toolu_1", "one", '{"x": 1}'),
        CallRequest("toolu_2", "two", "{}"),
    )
    assert reply.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("max_tokens", "length"), ("refusal", "content_filter"), ("new_reason", "new_reason")],
)
async def test_reasons_to_stop_are_translated(replay: ReplayMaker, reason, finish) -> None:
    server = replay(streamed(START, text("hi"), ends(reason), STOP))

    assert (await ask(server.base)).finish_reason == finish


async def test_an_answer_that_is_not_streamed_is_accepted(replay: ReplayMaker) -> None:
    blocks = [
        {"type": "text", "text": "hi"},
        {"type": "tool_use", "id": "t1", "name": "one", "input": {"x": 1}},
    ]
    usage = {"input_tokens": 3, "output_tokens": 4}
    body = {"type": "message", "content": blocks, "stop_reason": "tool_use", "usage": usage}

    reply = await ask(replay(whole(body)).base)

    assert (reply.text, reply.usage) == ("hi", Usage(3, 4))
    assert reply.calls == (CallRequest("t1", "one", '{"x": 1}'),)


def error(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


@pytest.mark.parametrize(
    ("script", "sentence", "retryable", "overflow"),
    [
        (whole(error("authentication_error", "bad"), 401), "was refused (401)", False, False),
        (whole(error("overloaded_error", "busy"), 529), "HTTP 529: busy", True, False),
        (whole(error("not_found_error", "model: x"), 404), "does not know the model", False, False),
        (
            whole(error("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"), 400),
            "too long",
            False,
            True,
        ),
        (streamed(START, error("overloaded_error", "busy")), "the model failed: busy", True, False),
        (
            streamed(START, text("hi"), error("overloaded_error", "busy")),
            "the model failed: busy",
            False,
            False,
        ),
        (streamed(START), "sent an answer without an end", True, False),
        (streamed(START, text("hi")), "sent an answer without an end", False, False),
        (streamed({"nothing": 1}), "sent an event of an unknown form", True, False),
        ([*streamed(START, text("hi"))[:-1], CLOSE], "broke off", False, False),
        (whole({"x": 1}), "the model failed", True, False),
    ],
)
async def test_failures_are_named(
    replay: ReplayMaker, script: Any, sentence: str, retryable: bool, overflow: bool
) -> None:
    with pytest.raises(ModelFailed) as caught:
        await ask(replay(script).base)

    assert sentence in str(caught.value)
    assert (caught.value.retryable, caught.value.overflow) == (retryable, overflow)
    assert KEY not in str(caught.value)


async def test_a_limit_above_the_models_own_is_lowered_from_then_on(replay: ReplayMaker) -> None:
    said = "max_tokens: 32768 > 8192, which is the maximum allowed number of output tokens"
    server = replay(whole(error("invalid_request_error", said), 400), ANSWER)

    for _ in range(2):
        await ask(server.base)

    assert [body["max_tokens"] for body in server.bodies] == [32768, 8192, 8192]


async def test_one_of_two_options_that_exclude_each_other_is_dropped(replay: ReplayMaker) -> None:
    said = "`temperature` and `top_p` cannot both be specified for this model."
    server = replay(whole(error("invalid_request_error", said), 400), ANSWER)

    await ask(server.base, options={"temperature": 0.2, "top_p": 0.9})

    assert "top_p" not in server.bodies[1] and server.bodies[1]["temperature"] == 0.2


async def test_without_a_name_the_newest_sonnet_is_used(replay: ReplayMaker) -> None:
    listed = {"data": [{"id": "claude-opus-9"}, {"id": "claude-sonnet-9"}, {"id": "claude-3"}]}
    server = replay(whole(listed), ANSWER)

    reply = await model(server.base, name="").complete(
        ModelRequest([{"role": "user", "content": "hi"}]), Collector()
    )

    assert reply.model == server.bodies[1]["model"] == "claude-sonnet-9"


def call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_a_conversation_is_translated_with_its_calls_and_results() -> None:
    system, messages = translate(
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "go"},
            {
                "role": "assistant",
                "content": "Let me see. \n",
                "tool_calls": [call("c:1", "one", '{"x": 1}'), call("c2", "two", "nonsense")],
            },
            {"role": "tool", "tool_call_id": "c:1", "content": "fine"},
            {"role": "tool", "tool_call_id": "c2", "content": "Error: no"},
            {"role": "user", "content": "and?"},
        ]
    )

    assert system == [{"type": "text", "text": "Be brief.", **CACHED}]
    assert messages == [
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me see. \n"},
                {"type": "tool_use", "id": "c_1", "name": "one", "input": {"x": 1}},
                {
                    "type": "tool_use",
                    "id": "c2",
                    "name": "two",
                    "input": {"unreadable": "nonsense"},
                },
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c_1",
                    "content": [{"type": "text", "text": "fine"}],
                },
                {
                    "type": "tool_result",
                    "tool_use_id": "c2",
                    "content": [{"type": "text", "text": "Error: no"}],
                    "is_error": True,
                },
                {"type": "text", "text": "and?", **CACHED},
            ],
        },
    ]


def test_results_come_first_even_when_a_message_came_before_them() -> None:
    _, messages = translate(
        [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": None, "tool_calls": [call("c1", "one", "{}")]},
            {"role": "user", "content": "wait"},
            {"role": "tool", "tool_call_id": "c1", "content": ""},
        ]
    )

    assert [block["type"] for block in messages[-1]["content"]] == ["tool_result", "text"]


def test_what_the_api_refuses_is_left_out() -> None:
    _, messages = translate(
        [
            {"role": "assistant", "content": "Hello."},
            {"role": "user", "content": ""},
            {"role": "user", "content": [{"type": "text", "text": "  "}]},
            {"role": "assistant", "content": "Bye. \n"},
        ]
    )

    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert [block["text"] for block in messages[1]["content"]] == ["Hello.", "Bye."]


def test_roles_alternate() -> None:
    _, messages = translate([{"role": "user", "content": word} for word in ("a", "b", "c")])

    assert len(messages) == 1
    assert [block["text"] for block in messages[0]["content"]] == ["a", "b", "c"]


def test_images_are_passed_on() -> None:
    data = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    link = {"type": "image_url", "image_url": "https://example.org/a.png"}
    _, messages = translate([{"role": "user", "content": [data, link]}])

    sources = [block["source"] for block in messages[0]["content"]]
    assert sources == [
        {"type": "base64", "media_type": "image/png", "data": "AAAA"},
        {"type": "url", "url": "https://example.org/a.png"},
    ]


def test_an_empty_conversation_is_empty() -> None:
    assert translate([]) == ([], [])


def test_translating_leaves_the_messages_as_they_are() -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    before = json.dumps(messages)

    translate(messages)

    assert json.dumps(messages) == before
