"""Cards that wait for the operator, and the records they turn into.

`render_card` is the one way in: the snapshot of a page, a live frame and the answer to a
post show the same fragment.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import escape, format_html_join
from django.utils.safestring import SafeString, mark_safe

from protoagent.console import forms, markdown
from protoagent.console.sessions import zone
from protoagent.core.context import Actor
from protoagent.core.text import is_hidden_character, one_line, reveal_hidden
from protoagent.journal.models import Interruption, InterruptionKind, InterruptionState

ICONS = {"question": "message-square", "form": "list-plus", "approval": "shield-alert"}
RECORD_ICONS = {
    "answered": "circle-check",
    "dismissed": "circle-slash",
    "auto": "bot",
    "stopped": "stop",
}
# Approval rows that everybody expects first; anything else in the payload follows them.
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
NOT_ROWS = {"kind", "title", "detail", "options", "session_allow", "description", "question"}
MAX_LOOKALIKES = 5
PLACES = ("hitl", "attention")


@dataclass(frozen=True)
class Option:
    """A button of an approval. `tone` is deny, plain or primary; `chord` is approve, deny or blank."""

    value: str
    label: str
    tone: str
    chord: str = ""


@dataclass(frozen=True)
class Line:
    """A labelled value: a row of an approval, an answer of a record."""

    label: str
    text: SafeString
    is_code: bool = False


def render_card(
    interruption: Interruption,
    *,
    actor: Actor | None,
    user_timezone: str = "",
    csrf_token: str = "",
    **options: Any,
) -> str:
    """The card of an open interruption, or the record of one that is over.

    `actor` decides whether it can be answered; `csrf_token` is only needed where a form
    must work without script. `options`: see `Drawing`.
    """
    drawing = Drawing(interruption, actor, zone(user_timezone), csrf_token, **options)
    if interruption.state != InterruptionState.OPEN:
        return render_to_string("console/_hitl_record.html", {"card": drawing.record()})
    template = {
        InterruptionKind.QUESTION: "console/_hitl_question.html",
        InterruptionKind.FORM: "console/_hitl_form.html",
        InterruptionKind.APPROVAL: "console/_hitl_approval.html",
    }[InterruptionKind(interruption.kind)]
    return render_to_string(template, {"card": drawing.card()})
