"""Defaults, config.yaml, secrets.yaml and the environment, laid over each other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from protoagent.config import document, secrets
from protoagent.config.schema import ENTRIES, Entry, Kind
from protoagent.core import env
from protoagent.core.errors import BadValue

DEFAULT, FILE, SECRETS, ENVIRONMENT = "default", "file", "secrets", "environment"


class Setting(NamedTuple):
    """A value in force and the layer it comes from."""

    value: Any
    layer: str


@dataclass(frozen=True)
class Snapshot:
    """All settings at one moment. `secret_values` also holds secrets that no setting uses."""

    settings: dict[str, Setting]
    secret_values: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()


@dataclass
class _Draft:
    settings: dict[str, Setting]
    secret_values: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def put(self, entry: Entry, value: Any, layer: str, where: str) -> None:
        try:
            read = entry.read(value)
        except BadValue as error:
            self.problems.append(f"{error} (in {where})")
            return
        self.settings[entry.key] = Setting(read, DEFAULT if value is None else layer)
        if entry.is_secret and read:
            self.secret_values.add(read)


def build(config_file: Path, secrets_file: Path) -> Snapshot:
    """The settings in force.

    null in a layer means the default again. Unknown keys are ignored with a warning.

    Raises BadValue naming every wrong key and where it stands.
    """
    draft = _Draft({key: Setting(entry.read(None), DEFAULT) for key, entry in ENTRIES.items()})
    _lay_file(draft, config_file)
    _lay_secrets(draft, secrets_file)
    _lay_environment(draft)
    if draft.problems:
        raise BadValue("; ".join(draft.problems))
    return Snapshot(
        settings=draft.settings,
        secret_values=secrets.worth_masking(draft.secret_values),
        warnings=tuple(draft.warnings),
    )


def _lay_file(draft: _Draft, path: Path) -> None:
    for key, value in document.flatten(document.read(path)).items():
        entry = ENTRIES.get(key)
        if entry is None:
            _report_unknown(draft, key, value, str(path))
            continue
        draft.put(entry, value, FILE, str(path))
        if entry.is_secret and value:
            draft.warnings.append(f"{key} is a secret and belongs into secrets.yaml, not {path}")


def _lay_secrets(draft: _Draft, path: Path) -> None:
    for key, value in document.flatten(secrets.read(path)).items():
        draft.secret_values.update(_leaves(value))
        entry = ENTRIES.get(key)
        if entry is None:
            continue  # a plugin's secret: kept for it, and masked like the others
        if entry.is_secret:
            # YAML reads an unquoted 12345678 as a number; a key is text.
            is_number = isinstance(value, int) and not isinstance(value, bool)
            text = str(value) if is_number else value
            draft.put(entry, text, SECRETS, str(path))
        else:
            draft.warnings.append(f"{key} is not a secret and is ignored in {path}")


def _lay_environment(draft: _Draft) -> None:
    raw = {
        name.removeprefix(env.CONFIG_PREFIX).replace("__", ".").lower(): (name, value)
        for name, value in os.environ.items()
        if name.startswith(env.CONFIG_PREFIX)
    }
    for key, value in env.config_overrides().items():
        name, text = raw.get(key, (key, ""))
        entry = ENTRIES.get(key)
        if entry is None:
            draft.warnings.append(f"{name} in the environment is no known setting")
        else:
            draft.put(entry, _from_environment(entry, value, text), ENVIRONMENT, name)


def _from_environment(entry: Entry, value: Any, text: str) -> Any:
    """What the operator meant: a shell has no types, so 0123 may be a text and `on` a truth."""
    if value is None:
        return None
    if entry.is_text and not isinstance(value, str):
        return text
    if entry.kind is Kind.BOOL and not isinstance(value, bool):
        known = {"1": True, "yes": True, "on": True, "0": False, "no": False, "off": False}
        return known.get(text.strip().lower(), value)
    if entry.kind is Kind.LIST and not isinstance(value, list):
        return text.split(",")
    return value


def _report_unknown(draft: _Draft, key: str, value: Any, where: str) -> None:
    if any(known.startswith(f"{key}.") for known in ENTRIES):
        if value is not None:
            draft.problems.append(f"{key} must be a section with keys (in {where})")
        return
    draft.warnings.append(f"{key} in {where} is no known setting; it is kept and ignored")


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, str | int) and not isinstance(value, bool):
        yield str(value)
