"""`doctor`: is everything there that a turn needs? Exit code 1 when a part fails."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from protoagent.management import examination


class Command(BaseCommand):
    help = "Check the database, the processes, the channel layer, the configuration and the model."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="the findings as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        # A failing part is a finding; its log lines would only repeat it.
        logging.disable(logging.ERROR)
        findings = examination.examine()
        is_ok = all(finding.is_ok for finding in findings)
        if options["json"]:
            shown = {"ok": is_ok, "findings": [finding.as_json for finding in findings]}
            self.stdout.write(json.dumps(shown, indent=2, ensure_ascii=False))
        else:
            for finding in findings:
                mark = "✓" if finding.is_ok else "✗"
                self.stdout.write(f"{mark} {finding.part}: {finding.sentence}")
        if not is_ok:
            sys.exit(1)
