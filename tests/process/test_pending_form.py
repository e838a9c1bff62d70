"""A form waits as long as it takes: through restarts, closed browsers and two tabs."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.clients.chat import ChatSocket
from tests.clients.family import kill_everything
from tests.fakes import gateway as fake_gateway
from tests.fakes.directives import unpaired
from tests.fakes.gateway import Gateway
from tests.services.servers import Server, servers

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]

FORM = (
    '{"title": "Storage", "steps": [{"schema": {"properties": {"engine": {"type": "string"},'
    ' "size": {"type": "integer"}}, "required": ["engine"]}}]}'
)
SCRIPT = f"call current_time\nthen call request_user_input {FORM}\nthen call current_time"
SCRIPT += "\nthen reply stored"
VALUE = {"engine": "pg", "size": 3}


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
        "OPENAI_API_KEY": "sk-test",
    }
    with servers() as make:
        yield make(environment)


def open_form(server: Server, key: str) -> tuple[str, int]:
    """A turn that waits for a form: the form's id and the newest event. Nobody stays connected."""
    with ChatSocket(server, key, after=0) as socket:
        socket.send("message", text=SCRIPT, client_id=f"{key}-1")
        asked = socket.until("input.required")
        socket.until("turn.finished", status="waiting")
        return asked["data"]["interrupt_id"], socket.last_seq


def answer(server: Server, key: str, interrupt_id: str, value: Any = VALUE) -> int:
    """The status of an answer over HTTP."""
    body = {"interrupt_id": interrupt_id, "value": value}
    with server.client() as client:
        return client.post(f"/api/chat/sessions/{key}/answer", json=body).status_code


def whole(server: Server, key: str) -> list[dict[str, Any]]:
    with server.client() as client:
        return client.get(f"/api/chat/sessions/{key}/events").json()["events"]


def restart(server: Server) -> None:
    assert server.stop() == 0
    server.start()


def crash(server: Server) -> None:
    kill_everything(server)
    server.start()


@pytest.mark.parametrize("interruption", [restart, crash])
def test_a_form_that_waits_through_a_restart_continues_the_same_call_once(
    server, gateway, interruption: Callable[[Server], None]
):
    key = f"through-{interruption.__name__}"
    interrupt_id, seen = open_form(server, key)

    interruption(server)
    with ChatSocket(server, key, after=seen) as socket:
        assert answer(server, key, interrupt_id) == 200
        end = socket.ended()

    events = whole(server, key)
    asked = next(e["data"] for e in events if e["type"] == "input.required")
    mine = [e for e in events if e["data"].get("call_id") == asked["call_id"]]
    assert [e["type"] for e in mine] == ["tool.started", "input.required", "tool.finished"]
    assert json.loads(mine[-1]["data"]["output"]) == VALUE
    assert end["data"]["text"] == "stored"
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
    assert sum(e["type"] == "tool.started" for e in events) == 3
    assert unpaired(gateway.requests[-1]["messages"]) == []


def test_a_message_held_behind_the_form_is_read_after_the_restart_and_the_answer(server, gateway):
    key = "held"
    interrupt_id, seen = open_form(server, key)
    with ChatSocket(server, key) as socket:
        socket.send("message", text="and keep it small", client_id="held-2")
        held = socket.until("message.received")

    restart(server)
    with ChatSocket(server, key, after=held["seq"]) as socket:
        answer(server, key, interrupt_id)
        socket.ended()
        delivered = [data for data in socket.of("note") if data.get("kind") == "delivered"]

    texts = [str(message["content"]) for message in gateway.requests[-1]["messages"]]
    assert held["data"]["mode"] == "held"
    assert [data["client_ids"] for data in delivered] == [["held-2"]]
    assert sum("keep it small" in text for text in texts) == 1
    assert seen < held["seq"]


def test_of_two_tabs_that_answer_at_once_one_wins_and_the_other_is_told(server):
    key = "two-tabs"
    interrupt_id, seen = open_form(server, key)
    tabs = [ChatSocket(server, key, after=seen) for _ in range(2)]
    start = threading.Barrier(3)

    def press(tab: ChatSocket, engine: str) -> None:
        start.wait(10)
        tab.send("answer", interrupt_id=interrupt_id, value={"engine": engine}, client_id=engine)

    threads = [
        threading.Thread(target=press, args=pair) for pair in zip(tabs, ("one", "two"), strict=True)
    ]
    for thread in threads:
        thread.start()
    start.wait(10)
    for thread in threads:
        thread.join(10)
    for tab in tabs:
        tab.ended()
        tab.settle()

    refused = [frame for tab in tabs for frame in tab.others if frame["type"] == "error"]
    (winner,) = tabs[0].of("input.resolved")
    assert [frame["code"] for frame in refused] == ["conflict"]
    assert refused[0]["client_id"] != winner["value"]["engine"]
    assert tabs[0].events == tabs[1].events
    for tab in tabs:
        tab.close()


def test_of_many_answers_over_http_one_gets_200_and_all_others_409(server):
    key = "many-answers"
    interrupt_id, seen = open_form(server, key)
    statuses: list[int] = []
    start = threading.Barrier(6)

    def press() -> None:
        start.wait(10)
        statuses.append(answer(server, key, interrupt_id))

    threads = [threading.Thread(target=press) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    with ChatSocket(server, key, after=seen) as socket:
        socket.ended()

    assert sorted(statuses) == [200, 409, 409, 409, 409, 409]
    assert socket.types().count("input.resolved") == 1


def test_stop_with_an_open_form_and_the_next_message_is_an_ordinary_turn(server, gateway):
    key = "stop"
    interrupt_id, seen = open_form(server, key)
    with ChatSocket(server, key, after=seen) as socket:
        socket.send("stop")
        socket.ended("stopped")
        text = socket.ask("reply went on")

    assert text == "went on"
    assert socket.of("input.resolved") == [{"interrupt_id": interrupt_id, "outcome": "stopped"}]
    assert socket.of("tool.finished")[0]["status"] == "cancelled"
    assert answer(server, key, interrupt_id) == 409
    assert unpaired(gateway.requests[-1]["messages"]) == []


def test_stop_with_an_open_form_also_works_right_after_a_crash(server):
    key = "stop-after-crash"
    _, seen = open_form(server, key)

    crash(server)
    with ChatSocket(server, key, after=seen) as socket:
        socket.send("stop")
        socket.ended("stopped")

        assert socket.ask("reply went on") == "went on"


def test_an_answer_that_does_not_fit_changes_nothing(server):
    key = "misfit"
    interrupt_id, seen = open_form(server, key)

    assert answer(server, key, interrupt_id, {"size": 3}) == 422
    assert answer(server, key, interrupt_id, "pg") == 400
    assert answer(server, key, "q0000000000000000") == 404
    assert answer(server, "stop", interrupt_id) == 404
    with ChatSocket(server, key, after=seen) as socket:
        socket.send("answer", interrupt_id=interrupt_id, value={"engine": "pg", "size": "many"})
        (told,) = [frame for frame in socket.settle() if frame["type"] == "error"]
        unchanged = socket.events == []
        assert answer(server, key, interrupt_id) == 200
        socket.ended()

    assert unchanged
    assert told["code"] == "invalid_form"
    assert "size" in told["errors"]
