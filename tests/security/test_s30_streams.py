"""S30: a socket gets the events of its own session and of no other."""

from __future__ import annotations

import asyncio
import json

import pytest
from channels.testing import WebsocketCommunicator

from protoagent.asgi import application
from tests.fakes.model import say
from tests.runtime.conftest import chat, model  # noqa: F401 — fixtures

HEADERS = [(b"host", b"testserver"), (b"authorization", b"Bearer secret-of-the-test")]


@pytest.fixture(autouse=True)
def token(monkeypatch):
    monkeypatch.setenv("PROTOAGENT_TOKEN", "secret-of-the-test")


async def open_socket(key: str) -> WebsocketCommunicator:
    socket = WebsocketCommunicator(application, f"/ws/chat/{key}/", headers=HEADERS)
    accepted, _ = await socket.connect()
    assert accepted
    assert json.loads(await socket.receive_from())["type"] == "hello"
    return socket


async def read_until_finished(socket: WebsocketCommunicator) -> list[dict]:
    frames = []
    while not frames or frames[-1]["type"] != "turn.finished":
        frames.append(json.loads(await socket.receive_from(timeout=5)))
    return frames


async def test_two_sockets_on_two_sessions_never_mix(chat):  # noqa: F811
    chat.model.steps = [say(f"answer {n}") for n in range(10)]
    first, second = await open_socket("one"), await open_socket("two")

    async def talk(socket: WebsocketCommunicator, name: str) -> list[dict]:
        frames = []
        for number in range(5):
            message = {"type": "message", "text": f"{name} {number}", "client_id": f"c{number}"}
            await socket.send_to(json.dumps(message))
            frames += await read_until_finished(socket)
        return frames

    ours, theirs = await asyncio.gather(talk(first, "ours"), talk(second, "theirs"))

    assert [f["seq"] for f in ours] == list(range(1, len(ours) + 1))
    assert [f["seq"] for f in theirs] == list(range(1, len(theirs) + 1))
    assert not {f["turn"] for f in ours} & {f["turn"] for f in theirs}
    assert all("theirs" not in json.dumps(f) for f in ours)
    await first.disconnect()
    await second.disconnect()


async def test_a_refused_frame_gets_an_error_and_the_socket_stays(chat):  # noqa: F811
    socket = await open_socket("one")
    answers = []

    for frame in (
        "{",
        "[]",
        '{"type": "nope"}',
        '{"type": "message", "text": 5, "client_id": "x"}',
    ):
        await socket.send_to(frame)
        answers.append(json.loads(await socket.receive_from()))
    await socket.send_to('{"type": "ping"}')

    assert [a["type"] for a in answers] == ["error"] * 4
    assert answers[-1]["client_id"] == "x"
    assert json.loads(await socket.receive_from()) == {"type": "pong"}
    await socket.disconnect()
