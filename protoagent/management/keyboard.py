"""Cards on a terminal: a question, an approval or a form, asked line by line."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from protoagent.core.text import reveal_hidden
from tools_app import forms
from tools_app.forms import Field, Option

Say = Callable[[str], None]
YES = {"y": True, "yes": True, "n": False, "no": False}


class Closed(Exception):
    """The operator closed the input (Ctrl-D): what is asked stays open."""


class Keyboard:
    """Asks on the terminal without blocking the event loop, so that Ctrl-C still works."""

    def __init__(self, say: Say) -> None:
        self._say = say

    async def answer(self, card: dict[str, Any], errors: dict[str, str]) -> Any:
        """The operator's answer to an `input.required` event's data.

        With `errors` only the fields named there are asked again. Raises Closed.
        """
        if card["kind"] == "question":
            self._say(f"? {reveal_hidden(card['question'])}")
            return await self._line("> ")
        if card["kind"] == "approval":
            return await self._approval(card)
        return await self._form(card, errors)

    async def _approval(self, card: dict[str, Any]) -> str:
        self._say(f"? {reveal_hidden(card['title'])}")
        if card.get("detail"):
            self._say(reveal_hidden(card["detail"]))
        answer = await self._line("approve? [y/N] ")
        return "approved" if YES.get(answer.lower()) else "denied"

    async def _form(self, card: dict[str, Any], errors: dict[str, str]) -> dict[str, Any]:
        if not errors:
            self._given: dict[str, Any] = {}
            self._say(f"? {reveal_hidden(card['title'])}")
        for step in forms.normalise(card["steps"]):
            for one in step.fields:
                is_asked = one.name in errors if errors else True
                if is_asked and forms.is_shown(one, self._given):
                    await self._field(one, errors.get(one.name, ""))
        return dict(self._given)

    async def _field(self, one: Field, error: str) -> None:
        if error:
            self._say(f"  ✗ {error}")
        if one.description:
            self._say(f"  {reveal_hidden(one.description)}")
        for number, option in enumerate(one.options, 1):
            self._say(f"    {number}  {reveal_hidden(option.label)}")
        hint = _hint(one)
        text = await self._line(f"  {reveal_hidden(one.label)}{hint}: ")
        if text:
            self._given[one.name] = _value(one, text)
        elif one.has_default:
            self._given[one.name] = one.default
        else:
            self._given.pop(one.name, None)

    async def _line(self, prompt: str) -> str:
        sys.stderr.write(prompt)
        sys.stderr.flush()
        loop = asyncio.get_running_loop()
        got: asyncio.Future[str] = loop.create_future()

        def read() -> None:
            if not got.done():
                got.set_result(sys.stdin.readline())

        loop.add_reader(sys.stdin, read)
        try:
            line = await got
        finally:
            loop.remove_reader(sys.stdin)
        if not line:
            raise Closed
        return line.strip()


def _hint(one: Field) -> str:
    if one.kind == "array":
        return " (numbers, with commas)"
    if one.options:
        return " (number)"
    if one.kind == "boolean":
        return " [y/n]"
    if one.has_default:
        return f" [{one.default}]"
    return "" if one.required else " (optional)"


def _value(one: Field, text: str) -> Any:
    """What was typed, as the form wants it; the form itself says what is wrong with it."""
    if one.kind == "array":
        return [_choice(one.options, part.strip()) for part in text.split(",") if part.strip()]
    if one.options:
        return _choice(one.options, text)
    if one.kind == "boolean":
        return YES.get(text.lower(), text)
    return text


def _choice(options: tuple[Option, ...], text: str) -> Any:
    if text.isdecimal() and 1 <= int(text) <= len(options):
        return options[int(text) - 1].value
    return next((one.value for one in options if one.label.lower() == text.lower()), text)
