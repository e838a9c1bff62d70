"""Tables, key figures and timelines that tools show in the transcript. Data only, never markup."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from django.utils.safestring import SafeString

from protoagent.console.rendering import fragment
from protoagent.core.text import truncate

MAX_ROWS = 500
MAX_CELL_CHARS = 2000
STATES = {
    "done": ("circle-check", "Done"),
    "active": ("circle-dot", "Now"),
    "todo": ("circle-dashed", "To do"),
}
_NUMBER = re.compile(r"[-+~≈<>$€£]?\s?[\d][\d.,\s]*\s?(?:%|[kKMGT]?i?[bB]?(?:/s)?|ms|s|min|h|d)?\Z")


@dataclass(frozen=True)
class Cell:
    text: str
    is_number: bool


@dataclass(frozen=True)
class Table:
    """`hidden_rows` is how many rows are left out."""

    title: str
    columns: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    hidden_rows: int = 0


@dataclass(frozen=True)
class Step:
    label: str
    detail: str
    state: str
    icon: str
    word: str


def render(element_id: str, kind: str, props: dict[str, Any]) -> SafeString:
    """The component as HTML. A kind that nobody knows here is shown as its data."""
    title = _text(props.get("title", ""))
    context: dict[str, Any] = {"id": element_id, "title": title}
    if kind == "table":
        table = _table(title, props)
        return fragment("_component_table.html", {**context, "table": table})
    if kind == "keyvalue":
        items = [
            (_text(item.get("label", "")), _text(item.get("value", "")))
            for item in _dicts(props.get("items"))
        ]
        return fragment("_component_keyvalue.html", {**context, "items": items})
    if kind == "timeline":
        steps = [_step(step) for step in _dicts(props.get("steps"))]
        return fragment("_component_timeline.html", {**context, "steps": steps})
    data = truncate(json.dumps(props, ensure_ascii=False, indent=2), 20_000)
    return fragment("_component_data.html", {**context, "kind": kind, "data": data})


def _table(title: str, props: dict[str, Any]) -> Table:
    names = [_text(name) for name in _list(props.get("columns"))]
    rows = [_row(row, names) for row in _list(props.get("rows"))]
    width = max([len(names), *(len(row) for row in rows)], default=0)
    rows = [row + [""] * (width - len(row)) for row in rows]
    numeric = [
        bool(rows) and all(_NUMBER.match(row[i]) for row in rows if row[i]) for i in range(width)
    ]
    names += [""] * (width - len(names))
    return Table(
        title,
        tuple(Cell(name, numeric[i]) for i, name in enumerate(names)),
        tuple(
            tuple(Cell(text, numeric[i]) for i, text in enumerate(row)) for row in rows[:MAX_ROWS]
        ),
        hidden_rows=max(0, len(rows) - MAX_ROWS),
    )


def _row(row: Any, names: list[str]) -> list[str]:
    if isinstance(row, dict):
        return [_text(row.get(name, "")) for name in names]
    return [_text(value) for value in _list(row)]


def _step(step: dict[str, Any]) -> Step:
    state = str(step.get("state", "todo"))
    if state not in STATES:
        state = "todo"
    icon, word = STATES[state]
    return Step(_text(step.get("label", "")), _text(step.get("detail", "")), state, icon, word)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return truncate(text, MAX_CELL_CHARS)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in _list(value) if isinstance(item, dict)]
