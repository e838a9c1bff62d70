"""The project's own files, as the structural tests read them."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGES = ("protoagent", "tools_app")


@cache
def project() -> dict[str, Any]:
    """pyproject.toml."""
    return tomllib.loads((CHECKOUT / "pyproject.toml").read_text())


def contract(name: str) -> dict[str, Any]:
    """One import contract of pyproject.toml."""
    contracts = project()["tool"]["importlinter"]["contracts"]
    return next(one for one in contracts if one["name"] == name)


def modules() -> Iterator[Path]:
    """Every Python file of the product, without migrations."""
    for package in PACKAGES:
        for path in sorted((CHECKOUT / package).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path


@cache
def tree(path: Path) -> ast.Module:
    """The parsed file."""
    return ast.parse(path.read_text(), str(path))


def short(path: Path) -> str:
    """The path as a message shows it."""
    return str(path.relative_to(CHECKOUT))
