"""The system prompt: stable from turn to turn, so that providers can cache it."""

from __future__ import annotations

from protoagent.config import services as config
from protoagent.config import soul
from protoagent.runtime.prompt.doctrine import OPERATING_MODEL

_cache: dict[tuple[object, str], str] = {}


def system_prompt() -> str:
    """Who the agent is, then how it works; the same text until SOUL.md or the config changes."""
    text = soul.read()
    key = (config.version(), text)
    if key not in _cache:
        _cache.clear()
        _cache[key] = f"{text.strip()}\n\n{OPERATING_MODEL}"
    return _cache[key]
