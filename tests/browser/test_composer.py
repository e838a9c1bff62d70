"""The field: keys, drafts, commands, steering, the queue, stopping, recalling."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.browser.conftest import Chat, Console, OpenChat

pytestmark = pytest.mark.browser


def pending(chat: Chat) -> list[str]:
    """What waits above the field, as read: label, text, when."""
    return [" ".join(row.split()) for row in chat.page.locator(".pending__item").all_inner_texts()]


def wait_for_pending(chat: Chat, count: int) -> None:
    chat.page.wait_for_function(
        "(n) => document.querySelectorAll('.pending__item').length === n", arg=count
    )


def test_enter_sends_shift_enter_and_ctrl_enter_make_a_new_line(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.field.fill("reply one")
    opened.field.press("Shift+Enter")
    opened.field.press_sequentially("two")
    opened.field.press("Control+Enter")
    opened.field.press_sequentially("three")
    lines = opened.field.input_value()
    opened.field.press("Enter")
    opened.until_answered(1)

    assert lines == "reply one\ntwo\nthree"
    assert opened.page.inner_text(".msg--user .msg__body") == "reply one\ntwo\nthree"
    assert opened.field.input_value() == ""


def test_an_enter_that_ends_a_composition_does_not_send(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.field.fill("漢")

    opened.field.evaluate(
        "(e) => e.dispatchEvent(new KeyboardEvent('keydown',"
        " { key: 'Enter', isComposing: true, bubbles: true, cancelable: true }))"
    )
    opened.page.wait_for_timeout(200)

    assert opened.field.input_value() == "漢"
    assert opened.path() == "/chat/"


def test_a_double_click_on_send_is_one_message(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.ask("reply start")
    opened.field.fill("reply once")

    opened.page.get_by_role("button", name="Send", exact=True).dblclick()
    opened.until_answered(2)

    assert opened.page.locator(".msg--user").count() == 2


def test_two_posts_of_the_first_message_make_one_session(chat: OpenChat) -> None:
    opened = chat("/chat/")
    seen: list[str] = []

    def twice(route: Any) -> None:
        first = route.fetch()
        second = route.fetch()
        seen.extend([first.json()["url"], second.json()["url"]])
        route.fulfill(response=second)

    opened.page.route(
        "**/chat/", lambda r: twice(r) if r.request.method == "POST" else r.continue_()
    )
    opened.send("reply only me").until_answered(1)

    assert seen[0] == seen[1] == opened.path()
    assert opened.page.locator(".msg--user").count() == 1


def test_what_follows_the_first_message_at_once_comes_behind_it_in_its_session(
    chat: OpenChat,
) -> None:
    opened = chat("/chat/")

    def slowly(route: Any) -> None:
        opened.page.wait_for_timeout(400)
        route.continue_()

    opened.page.route(
        re.compile(r"/chat/$"),
        lambda r: slowly(r) if r.request.method == "POST" else r.continue_(),
    )
    for text in ("reply one", "reply two", "reply three"):
        opened.send(text)
    opened.until_answered(3)

    assert opened.answers == ["one", "two", "three"]
    opened.page.goto(f"{opened.url}/chat/")
    opened.ask("reply elsewhere")
    assert opened.answers == ["elsewhere"]


def test_a_draft_survives_navigation_and_reload_until_it_is_sent(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.ask("reply here")
    path = opened.path()
    opened.field.fill("reply not yet sent")

    opened.page.get_by_role("link", name="New session").click()
    opened.page.wait_for_url("**/chat/")
    elsewhere = opened.field.input_value()
    opened.goto(path)
    opened.page.reload()
    again = opened.field.input_value()
    opened.field.press("Enter")
    opened.until_answered(2)
    opened.page.reload()

    assert elsewhere == ""
    assert again == "reply not yet sent"
    assert opened.field.input_value() == ""


def test_a_post_that_fails_gives_the_text_back_with_the_reason(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.ask("reply start")
    opened.page.route("**/send/", lambda route: route.abort())

    opened.send("reply important")
    opened.page.wait_for_selector("#composer-problem:visible")
    kept, why = opened.field.input_value(), opened.page.inner_text("#composer-problem")
    opened.page.unroute("**/send/")
    opened.field.press("Enter")
    opened.until_answered(2)

    assert kept == "reply important"
    assert why == "Not sent: no connection to the server."
    assert opened.page.locator(".msg--user").count() == 2
    assert opened.page.locator("#composer-problem").is_hidden()


def test_what_was_typed_meanwhile_is_kept_behind_text_that_comes_back(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.ask("reply start")

    def refuse_late(route: Any) -> None:
        opened.field.press_sequentially("and this")
        route.fulfill(status=409, json={"detail": "not now"})

    opened.page.route("**/send/", refuse_late)
    opened.send("first")
    opened.page.wait_for_selector("#composer-problem:visible")

    assert opened.field.input_value() == "first\nand this"
    assert opened.page.inner_text("#composer-problem") == "Not now."


def test_long_text_in_the_field_scrolls_and_is_sent_as_it_is(chat: OpenChat) -> None:
    opened = chat("/chat/")

    opened.field.fill("reply ok\n" + "x" * 6000)
    box = opened.field.bounding_box()
    opened.field.press("Enter")
    opened.until_answered(1)

    assert box is not None
    assert box["height"] <= 900 * 0.41
    assert len(opened.page.inner_text(".msg--user .msg__body")) == 6009


def test_enter_steers_while_the_agent_works(chat: OpenChat, console: Console) -> None:
    opened = chat("/chat/")
    opened.send(
        f'call fetch_url {{"url": "{console.slow_site}/slow"}}\nthen say 5\nthen reply done'
    )
    opened.page.wait_for_selector(".tool--running")

    opened.send("shorter please")
    wait_for_pending(opened, 1)
    shown = pending(opened)
    opened.page.get_by_role("button", name="Cancel fetch_url").first.click()
    opened.page.wait_for_selector(".msg--user >> text=shorter please")
    wait_for_pending(opened, 0)
    opened.until("idle")

    assert shown == ["Steer shorter please next step"]
    steered = opened.page.locator(".msg--user", has_text="shorter please")
    assert "steered" in steered.inner_text()
    assert opened.page.locator(".msg").nth(2).get_attribute("id") == steered.get_attribute("id")


def test_alt_enter_queues_and_the_queue_can_be_edited_moved_and_withdrawn(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.send("say 4000 every 15 ms").until("working")
    for text in ("reply alpha", "reply beta", "reply gamma"):
        opened.send(text, "Alt+Enter")
    wait_for_pending(opened, 3)
    page = opened.page

    page.locator(".pending__item", has_text="gamma").get_by_label("Move up").click()
    page.wait_for_function(
        "() => document.querySelectorAll('.pending__text')[1].textContent === 'reply gamma'"
    )
    page.locator(".pending__item", has_text="beta").get_by_label("Withdraw message").click()
    wait_for_pending(opened, 2)
    page.locator(".pending__item", has_text="alpha").get_by_label("Edit message").click()
    in_field = opened.field.input_value()
    opened.send("reply omega")
    page.locator(".pending__text", has_text="omega").wait_for()
    shown = pending(opened)
    page.get_by_role("button", name="Stop", exact=True).click()
    opened.until("idle")
    held = pending(opened)
    page.get_by_role("button", name="Send now").click()
    opened.until_answered(3)

    assert in_field == "reply alpha"
    assert shown == ["Queue reply omega after this turn", "Queue reply gamma after this turn"]
    assert held == ["On hold reply omega kept", "On hold reply gamma kept"]
    assert opened.answers[-2:] == ["omega", "gamma"]
    assert opened.problems == []


def test_a_queued_message_can_be_sent_at_once_by_stopping_the_turn(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.send("say 2000 every 15 ms").until("working")
    opened.send("reply I was urgent", "Alt+Enter")
    opened.send("reply I was not", "Alt+Enter")
    wait_for_pending(opened, 2)

    opened.page.locator(".pending__item", has_text="urgent").get_by_label(
        "Stop the turn and send it"
    ).click()
    opened.until_answered(2)

    assert opened.answers[-1] == "I was urgent"
    assert pending(opened) == ["On hold reply I was not kept"]


def test_escape_twice_stops_and_the_partial_text_stays(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.send("say 2000 every 10 ms")
    opened.page.wait_for_selector(".prose__tail p")

    opened.field.press("Escape")
    opened.page.wait_for_timeout(150)
    after_one = opened.status
    hint = opened.page.inner_text("#announce")
    opened.field.press("Escape")
    opened.page.wait_for_selector(".msg__end", timeout=4000)

    assert after_one == "working"
    assert hint == "Press Esc again to stop the turn"
    assert re.match(r"Stopped by you, \d\d:\d\d", opened.page.inner_text(".msg__end"))
    assert opened.page.inner_text(".prose").startswith("0000 0001")
    opened.until("idle")


def test_arrow_up_recalls_the_last_message_or_edits_the_newest_that_waits(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.ask("reply recall me")
    opened.field.press("ArrowUp")
    recalled = opened.field.input_value()
    opened.send("say 2000 every 20 ms").until("working")
    opened.send("reply queued", "Alt+Enter")
    wait_for_pending(opened, 1)

    opened.field.press("ArrowUp")
    editing = opened.field.input_value()
    banner = opened.page.locator("#composer-edit").is_visible()
    opened.field.press("Escape")

    assert recalled == "reply recall me"
    assert (editing, banner) == ("reply queued", True)
    assert opened.page.locator("#composer-edit").is_hidden()
    assert opened.field.input_value() == ""
    assert opened.status == "working"
    opened.page.get_by_role("button", name="Stop", exact=True).click()
    opened.until("idle")


def test_the_menu_prefers_names_inserts_on_tab_and_keeps_unknown_commands(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.ask("reply start")
    page = opened.page

    opened.field.press_sequentially("/mo")
    chosen = page.get_attribute('#slash [aria-selected="true"]', "data-name")
    mentioned = page.locator(".composer__rest").is_visible()
    opened.field.press("Tab")
    inserted = opened.field.input_value()
    opened.send("/foo")
    page.wait_for_selector("#composer-problem:visible")
    kept, why = opened.field.input_value(), page.inner_text("#composer-problem")
    opened.send("/thme dark")
    page.locator("#composer-problem", has_text="/theme").wait_for()

    assert (chosen, mentioned, inserted) == ("model", True, "/model ")
    assert kept == "/foo"
    assert "no command /foo" in why
    assert page.locator(".msg--user").count() == 1
    assert page.get_attribute("#composer-text", "aria-activedescendant") is None


def test_commands_act_without_a_message(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.ask("reply start")
    page = opened.page

    opened.send("/theme dark ")
    page.wait_for_selector('html[data-theme="dark"]')
    opened.send("/rename Disks")
    page.locator("#session-title", has_text="Disks").wait_for()
    opened.send("/incognito on")
    page.wait_for_selector("#incognito-badge:visible")
    opened.send("/model fake-small")
    page.locator("[data-model]", has_text="fake-small").wait_for()
    opened.send("/help ")
    page.wait_for_selector("#keys[open]")
    page.keyboard.press("Escape")
    opened.send("/theme system")
    page.wait_for_selector("html:not([data-theme])")
    opened.send("/new ")
    page.wait_for_url("**/chat/")

    assert page.locator(".msg--user").count() == 0
    assert opened.problems == []


def test_models_can_be_chosen_from_their_menu(chat: OpenChat) -> None:
    opened = chat("/chat/")
    page = opened.page

    page.get_by_role("button", name=re.compile("^Model:")).click()
    page.wait_for_selector("[data-choose-model='fake-small']")
    page.keyboard.press("ArrowDown")
    page.locator("[data-choose-model='fake-small']").click()
    opened.ask("reply from the small one")
    page.reload()

    assert page.inner_text("[data-model]") == "fake-small"
    assert page.locator("#models").is_hidden()


def test_text_answers_the_open_question(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.send('call ask_human {"question": "Which host?"}\nthen reply thanks').until("waiting")
    page = opened.page
    button = page.locator(".composer__send-busy").inner_text()
    title = page.title()

    opened.send("nuc-01")
    opened.until_answered(1)

    assert button == "Answer"
    assert title.startswith("(1) ")
    assert not page.title().startswith("(")
    assert "nuc-01" in page.inner_text(".hitl--done")
    assert page.locator(".msg--user").count() == 1


def test_a_card_that_arrives_while_typing_takes_nothing_away(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.ask("reply start")
    opened.send('call ask_human {"question": "Which host?"}')
    opened.field.press_sequentially("I am still ", delay=20)
    opened.until("waiting")
    opened.field.press_sequentially("typing")

    assert opened.field.input_value() == "I am still typing"
    assert opened.page.evaluate("document.activeElement.id") == "composer-text"
    opened.page.locator("#announce", has_text="waiting for your answer: Which host?").wait_for()
    opened.page.evaluate("document.activeElement.blur()")
    opened.page.keyboard.press("w")
    opened.page.wait_for_selector("#attention[open] .attention__link")


def test_on_touch_enter_is_a_new_line_and_the_button_sends(chat: OpenChat) -> None:
    opened = chat("/chat/", width=390, height=844, has_touch=True, is_mobile=True)
    opened.field.fill("reply touched")

    opened.field.press("Enter")
    still = opened.field.input_value()
    opened.page.get_by_role("button", name="Send", exact=True).tap()
    opened.until_answered(1)

    assert still == "reply touched\n"
    assert opened.answers == ["touched"]
