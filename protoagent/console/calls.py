"""Tool calls in the transcript: one row each, and the group of a run of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils.safestring import SafeString

from protoagent.console import rendering
from protoagent.console.markdown import host_of
from protoagent.console.rendering import Look, fragment
from protoagent.core.text import one_line

TARGET_CHARS = 160
RUNNING, WAIT, OK, ERROR, CANCELLED, DECLINED = (
    *("running", "wait", "ok", "error"),
    *("cancelled", "declined"),
)
STATES = {
    RUNNING: ("loader-circle", "Running"),
    WAIT: ("hand", "Waiting"),
    OK: ("circle-check", "Done"),
    ERROR: ("circle-x", "Failed"),
    CANCELLED: ("circle-slash", "Cancelled"),
    DECLINED: ("circle-slash", "Declined"),
}
WAITS_FOR = {"approval": "needs approval", "form": "waits for your form"}
_TARGET_ARGUMENTS = {
    "current_time": "timezone",
    "calculator": "expression",
    "web_search": "query",
    "fetch_url": "url",
    "ask_human": "question",
    "request_user_input": "title",
    "show_component": "title",
}
_RESULTS = re.compile(r"(\d+) result\(s\) for ")


@dataclass(eq=False)
class Call:
    """One call as its events tell it."""

    call_id: str
    seq: int
    name: str
    args: Any
    source: str
    started_at: datetime
    state: str = RUNNING
    waits_for: str = ""
    attempt: int = 1
    output: str = ""
    output_chars: int = 0
    duration_ms: int = 0
    finished_at: datetime | None = None
    kids: list[Call] = field(default_factory=list)

    @property
    def element_id(self) -> str:
        return f"call-{self.call_id}"

    @property
    def is_open(self) -> bool:
        """Not ended yet."""
        return self.state in (RUNNING, WAIT)

    def every(self) -> Iterator[Call]:
        """The call and the calls inside it."""
        yield self
        for kid in self.kids:
            yield from kid.every()

    def html(self, look: Look) -> SafeString:
        """The call's row; what it was given and what it returned are loaded when it is opened."""
        return fragment("_call.html", {"call": Row(self, look)})


@dataclass(frozen=True)
class Row:
    """A call as its template shows it."""

    call: Call
    look: Look

    @property
    def icon(self) -> str:
        return STATES[self.call.state][0]

    @property
    def word(self) -> str:
        return STATES[self.call.state][1]

    @property
    def css_state(self) -> str:
        return CANCELLED if self.call.state == DECLINED else self.call.state

    @property
    def target(self) -> str:
        """What the call is about, and for one that failed, why it did, in one line."""
        target = target_of(self.call.name, self.call.args)
        if self.call.state == ERROR:
            why = _reason(self.call.output)
            return f"{target} — {why}" if target else why
        found = _RESULTS.match(self.call.output) if self.call.state == OK else None
        if found and self.call.name == "web_search":
            return f"{target} · {rendering.count_of(int(found[1]), 'result')}"
        return target

    @property
    def time(self) -> str:
        """How long it took and, when it did not end by itself, what ended it."""
        call, lasted = self.call, rendering.duration(self.call.duration_ms)
        if call.state == CANCELLED:
            return f"cancelled {self.look.by_you}, {lasted}"
        if call.state == DECLINED:
            return f"declined {self.look.by_you}"
        if call.state == WAIT:
            return call.waits_for
        return lasted

    @property
    def clock(self) -> SafeString | str:
        """The running time of a call that has not ended."""
        if self.call.state != RUNNING:
            return ""
        return rendering.running_since(self.call.started_at, "tool__time")

    @property
    def can_cancel(self) -> bool:
        return self.look.can_write and self.call.state == RUNNING

    @property
    def kids(self) -> list[SafeString]:
        return [kid.html(self.look) for kid in self.call.kids]


@dataclass(eq=False)
class CallGroup:
    """Calls that follow one another. Folded once its turn has ended, if there are several."""

    seq: int
    calls: list[Call] = field(default_factory=list)
    is_folded: bool = False

    @property
    def element_id(self) -> str:
        return f"g-{self.seq}"

    @property
    def list_id(self) -> str:
        return f"{self.element_id}-list"

    @property
    def summary(self) -> str:
        """`Worked 21 s · 6 tools`; not shown, and so the same all the time, until it is folded."""
        if not self.is_folded:
            return "Tools"
        lasted = rendering.duration(self._wall_ms)
        return f"Worked {lasted} · {rendering.count_of(len(self.calls), 'tool')}"

    @property
    def failed(self) -> int:
        return self._count(ERROR)

    @property
    def cancelled(self) -> int:
        return self._count(CANCELLED)

    def _count(self, state: str) -> int:
        return sum(call.state == state for call in self.calls) if self.is_folded else 0

    @property
    def _wall_ms(self) -> float:
        ends = [call.finished_at for call in self.calls if call.finished_at]
        if not ends:
            return 0
        begin = min(call.started_at for call in self.calls)
        longest = max(call.duration_ms for call in self.calls)
        return max((max(ends) - begin).total_seconds() * 1000, longest)

    def fold(self) -> bool:
        """A run of several calls becomes one line; whether anything changed."""
        if self.is_folded or len(self.calls) < 2:
            return False
        self.is_folded = True
        return True

    def html(self, look: Look) -> SafeString:
        rows = [call.html(look) for call in self.calls]
        return fragment("_call_group.html", {"group": self, "rows": rows})


def target_of(name: str, args: Any) -> str:
    """The one argument that tells best what a call is about, in one line."""
    if not isinstance(args, dict) or not args:
        return ""
    known = _TARGET_ARGUMENTS.get(name)
    value = args.get(known) if known else None
    if name == "show_component" and not value:
        props = args.get("props")
        value = (props.get("title") if isinstance(props, dict) else "") or args.get("component")
    if name == "fetch_url" and isinstance(value, str):
        return one_line(_short_url(value), TARGET_CHARS)
    if value in (None, ""):
        value = next(iter(args.values()))
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return one_line(text, TARGET_CHARS)


def _short_url(url: str) -> str:
    """Host and path: what tells one address from another at a glance."""
    host = host_of(url)
    if not host:
        return url
    rest = url.partition("://")[2].partition("/")[2].partition("?")[0].partition("#")[0]
    return f"{host}/{rest}".rstrip("/")


def _reason(output: str) -> str:
    """The first line of an error, without the word."""
    first = next((line for line in output.splitlines() if line.strip()), "failed")
    return one_line(
        re.sub(r"^Error(?: \([^)]*\))?:\s*", "", first.strip()) or "failed", TARGET_CHARS
    )
