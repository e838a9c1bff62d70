"""Tools whose side effect is a line in a file of the instance, one at the start and one at the end.

Each line is one `write` to a file opened for appending, so that a killed process leaves
whole lines only.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from django.apps import AppConfig

from protoagent.config import paths
from protoagent.core import extensions
from tools_app.spec import ToolContext, tool

FILE = "side-effects.jsonl"


def _append(mark: str, tool_name: str, ctx: ToolContext) -> None:
    entry = {
        "mark": mark,
        "tool": tool_name,
        "turn": ctx.turn_id,
        "call": ctx.call_id,
        "session": ctx.session_key,
        "at": time.time(),
    }
    file = os.open(paths.home() / FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, (json.dumps(entry) + "\n").encode())
    finally:
        os.close(file)


def side_effects(home: Path) -> list[dict[str, Any]]:
    """What the tools have done so far, in order."""
    file = home / FILE
    lines = file.read_text().splitlines() if file.exists() else []
    return [json.loads(line) for line in lines]


@tool(group="test")
async def pay(ctx: ToolContext, seconds: float = 0.05) -> str:
    """Do something that must not happen twice."""
    _append("begin", "pay", ctx)
    await asyncio.sleep(seconds)
    _append("end", "pay", ctx)
    return "paid"


@tool(group="test", repeatable=True)
async def look(ctx: ToolContext, seconds: float = 0.05) -> str:
    """Do something that may happen twice."""
    _append("begin", "look", ctx)
    await asyncio.sleep(seconds)
    _append("end", "look", ctx)
    return "seen"


@tool(group="test", repeatable=True)
async def explode(ctx: ToolContext) -> str:
    """End the process that runs this, as a crash of native code does."""
    _append("begin", "explode", ctx)
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@tool(group="test")
async def doze(seconds: float = 60) -> str:
    """Sleep."""
    await asyncio.sleep(seconds)
    return "slept"


class CrashTools(AppConfig):
    """Registers the tools in every process of the server."""

    name = "tests.process"
    label = "crash_tools"

    def ready(self) -> None:
        extensions.register("tool_sources", "plugins", lambda: (pay, look, explode, doze))
