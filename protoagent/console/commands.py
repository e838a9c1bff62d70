"""Slash commands of the composer: those that exist, and what each of them does."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from protoagent.core import extensions
from protoagent.core.context import Actor
from protoagent.core.errors import BadValue, InvalidForm
from protoagent.journal.models import ChatSession
from protoagent.journal.services import sessions
from protoagent.providers import catalog
from protoagent.runtime import service
from protoagent.security.redaction import one_masked_line

Effect = dict[str, Any]

_LINE = re.compile(r"/([A-Za-z][A-Za-z0-9_-]*)(?:\s+(.*))?\Z", re.DOTALL)
ON_OFF = {"on": True, "off": False}


@dataclass(frozen=True)
class Call:
    """A command as it was typed. `session` is None on the page of a new session."""

    session: ChatSession | None
    argument: str
    actor: Actor


@dataclass(frozen=True)
class Command:
    """`run` gives the effect for the page: what to say, show or open."""

    name: str
    help: str
    run: Callable[[Call], Effect]
    argument: str = ""
    needs_session: bool = False
    only_when: Callable[[], bool] = lambda: True

    @property
    def is_available(self) -> bool:
        return self.only_when()

    @property
    def insert(self) -> str:
        """What the menu puts into the field."""
        return f"/{self.name} " if self.argument else f"/{self.name}"


def parse(text: str) -> tuple[str, str] | None:
    """Name and argument of a command, or None for a text that is none.

    A command stands at the very beginning: a space in front makes it a text.
    """
    match = _LINE.match(text.rstrip()) if text.startswith("/") else None
    return (match[1].lower(), (match[2] or "").strip()) if match else None


def passes_through(name: str) -> bool:
    """Whether the model itself understands the command, so that it is sent as a message."""
    return name == "tool" and _is_offline()


def run(name: str, call: Call) -> Effect:
    """Run a command.

    Raises InvalidForm, with the nearest names, for one that does not exist, and BadValue
    for an argument that makes no sense.
    """
    known = {command.name: command for command in COMMANDS if command.is_available}
    command = known.get(name)
    if command is None:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        near = near or [other for other in known if other.startswith(name[:1])][:3]
        hint = f" Did you mean {_listed(near)}?" if near else ""
        raise InvalidForm(
            f"There is no command /{one_masked_line(name, 40)}.{hint} "
            "To send it as text, put a space in front."
        )
    if command.needs_session and call.session is None:
        raise BadValue(f"/{name} needs a session; send a message first")
    return {"ok": True, "mode": "command", **command.run(call)}


def _listed(names: list[str]) -> str:
    marked = [f"/{name}" for name in names]
    return marked[0] if len(marked) == 1 else f"{', '.join(marked[:-1])} or {marked[-1]}"


def _new(call: Call) -> Effect:
    return {"effect": "goto", "url": reverse("console:new")}


def _stop(call: Call) -> Effect:
    assert call.session is not None  # noqa: S101 — needs_session
    stopped = service.stop(call.session, by=call.actor.name)
    return {"effect": "say", "say": "Stopping" if stopped else "Nothing is running"}


def _model(call: Call) -> Effect:
    if not call.argument:
        return {"effect": "model"}
    return {"effect": "say", **choose_model(call.session, call.argument)}


def choose_model(session: ChatSession | None, name: str) -> Effect:
    """The session's turns use this model from now on; `default` is the configured one.

    On the page of a new session the page keeps the choice until the first message.
    """
    name = sessions.check_model(name)
    if name.lower() == "default":
        name = ""
    model = catalog.resolve(name or None)
    if session is not None:
        sessions.set_model(session, name)
    label = name or f"{model.name} (default)"
    return {"say": f"Model: {label}", "model": name, "label": name or model.name}


def _incognito(call: Call) -> Effect:
    wanted = call.argument.lower()
    if wanted and wanted not in ON_OFF:
        raise BadValue("/incognito takes on or off")
    now = bool(call.session and call.session.incognito)
    on = ON_OFF[wanted] if wanted else not now
    if call.session is None:
        return {"effect": "incognito", "on": on, "say": _incognito_text(on)}
    sessions.set_incognito(call.session, incognito=on)
    return {"effect": "say", "on": on, "say": _incognito_text(on)}


def _incognito_text(on: bool) -> str:
    if on:
        return "Incognito: nothing of this session is remembered or exported"
    return "Incognito is off"


def _rename(call: Call) -> Effect:
    assert call.session is not None  # noqa: S101 — needs_session
    if not call.argument:
        raise BadValue("/rename needs a title")
    sessions.rename(call.session, call.argument)
    return {"effect": "say", "say": f"Renamed to “{call.session.title}”"}


def _export(call: Call) -> Effect:
    assert call.session is not None  # noqa: S101 — needs_session
    if call.session.incognito:
        raise BadValue("an incognito session is not exported")
    fmt = call.argument.lower()
    if fmt not in ("", "md", "json"):
        raise BadValue("/export takes md or json")
    url = reverse("console:session-export", args=[call.session.key])
    if fmt:
        return {"effect": "download", "url": f"{url}?format={fmt}"}
    return {"effect": "dialog", "url": url}


def _theme(call: Call) -> Effect:
    wanted = call.argument.lower()
    if wanted not in ("", "light", "dark", "system"):
        raise BadValue("/theme takes light, dark or system")
    return {"effect": "theme", "value": wanted}


def _help(call: Call) -> Effect:
    return {"effect": "help"}


def _tool(call: Call) -> Effect:
    raise BadValue('/tool needs the name of a tool and its arguments: /tool calculator {"…": "…"}')


def _is_offline() -> bool:
    return catalog.is_offline()


COMMANDS: tuple[Command, ...] = (
    Command("new", "Start a new session", _new),
    Command("clear", "Start over in a new session", _new),
    Command("model", "Switch the model of this session", _model, argument="name"),
    Command("stop", "Stop the turn that runs", _stop, needs_session=True),
    Command("rename", "Give this session a title", _rename, argument="title", needs_session=True),
    Command("export", "Download this session", _export, argument="md or json", needs_session=True),
    Command("incognito", "Keep this session out of memory", _incognito, argument="on or off"),
    Command("theme", "Light, dark or as the system has it", _theme, argument="name"),
    Command("help", "Keys and commands", _help),
    Command(
        "tool",
        "Run one tool directly, without a model",
        _tool,
        argument="name {json}",
        only_when=_is_offline,
    ),
)

for _command in COMMANDS:  # programs ask for them as well: GET /api/chat/commands
    extensions.register("chat_commands", _command.name, _command)
