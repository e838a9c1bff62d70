"""`ask` and `doctor` as a person at a shell meets them."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.fakes import gateway as fake_gateway
from tests.fakes.gateway import Gateway
from tests.services.servers import CHECKOUT, Server, ServerFactory

pytestmark = pytest.mark.process
QUESTION = '/tool ask_human {"question": "Which port?"}'


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with fake_gateway.running() as running:
        yield running


def with_model(gateway: Gateway) -> dict[str, str]:
    return {
        "PROTOAGENT__MODEL__PROVIDER": "openai",
        "PROTOAGENT__MODEL__API_BASE": gateway.base,
        "PROTOAGENT__MODEL__NAME": "fake-model",
        "OPENAI_API_KEY": "sk-test",
    }


@pytest.fixture
def home(make_server: ServerFactory) -> Server:
    """An instance that nobody serves."""
    return make_server(start=False)


def test_ask_answers_on_a_home_that_was_never_served(make_server):
    home = make_server(start=False, bare=True)

    result = home.manage("ask", "what is 2 ** 10?")

    assert result.returncode == 0, result.stderr
    assert "1024" in result.stdout
    assert "calculator" in result.stderr


def test_ask_writes_only_the_answer_to_stdout(home, gateway):
    home.environment.update(with_model(gateway))

    result = home.manage("ask", "reply just these words")

    assert result.stdout == "just these words\n"


def test_ask_as_json_writes_the_events_of_the_contract(home):
    result = home.manage("ask", "what is 2 ** 10?", "--json")

    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[0]["type"] == "message.received"
    assert events[-1]["type"] == "turn.finished"
    assert events[-1]["data"]["status"] == "completed"


def test_ask_goes_on_in_a_session_while_serve_runs(server):
    first = server.manage("ask", "what is 2 ** 10?", "--session", "shell")

    second = server.manage("ask", "what is 2 ** 11?", "--session", "shell")

    assert (first.returncode, second.returncode) == (0, 0)
    with server.client() as client:
        events = client.get("/api/chat/sessions/shell/events").json()["events"]
    assert sum(event["type"] == "turn.finished" for event in events) == 2


def test_ask_reads_its_text_from_the_standard_input(home):
    result = home.manage("ask", "-", stdin=None, input="what is 2 ** 10?")

    assert "1024" in result.stdout


def test_ask_without_a_terminal_leaves_a_question_open_and_exits_with_3(home):
    result = home.manage("ask", QUESTION, "--session", "q")

    assert result.returncode == 3
    assert "Which port?" in result.stderr
    assert "session q" in result.stderr


def test_a_question_left_open_is_answered_later_by_the_server(make_server):
    server = make_server(start=False)
    server.manage("ask", QUESTION, "--session", "q")
    server.start()

    with server.client() as client:
        events = client.get("/api/chat/sessions/q/events").json()["events"]
        asked = next(event for event in events if event["type"] == "input.required")
        body = {"interrupt_id": asked["data"]["interrupt_id"], "value": "8080"}
        answered = client.post("/api/chat/sessions/q/answer", json=body)
        finished = _wait_for_the_end(client)

    assert answered.status_code == 200
    assert finished["data"]["status"] == "completed"


def _wait_for_the_end(client) -> dict:
    give_up_at = time.monotonic() + 20
    while time.monotonic() < give_up_at:
        events = client.get("/api/chat/sessions/q/events").json()["events"]
        if events[-1]["type"] == "turn.finished" and events[-1]["data"]["status"] != "waiting":
            return events[-1]
        time.sleep(0.1)
    raise AssertionError(f"the turn did not end: {events}")


class Typist:
    """`ask` on a pseudo terminal."""

    def __init__(self, server: Server, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "ask", *arguments],
            cwd=CHECKOUT,
            env=server.full_environment(),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.text = ""

    def read_until(self, what: str, timeout_s: float = 30) -> str:
        give_up_at = time.monotonic() + timeout_s
        while what not in self.text and time.monotonic() < give_up_at:
            ready, _, _ = select.select([self.master], [], [], 0.2)
            try:
                self.text += os.read(self.master, 4096).decode() if ready else ""
            except OSError:
                break
        assert what in self.text, self.text
        return self.text

    def type(self, line: str) -> None:
        os.write(self.master, f"{line}\n".encode())

    def wait(self) -> int:
        return self.process.wait(20)


def test_a_question_is_answered_on_the_terminal(home):
    typist = Typist(home, QUESTION)

    typist.read_until("Which port?")
    typist.read_until("> ")
    typist.type("8080")

    typist.read_until("→ 8080")
    assert typist.wait() == 0


def test_closing_the_input_leaves_the_question_open(home):
    typist = Typist(home, QUESTION)

    typist.read_until("> ")
    os.write(typist.master, b"\x04")

    assert typist.wait() == 3


def test_a_form_asks_again_for_what_is_wrong(home):
    schema = {
        "type": "object",
        "properties": {
            "port": {"type": "integer", "title": "Port", "minimum": 1},
            "mode": {"type": "string", "title": "Mode", "enum": ["fast", "safe"]},
        },
        "required": ["port", "mode"],
    }
    form = json.dumps({"title": "Set it up", "steps": [{"title": "One", "schema": schema}]})
    typist = Typist(home, f"/tool request_user_input {form}")

    typist.read_until("Port: ")
    typist.type("none")
    typist.read_until("Mode (number): ")
    typist.type("2")
    typist.read_until("✗")
    typist.text = typist.text.partition("✗")[2]
    typist.read_until("Port: ")
    typist.type("8080")

    typist.read_until('"safe"')
    assert typist.wait() == 0


def test_ctrl_c_stops_the_turn(home, gateway):
    home.environment.update(with_model(gateway))
    typist = Typist(home, "say 10000 every 20 ms", "--session", "long")
    typist.read_until("0003")
    started = time.monotonic()

    typist.process.send_signal(signal.SIGINT)

    assert typist.wait() == 130
    assert time.monotonic() - started < 5
    assert home.query("SELECT status FROM journal_turn") == [("stopped",)]


def test_ctrl_c_at_a_question_stops_the_turn(home):
    typist = Typist(home, QUESTION)
    typist.read_until("> ")

    typist.process.send_signal(signal.SIGINT)

    assert typist.wait() == 130
    assert home.query("SELECT status FROM journal_turn") == [("stopped",)]


def test_a_failing_model_ends_with_its_sentence_and_exit_code_1(home, gateway):
    home.environment.update(with_model(gateway))

    result = home.manage("ask", "fail 400")

    assert result.returncode == 1
    assert "error:" in result.stderr
    assert "Traceback" not in result.stderr


def test_escape_sequences_of_a_model_do_not_reach_the_terminal(home, gateway):
    home.environment.update(with_model(gateway))

    result = home.manage("ask", "reply red \x1b[31mtext")

    assert "\x1b" not in result.stdout
    assert "⟦U+001B⟧[31mtext" in result.stdout


@pytest.mark.parametrize("key", ["../../x", "a b", "", "x" * 129])
def test_ask_refuses_a_session_key_that_cannot_be_one(home, key):
    result = home.manage("ask", "hello", f"--session={key}")

    assert result.returncode == (1 if key else 0)
    assert "Traceback" not in result.stderr


def test_ask_refuses_an_empty_message(home):
    result = home.manage("ask", "   ")

    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].endswith("a message needs some text")


def test_doctor_is_content_with_a_served_instance(server):
    result = server.manage("doctor")

    assert result.returncode == 0, result.stdout
    assert "✗" not in result.stdout
    assert "offline" in result.stdout


def test_doctor_says_what_a_stopped_instance_lacks(server):
    server.stop()
    time.sleep(0.1)

    result = server.manage("doctor", "--json")

    findings = json.loads(result.stdout)
    assert result.returncode == 1
    assert findings["ok"] is False
    failing = {finding["part"] for finding in findings["findings"] if not finding["ok"]}
    assert failing == {"processes"}


def test_doctor_names_each_part_that_cannot_be_reached(home):
    dead = "127.0.0.1:9"
    home.environment.update(
        {
            "DATABASE_URL": f"postgres://ada:hunter2@{dead}/agent",
            "REDIS_URL": f"redis://{dead}/0",
            "OPENAI_API_KEY": "sk-test-1234567890",
            "PROTOAGENT__MODEL__API_BASE": f"http://{dead}/v1",
        }
    )

    result = home.manage("doctor", "--json")

    failing = {f["part"] for f in json.loads(result.stdout)["findings"] if not f["ok"]}
    assert result.returncode == 1
    assert failing == {"database", "channel layer", "model"}
    assert "hunter2" not in result.stdout + result.stderr
    assert "sk-test" not in result.stdout + result.stderr


def test_doctor_sees_a_secret_that_others_can_read(server):
    (server.home / "signing.key").chmod(0o644)

    result = server.manage("doctor")

    assert result.returncode == 1
    assert "✗ files: others can read" in result.stdout


def test_doctor_passes_over_redis(redis_url, make_server):
    server = make_server({"REDIS_URL": redis_url})

    result = server.manage("doctor")

    assert "✓ channel layer: A message went through the channel layer (Redis)." in result.stdout
