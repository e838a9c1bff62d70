"""A home of its own for each test, and short ways to write its files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from protoagent.config import services

Write = Callable[[str, str], Path]


@pytest.fixture
def home(tmp_path: Path, clean_env: pytest.MonkeyPatch) -> Path:
    clean_env.setenv("PROTOAGENT_HOME", str(tmp_path))
    services.reload()
    return tmp_path


@pytest.fixture
def write(home: Path) -> Write:
    """Write a file of the home; secrets are private unless a test opens them."""

    def write(name: str, text: str) -> Path:
        path = home / name
        path.write_text(text)
        path.chmod(0o600)
        return path

    return write
