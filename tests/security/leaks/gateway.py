"""A model gateway that says secrets: in answers, in names and arguments of calls, in errors.

`@KIND` in a script stands for the secret of that kind or group; `@escaped` in the arguments
of a call makes all of their JSON \\u escapes.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

from tests.fakes import http_server
from tests.fakes.directives import Step, newest
from tests.fakes.gateway import Answer, Gateway
from tests.fakes.http_server import Reply
from tests.security.leaks.planted import EVERYTHING, TEXTS, escaped

_MARK = re.compile(r"@(\w+)")


def told(text: str) -> str:
    """`text` with the secrets that its marks stand for; JSON text stays JSON."""
    return _MARK.sub(lambda mark: TEXTS.get(mark[1], mark[0]), text)


class LeakyGateway(Gateway):
    """The scripted gateway, with a loose tongue."""

    async def _answer(self, body: dict[str, Any], size: int, reply: Reply) -> None:
        script, _ = newest(body.get("messages", []))
        error = {"message": told(script.text), "type": "fake", "code": EVERYTHING}
        if script.fail_status == 200:
            reply.start_events()
            reply.chunk(f"data: {json.dumps({'error': error})}\n\n".encode())
            reply.end()
            return
        if script.fail_status:
            reply.json({"error": error}, script.fail_status)
            return
        await super()._answer(body, size, reply)

    def _act(self, script: Any, since: list[dict[str, Any]]) -> Answer:
        answer = super()._act(script, since)
        text = "".join(answer.pieces)
        if "@" in text:
            answer.pieces = list(_cut(told(text)))
        return answer

    def _call(self, step: Step) -> dict[str, Any]:
        call = super()._call(step)
        arguments = json.loads(step.arguments)
        secret = TEXTS.get(str(arguments.get("kind", "")))
        text = json.dumps(_told_value(arguments))
        if "@escaped" in step.arguments:
            text = escaped(_told_value(arguments))
        if step.tool == "secret_name" and secret:
            call["function"]["name"] = secret
        if step.tool == "broken_json" and secret:
            text = '{"note": ' + json.dumps(secret) + ", and then"
        call["function"]["arguments"] = text
        return call


def _told_value(value: Any) -> Any:
    if isinstance(value, str):
        return told(value)
    if isinstance(value, list):
        return [_told_value(part) for part in value]
    if isinstance(value, dict):
        return {key: _told_value(part) for key, part in value.items()}
    return value


def _cut(text: str) -> Iterator[str]:
    """Pieces of one to nine characters, so that every secret is cut in many places."""
    sizes = itertools.cycle((1, 3, 9, 2, 5))
    at = 0
    while at < len(text):
        size = next(sizes)
        yield text[at : at + size]
        at += size


@contextlib.contextmanager
def running() -> Iterator[LeakyGateway]:
    """The gateway in a thread of its own until the block ends."""
    gateway = LeakyGateway()
    with http_server.in_thread(gateway) as gateway.url:
        yield gateway
