"""`protoagent login-link`: a one-time way in."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from protoagent.accounts.services import codes, ensure_operator, people
from protoagent.web import addresses


class Command(BaseCommand):
    help = "Print a link that signs one account in, once, within ten minutes."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--account", default="", help="whom it signs in; the operator without")
        parser.add_argument(
            "--base", default="", help="where the console is reached, such as https://agent.lan"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        base = addresses.base_url(options["base"])
        name = options["account"]
        account = people.find(name) if name else ensure_operator()
        code = codes.issue(account)
        self.stdout.write(addresses.sign_in_link(code, base))
