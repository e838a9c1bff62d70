"""Registries that an upper floor fills at start and a lower floor reads.

`version` grows with every change, so that whatever was built from a registry
(a compiled graph, a catalogue) knows when it is stale.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any

_counter = itertools.count(1)
_lock = threading.Lock()
_registries: dict[str, dict[str, Any]] = {}
_version = 0


def register(registry: str, name: str, value: Any) -> None:
    """Make `value` known as `name`; a later value replaces an earlier one."""
    global _version
    with _lock:
        _registries.setdefault(registry, {})[name] = value
        _version = next(_counter)


def registered(registry: str) -> dict[str, Any]:
    """A copy of what is registered, in order of registration."""
    with _lock:
        return dict(_registries.get(registry, {}))


def version() -> int:
    """Grows whenever any registry changes."""
    return _version


def touch() -> None:
    """Mark everything built from configuration or registries as stale."""
    global _version
    with _lock:
        _version = next(_counter)
