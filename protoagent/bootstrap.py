"""The composition root: what lower floors must know of upper ones, and what follows a change."""

from __future__ import annotations

import logging
from typing import Any

from protoagent.config import services as config
from protoagent.core import events
from protoagent.core.errors import BadValue
from protoagent.security import redaction

log = logging.getLogger(__name__)
_is_wired = False


def wire() -> None:
    """Fill the registries and follow the configuration; a second call does nothing."""
    global _is_wired
    if _is_wired:
        return
    _is_wired = True
    _learn_secrets()
    events.listen(_on_event)


def _on_event(name: str, payload: dict[str, Any]) -> None:
    if name == "config.changed":
        _learn_secrets()


def _learn_secrets() -> None:
    """The configured secret values are masked from now on, wherever text is stored or shown."""
    try:
        redaction.set_known_secrets(config.known_secrets())
    except BadValue as error:  # `serve` and `doctor` tell of it; a command may still help
        log.warning("configuration not read: %s", error)
