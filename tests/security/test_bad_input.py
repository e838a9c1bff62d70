"""Bad frames, bodies and addresses get a clear error, and change nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.chat import ChatSocket
from tests.clients.state import stored, unfinished
from tests.services.servers import Server, servers

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]

MIB = 1024 * 1024
KEY = "bad-input"
FORM = {
    "title": "Storage",
    "steps": [{"schema": {"properties": {"engine": {"type": "string"}}, "required": ["engine"]}}],
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with servers() as make:
        yield make()


@pytest.fixture(scope="module")
def interrupt_id(server: Server) -> str:
    """An open form in the session of this module."""
    with ChatSocket(server, KEY, after=0) as socket:
        socket.send("message", text=f"/tool request_user_input {json.dumps(FORM)}")
        asked = socket.until("input.required")
        socket.until("turn.finished", status="waiting")
    return asked["data"]["interrupt_id"]


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


def frame(**fields: Any) -> str:
    return json.dumps(fields)


NOT_JSON = {
    "empty": "",
    "blank": "   ",
    "half an object": '{"type": "ping"',
    "a word": "hello",
    "two values": "{} {}",
    "a comma too many": '{"type": "ping",}',
    "single quotes": "{'type': 'ping'}",
    "a comment": '{"type": "ping"} // x',
    "NaN": '{"type": "message", "text": NaN}',
    "Infinity": '{"type": "answer", "interrupt_id": "x", "value": -Infinity}',
    "beyond a float": '{"type": "answer", "interrupt_id": "x", "value": 1e999}',
    "5,000 digits": f'{{"type": "answer", "interrupt_id": "x", "value": {"9" * 5000}}}',
    "a name twice": '{"type": "message", "text": "a", "text": "b"}',
    "the type twice": '{"type": "message", "type": "stop", "text": "a"}',
    "1,000 levels": f'{{"type": "answer", "interrupt_id": "x", "value": {nested(1000)}}}',
    "100,000 levels": nested(100_000),
    "a byte order mark": '\ufeff{"type": "ping"}',
    "NUL": r'{"type": "message", "text": "a\u0000b"}',
    "NUL in a name": r'{"type": "ping", "a\u0000": 1}',
    "half a pair": r'{"type": "message", "text": "\ud83d"}',
    "the other half": r'{"type": "message", "text": "\ude00 x"}',
    "a raw control character": '{"type": "message", "text": "a\nb"}',
}

NOT_A_FRAME = {
    "a list": "[]",
    "null": "null",
    "a number": "42",
    "a text": '"ping"',
    "no type": "{}",
    "type null": frame(type=None),
    "type number": frame(type=5),
    "type list": frame(type=["ping"]),
    "type object": frame(type={"a": 1}),
    "unknown": frame(type="pling"),
    "another case": frame(type="PING"),
    "a method of the class": frame(type="handle"),
    "an event of the server": frame(type="turn.finished"),
    "4,000 digits": f'{{"type": {"9" * 4000}}}',
}

WRONG_FIELDS = {
    "message without text": frame(type="message"),
    "message blank": frame(type="message", text=" \n\t "),
    "message text number": frame(type="message", text=5),
    "message text list": frame(type="message", text=["a"]),
    "message text null": frame(type="message", text=None),
    "message too long": frame(type="message", text="x" * 300_001),
    "message just too long": frame(type="message", text="x" * (256 * 1024 + 1)),
    "client_id number": frame(type="message", text="a", client_id=5),
    "client_id too long": frame(type="message", text="a", client_id="x" * 129),
    "model list": frame(type="message", text="a", model=["x"]),
    "incognito text": frame(type="message", text="a", incognito="yes"),
    "incognito number": frame(type="message", text="a", incognito=1),
    **{
        f"attachments {what}": frame(type="message", text="a", attachments=value, incognito=True)
        for what, value in (
            ("unknown", ["x"]),
            ("unknown id", ["f0000000000000000"]),
            ("no id at all", ["\u00e9" * 9]),
            ("text", "f0000000000000000"),
            ("object", {"name": "a", "text": "b"}),
            ("number", [5]),
            ("null", [None]),
            ("without content", [{"name": "a.txt"}]),
            ("without name", [{"text": "x"}]),
            ("with both", [{"name": "a.txt", "text": "x", "data": "eA=="}]),
            ("with more", [{"name": "a.txt", "text": "x", "path": "/etc/passwd"}]),
            ("name number", [{"name": 5, "text": "x"}]),
            ("text list", [{"name": "a.txt", "text": ["x"]}]),
            ("no base64", [{"name": "a.txt", "data": "€"}]),
            ("base64 cut", [{"name": "a.txt", "data": "eA="}]),
            ("empty", [{"name": "a.txt", "text": ""}]),
            ("binary", [{"name": "a.txt", "data": "AAECAw=="}]),
            ("one of two", [{"name": "a.txt", "text": "x"}, {"name": "b.txt", "data": "AAA="}]),
            ("and an unknown one", [{"name": "a.txt", "text": "x"}, "f0000000000000000"]),
            ("eleven", [{"name": f"{n}.txt", "text": "x"} for n in range(11)]),
        )
    },
    "attachments and no text": frame(type="message", attachments=[]),
    "attachments of a steer": frame(type="steer", text="a", attachments=["x"]),
    "answer without id": frame(type="answer", value="x"),
    "answer without value": frame(type="answer", interrupt_id="x"),
    "answer id number": frame(type="answer", interrupt_id=1, value="x"),
    "answer unknown": frame(type="answer", interrupt_id="q0000000000000000", value="x"),
    "dismiss without id": frame(type="dismiss"),
    "dismiss unknown": frame(type="dismiss", interrupt_id="nope"),
    "dismiss list": frame(type="dismiss", interrupt_id=[]),
    "steer without text": frame(type="steer"),
    "steer object": frame(type="steer", text={}),
    "unsteer without id": frame(type="unsteer"),
    "unsteer unknown": frame(type="unsteer", client_id="nope"),
    "cancel without id": frame(type="cancel_call"),
    "cancel unknown": frame(type="cancel_call", call_id="nope"),
    "cancel object": frame(type="cancel_call", call_id={"$ne": ""}),
}
FRAMES = {**NOT_JSON, **NOT_A_FRAME, **WRONG_FIELDS}


@pytest.mark.parametrize("name", FRAMES)
def test_a_bad_frame_gets_an_error_and_changes_nothing(server, interrupt_id, name):
    with ChatSocket(server, KEY) as socket:
        socket.settle()
        before = stored(server)

        socket.raw(FRAMES[name])
        answers = socket.settle()

    (error,) = answers
    assert error["type"] == "error"
    assert error["code"] in ("bad_value", "not_found", "too_large", "unsupported_type"), error
    assert 5 < len(error["message"]) < 400
    assert "Traceback" not in error["message"]
    assert stored(server) == before


WRONG_ANSWERS = {
    "a text": "pg",
    "null": None,
    "a list": [],
    "a number": 5,
    "a required field missing": {},
    "a required field blank": {"engine": "  "},
    "a wrong type": {"engine": 5},
    "an object in a field": {"engine": {"a": 1}},
    "an unknown field": {"engine": "pg", "x": 1},
    "a deep field": {"engine": json.loads(nested(200))},
    "too long": {"engine": "x" * 300_000},
    "prototype": {"engine": "pg", "__proto__": {"admin": True}},
}


@pytest.mark.parametrize("name", WRONG_ANSWERS)
def test_an_answer_that_does_not_fit_gets_an_error_and_leaves_the_form_open(
    server, interrupt_id, name
):
    value = WRONG_ANSWERS[name]
    with ChatSocket(server, KEY) as socket, server.client() as client:
        socket.settle()
        before = stored(server)

        socket.send("answer", interrupt_id=interrupt_id, value=value, client_id="c")
        (error,) = socket.settle()
        body = {"interrupt_id": interrupt_id, "value": value}
        response = client.post(f"/api/chat/sessions/{KEY}/answer", json=body)

    assert error["code"] in ("bad_value", "invalid_form"), error
    assert error["client_id"] == "c"
    assert response.status_code in (400, 422), response.text
    assert isinstance(response.json()["detail"], str)
    assert stored(server) == before


@pytest.mark.parametrize("size", [MIB + 1, 6 * MIB])
def test_an_oversized_frame_gets_an_error_and_the_socket_stays(server, interrupt_id, size):
    with ChatSocket(server, KEY) as socket:
        socket.settle()
        before = stored(server)

        socket.raw(frame(type="message", text="x" * size))
        (error,) = socket.settle()

    assert error["code"] == "too_large"
    assert "1,048,576" in error["message"]
    assert stored(server) == before


def test_frames_that_are_no_text_get_an_error(server, interrupt_id):
    with ChatSocket(server, KEY) as socket:
        socket.settle()
        before = stored(server)

        socket.raw(b'{"type": "ping"}')
        socket.raw(b"\x00\xff" * 1000)
        socket.wire.send(b'{"type": "message", "text": "\xff\xfe"}', text=True)
        socket.wire.send([frame(type="ping")[:5], "\ud7ff", "…"])
        errors = socket.settle()

    assert [error["type"] for error in errors] == ["error"] * 4
    assert "not bytes" in errors[0]["message"]
    assert stored(server) == before


BAD_KEYS = {
    "NUL": "%00",
    "a space": "a%20b",
    "an encoded slash": "a%2Fb",
    "dots": "...",
    "bytes": "%ff%fe",
    "129 characters": "x" * 129,
    "a quote": "a'b",
    "markup": "%3Cscript%3E",
    "umlaut": "%C3%BC",
    "a line": "a%0Ab",
}


@pytest.mark.parametrize("name", BAD_KEYS)
def test_a_session_key_that_cannot_be_one_is_refused_everywhere(server, interrupt_id, name):
    before = stored(server)
    key = BAD_KEYS[name]

    with server.client() as client:
        responses = [
            client.get(f"/api/chat/sessions/{key}"),
            client.get(f"/api/chat/sessions/{key}/events"),
            client.post(f"/api/chat/sessions/{key}/stop"),
            client.post(f"/api/chat/sessions/{key}/steer", json={"text": "x"}),
            client.delete(f"/api/chat/sessions/{key}"),
            client.get(f"/chat/{key}/"),
        ]
    with ChatSocket(server, key) as socket:
        socket.drain()

    if "%2F" in key:  # a path of another form: there is no such socket
        assert socket.close_code == 4404
    else:
        assert socket.close_code == 4403
        assert socket.others[0]["type"] == "error"
    assert {response.status_code for response in responses} <= {400, 404, 405}, responses
    assert stored(server) == before


@pytest.mark.parametrize(
    "after", ["-1", "x", "1.5", "", "1e3", "0x10", "9" * 30, "%00", "%ff", "null"]
)
def test_a_bad_after_is_refused_in_words(server, interrupt_id, after):
    with ChatSocket(server, KEY, after=after) as socket:
        socket.drain()
    with server.client() as client:
        response = client.get(f"/api/chat/sessions/{KEY}/events?after={after}")

    assert socket.close_code == 4403
    assert [found["type"] for found in socket.others] == ["error"]
    assert "after" in socket.others[0]["message"]
    assert response.status_code == 400
    assert "after" in response.json()["detail"]


BODIES = {**{name: text for name, text in NOT_JSON.items() if name != "blank"}, "a list": "[]"}


@pytest.mark.parametrize("path", ["/api/chat", f"/api/chat/sessions/{KEY}/steer"])
@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_is_no_json_object_is_400_and_changes_nothing(server, interrupt_id, path, name):
    before = stored(server)

    with server.client() as client:
        response = client.post(
            path, content=BODIES[name].encode(), headers={"Content-Type": "application/json"}
        )

    assert response.status_code == 400, response.text
    assert isinstance(response.json()["detail"], str)
    assert "Traceback" not in response.text
    assert stored(server) == before


REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "no message": ("/api/chat", {}),
    "message number": ("/api/chat", {"message": 5}),
    "message null": ("/api/chat", {"message": None}),
    "message blank": ("/api/chat", {"message": "  "}),
    "message list": ("/api/chat", {"message": ["a"]}),
    "unknown field": ("/api/chat", {"message": "a", "incognitto": True}),
    "session number": ("/api/chat", {"message": "a", "session_id": 5}),
    "session bad": ("/api/chat", {"message": "a", "session_id": "a b"}),
    "session too long": ("/api/chat", {"message": "a", "session_id": "x" * 129}),
    "incognito text": ("/api/chat", {"message": "a", "incognito": "true"}),
    "model too long": ("/api/chat", {"message": "a", "model": "x" * 201}),
    "model number": ("/api/chat", {"message": "a", "model": 7}),
    "client_id too long": ("/api/chat", {"message": "a", "client_id": "x" * 129}),
    "answer without value": (f"/api/chat/sessions/{KEY}/answer", {"interrupt_id": "x"}),
    "answer id number": (f"/api/chat/sessions/{KEY}/answer", {"interrupt_id": 1, "value": 1}),
    "dismiss empty": (f"/api/chat/sessions/{KEY}/dismiss", {}),
    "steer blank": (f"/api/chat/sessions/{KEY}/steer", {"text": " "}),
    "steer number": (f"/api/chat/sessions/{KEY}/steer", {"text": 1}),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_fields_of_a_wrong_kind_are_400_and_change_nothing(server, interrupt_id, name):
    path, body = REQUESTS[name]
    before = stored(server)

    with server.client() as client:
        response = client.post(path, json=body)

    assert response.status_code == 400, response.text
    assert response.json()["detail"]
    assert stored(server) == before


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "application/xml", "x"]
)
def test_another_content_type_is_415(server, interrupt_id, content_type):
    before = stored(server)

    with server.client() as client:
        response = client.post(
            "/api/chat", content=b'{"message": "a"}', headers={"Content-Type": content_type}
        )

    assert response.status_code == 415
    assert "application/json" in response.json()["detail"]
    assert stored(server) == before


@pytest.mark.parametrize("size", [MIB + 1, 20 * MIB])
def test_an_oversized_body_is_413(server, interrupt_id, size):
    before = stored(server)

    with server.client() as client:
        response = client.post("/api/chat", json={"message": "x" * size})

    assert response.status_code == 413
    assert isinstance(response.json()["detail"], str)
    assert stored(server) == before


BAD_FILES = {
    "empty": (b"", 400),
    "binary": (bytes(range(256)), 415),
    "above the limit": (b"x" * (20 * MIB + 1), 413),
    "far above the limit": (b"x" * (40 * MIB), 413),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_cannot_be_attached_is_refused_in_words(server, interrupt_id, name):
    body, status = BAD_FILES[name]
    before = stored(server)

    with server.client() as client:
        raw = client.post("/api/chat/files?name=a.bin", content=body)
        form = client.post("/api/chat/files", files={"file": ("a.bin", body)})

    assert (raw.status_code, form.status_code) == (status, status)
    assert len(raw.json()["detail"]) > 10
    assert stored(server) == before


@pytest.mark.parametrize(
    "path",
    [
        "/api/chat/sessions/unknown",
        "/api/chat/sessions/unknown/events",
        "/api/chat/sessions/unknown/export",
        "/api/nothing",
        "/api/chat/sessions/unknown/steer",
    ],
)
def test_what_does_not_exist_is_404_with_a_sentence(server, interrupt_id, path):
    before = stored(server)

    with server.client() as client:
        response = client.get(path)

    assert response.status_code == 404
    assert response.json()["detail"]
    assert stored(server) == before


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=-1",
        "limit=201",
        "limit=x",
        "limit=1e9",
        "limit=" + "9" * 400,
        "cursor=x",
        "cursor=%00",
        "cursor=%F0%9F%A6%89",
        "cursor=MjAyNi0wMS0wMVQwMDowMDowMCswMDowMH45OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk",
        "archived=maybe",
        "q=%00",
        "q=" + "%F0%9F%A6%89" * 500,
        "q=%ff",
        "q=%22%27%3B--",
    ],
)
def test_a_query_that_cannot_be_used_never_breaks_the_list(server, interrupt_id, query):
    with server.client() as client:
        response = client.get(f"/api/chat/sessions?{query}")

    allowed = (200,) if query.startswith("q=") else (200, 400) if "cursor" in query else (400,)
    assert response.status_code in allowed, response.text
    assert "Traceback" not in response.text


def test_the_server_is_as_good_as_before(server, interrupt_id):
    with ChatSocket(server, KEY, after=0) as socket:
        socket.send("answer", interrupt_id=interrupt_id, value={"engine": "pg"})
        socket.ended()

    assert "1024" in ask(server)
    assert unfinished(server) == []
    assert "Traceback" not in server.log


def ask(server: Server) -> str:
    with ChatSocket(server, "afterwards") as socket:
        return socket.ask("what is 2 ** 10?")
