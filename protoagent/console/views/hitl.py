"""Answering what the agent asks: cards, steps, drafts, answers, dismissals."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse, QueryDict
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from protoagent.console import approvals, hitl
from protoagent.console.hitl import View
from protoagent.console.rendering import zone_of
from protoagent.console.sessions import chat_url
from protoagent.console.wizard import Wizard
from protoagent.core.errors import AgentError, BadValue, Conflict, InvalidForm
from protoagent.journal.models import Interruption, InterruptionKind, InterruptionState
from protoagent.journal.services import agents, pauses, sessions
from protoagent.runtime import service
from protoagent.security.redaction import mask_text
from protoagent.web import htmx
from protoagent.web.auth import actor_of

ELSEWHERE = "Answered in another tab"
OVER = {
    InterruptionState.ANSWERED: ELSEWHERE,
    InterruptionState.DISMISSED: "Dismissed in another tab",
    InterruptionState.STOPPED: "The turn was stopped; this needs no answer any more",
    InterruptionState.AUTO: "The agent went on without an answer",
}
CHANGED = "This has changed while you read it. Look again before you decide."


@require_GET
def card(request: HttpRequest, key: str, number: str) -> HttpResponse:
    """The card or the record, as it stands."""
    row = _find(key, number)
    if not htmx.is_swap(request) and row.state != InterruptionState.OPEN:
        return HttpResponseRedirect(f"{chat_url(key)}#hitl-{row.pk}")
    return _show(request, row, View(focus="card") if request.GET.get("focus") else View())


@require_http_methods(["GET", "POST"])
def step(request: HttpRequest, key: str, number: str, step_number: int) -> HttpResponse:
    """Leave a step: forward when it is in order, back in any case, or send the whole form."""
    row = _find(key, number)
    if row.kind != InterruptionKind.FORM:
        raise BadValue("only a form has steps")
    if over := _over(request, row):
        return over
    wizard = Wizard.of(row)
    if step_number >= len(wizard.steps):
        raise BadValue(f"this form has {len(wizard.steps)} steps")
    if request.method == "GET":
        wizard.number = wizard.nearest(step_number)
        return _show(request, row, View(wizard=wizard))
    wizard.take(step_number, request.POST, _zone())
    return _move(request, row, wizard)


@require_POST
def draft(request: HttpRequest, key: str, number: str) -> HttpResponse:
    """What has been entered so far is kept. The answer names the fields that were masked."""
    row = _find(key, number)
    if row.state != InterruptionState.OPEN:
        raise Conflict("this has been answered already")
    if row.kind == InterruptionKind.FORM:
        return JsonResponse({"masked": _save_form(row, request.POST)})
    text = request.POST.get("answer", "")
    clean = mask_text(text)
    if not pauses.save_draft(row.pk, step=0, draft={"answer": clean} if clean else {}):
        raise Conflict("this has been answered already")
    return JsonResponse({"masked": ["answer"] if clean != text else []})


@require_POST
def answer(request: HttpRequest, key: str, number: str) -> HttpResponse:
    """The question or approval has this answer, unless somebody was faster."""
    row = _find(key, number)
    if row.kind == InterruptionKind.FORM:
        return step(request, key, number, Wizard.of(row).number)
    if over := _over(request, row):
        return over
    if row.kind == InterruptionKind.QUESTION:
        return _answer_question(request, row)
    return _decide(request, row)


@require_POST
def dismiss(request: HttpRequest, key: str, number: str) -> HttpResponse:
    """The card is closed without an answer; what was entered is not thrown away unasked."""
    row = _find(key, number)
    if over := _over(request, row):
        return over
    view = _before_dismissal(row, request.POST)
    if view is not None and request.POST.get("confirmed") != "1":
        return _show(request, row, view)
    try:
        service.dismiss(row.turn.session, row.pk, by=actor_of(request).name)
    except Conflict:
        return _lost(request, row)
    return _finished(request, row)


def _move(request: HttpRequest, row: Interruption, wizard: Wizard) -> HttpResponse:
    """Where a posted step leads."""
    move = request.POST.get("move") or ("submit" if wizard.is_last else "next")
    if move == "back":
        wizard.back()
        return _saved(request, row, wizard)
    if wizard.opens_more(request.POST):
        wizard.save()
        notice = "Your answer asks for a little more."
        return _show(request, row, View(focus="card", wizard=wizard, notice=notice), status=422)
    if not wizard.check_step():
        wizard.save()
        return _show(request, row, View(focus="card", wizard=wizard), status=422)
    if move == "next" and not wizard.is_last:
        wizard.forward()
        return _saved(request, row, wizard)
    return _submit(request, row, wizard)


def _saved(request: HttpRequest, row: Interruption, wizard: Wizard) -> HttpResponse:
    if not wizard.save():
        return _lost(request, row)
    if not htmx.is_swap(request):
        return HttpResponseRedirect(_page_of(request, row))
    response = _show(request, row, View(focus="card", wizard=wizard))
    return htmx.event(response, "session.changed")  # the list tells at which step the form is


def _submit(request: HttpRequest, row: Interruption, wizard: Wizard) -> HttpResponse:
    if not wizard.check_all():
        wizard.save()
        return _show(request, row, View(focus="card", wizard=wizard), status=422)
    if _is_changed(request, row):
        return _show(request, row, View(focus="card", notice=CHANGED, wizard=wizard), status=409)
    wizard.save()
    try:
        _answer(request, row, wizard.submission())
    except InvalidForm as error:
        wizard.errors = error.errors
        return _show(request, row, View(focus="card", wizard=wizard), status=422)
    except Conflict:
        return _lost(request, row)
    return _finished(request, row)


def _answer_question(request: HttpRequest, row: Interruption) -> HttpResponse:
    reply = request.POST.get("answer", "")
    if _is_changed(request, row):
        view = View(focus="card", notice=CHANGED, reply=reply)
        return _show(request, row, view, status=409)
    try:
        _answer(request, row, reply)
    except BadValue as error:
        view = View(focus="card", error=_sentence(error), reply=reply)
        return _show(request, row, view, status=422)
    except Conflict:
        return _lost(request, row)
    return _finished(request, row)


def _decide(request: HttpRequest, row: Interruption) -> HttpResponse:
    reason = request.POST.get("reason", "")[:2000]
    value = approvals.value_of(row.payload, request.POST.get("decision", ""), reason)
    if value is None:
        raise BadValue("this approval has no such button")
    if _is_changed(request, row) or not request.POST.get("digest"):
        return _show(request, row, View(focus="card", notice=CHANGED, reply=reason), status=409)
    try:
        _answer(request, row, value)
    except Conflict:
        return _lost(request, row)
    return _finished(request, row)


def _answer(request: HttpRequest, row: Interruption, value: Any) -> None:
    service.answer(row.turn.session, row.pk, value, by=actor_of(request).name, digest=row.digest)


def _is_changed(request: HttpRequest, row: Interruption) -> bool:
    """Whether the page showed something else than what the answer would count for."""
    digest = request.POST.get("digest", "")
    return bool(digest) and digest != row.digest


def _save_form(row: Interruption, posted: QueryDict) -> list[str]:
    wizard = Wizard.of(row)
    text = posted.get("step", "")
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 4 else -1
    if not 0 <= number < len(wizard.steps):
        raise BadValue("step must be the number of a step")
    wizard.take(number, posted, _zone())
    if not wizard.save(keep_step=True):
        raise Conflict("this has been answered already")
    return wizard.masked


def _before_dismissal(row: Interruption, posted: QueryDict) -> View | None:
    """The card with the question before it, when something would be lost."""
    if row.kind == InterruptionKind.QUESTION:
        reply = mask_text(posted.get("answer", str(row.draft.get("answer", ""))))
        if not reply.strip():
            return None
        pauses.save_draft(row.pk, step=0, draft={"answer": reply})
        return View(focus="card", asks_dismissal=True, reply=reply)
    if row.kind != InterruptionKind.FORM:
        return None
    wizard = Wizard.of(row)
    text = posted.get("step", "")
    if text.isascii() and text.isdecimal() and int(text) < len(wizard.steps):
        wizard.take(int(text), posted, _zone())
        wizard.save()
    if not wizard.is_touched:
        return None
    return View(focus="card", asks_dismissal=True, wizard=wizard)


def _find(key: str, number: str) -> Interruption:
    session = sessions.find(agents.current(), key)
    return pauses.find(number, session_id=session.pk)


def _over(request: HttpRequest, row: Interruption) -> HttpResponse | None:
    """For a post that comes too late: the record, with what happened."""
    if row.state == InterruptionState.OPEN:
        return None
    notice = OVER[InterruptionState(row.state)]
    return _show(request, row, View(focus="card", notice=notice), status=409)


def _lost(request: HttpRequest, row: Interruption) -> HttpResponse:
    """Somebody was faster by a moment."""
    row.refresh_from_db()
    notice = OVER.get(InterruptionState(row.state), "The turn has ended")
    return _show(request, row, View(focus="card", notice=notice), status=409)


def _finished(request: HttpRequest, row: Interruption) -> HttpResponse:
    row.refresh_from_db()
    if not htmx.is_swap(request):
        return HttpResponseRedirect(_page_of(request, row))
    response = _show(request, row, View(focus="composer"))
    return htmx.event(response, "attention.changed")


def _show(
    request: HttpRequest, row: Interruption, view: View, *, status: int = 200
) -> HttpResponse:
    """The card as a fragment, or on a page of its own."""
    place = request.GET.get("place", "")
    drawn = View(**{**vars(view), "place": place if place in hitl.PLACES else "hitl"})
    html = hitl.render_card(
        row,
        actor=actor_of(request),
        user_timezone=timezone.get_current_timezone_name(),
        csrf_token=get_token(request),
        view=drawn,
    )
    if htmx.is_swap(request):
        response = HttpResponse(html, status=status)
    else:
        back = f"{chat_url(row.turn.session.key)}#hitl-{row.pk}"
        context = {"html": html, "title": hitl.heading_of(row), "back_url": back}
        response = render(request, "console/hitl_page.html", context, status=status)
    patch_vary_headers(response, htmx.VARY)
    return response


def _page_of(request: HttpRequest, row: Interruption) -> str:
    """Where a browser without script goes on: the form itself, or the session after the end."""
    key = row.turn.session.key
    if row.state == InterruptionState.OPEN:
        return reverse("console:hitl-card", args=[key, row.pk])
    return f"{chat_url(key)}#hitl-{row.pk}"


def _zone() -> Any:
    return zone_of(timezone.get_current_timezone_name())


def _sentence(error: AgentError) -> str:
    text = str(error)
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
