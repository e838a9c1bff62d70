"""The list of settings itself."""

from __future__ import annotations

import pytest

from protoagent.config.schema import ENTRIES, SECTIONS


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=list(ENTRIES))
def test_a_setting_explains_itself_and_accepts_its_default(entry) -> None:
    assert entry.label and entry.help
    assert entry.read(entry.default) == entry.default


def test_keys_start_with_their_section_and_are_unique() -> None:
    keys = [entry.key for section in SECTIONS for entry in section.entries]

    assert len(keys) == len(set(keys))
    for section in SECTIONS:
        assert all(entry.key.startswith(f"{section.name}.") for entry in section.entries)
