"""The OpenAI-compatible client against a real HTTP server, well-behaved and otherwise."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import Any

import pytest

from protoagent.core.errors import ModelFailed
from protoagent.providers import pool, wire
from protoagent.providers.base import ModelReply, ModelRequest, Usage
from protoagent.providers.gateway import GatewayModel
from tests.fakes.gateway import Gateway
from tests.providers.conftest import (
    CLOSE,
    END,
    ReplayMaker,
    chunked,
    event,
    stream_head,
    streamed,
    whole,
)
from tests.providers.sinks import Collector, until

KEY = "sk-test-very-secret-1"


def model(base: str, **options: Any) -> GatewayModel:
    values: dict[str, Any] = {"name": "m", "key": KEY, "provider": "openai", "timeout_s": 5}
    return GatewayModel(base=base, **{**values, **options})


def asking(text: str = "hi", **fields: Any) -> ModelRequest:
    return ModelRequest([{"role": "user", "content": text}], **fields)


async def ask(base: str, text: str = "hi", sink: Collector | None = None) -> ModelReply:
    return await model(base).complete(asking(text), sink or Collector())


async def failure(base: str, sink: Collector | None = None, **options: Any) -> ModelFailed:
    with pytest.raises(ModelFailed) as caught:
        await model(base, **options).complete(asking(), sink or Collector())
    assert KEY not in str(caught.value)
    return caught.value


def delta(text: str, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


STOP = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
DONE = b"data: [DONE]\n\n"
HI = streamed(delta("hi"), STOP, DONE)


async def test_an_answer_is_streamed_and_comes_back_whole(gateway: Gateway) -> None:
    sink = Collector()

    reply = await ask(gateway.base, "say 3000\nusage 11 3000 7", sink)

    expected = "".join(f"{number:04d} " for number in range(3000))
    assert sink.whole == reply.text == expected
    assert len(sink.deltas) < 1500
    assert reply.usage == Usage(11, 3000, 7)
    assert (reply.finish_reason, reply.model, reply.calls) == ("stop", "m", ())


async def test_the_request_carries_what_was_asked_and_nothing_else(gateway: Gateway) -> None:
    tool = {"type": "function", "function": {"name": "t", "parameters": {"type": "object"}}}
    options = {"temperature": 0.5, "top_p": None, "reasoning_effort": "max"}

    await model(gateway.base).complete(asking("say 1", tools=[tool], options=options), Collector())

    assert gateway.requests == [
        {
            "model": "m",
            "messages": [{"role": "user", "content": "say 1"}],
            "stream": True,
            "stream_options": {"include_usage": True},
            "tools": [tool],
            "temperature": 0.5,
            "reasoning_effort": "high",
        }
    ]


async def test_each_token_of_a_slow_model_arrives_when_it_is_sent(gateway: Gateway) -> None:
    sink = Collector()

    task = asyncio.ensure_future(ask(gateway.base, "say 20 every 20 ms", sink))
    await asyncio.sleep(0.2)
    so_far = len(sink.deltas)
    await task

    assert 2 <= so_far <= 12
    assert len(sink.deltas) == 20


async def test_tool_calls_are_collected(gateway: Gateway) -> None:
    sink = Collector()

    reply = await ask(gateway.base, 'parallel 3 calculator {"expression": "1 + 1"}', sink)

    assert [call.name for call in reply.calls] == ["calculator"] * 3
    assert [json.loads(call.arguments) for call in reply.calls] == [{"expression": "1 + 1"}] * 3
    assert len({call.call_id for call in reply.calls}) == 3
    assert reply.finish_reason == "tool_calls"
    assert sink.deltas == [] and sink.lives > 0


async def test_forty_streams_at_once_keep_apart(gateway: Gateway) -> None:
    replies = await asyncio.gather(*(ask(gateway.base, f"say {n + 1}") for n in range(40)))

    lengths = [len(reply.text) for reply in replies]
    assert lengths == [5 * (n + 1) for n in range(40)]


async def test_a_character_that_is_cut_by_a_read_stays_whole(replay: ReplayMaker) -> None:
    data = b"data: " + json.dumps(delta("ü 漢 🦉"), ensure_ascii=False).encode() + b"\n\n"
    pieces = [piece for byte in data for piece in (chunked(bytes([byte])), 0.0)]
    server = replay([stream_head(), *pieces, chunked(event(STOP) + DONE), END])

    assert (await ask(server.base)).text == "ü 漢 🦉"


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([delta("hi"), STOP, DONE], id="usual"),
        pytest.param([delta("hi"), STOP], id="without DONE"),
        pytest.param([delta("hi")], id="without DONE and finish_reason"),
        pytest.param([delta("hi", "stop"), b"data:[DONE]\n\n"], id="without spaces"),
        pytest.param([event(delta("hi")).replace(b"\n", b"\r\n"), STOP, DONE], id="CRLF"),
        pytest.param([b": PROCESSING\n\n", delta("hi"), b":\n\n", STOP, DONE], id="comments"),
        pytest.param([b"event: message\n" + event(delta("hi")), DONE], id="event names"),
        pytest.param([event(delta("hi"))[:-2]], id="without the last blank line"),
        pytest.param([delta("hi"), STOP, b'data: {"choices": [{"del'], id="cut at the end"),
        pytest.param([{"choices": []}, delta("hi"), {"x": 1}, b"data: 5\n\n", DONE], id="odd"),
        pytest.param([delta("hi"), {"choices": None}, DONE], id="null"),
    ],
)
async def test_dialects_of_the_stream_are_understood(replay: ReplayMaker, events: Any) -> None:
    server = replay(streamed(*events))

    assert (await ask(server.base)).text == "hi"


MESSAGE = {"role": "assistant", "content": "hi"}
WHOLE = {"choices": [{"message": MESSAGE, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}


async def test_an_answer_that_is_not_streamed_is_accepted(replay: ReplayMaker) -> None:
    server, sink = replay(whole(WHOLE)), Collector()

    reply = await ask(server.base, sink=sink)

    assert (reply.text, sink.whole, reply.usage.input_tokens) == ("hi", "hi", 3)


async def test_a_stream_under_another_content_type_is_accepted(replay: ReplayMaker) -> None:
    server = replay([stream_head("text/plain"), *HI[1:]])

    assert (await ask(server.base)).text == "hi"


async def test_reasoning_is_never_part_of_the_answer(replay: ReplayMaker) -> None:
    thought = {"choices": [{"delta": {"reasoning_content": "hmm"}}]}
    head, first, *rest = streamed(thought, delta("hi"), STOP, DONE)
    server, sink = replay([head, first, 0.05, *rest]), Collector()

    reply = await ask(server.base, sink=sink)

    assert reply.text == sink.whole == "hi"
    assert sink.lives == 1


async def test_connections_are_used_again(replay: ReplayMaker) -> None:
    server = replay(HI)

    for _ in range(5):
        await ask(server.base)

    assert len(server.requests) == 5
    assert len(server.connections) == 1


async def test_a_connection_whose_stream_stays_open_after_its_end_is_given_up(
    replay: ReplayMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "END_GRACE_S", 0.05)
    server = replay([*HI[:-1], 30.0])

    started = time.monotonic()
    replies = [await ask(server.base) for _ in range(2)]

    assert [reply.text for reply in replies] == ["hi", "hi"]
    assert time.monotonic() - started < 5
    assert len(server.connections) == 2


def test_each_event_loop_has_connections_of_its_own(gateway: Gateway) -> None:
    one = model(gateway.base)

    async def once() -> str:
        try:
            return (await one.complete(asking("say 1"), Collector())).text
        finally:
            await pool.close()

    assert [asyncio.run(once()) for _ in range(3)] == ["0000 "] * 3


async def test_cancelling_closes_the_stream_at_once(gateway: Gateway) -> None:
    sink = Collector()
    task = asyncio.ensure_future(ask(gateway.base, "say 1000 every 10 ms", sink))
    await until(lambda: sink.deltas)

    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: gateway.stats["hung_up"])

    assert time.monotonic() - started < 0.5


async def test_a_cancelled_call_leaves_the_next_one_untouched(gateway: Gateway) -> None:
    for _ in range(5):
        task = asyncio.ensure_future(ask(gateway.base, "say 100 every 1 ms"))
        await asyncio.sleep(0.03)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await ask(gateway.base, "say 2")).text == "0000 0001 "


@pytest.mark.parametrize(
    ("status", "sentence", "retryable"),
    [
        (401, "was refused (401)", False),
        (404, "does not know the model 'm' (404)", False),
        (429, "is over its rate limit (429) and asks to wait 7 s", True),
        (500, "HTTP 500", True),
        (503, "HTTP 503", True),
    ],
)
async def test_a_refusal_is_named(gateway: Gateway, status, sentence, retryable) -> None:
    with pytest.raises(ModelFailed) as caught:
        await ask(gateway.base, f"fail {status} retry-after 7")

    assert sentence in str(caught.value)
    assert caught.value.retryable is retryable


async def test_a_server_that_is_not_there_is_named() -> None:
    error = await failure("http://127.0.0.1:9/v1")

    assert "http://127.0.0.1:9/v1 cannot be reached" in str(error)
    assert error.retryable


async def test_silence_ends_the_call(gateway: Gateway) -> None:
    with pytest.raises(ModelFailed, match=r"sent nothing for 0\.2 s") as caught:
        await model(gateway.base, timeout_s=0.2).complete(asking("hang"), Collector())
    assert caught.value.retryable

    sink = Collector()
    with pytest.raises(ModelFailed, match="answer is incomplete") as caught:
        await model(gateway.base, timeout_s=0.2).complete(asking("hang after 3"), sink)
    assert not caught.value.retryable
    assert sink.whole == "0000 0001 0002 "


async def test_a_dropped_connection_may_be_retried_only_before_content(gateway: Gateway) -> None:
    with pytest.raises(ModelFailed) as caught:
        await ask(gateway.base, "drop after 0\nsay 5")
    assert caught.value.retryable

    sink = Collector()
    with pytest.raises(ModelFailed) as caught:
        await ask(gateway.base, "drop after 2\nsay 5", sink)
    assert not caught.value.retryable
    assert sink.whole == "0000 0001 "


async def test_a_connection_lost_after_the_finish_does_not_matter(replay: ReplayMaker) -> None:
    server = replay([stream_head(), chunked(event(delta("hi"))), chunked(event(STOP)), CLOSE])

    assert (await ask(server.base)).text == "hi"


async def test_a_body_that_ends_by_closing_must_have_finished(replay: ReplayMaker) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

    server = replay([head, event(delta("hi")), event(STOP), CLOSE])
    assert (await ask(server.base)).text == "hi"

    server, sink = replay([head, event(delta("hi")), CLOSE]), Collector()
    error = await failure(server.base, sink)
    assert "the end of the answer is missing" in str(error) and not error.retryable


@pytest.mark.parametrize(
    ("script", "sentence", "retryable"),
    [
        (streamed({"error": {"message": "overloaded"}}), "the model failed: overloaded", True),
        (
            streamed(delta("hi"), {"error": {"message": "overloaded"}}),
            "the model failed: overloaded",
            False,
        ),
        (
            streamed({"object": "error", "message": "no", "code": 400}),
            "the model failed: no",
            False,
        ),
        (streamed({"error": {"message": f"key {KEY} is odd"}}), "key [REDACTED] is odd", True),
        (streamed(DONE), "sent an empty answer", True),
        (streamed(), "sent an empty answer", True),
        (streamed(b"data: {nonsense\n\n", STOP), "sent an event that is no JSON", True),
        (streamed({"choices": ["x"]}), "sent an answer of an unknown form", True),
        (whole({"error": {"message": "no"}}), "the model failed: no", True),
        (whole({}), "sent no answer", True),
        (whole(b"<html>Welcome</html>", content_type="text/html"), "with a web page", False),
        (whole(b"OK"), "with something that is no JSON", False),
        (whole(b"", status=204), "HTTP 204", False),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{", CLOSE], "broke off", True),
        ([b"nonsense\r\n\r\n", CLOSE], "broke off", True),
        ([CLOSE], "broke off", True),
    ],
)
async def test_a_useless_answer_is_named(replay: ReplayMaker, script, sentence, retryable) -> None:
    error = await failure(replay(script).base)

    assert sentence in str(error)
    assert error.retryable is retryable


async def test_a_conversation_that_is_too_long_is_told_apart(replay: ReplayMaker) -> None:
    said = {"error": {"message": "maximum context length is 8192 tokens", "code": 400}}

    assert (await failure(replay(whole(said, 400)).base)).overflow
    assert (await failure(replay(streamed(said)).base)).overflow


def refusal(message: str) -> list[Any]:
    return whole({"error": {"message": message}}, 400)


async def test_a_server_that_cannot_report_usage_is_asked_without(replay: ReplayMaker) -> None:
    server = replay(refusal("Unrecognized request argument supplied: stream_options"), HI)

    texts = [(await ask(server.base)).text for _ in range(2)]
    other = (await model(server.base, name="other").complete(asking(), Collector())).text

    assert (*texts, other) == ("hi", "hi", "hi")
    assert ["stream_options" in body for body in server.bodies] == [True, False, False, False]


@pytest.mark.parametrize(
    ("message", "options", "sent"),
    [
        (
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            {"max_tokens": 5},
            {"max_completion_tokens": 5},
        ),
        ("Unsupported value: 'temperature' does not support 0.2", {"temperature": 0.2}, {}),
        ("top_p is not supported", {"temperature": 0.2, "top_p": 1}, {"temperature": 0.2}),
    ],
)
async def test_a_refused_parameter_is_left_out_from_then_on(
    replay: ReplayMaker, message: str, options: dict[str, Any], sent: dict[str, Any]
) -> None:
    server = replay(refusal(message), HI)

    for _ in range(2):
        await model(server.base).complete(asking(options=options), Collector())

    names = ("max_tokens", "max_completion_tokens", "temperature", "top_p")
    for body in server.bodies[1:]:
        assert {name: body[name] for name in names if name in body} == sent
    assert len(server.bodies) == 3


async def test_a_limit_that_is_refused_by_both_names_is_dropped(replay: ReplayMaker) -> None:
    too_large = "max_tokens is too large: 32768"
    server = replay(refusal(too_large), refusal(too_large.replace("max", "max_completion")), HI)

    for _ in range(2):
        await model(server.base).complete(asking(options={"max_tokens": 32768}), Collector())

    assert not {"max_tokens", "max_completion_tokens"} & set(server.bodies[-1])
    assert len(server.bodies) == 4


async def test_a_request_that_stays_refused_is_given_up_and_nothing_is_learned(
    replay: ReplayMaker,
) -> None:
    server = replay(refusal("stream_options: bad request"))

    for _ in range(2):
        error = await failure(server.base)
        assert "HTTP 400" in str(error) and not error.retryable

    assert ["stream_options" in body for body in server.bodies] == [True, False, True, False]


async def test_a_redirect_elsewhere_is_refused(replay: ReplayMaker) -> None:
    head = b"HTTP/1.1 307 X\r\nLocation: http://example.org/v1\r\nContent-Length: 0\r\n\r\n"

    error = await failure(replay([head]).base)

    assert "blocked" in str(error) and not error.retryable


@pytest.mark.parametrize("base", ["http://169.254.169.254/v1", "http://[fe80::1]/v1"])
async def test_a_forbidden_address_is_refused(base: str) -> None:
    error = await failure(base)

    assert "blocked" in str(error) and not error.retryable


@pytest.mark.parametrize("key", ["sk-a\r\nX-Other: 1", "sk-\u00fcber", "sk a"])
async def test_a_key_that_cannot_be_one_is_never_sent(gateway: Gateway, key: str) -> None:
    with pytest.raises(ModelFailed, match="has characters that no key has") as caught:
        await model(gateway.base, key=key).complete(asking(), Collector())

    assert key not in str(caught.value)
    assert not gateway.requests


async def test_the_key_stays_out_of_logs_and_representations(
    replay: ReplayMaker, caplog: pytest.LogCaptureFixture
) -> None:
    server = replay(refusal(f"stream_options is wrong for {KEY}"), HI)
    one = model(server.base)

    with caplog.at_level(logging.DEBUG, "protoagent"):
        await one.complete(asking(), Collector())

    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert "refuses stream_options" in caplog.text
    ours = [r for r in caplog.records if not r.name.startswith(("httpcore", "asyncio"))]
    assert not any(KEY in record.getMessage() for record in ours)
    assert KEY not in repr(one._wire) and KEY not in repr(one.faults)


async def test_without_a_key_no_header_is_sent(replay: ReplayMaker) -> None:
    server = replay(HI)

    await model(server.base, key="").complete(asking(), Collector())

    assert "authorization" not in server.requests[0].headers


async def test_without_a_name_the_first_chat_model_of_the_list_is_used(
    replay: ReplayMaker,
) -> None:
    listed = whole({"data": [{"id": "text-embed-3"}, {"id": "whisper-1"}, {"id": "llama"}]})
    server = replay(listed, HI)
    one = model(server.base, name="")
    assert one.name == "" and "default model" in one.label

    reply = await one.complete(asking(), Collector())
    await one.complete(asking(), Collector())

    assert one.name == reply.model == "llama"
    assert [request.method for request in server.requests] == ["GET", "POST", "POST"]
    assert server.bodies[1]["model"] == "llama"


async def test_a_listed_model_that_is_gone_is_looked_up_again(replay: ReplayMaker) -> None:
    gone = whole({"error": {"message": "unknown model"}}, 404)
    server = replay(whole({"data": [{"id": "old"}]}), gone, whole({"data": [{"id": "new"}]}), HI)
    one = model(server.base, name="")

    with pytest.raises(ModelFailed):
        await one.complete(asking(), Collector())
    reply = await one.complete(asking(), Collector())

    assert reply.model == "new"


async def test_a_server_without_models_asks_for_a_name(replay: ReplayMaker) -> None:
    error = await failure(replay(whole({"data": []})).base, name="")

    assert "lists no model; set model.name" in str(error)


async def test_models_are_listed(gateway: Gateway) -> None:
    assert await model(gateway.base).list_models() == ["fake-model", "fake-small", "fake-embed"]


@pytest.mark.parametrize("body", [{"data": "x"}, [], "x", {"data": [1, {"id": ""}]}])
async def test_a_list_of_models_that_is_none_breaks_nothing(replay: ReplayMaker, body) -> None:
    one = model(replay(whole(body)).base)
    try:
        assert await one.list_models() == []
    except ModelFailed as error:
        assert "does not list models" in str(error)


async def test_text_that_no_encoder_likes_is_sent_all_the_same(gateway: Gateway) -> None:
    messages = [{"role": "user", "content": "say 1"}, {"role": "system", "content": "\ud800"}]
    request = ModelRequest(messages, options={"seed": 2**70})

    reply = await model(gateway.base).complete(request, Collector())

    assert reply.text == "0000 "
    assert gateway.requests[0]["seed"] == 2**70


async def test_ids_of_the_conversation_are_not_given_again(replay: ReplayMaker) -> None:
    call = {"index": 0, "id": "call_0", "function": {"name": "t", "arguments": "{}"}}
    server = replay(streamed({"choices": [{"delta": {"tool_calls": [call]}}]}, STOP, DONE))
    old = {"id": "call_0", "type": "function", "function": {"name": "t", "arguments": "{}"}}
    request = ModelRequest(
        [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": None, "tool_calls": [old]},
            {"role": "tool", "tool_call_id": "call_0", "content": "done"},
        ]
    )

    reply = await model(server.base).complete(request, Collector())

    assert reply.calls[0].call_id != "call_0"
