"""Temporary stand-in; the tools helper replaces this file."""

from datetime import UTC, datetime

from tools_app.spec import tool


@tool(group="general", repeatable=True)
async def current_time(timezone: str = "UTC") -> str:
    """Current time."""
    return datetime.now(UTC).isoformat()


TOOLS = (current_time,)
