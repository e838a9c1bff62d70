"""The settings in force. Files are watched by their time stamps; nothing needs a restart."""

from __future__ import annotations

import difflib
import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from protoagent.config import document, layers, paths, secrets
from protoagent.config.layers import Setting, Snapshot
from protoagent.config.schema import ENTRIES, SECTIONS, Entry
from protoagent.core import clock, env, events, extensions
from protoagent.core.errors import BadValue, NotFound

log = logging.getLogger(__name__)

CHECK_EVERY_S = 0.5
_MASK = "********"


class _Live:
    """The present snapshot, replaced as a whole whenever a layer changes."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._snapshot: Snapshot | None = None
        self._signature: object = None
        self._home: str | None = None
        self._check_at = 0.0
        self._warned: set[str] = set()
        self.version = 0
        self.problem = ""

    def current(self) -> Snapshot:
        """The settings, looked at again after half a second or when the instance changes."""
        snapshot = self._snapshot
        if (
            snapshot is not None
            and clock.monotonic() < self._check_at
            and os.environ.get("PROTOAGENT_HOME") == self._home
        ):
            return snapshot
        return self.refresh()

    def look_again(self) -> None:
        """Let the next reader look at the files, however recent the last look is."""
        self._check_at = 0.0

    def refresh(self, *, is_strict: bool = False) -> Snapshot:
        """The settings after a look at every layer.

        Raises BadValue when there is no last good configuration of this instance to fall
        back on, and always with `is_strict`.
        """
        with self._lock:
            known = self._snapshot
            self._read_changes(is_strict)
            snapshot = self._snapshot
            has_changed = known is not None and snapshot is not known
        if has_changed:
            extensions.touch()
            events.publish("config.changed", {"version": self.version})
        assert snapshot is not None  # noqa: S101 — _read_changes leaves one or raises
        return snapshot

    def _read_changes(self, is_strict: bool) -> None:
        home = os.environ.get("PROTOAGENT_HOME")
        files = (paths.config_file(), paths.secrets_file())
        environment = _environment()
        signature = (home, *map(document.signature, files), environment)
        is_other_home = home != self._home
        if is_strict or self._snapshot is None or signature != self._signature:
            self._load(files, is_strict or is_other_home)
            # Reading may have changed the mode of the secrets file.
            self._signature = (home, *map(document.signature, files), environment)
        self._home = home
        self._check_at = clock.monotonic() + CHECK_EVERY_S

    def _load(self, files: tuple[Path, Path], is_strict: bool) -> None:
        try:
            fresh = layers.build(*files)
        except BadValue as error:
            if self._snapshot is None or is_strict:
                raise
            self.problem = str(error)
            log.error("configuration not loaded, the last good one stays: %s", error)
            return
        self.problem = ""
        for warning in fresh.warnings:
            if warning not in self._warned:
                self._warned.add(warning)
                log.warning("configuration: %s", warning)
        if fresh != self._snapshot:
            self._snapshot = fresh
            self.version += 1


_live = _Live()


def get(key: str) -> Any:
    """The value of the setting `key`, for example `model.temperature`.

    Raises NotFound for an unknown key, and BadValue while no good configuration was ever read.
    """
    value = _setting(key).value
    return list(value) if isinstance(value, list) else value


def section(name: str) -> dict[str, Any]:
    """All settings of one section by their short names."""
    _known_section(name)
    prefix = f"{name}."
    return {key.removeprefix(prefix): get(key) for key in ENTRIES if key.startswith(prefix)}


def version() -> int:
    """Grows whenever a value in force changes; at most one look at the files per half second."""
    _live.current()
    return _live.version


def explain(key: str) -> Setting:
    """The value and its layer: default, file, secrets or environment. A secret is masked."""
    value, layer = _setting(key)
    if ENTRIES[key].is_secret:
        return Setting(_MASK if value else "", layer)
    return Setting(value, layer)


def reload() -> None:
    """Read all layers anew, now.

    Raises BadValue naming key and place when a layer is wrong; call it at start.
    """
    _live.refresh(is_strict=True)


def problem() -> str:
    """Why the last edit of a file is not in force, or an empty text."""
    _live.current()
    return _live.problem


def warnings() -> tuple[str, ...]:
    """What the operator should tidy up: unknown keys, secrets in the wrong file."""
    return _live.current().warnings


def known_secrets() -> frozenset[str]:
    """Every secret value that must never be stored or shown: files, environment, tokens."""
    values = set(_live.current().secret_values) | secrets.of_environment()
    return secrets.worth_masking(values)


def update(changes: Mapping[str, Any]) -> None:
    """Write the settings of `changes` into config.yaml and secrets.yaml, all or none of them.

    None goes back to the default. A blank secret means unchanged.

    Raises BadValue or NotFound naming the key; then nothing is written.
    """
    plain: dict[str, Any] = {}
    private: dict[str, Any] = {}
    for key, value in changes.items():
        entry = _known_entry(key)
        read = None if value is None else entry.read(value)
        if not entry.is_secret:
            plain[key] = read
        elif read != "":
            private[key] = read
    _write_both(plain, private)
    _live.current()


def _write_both(plain: dict[str, Any], private: dict[str, Any]) -> None:
    secrets_file = paths.secrets_file()
    before = secrets_file.read_bytes() if secrets_file.exists() else None
    if private:
        document.write(secrets_file, private, mode=secrets.PRIVATE_MODE)
    try:
        if plain:
            document.write(paths.config_file(), plain)
    except (BadValue, OSError):
        if private and before is None:
            secrets_file.unlink()
        elif private and before is not None:
            secrets_file.write_bytes(before)
        raise
    _live.look_again()


def _setting(key: str) -> Setting:
    found = _live.current().settings.get(key)
    if found is None:
        _known_entry(key)
        raise NotFound(f"no setting {key}")
    return found


def _known_entry(key: str) -> Entry:
    entry = ENTRIES.get(key)
    if entry is None:
        raise NotFound(f"no setting {key}{_suggest(key, list(ENTRIES))}")
    return entry


def _known_section(name: str) -> None:
    names = [section.name for section in SECTIONS]
    if name not in names:
        raise NotFound(f"no section {name}{_suggest(name, names)}")


def _suggest(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _environment() -> tuple[tuple[str, str], ...]:
    found = (item for item in os.environ.items() if item[0].startswith(env.CONFIG_PREFIX))
    return tuple(sorted(found))
