"""The command palette: pages, sessions and commands that fit what was typed."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from protoagent.console import sessions as lists
from protoagent.console.shell import Shell
from protoagent.journal.models import ChatSession, Turn, TurnStatus
from protoagent.journal.services import agents, search
from protoagent.security.redaction import mask_text
from protoagent.web import htmx
from protoagent.web.auth import watchers

MAX_SESSIONS = 8
MAX_MESSAGES = 5
HINTS = {TurnStatus.RUNNING: "working", TurnStatus.WAITING: "waiting"}


@dataclass(frozen=True)
class Entry:
    """One line. It leads to `url`, or runs the slash command `command`."""

    label: str
    icon: str
    url: str = ""
    hint: str = ""
    command: str = ""


@dataclass(frozen=True)
class Section:
    label: str
    entries: tuple[Entry, ...]


@require_safe
@watchers
def palette(request: HttpRequest) -> HttpResponse:
    """What fits `q`, best first; everything useful when it is blank."""
    text = mask_text(request.GET.get("q", "").strip())[: search.MAX_QUERY_CHARS]
    shell = Shell(request)
    sections = [
        Section("Go to", _places(shell, text)),
        Section("Sessions", _sessions(text)),
        Section("Messages", _messages(text)),
        Section("Do", _commands(shell, text)),
    ]
    context = {"sections": [s for s in sections if s.entries], "query": text}
    return htmx.render_panel(
        request, "console/palette_page.html", "console/_palette_results.html", context
    )


def _fits(text: str, *where: str) -> bool:
    words = text.lower().split()
    return all(any(word in place.lower() for place in where) for word in words)


def _places(shell: Shell, text: str) -> tuple[Entry, ...]:
    entries = [Entry(p.label, p.icon, p.url, f"G {p.key.upper()}") for p in shell.panels]
    entries += [
        Entry("All sessions", "history", reverse("console:sessions")),
        Entry("Model setup", "plug", reverse("console:setup"), "which model answers"),
        Entry("Account", "user", reverse("account")),
    ]
    return tuple(entry for entry in entries if _fits(text, entry.label))


def _sessions(text: str) -> tuple[Entry, ...]:
    agent = agents.current()
    rows: list[ChatSession]
    if search.terms_of(text):
        rows = list(search.find(agent, text).titles[:MAX_SESSIONS])
    else:
        found = ChatSession.objects.present().filter(agent=agent, archived_at=None)
        rows = list(found.order_by("-last_event_at", "-pk")[:MAX_SESSIONS])
    active = dict(
        Turn.objects.active().filter(session__in=rows).values_list("session_id", "status")
    )
    return tuple(
        Entry(
            row.title or "New session",
            "message-square",
            lists.chat_url(row.key),
            HINTS.get(TurnStatus(active[row.pk]), "") if row.pk in active else "",
        )
        for row in rows
    )


def _messages(text: str) -> tuple[Entry, ...]:
    if len(text) < 2 or not search.terms_of(text):
        return ()
    hits = search.find(agents.current(), text).hits[:MAX_MESSAGES]
    keys = dict(
        ChatSession.objects.filter(pk__in={h.session_id for h in hits}).values_list("pk", "key")
    )
    return tuple(
        Entry(
            "".join(piece.text for piece in hit.snippet),
            "search",
            lists.message_url(keys[hit.session_id], hit.seq),
        )
        for hit in hits
        if hit.session_id in keys
    )


def _commands(shell: Shell, text: str) -> tuple[Entry, ...]:
    if not shell.can_write:
        return ()
    return tuple(
        Entry(command.help, "slash", hint=f"/{command.name}", command=command.name)
        for command in shell.commands
        if _fits(text, command.help, command.name)
    )
