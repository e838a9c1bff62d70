"""Connections to model servers, kept open between calls.

A connection belongs to the event loop that opened it, so each loop has lanes of its own.
A lane is a client that serves one call at a time: a shared client looks at each of its idle
connections before every request, which with 32 of them costs more than the request itself.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from protoagent.core import clock
from protoagent.security import egress

# What the operator configured may be on this machine or a private network (contract §4).
POLICY = egress.EgressPolicy(allow_private=True)
KEEP_ALIVE_S = 120.0
CONNECT_TIMEOUT_S = 10.0
MAX_IDLE = 64


@dataclass
class _Lanes:
    """The clients for one server. The one used last is used next, so that others can expire."""

    idle: list[tuple[float, egress.AsyncClient]] = field(default_factory=list)
    busy: set[egress.AsyncClient] = field(default_factory=set)

    def take(self) -> egress.AsyncClient:
        found = self.idle.pop()[1] if self.idle else None
        http = found or egress.client(POLICY, keep_alive_s=KEEP_ALIVE_S)
        self.busy.add(http)
        return http

    async def give_back(self, http: egress.AsyncClient) -> None:
        if http not in self.busy:
            return  # closed meanwhile
        self.busy.remove(http)
        now = clock.monotonic()
        self.idle.append((now, http))
        while len(self.idle) > MAX_IDLE or self.idle[0][0] < now - KEEP_ALIVE_S:
            await self.idle.pop(0)[1].aclose()

    async def close(self) -> None:
        clients = [*self.busy, *(http for _, http in self.idle)]
        self.busy.clear()
        self.idle.clear()
        for http in clients:
            await http.aclose()


# Not weak: a connection refers to its loop, so an entry would keep its own key alive.
_lanes: dict[asyncio.AbstractEventLoop, dict[str, _Lanes]] = {}
_lock = threading.Lock()


@asynccontextmanager
async def lease(base: str) -> AsyncIterator[egress.AsyncClient]:
    """A client for one call to the server at `base`, with an open connection if there is one."""
    loop = asyncio.get_running_loop()
    known = _lanes.get(loop)
    if known is None:
        known = _enter(loop)
    lanes = known.setdefault(base, _Lanes())
    http = lanes.take()
    try:
        yield http
    finally:
        await lanes.give_back(http)


def _enter(loop: asyncio.AbstractEventLoop) -> dict[str, _Lanes]:
    """A place for the connections of a new loop; those of loops that have ended are let go."""
    with _lock:
        for ended in [known for known in _lanes if known.is_closed()]:
            del _lanes[ended]
        return _lanes.setdefault(loop, {})


async def close() -> None:
    """No connection of the running loop is open; call it before the loop ends."""
    with _lock:
        known = _lanes.pop(asyncio.get_running_loop(), {})
    for lanes in known.values():
        await lanes.close()
