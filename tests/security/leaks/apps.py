from __future__ import annotations

from django.apps import AppConfig


class LeaksConfig(AppConfig):
    name = "tests.security.leaks"
    label = "leaks"

    def ready(self) -> None:
        """The tools are there like those of any other source."""
        from protoagent.core import extensions
        from tests.security.leaks import tools

        extensions.register("tool_sources", "mcp", lambda: tools.TOOLS)
