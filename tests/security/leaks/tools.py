"""Tools that hand out secrets in every way in which a tool can say something."""

from __future__ import annotations

import json
import logging

from protoagent.core.errors import BadValue
from tests.security.leaks.planted import TEXTS, escaped
from tools_app.components import MARKER
from tools_app.spec import ToolContext, tool

log = logging.getLogger(__name__)


@tool(group="test")
async def leak_output(kind: str, note: str = "") -> str:
    """Answer with a secret."""
    log.warning("tool leaks %s", TEXTS[kind])
    return f"{TEXTS[kind]}\n{json.dumps({'value': TEXTS[kind]})}"


@tool(group="test")
async def leak_long_output(kind: str) -> str:
    """Answer with a secret that stands across the end of the preview."""
    return "x" * 780 + " " + TEXTS[kind]


@tool(group="test")
async def leak_refusal(kind: str) -> str:
    """Refuse, naming a secret."""
    raise BadValue(f"cannot use {TEXTS[kind]}")


@tool(group="test")
async def leak_crash(kind: str) -> str:
    """Break, with a secret in the exception."""
    raise RuntimeError(f"connection to {TEXTS[kind]} failed")


@tool(group="rendering")
async def leak_component(kind: str) -> str:
    """Show a component that holds a secret, in JSON with every character escaped."""
    text = TEXTS[kind]
    props = {"title": text, "items": [{"label": text, "value": text}, {"label": "ok", "value": 1}]}
    data = {"component": "keyvalue", "props": props}
    return f"Shown. {MARKER}{escaped(data)}"


@tool(group="test")
async def leak_approval(kind: str, ctx: ToolContext) -> str:
    """Ask for approval of something with a secret in it."""
    text = TEXTS[kind]
    answer = await ctx.ask(
        {"kind": "approval", "title": text, "detail": text, "options": ["approve", "deny"]}
    )
    return f"the answer was {answer}"


@tool(group="test")
async def repeat(text: str) -> str:
    """Say it again."""
    return text


@tool(group="test")
async def ask_approval(title: str, detail: str, ctx: ToolContext) -> str:
    """Ask for approval."""
    return str(await ctx.ask({"kind": "approval", "title": title, "detail": detail}))


TOOLS = (
    repeat,
    ask_approval,
    leak_output,
    leak_long_output,
    leak_refusal,
    leak_crash,
    leak_component,
    leak_approval,
)
