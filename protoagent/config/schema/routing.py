"""Which model takes over when the first one fails."""

from __future__ import annotations

from protoagent.config.schema.entry import Entry, Kind, Scope, Section

SECTION = Section(
    name="routing",
    label="Routing",
    category="Model",
    entries=(
        Entry(
            key="routing.fallback_models",
            kind=Kind.LIST,
            default=[],
            scope=Scope.HOST,
            label="Fallback models",
            help="Asked in this order. `provider:name` asks another provider, as in "
            "`ollama:llama3.2`.",
        ),
    ),
)
