"""A program that talks to a server over `/ws/chat/`, as a client author would write it.

It is strict: an event whose number is not the next one fails the test at once.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection, connect

from tests.services.servers import Server

Frame = dict[str, Any]
ENDED = ("completed", "stopped", "failed", "interrupted")
PATIENCE_S = 30.0
_marks = itertools.count(1)


class ChatSocket:
    """One connection. `events` are the journal's frames in order, `others` all the rest."""

    def __init__(
        self,
        server: Server,
        key: str,
        *,
        after: int | str | None = None,
        token: str = "",
        headers: dict[str, str] | None = None,
        **options: Any,
    ) -> None:
        query = "" if after is None else f"?after={after}"
        self.url = f"ws://127.0.0.1:{server.port}/ws/chat/{key}/{query}"
        self.events: list[Frame] = []
        self.others: list[Frame] = []
        self._ending = contextlib.ExitStack()
        opening = connect(
            self.url,
            additional_headers=headers or {"Authorization": f"Bearer {token or server.token}"},
            max_size=None,
            proxy=None,
            open_timeout=20,
            close_timeout=2,  # who has left frames unread waits for the whole of it
            **options,
        )
        self.wire: ClientConnection = self._ending.enter_context(opening)
        self._next: int | None = None
        if isinstance(after, int):
            self._next = after + 1

    def __enter__(self) -> ChatSocket:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Go away in an orderly manner; a second call does nothing."""
        self._ending.close()

    def vanish(self) -> None:
        """Go away as a crashed browser does: no closing handshake."""
        self.wire.socket.shutdown(socket.SHUT_RDWR)

    @property
    def close_code(self) -> int | None:
        """How the server has closed, once it has."""
        return self.wire.close_code

    @property
    def last_seq(self) -> int:
        """The newest event that this client has seen, or was told of by `hello`."""
        if self.events:
            return int(self.events[-1]["seq"])
        return 0 if self._next is None else self._next - 1

    def send(self, kind: str, **fields: Any) -> None:
        """One client frame."""
        self.raw(json.dumps({"type": kind, **fields}))

    def raw(self, data: str | bytes) -> None:
        """Anything, as a text or a binary frame; half a surrogate pair is no UTF-8 then."""
        if isinstance(data, str):
            self.wire.send(data.encode("utf-8", "surrogatepass"), text=True)
        else:
            self.wire.send(data)

    def receive(self, timeout: float = PATIENCE_S) -> Frame:
        """The next frame. Raises TimeoutError, and ConnectionClosed when the socket is closed."""
        frame: Frame = json.loads(self.wire.recv(timeout))
        self._take(frame)
        return frame

    def _take(self, frame: Frame) -> None:
        if "seq" not in frame:
            self.others.append(frame)
            if frame["type"] == "hello" and self._next is None:
                self._next = frame["last_seq"] + 1
            return
        if self._next is not None:
            assert frame["seq"] == self._next, f"event {frame['seq']} instead of {self._next}"
        self._next = frame["seq"] + 1
        self.events.append(frame)

    def until(
        self, kind: str, timeout: float = PATIENCE_S, /, *, where: Any = None, **data: Any
    ) -> Frame:
        """The next frame of this type with these `data` (or top-level) values."""
        give_up_at = time.monotonic() + timeout
        while True:
            left = give_up_at - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no {kind} {data}; the last were {self.events[-5:]}")
            frame = self.receive(left)
            if frame["type"] == kind and _fits(frame, data) and (not where or where(frame)):
                return frame

    def ended(self, status: str = "completed", timeout: float = PATIENCE_S) -> Frame:
        """The next real end of a turn, which must have this status."""
        frame = self.until(
            "turn.finished", timeout, where=lambda found: found["data"]["status"] in ENDED
        )
        assert frame["data"]["status"] == status, frame
        return frame

    def ask(self, text: str, *, timeout: float = PATIENCE_S, **fields: Any) -> str:
        """Send a message and wait for the whole answer to it."""
        self.send("message", text=text, **fields)
        return str(self.ended(timeout=timeout)["data"]["text"])

    def settle(self, timeout: float = PATIENCE_S) -> list[Frame]:
        """What has come until the server has dealt with everything sent before.

        A frame of an unknown type marks the place: its error names it.
        """
        mark = f"settle-{next(_marks)}"
        self.send("mark", client_id=mark)
        frames: list[Frame] = []
        give_up_at = time.monotonic() + timeout
        while not frames or frames[-1].get("client_id") != mark:
            frames.append(self.receive(max(0.0, give_up_at - time.monotonic())))
        return frames[:-1] if self.others.pop() is frames[-1] else frames

    def catch_up(self, seq: int, timeout: float = PATIENCE_S) -> list[Frame]:
        """All events of this socket, once the one numbered `seq` is among them."""
        give_up_at = time.monotonic() + timeout
        while self.last_seq < seq:
            self.receive(max(0.0, give_up_at - time.monotonic()))
        return self.events

    def drain(self) -> None:
        """Read until the server closes the connection."""
        try:
            while True:
                self.receive()
        except ConnectionClosed:
            return

    def types(self) -> list[str]:
        """The types of all events so far."""
        return [event["type"] for event in self.events]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The data of all events of one type."""
        return [event["data"] for event in self.events if event["type"] == kind]


def _fits(frame: Frame, wanted: dict[str, Any]) -> bool:
    data = frame.get("data", frame)
    return all(data.get(name) == value for name, value in wanted.items())


def answer_of(events: Iterable[Frame], turn: str) -> str:
    """The text of a turn's answer, put together from its deltas as contract §3 says.

    After a crash `rewind_to` voids the deltas above it; they are written again.
    """
    deltas: list[tuple[int, str]] = []
    for event in events:
        if event["turn"] != turn:
            continue
        if event["type"] == "text.delta":
            deltas.append((event["seq"], event["data"]["text"]))
        elif event["type"] == "turn.started" and "rewind_to" in event["data"]:
            kept = event["data"]["rewind_to"]
            deltas = [(seq, text) for seq, text in deltas if seq <= kept]
    return "".join(text for _, text in deltas)


def patiently(call: Callable[[], Any], timeout: float = 40.0) -> Any:
    """What `call` returns, tried again while the server is away or being started again."""
    import httpx

    give_up_at = time.monotonic() + timeout
    while True:
        try:
            response = call()
            if getattr(response, "status_code", 200) != 503:
                return response
        except (OSError, WebSocketException, TimeoutError, httpx.TransportError):
            if time.monotonic() > give_up_at:
                raise
        if time.monotonic() > give_up_at:
            raise TimeoutError("the server does not answer")
        time.sleep(0.05)
