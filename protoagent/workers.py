"""The names that the queue and the ticker call. Sync entries; each tolerates a second call."""

from __future__ import annotations

import asyncio

from asgiref.sync import async_to_sync

from protoagent.accounts.services import browsers, sign_ins
from protoagent.journal.services import sessions
from protoagent.providers import pool
from protoagent.runtime import runner, service
from protoagent.uploads import services as uploads


def run_turn(turn_id: str) -> None:
    """Run the turn here until it waits or has ended, and then what follows it in its session.

    A turn that is not to be had (somebody runs it, it has ended) is left alone.
    """
    async_to_sync(_run_turn)(turn_id)


async def _run_turn(turn_id: str) -> None:
    mine = runner.attach()
    try:
        mine.start(turn_id)
        while tasks := mine.tasks():
            await asyncio.wait(tasks)
    finally:
        runner.detach()
        await pool.close()


def tick() -> int:
    """Twice a second: send on what got stuck. How many turns were kicked."""
    return service.recover()


def tidy() -> None:
    """Once a minute: remove for good what nobody can bring back any more."""
    sessions.purge_deleted()
    uploads.purge()
    browsers.prune()
    sign_ins.prune()
