"""`serve`: migrate, then web, worker and ticker in one supervised family of processes."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from protoagent.core.errors import AgentError
from protoagent.server import roles


class Command(BaseCommand):
    help = "Start the console, the worker and the ticker; Ctrl-C stops them all."
    # The checks import the whole console; they run in `make check` and in `doctor`.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        # Both are read before the settings are, see `protoagent.cli`.
        parser.add_argument("--host", help="address to listen on (PROTOAGENT_HOST, 127.0.0.1)")
        parser.add_argument("--port", help="port to listen on (PROTOAGENT_PORT, 7870)")
        parser.add_argument("--role", choices=roles.ROLES, help="run this role only")

    def handle(self, *args: Any, **options: Any) -> None:
        chosen = (options["role"],) if options["role"] else roles.ROLES
        try:
            roles.serve(chosen)
        except AgentError as error:
            raise CommandError(str(error)) from None
