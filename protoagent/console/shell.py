"""What every page of the console has around it: panels, palette, shortcuts, counts."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from protoagent.console.commands import COMMANDS, Command
from protoagent.console.rendering import Look, agent_name
from protoagent.core import clock
from protoagent.core.context import Actor
from protoagent.journal.models import ChatSession
from protoagent.journal.services import agents, attention
from protoagent.web.auth import grant_of

MODULES = (
    *("announce", "badge", "boost", "clock", "composer", "connection", "copy", "core", "effects"),
    *("files", "follow", "hitl", "intake", "keys", "link", "models", "morph", "palette"),
    *("pending", "sessions", "shell", "slash", "status", "theme", "toasts", "tools", "transcript"),
)
THEMES = ("light", "dark")
THEME_COOKIE = "theme"


@dataclass(frozen=True)
class Panel:
    """A place in the navigation. `key` is the letter that leads there after G."""

    name: str
    label: str
    icon: str
    url_name: str
    key: str

    @property
    def url(self) -> str:
        """Its address, or blank while it is not built."""
        try:
            return reverse(self.url_name)
        except NoReverseMatch:
            return ""


PANEL_GROUPS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    ("", (Panel("chat", "Chat", "message-square", "console:home", "c"),)),
)
# What the keys do, for the list behind `?`; keys of panels come first.
SHORTCUTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Jump to or run anything", ("⌘", "K")),
    ("This list", ("?",)),
    ("Focus search on the page", ("/",)),
    ("Write a message (from anywhere)", ("C",)),
    ("New session", ("N",)),
    ("Previous or next session", ("[", "]")),
    ("Open what waits on you", ("W",)),
    ("Show or hide the details", (".",)),
    ("Rename the session", ("F2",)),
    ("Open or close the last tool block", ("T",)),
    ("Send, or steer while the agent works", ("Enter",)),
    ("Queue for after this turn", ("Alt", "Enter")),
    ("New line", ("Shift", "Enter")),
    ("Stop the turn", ("Esc", "Esc")),
    ("Your last message, in an empty field", ("↑",)),
    ("Approve, in an approval", ("Ctrl", "Alt", "Enter")),
    ("Deny, in an approval", ("Ctrl", "Alt", "Backspace")),
)


class Shell:
    """Asked by templates; whatever needs the database is read when it is asked for."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request

    @property
    def actor(self) -> Actor | None:
        grant = grant_of(self._request)
        return grant.actor if grant else None

    @property
    def can_write(self) -> bool:
        return self.actor is not None and self.actor.can_write

    @property
    def is_known(self) -> bool:
        return self.actor is not None

    @property
    def agent(self) -> str:
        return agent_name()

    @property
    def instance(self) -> str:
        """`home-lab · agent main`."""
        return f"{socket.gethostname().partition('.')[0]} · agent {settings.AGENT_KEY}"

    @cached_property
    def groups(self) -> list[tuple[str, list[Panel]]]:
        """The panels that exist, in their groups."""
        found = [(label, [p for p in panels if p.url]) for label, panels in PANEL_GROUPS]
        return [(label, panels) for label, panels in found if panels]

    @property
    def panels(self) -> list[Panel]:
        return [panel for _, panels in self.groups for panel in panels]

    @cached_property
    def waiting(self) -> int:
        """How much waits on the operator."""
        return attention.count(agents.current()) if self.is_known else 0

    @property
    def shortcuts(self) -> list[tuple[str, tuple[str, ...]]]:
        panels = [(f"Go to {p.label}", ("G", p.key.upper())) for p in self.panels]
        return [SHORTCUTS[0], *panels, *SHORTCUTS[1:]]

    @property
    def commands(self) -> list[Command]:
        return [command for command in COMMANDS if command.is_available]

    @property
    def next_theme(self) -> str:
        """What the button in the navigation switches to: system, light, dark, system …"""
        return {"light": "dark", "dark": "system"}.get(theme_of(self._request), "light")

    @property
    def modules(self) -> list[str]:
        """The scripts that `main.js` asks for, so that a page can ask for all of them at once."""
        return [f"js/{name}.js" for name in MODULES]

    @property
    def now_ms(self) -> int:
        """The server's time, for clocks of machines whose own is wrong."""
        return round(clock.now().timestamp() * 1000)


def look_of(request: HttpRequest, session_key: str) -> Look:
    """How this caller sees a session."""
    shell = Shell(request)
    return Look(
        session_key=session_key,
        agent_name=agent_name(),
        can_write=shell.can_write,
        zone_name=timezone.get_current_timezone_name(),
        actor=shell.actor,
    )


def last_session() -> ChatSession | None:
    """The session that was used last; none when there is none yet."""
    rows = ChatSession.objects.present().filter(agent=agents.current(), archived_at=None)
    return rows.order_by("-last_event_at", "-pk").first()


def theme_of(request: HttpRequest) -> str:
    """The theme that this browser has chosen; blank is the system's."""
    theme = request.COOKIES.get(THEME_COOKIE, "")
    return theme if theme in THEMES else ""


def shell(request: HttpRequest) -> dict[str, Any]:
    """The context processor: `shell`, and the `theme` of the page."""
    return {"shell": Shell(request), "theme": theme_of(request)}
