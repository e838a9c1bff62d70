"""A day of a server in which every secret is said by everybody, and all that came out of it."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.clients.chat import ChatSocket
from tests.security.leaks import gateway as leaky
from tests.security.leaks.planted import CONFIGURED_KEY, EVERYTHING, GROUPS, OWN_TOKEN, Group
from tests.services import shared
from tests.services.servers import Server, ServerFactory

_TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


@dataclass
class Heard:
    """What left the server, by the place where it came out."""

    places: dict[str, list[bytes]] = field(default_factory=dict)

    def add(self, place: str, data: bytes | str) -> None:
        """Something came out at `place`."""
        piece = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        self.places.setdefault(place, []).append(piece)

    def whole(self) -> dict[str, bytes]:
        """All that came out, by place."""
        return {place: b"\n".join(pieces) for place, pieces in self.places.items()}

    def of(self, *prefixes: str) -> bytes:
        """All that came out at places that begin with one of `prefixes`."""
        return b"\n".join(
            piece
            for place, pieces in self.places.items()
            if place.startswith(prefixes)
            for piece in pieces
        )


class Person:
    """Somebody in a browser without script, and what the pages said."""

    def __init__(self, server: Server, heard: Heard) -> None:
        self.server = server
        hook = recorder(heard, "console")
        self.http = httpx.Client(base_url=server.url, timeout=30, event_hooks={"response": [hook]})
        link = server.sign_in_link
        token = _TOKEN.search(self.http.get(link).text)
        assert token
        self.http.post(link, data={"csrfmiddlewaretoken": token[1]}, headers=self._headers())
        assert "protoagent_session" in self.http.cookies

    def _headers(self, swap: bool = False) -> dict[str, str]:
        headers = {"Origin": self.server.url, "Referer": f"{self.server.url}/"}
        return {**headers, "HX-Request": "true"} if swap else {**headers, "Accept": "text/html"}

    def get(self, path: str, *, swap: bool = False, **query: str) -> httpx.Response:
        """A page, or with `swap` a fragment."""
        return self.http.get(path, params=query or None, headers=self._headers(swap))

    def post(self, path: str, *, swap: bool = True, **fields: str) -> httpx.Response:
        """A form as htmx posts it, or without `swap` as a browser does."""
        token = self.http.cookies["protoagent_csrf"]
        data = {"csrfmiddlewaretoken": token, **fields}
        return self.http.post(path, data=data, headers=self._headers(swap))

    @contextlib.contextmanager
    def watching(self, heard: Heard, keys: list[str]) -> Iterator[None]:
        """The browser's own link is open and follows these sessions; its frames are kept."""
        cookie = f"protoagent_session={self.http.cookies['protoagent_session']}"
        url = self.server.url.replace("http", "ws")
        headers = {"Cookie": cookie, "Origin": self.server.url}
        with connect(f"{url}/ws/", additional_headers=headers, max_size=None, proxy=None) as wire:
            for key in keys:
                wire.send(json.dumps({"t": "sub", "sid": key, "after": 0}))

            def read() -> None:
                with contextlib.suppress(ConnectionClosed):
                    for frame in wire:
                        heard.add("link", frame)

            thread = threading.Thread(target=read, name="link-reader", daemon=True)
            thread.start()
            yield
        thread.join(10)


def recorder(heard: Heard, place: str) -> Any:
    """A hook that keeps every response with its head."""

    def keep(response: httpx.Response) -> None:
        response.read()
        kind = response.headers.get("content-type", "").partition(";")[0]
        if kind not in ("text/css", "text/javascript"):
            where = f"{place} {response.request.method} {response.request.url.path}"
            heard.add(where, str(response.headers.raw) + "\n" + response.text)

    return keep


@dataclass
class Story:
    """The server, still running, and what has been heard so far."""

    server: Server
    gateway: leaky.LeakyGateway
    heard: Heard
    person: Person
    program: httpx.Client

    def say(self, key: str, secrets: Group) -> None:
        """These secrets go every way there is."""
        with ChatSocket(self.server, key, after=0) as socket:
            Conversation(self, socket, key, secrets).run()
            for frame in [*socket.events, *socket.others]:
                self.heard.add("socket", json.dumps(frame, ensure_ascii=False))


@dataclass
class Conversation:
    """One session in which the same secrets are said by everybody."""

    story: Story
    socket: ChatSocket
    key: str
    secrets: Group

    def run(self) -> None:
        self.messages()
        self.files()
        self.tools()
        self.question()
        self.form()
        self.approval()
        self.on_the_way()
        self.errors()
        self.titles()

    @property
    def text(self) -> str:
        return self.secrets.text

    def post(self, path: str, **body: Any) -> httpx.Response:
        return self.story.program.post(f"/api/chat/sessions/{self.key}/{path}", json=body)

    def ask(self, script: str) -> None:
        """A message with the secret and a script for the gateway, until the turn has ended."""
        self.socket.send("message", text=f"{self.text}\n{script}")
        self.socket.until("turn.finished", where=lambda f: f["data"]["status"] != "waiting")

    def asked(self, script: str) -> dict[str, Any]:
        """The same, until the agent asks something."""
        self.socket.send("message", text=f"{self.text}\n{script}")
        event = self.socket.until("input.required")
        self.socket.until("turn.finished", status="waiting")
        return event["data"]

    def messages(self) -> None:
        kind = self.secrets.name
        self.ask(f"reply Noted: @{kind} and again @{kind}.")
        said = {"message": f"{self.text}\nreply @{kind}", "session_id": self.key}
        self.story.program.post("/api/chat", json=said)
        refused = self.story.program.post("/api/chat", json={**said, "model": self.text})
        assert refused.status_code == 400
        client_id = f"console-{kind}"
        path = f"/chat/{self.key}/send/"
        self.story.person.post(path, text=self.text, mode="turn", client_id=client_id)
        self.socket.until("message.received", client_id=client_id)
        self.socket.ended()

    def files(self) -> None:
        """Texts and names that hold the secret, uploaded or written out in the frame."""
        name = self.text.replace("\n", " ")
        files = [{"name": name, "text": self.text}, {"name": "a.md", "data": ""}]
        files[1]["data"] = base64.b64encode(self.text.encode("utf-16")).decode()
        sent = self.story.program.post(
            "/api/chat/files", params={"name": name}, content=self.text.encode()
        )
        self.story.program.get(f"/api/chat/files/{sent.json()['id']}")
        attachments = [sent.json()["id"], *files]
        self.socket.send("message", text="reply read", attachments=attachments)
        self.socket.until("turn.finished")
        refused = {"name": name, "data": "AAEC"}
        self.socket.send("message", text="reply read", attachments=[refused])
        self.socket.settle()

    def tools(self) -> None:
        kind = self.secrets.name
        arguments = json.dumps({"kind": kind, "note": f"@{kind}"})
        escaped = json.dumps({"kind": kind, "note": "@escaped", f"@{kind}": f"@{kind}"})
        component = {"title": f"@{kind}", "props": {"columns": [f"@{kind}"], "rows": [["1"]]}}
        component["component"] = "table"
        for script in (
            f"call leak_output {arguments}",
            f"call leak_output {escaped}",
            f"call show_component {json.dumps(component)}",
            f"call broken_json {arguments}",
            f"call secret_name {arguments}",
            f'call leak_long_output {{"kind": "{kind}"}}',
            f'call leak_refusal {{"kind": "{kind}"}}',
            f'call leak_crash {{"kind": "{kind}"}}',
            f'call leak_component {{"kind": "{kind}"}}',
        ):
            self.ask(script)

    def question(self) -> None:
        kind = self.secrets.name
        card = self.asked(f'call ask_human {{"question": "What of @{kind}?"}}')
        path = f"/chat/{self.key}/hitl/{card['interrupt_id']}"
        self.story.person.get(f"{path}/", swap=True)
        self.story.person.post(f"{path}/draft/", answer=self.text)
        self.story.person.post(f"{path}/dismiss/")
        self.post("answer", interrupt_id=card["interrupt_id"], value=self.text)
        self.socket.ended()
        card = self.asked(f'call ask_human {{"question": "@{kind}"}}')
        self.socket.send("answer", interrupt_id=card["interrupt_id"], value=self.text)
        self.socket.ended()

    def form(self) -> None:
        mark = f"@{self.secrets.name}"
        choice = {"const": "a", "title": mark, "description": mark}
        properties = {
            "one": {"type": "string", "title": mark, "description": mark, "default": mark},
            "two": {"type": "string", "oneOf": [choice, {"const": "b", "title": "b"}]},
        }
        first = {"title": mark, "description": mark, "schema": {"properties": properties}}
        rest = {"three": {"type": "string", "format": "textarea", "title": "three"}}
        steps = [first, {"schema": {"properties": rest}}]
        form = {"title": mark, "description": mark, "steps": steps}
        card = self.asked(f"call request_user_input {json.dumps(form)}")
        path = f"/chat/{self.key}/hitl/{card['interrupt_id']}"
        person = self.story.person
        person.get(f"{path}/")
        shown = {"shown": "one two", "step": "0", "f.one": self.text, "f.two": "a"}
        person.post(f"{path}/draft/", **shown)
        person.post(f"{path}/step/0/", **shown, move="next")
        person.post(f"{path}/step/1/", **{"shown": "three", "f.three": self.text, "move": "back"})
        values = {"one": self.text, "two": self.text, "three": self.text, self.text: 1}
        self.post("answer", interrupt_id=card["interrupt_id"], value=values)
        answer = {"one": self.text, "two": "a", "three": self.text}
        self.socket.send("answer", interrupt_id=card["interrupt_id"], value=answer)
        self.socket.ended()

    def approval(self) -> None:
        card = self.asked(f'call leak_approval {{"kind": "{self.secrets.name}"}}')
        value = {"decision": "approve", "reason": self.text}
        self.socket.send("answer", interrupt_id=card["interrupt_id"], value=value)
        self.socket.ended()

    def on_the_way(self) -> None:
        """Steers, held and queued messages, one of them edited, one stopped by the operator."""
        kind, pending = self.secrets.name, f"/chat/{self.key}/pending/"
        card = self.asked('call ask_human {"question": "wait"}')
        self.socket.send("message", text=f"held {self.text}")
        self.socket.send("steer", text=f"steered {self.text}", client_id=f"steer-{kind}")
        self.post("steer", text=f"steered {self.text}")
        person = self.story.person
        sent = {"mode": "queue", "client_id": f"queue-{kind}"}
        person.post(f"/chat/{self.key}/send/", text=f"queued {self.text}", **sent)
        person.post(pending, do="edit", client_id=f"queue-{kind}", text=f"edited {self.text}")
        person.get(f"/chat/{self.key}/")
        self.story.program.get(f"/api/chat/sessions/{self.key}")
        self.story.program.get(f"/api/chat/sessions/{self.key}/steer")
        self.socket.send("dismiss", interrupt_id=card["interrupt_id"])
        self.socket.ended()
        self.socket.until("message.received", client_id=f"queue-{kind}")
        self.socket.ended()
        self.socket.send("message", text=f"{self.text}\nreply @{kind}\nhang after 3")
        self.socket.until("turn.started")
        self.socket.until("text.delta")
        self.socket.send("steer", text=f"too late {self.text}")
        self.socket.until("message.received", mode="steer")
        self.socket.send("stop")
        self.socket.ended("stopped")
        person.post(pending, do="release")
        self.socket.until("turn.started")
        self.socket.ended()

    def errors(self) -> None:
        for status in (400, 401, 404, 422, 429, 200):
            self.ask(f"fail {status}\nsaying @{self.secrets.name}")
        for frame in (
            {"type": self.text},
            {"type": "answer", "interrupt_id": self.text, "value": 1},
            {"type": "cancel_call", "call_id": self.text},
            {"type": "answer", "interrupt_id": "q", "value": 1, self.text: self.text},
        ):
            self.socket.raw(json.dumps(frame))
        self.socket.raw(f"not JSON {self.text}")
        self.socket.settle()

    def titles(self) -> None:
        person, chat = self.story.person, f"/chat/{self.key}"
        for secret in self.secrets.members:
            person.post(f"{chat}/rename/", title=f"Renamed {secret.marked}")
            person.get(f"{chat}/")
            sent = {"mode": "turn", "client_id": f"rename-{secret.kind}"}
            person.post(f"{chat}/send/", text=f"/rename Again {secret.marked}", **sent)
            person.post(f"{chat}/model/", model=secret.text)
        person.post(f"{chat}/rename/", title=f"All {self.text}")
        person.post(f"{chat}/archive/", archived="1")
        person.post(f"{chat}/archive/", archived="0")


def bad_requests(story: Story, secrets: Group) -> None:
    """Requests that are refused, with the secrets wherever a refusal could repeat it."""
    person, program = story.person, story.program
    plain = secrets.text.replace("\n", " ")
    for query in ({"q": plain}, {"before": plain}, {"at": plain}, {"deleted": plain}):
        person.get("/sessions/", **query)
        person.get("/sessions/", swap=True, **query)
        person.get("/palette/", **query)
        person.get("/palette/", swap=True, **query)
        person.get("/chat/one/", **query)
        program.get("/api/chat/sessions", params={**query, "cursor": plain})
    for path in (f"/chat/{plain}/", f"/nothing/{plain}/", f"/chat/one/calls/{plain}/"):
        person.get(path)
        person.get(path, swap=True)
        program.get(path)
    program.get(f"/api/chat/sessions/{plain}")
    program.get("/api/chat/sessions/one/export", params={"format": plain})
    program.post("/api/chat", json={plain: 1, "message": plain})
    program.post("/api/chat", json={"message": plain, "session_id": f"no key: {plain}"})
    program.post("/api/chat", content=plain, headers={"Content-Type": plain[:60].strip()})
    program.post("/api/chat/sessions/one/answer", json={"interrupt_id": plain, "value": plain})
    person.post("/me/theme/", theme=plain)
    person.post("/chat/one/send/", text=f"/{plain[:30]} {plain}", mode=plain, client_id="x" * 8)
    person.post("/chat/one/send/", text=f"/model {plain}", mode="turn", client_id="y" * 8)
    person.post("/chat/one/pending/", do=plain, client_id="z" * 8)
    at_the_door(story, plain)


def at_the_door(story: Story, text: str) -> None:
    """A stranger who holds a secret where a credential belongs, or types it somewhere else."""
    hook = recorder(story.heard, "door")
    with httpx.Client(base_url=story.server.url, event_hooks={"response": [hook]}) as door:
        door.get("/api/tools", headers={"Authorization": f"Bearer {text}"})
        door.get("/api/tools", headers={"X-API-Key": text})
        door.get(f"/login/{text}/")
        token = _TOKEN.search(door.get("/login/", params={"next": f"/{text}"}).text)
        assert token
        form = {"csrfmiddlewaretoken": token[1], "username": text, "password": text}
        door.post("/login/", data=form, headers={"Origin": story.server.url})
        door.post("/login/", data={**form, "csrfmiddlewaretoken": text})


@contextlib.contextmanager
def told(make_server: ServerFactory) -> Iterator[Story]:
    """The story has happened; its server runs until the block ends."""
    with leaky.running() as gateway:
        environment = {
            "DJANGO_SETTINGS_MODULE": "tests.security.leaks.settings",
            "LOG_LEVEL": "DEBUG",
            "PROTOAGENT_TOKEN": OWN_TOKEN,
            "PROTOAGENT__MODEL__API_BASE": gateway.base,
            "PROTOAGENT__MODEL__NAME": "fake-model",
            "PROTOAGENT__MODEL__API_KEY": CONFIGURED_KEY,
            "PROTOAGENT__MODEL__MAX_RETRIES": "0",
        }
        server = make_server(environment, start=False)
        server.token = OWN_TOKEN
        server.start()
        heard = Heard()
        with server.client(event_hooks={"response": [recorder(heard, "api")]}) as program:
            story = Story(server, gateway, heard, Person(server, heard), program)
            _play(story)
            yield story


def _play(story: Story) -> None:
    with ChatSocket(story.server, "one") as socket:
        socket.ask(f"{EVERYTHING}\nreply @openai")
    with story.person.watching(story.heard, ["one", *(f"s-{group.name}" for group in GROUPS)]):
        for secrets in GROUPS:
            story.say(f"s-{secrets.name}", secrets)
            bad_requests(story, secrets)
        shared.wait_until(story.server.is_ready, 5)
