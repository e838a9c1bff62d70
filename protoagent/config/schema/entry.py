"""One setting: its key, type, default and bounds, and the reader that enforces them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from protoagent.core.errors import BadValue


class Kind(StrEnum):
    """The types of the settings schema (`/api/settings/schema`)."""

    STRING = "string"
    NUMBER = "number"
    BOOL = "bool"
    SELECT = "select"
    LIST = "list"
    SECRET = "secret"  # noqa: S105 — the name of a type


class Scope(StrEnum):
    """Who a value belongs to: this agent, or everything on the machine."""

    AGENT = "agent"
    HOST = "host"


@dataclass(frozen=True)
class Entry:
    """A setting as the page, the CLI and the documentation show it.

    `default` None means "unset". `whole` asks a number to have no fraction. Bounds are
    inclusive. `restart` says that a running process keeps the old value.
    """

    key: str
    kind: Kind
    default: Any
    label: str
    help: str = ""
    minimum: float | None = None
    maximum: float | None = None
    whole: bool = False
    options: tuple[str, ...] = ()
    restart: bool = False
    scope: Scope = Scope.AGENT

    @property
    def is_secret(self) -> bool:
        """Whether the value is kept in secrets.yaml and never shown."""
        return self.kind is Kind.SECRET

    @property
    def is_text(self) -> bool:
        """Whether the value is a string, so that 0123 in the environment stays 0123."""
        return self.kind in (Kind.STRING, Kind.SECRET, Kind.SELECT)

    def read(self, value: Any) -> Any:
        """`value` as this setting holds it; None becomes the default.

        Raises BadValue with a reason that does not repeat a secret.
        """
        if value is None:
            return self.default
        match self.kind:
            case Kind.NUMBER:
                return self._number(value)
            case Kind.BOOL:
                return self._bool(value)
            case Kind.LIST:
                return self._list(value)
            case _:
                return self._text(value)

    def _number(self, value: Any) -> int | float:
        # bool is an int in Python; `temperature: true` is a mistake, not 1.
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._refuse("a whole number" if self.whole else "a number", value)
        if not math.isfinite(value) or (self.whole and value != int(value)):
            raise self._refuse("a whole number" if self.whole else "a number", value)
        if self.minimum is not None and value < self.minimum:
            raise self._refuse(f"at least {self.minimum:g}", value)
        if self.maximum is not None and value > self.maximum:
            raise self._refuse(f"at most {self.maximum:g}", value)
        return int(value) if self.whole else value

    def _bool(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise self._refuse("true or false", value)
        return value

    def _list(self, value: Any) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._refuse("a list of texts", value)
        return [item.strip() for item in value if item.strip()]

    def _text(self, value: Any) -> str:
        if not isinstance(value, str):
            raise self._refuse("text", value)
        value = value.strip()
        if any(ord(char) < 0x20 for char in value):
            raise self._refuse("one line of text", value)
        if self.options and value not in self.options:
            raise self._refuse(" or ".join(option or '""' for option in self.options), value)
        return value

    def _refuse(self, wanted: str, value: Any) -> BadValue:
        shown = "" if self.is_secret else f", not {str(value)[:60]!r}"
        return BadValue(f"{self.key} must be {wanted}{shown}")


@dataclass(frozen=True)
class Section:
    """A group of settings that share the first part of their keys."""

    name: str
    label: str
    category: str
    entries: tuple[Entry, ...]
