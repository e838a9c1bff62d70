"""Two web processes, a worker and a ticker on one PostgreSQL, with Redis and without it."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.clients.chat import ChatSocket
from tests.clients.family import kill_everything
from tests.fakes import gateway as fake_gateway
from tests.fakes.gateway import Gateway
from tests.services import postgres, redis, shared
from tests.services.servers import Server, servers

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

FORM = '{"title": "Size", "steps": [{"schema": {"properties": {"size": {"type": "integer"}}}}]}'
STOPS_WITHIN_S = 2.0
ARRIVES_WITHIN_S = 1.0
CONTINUES_WITHIN_S = 45.0


@dataclass
class Pair:
    """Two machines that serve the console, and what a test needs of both."""

    here: Server
    there: Server
    gateway: Gateway
    label: str

    def turned(self) -> Pair:
        """The same with the roles of the two changed."""
        return Pair(self.there, self.here, self.gateway, f"{self.label}-turned")


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with fake_gateway.running() as running:
        yield running


@pytest.fixture(scope="module", params=["with-redis", "without-redis"])
def machines(request: pytest.FixtureRequest, gateway: Gateway) -> Iterator[Pair]:
    """Four homes, as on four machines; what they share is the database."""
    with contextlib.ExitStack() as ending:
        environment = {
            "DATABASE_URL": ending.enter_context(postgres.scratch_database()),
            "DJANGO_SETTINGS_MODULE": "tests.process.crash_settings",
            "PROTOAGENT__MODEL__PROVIDER": "openai",
            "PROTOAGENT__MODEL__API_BASE": gateway.base,
            "PROTOAGENT__MODEL__NAME": "fake-model",
            "OPENAI_API_KEY": "sk-test",
        }
        if request.param == "with-redis":
            environment["REDIS_URL"] = redis.new_database()
        make = ending.enter_context(servers())
        started = [
            make(environment, ["--role", role], start=False, bare=True)
            for role in ("web", "web", "worker", "ticker")
        ]
        for server in started:
            server.token = started[0].token
            copy_signing_key(server)
            server.start(wait=False)
        here, there = started[:2]
        ready = shared.wait_until(lambda: here.is_ready() and there.is_ready(), 90, 0.2)
        assert ready, "".join(server.log[-1500:] for server in started)
        yield Pair(here, there, gateway, request.param)


def copy_signing_key(server: Server) -> None:
    """What docs/operating.md asks of several machines."""
    file = server.home / "signing.key"
    file.write_text("the same key on every machine, and long enough to be one")
    file.chmod(0o600)


@pytest.fixture(params=["one-way", "other-way"])
def pair(request: pytest.FixtureRequest, machines: Pair) -> Pair:
    """A turn starts `here` and is dealt with `there`; then the other way round."""
    return machines if request.param == "one-way" else machines.turned()


class Clock:
    """Reads a socket in a thread and notes when each event came."""

    def __init__(self, socket: ChatSocket) -> None:
        self.socket = socket
        self.at: dict[int, float] = {}
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while True:
            frame = self.socket.receive(60)
            if "seq" in frame:
                self.at[frame["seq"]] = time.monotonic()
            if frame["type"] == "turn.finished":
                return


def test_a_turn_is_watched_on_the_other_in_order_and_in_time(pair):
    key = f"watch-{pair.label}"
    with ChatSocket(pair.here, key, after=0) as here, ChatSocket(pair.there, key, after=0) as there:
        clocks = Clock(here), Clock(there)
        here.send("message", text="call current_time\nthen say 200 every 5 ms")
        for clock in clocks:
            clock.thread.join(60)

    assert there.events == here.events
    assert there.types()[-1] == "turn.finished"
    lags = [clocks[1].at[seq] - clocks[0].at[seq] for seq in clocks[0].at]
    assert statistics.median(lags) < ARRIVES_WITHIN_S, lags


def test_a_turn_that_one_started_is_stopped_on_the_other(pair):
    times = []
    for attempt in range(3):
        key = f"stop-{pair.label}-{attempt}"
        with ChatSocket(pair.here, key, after=0) as here:
            here.send("message", text="call doze")
            here.until("tool.started")
            with ChatSocket(pair.there, key) as there:
                begun = time.monotonic()
                there.send("stop")
                end = here.ended("stopped")
                times.append(time.monotonic() - begun)
                assert there.ended("stopped") == end
            assert here.of("tool.finished")[0]["status"] == "cancelled"
            assert here.ask("reply next") == "next"
        if times[-1] < STOPS_WITHIN_S:
            return
    pytest.fail(f"stopping took {times} s")


def test_a_streaming_answer_is_stopped_on_the_other_and_keeps_what_was_said(pair):
    key = f"stop-stream-{pair.label}"
    with ChatSocket(pair.here, key, after=0) as here:
        here.send("message", text="say 5000 every 10 ms")
        here.until("text.delta")
        with pair.there.client() as client:
            answer = client.post(f"/api/chat/sessions/{key}/stop").json()
        end = here.ended("stopped")

    assert answer == {"ok": True, "stopped": True}
    assert end["data"]["text"].startswith("0000 ")


def test_a_steer_from_the_other_is_read_before_the_next_model_call(pair):
    key = f"steer-{pair.label}"
    with ChatSocket(pair.here, key, after=0) as here:
        here.send("message", text='call doze {"seconds": 2}\nthen reply done')
        here.until("tool.started")
        with ChatSocket(pair.there, key) as there:
            there.send("steer", text=f"shorter, {key}", client_id="s1")
            there.until("message.received", mode="steer")
        here.ended()

    last = pair.gateway.requests[-1]["messages"]
    assert sum(f"shorter, {key}" in str(message["content"]) for message in last) == 1
    assert [data["client_ids"] for data in here.of("note")] == [["s1"]]


def test_a_form_that_one_opened_is_answered_on_the_other(pair):
    key = f"form-{pair.label}"
    with ChatSocket(pair.here, key, after=0) as here:
        here.send("message", text=f"call request_user_input {FORM}\nthen reply thanks")
        asked = here.until("input.required")["data"]
        here.until("turn.finished", status="waiting")
        body = {"interrupt_id": asked["interrupt_id"], "value": {"size": 3}}
        with pair.there.client() as client:
            first = client.post(f"/api/chat/sessions/{key}/answer", json=body)
        with pair.here.client() as client:
            second = client.post(f"/api/chat/sessions/{key}/answer", json=body)
        end = here.ended()

    assert (first.status_code, second.status_code) == (200, 409)
    assert end["data"]["text"] == "thanks"
    assert here.types().count("tool.started") == 1
    assert here.of("tool.finished")[0]["output"] == '{"size": 3}'


def test_one_call_is_cancelled_on_the_other_and_the_turn_goes_on(pair):
    key = f"cancel-{pair.label}"
    with ChatSocket(pair.here, key, after=0) as here:
        here.send("message", text="call doze\nthen reply went on")
        call = here.until("tool.started")["data"]
        with ChatSocket(pair.there, key) as there:
            there.send("cancel_call", call_id=call["call_id"])
            assert there.settle() is not None
        finished = here.until("tool.finished")["data"]
        end = here.ended()

    assert finished["status"] == "cancelled"
    assert finished["duration_ms"] < 30_000
    assert end["data"]["text"] == "went on"


def test_the_same_message_sent_to_both_at_once_is_one_turn(pair):
    key = f"twice-{pair.label}"
    with ChatSocket(pair.here, key, after=0) as here, ChatSocket(pair.there, key, after=0) as there:
        for socket in (here, there):
            socket.send("message", text="reply once", client_id="same")
        here.ended()
        there.ended()
        for socket in (here, there):
            assert [f for f in socket.settle() if f["type"] != "hello"] == []

    assert here.events == there.events
    assert here.types().count("message.received") == 1


def test_messages_to_both_run_one_after_the_other(pair):
    key = f"queue-{pair.label}"
    with ChatSocket(pair.here, key, after=0) as here, ChatSocket(pair.there, key, after=0) as there:
        here.send("message", text="say 50 every 10 ms")
        here.until("text.delta")
        there.send("message", text="reply second")
        ends = [here.ended()["data"]["text"], here.ended()["data"]["text"]]

    turns = [event["turn"] for event in here.events if event["type"] != "message.received"]
    assert ends[1] == "second"
    assert turns == sorted(turns, key=turns.index), "two turns of a session were interleaved"


def test_a_turn_whose_machine_is_lost_goes_on_elsewhere(machines):
    """Nobody else can know that the process is dead, so its lease has to run out."""
    if machines.label != "without-redis":
        pytest.skip("half a minute of waiting, once is enough")
    key = "lost-machine"
    with ChatSocket(machines.there, key, after=0) as watching:
        with ChatSocket(machines.here, key) as lost:
            lost.send("message", text='call look {"seconds": 3}\nthen reply carried on')
            watching.until("tool.started")
            kill_everything(machines.here)
        end = watching.ended(timeout=CONTINUES_WITHIN_S + 15)

    assert end["data"]["text"] == "carried on"
    assert [data.get("resumed", False) for data in watching.of("turn.started")] == [False, True]
