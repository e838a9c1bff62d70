"""The chat page and the fragments that it asks for."""

from __future__ import annotations

from typing import Any

from asgiref.sync import async_to_sync
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe

from protoagent.console import attached, details, snapshot, status
from protoagent.console import sessions as lists
from protoagent.console.rendering import Look
from protoagent.console.shell import look_of
from protoagent.console.views import sessions as session_views
from protoagent.core.errors import AgentError, NotFound
from protoagent.core.ids import new_id
from protoagent.journal.models import ChatSession
from protoagent.journal.services import agents, sessions
from protoagent.providers import catalog
from protoagent.web import htmx
from protoagent.web.auth import watchers

ASIDE_COOKIE = "aside"


@require_safe
@watchers
def session(request: HttpRequest, key: str) -> HttpResponse:
    """A session: its newest messages, those before `before`, or those around `at`."""
    row = find(key)
    look = look_of(request, key)
    notice = ""
    try:
        stretch = _stretch(request, row, look)
    except NotFound as error:
        stretch, notice = snapshot.newest(row, look), str(error)
    return _page(request, row, look, stretch, notice)


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
def news(request: HttpRequest, key: str) -> HttpResponse:
    """What a page asks for now and then while its live link is down.

    `html` is the newest stretch, or null when the page shows all of it (`after`).
    """
    row, look = find(key), look_of(request, key)
    stretch = None
    if request.GET.get("after", "") != str(row.last_seq):
        stretch = snapshot.newest(row, look)
    return JsonResponse(
        {
            "seq": stretch.seq if stretch else row.last_seq,
            "html": stretch.stream() if stretch else None,
            "state": status.of(row.pk, look).frame()["v"],
        }
    )


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
    look = look_of(request, key)
    context = {"session": row, "look": look, "details": details.of(row, look)}
    return htmx.render_panel(request, "console/aside_page.html", "console/_aside.html", context)


@require_safe
@watchers
def model_menu(request: HttpRequest) -> HttpResponse:
    """The models that can be chosen, for a session or for the one that is about to begin."""
    key = request.GET.get("session", "")
    current = find(key).model if key else request.GET.get("model", "")
    problem = ""
    names: list[str] = []
    try:
        names = async_to_sync(catalog.list_models)()
    except AgentError as error:
        problem = str(error)
    default = catalog.default_name()
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
        **_model(""),
    }
    return _render(request, context)


def find(key: str) -> ChatSession:
    """The session with this key. Raises NotFound."""
    return sessions.find(agents.current(), key)


def _page(
    request: HttpRequest, row: ChatSession, look: Look, stretch: snapshot.Stretch, notice: str
) -> HttpResponse:
    context = {
        **_common(request, row.key),
        "session": row,
        "details": details.of(row, look),
        "notice": notice,
        "aside_off": request.COOKIES.get(ASIDE_COOKIE) == "off",
        "look": look,
        "stretch": stretch,
        "status": status.of(row.pk, look),
        **_model(row.model),
    }
    return _render(request, context)


def _model(chosen: str) -> dict[str, Any]:
    """What the composer says about the model, and whether there is none but the built-in one."""
    label = chosen or catalog.default_name() or "default"
    return {"model_label": label, "is_offline": not chosen and catalog.is_offline()}


def _common(request: HttpRequest, current: str) -> dict[str, Any]:
    query = lists.Query.of(request.GET, current=current)
    shared = {"client_id": new_id("m"), "limits": attached.limits()}
    return {**session_views.list_context(request, query), **shared}


def _render(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    response = render(request, "console/chat.html", context)
    patch_vary_headers(response, htmx.VARY)
    return response
