"""Debian's Chromium, driven by Playwright against a real server.

Browser tests are plain (not async) functions: Playwright's synchronous driver owns
the event loop of the thread while a module's browser is open.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tests.services import shared
from tests.services.servers import Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    # Nothing but this machine resolves, so a page that calls out is seen to fail.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
]


def find_browser() -> str | None:
    """The path of a Chromium on this machine; PROTOAGENT_TEST_BROWSER names another."""
    named = os.environ.get("PROTOAGENT_TEST_BROWSER")
    if named:
        return named
    on_path = next((path for name in NAMES if (path := shutil.which(name))), None)
    return on_path or (MAC if os.path.exists(MAC) else None)  # noqa: PTH110


@dataclass
class Watch:
    """What a page complained about: console errors, uncaught exceptions, refused requests."""

    problems: list[str] = field(default_factory=list)

    def attach(self, page: Page) -> None:
        """Record every complaint of `page` from now on."""
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.problems.append(f"uncaught: {error}"))

    def _console(self, message: Any) -> None:
        if message.type == "error":
            self.problems.append(f"console: {message.text}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium for the tests of one module."""
    path = find_browser()
    if path is None or importlib.util.find_spec("playwright") is None:
        shared.lacking("Chromium", "apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield chromium
        chromium.close()


PageFactory = Callable[..., "Page"]


@pytest.fixture
def open_page(browser: Browser) -> Iterator[PageFactory]:
    """`open_page(server, "/chat/", signed_in=True, width=1440, height=900, scheme="light")` → Page.

    Each page has a context (cookies, storage) of its own unless `context` is given.
    `page.watch.problems` collects console errors and uncaught exceptions.
    """
    contexts: list[Any] = []

    def open_one(
        server: Server,
        path: str = "/",
        *,
        signed_in: bool = True,
        width: int = 1440,
        height: int = 900,
        scheme: Literal["light", "dark"] = "light",
        context: Any = None,
        **options: Any,
    ) -> Page:
        if context is None:
            context = browser.new_context(
                base_url=server.url,
                viewport={"width": width, "height": height},
                color_scheme=scheme,
                service_workers="block",
                **options,
            )
            context.set_default_timeout(10_000)
            contexts.append(context)
            if signed_in:
                sign_in(context, server)
        page = context.new_page()
        page.watch = Watch()
        page.watch.attach(page)
        page.goto(server.url + path)
        return page

    yield open_one
    for context in contexts:
        context.close()


def sign_in(context: Any, server: Server) -> None:
    """The context holds the operator's session, made through a new one-time link."""
    printed = server.manage("login-link")
    link = next(word for word in printed.stdout.split() if "/login/" in word)
    page = context.new_page()
    page.goto(link)
    page.get_by_role("button").first.click()
    page.wait_for_url(lambda url: "/login/" not in url)
    page.close()
