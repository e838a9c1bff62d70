"""Asking the operator. The turn waits, for days if need be, and goes on with the answer."""

from __future__ import annotations

import json
from typing import Any

from protoagent.core.errors import BadValue
from tools_app import forms
from tools_app.spec import ToolContext, tool


@tool(group="operator", lead_only=True, timeout_s=None)
async def ask_human(question: str, ctx: ToolContext) -> str:
    """Ask the operator one question and wait for the answer.

    The turn pauses until then. Use it for a decision you really must wait for, never to
    tell something. When nobody is there you are told so: go on with a stated assumption.

    Args:
        question: The question, in Markdown; say what you need to know and why.
    """
    if not question.strip():
        raise BadValue("question must not be empty")
    return _as_text(await ctx.ask({"kind": "question", "question": question}))


@tool(group="operator", lead_only=True, timeout_s=None)
async def request_user_input(
    title: str, steps: list[dict[str, Any]], ctx: ToolContext, description: str = ""
) -> str:
    """Ask the operator for structured input with a form, and get the fields as a JSON object.

    More than one step makes a wizard with Back and Next; all answers come together. For
    one free-text or yes/no question use ask_human.

    Args:
        title: Heading of the form.
        steps: One to eight steps, each {"schema": <JSON Schema draft-07>, "title"?: str,
            "description"?: str}. In schema.properties use {"type": "string" | "number" |
            "integer" | "boolean"}, with "format": "textarea" for several lines, "enum":
            [...] for a dropdown, "oneOf": [{"const": "pg", "title": "Postgres",
            "description": "…"}] for single-choice cards, and {"type": "array", "items":
            {"oneOf": [...]}} for multiple choice. "required": [...] names the fields that
            must be answered; "default" prefills one; "showWhen": {"field": "x", "equals":
            "y"} asks one only then.
        description: What the form is for, in Markdown.
    """
    form = {
        "kind": "form",
        "title": title.strip() or "Input needed",
        "steps": forms.check_steps(steps),
        "description": description,
    }
    return _as_text(await ctx.ask(form))


def _as_text(answer: Any) -> str:
    if isinstance(answer, str):
        return answer
    return json.dumps(answer, ensure_ascii=False, default=str)


TOOLS = (ask_human, request_user_input)
