"""secrets.yaml: secret values only, readable by the owner only."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from protoagent.config import document
from protoagent.core.errors import BadValue

log = logging.getLogger(__name__)

PRIVATE_MODE = 0o600
# A shorter value, or a word such as "postgres", occurs in ordinary text; masking it would
# destroy the text and hide nothing.
MIN_MASKED_CHARS = 8
MIN_MASKED_LETTERS = 12

_SECRET_NAME = re.compile(
    r"(API_KEY|ACCESS_KEY|SECRET_KEY|PRIVATE_KEY|TOKEN|SECRET|PASSWORD|PASSPHRASE)\Z"
)
_URLS = ("DATABASE_URL", "REDIS_URL")
# What people type where a local server wants any key at all.
_PLACEHOLDERS = {"lm-studio", "not-needed", "no-key-required", "sk-no-key-required", "placeholder"}


def read(path: Path) -> dict[str, Any]:
    """The map in the file, after its mode has been made private.

    Raises BadValue when others may read the file and its mode cannot be changed.
    """
    _make_private(path)
    return document.read(path, is_private=True)


def of_environment() -> set[str]:
    """Values of the environment variables whose names say that they are secret."""
    found = {value for name, value in os.environ.items() if _SECRET_NAME.search(name.upper())}
    for name in _URLS:
        found.add(_password(os.environ.get(name, "")))
    return found


def worth_masking(values: set[str]) -> frozenset[str]:
    """Those that identify themselves: neither short, nor a word, nor a usual placeholder."""
    return frozenset(value for value in (v.strip() for v in values) if _is_telling(value))


def _is_telling(value: str) -> bool:
    least = MIN_MASKED_LETTERS if value.isalpha() else MIN_MASKED_CHARS
    return len(value) >= least and value.lower() not in _PLACEHOLDERS


def _make_private(path: Path) -> None:
    try:
        mode = path.stat().st_mode & 0o777
    except OSError:
        return  # missing, or out of reach: then reading it says why
    if not mode & 0o077:
        return
    try:
        path.chmod(PRIVATE_MODE)
    except OSError as error:
        raise BadValue(
            f"{path} is readable by others (mode {mode:04o}) and that cannot be changed: "
            f"{error.strerror}"
        ) from None
    log.warning("secrets file was readable by others; its mode is 0600 now file=%s", path)


def _password(url: str) -> str:
    try:
        return unquote(urlsplit(url).password or "")
    except ValueError:
        return ""
