"""`kill -9` of every role at random points of turns with calls and an open form: nothing is lost.

CRASH_POINTS sets how many turns are hit (16), CRASH_SEED where.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.clients.chat import ENDED, ChatSocket, answer_of, patiently
from tests.clients.family import ROLES, kill_everything, kill_role
from tests.fakes import gateway as fake_gateway
from tests.fakes.directives import unpaired
from tests.fakes.gateway import Gateway
from tests.process.crash_tools import side_effects
from tests.services import shared
from tests.services.servers import Server, ServerFactory

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

POINTS = int(os.environ.get("CRASH_POINTS", "16"))
SEED = int(os.environ.get("CRASH_SEED", "20261201"))
VICTIMS = (*ROLES, "everything")
SESSIONS = 4
CONTINUES_WITHIN_S = 45.0
SCRIPT = """call pay {"seconds": 0.15}
then parallel 2 look {"seconds": 0.15}
then call request_user_input {"title": "Pay more?", "steps": [{"schema": {"properties":
 {"amount": {"type": "integer"}}, "required": ["amount"]}}]}
then call current_time
then call pay {"seconds": 0.15}
then say 20 every 10 ms"""
CALLS = Counter(pay=2, look=2, current_time=1, request_user_input=1)


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with fake_gateway.running() as running:
        yield running


@pytest.fixture
def server(make_server: ServerFactory, gateway: Gateway) -> Server:
    """A server with tools that leave traces, on the scripted model."""
    return make_server(
        {
            "DJANGO_SETTINGS_MODULE": "tests.process.crash_settings",
            "PROTOAGENT__MODEL__PROVIDER": "openai",
            "PROTOAGENT__MODEL__API_BASE": gateway.base,
            "PROTOAGENT__MODEL__NAME": "fake-model",
            "OPENAI_API_KEY": "sk-test",
        }
    )


@dataclass
class Conversation:
    """One operator who sends a message, answers the form and waits for the end."""

    server: Server
    key: str
    delay_s: float
    may_answer: threading.Event
    says_more: bool
    problem: str = ""
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, name=self.key, daemon=True)

    def _run(self) -> None:
        try:
            time.sleep(self.delay_s)
            self.say(SCRIPT, f"{self.key}-first")
            self._wait_for(self._open_form, "the form")
            self.may_answer.wait(60)
            if self.says_more:
                self.say("and hurry", f"{self.key}-more")
            self._answer()
            self._wait_for(self._is_over, "the end")
        except BaseException as error:
            self.problem = f"{self.key}: {type(error).__name__}: {error}"

    def say(self, text: str, client_id: str) -> None:
        """Send it until the server has confirmed it, always under the same id."""
        patiently(lambda: self._say_once(text, client_id))

    def _say_once(self, text: str, client_id: str) -> bool:
        with ChatSocket(self.server, self.key, after=0) as socket:
            socket.send("message", text=text, client_id=client_id)
            socket.until("message.received", 5, client_id=client_id)
        return True

    def _answer(self) -> None:
        body = {"interrupt_id": self._open_form(), "value": {"amount": 7}}

        def post() -> Any:
            with self.server.client() as client:
                return client.post(f"/api/chat/sessions/{self.key}/answer", json=body)

        response = patiently(post)
        # 409: the answer before the crash had counted, only its confirmation was lost.
        assert response.status_code in (200, 409), response.text

    def _wait_for(self, condition: Any, what: str) -> None:
        if not shared.wait_until(condition, CONTINUES_WITHIN_S + 15, 0.1):
            raise TimeoutError(f"{what} did not come; {self.rows('status, fence, holder')}")

    def rows(self, columns: str) -> list[tuple[Any, ...]]:
        """Columns of this session's turns."""
        return self.server.query(
            f"SELECT {columns} FROM journal_turn WHERE session_id IN"
            f" (SELECT id FROM journal_chatsession WHERE key = '{self.key}')"
        )

    def _open_form(self) -> str:
        rows = self.server.query(
            "SELECT i.id FROM journal_interruption i JOIN journal_turn t ON t.id = i.turn_id"
            " JOIN journal_chatsession s ON s.id = t.session_id"
            f" WHERE s.key = '{self.key}' AND t.status IN ('waiting', 'completed')"
        )
        return rows[0][0] if rows else ""

    def _is_over(self) -> bool:
        return any(status in ENDED for (status,) in self.rows("status"))

    @property
    def is_hit(self) -> bool:
        """Whether a turn of this conversation has begun and not ended."""
        return any(status in ("running", "waiting") for (status,) in self.rows("status"))

    def events(self) -> list[dict[str, Any]]:
        """The whole journal."""
        with self.server.client() as client:
            url = f"/api/chat/sessions/{self.key}/events"
            found = client.get(url, params={"after": 0, "limit": 1000}).json()
        assert found["next"] is None
        return found["events"]


def test_nothing_is_lost_whatever_is_killed_whenever(server, gateway, record_property):
    dice = random.Random(SEED)
    hit, rounds, waits = 0, 0, []

    while hit < POINTS:
        victim = VICTIMS[rounds % len(VICTIMS)]
        talks, kill_at = plan(server, rounds, dice)
        where = f"seed {SEED}, round {rounds}, {victim} killed after {kill_at:.3f} s"
        hits, wait_s = play(server, talks, victim, kill_at, where)
        for talk in talks:
            check(talk, gateway, where)
        hit, rounds = hit + hits, rounds + 1
        waits.append(wait_s)

    record_property("points", hit)
    record_property("longest_wait_s", round(max(waits), 1))
    print(f"\n{hit} turns hit by {rounds} kills; until all had ended: max {max(waits):.1f} s")


def plan(server: Server, number: int, dice: random.Random) -> tuple[list[Conversation], float]:
    """Who talks in this round, and when the kill comes."""
    after_the_kill, at_once = threading.Event(), threading.Event()
    at_once.set()
    talks = [
        Conversation(
            server,
            f"crash-{number}-{place}",
            delay_s=dice.uniform(0, 1.0),
            may_answer=dice.choice([after_the_kill, at_once]),
            says_more=dice.random() < 0.5,
        )
        for place in range(SESSIONS)
    ]
    talks[0].may_answer = after_the_kill
    return talks, dice.uniform(0.2, 2.4)


def play(
    server: Server, talks: list[Conversation], victim: str, kill_at: float, where: str
) -> tuple[int, float]:
    """How many turns the kill hit, and how long it took until all had ended."""
    for talk in talks:
        talk.thread.start()
    time.sleep(kill_at)
    hits = sum(talk.is_hit for talk in talks)
    if victim == "everything":
        kill_everything(server)
        server.start(wait=False)
    else:
        kill_role(server, victim)
    killed_at = time.monotonic()
    for talk in talks:
        talk.may_answer.set()
    for talk in talks:
        talk.thread.join(180)
    problems = [talk.problem or "still waiting" for talk in talks if is_unhappy(talk)]
    assert not problems, f"{where}: {problems}\n{server.log[-3000:]}"
    return hits, time.monotonic() - killed_at


def is_unhappy(talk: Conversation) -> bool:
    return bool(talk.problem) or talk.thread.is_alive()


def check(talk: Conversation, gateway: Gateway, where: str) -> None:
    """Everything that a crash must not change, and one more message."""
    events = talk.events()
    where = f"{where}, {talk.key}"
    check_order(events, where)
    check_messages(talk, events, where)
    check_side_effects(talk, events, where)
    talk.say(f"reply fine {talk.key}", f"{talk.key}-last")
    assert shared.wait_until(lambda: len(ended_of(talk)) == 2, 30), f"{where}: {ended_of(talk)}"
    assert ended_of(talk) == ["completed", "completed"], where
    check_calls(events, check_request(talk, gateway, where), where)


def ended_of(talk: Conversation) -> list[str]:
    return [status for (status,) in talk.rows("status") if status in ENDED]


def check_order(events: list[dict[str, Any]], where: str) -> None:
    """The numbers have no gap, and the one turn has one end and the answer of its deltas."""
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1)), where
    ends = [event for event in events if event["type"] == "turn.finished"]
    real = [event for event in ends if event["data"]["status"] != "waiting"]
    assert [event["data"]["status"] for event in real] == ["completed"], f"{where}: {ends}"
    assert real[0] is events[-1], where
    assert answer_of(events, real[0]["turn"]) == real[0]["data"]["text"], where
    assert real[0]["data"]["text"] == "".join(f"{n:04d} " for n in range(20)), where


def check_calls(events: list[dict[str, Any]], known: set[str], where: str) -> None:
    """Each call has ended once, and those in the conversation (`known`) as they must."""
    started = [event["data"] for event in events if event["type"] == "tool.started"]
    finished = [event["data"] for event in events if event["type"] == "tool.finished"]
    ids = [data["call_id"] for data in finished]
    assert len(ids) == len(set(ids)), f"{where}: {finished}"
    assert set(ids) == {data["call_id"] for data in started}, where
    for data in started:
        assert data.get("attempt", 1) == 1 or data["name"] != "pay", f"{where}: {data}"
    told = [data for data in finished if data["call_id"] in known]
    wrong = [data for data in told if data["status"] != "ok" and not is_unknown(data)]
    assert not wrong, f"{where}: {wrong}"
    (form,) = [data for data in told if data["name"] == "request_user_input"]
    assert json.loads(form["output"]) == {"amount": 7}, where


def is_unknown(data: dict[str, Any]) -> bool:
    return data["name"] == "pay" and "outcome unknown" in data["output"]


def check_side_effects(talk: Conversation, events: list[dict[str, Any]], where: str) -> None:
    """What may not happen twice has not, and nothing has happened after it had ended."""
    done = [entry for entry in side_effects(talk.server.home) if entry["session"] == talk.key]
    begins = Counter(e["call"] for e in done if e["mark"] == "begin" and e["tool"] == "pay")
    assert max(begins.values(), default=0) <= 1, f"{where}: {done}"
    assert len(begins) <= CALLS["pay"], f"{where}: {done}"
    data = {e["data"]["call_id"]: e for e in events if e["type"] == "tool.finished"}
    names = {e["data"]["call_id"]: e["data"]["name"] for e in events if e["type"] == "tool.started"}
    paid = [c for c, e in data.items() if names[c] == "pay" and e["data"]["status"] == "ok"]
    assert set(paid) <= set(begins), where
    for entry in done:
        if entry["mark"] == "begin":
            ended_at = data[entry["call"]]["at"]
            assert _iso(entry["at"]) <= ended_at, f"{where}: {entry} after {ended_at}"


def _iso(at: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def check_messages(talk: Conversation, events: list[dict[str, Any]], where: str) -> None:
    """Every message is there once, and was read once."""
    received = Counter(e["data"]["client_id"] for e in events if e["type"] == "message.received")
    wanted = {f"{talk.key}-first": 1} | ({f"{talk.key}-more": 1} if talk.says_more else {})
    assert received == wanted, f"{where}: {received}"
    assert events[0]["type"] == "message.received", where


def check_request(talk: Conversation, gateway: Gateway, where: str) -> set[str]:
    """The next request pairs each call with its result and holds every word; the calls' ids."""
    lists = [request["messages"] for request in gateway.requests]
    messages = next(m for m in lists if m[-1]["content"] == f"reply fine {talk.key}")
    assert unpaired(messages) == [], where
    texts = [str(message["content"]) for message in messages if message["role"] == "user"]
    assert sum("Pay more?" in text for text in texts) == 1, f"{where}: {texts}"
    assert sum("and hurry" in text for text in texts) == talk.says_more, f"{where}: {texts}"
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    names = Counter(call["function"]["name"] for call in calls)
    assert names == CALLS, f"{where}: {names}"
    return {call["id"] for call in calls}


def test_a_turn_that_ends_its_process_each_time_is_given_up_and_the_rest_goes_on(server):
    with ChatSocket(server, "poison") as socket:
        socket.send("message", text="call explode", client_id="c1")

    ended = shared.wait_until(lambda: status_of(server, "poison") in ENDED, 90, 0.2)

    assert ended, server.log[-3000:]
    assert status_of(server, "poison") == "interrupted"
    assert len(side_effects(server.home)) >= 2
    assert patiently(lambda: ask_once(server, "healthy", "reply fine")) == "fine"
    assert patiently(lambda: ask_once(server, "poison", "reply better")) == "better"


def test_more_turns_than_workers_go_on_after_a_crash(server):
    """Two queue processes run two turns at a time; the web process takes the others."""
    keys = [f"many-{number}" for number in range(6)]
    sockets = [ChatSocket(server, key, after=0) for key in keys]
    for socket in sockets:
        socket.send("message", text='call look {"seconds": 1}\nthen say 40 every 500 ms')
    for socket in sockets:
        socket.until("tool.started")

    kill_role(server, "web")
    killed_at = time.monotonic()
    resumed = shared.wait_until(lambda: resumed_in(server) == set(keys), 40, 0.2)
    took_s = time.monotonic() - killed_at

    assert resumed, f"only {resumed_in(server)} after {took_s:.0f} s"
    assert took_s < CONTINUES_WITHIN_S
    for key in keys:
        patiently(lambda key=key: stop(server, key))


def status_of(server: Server, key: str) -> str:
    return max(server.query(STATUS.format(key=key)), default=(0, ""))[1]


STATUS = (
    "SELECT t.number, t.status FROM journal_turn t JOIN journal_chatsession s"
    " ON s.id = t.session_id WHERE s.key = '{key}'"
)


def resumed_in(server: Server) -> set[str]:
    """The sessions in which a turn has gone on after the crash."""
    rows = server.query(
        "SELECT s.key FROM journal_turnevent e JOIN journal_chatsession s ON s.id = e.session_id"
        " WHERE e.type = 'turn.started' GROUP BY s.key, e.turn_id HAVING COUNT(*) > 1"
    )
    return {key for (key,) in rows}


def ask_once(server: Server, key: str, text: str) -> str:
    with ChatSocket(server, key) as socket:
        return socket.ask(text, client_id=f"{key}-{text}")


def stop(server: Server, key: str) -> Any:
    with server.client() as client:
        return client.post(f"/api/chat/sessions/{key}/stop")
