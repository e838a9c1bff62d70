"""Refusals in plain sentences: what to do, whether to retry, and never a key."""

from __future__ import annotations

import json

import pytest

from protoagent.providers.faults import Faults

KEY = "sk-very-secret-key-1"
FAULTS = Faults("http://ada:pw@gateway:4000/v1", "big-model", KEY, "model.api_key")


def body(message: str, **more: str) -> bytes:
    return json.dumps({"error": {"message": message, **more}}).encode()


@pytest.mark.parametrize(
    ("status", "content", "sentence", "retryable"),
    [
        (
            401,
            body(f"bad key {KEY}"),
            "the key for http://gateway:4000/v1 was refused (401)",
            False,
        ),
        (403, body("no such region"), "refuses the request (403): no such region", False),
        (404, body("unknown"), "does not know the model 'big-model' (404): unknown", False),
        (404, b"<html>404</html>", "nothing answers at http://gateway:4000/v1 (404)", False),
        (429, body("slow down"), "is over its rate limit (429): slow down", True),
        (429, body("paid up", code="insufficient_quota"), "is used up (429): paid up", False),
        (500, b"oops", "answers big-model with HTTP 500: oops", True),
        (502, b"<html>bad gateway</html>", "answers big-model with HTTP 502", True),
        (503, b"", "HTTP 503", True),
        (408, b"", "HTTP 408", True),
        (418, body("teapot"), "HTTP 418: teapot", False),
        (400, body("bad field"), "HTTP 400: bad field", False),
        (400, b'{"detail": [{"msg": "x"}]}', 'HTTP 400: [{"msg": "x"}]', False),
        (400, b'{"error": "plain"}', "HTTP 400: plain", False),
        (400, b'{"error": {"error": {"message": "deep"}}}', "HTTP 400: deep", False),
        (301, b"", "answers with a redirect (301)", False),
    ],
)
def test_a_status_becomes_a_sentence(status, content, sentence, retryable) -> None:
    error = FAULTS.of_status(status, content)

    assert sentence in str(error)
    assert error.retryable is retryable
    assert not error.overflow
    assert KEY not in str(error) and "pw" not in str(error)


def test_a_refused_call_without_a_key_says_that_one_is_missing() -> None:
    error = Faults("http://gateway/v1", "m").of_status(401, b"")

    assert str(error) == "the key for http://gateway/v1 is missing (401); set model.api_key"


@pytest.mark.parametrize(("wait", "words"), [("7", "wait 7 s"), ("0.5", "wait 0.5 s")])
def test_a_rate_limit_passes_on_how_long_to_wait(wait: str, words: str) -> None:
    assert words in str(FAULTS.of_status(429, b"", {"retry-after": wait}))


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
        "the request exceeds the available context size, try increasing it",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "Input is too long for requested model.",
        "The input token count (1200000) exceeds the maximum number of tokens allowed",
        "context_length_exceeded",
    ],
)
def test_a_conversation_that_does_not_fit_is_recognised(message: str) -> None:
    by_status = FAULTS.of_status(400, body(message))
    in_stream = FAULTS.of_object({"message": message}, has_content=False)

    assert by_status.overflow and not by_status.retryable
    assert in_stream.overflow and not in_stream.retryable


def test_a_body_that_is_too_large_is_an_overflow() -> None:
    assert FAULTS.of_status(413, b"").overflow


def test_a_rate_limit_that_counts_tokens_is_no_overflow() -> None:
    error = FAULTS.of_status(429, body("too many tokens per minute"))

    assert error.retryable and not error.overflow


@pytest.mark.parametrize(
    ("error", "has_content", "retryable"),
    [
        ({"message": "overloaded", "type": "overloaded_error"}, False, True),
        ({"message": "overloaded", "code": 503}, False, True),
        ({"message": "overloaded"}, True, False),
        ({"message": "bad", "code": 400}, False, False),
        ({"message": "bad", "type": "invalid_request_error"}, False, False),
        ({"message": "limit", "code": 429}, False, True),
        ("just a text", False, True),
    ],
)
def test_an_error_inside_a_stream_is_retryable_only_before_content(
    error, has_content, retryable
) -> None:
    assert FAULTS.of_object(error, has_content=has_content).retryable is retryable


def test_whatever_the_server_says_no_key_gets_through() -> None:
    said = f"Incorrect API key provided: {KEY}; did you mean sk-proj-abcdefgh12345678?"

    for error in (
        FAULTS.of_status(400, body(said)),
        FAULTS.of_object({"message": said}, has_content=False),
        FAULTS.of_network(FAULTS.scrub(said), has_content=False),
    ):
        assert KEY not in str(error) and "abcdefgh" not in str(error)


def test_a_long_message_is_cut() -> None:
    assert len(str(FAULTS.of_status(500, b"x" * 10_000))) < 400


@pytest.mark.parametrize(
    ("status", "is_refused"), [(400, True), (413, True), (422, True), (401, False), (500, False)]
)
def test_an_error_tells_whether_the_request_itself_was_refused(status, is_refused):
    assert FAULTS.of_status(status, body("no images here")).refused is is_refused


def test_an_error_within_a_stream_tells_it_too():
    error = {"type": "invalid_request_error", "message": "could not process the image"}

    assert FAULTS.of_object(error, has_content=False).refused
