"""The tables of docs/performance.md, between markers that name their database."""

from __future__ import annotations

import re
from pathlib import Path

FILE = Path(__file__).resolve().parents[2] / "docs" / "performance.md"


def _pattern(database: str) -> re.Pattern[str]:
    name = re.escape(database)
    return re.compile(rf"(<!-- measured: {name} -->\n).*?(<!-- end: {name} -->)", re.S)


def block(text: str, database: str) -> str:
    """What stands between the markers of this database.

    Raises LookupError when the document has no such place.
    """
    found = _pattern(database).search(text)
    if found is None:
        raise LookupError(f"the document has no place for {database}")
    return found[0].removeprefix(found[1]).removesuffix(found[2]).strip()


def with_block(text: str, database: str, new: str) -> str:
    """The document with `new` between the markers of this database, and else unchanged."""
    block(text, database)
    return _pattern(database).sub(lambda match: f"{match[1]}{new}\n{match[2]}", text)


def write(database: str, new: str) -> None:
    """The table of this database in docs/performance.md is `new`."""
    FILE.write_text(with_block(FILE.read_text(), database, new))
