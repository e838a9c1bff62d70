"""Typed widgets in the chat: their shapes, and how a tool result carries one.

A result that renders a component is a short sentence, the marker and a JSON envelope
`{component, props}`. Source: spec/behaviour-tools §3.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from protoagent.core.errors import BadValue
from protoagent.core.ids import new_id
from protoagent.core.text import one_line, truncate

KINDS = ("table", "keyvalue", "timeline")
# Not to be guessed: a page that a tool has read, or a model, cannot render a component with it.
MARKER = f"\x1ecomponent/v1/{new_id()}\x1e"
STATES = ("done", "active", "todo")
MAX_ROWS = 2_000
MAX_COLUMNS = 50
MAX_CELL_CHARS = 4_000
MAX_ENVELOPE_CHARS = 300_000


def check_props(component: str, props: Mapping[str, Any], title: str = "") -> dict[str, Any]:
    """The props as every surface gets them: only known keys, cells and labels as text.

    `title` counts only when the props have none. Raises BadValue, naming the valid kinds
    or the part that does not fit, for the model to mend.
    """
    if component == "code-ref":
        raise BadValue("code-ref is not rendered here; it comes from show_code")
    if component not in KINDS:
        shown = one_line(component, 60)
        raise BadValue(f"unknown component {shown!r}. Use one of: {', '.join(KINDS)}.")
    clean = {"table": _table, "keyvalue": _keyvalue, "timeline": _timeline}[component](props)
    heading = _text(props.get("title") or title)
    if heading:
        clean["title"] = truncate(heading, 200)
    if len(json.dumps(clean)) > MAX_ENVELOPE_CHARS:
        raise BadValue(f"this {component} is too large to show; shorten it or make a file")
    return clean


def pack(component: str, props: Mapping[str, Any]) -> str:
    """A tool result that renders the component."""
    envelope = json.dumps({"component": component, "props": props}, ensure_ascii=False)
    return f"Rendered a {component} component for the user. {MARKER}{envelope}"


def split_component(output: str) -> tuple[str, dict[str, Any] | None]:
    """`(sentence, component)` of a tool's full output; never fails.

    The component is None when there is no marker, the envelope is broken or its kind is
    unknown. Props that are no object become `{}`.
    """
    sentence, marker, envelope = output.partition(MARKER)
    if not marker:
        return output, None
    try:
        found = json.loads(envelope)
    except (ValueError, RecursionError):
        return sentence.rstrip(), None
    if not isinstance(found, dict) or found.get("component") not in KINDS:
        return sentence.rstrip(), None
    props = found.get("props")
    clean = {"component": found["component"], "props": props if isinstance(props, dict) else {}}
    return sentence.rstrip(), clean


def _table(props: Mapping[str, Any]) -> dict[str, Any]:
    columns, rows = props.get("columns"), props.get("rows")
    if not isinstance(columns, list) or not columns:
        raise BadValue('a table needs "columns": a list of names')
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise BadValue('a table needs "rows": a list of lists of cells')
    if len(columns) > MAX_COLUMNS or len(rows) > MAX_ROWS:
        raise BadValue(f"a table has at most {MAX_COLUMNS} columns and {MAX_ROWS} rows")
    width = len(columns)
    return {
        "columns": [_text(name) for name in columns],
        "rows": [[_text(cell) for cell in row[:width]] + [""] * (width - len(row)) for row in rows],
    }


def _keyvalue(props: Mapping[str, Any]) -> dict[str, Any]:
    items, pairs = props.get("items"), props.get("pairs")
    if isinstance(pairs, dict) and not items:
        items = [{"label": label, "value": value} for label, value in pairs.items()]
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise BadValue('keyvalue needs "items": a list of {label, value}')
    if len(items) > MAX_ROWS:
        raise BadValue(f"keyvalue has at most {MAX_ROWS} items")
    return {
        "items": [
            {"label": _text(item.get("label")), "value": _text(item.get("value"))} for item in items
        ]
    }


def _timeline(props: Mapping[str, Any]) -> dict[str, Any]:
    steps = props.get("steps")
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise BadValue('a timeline needs "steps": a list of {label, state, detail}')
    if len(steps) > MAX_ROWS:
        raise BadValue(f"a timeline has at most {MAX_ROWS} steps")
    return {"steps": [_timeline_step(step) for step in steps]}


def _timeline_step(step: Mapping[str, Any]) -> dict[str, str]:
    state = step.get("state")
    clean = {
        "label": _text(step.get("label")),
        "state": state if state in STATES else "todo",
    }
    if step.get("detail"):
        clean["detail"] = _text(step["detail"])
    return clean


def _text(value: Any) -> str:
    """Text as it is, everything else as JSON; blank for nothing."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return truncate(text, MAX_CELL_CHARS)
