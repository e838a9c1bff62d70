"""The OpenAI-compatible client against a real HTTP server: what goes wrong, and what is said."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from protoagent.core.errors import ModelFailed
from tests.fakes.gateway import Gateway
from tests.providers.asking import (
    DONE,
    HI,
    KEY,
    STOP,
    ask,
    asking,
    delta,
    failure,
    model,
    refusal,
)
from tests.providers.conftest import (
    CLOSE,
    ReplayMaker,
    chunked,
    event,
    stream_head,
    streamed,
    whole,
)
from tests.providers.sinks import Collector


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


@pytest.mark.parametrize(
    "said",
    [
        "max_tokens is too large: 32768",
        "maximum context length is 8192 tokens. However, you requested 33000 tokens (232 in the "
        "messages, 32768 in the completion).",
    ],
)
async def test_a_limit_that_is_refused_by_both_names_is_dropped(
    replay: ReplayMaker, said: str
) -> None:
    again = said.replace("max_tokens", "max_completion_tokens")
    server = replay(refusal(said), refusal(again), HI)

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
