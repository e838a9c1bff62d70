"""Temporary stand-in; the tools helper replaces this file."""

from tools_app.spec import ToolContext, tool


@tool(group="operator", lead_only=True, timeout_s=None)
async def ask_human(ctx: ToolContext, question: str) -> str:
    """Ask the operator."""
    return str(await ctx.ask({"kind": "question", "question": question}))


TOOLS = (ask_human,)
