"""Papers: links lead somewhere, commands exist, decisions are short, nothing names our machines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.core.management import get_commands

from protoagent import settings
from protoagent.journal.services import processes
from tests.architecture.sources import CHECKOUT

PAPERS = sorted([*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md")])
DECISIONS = sorted((CHECKOUT / "docs/adr").glob("*.md"))
SECTIONS = ["Context", "Decision", "Instead of", "Consequences", "Checked by"]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")


def name(path: Path) -> str:
    return str(path.relative_to(CHECKOUT))


@pytest.mark.parametrize("paper", PAPERS, ids=name)
def test_links_lead_to_files_that_exist(paper):
    targets = [link.partition("#")[0] for link in LINK.findall(paper.read_text())]
    local = [target for target in targets if target and not target.startswith(("http:", "https:"))]

    assert [target for target in local if not (paper.parent / target).exists()] == []


@pytest.mark.parametrize("paper", PAPERS, ids=name)
def test_paths_that_are_named_exist(paper):
    # A path right above a block of code is the file that a recipe writes.
    text = re.sub(r"(^`[^`]+`\n\n)?^```.*?```", "", paper.read_text(), flags=re.S | re.M)
    folders = ("protoagent/", "tools_app/", "tests/", "docs/", "templates/", "static/")
    rooms = {path.name for path in (CHECKOUT / "protoagent").iterdir() if path.is_dir()}
    missing = []

    def is_missing(code: str) -> bool:
        if code.startswith(folders):
            return not (CHECKOUT / code).exists()
        in_room = code.partition("/")[0] in rooms and code.endswith(".py")
        return in_room and not (CHECKOUT / "protoagent" / code).exists()

    for code in CODE.findall(text):
        if re.fullmatch(r"[\w./-]+/[\w./-]*", code) and is_missing(code):
            missing.append(code)

    assert missing == []


@pytest.mark.parametrize("paper", PAPERS, ids=name)
def test_make_targets_and_commands_that_are_named_exist(paper):
    text = paper.read_text()
    targets = set(re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text(), flags=re.M))
    commands = {command.replace("_", "-") for command in get_commands()}

    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", text, flags=re.M)) - targets == set()
    assert set(re.findall(r"(?:^|`|/)protoagent ([a-z-]+)", text, flags=re.M)) - commands == set()


@pytest.mark.parametrize("decision", DECISIONS, ids=name)
def test_decision_is_short_and_complete(decision):
    text = decision.read_text()

    assert len(text.splitlines()) <= 60
    assert re.findall(r"^## (.+)$", text, flags=re.M) == SECTIONS
    assert text.startswith(f"# {decision.name[:4]} ")


def test_decisions_are_numbered_without_a_gap():
    numbers = [int(path.name[:4]) for path in DECISIONS]

    assert numbers == list(range(1, len(numbers) + 1))


def test_the_environment_is_documented_with_the_defaults_of_the_code():
    text = (CHECKOUT / "docs/operating.md").read_text()
    read = set()
    for path in (CHECKOUT / "protoagent").rglob("*.py"):
        source = path.read_text()
        read |= set(re.findall(r"env\.(?:text|flag|number)\(\s*\"([A-Z_]+)\"", source))

    assert {variable for variable in read if f"`{variable}`" not in text} == set()
    assert f"`{settings.AGENT_KEY}`" in text
    assert f"within {processes.STALE_AFTER_S:g} s" in text


def test_the_licence_and_the_readme_are_where_tools_look_for_them():
    assert "MIT License" in (CHECKOUT / "LICENSE").read_text()
    assert (CHECKOUT / "README.md").read_text().startswith("# protoAgent console\n")


def test_no_paper_or_source_names_a_machine_of_ours():
    patterns = re.compile(r"/root/|/tmp/[a-z]/|/home/[a-z]")
    files = [
        *PAPERS,
        *CHECKOUT.glob("requirements*"),
        CHECKOUT / "Makefile",
        CHECKOUT / "pyproject.toml",
    ]
    for folder in ("protoagent", "tools_app", "tests", "scripts", ".ci"):
        files += [
            p for p in (CHECKOUT / folder).rglob("*") if p.suffix in (".py", ".sh", "", ".toml")
        ]
    named = [
        name(path)
        for path in files
        if path.is_file()
        and path.name != "test_docs.py"
        and patterns.search(path.read_text(errors="ignore"))
    ]

    assert named == []
