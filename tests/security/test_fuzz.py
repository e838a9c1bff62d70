"""Ten thousand frames and requests out of a seeded generator: no 500, no stuck turn, no traceback.

FUZZ_SEED sets where the generator begins, FUZZ_COUNT how much it makes.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from tests.clients.chat import ChatSocket
from tests.clients.family import ROLES, role_pid
from tests.clients.state import unfinished
from tests.security import walk
from tests.services import shared
from tests.services.servers import Server, servers

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(400),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

SEED = int(os.environ.get("FUZZ_SEED", "20261201"))
COUNT = int(os.environ.get("FUZZ_COUNT", "10000"))
THREADS = 4
FRAMES_PER_SOCKET = 125
KEYS = ("fuzz-a", "fuzz-b", "fuzz-c")
# Pages that end the account's own session or belong to another room's tests.
LEFT_OUT = ("/admin", "/login", "/logout", "/account")
KINDS = {
    "message": ("text", "client_id", "incognito", "attachments"),
    "answer": ("interrupt_id", "value"),
    "dismiss": ("interrupt_id",),
    "steer": ("text", "client_id"),
    "unsteer": ("client_id",),
    "stop": (),
    "cancel_call": ("call_id",),
    "ping": (),
    "hello": ("session",),
    "": (),
}
FIELDS = (
    "text",
    "client_id",
    "model",
    "incognito",
    "attachments",
    "interrupt_id",
    "value",
    "call_id",
)
SAID = (
    "what is 2 ** 10?",
    "what time is it",
    '/tool ask_human {"question": "Which port?"}',
    "/tool nothing {}",
    "/tool ask_human [1",
    '/tool show_component {"component": "table", "props": {"rows": 5}}',
)
NASTY = (
    "",
    " ",
    "\x00",
    "\ud800",
    "\u202e\u2066",
    "\ufeff",
    "\r\n",
    "../../etc/passwd",
    "<script>alert(1)</script>",
    "' OR 1=1 --",
    "{{7*7}}",
    "%00%ff",
    "é" * 200,
    "\U0001f989" * 50,
    "x" * 2000,
    "true",
    "null",
    "-1",
    "1e309",
    "main",
    "__proto__",
)
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
TYPES = (
    "application/json",
    "application/json; charset=utf-16",
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "multipart/form-data",
    "x" * 300,
    "",
)


@dataclass
class Maker:
    """Makes inputs that are nearly right, and some that are nothing at all."""

    dice: random.Random
    ids: list[str]

    def value(self, depth: int = 3) -> Any:
        """Any JSON value, often one that a careless reader trips over."""
        makers: list[Callable[[], Any]] = [
            lambda: self.dice.choice(NASTY),
            lambda: self.dice.choice(SAID),
            lambda: self.dice.choice(self.ids) if self.ids else "q1",
            lambda: self.dice.choice([0, -1, 1.5, 2**31, 2**63, 10**30, -(10**400), 1e308]),
            lambda: self.dice.choice([None, True, False]),
        ]
        if depth:
            makers += [
                lambda: [self.value(depth - 1) for _ in range(self.dice.randrange(4))],
                lambda: {self.name(): self.value(depth - 1) for _ in range(self.dice.randrange(4))},
            ]
        return self.dice.choice(makers)()

    def name(self) -> str:
        return self.dice.choice((*FIELDS, *NASTY, "engine", "message", "session_id"))

    def frame(self) -> str | bytes:
        """A client frame: mostly an object with a known type, sometimes damaged."""
        kind = self.dice.choice(list(KINDS))
        fields = {name: self.field(name) for name in KINDS[kind]}
        if self.dice.random() < 0.2:
            fields[self.name()] = self.value()
        if self.dice.random() < 0.05:
            kind = self.value()
        text = json.dumps({"type": kind, **fields}, ensure_ascii=self.dice.random() < 0.7)
        return self.damaged(text)

    def field(self, name: str) -> Any:
        """What belongs into the field, or anything. Every right message is a turn, so few are."""
        is_right = self.dice.random() < (0.2 if name in ("text", "message") else 0.6)
        if not is_right:
            return self.value()
        if name in ("text", "message"):
            return self.dice.choice(SAID)
        if name == "attachments":
            return [self.attachment()] if self.dice.random() < 0.1 else []
        if name in ("session_id", "session"):
            return self.dice.choice(KEYS)
        if name == "incognito":
            return self.dice.random() < 0.5
        if name.endswith("_id") and self.ids:
            return self.dice.choice(self.ids[-20:])
        return f"c{self.dice.randrange(50)}"

    def attachment(self) -> Any:
        """A file in the frame, the id of one, or nearly so."""
        return self.dice.choice(
            [
                {"name": self.dice.choice(NASTY), "text": self.dice.choice(NASTY)},
                {"name": "a.txt", "data": self.dice.choice(["aGk=", "aGk", "\u20ac", "AAAA"])},
                {"name": "a.txt", "text": "hi", self.name(): self.value(1)},
                self.dice.choice(self.ids) if self.ids else "f0000000000000000",
            ]
        )

    def damaged(self, text: str) -> str | bytes:
        """The text, in one of ten cases no longer what it was."""
        at = self.dice.randrange(len(text) + 1)
        match self.dice.randrange(40):
            case 0:
                return text[:at]
            case 1:
                return text[:at] + self.dice.choice(NASTY) + text[at:]
            case 2:
                return self.storable(text).encode()
            case 3:
                return "[" * self.dice.choice([10, 900, 3000]) + text
            case _:
                return text

    def storable(self, text: str) -> str:
        return text.encode("utf-8", "replace").decode()

    def path(self, routes: list[str]) -> str:
        """A known path with something else in the place of its parts, and a query."""
        path = self.dice.choice(routes)
        parts = [self.part(part) for part in path.split("/")]
        query = "&".join(
            f"{self.dice.choice(QUERIES)}={self.quoted(str(self.value(1)))}"
            for _ in range(self.dice.randrange(3))
        )
        return "/".join(parts) + (f"?{query}" if query else "")

    def part(self, part: str) -> str:
        if part in walk.SAMPLES:
            if self.dice.random() < 0.6:
                return self.dice.choice(KEYS)
            options = [*self.ids[-20:], *map(self.quoted, NASTY), "1", "999999999999999999"]
            return self.dice.choice(options)
        return part if self.dice.random() < 0.99 else self.quoted(self.dice.choice(NASTY))

    def quoted(self, text: str) -> str:
        return quote(text.encode("utf-8", "surrogatepass")[:300], safe="")

    def request(self, routes: list[str]) -> tuple[str, str, dict[str, str], bytes]:
        """Method, path, headers and body."""
        path = self.path(routes)
        method = self.dice.choices(METHODS, (9, 9, 1, 1, 2, 1, 1))[0]
        body = self.body(path) if method in ("POST", "PUT", "PATCH", "DELETE") else b""
        right = TYPES[0] if path.startswith("/api/") else FORM_TYPE
        headers = {"Content-Type": right if self.dice.random() < 0.9 else self.dice.choice(TYPES)}
        if self.dice.random() < 0.3:
            headers["HX-Request"] = "true"
        return method, path, headers, body

    def body(self, path: str) -> bytes:
        """JSON for the API and a form for pages, or noise."""
        if self.dice.random() < 0.1:
            return self.dice.randbytes(self.dice.randrange(200))
        names = self.dice.sample(BODY_FIELDS, self.dice.randrange(1, 4))
        fields = {name: self.field(name) for name in names}
        if not path.startswith("/api/"):
            pairs = (f"{name}={self.quoted(str(value))}" for name, value in fields.items())
            return "&".join(pairs).encode()
        damaged = self.damaged(json.dumps(fields))
        return damaged if isinstance(damaged, bytes) else damaged.encode("utf-8", "replace")


FORM_TYPE = "application/x-www-form-urlencoded"
BODY_FIELDS = (
    "message",
    "text",
    "session_id",
    "interrupt_id",
    "client_id",
    "value",
    "incognito",
    "title",
    "mode",
    "digest",
    "keys",
    "action",
    "number",
    "attachments",
    "alt",
)
QUERIES = (
    "after",
    "limit",
    "cursor",
    "q",
    "format",
    "tools",
    "archived",
    "before",
    "harvest",
    "ids",
    "name",
    "x",
)


@dataclass
class Findings:
    """What came back."""

    answers: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)

    def add(self, other: Findings) -> None:
        self.answers += other.answers
        self.broken += other.broken


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with servers() as make:
        yield make()


def test_ten_thousand_frames_and_requests_break_nothing(server):
    routes = [r.path for r in walk.http_routes() if not r.path.startswith(LEFT_OUT)]
    before = {role: role_pid(server, role) for role in ROLES}
    jobs = [(number, number % 5 < 3) for number in range(-(-COUNT // FRAMES_PER_SOCKET))]
    found = Findings()

    def play(job: tuple[int, bool]) -> Findings:
        number, is_frames = job
        maker = Maker(random.Random(f"{SEED}-{number}"), [])
        if is_frames:
            return play_frames(server, maker, KEYS[number % len(KEYS)])
        return play_requests(server, maker, routes)

    with ThreadPoolExecutor(THREADS) as pool:
        for part in pool.map(play, jobs):
            found.add(part)

    print(f"\n{dict(found.answers)}")
    assert found.broken == [], f"seed {SEED}: {found.broken[:5]}"
    assert found.answers["frame"] + found.answers["request"] >= COUNT
    settle(server)
    assert "Traceback" not in server.log, server.log[server.log.index("Traceback") - 500 :][:4000]
    assert {role: role_pid(server, role) for role in ROLES} == before
    for key in (*KEYS, "fresh"):
        with ChatSocket(server, key) as socket:
            assert "1024" in socket.ask("what is 2 ** 10?")


def play_frames(server: Server, maker: Maker, key: str) -> Findings:
    """One socket's share; the server may refuse frames but never close the socket."""
    found = Findings()
    with ChatSocket(server, key, after=0) as socket:
        for number in range(FRAMES_PER_SOCKET):
            socket.raw(maker.frame())
            found.answers["frame"] += 1
            if number % 25 == 24:
                take(socket, maker, found)
    return found


def take(socket: ChatSocket, maker: Maker, found: Findings) -> None:
    """Read what has come; remember ids for later frames."""
    try:
        frames = socket.settle(60)
    except ConnectionClosed as error:
        found.broken.append(f"the socket was closed: {error}")
        return
    for frame in frames:
        if frame["type"] == "error":
            found.answers[f"error {frame['code']}"] += 1
            if frame["code"] == "error":
                found.broken.append(str(frame))
    remember(frames, maker)


def remember(frames: list[dict[str, Any]], maker: Maker) -> None:
    """The ids that the server gave away, for later inputs."""
    for frame in frames:
        data = frame.get("data", {})
        maker.ids += [
            data[name] for name in ("interrupt_id", "call_id", "client_id") if name in data
        ]


def play_requests(server: Server, maker: Maker, routes: list[str]) -> Findings:
    """One client's share; every answer has a status below 500."""
    found = Findings()
    with server.client() as client:
        for key in KEYS:
            known = client.get(f"/api/chat/sessions/{key}/events?limit=1000").json()
            remember(known.get("events", []), maker)
        for _ in range(FRAMES_PER_SOCKET):
            method, path, headers, body = maker.request(routes)
            found.answers["request"] += 1
            try:
                response = client.request(method, path, content=body, headers=headers)
            except httpx.InvalidURL:  # the client cannot send it
                continue
            except httpx.HTTPError as error:
                found.broken.append(f"{error!r}: {method} {path} {headers} {body!r}")
                continue
            judge(f"{method} {path} {body[:200]!r}", response, found)
    return found


def judge(sent: str, response: httpx.Response, found: Findings) -> None:
    found.answers[f"{response.status_code // 100}xx"] += 1
    if response.status_code >= 500:
        found.broken.append(f"{response.status_code}: {sent}: {response.text[:300]}")
    if "Traceback" in response.text:
        found.broken.append(f"a traceback is shown: {sent}")


def settle(server: Server) -> None:
    """Every turn has ended or waits for its operator, and those are stopped."""
    ended = shared.wait_until(lambda: not unfinished(server), 60, 0.2)
    assert ended, f"seed {SEED}: stuck: {unfinished(server)}"
    for key in KEYS:
        with server.client() as client:
            assert client.post(f"/api/chat/sessions/{key}/stop").status_code in (200, 404)
    assert shared.wait_until(lambda: not open_turns(server), 30, 0.2), open_turns(server)


def open_turns(server: Server) -> list[tuple[Any, ...]]:
    rows = server.query(
        "SELECT s.key, t.status FROM journal_turn t JOIN journal_chatsession s"
        " ON s.id = t.session_id WHERE t.finished_at IS NULL"
    )
    return [row for row in rows if row[0] in KEYS]
