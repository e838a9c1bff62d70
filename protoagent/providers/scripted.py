"""The offline model: built in, deterministic, without a network.

It makes every surface usable before a model is connected, and says that it is no model.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from protoagent.core import ids
from protoagent.core.text import truncate
from protoagent.providers.base import CallRequest, ModelReply, ModelRequest, ModelSink, Usage
from protoagent.providers.phrases import Wish, understand

MAX_RESULT_CHARS = 4000
_WORDS_AT_ONCE = 50  # then other tasks of the loop get a turn

_EXAMPLES = {
    "current_time": "“What time is it in Tokyo?”",
    "calculator": "“What is 2 ** 10?” or “12% of 80”",
    "memory_ingest": "“Remember that the key is under the mat”",
    "memory_recall": "“What do you know about the key?”",
    "schedule_task": "“Remind me to stretch in 20 minutes”",
    "task_create": "“Add a task to water the plants”",
    "task_list": "“List my tasks”",
    "web_search": "“Search for the tallest tree”",
    "fetch_url": "“Read https://example.org”",
    "ask_human": "“Ask me what my name is”",
}
_ATTACHED = re.compile(r"^\[(?:attached (?:file|image): |image )", re.MULTILINE)
_CONNECT = """\
To connect a model, do one of these; none needs a restart except the environment:

- any OpenAI-compatible gateway: `model.api_base` and `model.name` in `config.yaml`, or \
`PROTOAGENT__MODEL__API_BASE` in the environment
- OpenAI or Anthropic: `OPENAI_API_KEY` or `ANTHROPIC_API_KEY` in the environment
- Ollama on this machine: `model.provider: ollama` in `config.yaml`"""


class OfflineModel:
    """Answers a few plain requests through the tools that a request offers."""

    provider = "offline"
    name = "offline"
    label = "Offline (built in, no model connected)"

    async def complete(self, request: ModelRequest, sink: ModelSink) -> ModelReply:
        """Ask for a tool, tell what a tool answered, or explain how to connect a model."""
        text, wishes = _decide(request)
        sink.alive()
        for number, word in enumerate(re.findall(r"\s*\S+\s*", text), 1):
            sink.text(word)
            if number % _WORDS_AT_ONCE == 0:
                await asyncio.sleep(0)
        calls = tuple(
            CallRequest(ids.new_id("call_"), wish.tool, json.dumps(wish.arguments))
            for wish in wishes
        )
        return ModelReply(
            text=text,
            calls=calls,
            usage=Usage(_tokens(json.dumps(request.messages, default=str)), _tokens(text)),
            finish_reason="tool_calls" if calls else "stop",
            model=self.name,
        )

    async def list_models(self, timeout_s: float | None = None) -> list[str]:
        """Only this one."""
        return [self.name]


def _decide(request: ModelRequest) -> tuple[str, list[Wish]]:
    """The text of the answer, or the tools to ask for."""
    results = _results(request.messages)
    if results:
        return "\n\n".join(_tell(name, result) for name, result in results), []
    offered = {tool["function"]["name"] for tool in request.tools}
    wishes = understand(_newest_text(request.messages), offered)
    problems = [wish.problem for wish in wishes if wish.problem]
    if problems:
        # Nothing runs when a part is unclear: half of what was asked is not what was asked.
        return " ".join(dict.fromkeys(problems)) + "\n\n" + _help(offered), []
    return ("", wishes) if wishes else (_help(offered), [])


def _results(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Tool and result of each call since the newest request, when that is what comes last."""
    names: dict[str, str] = {}
    found: list[tuple[str, str]] = []
    for message in messages:
        if message["role"] == "user":
            if not _is_injected(_text(message)):
                found = []
        elif message["role"] == "assistant":
            calls = message.get("tool_calls") or ()
            names.update((call["id"], call["function"]["name"]) for call in calls)
            found = []
        elif message["role"] == "tool":
            found.append((names.get(message.get("tool_call_id", ""), "tool"), _text(message)))
    return found


def _newest_text(messages: list[dict[str, Any]]) -> str:
    """What a person asked last, without the line that marks a message sent meanwhile.

    Attached files stand below it and are no requests.
    """
    texts = (_text(message) for message in reversed(messages) if message["role"] == "user")
    newest = next((text for text in texts if not _is_injected(text)), "")
    asked = _ATTACHED.split(newest, maxsplit=1)[0]
    return re.sub(r"\A\[[^\]\n]*\]\n", "", asked)


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = (str(part.get("text") or "") for part in content or () if isinstance(part, dict))
    return "\n".join(parts)


def _is_injected(text: str) -> bool:
    """Whether a user message is a frame of the runtime: <injected_context> or a [notice]."""
    if text.startswith("[notice]"):
        return True
    match = re.match(r"\s*<([a-z_-]+)>", text)
    return match is not None and text.rstrip().endswith(f"</{match[1]}>")


def _tell(tool: str, result: str) -> str:
    """A sentence that holds the result."""
    result = truncate(result.strip(), MAX_RESULT_CHARS)
    if trouble := _trouble(tool, result):
        return trouble
    if tool == "calculator":
        return f"{result}."
    if tool == "current_time" and (match := re.search(r"^Human: (.+)$", result, re.MULTILINE)):
        zone = re.search(r"\(([^)]+)\)\s*$", result.splitlines()[0])
        return f"It is {match[1]}{f' ({zone[1]})' if zone else ''}."
    if tool in ("ask_human", "request_user_input"):
        return f"You answered: {result}"
    if "\n" in result:
        return f"`{tool}` answered:\n\n{result}"
    return f"`{tool}` answered: {result or '(nothing)'}"


def _trouble(tool: str, result: str) -> str:
    """What kept the tool from answering; blank when it has answered."""
    if "outcome unknown" in result[:200]:
        return f"The call of `{tool}` was interrupted; whether it had an effect is not known."
    if result.startswith("Error"):
        return f"`{tool}` failed: {result.removeprefix('Error: ').removeprefix('Error')}"
    if result.startswith(("[dismissed]", "Dismissed")):
        return "You closed the question without an answer, so I leave it at that."
    if result.startswith("[no interactive operator"):
        return "Nobody is there to answer, so I leave it at that."
    if result.startswith("Cancelled"):
        return f"The call of `{tool}` was cancelled."
    if len(result) < 400 and re.search(r"\bdeclined\b", result, re.IGNORECASE):
        return f"You declined `{tool}`, so it did not run."
    return ""


def _help(offered: set[str]) -> str:
    lines = [f"- {example}" for tool, example in _EXAMPLES.items() if tool in offered]
    if offered:
        lines.append("- `/tool NAME {json}` calls any tool; several lines call several at once")
    understood = "\n".join(lines) or "- nothing here: no tool is offered"
    return (
        "No model is connected. I am the offline model that is built in, and understand only a "
        f"few plain requests:\n\n{understood}\n\n{_CONNECT}"
    )


def _tokens(text: str) -> int:
    """Roughly, by the usual four characters."""
    return len(text) // 4
