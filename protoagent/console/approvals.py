"""What an approval shows: the literal text, what goes with it, and the buttons.

Everything in the payload is shown, because an answer is bound to all of it.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass
from typing import Any

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from protoagent.core.text import is_hidden_character, one_line, reveal_hidden
from tools_app.approvals import is_approval

# Rows that everybody looks for first; anything else in the payload follows them.
ROW_LABELS = {
    "why": "Why",
    "project": "Project",
    "folder": "Folder",
    "path": "Path",
    "timeout": "Timeout",
    "undo": "Undo",
    "tool": "Tool",
    "rule": "Asked by rule",
}
CODE_ROWS = {"folder", "path", "undo", "tool", "rule", "project"}
NOT_ROWS = {"kind", "title", "detail", "options", "session_allow", "description"}
MAX_LOOKALIKES = 5
APPROVED, DENIED, SESSION = "approved", "denied", "session"
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Option:
    """A button. `tone` is deny, plain or primary; `chord` names its key combination."""

    value: str
    label: str
    tone: str
    chord: str = ""


@dataclass(frozen=True)
class Row:
    """One labelled value beside the literal text."""

    label: str
    text: SafeString
    is_code: bool


def shown(payload: dict[str, Any]) -> dict[str, Any]:
    """What the template of an open approval needs."""
    detail = str(payload.get("detail") or "")
    has_hidden = any(is_hidden_character(char) for char in detail)
    return {
        "detail": literal(detail),
        "detail_lines": detail.count("\n") + 1 if detail else 0,
        "rows": rows_of(payload),
        "options": options_of(payload),
        "has_own_options": bool(payload.get("options")),
        "warnings": _warnings(detail, has_hidden=has_hidden),
    }


def literal(text: str) -> SafeString:
    """The text as it is, with marks in place of characters that draw nothing or reorder."""
    escaped = escape(reveal_hidden(text.replace("\r\n", "\n")))
    marked = re.sub(r"⟦U\+[0-9A-F]{4,6}⟧", r"<mark>\g<0></mark>", escaped)
    return mark_safe(marked)  # noqa: S308 — escaped above, marks are ours


def rows_of(payload: dict[str, Any]) -> list[Row]:
    """Everything that belongs to the decision besides title and text, known rows first."""
    rest = [name for name in payload if name not in NOT_ROWS and name not in ROW_LABELS]
    rows = []
    for name in (*ROW_LABELS, *rest):
        value = payload.get(name)
        if value in (None, "", [], {}):
            continue
        label = (
            ROW_LABELS.get(name) or reveal_hidden(one_line(name.replace("_", " "), 40)).capitalize()
        )
        rows.append(Row(label, literal(_text(name, value)), name in CODE_ROWS))
    return rows


def options_of(payload: dict[str, Any]) -> list[Option]:
    """The buttons from left to right. Refusing stands first, and no button is the default."""
    given = payload.get("options")
    if isinstance(given, list) and given:
        return _given(given)
    options = [Option(DENIED, "Deny", "deny", "deny")]
    if payload.get("session_allow") is True:
        options.append(Option(SESSION, "Allow for this session", "plain"))
    return [*options, Option(APPROVED, "Approve once", "primary", "approve")]


def value_of(payload: dict[str, Any], decision: str, reason: str) -> Any:
    """What the tool gets for a pressed button, or None for one that this card does not have."""
    pressed = next((one for one in options_of(payload) if one.value == decision), None)
    if pressed is None:
        return None
    if decision == SESSION:
        return {"decision": APPROVED, "scope": SESSION}
    reason = reason.strip()
    if pressed.tone == "deny" and reason:
        return {"decision": decision, "reason": reason}
    return decision


def decision_of(payload: dict[str, Any], value: Any) -> tuple[str, str]:
    """The label of the decision that `value` is, and the reason that came with it."""
    reason = ""
    decision = value
    if isinstance(value, dict):
        reason = str(value.get("reason") or "")
        decision = value.get("decision", value.get("answer", value.get("approved")))
        if value.get("scope") == SESSION:
            return "Allowed for this session", reason
    labels = {one.value: one.label for one in options_of(payload) if payload.get("options")}
    if isinstance(decision, str) and decision in labels:
        return labels[decision], reason
    return ("Approved once" if is_approval(value) else "Denied"), reason


def _given(given: list[Any]) -> list[Option]:
    options = []
    for item in given:
        spec = item if isinstance(item, dict) else {"value": str(item)}
        value = str(spec.get("value", ""))
        label = reveal_hidden(str(spec.get("label") or spec.get("title") or _words(value)))
        tone = "deny" if _refuses(value, spec) else "primary" if spec.get("primary") else "plain"
        options.append(Option(value, label, tone))
    chords = {"deny": "deny", "primary": "approve"}
    ordered = sorted(options, key=lambda one: ("deny", "plain", "primary").index(one.tone))
    if not any(one.tone == "deny" for one in ordered):
        ordered.insert(0, Option(DENIED, "Deny", "deny"))
    return [Option(o.value, o.label, o.tone, chords.get(o.tone, "")) for o in ordered]


def _refuses(value: str, spec: dict[str, Any]) -> bool:
    style = str(spec.get("tone") or spec.get("style") or "")
    return style in ("deny", "danger") or value.partition("@")[0] in ("deny", "denied", "no")


def _words(value: str) -> str:
    return value.partition("@")[0].replace("-", " ").replace("_", " ").capitalize()


def _text(name: str, value: Any) -> str:
    if name == "timeout" and isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:g} s"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str | int | float):
        return str(value)
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _warnings(detail: str, *, has_hidden: bool) -> list[str]:
    warnings = []
    if has_hidden:
        warnings.append("Contains characters that draw nothing or reorder text; they are marked.")
    if found := _lookalikes(detail):
        named = ", ".join(f"{char} ({unicodedata.name(char, 'unnamed').title()})" for char in found)
        warnings.append(f"Contains letters that look like others: {named}.")
    return warnings


def _lookalikes(text: str) -> list[str]:
    """Foreign letters inside words that are otherwise plain ASCII, such as a Cyrillic а."""
    if text.isascii():
        return []
    found: dict[str, None] = {}
    for word in _WORD.findall(text):
        if word.isascii() or not any(char.isascii() and char.isalpha() for char in word):
            continue
        found.update(dict.fromkeys(char for char in word if _is_foreign(char)))
    return list(found)[:MAX_LOOKALIKES]


def _is_foreign(char: str) -> bool:
    return char.isalpha() and not char.isascii() and "LATIN" not in unicodedata.name(char, "")
