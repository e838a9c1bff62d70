"""Following the end, leaving it, coming back; links to messages; older pages."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import Chat, Console, OpenChat

pytestmark = pytest.mark.browser

GAP = "() => { const l = document.querySelector('#log'); return l.scrollHeight - l.scrollTop - l.clientHeight; }"  # noqa: E501
TOP = "() => document.querySelector('#log').scrollTop"


def long_session(chat: OpenChat, turns: int = 4) -> Chat:
    opened = chat("/chat/", height=700)
    for _ in range(turns):
        opened.ask("say 400")
    return opened


def turn_wheel(chat: Chat, by: int) -> None:
    box = chat.page.locator("#log").bounding_box()
    assert box is not None
    chat.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    chat.page.mouse.wheel(0, by)
    chat.page.wait_for_timeout(250)


def test_the_end_is_followed_until_the_wheel_turns_up_and_latest_brings_it_back(
    chat: OpenChat,
) -> None:
    opened = long_session(chat)
    page = opened.page
    opened.send("say 900 every 8 ms")
    page.wait_for_selector(".prose__tail p")
    page.wait_for_timeout(600)
    following = page.evaluate(GAP)

    turn_wheel(opened, -500)
    top = page.evaluate(TOP)
    page.wait_for_timeout(1200)
    still = page.evaluate(TOP)
    button = page.locator(".chat__jump")
    was_offered = button.is_visible()
    button.click()
    page.wait_for_timeout(300)
    back = page.evaluate(GAP)
    opened.until("idle")

    assert following < 2
    assert abs(still - top) < 1
    assert was_offered
    assert back < 2
    assert page.evaluate(GAP) < 2
    assert button.is_hidden()


def test_scrolling_back_to_the_end_follows_again(chat: OpenChat) -> None:
    opened = long_session(chat)
    opened.send("say 900 every 8 ms")
    opened.page.wait_for_selector(".prose__tail p")

    turn_wheel(opened, -400)
    turn_wheel(opened, 4000)
    opened.page.wait_for_timeout(700)
    gap = opened.page.evaluate(GAP)
    opened.page.get_by_role("button", name="Stop", exact=True).click()
    opened.until("idle")

    assert gap < 2


@pytest.mark.parametrize("key", ["PageUp", "Home", "ArrowUp"])
def test_keys_that_lead_up_stop_following(chat: OpenChat, key: str) -> None:
    opened = long_session(chat, 2)
    opened.page.locator("#log").focus()

    opened.page.keyboard.press(key)
    opened.page.wait_for_timeout(400)
    top = opened.page.evaluate(TOP)
    opened.page.evaluate(
        "() => { const p = document.createElement('p'); p.textContent = 'more '.repeat(2000);"
        " document.querySelector('#stream').append(p); }"
    )
    opened.page.wait_for_timeout(200)

    assert abs(opened.page.evaluate(TOP) - top) < 1


def test_sending_follows_again(chat: OpenChat) -> None:
    opened = long_session(chat, 2)
    turn_wheel(opened, -600)

    opened.ask("say 300")

    assert opened.page.evaluate(GAP) < 2


def test_blocks_that_arrive_below_are_counted(chat: OpenChat, console: Console) -> None:
    console.gateway.texts["blocks"] = "".join(f"paragraph {n}\n\n" for n in range(40))
    opened = long_session(chat)
    opened.send("stream blocks every 60 ms")
    opened.page.wait_for_selector(".prose__tail p")

    turn_wheel(opened, -500)
    opened.until_answered(5)

    label = opened.page.locator(".chat__jump").get_attribute("aria-label")
    assert re.fullmatch(r"Latest, \d+ new", str(label))


def test_a_link_to_an_old_message_opens_there_and_does_not_follow(chat: OpenChat) -> None:
    opened = long_session(chat, 3)
    first = opened.page.locator(".msg--user").first.get_attribute("id")

    opened.goto(f"{opened.path()}#{first}")
    opened.page.wait_for_selector(f"#{first}.is-target")
    box = opened.page.locator(f"#{first}").bounding_box()
    log = opened.page.locator("#log").bounding_box()

    assert box is not None
    assert log is not None
    assert log["y"] - 5 <= box["y"] < log["y"] + 120
    assert opened.page.evaluate(GAP) > 100


def test_a_link_to_a_message_that_is_not_on_the_page_loads_the_page_around_it(
    chat: OpenChat,
) -> None:
    opened = chat("/chat/")
    opened.ask("reply the very first")
    path, first = opened.path(), opened.page.locator(".msg--user").get_attribute("id")
    _talk(opened, 34)
    opened.goto(path)
    assert opened.page.locator(f"#{first}").count() == 0

    opened.page.goto(f"{opened.url}{path}#{first}")
    opened.page.wait_for_url("**at=*")
    opened.page.wait_for_selector(f"#{first}.is-target")
    opened.page.get_by_role("link", name="Show later messages").wait_for(state="attached")
    opened.page.locator(".chat__jump").click()
    opened.page.wait_for_url(f"**{path}")

    assert opened.page.locator(f"#{first}").count() == 0


def _talk(chat: Chat, turns: int) -> None:
    """Many short turns, posted one after the other."""
    for number in range(turns):
        chat.page.evaluate(
            """async ([url, text]) => {
              const token = document.cookie.match(/protoagent_csrf=([^;]+)/)[1];
              const client_id = crypto.randomUUID();
              const body = new URLSearchParams({ text, mode: "turn", client_id });
              await fetch(url, { method: "POST", body,
                headers: { "X-CSRFToken": token, Accept: "application/json" } });
            }""",
            [f"{chat.path()}send/", f"reply number {number}"],
        )
        chat.page.wait_for_function(
            "(n) => document.querySelectorAll('.msg--agent > .msg__actions:not([hidden])').length"
            " >= n",
            arg=number + 2,
        )


def test_older_messages_come_above_without_moving_the_view(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.ask("reply the very first")
    path = opened.path()
    _talk(opened, 36)
    opened.goto(path)
    page = opened.page
    for _ in range(3):  # what comes into view for the first time grows to its real height
        turn_wheel(opened, -100_000)
    first = page.locator(".msg").first.get_attribute("id")
    before = page.locator(f"#{first}").bounding_box()

    page.get_by_role("link", name="Show earlier messages").click()
    page.wait_for_function("() => document.querySelectorAll('.msg').length > 60")
    page.wait_for_timeout(200)
    after = page.locator(f"#{first}").bounding_box()

    assert before is not None
    assert after is not None
    assert abs(after["y"] - before["y"]) < 2
    assert page.locator(".msg").count() == 74
    assert page.locator(".chat__day").count() == 1
    assert page.locator("#older").count() == 0
    assert opened.problems == []


def test_a_page_that_grows_for_ever_leaves_its_oldest_messages_out(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.ask("reply start")
    page = opened.page
    page.evaluate(
        """() => {
          const stream = document.querySelector("#stream");
          const copy = stream.querySelector(".msg--user");
          for (let i = 0; i < 320; i++) {
            const one = copy.cloneNode(true);
            one.id = `m-${9000 + i}`;
            stream.append(one);
          }
        }"""
    )

    opened.send("reply and one more")
    page.wait_for_selector(".msg--agent >> text=and one more")
    opened.until("idle")

    count = page.locator("#stream > .msg").count()
    assert count < 320
    assert page.locator("#stream > #older").count() == 1
    assert "before=m-" in str(page.get_attribute("#older", "href"))
