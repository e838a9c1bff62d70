"""The frame: landing, navigation, palette, shortcuts, drawer, narrow screens, no complaints."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import Console, OpenChat

pytestmark = pytest.mark.browser

SIZES = [(1440, 900), (1100, 800), (900, 800), (390, 844), (320, 640)]
TARGETS = """() => [...document.querySelectorAll("a, button, summary, input, textarea, select")]
  .filter((e) => e.checkVisibility({ visibilityProperty: true }) && !e.closest(".vh, .skip, .prose, [inert]"))
  .map((e) => [e, e.getBoundingClientRect()])
  .filter(([, r]) => r.width && r.height && (r.height < 43.5 || r.width < 23.5))
  .map(([e, r]) => `${e.tagName}.${e.className} ${Math.round(r.width)}x${Math.round(r.height)}`)"""  # noqa: E501


def test_home_lands_on_what_waits_else_on_the_last_session(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.ask("reply latest")
    last = opened.path()

    opened.goto("/")
    landed = opened.path()
    opened.send('call ask_human {"question": "Where?"}').until("waiting")
    opened.goto("/")

    assert landed == last
    assert "#hitl-" in opened.page.url
    opened.page.get_by_role("button", name="Dismiss").click()
    opened.until("idle")


def test_moving_between_sessions_keeps_the_link_and_the_frame(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.ask("reply one")
    first = opened.path()
    page = opened.page
    sockets: list[str] = []
    page.on("websocket", lambda socket: sockets.append(socket.url))
    page.evaluate("window.kept = true")

    page.get_by_role("link", name="New session").click()
    page.wait_for_url("**/chat/")
    opened.ask("reply two")
    second = opened.path()
    page.locator(f"#session-list a[href='{first}']").click()
    page.wait_for_url(f"**{first}")
    page.wait_for_selector(".msg--user >> text=reply one")
    opened.ask("reply three")
    while_moving = len(sockets)
    page.go_back()
    page.wait_for_url(f"**{second}")
    page.wait_for_selector(".msg--user >> text=reply two")

    assert while_moving == 0
    assert page.locator('.nav__item[aria-current="page"]').inner_text().startswith("Chat")
    assert opened.problems == []


def test_the_palette_finds_and_runs(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.ask("reply zebra stripes")
    path = opened.path()
    opened.goto("/chat/")
    page = opened.page

    page.keyboard.press("Control+k")
    page.wait_for_selector("#palette-list [aria-selected=true]")
    page.keyboard.type("zebra")
    page.locator("#palette-list a", has_text="zebra").first.wait_for()
    page.locator("#palette-list [aria-selected=true]", has_text="zebra").wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{path}*")
    page.keyboard.press("Control+k")
    page.keyboard.type("light, dark")
    page.locator("#palette-list [data-command=theme]").click()
    page.wait_for_selector("html[data-theme]")

    assert not page.locator("#palette").is_visible()
    assert opened.problems == []


def test_single_keys_work_outside_of_fields_and_can_be_switched_off(chat: OpenChat) -> None:
    opened = chat("/chat/")
    page = opened.page
    page.locator("#log").focus()

    page.keyboard.press("?")
    page.wait_for_selector("#keys[open]")
    shown = page.locator("#keys").inner_text()
    page.get_by_label("Single-key shortcuts").uncheck()
    page.keyboard.press("Escape")
    page.wait_for_selector("#keys:not([open])", state="attached")
    page.keyboard.press("?")
    off = page.locator("#keys").is_visible()
    page.evaluate("localStorage.removeItem('singleKeys')")
    page.keyboard.press("c")
    page.keyboard.type("c?/w")

    assert "Jump to or run anything" in shown
    assert "/theme" in shown
    assert off is False
    assert opened.field.input_value() == "c?/w"


def test_keys_lead_to_search_new_sessions_neighbours_and_panels(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.ask("reply a")
    opened.goto("/chat/")
    opened.ask("reply b")
    page, here = opened.page, opened.path()
    page.locator("#log").focus()

    page.keyboard.press("/")
    searching = page.evaluate("document.activeElement.id")
    page.locator("#log").focus()
    page.keyboard.press("]")
    page.wait_for_function("(path) => location.pathname !== path", arg=here)
    page.locator("#log").focus()
    page.keyboard.press("n")
    page.wait_for_url("**/chat/")
    page.locator("#log").focus()
    page.keyboard.press("g")
    page.keyboard.press("c")
    page.wait_for_url(re.compile(r"/chat/s"))

    assert searching == "session-search"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_no_page_scrolls_sideways_at_any_width(
    chat: OpenChat, width: int, height: int, scheme: str
) -> None:
    opened = chat("/chat/", width=width, height=height, scheme=scheme)
    opened.ask(
        'call calculator {"expression": "2**10"}\nthen reply '
        + "averyverylongwordwithoutanyspace" * 6
    )

    wide = opened.page.evaluate("document.documentElement.scrollWidth")
    log = opened.page.evaluate(
        "() => { const l = document.querySelector('#log'); return l.scrollWidth - l.clientWidth; }"
    )

    assert wide <= width
    assert log <= 0
    assert opened.page.get_by_role("button", name="Send", exact=True).is_visible()
    assert opened.problems == []


def test_on_a_phone_the_chat_comes_first_and_the_drawer_keeps_the_focus(chat: OpenChat) -> None:
    opened = chat("/chat/", width=390, height=844, has_touch=True, is_mobile=True)
    page = opened.page
    closed = page.locator("#nav").is_visible()

    page.get_by_role("button", name="Open navigation").tap()
    page.wait_for_function("() => document.querySelector('#nav').contains(document.activeElement)")
    for _ in range(12):
        page.keyboard.press("Tab")
        assert page.evaluate("document.querySelector('#nav').contains(document.activeElement)")
    behind = page.evaluate("document.querySelector('#page').inert")
    page.keyboard.press("Escape")
    page.wait_for_function("() => !document.querySelector('#page').inert")

    assert (closed, behind) == (False, True)
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Open navigation"


def test_on_touch_no_target_is_small_and_no_field_zooms_the_page(chat: OpenChat) -> None:
    opened = chat("/chat/", width=390, height=844, has_touch=True, is_mobile=True)
    opened.field.fill('call calculator {"expression": "1+1"}\nthen reply ok')
    opened.page.get_by_role("button", name="Send", exact=True).tap()
    opened.until_answered(1)

    sizes = opened.page.evaluate(
        "() => [...document.querySelectorAll('input, textarea, select')]"
        ".filter((e) => e.checkVisibility()).map((e) => parseFloat(getComputedStyle(e).fontSize))"
    )

    assert opened.page.evaluate(TARGETS) == []
    assert min(sizes) >= 16


def test_with_little_height_the_send_button_is_fully_visible(chat: OpenChat) -> None:
    opened = chat("/chat/", width=390, height=500, has_touch=True, is_mobile=True)

    box = opened.page.get_by_role("button", name="Send", exact=True).bounding_box()

    assert box is not None
    assert box["y"] + box["height"] <= 500


def test_between_the_widths_the_list_is_a_sheet_and_the_details_a_drawer(chat: OpenChat) -> None:
    opened = chat("/chat/", width=1000, height=800)
    opened.ask("reply x")
    page = opened.page
    hidden = page.locator("#chat-list").is_visible()

    page.get_by_role("button", name="Sessions", exact=True).click()
    page.wait_for_selector("#chat-list[data-open] #session-search:focus")
    page.keyboard.press("Escape")
    page.wait_for_selector("#chat-list", state="hidden")
    page.locator("#log").focus()
    page.keyboard.press(".")
    page.wait_for_selector("#chat-aside[data-open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("#chat-aside", state="hidden")

    assert hidden is False


def test_the_details_stay_hidden_once_they_were_hidden(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.ask("reply x")
    page = opened.page

    page.get_by_role("button", name="Details", exact=True).click()
    page.wait_for_selector("#chat-aside", state="hidden")
    page.reload()
    after_reload = page.locator("#chat-aside").is_visible()
    page.locator("#log").focus()
    page.keyboard.press(".")
    page.wait_for_selector("#chat-aside", state="visible")

    assert after_reload is False


def test_what_waits_shows_at_the_bell_in_the_title_and_in_the_tab_icon(chat: OpenChat) -> None:
    opened = chat("/chat/")
    other = chat("/chat/", context=opened.page.context)
    opened.send('call ask_human {"question": "Which?"}').until("waiting")

    for one in (opened, other):
        one.page.wait_for_function("() => document.title.startsWith('(')")
        assert one.page.locator("[data-bell]").get_attribute("aria-label") != "Waiting on you: 0"
        assert "mark-dot" in str(one.page.get_attribute("#favicon", "href"))
    other.page.locator("#log").focus()
    other.page.keyboard.press("w")
    other.page.locator("#attention .attention__link", has_text="Which?").first.click()
    other.page.wait_for_url("**#hitl-*")

    other.page.get_by_role("button", name="Dismiss").first.wait_for()


def test_a_deleted_session_tells_its_page(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.ask("reply x")
    other = chat(opened.path(), context=opened.page.context)

    opened.page.locator("header [data-session-menu]").click()
    opened.page.get_by_text("Delete…").click()
    opened.page.get_by_role("button", name="Delete", exact=True).click()
    opened.page.wait_for_url(re.compile(r"/chat/\?deleted="))

    other.page.wait_for_function(
        "() => document.querySelector('#composer-text').placeholder.includes('deleted')"
    )


def test_a_session_that_is_ended_elsewhere_leads_to_the_sign_in_and_keeps_the_draft(
    chat: OpenChat, console: Console
) -> None:
    opened = chat("/chat/", own_session=True)
    opened.ask("reply x")
    opened.field.fill("a draft that must stay")

    elsewhere = chat("/account/", own_session=True, live=False)
    elsewhere.page.get_by_role("button", name="Sign out everywhere").click()
    console.state = None
    opened.page.wait_for_url("**/login/?next=*", timeout=10_000)

    assert opened.page.evaluate("Object.values(localStorage)") == ["a draft that must stay"]


def test_signing_out_of_this_browser_takes_its_drafts_along(chat: OpenChat) -> None:
    opened = chat("/chat/", own_session=True)
    opened.ask("reply x")
    opened.field.fill("a draft that must go")

    account = chat("/account/", context=opened.page.context, live=False)
    account.page.get_by_role("button", name="Sign out", exact=True).last.click()
    opened.page.wait_for_url("**/login/?next=*", timeout=10_000)

    assert opened.page.evaluate("Object.keys(localStorage)") == []


def test_without_a_link_the_page_asks_for_news(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.ask("reply with a link")
    opened.page.route_web_socket(re.compile(r"/ws/$"), lambda socket: socket.close(code=1011))
    opened.page.reload()
    opened.page.wait_for_selector("#link-banner:visible")

    opened.send("reply without one")
    opened.until_answered(2)

    assert opened.answers[-1] == "without one"
    assert opened.page.locator("#link-banner").is_visible()
    opened.page.unroute_all()
