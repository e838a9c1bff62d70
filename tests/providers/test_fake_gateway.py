"""The scripted gateway that the whole suite and the benchmarks rely on."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.fakes import directives
from tests.fakes.gateway import Gateway


def call(url: str, body: Any = None, timeout: float = 5) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data), timeout=timeout) as answer:
        return json.loads(answer.read())


def chat(gateway: Gateway, *messages: Any, **fields: Any) -> Any:
    listed = [{"role": "user", "content": m} if isinstance(m, str) else m for m in messages]
    body = {"model": "x", "messages": listed, **fields}
    return call(f"{gateway.base}/chat/completions", body)["choices"][0]["message"]


def played(gateway: Gateway, text: str) -> list[Any]:
    """What an agent that obeys every call goes through: names of tools, then the text."""
    messages: list[Any] = [{"role": "user", "content": text}]
    steps: list[Any] = []
    while True:
        message = chat(gateway, *messages)
        calls = message.get("tool_calls") or []
        if not calls:
            return [*steps, message["content"]]
        steps.append([made["function"]["name"] for made in calls])
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        for number, made in enumerate(calls):
            result = f"r{number}"
            messages.append({"role": "tool", "tool_call_id": made["id"], "content": result})


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("say 3", ["0000 0001 0002 "]),
        ("hello", ["ok"]),
        ("reply Good morning, Ada", ["Good morning, Ada"]),
        ("call t {}", [["t"], "done: r0"]),
        ("loop 3 t", [["t"], ["t"], ["t"], "done: r0"]),
        ("parallel 3 t", [["t"] * 3, "done: r2"]),
        ("say 1\nsay 2", ["0000 0001 "]),
        ("call a\nthen call b {}\nthen say 1", [["a"], ["b"], "0000 "]),
        ("loop 2 a\nthen parallel 2 b\nthen reply Bye", [["a"], ["a"], ["b", "b"], "Bye"]),
        ("please\nsay 1\nthanks", ["0000 "]),
    ],
)
def test_a_script_is_played_step_by_step(gateway: Gateway, text: str, steps: list[Any]) -> None:
    assert played(gateway, text) == steps


def test_only_the_running_turn_counts(gateway: Gateway) -> None:
    done = {"role": "assistant", "content": "0000 "}

    assert chat(gateway, "say 1", done, "hello")["content"] == "ok"
    assert chat(gateway, "say 1", "a frame of the agent")["content"] == "0000 "
    assert (
        chat(gateway, [{"role": "user", "content": [{"type": "text", "text": "say 2"}]}][0])[
            "content"
        ]
        == "0000 0001 "
    )


def test_arguments_are_passed_on(gateway: Gateway) -> None:
    message = chat(gateway, 'call t {"a": {"b": [1, "x y"]}} trailing')

    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"a": {"b": [1, "x y"]}}


def test_a_failure_happens_as_often_as_asked(gateway: Gateway) -> None:
    for _ in range(2):
        with pytest.raises(urllib.error.HTTPError) as caught:
            chat(gateway, "fail 503 2 retry-after 9\nsay 1")
        assert (caught.value.code, caught.value.headers["Retry-After"]) == (503, "9")

    assert chat(gateway, "fail 503 2 retry-after 9\nsay 1")["content"] == "0000 "


def test_a_call_without_its_result_is_refused(gateway: Gateway) -> None:
    made = [{"id": "c1", "type": "function", "function": {"name": "t", "arguments": "{}"}}]

    with pytest.raises(urllib.error.HTTPError) as caught:
        chat(gateway, "hi", {"role": "assistant", "tool_calls": made}, "and now?")

    assert caught.value.code == 400
    assert "c1" in caught.value.read().decode()


@pytest.mark.parametrize(
    ("roles", "wrong"),
    [
        ("u c1 r1", []),
        ("u c12 r2 r1 u", []),
        ("u c1", ["1"]),
        ("u c12 r1", ["2"]),
        ("u c1 u r1", ["1", "1"]),
        ("u r1", ["1"]),
        ("u c1 r1 r1", ["1"]),
    ],
)
def test_pairing_is_judged(roles: str, wrong: list[str]) -> None:
    messages: list[dict[str, Any]] = []
    for word in roles.split():
        if word == "u":
            messages.append({"role": "user", "content": "x"})
        elif word[0] == "c":
            messages.append({"role": "assistant", "tool_calls": [{"id": n} for n in word[1:]]})
        else:
            messages.append({"role": "tool", "tool_call_id": word[1:], "content": ""})

    assert directives.unpaired(messages) == wrong


def test_requests_and_counters_can_be_read_and_reset(gateway: Gateway) -> None:
    chat(gateway, "say 1")
    chat(gateway, "hello")

    texts = [body["messages"][0]["content"] for body in call(f"{gateway.url}/requests")]
    stats = call(f"{gateway.url}/stats")
    call(f"{gateway.url}/reset", {})

    assert texts == ["say 1", "hello"]
    assert (stats["chat_requests"], stats["unscripted_requests"]) == (2, 1)
    assert call(f"{gateway.url}/requests") == []
    assert gateway.stats["chat_requests"] == 0


def test_a_registered_text_is_replayed(gateway: Gateway) -> None:
    call(f"{gateway.url}/texts", {"name": "mine", "text": "# Title\n\nü 漢"})

    assert chat(gateway, "stream mine")["content"] == "# Title\n\nü 漢"
    assert "```python" in chat(gateway, "stream sample every 1 ms")["content"]


def test_it_runs_as_a_process() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.fakes.gateway", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        listed = call(line.split()[-1] + "/models")
    finally:
        process.kill()
        process.communicate()

    assert line.startswith("gateway on http://127.0.0.1:")
    assert listed["data"][0]["id"] == "fake-model"
