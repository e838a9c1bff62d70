"""Light, dark, as the system has it: without a flash, in every tab, on every page."""

from __future__ import annotations

import pytest

from tests.browser.conftest import OpenChat

pytestmark = pytest.mark.browser

BACKGROUND = "getComputedStyle(document.body).backgroundColor"
LIGHT, DARK = "rgb(246, 245, 241)", "rgb(18, 19, 22)"


@pytest.mark.parametrize(("scheme", "colour"), [("light", LIGHT), ("dark", DARK)])
def test_without_a_choice_the_system_decides(chat: OpenChat, scheme: str, colour: str) -> None:
    opened = chat("/chat/", scheme=scheme)

    assert opened.page.evaluate(BACKGROUND) == colour


def test_a_choice_is_in_the_html_of_the_next_page_and_in_other_tabs(chat: OpenChat) -> None:
    opened = chat("/chat/", scheme="light")
    other = chat("/chat/", context=opened.page.context)
    button = opened.page.get_by_role("button", name="Switch theme")

    with opened.page.expect_response("**/me/theme/"):
        button.click()
    with opened.page.expect_response("**/me/theme/"):
        button.click()
    other.page.wait_for_selector('html[data-theme="dark"]')
    html = opened.page.context.request.get(f"{opened.url}/chat/").text()

    assert opened.page.evaluate(BACKGROUND) == DARK
    assert '<html lang="en" data-theme="dark"' in html
    assert opened.page.get_by_role("button", name="Theme: dark").count() == 1
    opened.page.reload()
    assert opened.page.evaluate(BACKGROUND) == DARK
    assert opened.problems == []


def test_a_dark_page_is_dark_from_its_first_paint(chat: OpenChat) -> None:
    opened = chat("/chat/", scheme="light")
    with opened.page.expect_response("**/me/theme/"):
        opened.send("/theme dark ")
    opened.page.add_init_script(
        "document.addEventListener('readystatechange', () => {"
        " (window.colours ??= []).push(document.documentElement.dataset.theme); })"
    )

    opened.page.reload()

    assert set(opened.page.evaluate("window.colours")) == {"dark"}
