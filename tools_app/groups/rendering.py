"""Showing data shapes in the transcript."""

from __future__ import annotations

from typing import Any

from tools_app import components
from tools_app.spec import tool


@tool(group="rendering", repeatable=True)
async def show_component(component: str, props: dict[str, Any], title: str = "") -> str:
    """Show structured data to the user as a widget in the chat, instead of Markdown.

    Use it for a data shape: a table, key figures, the steps of a plan. Data only; for a
    chart, a diagram or a page make an artifact.

    Args:
        component: "table", "keyvalue" or "timeline".
        props: For table {"columns": ["A", "B"], "rows": [["a1", "b1"]]}; for keyvalue
            {"items": [{"label": "Credits", "value": "183k"}]}; for timeline
            {"steps": [{"label": "Buy hauler", "state": "done|active|todo", "detail": "…"}]}.
        title: Optional heading.
    """
    shown = components.checked(component, props, title)
    return components.joined(f"Rendered a {component} component for the user. ", component, shown)


TOOLS = (show_component,)
