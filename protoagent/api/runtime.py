"""What this instance is running with: `/api/runtime/status` and `/api/chat/commands`."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router, Schema

from protoagent import __version__
from protoagent.api import health
from protoagent.config import services as config
from protoagent.core import extensions
from protoagent.core.errors import BadValue
from protoagent.journal.models import Agent, ChatSession, Turn
from protoagent.journal.services import agents, attention
from protoagent.providers import catalog
from tools_app import registry

router = Router(tags=["runtime"])


class StatusOut(Schema):
    """The state of the instance, without any secret."""

    version: str
    agent: dict[str, str]
    provider: str
    model: str
    offline: bool
    middleware: dict[str, bool]
    counts: dict[str, int]
    warnings: list[str]


class CommandsOut(Schema):
    """What may stand behind a slash at the start of a message."""

    commands: list[dict[str, str]]


@router.get("/runtime/status", response=StatusOut)
def status(request: HttpRequest) -> StatusOut:
    """Model, provider, what is switched on, how much there is of everything, and warnings."""
    agent = agents.current()
    provider, model, warnings = _model()
    warnings += [f"{role}: {why}" for role, why in health.failing_roles().items()]
    return StatusOut(
        version=__version__,
        agent={"key": agent.key, "name": str(config.get("identity.name") or agent.name)},
        provider=provider,
        model=model,
        offline=provider == "offline",
        middleware=_middleware(),
        counts=_counts(agent),
        warnings=warnings,
    )


@router.get("/chat/commands", response=CommandsOut)
def commands(request: HttpRequest) -> CommandsOut:
    """The slash commands that a message may begin with, by name."""
    known = extensions.registered("chat_commands")
    available = [one for _, one in sorted(known.items()) if getattr(one, "is_available", True)]
    return CommandsOut(
        commands=[
            {
                "name": command.name,
                "description": command.help,
                "argument": command.argument,
                "source": getattr(command, "source", "core"),
            }
            for command in available
        ]
    )


def _model() -> tuple[str, str, list[str]]:
    """Provider and name of the model, and why there is none if there is none."""
    try:
        model = catalog.resolve(None)
    except BadValue as error:
        return "", "", [f"model: {error}"]
    offline = "No model is connected; the built-in offline model answers."
    return model.provider, model.name, [offline] if model.provider == "offline" else []


def _middleware() -> dict[str, bool]:
    """What the configuration has on and this build has at all."""
    sources = extensions.registered("tool_sources")
    return {
        "memory": "memory" in extensions.registered("backends"),
        "scheduler": "scheduler" in extensions.registered("backends"),
        "plugins": "plugins" in sources,
        "mcp": "mcp" in sources,
        "filesystem": "filesystem" in sources,
    }


def _counts(agent: Agent) -> dict[str, Any]:
    sessions = ChatSession.objects.present().filter(agent=agent)
    active = Turn.objects.active().filter(session__agent=agent)
    more = {name: int(count()) for name, count in extensions.registered("counts").items()}
    return {
        "knowledge": 0,
        "skills": 0,
        "jobs": 0,
        **more,
        "tools": len(registry.assemble(allow=agent.allow, deny=agent.deny).specs),
        "sessions": sessions.count(),
        "active_turns": active.count(),
        "waiting": attention.count(agent),
    }
