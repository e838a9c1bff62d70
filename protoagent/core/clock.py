"""The one place that asks what time it is, so that tests can answer."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime


def now() -> datetime:
    """The present moment, aware, in UTC."""
    return datetime.now(UTC)


def monotonic() -> float:
    """Seconds that never run backwards; only differences mean something."""
    return time.monotonic()


async def sleep(seconds: float) -> None:
    """Wait on the event loop."""
    await asyncio.sleep(seconds)
