"""The OpenAI-compatible client against a real HTTP server: what works."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from typing import Any

import pytest

from protoagent.core.errors import ModelFailed
from protoagent.providers import pool, wire
from protoagent.providers.base import ModelRequest, Usage
from tests.fakes.gateway import Gateway
from tests.providers.asking import (
    DONE,
    HI,
    STOP,
    ask,
    asking,
    delta,
    failure,
    model,
)
from tests.providers.conftest import (
    END,
    ReplayMaker,
    chunked,
    event,
    stream_head,
    streamed,
    whole,
)
from tests.providers.sinks import Collector, until


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


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_loops_that_ended_without_closing_leave_nothing(gateway: Gateway) -> None:
    one = model(gateway.base)

    for _ in range(5):
        asyncio.run(one.complete(asking("say 1"), Collector()))
        gc.collect()

    assert len(pool._lanes) <= 2


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
