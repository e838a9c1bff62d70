"""The product's web server with a tiny application, as a process: `… PORT [COUNT_FILE]`.

ws  /flood    sends 64 KiB messages for ever and counts them in COUNT_FILE
ws  /echo     answers each message with its kind and length
http /wait    never answers
http /pieces  answers with a body in two pieces
http /        answers with the length of the body
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from typing import Any

from protoagent.server import listening
from protoagent.server.daphne import WebServer

PIECE = "x" * 65536


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """The whole application."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await (_flood if scope["path"] == "/flood" else _echo)(receive, send)
    elif scope["path"] == "/wait":
        await asyncio.sleep(3600)
    elif scope["path"] == "/pieces":
        await _pieces(send)
    else:
        await _measure(receive, send)


async def _flood(receive: Any, send: Any) -> None:
    # Written in place and at a fixed width, so that a reader never sees half of it.
    file = os.open(sys.argv[2], os.O_CREAT | os.O_WRONLY)
    for count in itertools.count(1):
        await send({"type": "websocket.send", "text": PIECE})
        os.pwrite(file, f"{count:10}".encode(), 0)


async def _echo(receive: Any, send: Any) -> None:
    while (event := await receive())["type"] == "websocket.receive":
        kind = "text" if event.get("text") is not None else "bytes"
        await send({"type": "websocket.send", "text": f"{kind} {len(event[kind])}"})


async def _measure(receive: Any, send: Any) -> None:
    length, more = 0, True
    while more:
        event = await receive()
        length += len(event["body"])
        more = event["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(length).encode()})


async def _pieces(send: Any) -> None:
    headers = [(b"content-length", b"10")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"first", "more_body": True})
    await send({"type": "http.response.body", "body": b"other"})


async def nothing() -> None:
    """There is nothing to start or stop beside the application."""


if __name__ == "__main__":
    listener = listening.open_socket("127.0.0.1", int(sys.argv[1]))
    server = WebServer(application, listener, on_start=nothing, on_stop=nothing)
    server.loop.add_signal_handler(signal.SIGTERM, server.stop_soon)
    server.run()
