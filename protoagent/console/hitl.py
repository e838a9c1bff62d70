"""Cards that wait for the operator, and the records they turn into.

`render_card` is the one way in: the snapshot of a page, a live frame and the answer to a
post show the same fragment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any

from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe

from protoagent.console import approvals, forms, markdown, records
from protoagent.console.rendering import agent_name, zone_of
from protoagent.console.wizard import Wizard
from protoagent.core.context import Actor
from protoagent.core.text import one_line, reveal_hidden
from protoagent.journal.models import Interruption, InterruptionKind, InterruptionState

PLACES = ("hitl", "attention")
TEMPLATES = {
    InterruptionKind.QUESTION: "console/_hitl_question.html",
    InterruptionKind.FORM: "console/_hitl_form.html",
    InterruptionKind.APPROVAL: "console/_hitl_approval.html",
}
MAX_HEADING_CHARS = 140


@dataclass(frozen=True)
class View:
    """How a card is drawn: where it stands, and what has just happened to it.

    `place` tells the card in the transcript from the one in the list of what waits.
    `focus` makes the page move the focus: to the card, or to the composer after the end.
    `reply` is an answer that was refused, `wizard` a form whose post has just been read.
    """

    place: str = "hitl"
    focus: str = ""
    error: str = ""
    notice: str = ""
    reply: str | None = None
    asks_dismissal: bool = False
    wizard: Wizard | None = None


@dataclass(frozen=True)
class Card:
    """What the card templates show."""

    row: Interruption
    view: View
    html_id: str
    can_answer: bool
    csrf_token: str
    heading: str
    description: SafeString
    announce: str = ""
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self._url("card")

    @property
    def answer_url(self) -> str:
        return self._url("answer")

    @property
    def dismiss_url(self) -> str:
        return self._url("dismiss")

    @property
    def draft_url(self) -> str:
        return self._url("draft")

    @property
    def step_url(self) -> str:
        return self._url("step", self.more.get("number", 0))

    def _url(self, name: str, *more: int) -> str:
        key = self.row.turn.session.key
        address = reverse(f"console:hitl-{name}", args=[key, self.row.pk, *more])
        return address if self.view.place == "hitl" else f"{address}?place={self.view.place}"


def render_card(
    interruption: Interruption,
    *,
    actor: Actor | None,
    user_timezone: str = "",
    csrf_token: str = "",
    view: View | None = None,
) -> SafeString:
    """The card of an open interruption, or the record of one that is over.

    A viewer sees the card without its controls. `csrf_token` is needed only where a form
    must also work without script. One root element, with the id `hitl-<id>`.
    """
    view = view or View()
    card = Card(
        row=interruption,
        view=view,
        html_id=f"{view.place}-{interruption.pk}",
        can_answer=actor is not None and actor.can_write,
        csrf_token=csrf_token,
        heading=heading_of(interruption),
        description=_description(interruption),
    )
    zone = zone_of(user_timezone)
    if interruption.state != InterruptionState.OPEN:
        context: dict[str, Any] = {"card": card, "record": records.record_of(interruption, zone)}
        template = "console/_hitl_record.html"
    else:
        kind = InterruptionKind(interruption.kind)
        context, template = {"card": card, **_CONTEXT[kind](card, zone)}, TEMPLATES[kind]
    return mark_safe(render_to_string(template, context).strip())  # noqa: S308 — a rendered template


def heading_of(row: Interruption) -> str:
    """The card's title in plain text: the question itself when it fits on a line."""
    payload = row.payload
    if row.kind != InterruptionKind.QUESTION:
        default = "Allow this?" if row.kind == InterruptionKind.APPROVAL else "A form"
        return reveal_hidden(one_line(str(payload.get("title") or ""), 300)) or default
    question = str(payload.get("question") or "").strip()
    return reveal_hidden(question) if _is_plain(question) else f"{agent_name()} asks"


def _description(row: Interruption) -> SafeString:
    payload = row.payload
    text = str(payload.get("description") or "")
    if row.kind == InterruptionKind.QUESTION:
        question = str(payload.get("question") or "").strip()
        text = "" if _is_plain(question) else question
    if row.kind == InterruptionKind.APPROVAL:  # may hold what an attacker wrote: never Markdown
        return conditional_escape(reveal_hidden(text))
    return _rendered(text)


def _rendered(text: str) -> SafeString:
    return mark_safe(markdown.render(text)) if text.strip() else SafeString()  # noqa: S308 — sanitised


def _is_plain(question: str) -> bool:
    """Whether a question needs no Markdown: one short line without any of its marks."""
    return (
        0 < len(question) <= MAX_HEADING_CHARS
        and "\n" not in question
        and not any(mark in question for mark in "*_`[]<>#|~\\")
    )


def _question(card: Card, zone: tzinfo) -> dict[str, Any]:
    draft = card.row.draft.get("answer", "")
    reply = draft if card.view.reply is None else card.view.reply
    return {"reply": reply, "mask_note": forms.MASKED_NOTE, "is_masked": forms.MASK in str(reply)}


def _form(card: Card, zone: tzinfo) -> dict[str, Any]:
    wizard = card.view.wizard or Wizard.of(card.row)
    card.more["number"] = wizard.number
    shown = wizard.shown_steps
    position = shown.index(wizard.number) if wizard.number in shown else 0
    title = reveal_hidden(wizard.step.title) or f"Step {position + 1}"
    drawn = forms.controls(
        wizard.step,
        wizard.values,
        card=card.html_id,
        zone=zone,
        errors=wizard.errors,
        watched=wizard.watched,
    )
    return {
        "wizard": wizard,
        "controls": drawn,
        "shown_names": " ".join(control.name for control in drawn),
        "stepper": _stepper(wizard, shown),
        "step_title": title,
        "step_label": f"Step {position + 1} of {len(shown)}, {title}",
        "step_description": _rendered(wizard.step.description),
    }


def _stepper(wizard: Wizard, shown: list[int]) -> list[tuple[str, str]]:
    """State and title of each step, when there is more than one."""
    if len(shown) < 2:
        return []
    return [
        (
            "done" if number < wizard.number else "now" if number == wizard.number else "todo",
            reveal_hidden(wizard.steps[number].title) or f"Step {place}",
        )
        for place, number in enumerate(shown, 1)
    ]


def _approval(card: Card, zone: tzinfo) -> dict[str, Any]:
    return approvals.shown(card.row.payload)


_CONTEXT = {
    InterruptionKind.QUESTION: _question,
    InterruptionKind.FORM: _form,
    InterruptionKind.APPROVAL: _approval,
}
