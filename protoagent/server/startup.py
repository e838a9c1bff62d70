"""What must be true before the roles start: a current schema, the agent, the operator."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import sys
from collections.abc import Callable, Iterator

from django.conf import settings
from django.core.management import call_command
from django.db import DatabaseError, OperationalError, connection, connections

from protoagent.accounts.services import codes, ensure_operator
from protoagent.config import paths
from protoagent.core import migrations
from protoagent.core.errors import AgentError
from protoagent.core.text import one_line
from protoagent.journal.services import agents, leases

log = logging.getLogger(__name__)

# Any fixed number: two machines that start together must agree on it.
MIGRATION_LOCK = 0x70A6E27
FAILED = 1


def prepare(base_url: str | None = None, previous_boot: str = "") -> None:
    """The database is migrated and holds the agent and the operator.

    Turns that the family `previous_boot` has left running can be claimed at once. With a
    `base_url` a one-time sign-in link is printed. Raises AgentError with one
    sentence when the database cannot be used.
    """
    try:
        with _one_at_a_time():
            _migrate()
            _ensure_rows()
        leases.end_of_boot(previous_boot)
        if base_url:
            _invite(base_url)
    except (DatabaseError, OSError) as error:
        raise AgentError(
            f"the database cannot be used: {database_name()}: {_reason(error)}"
        ) from error
    finally:
        connections.close_all()


def begin(task: Callable[[], None]) -> int:
    """Start `task` in a process of its own and return its id, for `end`.

    Migrating opens connections and loads models of the past, collecting files starts
    threads. Nothing of it is then inherited by the processes forked later, and the caller
    can go on importing meanwhile.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = FAILED
    try:
        task()
        code = 0
    except AgentError as error:
        print(f"error: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        pass
    except BaseException:
        log.exception("the start failed")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def end(pid: int) -> None:
    """Wait for what `begin` started; this process exits with it when it has failed."""
    _, status = os.waitpid(pid, 0)
    if status:
        sys.exit(FAILED)


def database_name() -> str:
    """Which database this is, without a password."""
    database = settings.DATABASES["default"]
    if connection.vendor == "sqlite":
        return f"SQLite {database['NAME']}"
    return f"PostgreSQL {database['NAME']} on {database['HOST'] or 'the local socket'}"


def _reason(error: BaseException) -> str:
    return one_line(str(error), 300) or type(error).__name__


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Nobody else migrates this database meanwhile, on this machine or on another."""
    with (paths.run_dir() / "migrate.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if connection.vendor != "postgresql":
            yield
            return
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [MIGRATION_LOCK])
            try:
                yield
            finally:
                with contextlib.suppress(OperationalError):
                    cursor.execute("SELECT pg_advisory_unlock(%s)", [MIGRATION_LOCK])


def _migrate() -> None:
    if missing := migrations.unapplied():
        count = len(missing)
        print(
            f"bringing the database up to date ({count} migrations) …", file=sys.stderr, flush=True
        )
        call_command("migrate", interactive=False, verbosity=0)


def _ensure_rows() -> None:
    agents.ensure(settings.AGENT_KEY)
    ensure_operator()


def _invite(base_url: str) -> None:
    code = codes.issue(ensure_operator())
    print(f"Console  {base_url}/")
    print(f"Sign in  {base_url}/login/{code}/   (works once, for 10 minutes)", flush=True)
