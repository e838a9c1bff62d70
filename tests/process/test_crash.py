"""Killing processes at random points of a turn loses nothing and repeats nothing.

CRASH_ROUNDS sets the number of rounds, CRASH_SEED repeats a run.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.fakes import gateway as fake_gateway
from tests.fakes.gateway import Gateway
from tests.process.test_serve import role_pid
from tests.services import shared
from tests.services.servers import Server, ServerFactory

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

ROUNDS = int(os.environ.get("CRASH_ROUNDS", "8"))
SEED = int(os.environ.get("CRASH_SEED", "0")) or random.randrange(1, 10**6)
VICTIMS = ("web", "worker", "ticker", "all")
# A turn that nobody is meant to find dead for longer than this (contract §3).
PATIENCE_S = 45
FORM = {
    "title": "Where to?",
    "steps": [{"title": "One", "schema": {"properties": {"port": {"type": "integer"}}}}],
}
SCRIPT = "\n".join(
    [
        'loop 3 calculator {"expression": "6*7"}',
        'then parallel 2 current_time {"timezone": "UTC"}',
        f"then call request_user_input {json.dumps(FORM)}",
        "then reply it is done now",
    ]
)


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with fake_gateway.running(delay_s=0.015) as running:
        yield running


@pytest.fixture
def server(make_server: ServerFactory, gateway: Gateway) -> Server:
    return make_server(
        {
            "PROTOAGENT__MODEL__PROVIDER": "openai",
            "PROTOAGENT__MODEL__API_BASE": gateway.base,
            "PROTOAGENT__MODEL__NAME": "fake-model",
            "OPENAI_API_KEY": "sk-test",
        }
    )


class Watcher:
    """One session, seen over HTTP by a client that keeps trying."""

    def __init__(self, server: Server, key: str) -> None:
        self.server = server
        self.key = key
        self.client = server.client()

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response | None:
        """The answer, or None when the server could not give one."""
        try:
            response = self.client.request(method, path, **options)
        except httpx.TransportError:
            return None
        return None if response.status_code >= 500 else response

    def say(self, text: str, client_id: str) -> None:
        """Send until it is known to be stored; the same `client_id` is one message."""
        body = {"message": text, "session_id": self.key, "client_id": client_id}
        self.ask("POST", "/api/chat", json=body, timeout=0.05)

    def events(self) -> list[dict[str, Any]]:
        """The whole journal of the session so far."""
        path, found = f"/api/chat/sessions/{self.key}/events", []
        while True:
            after = found[-1]["seq"] if found else 0
            response = self.ask("GET", path, params={"after": after, "limit": 500})
            page = response.json().get("events", []) if response is not None else []
            found += page
            if len(page) < 500:
                return found

    def until(self, what: str, status: str) -> dict[str, Any]:
        """The event of this type and status, which must come in time."""

        def look() -> dict[str, Any] | None:
            for event in self.events():
                if event["type"] == what and event["data"].get("status", status) == status:
                    return event
            return None

        event = shared.wait_until(look, PATIENCE_S, 0.1)
        assert event, [(e["seq"], e["type"], e["data"].get("status")) for e in self.events()]
        return event


def kill(server: Server, victim: str) -> None:
    """Kill one role, or the whole family and start it again."""
    if victim != "all":
        # It may have been killed a moment ago and not be back yet.
        with contextlib.suppress(AssertionError, ProcessLookupError, FileNotFoundError):
            os.kill(role_pid(server, victim), signal.SIGKILL)
        return
    assert server.process is not None
    below = list(server.children())
    server.process.kill()
    for pid in below:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    server.process.wait(5)
    server.start(wait=False)


def check(events: list[dict[str, Any]]) -> None:
    """What must hold for the journal of one session, whatever was killed."""
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    kinds = Counter(event["type"] for event in events)
    assert kinds["message.received"] == 1
    ends = [e["data"]["status"] for e in events if e["type"] == "turn.finished"]
    assert [status for status in ends if status != "waiting"] == ["completed"]
    assert events[-1]["type"] == "turn.finished"
    assert events[-1]["data"]["text"].endswith("it is done now")
    finished: set[str] = set()
    for event in events:
        call_id = event["data"].get("call_id")
        if event["type"] == "tool.started":
            assert call_id not in finished, f"{call_id} ran again after its end"
        if event["type"] == "tool.finished":
            assert call_id not in finished, f"{call_id} ended twice"
            finished.add(call_id)
    assert len(finished) == 6


def one_round(server: Server, key: str, dice: random.Random) -> None:
    watcher = Watcher(server, key)
    before, after = dice.choice(VICTIMS), dice.choice(VICTIMS)

    watcher.say(SCRIPT, f"m-{key}")
    time.sleep(dice.uniform(0, 1.2))
    kill(server, before)
    while not watcher.events():
        watcher.say(SCRIPT, f"m-{key}")
    asked = watcher.until("input.required", "")["data"]
    watcher.until("turn.finished", "waiting")
    answer = {"interrupt_id": asked["interrupt_id"], "value": {"port": 8080}}
    path = f"/api/chat/sessions/{key}/answer"
    shared.wait_until(lambda: watcher.ask("POST", path, json=answer) is not None, PATIENCE_S)
    time.sleep(dice.uniform(0, 0.3))
    kill(server, after)

    watcher.until("turn.finished", "completed")
    check(watcher.events())


def test_a_turn_survives_kills_at_random_points(server):
    dice = random.Random(SEED)
    print(f"CRASH_SEED={SEED}")

    for number in range(ROUNDS):
        one_round(server, f"crash-{number}", dice)

    rows = server.query("SELECT status, count(*) FROM journal_turn GROUP BY status")
    assert rows == [("completed", ROUNDS)]
