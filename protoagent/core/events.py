"""Hints that something changed, sent after commit.

A listener gets `(name, payload)`; the payload holds ids and short labels, never content.
Losing a hint must be harmless: whoever listens can also read the rows.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

log = logging.getLogger(__name__)

Listener = Callable[[str, dict[str, Any]], None]
_listeners: list[Listener] = []
_lock = threading.Lock()


def listen(listener: Listener) -> Callable[[], None]:
    """Call `listener` for every event of this process until the returned function is called."""
    with _lock:
        _listeners.append(listener)

    def stop() -> None:
        with _lock:
            if listener in _listeners:
                _listeners.remove(listener)

    return stop


def publish(name: str, payload: dict[str, Any]) -> None:
    """Hand the event to every listener. One listener's failure never reaches the others."""
    for listener in tuple(_listeners):
        try:
            listener(name, payload)
        except Exception:
            log.exception("event listener failed event=%s", name)
