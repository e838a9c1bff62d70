"""Rendering: data as a widget in the chat instead of a Markdown blob."""

from __future__ import annotations

from typing import Any

from tools_app import components
from tools_app.spec import tool


@tool(group="rendering", repeatable=True)
async def show_component(component: str, props: dict[str, Any], title: str = "") -> str:
    """Render structured data as a typed widget inline in the chat instead of a Markdown blob.

    Use it for a data shape: a table, key figures, steps. Data only, no code runs.

    Args:
        component: "table", "keyvalue" or "timeline".
        props: table: {"columns": ["A", "B"], "rows": [["a1", "b1"], ...]}.
            keyvalue: {"items": [{"label": "Credits", "value": "183k"}, ...]}.
            timeline: {"steps": [{"label": "Buy", "state": "done|active|todo", "detail": "..."}]}.
        title: Optional heading.
    """
    return components.pack(component, components.check_props(component, props, title))


TOOLS = (show_component,)
