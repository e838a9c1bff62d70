"""S20: text is text. Fifty payloads in every field that a browser is shown, and nothing happens."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.clients.chat import ChatSocket
from tests.fakes.gateway import Gateway
from tests.fakes.http_server import Reply, Request, in_thread
from tests.security.hostile import Canary, Watched, listening
from tests.services.chromium import sign_in
from tests.services.servers import Server, servers

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
KEY = "javascript:alert"


class HostileGateway(Gateway):
    """A model gateway whose errors, model names and names of tools are payloads."""

    payloads: tuple[str, ...] = ()

    async def __call__(self, request: Request, reply: Reply) -> None:
        if request.path.endswith("/v1/models"):
            models = [{"id": payload, "object": "model"} for payload in self.payloads]
            reply.json({"object": "list", "data": models})
            return
        await super().__call__(request, reply)

    async def _answer(self, body: dict[str, Any], size: int, reply: Reply) -> None:
        text = body["messages"][-1].get("content") or ""
        if text.startswith("error "):
            error = {"message": self.payloads[int(text.split()[1])], "type": "fake"}
            reply.json({"error": error}, status=400)
            return
        await super()._answer(body, size, reply)

    def _call(self, step: Any) -> dict[str, Any]:
        call = super()._call(step)
        if step.tool == "no_such_tool":
            call["function"]["name"] = self.payloads[int(json.loads(step.arguments)["number"])]
        return call


@dataclass
class Stage:
    server: Server
    gateway: HostileGateway
    canary: Canary
    state: Any = None

    @property
    def plain(self) -> list[str]:
        return self.canary.plain()

    @property
    def every(self) -> list[str]:
        return self.canary.every()

    def socket(self, key: str = KEY) -> ChatSocket:
        return ChatSocket(self.server, key)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with contextlib.ExitStack() as stack:
        canary = stack.enter_context(listening())
        gateway = HostileGateway()
        gateway.url = stack.enter_context(in_thread(gateway))
        gateway.payloads = tuple(canary.every())
        make = stack.enter_context(servers())
        environment = {
            "DJANGO_SETTINGS_MODULE": "tests.security.leaks.settings",
            "PROTOAGENT__MODEL__API_BASE": gateway.base,
            "PROTOAGENT__MODEL__NAME": "fake-model",
            "PROTOAGENT__MODEL__MAX_RETRIES": "0",
            "PROTOAGENT__IDENTITY__NAME": canary.plain()[3],
        }
        yield Stage(make(environment), gateway, canary)


@pytest.fixture
def watch(browser: Browser, stage: Stage) -> Iterator[Any]:
    """`watch("/path/", width=1440)` → Watched, on a page of the signed-in operator."""
    contexts: list[Any] = []

    def open_page(path: str, *, width: int = 1440) -> Watched:
        size = {"width": width, "height": 900}
        context = browser.new_context(
            base_url=stage.server.url, viewport=size, storage_state=stage.state
        )
        context.set_default_timeout(15_000)
        contexts.append(context)
        if stage.state is None:
            sign_in(context, stage.server)
            stage.state = context.storage_state()
        watched = Watched(context.new_page(), stage.canary)
        watched.page.goto(path)
        return watched

    yield open_page
    for context in contexts:
        context.close()


def live(page: Page) -> None:
    page.wait_for_selector('#link-state[data-state="live"]', state="attached")


def open_all(page: Page) -> None:
    """Everything that is folded is open, and what it loads has come."""
    for _ in range(2):
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        page.wait_for_timeout(300)
    page.wait_for_load_state("networkidle")


def test_a_payload_that_gets_through_would_be_noticed(stage, watch):
    watched = watch("/chat/")
    live(watched.page)

    watched.page.evaluate(
        "(html) => document.body.insertAdjacentHTML('beforeend', html)", stage.plain[3]
    )
    with pytest.raises(AssertionError) as caught:
        watched.check()

    for what in ("refused", "attributes", "problems"):
        assert what in str(caught.value)


def test_messages_and_answers_are_text_while_they_come_and_afterwards(stage, watch):
    with stage.socket("talk") as socket:
        socket.ask("hello")
        watched = watch("/chat/talk/")
        live(watched.page)
        stage.gateway.texts["all"] = "\n\n".join(stage.every)
        text = "\n".join(stage.every)

        socket.ask(f"{text}\nstream all every 1 ms")

    watched.page.wait_for_selector('#chat[data-turn="idle"]')
    watched.shows(stage.every, ".msg--user:last-of-type, .msg--user >> nth=1")
    watched.shows(stage.plain, ".msg--agent >> nth=1")
    watched.check()
    watched.page.reload()
    live(watched.page)
    watched.shows(stage.every, ".msg--user >> nth=1")
    watched.shows(stage.plain, ".msg--agent >> nth=1")
    watched.fits()
    watched.check()


def test_what_tools_are_given_and_give_back_is_text(stage, watch):
    watched = None
    with stage.socket() as socket:
        socket.ask("hello")
        watched = watch(f"/chat/{KEY}/")
        live(watched.page)
        text = "\n".join(stage.every)
        socket.ask(f"call repeat {json.dumps({'text': text})}")
        socket.ask(f"call repeat {json.dumps(dict.fromkeys(stage.every[:20], 1))}")
        socket.ask(f"call current_time {json.dumps({'timezone': stage.plain[3]})}")
        for number in (0, 3, 6, 27):
            socket.ask(f'call no_such_tool {{"number": {number}}}')

    open_all(watched.page)
    watched.shows(stage.every)
    watched.check()
    watched.page.reload()
    live(watched.page)
    open_all(watched.page)
    watched.shows(stage.every)
    watched.fits()
    watched.check()


def test_components_are_data(stage, watch):
    cells = stage.every
    components = [
        ("table", {"columns": cells[:25], "rows": [cells[25:], [cells[0]]]}),
        ("table", {"columns": ["a"], "rows": [[cell] for cell in cells]}),
        ("keyvalue", {"items": [{"label": cell, "value": cell} for cell in cells]}),
        ("timeline", {"steps": [{"label": c, "state": c, "detail": c} for c in cells]}),
    ]
    with stage.socket("widgets") as socket:
        socket.ask("hello")
        watched = watch("/chat/widgets/")
        live(watched.page)

        for number, (kind, props) in enumerate(components):
            arguments = {"component": kind, "props": props, "title": cells[number]}
            socket.ask(f"call show_component {json.dumps(arguments)}")

    watched.page.wait_for_selector(".cmp >> nth=3")
    watched.shows(stage.plain)
    watched.fits()
    watched.check()


def test_what_the_agent_asks_and_what_is_answered_is_text(stage, watch):
    every, plain = stage.every, stage.plain
    text = "\n\n".join(every)
    options = [{"const": c, "title": c, "description": c} for c in every[:20]]
    properties = {
        "line": {"type": "string", "title": every[0], "description": text, "default": every[3]},
        "area": {"type": "string", "format": "textarea", "title": every[7], "default": every[7]},
        "one": {"type": "string", "title": every[2], "oneOf": options},
        "few": {"type": "string", "enum": every[20:40]},
        "many": {"type": "array", "items": {"oneOf": options}},
    }
    step = {"title": every[5], "description": text, "schema": {"properties": properties}}
    form = {
        "title": every[4],
        "description": text,
        "steps": [
            step,
            {"schema": {"properties": {"last": {"type": "string", "title": every[6]}}}},
        ],
    }
    with stage.socket("asked") as socket:
        socket.ask("hello")
        watched = watch("/chat/asked/")
        live(watched.page)
        for tool, arguments in (
            ("ask_human", {"question": text}),
            ("request_user_input", form),
            ("ask_approval", {"title": every[3], "detail": text}),
        ):
            socket.send("message", text=f"call {tool} {json.dumps(arguments)}")
            card = socket.until("input.required")["data"]
            socket.until("turn.finished", status="waiting")
            number = card["interrupt_id"]
            watched.page.wait_for_selector(f"#hitl-{number}")
            watched.shows(plain if tool != "request_user_input" else plain[:20])
            watched.check()
            for path in ("/attention/", f"/chat/asked/hitl/{number}/", "/sessions/"):
                other = watch(path)
                other.check()
            answer = {"line": text, "area": text, "one": every[3], "many": every[:3], "last": text}
            value = {"ask_human": text, "ask_approval": "approve"}.get(tool, answer)
            socket.send("answer", interrupt_id=number, value=value)
            socket.ended()

    watched.page.wait_for_selector('#chat[data-turn="idle"]')
    open_all(watched.page)
    watched.check()
    watched.page.reload()
    live(watched.page)
    open_all(watched.page)
    watched.shows(plain)
    watched.fits()
    watched.check()


def test_errors_and_names_of_models_are_text(stage, watch):
    with stage.socket("errors") as socket:
        socket.ask("hello")
        watched = watch("/chat/errors/")
        live(watched.page)
        for number in range(0, len(stage.every), 3):
            socket.send("message", text=f"error {number}")
            socket.ended("failed")
        socket.send("message", text="hello", model=stage.plain[3])
        socket.ended()

    watched.page.wait_for_selector('#chat[data-turn="idle"]')
    watched.shows([stage.plain[number][:250] for number in range(0, 36, 3)])
    watched.page.click("#model-button")
    watched.page.wait_for_selector("#models [data-choose-model]")
    watched.shows(stage.plain, "#models")
    watched.check()
    watched.page.locator("#models [data-choose-model]").nth(4).click()
    watched.page.wait_for_timeout(200)
    watched.page.reload()
    live(watched.page)
    watched.shows([stage.plain[3]], "#model-button, #aside")
    watched.check()


def test_titles_are_text_in_every_list(stage, watch):
    with stage.server.client() as program:
        for number, payload in enumerate(stage.every):
            body = {"message": payload, "session_id": f"title-{number}"}
            assert program.post("/api/chat", json=body).status_code == 200
    watched = watch("/chat/title-3/")
    live(watched.page)

    titles = [payload[:60] for payload in stage.plain if not set("\u202e\u2028") & set(payload)]

    watched.shows(titles, "#sessions, .sessions, body")
    watched.check()
    for path in ("/sessions/", "/palette/", "/palette/?q=img", "/sessions/?q=script&show=mine"):
        watched.page.goto(path)
        watched.fits()
        watched.check()
    for payload in (stage.plain[3], stage.plain[5], stage.plain[32]):
        for path in ("/sessions/", "/palette/"):
            watched.page.goto(f"{path}?{httpx.QueryParams({'q': payload})}")
            watched.check()
    for action in ("rename", "delete", "menu", "export"):
        watched.page.goto(f"/chat/title-3/{action}/")
        watched.check()
    watched.page.goto("/chat/title-3/")
    live(watched.page)
    watched.page.keyboard.press("Control+k")
    watched.page.keyboard.type("img")
    watched.page.wait_for_timeout(500)
    watched.check()


def test_messages_on_their_way_are_text(stage, watch):
    text = "\n".join(stage.every)
    with stage.socket("queue") as socket:
        socket.send("message", text='call ask_human {"question": "wait"}')
        card = socket.until("input.required")["data"]
        socket.until("turn.finished", status="waiting")
        watched = watch("/chat/queue/")
        live(watched.page)
        socket.send("message", text=text)
        socket.send("steer", text=text)
        socket.settle()

        watched.page.locator("#pending", has_text="[39]").wait_for()

        watched.shows(stage.every, "#pending")
        watched.fits()
        watched.check()
        socket.send("dismiss", interrupt_id=card["interrupt_id"])
        socket.ended()
        watched.check()


@pytest.mark.parametrize("width", [1440, 390])
def test_a_first_page_and_a_refusal_are_text(stage, watch, width):
    watched = watch("/chat/", width=width)
    live(watched.page)
    watched.page.fill("#composer-text", f"/{stage.plain[3][:20]} {stage.plain[3]}")
    watched.page.keyboard.press("Enter")
    watched.page.wait_for_timeout(300)
    watched.check()

    for payload in (stage.plain[0], stage.plain[5], stage.plain[33]):
        answer = watched.page.request.get(f"/chat/{httpx.URL(path=payload).raw_path.decode()}/")
        assert answer.status == 404
        watched.page.set_content(answer.text())
        watched.page.wait_for_timeout(50)
        assert stage.canary.asked == []
        assert watched.dialogs == []


def test_the_admin_shows_text(stage, watch):
    lists = [
        *("journal/chatsession", "journal/turn", "journal/turnevent", "journal/interruption"),
        *("journal/queuedmessage", "tools_app/toolcall", "journal/agent"),
    ]
    text = "\n".join(stage.every)
    with stage.socket("admin") as socket:
        for payload in stage.plain:
            socket.ask(f"{payload}\ncall repeat {json.dumps({'text': text})}")
        socket.send("message", text=f"call ask_human {json.dumps({'question': text})}")
        socket.until("turn.finished", status="waiting")
        socket.send("message", text=text)
        socket.settle()
    watched = watch("/admin/")

    for name in lists:
        watched.page.goto(f"/admin/{name}/")
        watched.check()
        links = watched.page.locator("#result_list th a, #result_list td a")
        found = links.evaluate_all("(all) => all.map((a) => a.getAttribute('href'))")
        pages = [path for path in found if "/change/" in path]
        for path in pages[:: max(1, len(pages) // 12)]:
            watched.page.goto(path)
            watched.check()
        watched.page.goto(f"/admin/{name}/?{httpx.QueryParams({'q': stage.plain[3]})}")
        watched.check()

    watched.page.goto("/admin/journal/turn/?q=img")
    watched.shows([stage.plain[3]], "#result_list")
