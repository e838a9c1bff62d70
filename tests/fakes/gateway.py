"""A scripted OpenAI-compatible gateway: thinks for no time and answers the same every time.

Its language is in `tests.fakes.directives`. It runs in a thread (`running()`) or as a
process (`python -m tests.fakes.gateway --port N`). A request whose tool calls are not
each followed by one result is refused with 400, as OpenAI does.

    POST /v1/chat/completions    GET /v1/models    GET /api/tags (as Ollama)
    GET  /requests    bodies of the last chat requests, oldest first
    GET  /last-request    GET /stats    POST /stats/reset    POST /reset
    POST /texts       {"name": …, "text": …} for `stream NAME`
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import re
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.fakes import http_server
from tests.fakes.directives import Script, Step, newest, text_of, unpaired
from tests.fakes.http_server import Reply, Request

MODELS = ("fake-model", "fake-small", "fake-embed")
BURST = 32  # tokens that go out before other streams get a turn
KEPT_REQUESTS = 500
SAMPLE = """\
# A sample answer

Some **bold**, some *italic*, some `code` and a [link](https://example.org/).

1. one
2. two
   - nested

```python
def double(x: int) -> int:
    return 2 * x
```

| name | value |
|------|------:|
| pi   |  3.14 |

> quoted — ü, 漢字, 🦉
"""


@dataclass
class Answer:
    """What one request gets: pieces of text, or calls."""

    pieces: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    delay_s: float = 0.0


class Gateway:
    """The handler, with everything a test may look at."""

    def __init__(self, delay_s: float = 0.0) -> None:
        self.delay_s = delay_s
        self.url = ""
        self.texts = {"sample": SAMPLE}
        self.bodies: deque[bytes] = deque(maxlen=KEPT_REQUESTS)
        self.stats: Counter[str] = Counter()
        self.seen: Counter[tuple[str, str]] = Counter()
        self._numbers = itertools.count(1)

    @property
    def base(self) -> str:
        """What `model.api_base` should be."""
        return f"{self.url}/v1"

    @property
    def requests(self) -> list[dict[str, Any]]:
        """Bodies of the last chat requests, oldest first."""
        return [json.loads(body) for body in tuple(self.bodies)]

    def reset(self) -> None:
        """Forget requests, counters and how often something has failed."""
        self.bodies.clear()
        self.seen.clear()
        open_now = self.stats["open_requests"]
        self.stats = Counter(open_requests=open_now)

    async def __call__(self, request: Request, reply: Reply) -> None:
        path = request.path.split("?")[0].removeprefix("/v1")
        match (request.method, path):
            case ("POST", "/chat/completions"):
                await self._chat(request, reply)
            case ("GET", "/models"):
                reply.json({"object": "list", "data": [_model(name) for name in MODELS]})
            case ("GET", "/api/tags"):
                reply.json({"models": [{"name": name, "model": name} for name in MODELS]})
            case ("GET", "/requests"):
                reply.json(self.requests)
            case ("GET", "/last-request"):
                reply.json(self.requests[-1] if self.bodies else {})
            case ("GET", "/stats"):
                reply.json(self.stats)
            case ("POST", "/reset" | "/stats/reset"):
                self.reset()
                reply.json({"ok": True})
            case ("POST", "/texts"):
                self.texts[request.json()["name"]] = request.json()["text"]
                reply.json({"ok": True})
            case _:
                reply.json(_error(f"no route {request.method} {request.path}"), status=404)

    async def _chat(self, request: Request, reply: Reply) -> None:
        body = request.json()
        self.bodies.append(request.body)
        self.stats["chat_requests"] += 1
        self.stats["open_requests"] += 1
        try:
            await self._answer(body, len(request.body), reply)
        except asyncio.CancelledError:
            self.stats["hung_up"] += 1
            raise
        finally:
            self.stats["open_requests"] -= 1

    async def _answer(self, body: dict[str, Any], size: int, reply: Reply) -> None:
        messages = body.get("messages", [])
        if wrong := unpaired(messages):
            reply.json(_error(f"tool_calls without exactly one result: {wrong}"), status=400)
            return
        script, since = newest(messages)
        self.stats["unscripted_requests"] += script.is_empty
        if self._is_due("fail", script, script.fail_status, script.fail_times):
            headers = {"Retry-After": script.retry_after} if script.retry_after else None
            reply.json(_error("scripted failure"), script.fail_status, headers)
            return
        answer = self._act(script, since)
        counts = script.usage or (size // 4, len(answer.pieces) + 10 * len(answer.calls), 0)
        if not body.get("stream"):
            reply.json(_whole(body, answer, counts))
            return
        await self._stream(body, script, answer, counts, reply)

    def _is_due(self, what: str, script: Script, wanted: Any, times: int | None) -> bool:
        if not wanted:
            return False
        self.seen[what, script.text] += 1
        return times is None or self.seen[what, script.text] <= times

    def _act(self, script: Script, since: list[dict[str, Any]]) -> Answer:
        results = [message for message in since if message.get("role") == "tool"]
        done = len(results)
        for step in script.steps:
            if not step.tool:
                return Answer(self._pieces(step), delay_s=self._delay(step))
            if done < step.count and not (step.is_parallel and done):
                count = step.count if step.is_parallel else 1
                return Answer(calls=[self._call(step) for _ in range(count)])
            done = max(0, done - step.count)
        if results:
            return Answer(["done: ", text_of(results[-1].get("content"))[:200]])
        more = script.drop_after or script.hang_after or 0
        return Answer(self._pieces(Step(tokens=more + 1)) if more else ["ok"])

    def _pieces(self, step: Step) -> list[str]:
        if step.tokens:
            return [f"{number % 10000:04d} " for number in range(step.tokens)]
        if step.stream:
            text = self.texts.get(step.stream, f"no text named {step.stream}")
            return [text[at : at + 12] for at in range(0, len(text), 12)]
        return re.findall(r"\S+\s*", step.text)

    def _delay(self, step: Step) -> float:
        return self.delay_s if step.delay_s is None else step.delay_s

    def _call(self, step: Step) -> dict[str, Any]:
        self.stats["tool_calls_sent"] += 1
        return {
            "id": f"call_{next(self._numbers)}",
            "type": "function",
            "function": {"name": step.tool, "arguments": step.arguments},
        }

    async def _stream(
        self,
        body: dict[str, Any],
        script: Script,
        answer: Answer,
        counts: tuple[int, int, int],
        reply: Reply,
    ) -> None:
        stop_after = script.hang_after
        is_dropped = self._is_due("drop", script, script.drop_after is not None, script.drop_times)
        if is_dropped:
            stop_after = script.drop_after
        events = _Events(reply, str(body.get("model")))
        if stop_after != 0 or is_dropped:
            reply.start_events()
            events.delta({"role": "assistant", "content": ""})
            await self._send_pieces(events, answer.pieces[:stop_after], answer.delay_s)
        if is_dropped:
            reply.abort()
            return
        if stop_after is not None:
            await asyncio.Event().wait()
        events.calls(answer.calls)
        events.delta({}, "tool_calls" if answer.calls else "stop")
        if (body.get("stream_options") or {}).get("include_usage"):
            events.event({**events.envelope, "choices": [], "usage": _usage(counts)})
        events.done()
        await reply.writable()

    async def _send_pieces(self, events: _Events, pieces: list[str], delay_s: float) -> None:
        self.stats["tokens_sent"] += len(pieces)
        size = 1 if delay_s else BURST
        for start in range(0, len(pieces), size):
            events.texts(pieces[start : start + size])
            await events.reply.writable()
            await asyncio.sleep(delay_s)


class _Events:
    """Writes `chat.completion.chunk` events, each in an HTTP chunk of its own."""

    def __init__(self, reply: Reply, model: str) -> None:
        self.reply = reply
        self.envelope = {
            "id": "chatcmpl-fake",
            "object": "chat.completion.chunk",
            "created": 1700000000,
            "model": model,
        }
        before, after = self._delta({"content": "\0"}, None).split('"\\u0000"')
        self._before, self._after = f"data: {before}", f"{after}\n\n"

    def texts(self, pieces: list[str]) -> None:
        frames = []
        for piece in pieces:
            data = f"{self._before}{json.dumps(piece)}{self._after}".encode()
            frames.append(b"%x\r\n%s\r\n" % (len(data), data))
        self.reply.raw(b"".join(frames))

    def calls(self, calls: list[dict[str, Any]]) -> None:
        for index, call in enumerate(calls):
            function = call["function"]
            named = {**call, "index": index, "function": {**function, "arguments": ""}}
            self.delta({"tool_calls": [named]})
            arguments = {"arguments": function["arguments"]}
            self.delta({"tool_calls": [{"index": index, "function": arguments}]})

    def delta(self, delta: dict[str, Any], finish_reason: str | None = None) -> None:
        self.reply.chunk(f"data: {self._delta(delta, finish_reason)}\n\n".encode())

    def event(self, data: dict[str, Any]) -> None:
        self.reply.chunk(f"data: {json.dumps(data)}\n\n".encode())

    def done(self) -> None:
        self.reply.chunk(b"data: [DONE]\n\n")
        self.reply.end()

    def _delta(self, delta: dict[str, Any], finish_reason: str | None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return json.dumps({**self.envelope, "choices": [choice]})


def _model(name: str) -> dict[str, str]:
    return {"id": name, "object": "model", "owned_by": "fake"}


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "fake", "code": None}}


def _usage(counts: tuple[int, int, int]) -> dict[str, Any]:
    prompt, completion, cached = counts
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def _whole(body: dict[str, Any], answer: Answer, counts: tuple[int, int, int]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(answer.pieces) or None}
    if answer.calls:
        message["tool_calls"] = answer.calls
    reason = "tool_calls" if answer.calls else "stop"
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": 1700000000,
        "model": body.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": _usage(counts),
    }


@contextlib.contextmanager
def running(delay_s: float = 0.0) -> Iterator[Gateway]:
    """A gateway in a thread of its own until the block ends."""
    gateway = Gateway(delay_s)
    with http_server.in_thread(gateway) as gateway.url:
        yield gateway


async def _serve(host: str, port: int, delay_s: float) -> None:
    server = await http_server.listen(Gateway(delay_s), host, port)
    print(f"gateway on http://{host}:{http_server.port_of(server)}/v1", flush=True)
    async with server:
        await server.serve_forever()


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="A scripted OpenAI-compatible gateway.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=4000, help="0 takes a free one")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="before each token")
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(options.host, options.port, options.delay_ms / 1000))


if __name__ == "__main__":
    main()
