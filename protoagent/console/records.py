"""What stays of a question, form or approval in the transcript."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo

from django.utils.safestring import SafeString

from protoagent.console import approvals, forms
from protoagent.console.rendering import time_tag
from protoagent.core.text import reveal_hidden
from protoagent.journal.models import Interruption, InterruptionKind, InterruptionState
from tools_app.forms import is_shown, normalise


@dataclass(frozen=True)
class Line:
    """A label and what was answered."""

    label: str
    text: str


@dataclass(frozen=True)
class Record:
    """How an interruption ended. `outcome` is a few words; `when` is blank for an old row."""

    icon: str
    outcome: str
    by: str
    when: SafeString
    lines: tuple[Line, ...]
    detail: SafeString
    tone: str


def record_of(row: Interruption, zone: tzinfo) -> Record:
    """The record of an interruption that is over."""
    state = InterruptionState(row.state)
    icon, outcome, tone = _OUTCOMES[state]
    lines: tuple[Line, ...] = ()
    if state == InterruptionState.ANSWERED:
        lines = _LINES[InterruptionKind(row.kind)](row, zone)
    detail = str(row.payload.get("detail") or "")
    return Record(
        icon=icon,
        outcome=outcome,
        by=reveal_hidden(row.resolved_by),
        when=time_tag(row.resolved_at, zone) if row.resolved_at else SafeString(),
        lines=lines,
        detail=approvals.literal(detail),
        tone=tone,
    )


def _answer(row: Interruption, zone: tzinfo) -> tuple[Line, ...]:
    return (Line("Answer", reveal_hidden(str(row.value or "—"))),)


def _values(row: Interruption, zone: tzinfo) -> tuple[Line, ...]:
    """Each answer in words; fields that were asked and left empty share one line."""
    values = row.value if isinstance(row.value, dict) else {}
    lines, empty = [], []
    for one in (one for step in normalise(row.payload["steps"]) for one in step.fields):
        label, value = reveal_hidden(one.label), values.get(one.name)
        if value not in (None, "", []):
            lines.append(Line(label, forms.shown_value(one, value, zone)))
        elif is_shown(one, values):
            empty.append(label)
    return (*lines, Line("Left empty", ", ".join(empty))) if empty else tuple(lines)


def _decision(row: Interruption, zone: tzinfo) -> tuple[Line, ...]:
    label, reason = approvals.decision_of(row.payload, row.value)
    lines = [Line("Decision", label)]
    if reason:
        lines.append(Line("Reason", reveal_hidden(reason)))
    return tuple(lines)


_LINES = {
    InterruptionKind.QUESTION: _answer,
    InterruptionKind.FORM: _values,
    InterruptionKind.APPROVAL: _decision,
}
_OUTCOMES = {
    InterruptionState.ANSWERED: ("circle-check", "answered", "ok"),
    InterruptionState.DISMISSED: ("circle-slash", "dismissed", "off"),
    InterruptionState.AUTO: ("bot", "No operator, the agent went on", "auto"),
    InterruptionState.STOPPED: ("stop", "stopped before an answer", "off"),
    InterruptionState.OPEN: ("hand", "open", "off"),
}
