"""Which tools exist here: five sources in their order, then the sweep of the switched-off ones."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from protoagent.config import services as config
from protoagent.core import extensions
from tools_app.sources import core
from tools_app.spec import ToolSpec

log = logging.getLogger(__name__)

ToolSource = Callable[[], Iterable[ToolSpec]]
SOURCE_ORDER = ("core", "plugins", "delegation", "filesystem", "mcp")


@dataclass(frozen=True)
class ToolSet:
    """The tools that one agent has now. `schemas` is what a model sees, in a stable order."""

    specs: dict[str, ToolSpec]
    schemas: tuple[dict[str, Any], ...]
    disabled: tuple[str, ...] = ()

    def get(self, name: str) -> ToolSpec | None:
        return self.specs.get(name)


_cache: dict[tuple[Any, ...], ToolSet] = {}


def assemble(*, allow: Iterable[str] = (), deny: Iterable[str] = ()) -> ToolSet:
    """The tool set after every sweep; the same object until something it depends on changes.

    The first source that names a tool wins; a later one with the same name is left out
    and logged, so that no plugin or server can stand in for a core tool.
    """
    key = (extensions.version(), config.version(), frozenset(allow), frozenset(deny))
    if key not in _cache:
        if len(_cache) > 32:
            _cache.clear()
        _cache[key] = _build(frozenset(allow), frozenset(deny))
    return _cache[key]


def all_tools() -> list[ToolSpec]:
    """Every tool of every source before any sweep, in the order of the sources."""
    sources: dict[str, ToolSource] = {"core": core.tools, **extensions.registered("tool_sources")}
    specs: dict[str, ToolSpec] = {}
    for name in SOURCE_ORDER:
        for spec in sources[name]() if name in sources else ():
            if spec.name in specs:
                log.warning("tool %s of %s is left out: the name is taken", spec.name, name)
                continue
            specs[spec.name] = spec
    return list(specs.values())


def _build(allow: frozenset[str], deny: frozenset[str]) -> ToolSet:
    off = {str(name) for key in ("tools.disabled", "tools.hidden") for name in config.get(key)}
    specs = {
        spec.name: spec
        for spec in all_tools()
        if spec.name not in off and spec.name not in deny and (not allow or spec.name in allow)
    }
    disabled = tuple(str(name) for name in config.get("tools.disabled"))
    return ToolSet(specs, tuple(spec.schema for spec in specs.values()), disabled)
