"""A session as a document to keep: Markdown for people, JSON for programs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from protoagent.config import services as config
from protoagent.core import clock
from protoagent.core.errors import BadValue, Conflict
from protoagent.core.ids import slug
from protoagent.core.text import size_text
from protoagent.journal.models import ChatSession
from protoagent.journal.services.transcript import Entry, entries, tool_outputs
from protoagent.security.redaction import MASK, mask_text, mask_value, one_masked_line

FORMATS = {"md": "text/markdown; charset=utf-8", "json": "application/json"}
SCHEMA = "protoagent.session/1"


@dataclass(frozen=True)
class Document:
    """A finished export."""

    name: str
    content_type: str
    body: str


def export(session: ChatSession, *, fmt: str = "md", tool_bodies: bool = False) -> Document:
    """The whole session as a document; secrets are masked and the document says how many.

    `tool_bodies` adds what each call was given and what it returned, in full. Raises
    BadValue for an unknown format and Conflict for an incognito session.
    """
    if fmt not in FORMATS:
        raise BadValue(
            f"a session is exported as {' or '.join(FORMATS)}, not {one_masked_line(fmt, 20)!r}"
        )
    if session.incognito:
        raise Conflict("an incognito session is not exported: nothing of it leaves the console")
    rows = [_Row(entry, tool_bodies=tool_bodies) for entry in _with_outputs(session, tool_bodies)]
    write = _markdown if fmt == "md" else _json
    name = f"{slug(mask_text(session.title), 'session')[:60]}-{slug(session.key)[:40]}.{fmt}"
    return Document(name, FORMATS[fmt], write(session, rows))


class _Row:
    """An entry with everything masked: a secret may have become known after it was stored."""

    def __init__(self, entry: Entry, *, tool_bodies: bool) -> None:
        self.kind, self.at, self.turn_id, self.seq = entry.kind, entry.at, entry.turn_id, entry.seq
        self.text = mask_text(entry.text)
        data = {key: value for key, value in entry.data.items() if key != "text"}
        if entry.kind == "call" and not tool_bodies:
            data = {key: value for key, value in data.items() if key not in ("args", "output")}
        self.data: dict[str, Any] = mask_value(_without_passwords(data))


def _without_passwords(data: dict[str, Any]) -> dict[str, Any]:
    """The data of a question; what was typed into password fields is hidden."""
    value, steps = data.get("value"), data.get("steps")
    if not isinstance(value, dict) or not isinstance(steps, list):
        return data
    hidden = {
        name
        for step in steps
        for name, schema in _properties(step).items()
        if isinstance(schema, dict) and schema.get("format") == "password"
    }
    shown = {name: MASK if name in hidden and part else part for name, part in value.items()}
    return {**data, "value": shown}


def _properties(step: Any) -> dict[str, Any]:
    schema = step.get("schema") if isinstance(step, dict) else None
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return properties if isinstance(properties, dict) else {}


def _with_outputs(session: ChatSession, wanted: bool) -> list[Entry]:
    """The entries; the events hold 800 characters of a result, the turn's messages all of it."""
    rows = entries(session)
    turn_id, outputs = None, {}
    for entry in rows if wanted else ():
        if entry.kind != "call" or entry.turn_id is None:
            continue
        if entry.turn_id != turn_id:
            turn_id, outputs = entry.turn_id, tool_outputs(entry.turn_id)
        if full := outputs.get(str(entry.data.get("call_id", ""))):
            entry.data["output"] = full
    return rows


def _json(session: ChatSession, rows: list[_Row]) -> str:
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "session": {
            "key": session.key,
            "title": mask_text(session.title),
            "agent": session.agent.key,
            "model": session.model,
            "created_at": _utc(session.created_at),
            "last_seq": session.last_seq,
        },
        "exported_at": _utc(clock.now()),
        "entries": [_json_row(row) for row in rows],
    }
    document["masked"] = json.dumps(document, ensure_ascii=False).count(MASK)
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def _json_row(row: _Row) -> dict[str, Any]:
    head = {"kind": row.kind, "at": _utc(row.at), "turn": row.turn_id, "seq": row.seq}
    said = {"text": row.text} if row.text or row.kind in ("message", "answer", "note") else {}
    return {**head, **said, **row.data}


def _markdown(session: ChatSession, rows: list[_Row]) -> str:
    agent = session.agent.name or str(config.get("identity.name")) or session.agent.key
    title = one_masked_line(session.title, 200) or "Session"
    blocks = [
        f"# {title}",
        f"Session `{session.key}` with {agent}, started {_minute(session.created_at)},"
        f" exported {_minute(clock.now())}.",
    ]
    speaker = None
    for row in rows:
        who = "You" if row.kind == "message" else agent
        heading = (who, row.turn_id, row.seq if row.kind == "message" else 0)
        if heading != speaker:
            blocks.append(f"## {_heading(row, who)}")
            speaker = heading
        if block := _MARKDOWN[row.kind](row):
            blocks.append(block)
    if count := sum(block.count(MASK) for block in blocks):
        places = "1 place" if count == 1 else f"{count} places"
        blocks.append(f"---\n\nMasked in {places}: text that looks like a secret.")
    return "\n\n".join(blocks) + "\n"


def _heading(row: _Row, who: str) -> str:
    origin = str(row.data.get("origin") or "operator")
    if row.kind == "message" and origin not in ("operator", "api"):
        who = origin.capitalize()
    mode = {"steer": "steered", "held": "held until the answer"}.get(str(row.data.get("mode")), "")
    if row.data.get("fate") == "withdrawn":
        mode = "withdrawn"
    return f"{who} · {_minute(row.at)}" + (f" · {mode}" if mode else "")


def _call(row: _Row) -> str:
    data = row.data
    status = str(data.get("status") or "not finished")
    took = data.get("duration_ms")
    line = f"- Tool `{data.get('name', '?')}`: {status}"
    if isinstance(took, int):
        line += f", {took / 1000:.1f} s" if took >= 1000 else f", {took} ms"
    parts = [line]
    if data.get("args"):
        parts.append(_fenced(json.dumps(data["args"], ensure_ascii=False, indent=2), "json"))
    if data.get("output"):
        parts.append(_fenced(str(data["output"])))
    return "\n\n".join(parts)


def _component(row: _Row) -> str:
    props = json.dumps(row.data.get("props", {}), ensure_ascii=False, indent=2)
    return f"- Component `{row.data.get('component', '?')}`\n\n{_fenced(props, 'json')}"


def _question(row: _Row) -> str:
    data = row.data
    shown = data.get("question") or data.get("title") or data.get("kind", "question")
    parts = [f"> **Asked:** {_quoted(str(shown))}"]
    if data.get("detail"):
        parts.append(_fenced(str(data["detail"])))
    value = data.get("value")
    if isinstance(value, str):
        parts.append(f"> **Answer:** {_quoted(value)}")
    elif value is not None:
        parts.append(_fenced(json.dumps(value, ensure_ascii=False, indent=2), "json"))
    parts.append(f"> {_OUTCOMES.get(str(data.get('outcome')), 'Not answered yet.')}")
    return "\n\n".join(parts)


def _files(row: _Row) -> str:
    """A line for each attached file."""
    files = row.data.get("attachments") or ()
    return "\n".join(f"- Attached: {_quoted(one['name'])} ({_sized(one)})" for one in files)


def _sized(file: dict[str, Any]) -> str:
    alt = _quoted(str(file.get("alt") or ""))
    return size_text(int(file["size"])) + (f", {alt}" if alt else "")


def _end(row: _Row) -> str:
    status = str(row.data.get("status", ""))
    if status == "completed":
        return ""
    error = row.data.get("error")
    return f"*The turn was {status}." + (f" {_quoted(str(error))}" if error else "") + "*"


_OUTCOMES = {
    "answered": "Answered.",
    "dismissed": "Dismissed.",
    "auto": "No operator, the agent went on.",
    "stopped": "Stopped before an answer.",
}
_MARKDOWN: dict[str, Callable[[_Row], str]] = {
    "message": lambda row: "\n\n".join(part for part in (row.text, _files(row)) if part),
    "answer": lambda row: row.text.strip(),
    "call": _call,
    "component": _component,
    "question": _question,
    "note": lambda row: f"*{_quoted(row.text)}*",
    "end": _end,
}


def _fenced(text: str, language: str = "") -> str:
    """A code block whose fence is longer than any run of backticks inside it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _quoted(text: str) -> str:
    return " ".join(text.split())


def _minute(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M UTC")


def _utc(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
