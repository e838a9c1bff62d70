"""The web role: HTTP, WebSockets and the turns that an operator's messages start."""

from __future__ import annotations

import asyncio
import importlib
import logging
import signal
import socket
import sys

from channels.db import database_sync_to_async as in_db
from django.db import DatabaseError

from protoagent.journal.services import processes
from protoagent.runtime import runner, service
from protoagent.server import family
from protoagent.uploads import services as uploads
from protoagent.web import auth, files

log = logging.getLogger(__name__)

BEAT_EVERY_S = 5.0
HARD_END_S = 10.0


def preload() -> None:
    """Import what the process will need, while that memory can still be shared.

    All but the Twisted reactor: it holds an epoll descriptor, which two processes must not share.
    """
    for name in ("twisted.web.http", "autobahn.twisted.websocket", "protoagent.asgi"):
        importlib.import_module(name)


SWITCH_S = 0.001


def run(listener: socket.socket) -> None:
    """Serve on `listener` until SIGTERM.

    Then sockets close with 1012, running turns give their leases back, and what is
    still unanswered gets 503.
    """
    sys.setswitchinterval(SWITCH_S)
    web = importlib.import_module("protoagent.server.daphne")
    application = importlib.import_module("protoagent.asgi").application
    heart = Heart()
    senders = web.Uploads(files.is_upload, uploads.max_bytes, auth.check_sender)
    server = web.WebServer(
        application, listener, on_start=heart.start, on_stop=heart.stop, uploads=senders
    )

    def stop() -> None:
        family.end_by(HARD_END_S)
        server.stop_soon()

    server.loop.add_signal_handler(signal.SIGTERM, stop)
    server.loop.add_signal_handler(signal.SIGINT, stop)
    server.run()


class Heart:
    """What lives in a web process beside its connections: the turn runner and a heartbeat.

    With each beat it takes over turns that a crash has left and no worker is free for.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Turns can be run here, and other processes see this one."""
        runner.attach()
        self._task = asyncio.get_running_loop().create_task(self._beat(), name="web-heartbeat")

    async def stop(self) -> None:
        """Running turns are given back to be continued elsewhere, and the heartbeat ends."""
        if self._task is not None:
            self._task.cancel()
        mine = runner.here()
        if mine is not None:
            await mine.shutdown()
            runner.detach()
        await in_db(processes.farewell)()

    async def _beat(self) -> None:
        while True:
            try:
                await in_db(processes.beat)("web")
                await in_db(service.adopt)()
            except DatabaseError as error:
                log.warning("heartbeat or adoption failed: %s", error)
            await asyncio.sleep(BEAT_EVERY_S)
