"""Where the agent may go on the network."""

from __future__ import annotations

from protoagent.config.schema.entry import Entry, Kind, Scope, Section

SECTION = Section(
    name="egress",
    label="Outgoing network",
    category="Capabilities",
    entries=(
        Entry(
            key="egress.allowed_hosts",
            kind=Kind.LIST,
            default=[],
            scope=Scope.HOST,
            label="Allowed hosts",
            help="Names with optional wildcards, as in *.example.org. Empty allows every "
            "public host; anything else allows only what is listed.",
        ),
    ),
)
