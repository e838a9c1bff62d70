"""Files in the real server: large bodies, who may send them, and frames that carry files."""

from __future__ import annotations

import base64
import http.client
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.clients.chat import ChatSocket
from tests.clients.family import role_pid
from tests.clients.state import stored
from tests.fakes import gateway as fake_gateway
from tests.fakes.gateway import Gateway
from tests.services.servers import Server, servers
from tests.uploads import pictures

pytestmark = pytest.mark.process
MIB = 1024 * 1024
PATH = "/api/chat/files?name=big.txt"


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with fake_gateway.running() as running:
        yield running


@pytest.fixture(scope="module")
def server(gateway: Gateway) -> Iterator[Server]:
    environment = {
        "PROTOAGENT__MODEL__PROVIDER": "openai",
        "PROTOAGENT__MODEL__API_BASE": gateway.base,
        "PROTOAGENT__MODEL__NAME": "fake-model",
        "PROTOAGENT__MODEL__VISION": "true",
    }
    with servers() as make:
        yield make(env=environment)


def test_a_file_of_the_largest_size_arrives_and_is_given_back(server):
    body = b"0123456789abcde\n" * (20 * MIB // 16)

    with server.client() as client:
        raw = client.post(PATH, content=body)
        form = client.post("/api/chat/files", files={"file": ("big.txt", body)})
        found = client.get(f"/api/chat/files/{raw.json()['id']}")

    assert (raw.status_code, form.status_code) == (201, 201), raw.text
    assert raw.json()["size"] == form.json()["size"] == len(body)
    assert found.content == body


def test_a_file_of_unknown_length_arrives(server):
    with server.client() as client:
        response = client.post(PATH, content=(b"x" * MIB for _ in range(18)))

    assert response.json()["size"] == 18 * MIB


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Cookie": "protoagent_session=wrong"}, 401),
        ({"Authorization": "Bearer a", "X-API-Key": "b"}, 401),
    ],
)
def test_a_stranger_is_refused_with_a_sentence_and_the_connection_stays(server, headers, status):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    for _ in range(2):
        connection.request("POST", PATH, body=b"x" * (3 * MIB), headers=headers)
        response = connection.getresponse()

        assert response.status == status
        assert json.loads(response.read())["detail"]


def test_a_viewer_is_refused_before_a_large_file_and_after_a_small_one(server):
    token = server.manage("token", "create", "watcher", "--scope", "viewer").stdout.split()[-1]
    headers = {"Authorization": f"Bearer {token}"}

    for size in (10, 5 * MIB):
        response = httpx.post(server.url + PATH, content=b"x" * size, headers=headers)
        assert response.status_code == 403
        assert "viewer" in response.json()["detail"]


def written(server: Server) -> int:
    """How many bytes the web process has written so far, also into nameless files."""
    lines = Path(f"/proc/{role_pid(server, 'web')}/io").read_text().splitlines()
    return int(lines[1].removeprefix("wchar: "))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_a_stranger_sends_is_taken_off_the_wire_and_not_kept(server):
    body = b"x" * (19 * MIB)
    before = written(server)

    refused = httpx.post(server.url + PATH, content=body)
    after_stranger = written(server)
    with server.client() as client:
        taken = client.post(PATH, content=body)

    assert (refused.status_code, taken.status_code) == (401, 201)
    assert after_stranger - before < MIB
    assert written(server) - after_stranger > len(body)


def test_only_the_routes_of_files_take_more_than_sixteen_mebibytes(server):
    with server.client() as client:
        elsewhere = client.post("/api/chat", content=b"x" * (17 * MIB))
        above = client.post(PATH, content=b"x" * (22 * MIB))

    assert "16 MiB" in elsewhere.json()["detail"]
    assert (elsewhere.status_code, above.status_code) == (413, 413)
    assert "21 MiB" in above.json()["detail"]


def test_a_frame_carries_files_by_id_and_written_out(server, gateway):
    with server.client() as client:
        uploaded = client.post("/api/chat/files?name=up.txt", content=b"by id").json()
    files = [
        uploaded["id"],
        {"name": "in.txt", "text": "written out"},
        {"name": "a.png", "data": base64.b64encode(pictures.PNG).decode()},
    ]

    with ChatSocket(server, "frames", after=0) as wire:
        wire.send("message", text="reply seen", client_id="m1", attachments=files)
        wire.ended()
        wire.send("message", text="reply seen", client_id="m1", attachments=files)
        wire.settle()

    (received,) = wire.of("message.received")
    assert [one["name"] for one in received["attachments"]] == ["up.txt", "in.txt", "a.png"]
    text, picture = gateway.requests[-1]["messages"][-1]["content"]
    assert "by id" in text["text"] and "written out" in text["text"]
    assert picture["image_url"]["url"].startswith("data:image/png;base64,")
    rows = server.query("SELECT COUNT(*) FROM uploads_attachment WHERE name = 'in.txt'")
    assert rows == [(1,)]


def test_a_refused_frame_leaves_none_of_its_files_behind(server):
    with ChatSocket(server, "refused", after=0) as wire:
        wire.settle()
        before = stored(server)
        files = [{"name": "a.txt", "text": "x"}, {"name": "b.bin", "data": "AAA="}]
        wire.send("message", text="hi", client_id="m1", attachments=files)
        (error,) = wire.settle()

    assert (error["code"], error["client_id"]) == ("unsupported_type", "m1")
    assert "b.bin is neither text nor a known image" in error["message"]
    assert stored(server) == before


def test_a_steer_carries_files(server, gateway):
    with ChatSocket(server, "steered", after=0) as wire:
        wire.send("message", text="say 40 every 20 ms\nthen reply done")
        wire.until("turn.started")
        wire.send("steer", text="", attachments=[{"name": "s.txt", "text": "reply steered"}])
        wire.ended()
        wire.until("turn.finished", where=lambda frame: frame["data"]["text"] == "steered")


def test_a_message_of_files_only_works_without_a_model_too(server):
    with ChatSocket(server, "only", after=0) as wire:
        wire.send("message", attachments=[{"name": "a.txt", "text": "reply from the file"}])
        wire.ended()
        wire.send("message", text="  ")
        (error,) = wire.settle()

    assert wire.events[-1]["data"]["text"] == "from the file"
    assert error["code"] == "bad_value"
