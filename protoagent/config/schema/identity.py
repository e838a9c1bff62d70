"""Who the agent is and whom it works for."""

from __future__ import annotations

from protoagent.config.schema.entry import Entry, Kind, Section

SECTION = Section(
    name="identity",
    label="Identity",
    category="Identity",
    entries=(
        Entry(
            key="identity.name",
            kind=Kind.STRING,
            default="protoagent",
            label="Name",
            help="The display name of the agent. Its key never changes.",
        ),
        Entry(
            key="identity.operator",
            kind=Kind.STRING,
            default="",
            label="Operator",
            help="What the agent calls the person it works for.",
        ),
    ),
)
