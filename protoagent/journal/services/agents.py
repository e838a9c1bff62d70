"""Agents: the rows that sessions and everything later belong to."""

from __future__ import annotations

from django.conf import settings

from protoagent.core.errors import NotFound
from protoagent.journal.models import Agent


def ensure(key: str) -> Agent:
    """The agent with this key; made when it is missing."""
    agent, _ = Agent.objects.get_or_create(key=key)
    return agent


def current() -> Agent:
    """The agent that this instance runs (PROTOAGENT_AGENT)."""
    try:
        return Agent.objects.get(key=settings.AGENT_KEY)
    except Agent.DoesNotExist:
        return ensure(settings.AGENT_KEY)


def get(key: str) -> Agent:
    """Raises NotFound when no agent has this key."""
    try:
        return Agent.objects.get(key=key)
    except Agent.DoesNotExist:
        raise NotFound(f"no agent {key!r}") from None
