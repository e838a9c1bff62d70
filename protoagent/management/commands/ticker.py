"""`ticker`: the ticker role in this process, for an init system that supervises by itself."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from protoagent.server import ticker


class Command(BaseCommand):
    help = "Send on what is due, unsupervised; `serve --role ticker` also restarts it."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        ticker.run()
