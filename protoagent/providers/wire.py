"""One HTTP conversation with a model server: a request out, events in, faults named."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from protoagent.core.errors import Blocked, ModelFailed
from protoagent.core.pace import pace
from protoagent.providers import pool
from protoagent.providers.faults import Faults
from protoagent.providers.sse import EventSplitter
from protoagent.security import egress

log = logging.getLogger(__name__)

MAX_WHOLE_BYTES = 16 * 1024 * 1024
MAX_ERROR_BYTES = 64 * 1024
# So long a finished answer waits for the end of its stream, which frees the connection for reuse.
END_GRACE_S = 0.2


class Receiver(Protocol):
    """Takes an answer apart. It raises ModelFailed for an error inside the stream."""

    @property
    def has_content(self) -> bool:
        """Whether some of the answer has been handed on."""

    @property
    def is_complete(self) -> bool:
        """Whether everything needed has come, even if the stream ends here."""

    def event(self, data: bytes) -> bool:
        """Take one event; True says that it was the last one."""

    def whole(self, body: dict[str, Any]) -> None:
        """Take an answer that came in one piece."""

    def ended(self) -> None:
        """The stream is over without a last event; raise when nothing useful came."""

    def flush(self) -> None:
        """Hand on what has been taken; called whenever the network has no more at once."""


class Rejected(Exception):
    """The server does not accept the request as it is (400 or 422)."""

    def __init__(self, said: str, error: ModelFailed) -> None:
        super().__init__(said)
        self.said = said
        self.error = error


@dataclass(frozen=True)
class Wire:
    """Asks one server. `base` has no slash at its end."""

    base: str
    faults: Faults
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 120.0

    async def get_json(self, path: str, timeout_s: float | None = None) -> Any:
        """The JSON body of a GET.

        Raises ModelFailed for every other outcome.
        """
        return await self._guard(self._get(path, timeout_s or self.timeout_s), None)

    async def post(self, path: str, body: dict[str, Any], receiver: Receiver) -> None:
        """Send `body` and feed the answer to `receiver` as it arrives.

        Raises Rejected when the request itself is refused, and ModelFailed otherwise.
        """
        work = FlushBeforeWait(self._post(path, encode(body), receiver), receiver.flush)
        await self._guard(work, receiver)

    async def _get(self, path: str, timeout_s: float) -> Any:
        async with self._open("GET", path, None, timeout_s) as response:
            body = await _read(response, MAX_WHOLE_BYTES)
            if response.status_code != 200:
                raise self.faults.of_status(response.status_code, body, response.headers)
            return self._json(body)

    async def _post(self, path: str, body: bytes, receiver: Receiver) -> None:
        async with self._open("POST", path, body, self.timeout_s) as response:
            if response.status_code != 200:
                await self._refuse(response)
            pieces = response.aiter_raw()
            first = b""
            if "event-stream" not in response.headers.get("content-type", ""):
                # Some servers stream under another content type, some do not stream at all.
                first = await anext(pieces, b"")
                if not first.lstrip().startswith((b"data:", b":", b"event:")):
                    whole = self._json(first + await _rest(pieces, MAX_WHOLE_BYTES))
                    receiver.whole(whole if isinstance(whole, dict) else {})
                    return
            if await self._events(pieces, first, receiver):
                return
            if not receiver.is_complete and _ends_by_closing(response):
                raise egress.HttpFailed("the end of the answer is missing")
            receiver.ended()

    @asynccontextmanager
    async def _open(
        self, method: str, path: str, body: bytes | None, timeout_s: float
    ) -> AsyncIterator[egress.Response]:
        connect_s = min(pool.CONNECT_TIMEOUT_S, timeout_s)
        async with (
            pool.lease(self.base) as http,
            http.stream(
                method,
                f"{self.base}{path}",
                content=body,
                headers=self.headers,
                timeout=(connect_s, timeout_s, timeout_s, timeout_s),
            ) as response,
        ):
            yield response

    async def _refuse(self, response: egress.Response) -> None:
        body = await _read(response, MAX_ERROR_BYTES)
        error = self.faults.of_status(response.status_code, body, response.headers)
        if response.status_code in (400, 422):
            raise Rejected(body.decode("utf-8", "replace"), error)
        raise error

    async def _events(self, pieces: AsyncIterator[bytes], first: bytes, receiver: Receiver) -> bool:
        """Whether the last event came before the stream was over."""
        splitter = EventSplitter()
        take, others = receiver.event, pace()
        for event in splitter.feed(first):
            if take(event):
                await _drain(pieces)
                return True
        async for data in pieces:
            for event in splitter.feed(data):
                if take(event):
                    await _drain(pieces)
                    return True
            if receiver.has_content:
                await others.give_way()
        # What is no JSON at the end was cut off; whether that matters the receiver knows.
        return any(is_json(event) and take(event) for event in splitter.finish())

    def _json(self, body: bytes) -> Any:
        try:
            return decode(body)
        except ValueError:
            kind = "a web page" if body.lstrip().startswith(b"<") else "something that is no JSON"
            raise ModelFailed(
                f"{self.faults.where} answers with {kind}; check model.api_base"
            ) from None

    async def _guard(self, work: Awaitable[Any], receiver: Receiver | None) -> Any:
        """Await `work` and name what the network did to it.

        What happens to the connection after a complete answer does not matter.
        """
        try:
            return await work
        except Blocked as error:
            raise ModelFailed(str(error)) from None
        except egress.HttpTimeout as error:
            reason = _silence(error, self.timeout_s)
        except egress.HttpConnectFailed as error:
            reason = f"cannot be reached ({error})" if str(error) else "cannot be reached"
        except egress.HttpFailed as error:
            reason = f"broke off the connection ({error})" if str(error) else "broke off"
        if receiver is not None and receiver.is_complete:
            log.info("model server %s after its answer", reason)
            return None
        has_content = receiver is not None and receiver.has_content
        if receiver is not None and has_content:
            receiver.flush()
        raise self.faults.of_network(self.faults.scrub(reason), has_content=has_content)


class FlushBeforeWait:
    """Awaits `work` and calls `flush` each time it is about to wait.

    HTTP libraries give one piece per HTTP chunk, so one per token, although hundreds of
    them come with one read. What is collected until the loop must wait belongs together.
    """

    def __init__(self, work: Awaitable[Any], flush: Callable[[], None]) -> None:
        self._work = work
        self._flush = flush

    def __await__(self) -> Generator[Any, Any, Any]:
        work: Any = self._work.__await__()
        step, argument = work.send, None
        while True:
            try:
                waits_for = step(argument)
            except StopIteration as done:
                return done.value
            self._flush()
            try:
                argument, step = (yield waits_for), work.send
            except BaseException as error:  # noqa: BLE001 — a cancellation belongs to `work`
                argument, step = error, work.throw


def encode(body: Any) -> bytes:
    """`body` as JSON. What orjson refuses (lone surrogates, huge numbers) goes the slow way."""
    try:
        return orjson.dumps(body)
    except TypeError:
        return json.dumps(body).encode()


def decode(data: bytes) -> Any:
    """The value of JSON text, also with NaN or broken UTF-8 in it.

    Raises ValueError when it is no JSON.
    """
    try:
        return orjson.loads(data)
    except ValueError:
        return json.loads(data.decode("utf-8", "replace"))


def is_json(data: bytes) -> bool:
    """Whether `data` is whole; the end mark of OpenAI streams counts."""
    if data.strip() == b"[DONE]":
        return True
    try:
        decode(data)
    except ValueError:
        return False
    return True


def _ends_by_closing(response: egress.Response) -> bool:
    """Whether the end of the body and a lost connection look the same."""
    return not {"transfer-encoding", "content-length"} & set(response.headers)


async def _read(response: egress.Response, max_bytes: int) -> bytes:
    return await _rest(response.aiter_raw(), max_bytes)


async def _rest(pieces: AsyncIterator[bytes], max_bytes: int) -> bytes:
    found = bytearray()
    async for piece in pieces:
        found += piece
        if len(found) > max_bytes:
            break
    return bytes(found[:max_bytes])


async def _drain(pieces: AsyncIterator[bytes]) -> None:
    try:
        async with asyncio.timeout(END_GRACE_S):
            async for _ in pieces:
                pass
    except (TimeoutError, egress.HttpFailed):
        return


def _silence(error: Exception, timeout_s: float) -> str:
    if "Connect" in type(error).__name__:
        return "cannot be reached (no answer to the connection attempt)"
    return f"sent nothing for {timeout_s:g} s"
