"""Every setting there is. A new one is one entry in the module of its section."""

from __future__ import annotations

from protoagent.config.schema import attachments, egress, identity, model, routing, tools
from protoagent.config.schema.entry import Entry, Kind, Scope, Section

SECTIONS: tuple[Section, ...] = (
    identity.SECTION,
    model.SECTION,
    routing.SECTION,
    tools.SECTION,
    attachments.SECTION,
    egress.SECTION,
)
ENTRIES: dict[str, Entry] = {entry.key: entry for section in SECTIONS for entry in section.entries}

__all__ = ["ENTRIES", "SECTIONS", "Entry", "Kind", "Scope", "Section"]
