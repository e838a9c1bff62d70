"""`protoagent token`: bearer tokens of programs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from protoagent.accounts.services import programs
from protoagent.core.context import Scope


class Command(BaseCommand):
    help = "Make, list and revoke bearer tokens for programs."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="create|list|revoke")
        create = actions.add_parser("create", help="make a token and print it this once")
        create.add_argument("name")
        create.add_argument("--scope", required=True, choices=[scope.value for scope in Scope])
        actions.add_parser("list", help="every token, without its secret")
        revoke = actions.add_parser("revoke", help="end a token everywhere, open sockets included")
        revoke.add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        actions = {"create": self._create, "list": self._list, "revoke": self._revoke}
        actions[options["action"]](options)

    def _create(self, options: dict[str, Any]) -> None:
        made = programs.create(options["name"], Scope(options["scope"]))
        # Nothing else goes to standard output, so that a script can take it as it is.
        self.stdout.write(made.secret)
        self.stderr.write(
            f"Token {made.row.name!r} with scope {made.row.scope}. It is not shown again."
        )

    def _list(self, options: dict[str, Any]) -> None:
        rows = programs.listing()
        if not rows:
            self.stdout.write("No tokens.")
            return
        width = max(len(row.name) for row in rows)
        for row in rows:
            state = "live" if row.revoked_at is None else f"revoked {_day(row.revoked_at)}"
            used = f"last used {_day(row.last_used_at)}" if row.last_used_at else "never used"
            made = f"made {_day(row.created_at)}"
            self.stdout.write(f"{row.name:<{width}}  {row.scope:<10}  {made}  {used}  {state}")

    def _revoke(self, options: dict[str, Any]) -> None:
        row = programs.revoke(options["name"])
        self.stdout.write(f"Revoked {row.name}.")


def _day(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
