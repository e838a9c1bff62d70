"""One turn for a caller that stays until it waits or ends: the shell, a waiting HTTP request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from channels.db import database_sync_to_async as in_db

from protoagent.journal import live
from protoagent.journal.models import ChatSession
from protoagent.journal.services.turns import Message
from protoagent.runtime import runner, service

Frame = dict[str, Any]


async def ask(session: ChatSession, message: Message) -> AsyncIterator[Frame]:
    """Send `message` and give the session's events until its turn waits or has ended.

    The turn runs in this process. When the caller goes away earlier, it goes on as long
    as the process lives, and elsewhere after that.
    """
    runner.attach()
    await in_db(session.refresh_from_db)(fields=["last_seq"])
    subscription = live.hub.subscribe(session.pk, session.last_seq)
    try:
        accepted = await in_db(service.send)(session, message)
        async for frame in follow(subscription, accepted.turn_id):
            yield frame
    finally:
        subscription.close()


async def follow(subscription: live.Subscription, turn_id: str) -> AsyncIterator[Frame]:
    """Events of the subscription up to the next `turn.finished` of this turn, it included."""
    async for frames in subscription:
        for frame in frames:
            yield frame
            if frame["type"] == "turn.finished" and frame["turn"] == turn_id:
                return
