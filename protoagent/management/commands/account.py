"""`protoagent account`: people beside the operator."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from protoagent.accounts.services import people
from protoagent.core.context import Scope

ROLES = (Scope.VIEWER.value, Scope.OPERATOR.value)


class Command(BaseCommand):
    help = "Make, list and deactivate accounts; they sign in by `login-link --account NAME`."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(
            dest="action", required=True, metavar="create|list|deactivate"
        )
        create = actions.add_parser("create", help="make an account without a password")
        create.add_argument("name")
        create.add_argument("--role", choices=ROLES, default=ROLES[0])
        actions.add_parser("list", help="every account")
        deactivate = actions.add_parser("deactivate", help="sign an account out for good")
        deactivate.add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        actions = {"create": self._create, "list": self._list, "deactivate": self._deactivate}
        actions[options["action"]](options)

    def _create(self, options: dict[str, Any]) -> None:
        account = people.create(options["name"], scope=Scope(options["role"]))
        self.stdout.write(
            f"Account {account.username} ({options['role']}). Sign-in link: "
            f"protoagent login-link --account {account.username}"
        )

    def _list(self, options: dict[str, Any]) -> None:
        for account in people.listing():
            state = "active" if account.is_active else "deactivated"
            self.stdout.write(f"{account.username}  {people.scope_of(account).value}  {state}")

    def _deactivate(self, options: dict[str, Any]) -> None:
        people.deactivate(people.find(options["name"]))
        self.stdout.write(f"Deactivated {options['name']}.")
