"""The chat page and the fragments that it asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from asgiref.sync import async_to_sync
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe

from protoagent.console import rendering, sessions as lists, snapshot, status
from protoagent.console.rendering import Look
from protoagent.console.shell import look_of
from protoagent.console.views import sessions as session_views
from protoagent.core.errors import AgentError, NotFound
from protoagent.core.text import one_line
from protoagent.journal.models import ChatSession, Turn
from protoagent.journal.services import agents, sessions
from protoagent.providers import catalog
from protoagent.web import htmx
from protoagent.web.auth import watchers
from tools_app import inflight
from tools_app.models import ToolCall

ORIGIN_NAMES = {"operator": "you", **{name: label for name, (label, _) in rendering.ORIGINS.items()}}


@require_safe
@watchers
def session(request: HttpRequest, key: str) -> HttpResponse:
    """A session: its newest messages, those before `before`, or those around `at`."""
    row = find(key)
    look = look_of(request, key)
    try:
        stretch = _stretch(request, row, look)
    except NotFound as error:
        response = HttpResponseRedirect(lists.chat_url(key))
        return htmx.toast(response, str(error), kind="warn")
    return _page(request, row, look, stretch)


def _stretch(request: HttpRequest, row: ChatSession, look: Look) -> snapshot.Stretch:
    if anchor := request.GET.get("at", ""):
        return snapshot.around(row, look, anchor)
    if before := request.GET.get("before", ""):
        return snapshot.older(row, look, before)
    return snapshot.newest(row, look)


@require_safe
@watchers
def messages(request: HttpRequest, key: str) -> HttpResponse:
    """A stretch alone: what the button above the transcript and a page without its link ask for."""
    row = find(key)
    stretch = _stretch(request, row, look_of(request, key))
    response = HttpResponse(stretch.stream())
    response["X-Seq"] = str(stretch.seq)
    patch_vary_headers(response, htmx.VARY)
    return response


@require_safe
@watchers
def source(request: HttpRequest, key: str, number: int) -> HttpResponse:
    """A message as it was written, for copying: Markdown, not what it looks like."""
    row = find(key)
    text = snapshot.source_of(row, look_of(request, key), f"m-{number}")
    return HttpResponse(text, content_type="text/plain; charset=utf-8")


@require_safe
@watchers
def aside(request: HttpRequest, key: str) -> HttpResponse:
    """The details of a session: the run, what is in flight, what it has used."""
    row = find(key)
    context = aside_context(row, look_of(request, key))
    return htmx.render_panel(
        request, "console/aside_page.html", "console/_aside.html", {**context, "session": row}
    )


@require_safe
@watchers
def model_menu(request: HttpRequest) -> HttpResponse:
    """The models that can be chosen, for a session or for the one that is about to begin."""
    key = request.GET.get("session", "")
    current = find(key).model if key else request.GET.get("model", "")
    problem, names = "", []
    try:
        names = async_to_sync(catalog.list_models)()
    except AgentError as error:
        problem = str(error)
    default = catalog.resolve(None).name
    context = {
        "names": [name for name in names if name != default],
        "default": default,
        "current": current,
        "problem": problem,
        "session_key": key,
    }
    return render(request, "console/_models.html", context)


def new_page(request: HttpRequest) -> HttpResponse:
    """The page of a session that does not exist yet; the first message makes it."""
    look = look_of(request, "")
    context = {
        **_common(request, ""),
        "look": look,
        "status": status.blank(look),
        "stretch": None,
        "model_label": catalog.resolve(None).name,
    }
    return _render(request, context)


def find(key: str) -> ChatSession:
    """The session with this key. Raises NotFound."""
    return sessions.find(agents.current(), key)


def _page(
    request: HttpRequest, row: ChatSession, look: Look, stretch: snapshot.Stretch
) -> HttpResponse:
    context = {
        **_common(request, row.key),
        **aside_context(row, look),
        "session": row,
        "look": look,
        "stretch": stretch,
        "status": status.of(row.pk, look),
        "model_label": row.model or catalog.resolve(None).name,
    }
    return _render(request, context)


def _common(request: HttpRequest, current: str) -> dict[str, Any]:
    query = lists.Query.of(request.GET, current=current)
    return session_views.list_context(request, query)


def _render(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    response = render(request, "console/chat.html", context)
    patch_vary_headers(response, htmx.VARY)
    return response


@dataclass(frozen=True)
class Flight:
    """A call that has begun and not ended."""

    call: ToolCall
    target: str

    @property
    def clock(self) -> str:
        return rendering.running_since(self.call.started_at)


def aside_context(row: ChatSession, look: Look) -> dict[str, Any]:
    """What `_aside.html` needs."""
    turns = Turn.objects.filter(session=row)
    turn = turns.defer("messages", "text", "answer").order_by("-number").first()
    open_calls = inflight.open_calls(row.agent.key).filter(turn__session=row)
    flights = [Flight(call, _target(call)) for call in open_calls]
    return {
        "look": look,
        "run": Run(turn, look) if turn else None,
        "flights": flights,
        "totals": totals(row),
    }


def _target(call: ToolCall) -> str:
    from_arguments = rendering_target(call)
    return one_line(from_arguments, 80)


def rendering_target(call: ToolCall) -> str:
    """The call's one-line target."""
    from protoagent.console.calls import target_of

    return target_of(call.name, call.arguments)


@dataclass(frozen=True)
class Totals:
    """What a session has used so far."""

    turns: int
    usage: str


def totals(row: ChatSession) -> Totals:
    from django.db.models import Count, Sum

    found = Turn.objects.filter(session=row).aggregate(
        turns=Count("pk"), tin=Sum("input_tokens"), tout=Sum("output_tokens"), usd=Sum("cost_usd")
    )
    usage = Usage(int(found["tin"] or 0), int(found["tout"] or 0), float(found["usd"] or 0))
    return Totals(found["turns"], usage)


_ = timezone
