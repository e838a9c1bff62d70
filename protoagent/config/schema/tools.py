"""Which tools the agent goes without."""

from __future__ import annotations

from protoagent.config.schema.entry import Entry, Kind, Section

SECTION = Section(
    name="tools",
    label="Tools",
    category="Capabilities",
    entries=(
        Entry(
            key="tools.disabled",
            kind=Kind.LIST,
            default=[],
            label="Disabled tools",
            help="Not offered to the model; listed as off.",
        ),
        Entry(
            key="tools.hidden",
            kind=Kind.LIST,
            default=[],
            label="Hidden tools",
            help="Not offered to the model and not listed.",
        ),
    ),
)
