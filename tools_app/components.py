"""Data that a tool shows in the transcript as a table, a list of figures or a timeline.

A tool's answer carries it in band: one sentence for the model, then a record separator
with a version tag, then JSON. Source: spec/behaviour-tools.md §3.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from protoagent.core.errors import BadValue, TooLarge
from protoagent.core.text import one_line

SENTINEL = "\x1eprotoagent.component.v1\x1e"
MAX_CHARS = 200_000
STATES = ("done", "active", "todo")

Props = dict[str, Any]


def checked(component: str, props: Props, title: str = "") -> Props:
    """The props as every surface expects them, with `title` where they have none.

    Raises BadValue for an unknown component and for props without the list it shows,
    TooLarge when there is too much of it.
    """
    if component == "code-ref":
        raise BadValue("code-ref is not built here; show_code points into a project file")
    if component not in _KINDS:
        raise BadValue(
            f"unknown component {one_line(component, 60)!r}. Use one of: {', '.join(_KINDS)}."
        )
    shown = tidied(component, props)
    wanted, example = _NEEDED[component]
    if not shown[wanted]:
        raise BadValue(f"a {component} needs {wanted}, for example {example}")
    if title.strip() and not shown.get("title"):
        shown["title"] = title.strip()
    if len(json.dumps(shown, ensure_ascii=False)) > MAX_CHARS:
        raise TooLarge(f"a component has at most {MAX_CHARS:,} characters; show less at once")
    return shown


def tidied(component: str, props: Any) -> Props:
    """The props of a known component in their one shape; what cannot be shown is left out."""
    raw = props if isinstance(props, dict) else {}
    shown = _KINDS[component](raw)
    if raw.get("title") not in (None, ""):
        shown["title"] = _text(raw["title"])
    return shown


def joined(sentence: str, component: str, props: Props) -> str:
    """The answer of a tool that says `sentence` and shows a component."""
    envelope = json.dumps({"component": component, "props": props}, ensure_ascii=False)
    return f"{sentence}{SENTINEL}{envelope}"


def split_component(output: str) -> tuple[str, dict[str, Any] | None]:
    """The sentence of a tool's answer, and `{component, props}` if it shows one.

    Malformed JSON and unknown kinds show nothing. Never raises.
    """
    sentence, found, envelope = output.partition(SENTINEL)
    if not found:
        return output, None
    sentence = sentence.rstrip()
    try:
        data = json.loads(envelope)
    except (ValueError, RecursionError):
        return sentence, None
    kind = data.get("component") if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        return sentence, None
    return sentence, {"component": kind, "props": tidied(kind, data.get("props"))}


def _table(raw: Props) -> Props:
    columns = [_text(name) for name in _list(raw.get("columns"))]
    rows = []
    for row in _list(raw.get("rows")):
        if isinstance(row, dict):  # named cells: the columns decide, or the first row does
            columns = columns or [_text(name) for name in row]
            row = [row.get(name, "") for name in columns]
        rows.append([_text(cell) for cell in (row if isinstance(row, list) else [row])])
    return {"columns": columns, "rows": rows}


def _keyvalue(raw: Props) -> Props:
    items = raw.get("items")
    if isinstance(items, dict) or (not items and isinstance(raw.get("pairs"), dict)):
        pairs = items if isinstance(items, dict) else raw["pairs"]
        items = [{"label": label, "value": value} for label, value in pairs.items()]
    return {
        "items": [
            {"label": _text(item.get("label", "")), "value": _text(item.get("value", ""))}
            for item in _list(items)
            if isinstance(item, dict)
        ]
    }


def _timeline(raw: Props) -> Props:
    return {"steps": [_step(step) for step in _list(raw.get("steps")) if step]}


def _step(raw: Any) -> Props:
    step = raw if isinstance(raw, dict) else {"label": raw}
    state = str(step.get("state", "")).strip().lower()
    shown = {"label": _text(step.get("label", "")), "state": state if state in STATES else "todo"}
    if step.get("detail") not in (None, ""):
        shown["detail"] = _text(step["detail"])
    return shown


_KINDS: dict[str, Callable[[Props], Props]] = {
    "table": _table,
    "keyvalue": _keyvalue,
    "timeline": _timeline,
}
_NEEDED = {
    "table": ("rows", '{"columns": ["A", "B"], "rows": [["a1", "b1"]]}'),
    "keyvalue": ("items", '{"items": [{"label": "Credits", "value": "183k"}]}'),
    "timeline": ("steps", '{"steps": [{"label": "Buy hauler", "state": "done"}]}'),
}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)
