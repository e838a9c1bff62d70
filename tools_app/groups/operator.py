"""Asking the operator: both tools pause the turn and go on with the answer."""

from __future__ import annotations

import json
from typing import Any

from protoagent.core.errors import BadValue
from tools_app import forms
from tools_app.spec import ToolContext, tool

MAX_QUESTION_CHARS = 8_000


@tool(group="operator", lead_only=True, repeatable=True, timeout_s=None)
async def ask_human(ctx: ToolContext, question: str) -> str:
    """Pause the turn, ask the operator one question and continue with the answer.

    Use it for a decision you genuinely must wait for, never for narration. On a turn that
    nobody watches you get a notice instead of an answer: state your assumption and go on.

    Args:
        question: One question, in Markdown.
    """
    if not question.strip():
        raise BadValue("the question is empty")
    if len(question) > MAX_QUESTION_CHARS:
        raise BadValue(f"a question has at most {MAX_QUESTION_CHARS:,} characters")
    return str(await ctx.ask({"kind": "question", "question": question}))


@tool(group="operator", lead_only=True, repeatable=True, timeout_s=None)
async def request_user_input(
    ctx: ToolContext, title: str, steps: list[dict[str, Any]], description: str = ""
) -> str:
    """Ask for structured input through a form and continue with the answers as a JSON object.

    More than one step becomes a Back/Next wizard; the last step submits all answers
    together. For one free-text or yes/no question use ask_human.

    Args:
        title: What the form is about, a few words.
        steps: At least one of {"schema": JSON Schema draft-07 of the step's fields, "title"?,
            "description"?}. Fields: {"type": "string"|"number"|"integer"|"boolean"}, with
            "format": "textarea" for several lines; single-choice cards {"type": "string",
            "oneOf": [{"const": "pg", "title": "Postgres", "description": "..."}]}, a bare
            "enum" is a dropdown; several choices {"type": "array", "items": {"oneOf": [...]}}.
            Mark required fields with the schema's "required": [...]; "default" prefills one;
            "showWhen": {"field": "x", "equals": "y"} asks one only then.
        description: Optional introduction, in Markdown.
    """
    payload = {
        "kind": "form",
        "title": title.strip()[:200] or "Input required",
        "description": description[:MAX_QUESTION_CHARS],
        "steps": forms.check_steps(steps),
    }
    answer = await ctx.ask(payload)
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


TOOLS = (ask_human, request_user_input)
