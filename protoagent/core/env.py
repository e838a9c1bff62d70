"""Typed readers of the environment. A wrong value ends the start with the name of the key."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from protoagent.core.errors import BadValue

CONFIG_PREFIX = "PROTOAGENT__"


def text(name: str, default: str = "") -> str:
    """The value of `name` without surrounding white space, or `default` when unset or blank."""
    return os.environ.get(name, "").strip() or default


def flag(name: str, default: bool = False) -> bool:
    """1/true/yes/on and 0/false/no/off, in any case."""
    value = text(name).lower()
    if not value:
        return default
    if value in ("1", "true", "yes", "on"):
        return True
    if value in ("0", "false", "no", "off"):
        return False
    raise BadValue(f"{name} must be 1 or 0, not {value!r}")


def number(name: str, default: int, *, minimum: int, maximum: int) -> int:
    """A whole number between `minimum` and `maximum`, both allowed."""
    value = text(name)
    if not value:
        return default
    if not value.isdecimal() or not minimum <= int(value) <= maximum:
        raise BadValue(f"{name} must be a number from {minimum} to {maximum}, not {value!r}")
    return int(value)


def home() -> Path:
    """The instance directory; it may not exist yet."""
    return Path(text("PROTOAGENT_HOME", "~/.protoagent")).expanduser().absolute()


def config_overrides() -> dict[str, Any]:
    """`PROTOAGENT__SECTION__KEY` variables as dotted lower-case keys.

    A value is JSON when it parses as JSON, else text.
    """
    found: dict[str, Any] = {}
    for name, value in os.environ.items():
        if not name.startswith(CONFIG_PREFIX):
            continue
        key = ".".join(part.lower() for part in name.removeprefix(CONFIG_PREFIX).split("__"))
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found
