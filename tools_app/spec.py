"""What a tool is: a typed async function, its schema, and the port it gets."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo

from protoagent.core.errors import BadValue
from protoagent.core.text import one_line

ToolFunction = Callable[..., Awaitable[str]]


class ToolContext(Protocol):
    """What a tool body may ask of the turn that runs it.

    A parameter annotated with this type is filled by the runtime and never shown to
    the model, so that a model cannot forge who is calling.
    """

    call_id: str
    turn_id: str
    session_key: str
    agent_key: str
    origin: str

    async def ask(self, form: dict[str, Any]) -> Any:
        """Pause the turn until the operator has answered `form`, and return the answer.

        The body runs again from its first line after the pause: ask before any side
        effect. `form` has `kind` question, form or approval (spec/behaviour-tools §2.1).
        """
        ...


@dataclass(frozen=True)
class ToolSpec:
    """One tool as the registry, the boundary and every surface know it.

    `parameters` is the JSON Schema the model sees. `repeatable` means that running it
    twice does no harm, so an unfinished call is started again after a crash.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    run: ToolFunction
    arguments: TypeAdapter[Any]
    group: str
    source: str = "builtin"
    context_parameter: str = ""
    lead_only: bool = False
    repeatable: bool = False
    timeout_s: float | None = 120.0
    tags: frozenset[str] = field(default_factory=frozenset)

    @property
    def schema(self) -> dict[str, Any]:
        """The tool in the OpenAI `tools` format."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": self.parameters,
            },
        }

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments with defaults filled in and simple types converted.

        Raises BadValue with one sentence naming each wrong argument. Unknown ones are refused.
        """
        try:
            model = self.arguments.validate_python(arguments)
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, item['loc'])) or 'arguments'}: {item['msg']}"
                for item in error.errors(include_url=False, include_input=False)
            )
            raise BadValue(f"bad arguments for {self.name}: {one_line(problems, 400)}") from None
        return {name: getattr(model, name) for name in type(model).model_fields}


def tool(
    *,
    group: str,
    name: str = "",
    lead_only: bool = False,
    repeatable: bool = False,
    timeout_s: float | None = 120.0,
) -> Callable[[ToolFunction], ToolSpec]:
    """Turn a typed async function into a ToolSpec.

    The docstring's text before `Args:` is the description; the `Args:` block describes
    the parameters. The return value must be a string.
    """

    def decorate(function: ToolFunction) -> ToolSpec:
        hints = get_type_hints(function)
        summary, notes = _split_docstring(inspect.getdoc(function) or "")
        fields: dict[str, Any] = {}
        context_parameter = ""
        for parameter in inspect.signature(function).parameters.values():
            if hints.get(parameter.name) is ToolContext:
                context_parameter = parameter.name
                continue
            default = ... if parameter.default is parameter.empty else parameter.default
            info = FieldInfo(default=default, description=notes.get(parameter.name))
            fields[parameter.name] = (hints[parameter.name], info)
        tool_name = name or function.__name__
        config = ConfigDict(extra="forbid", title=tool_name, protected_namespaces=())
        adapter = TypeAdapter(create_model(tool_name, __config__=config, **fields))
        return ToolSpec(
            name=tool_name,
            description=summary,
            parameters=_tidy(adapter.json_schema()),
            run=function,
            arguments=adapter,
            group=group,
            context_parameter=context_parameter,
            lead_only=lead_only,
            repeatable=repeatable,
            timeout_s=timeout_s,
        )

    return decorate


def _split_docstring(text: str) -> tuple[str, dict[str, str]]:
    summary, _, block = text.partition("\nArgs:")
    notes: dict[str, str] = {}
    current = ""
    for line in block.splitlines():
        match = re.match(r"\s{4}(\w+):\s*(.*)", line)
        if match and not line.startswith(" " * 8):
            current = match[1]
            notes[current] = match[2]
        elif current and line.strip():
            notes[current] += " " + line.strip()
    return summary.strip(), notes


def _tidy(schema: dict[str, Any]) -> dict[str, Any]:
    """Without the titles pydantic adds: they cost tokens and say nothing."""
    schema.pop("title", None)
    for entry in schema.get("properties", {}).values():
        entry.pop("title", None)
    return schema
