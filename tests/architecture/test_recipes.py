"""The recipes of docs/recipes.md work when somebody follows them to the letter."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "docs" / "recipes.md"
BLOCK = re.compile(r"^`([^`\n]+)`\n\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
KEPT = ("docs", "protoagent", "static", "templates", "tests", "tools_app")


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree in which every recipe was followed."""
    copy = tmp_path_factory.mktemp("recipes")
    for name in KEPT:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, copy / name, ignore=ignored)
    for name in ("manage.py", "pyproject.toml"):
        shutil.copy(ROOT / name, copy / name)
    for path, language, body in BLOCK.findall(RECIPES.read_text()):
        target = copy / path
        if language == "diff":
            target.write_text(edited(target.read_text(), body, path))
        else:
            assert not target.exists(), path
            target.write_text(body)
    return copy


def edited(text: str, diff: str, path: str) -> str:
    """`text` with each group of `-` lines replaced by the `+` lines below it."""
    for old, new in re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)+)", diff, re.MULTILINE):
        found = re.sub("^-", "", old, flags=re.MULTILINE)
        assert text.count(found) == 1, f"{path} has {text.count(found)} times: {found}"
        text = text.replace(found, re.sub(r"^\+", "", new, flags=re.MULTILINE))
    return text


def run(copy: Path, *arguments: str) -> None:
    # A run of its own: neither this run's directory and database nor its worker.
    inherited = ("PYTEST_", "PROTOAGENT_", "DATABASE_URL")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(inherited)}
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_what_the_recipes_make_passes_their_own_test(followed: Path) -> None:
    run(followed, "pytest", "-p", "no:cacheprovider", "-q", "tests/console/test_dice.py")


def test_what_the_recipes_make_passes_the_linter(followed: Path) -> None:
    changed = [path for path, _, _ in BLOCK.findall(RECIPES.read_text()) if path.endswith(".py")]
    run(followed, "ruff", "check", "--no-cache", *changed)
    run(followed, "ruff", "format", "--no-cache", "--check", *changed)
