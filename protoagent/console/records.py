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
    values = row.value if isinstance(row.value, dict) else {}
    return tuple(
        Line(reveal_hidden(one.label), forms.shown_value(one, values.get(one.name), zone))
        for step in normalise(row.payload["steps"])
        for one in step.fields
        if one.name in values or is_shown(one, values)
    )


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
