"""SOUL.md: the default, the operator's text, and edits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from protoagent.config import soul
from tests.config.conftest import Write


@pytest.mark.parametrize("text", [None, "", "  \n"])
def test_without_a_text_the_default_speaks(home: Path, write: Write, text) -> None:
    if text is not None:
        write("SOUL.md", text)

    assert soul.read() == soul.DEFAULT_TEXT


def test_an_edit_is_read_at_once(home: Path, write: Write) -> None:
    path = write("SOUL.md", "# Ida\n")
    first, first_revision = soul.read(), soul.revision()

    path.write_text("# Eva\n")
    os.utime(path, ns=(1, 1))

    assert (first, soul.read()) == ("# Ida", "# Eva")
    assert soul.revision() != first_revision


def test_a_directory_or_odd_bytes_break_nothing(home: Path) -> None:
    path = home / "SOUL.md"
    path.mkdir()
    assert soul.read() == soul.DEFAULT_TEXT

    path.rmdir()
    path.write_bytes(b"I am \xff.")

    assert soul.read() == "I am \N{REPLACEMENT CHARACTER}."


def test_an_endless_text_is_cut(home: Path, write: Write) -> None:
    write("SOUL.md", "a" * (soul.MAX_CHARS + 1))

    assert len(soul.read()) == soul.MAX_CHARS
