"""The session list and what can be done with one session or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from django_htmx.http import HttpResponseClientRedirect

from protoagent.console import sessions as lists
from protoagent.core.errors import BadValue, InvalidForm
from protoagent.core.text import one_line
from protoagent.journal.models import Agent, ChatSession, TurnStatus
from protoagent.journal.services import agents, export, sessions
from protoagent.runtime import service
from protoagent.web import errors, htmx
from protoagent.web.auth import actor_of

MAX_BULK = 100


@dataclass(frozen=True)
class Undo:
    """A deletion that can be taken back for a few seconds."""

    url: str
    text: str


@dataclass(frozen=True)
class DeletionQuestion:
    """What is asked before sessions are deleted."""

    url: str
    title: str
    text: str
    losses: tuple[str, ...]
    back_url: str
    fields: tuple[tuple[str, str], ...] = ()


@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """The list: as a page, or as the fragment below the search field."""
    query = lists.Query.of(request.GET)
    context = list_context(request, query)
    page, fragment = "console/sessions_index.html", "console/_sessions_list.html"
    return htmx.render_panel(request, page, fragment, context)


def list_context(request: HttpRequest, query: lists.Query | None = None) -> dict[str, Any]:
    """What `_sessions.html` needs; also for pages that only include it."""
    agent = agents.current()
    query = query or lists.Query.of(request.GET)
    return {
        "list": lists.session_list(
            agent, query, user_timezone=timezone.get_current_timezone_name()
        ),
        "can_write": actor_of(request).can_write,
        "undo": _undo_of(agent, request.GET.get("deleted", "")),
    }


@require_GET
def row(request: HttpRequest, key: str) -> HttpResponse:
    """One row as it stands; what a cancelled renaming goes back to."""
    return _row(request, _find(key))


@require_GET
def menu(request: HttpRequest, key: str) -> HttpResponse:
    """The actions of one session."""
    context = {"row": _drawn(request, _find(key)), "can_write": actor_of(request).can_write}
    return _fragment(request, "console/_sessions_menu.html", "Session", context)


@require_http_methods(["GET", "POST"])
def rename(request: HttpRequest, key: str) -> HttpResponse:
    """The row as a form, or the row with its new title."""
    session = _find(key)
    if request.method == "POST":
        title = request.POST.get("title", "")
        try:
            sessions.rename(session, title)
        except BadValue as error:
            return _rename_form(request, session, title, str(error), status=422)
        return _done(request, session, _row(request, session), text="")
    return _rename_form(request, session, session.title, "", status=200)


@require_POST
def pin(request: HttpRequest, key: str) -> HttpResponse:
    """The session is pinned, or no longer is."""
    session = _find(key)
    sessions.pin(session, pinned=_flag(request, "pinned"))
    return _done(request, session)


@require_POST
def archive(request: HttpRequest, key: str) -> HttpResponse:
    """The session is archived, or back in the list."""
    session = _find(key)
    archived = _flag(request, "archived")
    sessions.archive(session, archived=archived)
    verb = "Archived" if archived else "Back in the list"
    return _done(request, session, text=f"{verb}: {_name(session)}")


@require_http_methods(["GET", "POST"])
def delete(request: HttpRequest, key: str) -> HttpResponse:
    """The question what goes with the session, and then its deletion."""
    session = _find(key)
    if request.method == "POST" and request.POST.get("confirmed") == "1":
        return _deleted(request, [session])
    return _ask_deletion(request, [session], reverse("console:session-delete", args=[key]))


@require_POST
def restore(request: HttpRequest) -> HttpResponse:
    """The deleted sessions named by `key` are back as they were."""
    agent = agents.current()
    keys = request.GET.getlist("key")[:MAX_BULK]
    restored = [sessions.restore(agent, key) for key in keys]
    if not restored:
        raise BadValue("name at least one session to bring back")
    text = f"Back: {_names(restored)}"
    if errors.is_program(request):  # the notice's button asks for JSON
        return JsonResponse({"ok": True, "text": text})
    if htmx.is_swap(request):
        return _told(HttpResponse(status=200), text)
    return HttpResponseRedirect(lists.chat_url(restored[0].key))


@require_POST
def bulk(request: HttpRequest) -> HttpResponse:
    """Archive, unarchive or, after a question, delete the chosen sessions."""
    action = request.POST.get("action", "")
    if action not in ("archive", "unarchive", "delete"):
        raise BadValue("choose what to do: archive, unarchive or delete")
    chosen = _chosen(request)
    if not chosen:
        return _told(HttpResponse(status=204), "Choose at least one session first", kind="warn")
    if action == "delete":
        if request.POST.get("confirmed") == "1":
            return _deleted(request, chosen)
        return _ask_deletion(request, chosen, reverse("console:sessions-bulk"), action="delete")
    for session in chosen:
        sessions.archive(session, archived=action == "archive")
    text = f"{'Archived' if action == 'archive' else 'Back in the list'}: {_names(chosen)}"
    if htmx.is_swap(request):
        return _told(HttpResponse(status=204), text)
    return HttpResponseRedirect(reverse("console:sessions"))


@require_GET
def download(request: HttpRequest, key: str) -> HttpResponse:
    """The session as a file; without `format`, the form that asks for it."""
    session = _find(key)
    fmt = request.GET.get("format", "")
    if not fmt:
        context = {"row": _drawn(request, session)}
        return _fragment(request, "console/_sessions_export.html", "Export", context)
    document = export.export(session, fmt=fmt, tool_bodies=request.GET.get("tools") == "1")
    headers = {"Content-Disposition": f'attachment; filename="{document.name}"'}
    return HttpResponse(document.body, content_type=document.content_type, headers=headers)


def _find(key: str) -> ChatSession:
    return sessions.find(agents.current(), key)


def _chosen(request: HttpRequest) -> list[ChatSession]:
    keys = request.POST.getlist("key")
    if len(keys) > MAX_BULK:
        raise InvalidForm(f"choose at most {MAX_BULK} sessions at a time")
    rows = ChatSession.objects.present().filter(agent=agents.current(), key__in=keys)
    return sorted(rows, key=lambda session: keys.index(session.key))


def _drawn(request: HttpRequest, session: ChatSession) -> lists.Row:
    current = request.GET.get("current", "")
    return lists.row_of(
        session, user_timezone=timezone.get_current_timezone_name(), current=current
    )


def _row(request: HttpRequest, session: ChatSession) -> HttpResponse:
    context = {"row": _drawn(request, session), "can_write": actor_of(request).can_write}
    return render(request, "console/_sessions_row.html", context)


def _rename_form(
    request: HttpRequest, session: ChatSession, title: str, error: str, *, status: int
) -> HttpResponse:
    context = {"row": _drawn(request, session), "title": title, "error": error}
    return _fragment(request, "console/_sessions_rename.html", "Rename", context, status=status)


def _fragment(
    request: HttpRequest, template: str, title: str, context: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    """The fragment itself for a swap, and a page around it for everything else."""
    is_page = not htmx.is_swap(request)
    whole = {**context, "fragment": template, "page_title": title, "is_page": is_page}
    return htmx.render_panel(
        request, "console/sessions_action.html", template, whole, status=status
    )


def _done(
    request: HttpRequest,
    session: ChatSession,
    response: HttpResponse | None = None,
    *,
    text: str = "",
) -> HttpResponse:
    """The answer after a change of one session."""
    if htmx.is_swap(request):
        return _told(response or HttpResponse(status=204), text)
    return HttpResponseRedirect(lists.chat_url(session.key))


def _told(response: HttpResponse, text: str, *, kind: str = "ok", undo: str = "") -> HttpResponse:
    """The response with a notice, and with the event that makes the lists ask again."""
    if text:
        htmx.toast(response, text, kind=kind, undo=undo)
    # `own`: what the person does here moves rows at once, also under the pointer.
    return htmx.event(response, "session.changed", {"own": True})


def _deleted(request: HttpRequest, doomed: Sequence[ChatSession]) -> HttpResponse:
    by = actor_of(request).name
    for session in doomed:
        if session.turns.filter(status=TurnStatus.RUNNING).exists():
            service.stop(session, by=by)
        sessions.delete(session)
    keys = [session.key for session in doomed]
    undo = f"{reverse('console:sessions-restore')}?{urlencode({'key': keys}, doseq=True)}"
    current = htmx.page_path(request).split("?")[0]
    away = f"{reverse('console:new')}?{urlencode({'deleted': ','.join(keys)})}"
    if not htmx.is_swap(request):
        return HttpResponseRedirect(away)
    if any(current == lists.chat_url(key) for key in keys):
        return HttpResponseClientRedirect(away)
    return _told(HttpResponse(status=200), f"Deleted: {_names(doomed)}", undo=undo)


def _ask_deletion(
    request: HttpRequest, doomed: Sequence[ChatSession], url: str, *, action: str = ""
) -> HttpResponse:
    one = len(doomed) == 1
    fields = [("action", action)] if action else []
    if action:
        fields += [("key", session.key) for session in doomed]
    ask = DeletionQuestion(
        url=url,
        title=f"Delete {_names(doomed)}?",
        text="This goes with it:" if one else "This goes with them:",
        losses=_losses(doomed),
        back_url=lists.chat_url(doomed[0].key) if one else reverse("console:sessions"),
        fields=tuple(fields),
    )
    return _fragment(request, "console/_sessions_delete.html", "Delete", {"ask": ask})


def _losses(doomed: Sequence[ChatSession]) -> tuple[str, ...]:
    notices = [sessions.notice_before_deletion(session) for session in doomed]
    counted = (
        (sum(notice.turns for notice in notices), "turn"),
        (sum(notice.open_questions for notice in notices), "open question or form"),
        (sum(notice.pending_messages for notice in notices), "message that is not delivered yet"),
    )
    lines = [f"{count} {_plural(noun, count)}" for count, noun in counted if count]
    running = any(session.turns.filter(status=TurnStatus.RUNNING).exists() for session in doomed)
    return (*lines, "the turn that runs now; it is stopped") if running else tuple(lines)


def _plural(noun: str, count: int) -> str:
    if count == 1:
        return noun
    irregular = {
        "open question or form": "open questions or forms",
        "message that is not delivered yet": "messages that are not delivered yet",
    }
    return irregular.get(noun, f"{noun}s")


def _undo_of(agent: Agent, keys: str) -> Undo | None:
    """What the list offers to bring back, when the address says that something was deleted."""
    wanted = [key for key in keys.split(",") if key][:MAX_BULK]
    if not wanted:
        return None
    gone = ChatSession.objects.filter(agent=agent, key__in=wanted, deleted_at__isnull=False)
    if not (rows := list(gone)):
        return None
    named = urlencode({"key": [row.key for row in rows]}, doseq=True)
    return Undo(f"{reverse('console:sessions-restore')}?{named}", f"Deleted: {_names(rows)}")


def _names(rows: Sequence[ChatSession]) -> str:
    return _name(rows[0]) if len(rows) == 1 else f"{len(rows)} sessions"


def _name(session: ChatSession) -> str:
    return f"“{one_line(session.title or 'New session', 60)}”"


def _flag(request: HttpRequest, name: str) -> bool:
    value = request.POST.get(name, "")
    if value not in ("0", "1"):
        raise BadValue(f"{name} must be 0 or 1")
    return value == "1"
