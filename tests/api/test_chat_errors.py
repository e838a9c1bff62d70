"""What the API says to bodies that cannot be used, and what it tells about itself."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from protoagent.core.errors import BadValue
from protoagent.journal.models import ChatSession, Turn
from protoagent.providers import catalog
from tests.accounts.factories import browser_of, make_account
from tests.api.conftest import Api
from tests.fakes.model import FakeModel

pytestmark = pytest.mark.django_db

CHAT = "/api/chat"


def detail(response: Any) -> str:
    body = response.json()
    assert isinstance(body["detail"], str)
    return body["detail"]


@pytest.mark.parametrize(
    ("body", "content_type", "status", "words"),
    [
        (b"{", "application/json", 400, "JSON"),
        (b"\xff\xfe", "application/json", 400, "UTF-8"),
        (b'{"message": NaN}', "application/json", 400, "NaN"),
        (b'{"message": "\\u0000"}', "application/json", 400, "NUL"),
        (b'{"message": "\\ud800"}', "application/json", 400, "surrogate"),
        (b"[" * 100_000, "application/json", 400, "nested"),
        (b"[1]", "application/json", 400, "body"),
        (b'"hi"', "application/json", 400, "body"),
        (b"null", "application/json", 400, "body"),
        (b"", "application/json", 400, "body"),
        (b'{"message": "hi"}', "text/plain", 415, "application/json"),
        (b'{"message": "hi"}', "application/x-www-form-urlencoded", 415, "application/json"),
        (b'{"message": "hi"}', "", 415, "application/json"),
        (b'{"message": "' + b"x" * 1024 * 1024 + b'"}', "application/json", 413, ""),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(
    operator: Api, body: bytes, content_type: str, status: int, words: str
) -> None:
    response = operator.post(CHAT, body, content_type)

    assert response.status_code == status
    assert words in detail(response)
    assert ChatSession.objects.count() == 0


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({}, "message", "missing"),
        ({"message": 5}, "message", "string"),
        ({"message": None}, "message", "string"),
        ({"message": "hi", "incognito": "yes"}, "incognito", "boolean"),
        ({"message": "hi", "incognitto": True}, "incognitto", "not a field"),
        ({"message": "hi", "agent_id": "other"}, "agent_id", "not a field"),
        ({"message": "hi", "model": "x" * 201}, "model", "200"),
        ({"message": "hi", "session_id": 7}, "session_id", "string"),
    ],
)
def test_a_wrong_field_is_named(
    operator: Api, body: dict[str, Any], field: str, words: str
) -> None:
    response = operator.post(CHAT, body)

    assert response.status_code == 400
    assert words in response.json()["errors"][field]
    assert field in detail(response)
    assert ChatSession.objects.count() == 0


@pytest.mark.parametrize(("message", "status"), [("", 400), (" \n", 400), ("x" * 262_145, 413)])
def test_a_message_needs_a_text_of_reasonable_length(
    writer: Api, message: str, status: int
) -> None:
    response = writer.post(CHAT, {"message": message, "session_id": "s1"})

    assert response.status_code == status
    assert detail(response)
    assert ChatSession.objects.count() == 0


def test_json_with_a_charset_or_a_vendor_type_is_json(writer: Api) -> None:
    for content_type in ("application/json; charset=utf-8", "application/vnd.api+json"):
        response = writer.post(CHAT, b'{"message": " "}', content_type)

        assert "text" in detail(response)


def test_an_unknown_address_and_a_wrong_method_are_json(operator: Api) -> None:
    unknown = operator.get("/api/chat/nothing")
    wrong = operator.get(CHAT)

    assert (unknown.status_code, bool(detail(unknown))) == (404, True)
    assert (wrong.status_code, bool(detail(wrong))) == (405, True)
    assert wrong["Allow"] == "POST"


@pytest.mark.parametrize("path", [CHAT, "/api/chat/sessions", "/api/openapi.json", "/api/docs"])
def test_nothing_is_said_to_strangers(path: str) -> None:
    for send in (Client().get, Client().post):
        response = send(path)

        assert response.status_code == 401
        assert detail(response)


def test_a_browser_session_needs_its_csrf_token_here_too() -> None:
    browser = browser_of(make_account())

    response = browser.post(CHAT, {"message": "hi"}, content_type="application/json")

    assert response.status_code == 403
    assert Turn.objects.count() == 0


def test_a_failure_inside_is_500_without_a_traceback(
    operator: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("protoagent.api.chat_sessions.sessions.listing", break_down)

    operator.client.raise_request_exception = False
    response = operator.get("/api/chat/sessions")

    assert response.status_code == 500
    assert "secret detail" not in response.content.decode()
    assert response.json()["id"] in detail(response)


def test_the_openapi_document_describes_every_route(operator: Api) -> None:
    document = operator.get("/api/openapi.json").json()

    assert document["openapi"].startswith("3.1")
    assert set(document["paths"]) >= {
        "/api/chat",
        "/api/chat/commands",
        "/api/chat/sessions",
        "/api/chat/sessions/{key}",
        "/api/chat/sessions/{key}/answer",
        "/api/chat/sessions/{key}/events",
        "/api/chat/sessions/{key}/export",
        "/api/chat/sessions/{key}/steer",
        "/api/chat/sessions/{key}/stop",
        "/api/runtime/status",
    }
    assert document["security"] == [{"bearer": []}, {"apiKey": []}, {"session": []}]
    assert operator.get("/api/docs").status_code == 404


def test_the_status_tells_what_runs_here(operator: Api, model: FakeModel) -> None:
    status = operator.get("/api/runtime/status").json()

    assert (status["provider"], status["model"], status["offline"]) == ("offline", "fake", True)
    assert status["agent"]["key"] == "main"
    assert status["version"]
    assert status["counts"]["tools"] >= 1
    assert set(status["counts"]) >= {"knowledge", "skills", "jobs", "sessions", "waiting"}
    assert any("offline model" in warning for warning in status["warnings"])


def test_the_status_holds_no_secret_and_survives_a_broken_model(
    operator: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
    monkeypatch.setenv("OPENAI_API_KEY", secret)

    def refuse(name: str | None = None) -> None:
        raise BadValue("the provider anthropic needs model.api_key")

    monkeypatch.setattr(catalog, "resolve", refuse)

    status = operator.get("/api/runtime/status")

    assert status.status_code == 200
    assert secret not in status.content.decode()
    assert "model: the provider anthropic needs model.api_key" in status.json()["warnings"]


def test_commands_are_those_of_the_composer(operator: Api, model: FakeModel) -> None:
    listed = {c["name"]: c for c in operator.get("/api/chat/commands").json()["commands"]}
    model.provider = "openai"
    online = {c["name"] for c in operator.get("/api/chat/commands").json()["commands"]}

    assert listed["model"] == {
        "name": "model",
        "description": "Switch the model of this session",
        "argument": "name",
        "source": "core",
    }
    assert set(listed) - online == {"tool"}
