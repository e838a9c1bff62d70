"""axe-core over every page and every state of the chat: light and dark, desk and phone.

The rules are those of WCAG 2.2 A and AA and axe's best practices; none is switched off.
Only colours depend on the theme, so the dark looks run that rule alone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Chat, Console, OpenChat
from tests.browser.test_attachments import attach, file, film, pick
from tests.browser.test_hitl import ask_approval, ask_form, ask_question, settled
from tests.console.steps import EVERY_KIND
from tests.uploads import pictures

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
ALL = {"type": "tag", "values": TAGS}
COLOURS = {"type": "rule", "values": ["color-contrast"]}
LOOKS = [("light", 1440, ALL), ("dark", 1440, COLOURS), ("dark", 390, COLOURS), ("light", 390, ALL)]

SIGNED_OUT = ["/login/", "/login/no-such-code/", "/login/?next=/admin/"]
PAGES = [
    "/chat/",
    "/sessions/",
    "/attention/",
    "/palette/",
    "/setup/",
    "/account/",
    "/chat/no-such-session/",
    "/no/such/page/",
]
COMPONENTS = [
    {"component": "table", "props": {"columns": ["Day", "€"], "rows": [["Mon", 1], ["Tue", 22]]}},
    {"component": "keyvalue", "props": {"items": [{"label": "Host", "value": "nuc-01"}]}},
    {
        "component": "timeline",
        "props": {
            "steps": [{"label": "Built", "state": "done"}, {"label": "Sent", "state": "todo"}]
        },
    },
]


# A spinner never ends; everything else that moves does.
STILL = """Promise.all(document.getAnimations()
    .filter((one) => one.effect.getComputedTiming().endTime !== Infinity)
    .map((one) => one.finished.catch(() => 0)))"""


class Axe:
    """Collects what axe-core says about a page in every look."""

    def __init__(self) -> None:
        self.found: dict[str, list[str]] = {}

    def look_at(self, state: str, page: Page) -> None:
        """Run the rules on the page as it stands, in the four looks; ends in the first one."""
        for scheme, width, rules in LOOKS:
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            page.set_viewport_size({"width": width, "height": 900})
            lines = _violations(page, rules)
            if lines:
                self.found[f"{state}, {scheme}, {width}"] = lines
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 1440, "height": 900})


def _violations(page: Page, rules: dict[str, Any]) -> list[str]:
    """One line for each element that breaks a rule, once nothing moves any more."""
    from axe_playwright_python.sync_playwright import Axe as Runner

    page.evaluate(STILL)
    options = {"runOnly": rules, "resultTypes": ["violations"]}
    return [
        f"{rule['id']}: {node['html'][:200]} — {node['failureSummary']}"
        for rule in Runner().run(page, options=options).response["violations"]
        for node in rule["nodes"]
    ]


@pytest.fixture
def axe() -> Axe:
    return Axe()


def test_every_page(chat: OpenChat, axe: Axe) -> None:
    opened = chat("/chat/")

    for path in PAGES:
        opened.page.goto(opened.url + path)
        axe.look_at(path, opened.page)

    assert axe.found == {}
    assert opened.problems == []


def test_the_pages_before_the_sign_in(browser: Browser, console: Console, axe: Axe) -> None:
    context = browser.new_context(service_workers="block")
    page = context.new_page()

    for path in SIGNED_OUT:
        page.goto(console.url + path)
        axe.look_at(path, page)
    page.goto(console.url + "/login/")
    page.get_by_label("Account").fill("nobody")
    page.get_by_label("Password", exact=True).fill("wrong")
    page.keyboard.press("Enter")
    page.get_by_role("alert").wait_for()
    axe.look_at("refused", page)
    context.close()

    assert axe.found == {}


def test_everything_an_answer_can_hold(chat: OpenChat, axe: Axe) -> None:
    opened = rich(chat("/chat/"))
    page = opened.page

    axe.look_at("folded", page)
    for summary in page.locator("#log details:not([open]) > summary").all():
        if summary.is_visible():
            summary.click()
    page.wait_for_load_state("networkidle")
    axe.look_at("unfolded", page)
    page.reload()
    axe.look_at("reloaded", page)

    assert axe.found == {}
    assert opened.problems == []


def rich(opened: Chat) -> Chat:
    """A session with Markdown, calls that worked and failed, components and files."""
    opened.ask("stream sample")
    for expression in ("2**10", "1/0", "+".join("1" * 200)):
        opened.ask("call calculator " + json.dumps({"expression": expression}))
    for component in COMPONENTS:
        opened.ask(f"call show_component {json.dumps(component)}\nthen reply shown")
    expect(opened.page.locator(".cmp")).to_have_count(len(COMPONENTS))
    attach(opened, file("cat.png", pictures.PNG), file("a.txt"))
    return opened.ask("reply seen")


def test_a_turn_at_work_with_what_is_queued_and_attached(
    chat: OpenChat, console: Console, axe: Axe, tmp_path: Path
) -> None:
    opened = chat("/chat/")
    page = opened.page

    opened.send("call fetch_url " + json.dumps({"url": console.slow_site}))
    page.wait_for_selector(".tool--running")
    opened.send("shorter please")
    opened.send("and then this", key="Alt+Enter")
    expect(page.locator(".pending__item")).to_have_count(2)
    attach(opened, file("cat.png", pictures.PNG), file("b.txt"))
    pick(opened, film(tmp_path))
    page.locator("#composer-files [data-state=failed], #composer-files .banner").first.wait_for()
    axe.look_at("working", page)
    expect(page.locator(".tool--running")).to_have_count(1)

    assert axe.found == {}
    assert opened.problems == []


def test_cards_that_ask(chat: OpenChat, console: Console, axe: Axe) -> None:
    opened = chat("/chat/")
    page = opened.page

    ask_question(opened)
    axe.look_at("question", page)
    page.goto(console.url + "/attention/")
    axe.look_at("what waits", page)
    page.go_back()
    page.get_by_role("button", name="Dismiss").click()
    opened.until("idle")
    card = ask_form(opened, EVERY_KIND)
    axe.look_at("form", page)
    card.get_by_role("button", name="Next").click()
    card.locator("[aria-invalid=true]").first.wait_for()
    axe.look_at("form with errors", page)
    page.get_by_role("button", name="Dismiss").click()
    opened.until("idle")
    ask_approval(console.server, opened.path().split("/")[2], session_allow=True)
    settled(page)
    axe.look_at("approval", page)

    assert axe.found == {}
    assert opened.problems == []


def test_what_opens_over_the_page(chat: OpenChat, axe: Axe) -> None:
    opened = chat("/chat/")
    opened.ask("reply one")
    page = opened.page

    page.keyboard.press("Control+k")
    page.wait_for_selector("#palette-list [aria-selected=true]")
    axe.look_at("palette", page)
    page.keyboard.press("Escape")
    page.locator("#log").focus()
    page.keyboard.press("?")
    page.wait_for_selector("#keys[open]")
    axe.look_at("keys", page)
    page.keyboard.press("Escape")
    opened.field.fill("/")
    page.locator("[role=listbox] [role=option]").first.wait_for()
    axe.look_at("slash menu", page)
    opened.field.fill("")
    page.locator("#session-list [data-session-menu]").first.click()
    page.locator("#session-pop .menu__item").first.wait_for()
    axe.look_at("session menu", page)

    assert axe.found == {}
    assert opened.problems == []


def test_the_drawer_of_a_phone(chat: OpenChat, axe: Axe) -> None:
    opened = chat("/chat/", width=390)
    page = opened.page

    page.get_by_role("button", name="Open navigation").click()
    page.wait_for_function("() => document.querySelector('#nav').contains(document.activeElement)")

    assert _violations(page, ALL) == []
