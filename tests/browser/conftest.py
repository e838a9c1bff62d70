"""One console with a scripted model for the whole run, and pages that are signed in to it."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.fakes import gateway as fake_gateway
from tests.fakes import http_server
from tests.fakes.gateway import Gateway
from tests.services import shared
from tests.services.chromium import Watch, sign_in
from tests.services.servers import Server, servers

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

CSP_WATCH = (
    "addEventListener('securitypolicyviolation', (e) =>"
    " console.error(`CSP ${e.violatedDirective} ${e.blockedURI} ${e.sample}`))"
)

ANSWERED = ".msg--agent > .msg__actions:not([hidden])"


@dataclass
class Console:
    """The server, the model it asks, and a web site that takes its time."""

    server: Server
    gateway: Gateway
    slow_site: str
    state: dict[str, Any] | None = None

    @property
    def url(self) -> str:
        return self.server.url


async def _slow(request: http_server.Request, reply: http_server.Reply) -> None:
    """Answers after 30 seconds: what a running call waits for."""
    import asyncio

    await asyncio.sleep(30)
    reply.json({"ok": True})


def environment(gateway: Gateway) -> dict[str, str]:
    return {
        "PROTOAGENT__MODEL__PROVIDER": "openai",
        "PROTOAGENT__MODEL__API_BASE": gateway.base,
        "PROTOAGENT__MODEL__NAME": "fake-model",
        "PROTOAGENT__IDENTITY__NAME": "atlas",
        "PROTOAGENT__EGRESS__ALLOWED_HOSTS": json.dumps(["127.0.0.1"]),
    }


@pytest.fixture(scope="session")
def console() -> Iterator[Console]:
    """A running console, the same for all browser tests."""
    with contextlib.ExitStack() as stack:
        gateway = stack.enter_context(fake_gateway.running())
        slow_site = stack.enter_context(http_server.in_thread(_slow))
        make = stack.enter_context(servers())
        yield Console(make(env=environment(gateway)), gateway, slow_site)


@dataclass
class Chat:
    """What a person does on the chat page."""

    page: Page
    url: str
    watch: Watch = field(default_factory=Watch)

    @property
    def field(self) -> Locator:
        return self.page.get_by_label("Message to atlas")

    @property
    def status(self) -> str:
        """What the session does: idle, working, waiting …"""
        return str(self.page.get_attribute("#chat", "data-turn"))

    @property
    def answers(self) -> list[str]:
        """The text of the agent's messages."""
        return self.page.locator(".msg--agent .msg__flow").all_inner_texts()

    @property
    def problems(self) -> list[str]:
        """Console errors, exceptions and refused loads.

        Without what a test provokes itself, and without requests that leaving a page ends.
        """
        expected = re.compile(
            r"status of (4\d\d|0)|ERR_|WebSocket connection|htmx:(afterRequest|sendAbort)"
        )
        return [problem for problem in self.watch.problems if not expected.search(problem)]

    def goto(self, path: str) -> Chat:
        self.page.goto(self.url + path)
        self.page.wait_for_selector('#link-state[data-state="live"]')
        return self

    def send(self, text: str, key: str = "Enter") -> Chat:
        self.field.fill(text)
        self.field.press(key)
        return self

    def ask(self, text: str) -> Chat:
        """Send a message and wait for the end of its turn."""
        before = self.page.locator(ANSWERED).count()
        return self.send(text).until_answered(before + 1)

    def until_answered(self, count: int) -> Chat:
        """The page shows `count` answers, all of them finished, and the session is idle."""
        self.page.wait_for_function(
            "([wanted, n]) => document.querySelectorAll(wanted).length >= n", arg=[ANSWERED, count]
        )
        return self.until("idle")

    def until(self, status: str) -> Chat:
        self.page.wait_for_selector(f'#chat[data-session][data-turn="{status}"]')
        return self

    def path(self) -> str:
        return self.page.url.removeprefix(self.url).partition("#")[0]


OpenChat = Callable[..., Chat]


@pytest.fixture
def chat(browser: Browser, console: Console) -> Iterator[OpenChat]:
    """`chat("/chat/", width=1440, height=900, scheme="light", context=…)` → Chat, signed in."""
    contexts: list[Any] = []

    def open_one(
        path: str = "/chat/",
        *,
        width: int = 1440,
        height: int = 900,
        scheme: str = "light",
        context: Any = None,
        server: Server | None = None,
        live: bool = True,
        own_session: bool = False,
        **options: Any,
    ) -> Chat:
        place = server or console.server
        if context is None:
            is_shared = server is None and not own_session
            state = console.state if is_shared else None
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme=scheme,
                timezone_id="Europe/Paris",
                service_workers="block",
                storage_state=state,
                **options,
            )
            context.set_default_timeout(15_000)
            contexts.append(context)
            if state is None:
                sign_in(context, place)
                if is_shared:
                    console.state = context.storage_state()
        page = context.new_page()
        opened = Chat(page, place.url)
        opened.watch.attach(page)
        page.add_init_script(CSP_WATCH)
        page.goto(place.url + path)
        if live:
            page.wait_for_selector('#link-state[data-state="live"]', state="attached")
        return opened

    yield open_one
    for context in contexts:
        context.close()
    _end_all_turns(console.server)


def _end_all_turns(server: Server) -> None:
    """Nothing works or waits any more: what one test asks is no other test's question."""
    active = (
        "SELECT s.key FROM journal_chatsession s JOIN journal_turn t ON t.session_id = s.id"
        " WHERE t.status IN ('queued', 'running', 'waiting') AND s.deleted_at IS NULL"
    )
    with server.client() as client:
        for (key,) in server.query(active):
            client.post(f"/api/chat/sessions/{key}/stop")
    shared.wait_until(lambda: not server.query(active), 10, 0.05)
