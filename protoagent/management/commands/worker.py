"""`worker`: the worker role in this process, for an init system that supervises by itself."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from protoagent.server import worker


class Command(BaseCommand):
    help = "Work off the queue, unsupervised; `serve --role worker` also restarts it."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        worker.run()
