"""The page about the model, as a newcomer walks over it: from the empty chat and back."""

from __future__ import annotations

import pytest

from protoagent.core import clock
from tests.fakes import gateway as fake_gateway
from tests.services.servers import Server

pytestmark = pytest.mark.browser


@pytest.fixture
def fresh(make_server) -> Server:
    """A server that nobody has configured."""
    return make_server()


def test_a_newcomer_connects_a_model_with_the_lines_of_the_page(fresh, open_page):
    with fake_gateway.running() as gateway:
        page = open_page(fresh, "/chat/", permissions=["clipboard-read", "clipboard-write"])
        page.get_by_role("link", name="Set up a model").click()
        page.get_by_role("heading", name="Model setup").wait_for()
        page.get_by_text("What answers is a stand-in that is built in").wait_for()
        page.get_by_role("button", name="Test the connection").click()
        page.locator("#setup-test .banner--warn", has_text="No model is connected").wait_for()

        page.get_by_role("button", name="Copy the lines for config.yaml").first.click()
        page.locator(".code__copy[data-done]").wait_for()
        lines = page.evaluate("navigator.clipboard.readText()")
        mine = lines.replace("http://127.0.0.1:4000/v1", gateway.base)
        (fresh.home / "config.yaml").write_text(mine.replace("name-of-the-model", "fake-model"))
        until_used(fresh, "fake-model")
        page.get_by_role("button", name="Test the connection").click()

        page.get_by_text("answers and has fake-model").wait_for()
        assert page.url == f"{fresh.url}/setup/"
        page.go_back()
        page.get_by_label("Message to protoagent").fill("reply connected")
        page.keyboard.press("Enter")
        page.locator(".msg--agent", has_text="connected").wait_for()
        assert page.watch.problems == []


def until_used(server: Server, name: str) -> None:
    """The server has seen the change of its file."""
    give_up_at = clock.monotonic() + 10
    with server.client() as program:
        while program.get("/api/runtime/status").json()["model"] != name:
            assert clock.monotonic() < give_up_at


def test_the_page_works_without_script_and_on_a_phone(fresh, open_page):
    page = open_page(fresh, "/chat/", width=390, height=844)
    state = page.context.storage_state()

    plain = open_page(
        fresh, "/setup/", signed_in=False, width=390, java_script_enabled=False, storage_state=state
    )
    plain.get_by_role("button", name="Test the connection").click()

    plain.locator("#setup-test [role=status]", has_text="No model is connected").wait_for()
    assert plain.locator("h1").inner_text() == "Model setup"
    page.goto(f"{fresh.url}/setup/")
    wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert page.evaluate(wide) is False
    assert page.watch.problems == []
