"""Two ways to have one turn, alike to those who measure: through the product, and without it."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx
import websockets
from websockets.asyncio.client import ClientConnection, connect

TURN_LIMIT_S = 60.0


@dataclass
class Turn:
    """What one turn gave; times in seconds since the message left."""

    started: float
    text: str = ""
    first_text_s: float = 0.0
    total_s: float = 0.0
    frames: int = 0
    error: str = ""

    @property
    def is_good(self) -> bool:
        """Whether it ended well and said something."""
        return bool(self.text) and not self.error

    def add(self, text: str) -> None:
        """A piece of the answer has arrived."""
        if text and not self.text:
            self.first_text_s = time.perf_counter() - self.started
        self.text += text


class Driver:
    """Has one turn at a time; a failed turn is a result, not an exception."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Leave nothing open."""

    async def turn(self, message: str, session: str) -> Turn:
        """Send `message` and wait for the end of its turn, at most a minute."""
        turn = Turn(time.perf_counter())
        try:
            async with asyncio.timeout(TURN_LIMIT_S):
                await self.run(turn, message, session)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            turn.error = f"{type(error).__name__}: {error}"
        except (httpx.HTTPError, websockets.WebSocketException) as error:
            turn.error = f"{type(error).__name__}: {error}"
        turn.total_s = time.perf_counter() - turn.started
        return turn

    async def run(self, turn: Turn, message: str, session: str) -> None:
        """Fill `turn`; raise for a turn that fails."""
        raise NotImplementedError


class ChatDriver(Driver):
    """The product's `/ws/chat/<session>/`: one socket a session, kept while it is the same."""

    def __init__(self, url: str, token: str) -> None:
        self._url = f"{url.replace('http', 'ws', 1)}/ws/chat"
        self._headers = {"Authorization": f"Bearer {token}"}
        self._socket: ClientConnection | None = None
        self._session = ""

    async def close(self) -> None:
        if self._socket is not None:
            await self._socket.close()
            self._socket = None

    async def run(self, turn: Turn, message: str, session: str) -> None:
        socket = await self._open(session)
        frame = {"type": "message", "text": message, "client_id": uuid.uuid4().hex}
        # Whoever types a message has had the socket open for a while.
        turn.started = time.perf_counter()
        await socket.send(json.dumps(frame))
        async for received in socket:
            turn.frames += 1
            if self._take(turn, json.loads(received)):
                return
        raise RuntimeError("the socket closed before the turn ended")

    async def _open(self, session: str) -> ClientConnection:
        if self._socket is None or self._session != session:
            await self.close()
            self._socket = await connect(
                f"{self._url}/{session}/",
                additional_headers=self._headers,
                max_size=None,
                proxy=None,
            )
            self._session = session
        return self._socket

    def _take(self, turn: Turn, event: dict[str, Any]) -> bool:
        """Whether this event ends the turn."""
        kind, data = event["type"], event.get("data", {})
        if kind == "text.delta":
            turn.add(data["text"])
        elif kind == "error":
            raise RuntimeError(event["message"])
        elif kind == "turn.finished":
            if data["status"] != "completed":
                raise RuntimeError(f"{data['status']}: {data.get('error')}")
            if data["text"] != turn.text:
                raise RuntimeError("the deltas are not the answer")
            return True
        return False


class GatewayDriver(Driver):
    """No product at all: asks the gateway and answers its tool calls at once.

    Nothing that stands between a user and the gateway can be faster than this.
    """

    def __init__(self, base: str) -> None:
        # Loading the certificates of a connection that has none takes many milliseconds.
        self._http = httpx.AsyncClient(
            base_url=base, timeout=TURN_LIMIT_S, verify=False, trust_env=False
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def run(self, turn: Turn, message: str, session: str) -> None:
        messages: list[dict[str, Any]] = [{"role": "user", "content": message}]
        while calls := await self._ask(turn, messages):
            messages.append({"role": "assistant", "content": None, "tool_calls": calls})
            messages += [
                {"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in calls
            ]

    async def _ask(self, turn: Turn, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The calls that the model wants; text goes into `turn`."""
        calls: dict[int, dict[str, Any]] = {}
        async for event in self._events({"model": "x", "stream": True, "messages": messages}):
            turn.frames += 1
            for choice in event["choices"]:
                turn.add(choice["delta"].get("content") or "")
                for part in choice["delta"].get("tool_calls") or ():
                    known = calls.setdefault(part["index"], part)
                    if known is not part:
                        known["function"]["arguments"] += part["function"]["arguments"]
        return list(calls.values())

    async def _events(self, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        async with self._http.stream("POST", "/chat/completions", json=body) as response:
            response.raise_for_status()
            rest = b""
            async for piece in response.aiter_raw():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line.startswith(b"data: {"):
                        yield json.loads(line[6:])
