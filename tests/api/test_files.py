"""Files over HTTP: sending in, reading, dropping, and messages that take them along."""

from __future__ import annotations

from typing import Any

import pytest
from channels.db import database_sync_to_async as in_db
from django.core.files.uploadedfile import SimpleUploadedFile

from protoagent.config import services as config
from protoagent.journal.models import ChatSession, Turn
from protoagent.journal.services import agents, sessions
from protoagent.uploads import services as uploads
from protoagent.uploads.models import Attachment
from tests.api.conftest import Api
from tests.factories import make_attachment
from tests.fakes.model import FakeModel, hang
from tests.uploads import pictures

BINARY = "application/octet-stream"


def put(api: Api, body: bytes = b"hello", name: str = "notes.txt", **options: Any) -> Any:
    return api.post(f"/api/chat/files?name={name}", body, options.pop("content_type", BINARY))


def test_a_body_becomes_a_file_and_is_given_back_as_text(operator: Api) -> None:
    response = put(operator, "grüße".encode("utf-16"), "notes.html")
    found = operator.get(f"/api/chat/files/{response.json()['id']}")

    assert response.status_code == 201
    assert {**response.json(), "id": ""} == {
        "id": "",
        "name": "notes.html",
        "kind": "text",
        "content_type": "text/plain",
        "size": 7,
        "alt": "",
    }
    assert found.content.decode() == "grüße"
    assert found["Content-Type"] == "text/plain; charset=utf-8"
    assert found["X-Content-Type-Options"] == "nosniff"
    assert found["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert found["Content-Disposition"] == 'inline; filename="notes.html"'
    assert found["Cache-Control"] == "private, no-cache"


@pytest.mark.parametrize(
    "content_type", ["application/x-www-form-urlencoded", "text/plain", BINARY]
)
def test_the_claimed_type_of_a_body_does_not_matter(operator: Api, content_type: str) -> None:
    response = put(operator, pictures.PNG, "a.txt", content_type=content_type)

    assert response.json()["content_type"] == "image/png"


def test_a_form_with_one_file_is_taken_too(operator: Api) -> None:
    def send(**fields: Any) -> Any:
        return operator.client.post("/api/chat/files", fields, headers=operator.headers())

    one = send(file=SimpleUploadedFile("a.md", b"# hi"))
    two = send(file=[SimpleUploadedFile("a.md", b"a"), SimpleUploadedFile("b.md", b"b")])
    other = send(upload=SimpleUploadedFile("a.md", b"a"))
    none = send(file="text")

    assert (one.status_code, one.json()["name"]) == (201, "a.md")
    for refused in (two, other, none):
        assert refused.status_code == 400
        assert "one file" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"", 400, "notes.txt is empty"),
        (b"\x00\x01", 415, "PNG, JPEG, GIF or WebP"),
        (b"x" * (1024 * 1024 + 1), 413, "at most 1 MB"),
    ],
)
def test_what_cannot_be_a_file_is_refused_in_words(
    operator: Api, monkeypatch: pytest.MonkeyPatch, body: bytes, status: int, said: str
) -> None:
    monkeypatch.setenv("PROTOAGENT__ATTACHMENTS__MAX_MB", "1")
    config.reload()

    response = put(operator, body)

    assert response.status_code == status
    assert said in response.json()["detail"]
    assert not Attachment.objects.exists()
    monkeypatch.undo()
    config.reload()


def test_a_browser_that_has_the_bytes_gets_none_again(operator: Api) -> None:
    path = f"/api/chat/files/{put(operator).json()['id']}"
    tag = operator.get(path)["ETag"]

    response = operator.client.get(path, headers=operator.headers({"if-none-match": tag}))

    assert (response.status_code, response.content) == (304, b"")


def test_a_viewer_reads_sent_files_and_sends_none(operator: Api, viewer: Api) -> None:
    sent, draft = make_attachment(), put(operator).json()["id"]

    assert viewer.get(f"/api/chat/files/{sent.pk}").content == b"hello"
    assert viewer.get(f"/api/chat/files/{draft}").status_code == 404
    assert put(viewer).status_code == 403
    assert viewer.delete(f"/api/chat/files/{sent.pk}").status_code == 403


def test_a_file_is_dropped_until_it_is_sent(operator: Api) -> None:
    file_id = put(operator).json()["id"]
    sent = make_attachment(owner="token:tests")

    first = operator.delete(f"/api/chat/files/{file_id}")
    again = operator.delete(f"/api/chat/files/{file_id}")

    assert (first.status_code, again.status_code) == (204, 404)
    assert operator.delete(f"/api/chat/files/{sent.pk}").status_code == 409


async def upload(live: Api, body: bytes = b"hello", name: str = "notes.txt") -> str:
    response = await live.post(f"/api/chat/files?name={name}", body, BINARY)
    assert response.status_code == 201, response.content
    return str(response.json()["id"])


async def test_a_message_takes_files_along_and_events_and_exports_name_them(
    live: Api, model: FakeModel
) -> None:
    ids = [await upload(live, b"one", "one.txt"), await upload(live, pictures.PNG, "two.png")]

    response = await live.post("/api/chat", {"message": "", "session_id": "s1", "attachments": ids})

    assert response.status_code == 200, response.content
    assert "one" in model.requests[-1].messages[-1]["content"]
    events = (await live.get("/api/chat/sessions/s1/events")).json()["events"]
    names = [one["name"] for one in events[0]["data"]["attachments"]]
    assert names == ["one.txt", "two.png"]
    exported = (await live.get("/api/chat/sessions/s1/export", format="json")).json()
    assert [one["size"] for one in exported["entries"][0]["attachments"]] == [3, len(pictures.PNG)]
    written = (await live.get("/api/chat/sessions/s1/export")).content.decode()
    assert "- Attached: one.txt (3 bytes)" in written
    assert "- Attached: two.png (" in written


async def test_a_steer_takes_files_along(live: Api, model: FakeModel) -> None:
    model.steps = [hang("busy")]
    agent = await in_db(agents.current)()
    session = await in_db(sessions.ensure)(agent, "s1")
    from protoagent.journal.services.turns import Message
    from protoagent.runtime import service

    await in_db(service.send)(session, Message("go", "m1"))
    body = {"text": "", "attachments": [await upload(live)]}

    response = await live.post("/api/chat/sessions/s1/steer", body)
    waiting = (await live.get("/api/chat/sessions/s1/steer")).json()
    model.gate.set()

    assert response.status_code == 200, response.content
    assert waiting["messages"][0]["attachments"][0]["name"] == "notes.txt"


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"attachments": ["f0000000000000000"]}, 400),
        ({"attachments": ["\u00e9"]}, 400),
        ({"attachments": "f0000000000000000"}, 400),
        ({"attachments": [5]}, 400),
        ({"attachments": [f"f{number}" for number in range(11)]}, 413),
        ({"attachments": ["f0000000000000000"], "hitl_resume": True}, 400),
        ({"message": " "}, 400),
    ],
)
def test_a_message_with_wrong_files_is_refused_and_makes_no_session(
    writer: Api, fields: dict[str, Any], status: int
) -> None:
    body = {"message": "hi", "session_id": "fresh", **fields}

    response = writer.post("/api/chat", body)

    assert response.status_code == status
    assert len(response.json()["detail"]) > 5
    assert not ChatSession.objects.exists()
    assert not Turn.objects.exists()


def test_a_file_of_another_session_is_refused(writer: Api) -> None:
    elsewhere = make_attachment(owner="token:tests", name="report.txt")

    response = writer.post("/api/chat", {"message": "hi", "attachments": [elsewhere.pk]})

    assert response.status_code == 400
    assert response.json()["detail"] == "report.txt is not there any more; attach it again"


def test_the_document_of_the_api_describes_how_to_send_a_file(operator: Api) -> None:
    paths = operator.get("/api/openapi.json").json()["paths"]

    content = paths["/api/chat/files"]["post"]["requestBody"]["content"]
    assert set(content) == {BINARY, "multipart/form-data"}
    assert uploads.max_bytes() == 20 * 1024 * 1024
