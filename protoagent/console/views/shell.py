"""The way in, and what the frame around every page asks for."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from protoagent.console.sessions import chat_url
from protoagent.console.shell import THEME_COOKIE, THEMES, last_session
from protoagent.core.errors import BadValue
from protoagent.journal.services import agents, attention
from protoagent.web import addresses, errors
from protoagent.web.auth import watchers

A_YEAR_S = 365 * 24 * 3600


@require_safe
@watchers
def home(request: HttpRequest) -> HttpResponse:
    """To the session that waits longest, else the last one, else a new one."""
    waiting = attention.waiting(agents.current())
    if waiting:
        first = waiting[0]
        return HttpResponseRedirect(f"{chat_url(first.turn.session.key)}#hitl-{first.pk}")
    session = last_session()
    return HttpResponseRedirect(chat_url(session.key) if session else reverse("console:new"))


@require_POST
@watchers
def theme(request: HttpRequest) -> HttpResponse:
    """The browser's next pages come in this theme: light, dark, or as its system has it."""
    wanted = request.POST.get("theme", "")
    if wanted not in (*THEMES, "system"):
        raise BadValue("the theme is light, dark or system")
    if errors.is_program(request):
        response = HttpResponse(status=204)
    else:
        response = HttpResponseRedirect(addresses.local_path(request.POST.get("next", "")))
    if wanted == "system":
        response.delete_cookie(THEME_COOKIE, samesite="Lax")
    else:
        response.set_cookie(THEME_COOKIE, wanted, max_age=A_YEAR_S, samesite="Lax")
    return response
