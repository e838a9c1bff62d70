"""The tools that ship with the product."""

from __future__ import annotations

from tools_app.groups import general, operator, rendering
from tools_app.spec import ToolSpec


def tools() -> list[ToolSpec]:
    """Every core tool, in the order of the reference."""
    return [*general.TOOLS, *operator.TOOLS, *rendering.TOOLS]
