"""Server-sent events from raw bytes, whatever the pieces the network cuts them into."""

from __future__ import annotations

from protoagent.core.errors import ModelFailed

MAX_EVENT_BYTES = 16 * 1024 * 1024


class EventSplitter:
    """Collects bytes and gives back the `data` of each event that is complete.

    Bytes are split before they are decoded, so a character that is cut by a read is whole
    again. Comments, `event:`, `id:` and `retry:` lines are dropped.
    """

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The events that `data` completes, in order.

        Raises ModelFailed when one event grows without end.
        """
        if not self._rest and data.startswith(b"data: ") and data.endswith(b"\n\n"):
            # The usual case, one whole event in one piece, needs no splitting.
            if data.find(b"\n") == len(data) - 2:
                return [data[6:-2]]
        elif self._rest:
            data = self._rest + data
        if b"\r" in data:
            data, held = _normalise(data)
        else:
            held = b""
        *blocks, rest = data.split(b"\n\n")
        self._rest = rest + held
        if len(self._rest) > MAX_EVENT_BYTES:
            raise ModelFailed("the model's gateway sent an event without end")
        return [event for block in blocks for event in _events(block)]

    def finish(self) -> list[bytes]:
        """The event that was left without its blank line when the stream ended."""
        rest, self._rest = self._rest, b""
        return _events(rest.replace(b"\r", b"\n"))


def _normalise(data: bytes) -> tuple[bytes, bytes]:
    """Every line end as \\n; a last \\r waits, because its \\n may come with the next read."""
    held = b""
    if data.endswith(b"\r"):
        data, held = data[:-1], b"\r"
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n"), held


def _events(block: bytes) -> list[bytes]:
    if block.startswith(b"data: ") and b"\n" not in block:
        return [block[6:]]
    lines = [
        line[5:].removeprefix(b" ")
        for line in block.split(b"\n")
        if line.startswith(b"data:") or line == b"data"
    ]
    if not lines:
        return []
    if len(lines) > 1 and all(line.startswith(b"{") and line.endswith(b"}") for line in lines):
        # Some servers leave out the blank lines; each line is an event of its own then.
        return lines
    return [b"\n".join(lines)]
