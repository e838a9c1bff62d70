"""The session, model and tools of the runtime's tests, and a way to lose the process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from channels.db import database_sync_to_async as in_db

from protoagent.journal.services import turns
from protoagent.journal.writer import writer
from protoagent.runtime import history, runner
from tests.runtime.conftest import Chat, chat, model

Crash = Callable[[], Awaitable[None]]


@pytest.fixture
def crash() -> Crash:
    """`await crash()`: whatever runs is gone, memory included; its leases have ended."""

    async def lose_the_process() -> None:
        mine = runner.here()
        assert mine is not None
        lost = list(mine.legs)
        for leg in mine.legs.values():
            leg.lost = True
        tasks = mine.tasks()
        for task in tasks:
            task.cancel()
        for task in tasks:
            while not task.done():
                await _turn_the_loop()
        await writer().flushed()
        await in_db(turns.release)(mine.holder)
        runner.detach()
        history.cache._known.clear()
        new = runner.attach()
        new.holder = f"{new.holder}+"
        for turn_id in lost:
            new.start_soon(turn_id)

    return lose_the_process


async def _turn_the_loop() -> None:
    import asyncio

    await asyncio.sleep(0.01)


__all__ = ["Chat", "chat", "model"]
