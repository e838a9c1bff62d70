"""How many files a message may have, and how large they may be."""

from __future__ import annotations

from protoagent.config.schema.entry import Entry, Kind, Section

SECTION = Section(
    name="attachments",
    label="Attachments",
    category="Capabilities",
    entries=(
        Entry(
            key="attachments.max_files",
            kind=Kind.NUMBER,
            default=10,
            minimum=1,
            maximum=50,
            whole=True,
            label="Files of a message",
            help="At most so many.",
        ),
        Entry(
            key="attachments.max_mb",
            kind=Kind.NUMBER,
            default=20,
            minimum=1,
            maximum=100,
            whole=True,
            label="Size of a file in MB",
            help="At most so large. Files are kept in the database.",
        ),
    ),
)
