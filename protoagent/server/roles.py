"""From `serve` with its options to a supervised family."""

from __future__ import annotations

import contextlib
import gc
import importlib
import socket
from collections.abc import Callable
from functools import partial

from django.conf import settings

from protoagent.config import paths
from protoagent.core.errors import AgentError
from protoagent.journal.services import processes
from protoagent.server import assets, listening, startup
from protoagent.server.supervisor import Supervisor

ROLES = ("web", "worker", "ticker")


def say(line: str) -> None:
    """One line for the operator, at once. Nobody has to read it."""
    with contextlib.suppress(BrokenPipeError):
        print(line, flush=True)


def serve(roles: tuple[str, ...]) -> None:
    """Run `roles` until told to stop.

    Raises AgentError with one sentence when the home is served already, the port is
    taken, or the database cannot be used.
    """
    previous = ""
    if roles == ROLES:
        lock = paths.run_dir() / "serve.lock"
        previous = listening.claim_home(lock, processes.BOOT_ID, say)
    listener = listening.open_socket(settings.HOST, settings.PORT) if "web" in roles else None
    base_url = listening.url(settings.HOST, settings.PORT) if listener else None
    begun = [startup.begin(partial(startup.prepare, base_url, previous))]
    if listener is not None and not assets.are_collected():
        startup.end(begun.pop())
        # Before the web role's imports: they read the list of hashed names.
        startup.end(startup.begin(assets.collect))
    work = {name: _load(name, listener) for name in roles}
    for pid in begun:
        startup.end(pid)
    # Objects made until now stay where they are, or each child would copy their pages.
    gc.collect()
    gc.freeze()
    Supervisor(work, say=say).run()


def _load(role: str, listener: socket.socket | None) -> Callable[[], None]:
    """The function of a role; what it needs is imported now, to be shared by the processes."""
    module = importlib.import_module(f"protoagent.server.{role}")
    if role != "web":
        return partial(_without, listener, module.run)
    module.preload()
    if listener is None:
        raise AgentError("the web role needs a listening socket")
    return partial(module.run, listener)


def _without(listener: socket.socket | None, run: Callable[[], None]) -> None:
    """Only the web process and the supervisor hold the listening socket."""
    if listener is not None:
        listener.close()
    run()
