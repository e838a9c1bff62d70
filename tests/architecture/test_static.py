"""Static files: nothing is built, nothing comes from elsewhere, licences are kept."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.sources import CHECKOUT

FOLDER = CHECKOUT / "static"
OURS = [p for p in sorted(FOLDER.rglob("*")) if p.is_file() and "vendor" not in p.parts]
SHEETS = [p for p in OURS if p.suffix == ".css"]
SCRIPTS = [p for p in OURS if p.suffix == ".js"]
VENDOR = FOLDER / "vendor"


def name(path: Path) -> str:
    return str(path.relative_to(FOLDER))


@pytest.mark.parametrize("path", SHEETS, ids=name)
def test_sheet_loads_nothing_from_elsewhere_and_needs_no_important(path):
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)

    assert not re.search(r"url\(\s*['\"]?(?:https?:)?//", text)
    # The reset may: what is hidden stays hidden, and nothing moves for who wants no motion.
    assert "!important" not in text or path.name == "base.css"


@pytest.mark.parametrize("path", SCRIPTS, ids=name)
def test_script_makes_no_code_out_of_text(path):
    text = path.read_text()

    assert not re.search(r"\beval\(|new Function\(|document\.write\(", text)


def test_vendored_files_name_their_versions_and_no_source_map():
    listed = (VENDOR / "VERSIONS").read_text()
    files = [p for p in VENDOR.rglob("*") if p.is_file() and p.name != "VERSIONS"]

    assert [p.name for p in files if p.suffix in (".js", ".css") and p.name not in listed] == []
    assert [p.name for p in files if b"sourceMappingURL" in p.read_bytes()] == []
