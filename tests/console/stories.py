"""Turns as their journals tell them: what the console's tests replay.

One story per paragraph is easier to follow than one argument per line.
"""
# ruff: noqa: E501

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

START = datetime(2026, 3, 18, 13, 2, 10, tzinfo=UTC)
Event = dict[str, Any]


def journal(*steps: tuple[str, dict[str, Any]], turn: str = "t1") -> list[Event]:
    """Events in order, two seconds apart."""
    return [
        {
            "seq": number,
            "turn": turn,
            "at": (START + timedelta(seconds=2 * number)).isoformat().replace("+00:00", "Z"),
            "type": kind,
            "data": data,
        }
        for number, (kind, data) in enumerate(steps, 1)
    ]


def received(text: str = "hello", **data: Any) -> tuple[str, dict[str, Any]]:
    defaults = {"text": text, "client_id": "c1", "mode": "turn", "origin": "operator"}
    return "message.received", {**defaults, **data}


def started(**data: Any) -> tuple[str, dict[str, Any]]:
    return "turn.started", {"origin": "operator", "model": "m", **data}


def delta(text: str) -> tuple[str, dict[str, Any]]:
    return "text.delta", {"text": text}


def call(call_id: str, name: str = "calculator", **args: Any) -> tuple[str, dict[str, Any]]:
    return "tool.started", {"call_id": call_id, "name": name, "args": args, "source": "builtin"}


def ended(call_id: str, output: str = "ok", status: str = "ok") -> tuple[str, dict[str, Any]]:
    data = {"call_id": call_id, "name": "calculator", "status": status, "output": output}
    return "tool.finished", {**data, "output_chars": len(output), "duration_ms": 1234}


def asked(
    card: str = "q1", call_id: str = "a", kind: str = "question"
) -> tuple[str, dict[str, Any]]:
    data = {"interrupt_id": card, "call_id": call_id, "kind": kind}
    return "input.required", {**data, "question": "Which one?", "title": "Choose"}


def resolved(card: str = "q1", outcome: str = "answered") -> tuple[str, dict[str, Any]]:
    return "input.resolved", {"interrupt_id": card, "outcome": outcome, "value": "x"}


def finished(status: str = "completed", text: str = "", **data: Any) -> tuple[str, dict[str, Any]]:
    return "turn.finished", {"status": status, "text": text, "duration_ms": 21_000, **data}


def delivered(*client_ids: str, **data: Any) -> tuple[str, dict[str, Any]]:
    return "note", {"text": "Read.", "kind": "delivered", "client_ids": list(client_ids), **data}


STORIES: dict[str, list[Event]] = {
    "plain": journal(
        received(), started(), delta("Hel"), delta("lo **wor"), delta("ld**.\n\n"),
        delta("```python\nx = 1\n"), delta("y = 2\n```\nend"), ("usage", {"input_tokens": 12_000, "output_tokens": 400, "cost_usd": 0.021}),
        finished(text="…"),
    ),
    "tools": journal(
        received(), started(), call("a", expression="1+1"), ended("a", "1+1 = 2"),
        call("b", "fetch_url", url="https://user@docs.example.org/a/b?c#d"), call("c", "web_search", query="time <series>"),
        ended("c", "5 result(s) for 'time':"), ended("b", "Error: HTTP 403 for https://docs", "error"),
        delta("\n\nDone."), call("d"), ended("d", "x", "cancelled"), finished(text="Done."),
    ),
    "one tool": journal(received(), started(), delta("Let me see"), call("a"), ended("a"), finished(text="Let me see")),
    "components": journal(
        received(), started(), call("a", "show_component"), call("b"),
        ("component", {"call_id": "a", "component": "table", "props": {"title": "T", "columns": ["a", "n"], "rows": [["x", 1], ["<y>", "2.5 GB"]]}}),
        ended("a"), ended("b"), ("component", {"call_id": "b", "component": "keyvalue", "props": {"items": [{"label": "L", "value": 3}]}}),
        ("component", {"call_id": "b", "component": "timeline", "props": {"steps": [{"label": "s", "state": "active", "detail": "d"}, {"label": "z", "state": "odd"}]}}),
        ("component", {"call_id": "b", "component": "hologram", "props": {"a": [1]}}), delta("bye"), finished(text="bye"),
    ),
    "question": journal(
        received(), started(), delta("I ask."), call("a", "ask_human", question="Which one?"), asked(), finished("waiting", "I ask."),
        resolved(), started(resumed=True), ended("a", "x"), delta("\n\nThanks"), finished(text="I ask.\n\nThanks"),
    ),
    "two cards": journal(
        received(), started(), call("a", "ask_human"), call("b", "run_command"), asked("q1", "a"), asked("q2", "b", "approval"),
        finished("waiting"), resolved("q2"), started(resumed=True), ended("b"), finished("waiting"), resolved("q1", "dismissed"),
        started(resumed=True), ended("a"), delta("ok"), finished(text="ok"),
    ),
    "stopped with a card": journal(
        received(), started(), call("a", "ask_human"), asked(), finished("waiting"), resolved("q1", "stopped"),
        ended("a", "Cancelled", "cancelled"), finished("stopped"),
    ),
    "stopped": journal(received(), started(), delta("partial `co"), finished("stopped", "partial `co")),
    "failed": journal(received(), started(), ("note", {"text": "Trying again.", "kind": "retry"}), finished("failed", "", error="the gateway said <no>")),
    "failed at once": journal(received(), finished("failed", "", error="no model")),
    "interrupted": journal(received(), started(), delta("half"), finished("interrupted", "half", error="restart")),
    "steered": journal(
        received(), started(), delta("First"), received("shorter please", client_id="c2", mode="steer"), call("a"), ended("a"),
        delivered("c2"), delta("\n\nShort."), finished(text="First\n\nShort."),
    ),
    "steered at once": journal(
        received(), started(), received("one", client_id="c2", mode="steer"), received("two", client_id="c3", mode="held"),
        received("gone", client_id="c4", mode="steer"), ("note", {"kind": "withdrawn", "client_ids": ["c4"]}),
        delivered("c2", "c3", texts=["one, edited", "two"]), delta("Hi"), finished(text="Hi"),
    ),
    "files": journal(
        received("", attachments=[{"id": "f1", "name": "a <b>.md", "kind": "text", "content_type": "text/plain", "size": 5, "alt": ""}]), started(),
        delta("First"), received("and this", client_id="c2", mode="steer", attachments=[{"id": "f2", "name": "c.png", "kind": "image", "content_type": "image/png", "size": 2048, "alt": "a \"cat\""}]),
        call("a"), ended("a"), delivered("c2"), delta("Ok"), finished(text="First\n\nOk"),
    ),
    "crash": journal(
        received(), started(), delta("Kept.\n\n"), call("a"), ended("a"), delta("Void text"), delta(" goes"),
        started(resumed=True, rewind_to=5), delta("New"), delta(" text"), finished(text="Kept.\n\nNew text"),
    ),
    "crash in the first words": journal(
        received(), started(), delta("Void"), started(resumed=True, rewind_to=2), delta("New"), finished(text="New"),
    ),
    "crash keeps text open": journal(
        received(), started(), delta("Kept "), delta("void"), started(resumed=True, rewind_to=3), delta("more"), finished(text="Kept more"),
    ),
    "crash in a call": journal(
        received(), started(), call("a"), started(resumed=True, rewind_to=2),
        ("tool.started", {"call_id": "a", "name": "calculator", "args": {}, "source": "builtin", "attempt": 2}), ended("a"), delta("ok"), finished(text="ok"),
    ),
    "nested": journal(
        received(), started(), call("a", "task"),
        ("tool.started", {"call_id": "k1", "name": "web_search", "args": {"query": "x"}, "source": "builtin", "parent_call_id": "a"}),
        ended("k1"), ended("a"), finished(text="done"),
    ),
    "only white space": journal(received(), started(), delta("\n"), delta("  "), call("a"), ended("a"), delta("\n\n"), delta("x"), finished(text="x")),
    "links at the end": journal(received(), started(), delta("See [docs][d].\n\nMore\n\n"), delta("[d]: https://example.org\n"), finished(text="x")),
    "scheduled": journal(received("Check the disks", origin="scheduler"), started(origin="scheduler"), delta("fine"), finished(text="fine")),
    "unknown events": journal(received(), started(), ("hologram", {}), ("note", {"text": "Going on with m2.", "kind": "fallback"}), delta("x"), finished(text="x")),
    "no text in deltas": journal(received(), started(), finished(text="All at *once*")),
}  # fmt: skip
