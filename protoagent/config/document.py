"""YAML files of the instance: read as plain values, written with the operator's comments kept."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from protoagent.core.errors import BadValue

MAX_BYTES = 1024 * 1024

Signature = tuple[int, int, int, int]


def signature(path: Path) -> Signature | None:
    """What changes when the file is edited, replaced or re-permitted; None when it is missing."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return (0, 0, 0, 0)  # there, and out of reach: reading it says why
    return (found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode)


def read(path: Path, *, is_private: bool = False) -> dict[str, Any]:
    """The map in the file; empty when the file is missing or blank.

    An error about a private file names the line and never quotes it.

    Raises BadValue, naming the file, when it cannot be read or is not a map.
    """
    text = _text(path)
    try:
        tree = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError) as error:
        raise BadValue(f"{path} is not valid YAML{_place(error, is_private)}") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise BadValue(f"{path} must hold keys and values, as in `model: {{name: …}}`")
    return tree


def flatten(tree: Mapping[Any, Any], prefix: str = "") -> dict[str, Any]:
    """Nested maps as dotted keys. An empty or null section leaves nothing."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{key}."))
        else:
            flat[key] = value
    return flat


def write(path: Path, updates: Mapping[str, Any], *, mode: int = 0o600) -> None:
    """Set the dotted keys of `updates` in the file and leave everything else as it was.

    None removes a key and the sections that are empty after that. The file is replaced
    at once, so a reader sees the old or the new one; an existing file keeps its mode.

    Raises BadValue when the present file is malformed.
    """
    path = path.resolve()  # a linked file is replaced where it lives
    read(path, is_private=True)
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 4096  # a long value stays on its line
    tree = yaml.load(_text(path))
    if tree is None:
        tree = CommentedMap()
    for key, value in updates.items():
        _set(tree, key.split("."), value)
    mode = path.stat().st_mode & 0o777 if path.exists() else mode
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            yaml.dump(tree, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise BadValue(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise BadValue(f"{path} is larger than {MAX_BYTES // 1024} KiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadValue(f"{path} is not UTF-8 text") from None


def _place(error: Exception, is_private: bool) -> str:
    """Line and reason. The reason of a repeated key quotes both values, so it is replaced."""
    if not isinstance(error, MarkedYAMLError):
        return ""
    line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
    if isinstance(error, DuplicateKeyError):
        return f"{line}: the same key stands there twice"
    return line if is_private or not error.problem else f"{line}: {error.problem}"


def _set(tree: MutableMapping[str, Any], parts: list[str], value: Any) -> None:
    name, *rest = parts
    if not rest:
        if value is None:
            tree.pop(name, None)
        else:
            tree[name] = value
        return
    branch = tree.get(name)
    if not isinstance(branch, MutableMapping):
        if value is None:
            return
        branch = tree[name] = CommentedMap()
    _set(branch, rest, value)
    if value is None and not branch:
        del tree[name]
