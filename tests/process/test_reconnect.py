"""A socket that breaks off at any moment of a long answer gets the rest of it, once."""

from __future__ import annotations

import random
import socket as sockets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.clients.chat import ChatSocket, answer_of
from tests.fakes import gateway as fake_gateway
from tests.fakes.gateway import Gateway
from tests.services.servers import Server, servers

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]

SEED = 20261201
TOKENS = 3000
LONG_ANSWER = f"say {TOKENS} every 1 ms"
WHOLE = "".join(f"{number % 10000:04d} " for number in range(TOKENS)).strip()


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


def text_of(events: list[dict[str, Any]]) -> str:
    return answer_of(events, events[0]["turn"]).strip()


def test_ten_reconnects_during_a_long_answer_lose_and_double_no_token(server):
    dice = random.Random(SEED)
    key, events = "ten-reconnects", []
    with ChatSocket(server, key, after=0) as first:
        first.send("message", text=LONG_ANSWER)
        first.until("text.delta")
        events += first.events

    for number in range(10):
        wanted = dice.randint(1, 6)
        with ChatSocket(server, key, after=events[-1]["seq"]) as socket:
            for _ in range(wanted):
                socket.until("text.delta")
            events += socket.events
            if number % 2:
                socket.vanish()
    with ChatSocket(server, key, after=events[-1]["seq"]) as socket:
        end = socket.ended()
        events += socket.events

    assert [event["seq"] for event in events] == list(range(1, len(events) + 1)), f"seed {SEED}"
    assert text_of(events) == WHOLE
    assert end["data"]["text"].strip() == WHOLE


def test_five_sockets_see_the_same_events_in_the_same_order(server):
    key = "five-sockets"
    watching = [ChatSocket(server, key, after=0) for _ in range(5)]
    watching[0].send("message", text="say 500 every 1 ms")

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(lambda socket: socket.ended(), watching))

    for socket in watching[1:]:
        assert socket.events == watching[0].events
    for socket in watching:
        socket.close()
    with ChatSocket(server, key, after=0) as late:
        late.ended()
        assert late.events == watching[0].events


def test_the_events_of_the_socket_and_of_the_api_are_the_same(server):
    with ChatSocket(server, "same-events", after=0) as socket:
        socket.ask("call current_time\nthen reply done")

    with server.client() as client:
        listed = client.get("/api/chat/sessions/same-events/events").json()["events"]

    assert listed == socket.events


def test_hello_comes_first_and_names_the_newest_event(server):
    with ChatSocket(server, "hello") as socket:
        socket.ask("reply one")
        last = socket.events[-1]["seq"]

    with ChatSocket(server, "hello") as again:
        frame = again.receive()
        nothing_yet = again.settle()

    assert frame == {"type": "hello", "session": "hello", "last_seq": last}
    assert nothing_yet == []


def test_without_after_only_new_events_come(server):
    with ChatSocket(server, "only-new") as socket:
        socket.ask("reply one")
        last = socket.events[-1]["seq"]

    with ChatSocket(server, "only-new") as again:
        again.ask("reply two")

    assert again.events[0]["seq"] == last + 1


@pytest.mark.parametrize("beyond", [1, 1000, 900_000_000])
def test_after_beyond_the_end_waits_for_what_is_new(server, beyond):
    key = f"beyond-{beyond}"
    with ChatSocket(server, key) as socket:
        socket.ask("reply one")
        last = socket.events[-1]["seq"]

    with ChatSocket(server, key, after=str(last + beyond)) as again:
        assert again.settle()[1:] == []
        again.ask("reply two")

    assert again.events[0]["seq"] == last + 1


def test_closing_every_socket_never_stops_the_turn(server):
    key = "nobody-watches"
    socket = ChatSocket(server, key, after=0)
    socket.send("message", text="say 300 every 3 ms")
    socket.until("text.delta")
    seen = socket.last_seq

    socket.vanish()
    with ChatSocket(server, key, after=seen) as later:
        event = later.ended()

    assert len(event["data"]["text"].split()) == 300
    socket.close()


def test_a_client_that_does_not_read_is_told_to_go_and_comes_back_without_a_loss(server, gateway):
    """The kernel buffers some megabytes for it, the server a bounded number of events."""
    key = "slow"
    gateway.texts["big"] = "0123456789 " * 40_000
    narrow = narrow_connection(server)
    slow = ChatSocket(server, key, after=0, sock=narrow, max_queue=1, compression=None)
    slow.until("hello")

    with ChatSocket(server, key, after=0) as fast:
        for _ in range(6):
            fast.send("message", text="stream big")
            fast.ended()
        for _ in range(4):
            fast.send("message", text="parallel 40 current_time\nthen reply done")
            fast.ended()
        slow.drain()
        with ChatSocket(server, key, after=slow.last_seq) as again:
            rest = again.catch_up(fast.last_seq)

    assert slow.close_code == 4408
    assert slow.last_seq < fast.last_seq
    assert [*slow.events, *rest] == fast.events


def narrow_connection(server: Server) -> sockets.socket:
    """A connection whose receiving side buffers next to nothing."""
    narrow = sockets.socket()
    narrow.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
    narrow.connect(("127.0.0.1", server.port))
    return narrow


def test_a_replay_of_a_long_journal_while_a_turn_writes_is_complete(server):
    key = "long-journal"
    with ChatSocket(server, key, after=0) as socket:
        for _ in range(8):
            socket.ask("parallel 40 current_time\nthen reply done")
        socket.send("message", text="say 200 every 5 ms")
        socket.until("text.delta")

        with ChatSocket(server, key, after=0) as late:
            while not late.events or late.events[-1]["turn"] != socket.events[-1]["turn"]:
                late.receive()
            late.ended()
        socket.ended()

    assert late.events == socket.events


def test_a_server_that_stops_says_so_and_the_rest_comes_after_its_start(server):
    key = "restart"
    with ChatSocket(server, key, after=0) as socket:
        socket.send("message", text="say 300 every 5 ms")
        socket.until("text.delta")
        server.stop()
        socket.drain()
        code, events = socket.close_code, list(socket.events)
    server.start()

    with ChatSocket(server, key, after=events[-1]["seq"]) as again:
        end = again.ended()
        events += again.events

    assert code == 1012
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert text_of(events) == end["data"]["text"].strip()
    assert len(end["data"]["text"].split()) == 300
