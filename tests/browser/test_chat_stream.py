"""Turns in a real browser: streamed, cut off, reloaded, watched twice, never lost or doubled."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Chat, Console, OpenChat, environment
from tests.services.servers import ServerFactory

pytestmark = pytest.mark.browser

NORMAL = """() => {
  const copy = document.querySelector("#stream").cloneNode(true);
  for (const one of copy.querySelectorAll("time[data-since]")) one.textContent = "";
  for (const one of copy.querySelectorAll("*")) {
    for (const name of ["open", "data-settling"]) one.removeAttribute(name);
    one.className = [...one.classList].filter((c) => c !== "is-target").join(" ");
    if (!one.getAttribute("class")) one.removeAttribute("class");
  }
  for (const one of copy.querySelectorAll(".tool__body")) one.replaceChildren();
  return copy.innerHTML.replace(/>\\s+</g, "><").trim();
}"""


def watch(page: Page, body: str, selector: str = "#stream") -> None:
    """Run the script `body` whenever something below `selector` changes; `seen` is a list."""
    page.evaluate(
        f"""() => {{
          const seen = window.seen = [];
          const all = (wanted) => [...document.querySelectorAll(wanted)];
          const [last, count] = [(wanted) => all(wanted).at(-1), (wanted) => all(wanted).length];
          const look = () => {{ {body} }};
          const kinds = {{ childList: true, subtree: true, characterData: true, attributes: true }};
          new MutationObserver(look).observe(document.querySelector("{selector}"), kinds);
        }}"""
    )


def assert_same_after_reload(chat: Chat) -> None:
    """The page that grew is the page that the server renders."""
    grown = chat.page.evaluate(NORMAL)
    chat.page.reload()
    chat.page.wait_for_selector('#link-state[data-state="live"]')
    rendered = chat.page.evaluate(NORMAL)
    first = next((i for i, (a, b) in enumerate(zip(grown, rendered, strict=False)) if a != b), 0)
    around = slice(max(0, first - 200), first + 200)
    assert grown == rendered, f"grown:\n{grown[around]}\nrendered:\n{rendered[around]}"


def test_a_message_appears_and_its_answer_streams(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.ask("reply hello there")
    page = opened.page

    watch(page, "if (count('.msg--user') > 1) window.shownAt ??= performance.now();")
    opened.field.fill("say 40 every 20 ms")
    began = page.evaluate("performance.now()")
    opened.field.press("Enter")
    page.wait_for_selector(".composer__stop:visible")
    page.wait_for_selector(".prose__tail p")
    took = page.evaluate("window.shownAt") - began
    opened.until("idle")

    assert took < 1000  # 100 ms on a machine of one's own
    assert page.locator(".composer__stop").is_hidden()
    assert opened.answers[-1].split() == [f"{n:04d}" for n in range(40)]
    assert opened.problems == []


def test_markdown_is_rendered_while_it_streams_and_no_raw_mark_is_ever_seen(
    chat: OpenChat,
) -> None:
    opened = chat("/chat/")
    opened.ask("reply hi")
    page = opened.page
    watch(page, "const flow = last('.msg__flow'); if (flow) seen.push(flow.textContent);")

    opened.ask("stream sample every 40 ms")

    seen = page.evaluate("window.seen")
    assert len(seen) > 6
    assert not [text for text in seen if "`" in text or "**" in text or "](" in text]
    answer = page.locator(".msg--agent").last
    assert answer.locator("h3").inner_text() == "A sample answer"
    assert answer.locator("strong").first.inner_text() == "bold"
    assert answer.locator("ol > li").count() == 2
    assert answer.locator(".code .k").first.inner_text() == "def"
    assert answer.locator(".prose__table td.num").inner_text() == "3.14"
    assert_same_after_reload(opened)


def test_a_reload_in_the_middle_of_a_turn_goes_on_without_loss_or_repeat(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.send("say 300 every 8 ms")
    page = opened.page
    page.wait_for_selector(".prose__tail p")

    for _ in range(4):
        page.wait_for_timeout(300)
        page.reload()
    opened.until("idle")

    assert opened.answers[-1].split() == [f"{n:04d}" for n in range(300)]
    assert_same_after_reload(opened)


def test_a_link_that_is_cut_ten_times_loses_nothing_and_shows_no_banner(chat: OpenChat) -> None:
    opened = chat("/chat/")
    page = opened.page
    page.route_web_socket(re.compile(r"/ws/$"), _cut_after_a_moment)
    page.reload()
    opened.send("say 400 every 10 ms")
    page.wait_for_selector("#chat[data-session]")
    watch(page, "if (!last('#link-banner').hidden) seen.push('banner');", "#link-banner")

    opened.until("idle")
    page.wait_for_timeout(500)

    assert opened.answers[-1].split() == [f"{n:04d}" for n in range(400)]
    assert page.evaluate("window.seen") == []
    assert len(_cuts) >= 5


_cuts: list[float] = []


def _cut_after_a_moment(route) -> None:  # type: ignore[no-untyped-def]
    server = route.connect_to_server()
    count = {"frames": 0}

    def passed(message: str) -> None:
        count["frames"] += 1
        route.send(message)
        if count["frames"] == 12 and len(_cuts) < 10:
            _cuts.append(time.monotonic())
            route.close(code=1012)

    server.on_message(passed)


def test_two_tabs_show_the_same_and_a_message_sent_in_one_stands_once_in_both(
    chat: OpenChat,
) -> None:
    first = chat("/chat/")
    first.ask("reply start")
    second = chat(first.path(), context=first.page.context)

    first.send("stream sample every 15 ms")
    first.until_answered(2)
    second.until_answered(2)

    assert first.page.evaluate(NORMAL) == second.page.evaluate(NORMAL)
    assert second.page.locator(".msg--user").count() == 2


def test_a_turn_goes_on_when_its_only_page_is_closed(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.send("say 120 every 10 ms")
    opened.page.wait_for_selector(".prose__tail p")
    path = opened.path()
    opened.page.close()

    time.sleep(1.5)
    again = chat(path).until("idle")

    assert again.answers[-1].split() == [f"{n:04d}" for n in range(120)]


def test_a_server_that_comes_back_is_found_again_and_nothing_is_lost(
    chat: OpenChat, console: Console, make_server: ServerFactory
) -> None:
    server = make_server(env=environment(console.gateway))
    opened = chat("/chat/", server=server)
    opened.ask("reply before")
    page = opened.page

    server.stop()
    page.wait_for_selector("#link-banner:visible")
    page.wait_for_function(
        "() => /Next try in|Trying/.test(document.querySelector('#link-banner').textContent)"
    )
    while_down = page.inner_text("#link-state")
    opened.send("reply typed while it was down")
    page.wait_for_selector("#composer-problem:visible")
    kept = opened.field.input_value()
    server.start()
    page.wait_for_selector('#link-state[data-state="live"]', timeout=30_000)
    page.wait_for_selector("#link-banner", state="hidden")
    opened.field.press("Enter")
    opened.until_answered(2)

    assert while_down in ("Reconnecting", "Offline")
    assert kept == "reply typed while it was down"
    assert opened.answers[-1] == "typed while it was down"


def test_six_tools_with_a_failure_become_one_line(chat: OpenChat) -> None:
    opened = chat("/chat/")

    opened.ask(
        'parallel 5 calculator {"expression": "2 ** 10"}\n'
        'then call calculator {"expression": "1/0"}\nthen reply done'
    )

    page = opened.page
    summary = page.locator(".work > summary")
    assert re.fullmatch(r"Worked .* · 6 tools\s*1 failed", summary.inner_text().strip())
    assert page.locator(".tool").first.is_hidden()
    summary.click()
    assert page.locator(".tool:visible").count() == 6
    failed = page.locator(".tool--error")
    assert "division by zero" in failed.locator(".tool__arg").inner_text()
    failed.locator("summary").click()
    page.wait_for_selector(".tool--error .tool__loaded")
    assert "1/0" in failed.inner_text()
    assert_same_after_reload(opened)


def test_a_running_call_counts_its_seconds_and_can_be_cancelled(
    chat: OpenChat, console: Console
) -> None:
    opened = chat("/chat/")
    opened.send(f'call fetch_url {{"url": "{console.slow_site}/slow"}}\nthen reply I was told')
    page = opened.page
    page.wait_for_selector(".tool--running")
    page.locator(".tool--running time", has_text=re.compile("0:0[1-9]")).wait_for()

    page.get_by_role("button", name="Cancel fetch_url").first.click()
    page.wait_for_selector(".tool--cancelled")
    opened.until("idle")

    assert "cancelled by you" in page.inner_text(".tool--cancelled .tool__time")
    assert "I was told" in opened.answers[-1]
    assert_same_after_reload(opened)


def test_an_opened_call_stays_open_while_the_turn_goes_on(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.send('call calculator {"expression": "6*7"}\nthen say 60 every 30 ms\n')
    page = opened.page
    page.wait_for_selector(".tool--ok")
    page.locator(".tool--ok summary").click()
    page.wait_for_selector(".tool__loaded")

    opened.until("idle")

    assert page.locator(".tool__loaded").is_visible()
    assert "6*7 = 42" in page.inner_text(".tool__out")


def _show(verb: str, component: str, **props: Any) -> str:
    return f"{verb} show_component {json.dumps({'component': component, 'props': props})}"


def test_components_are_shown_and_a_table_copies_as_csv(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.page.context.grant_permissions(["clipboard-read", "clipboard-write"])

    opened.ask(
        "\n".join(
            [
                _show("call", "table", columns=["Disk", "Note"], rows=[["sda", 'a, "b"']]),
                _show("then call", "keyvalue", items=[{"label": "Wear", "value": "11 %"}]),
                _show("then call", "timeline", steps=[{"label": "Read", "state": "done"}]),
                _show("then call", "hologram"),
                "then reply shown",
            ]
        )
    )

    page = opened.page
    assert page.locator(".cmp").count() == 3
    assert_same_after_reload(opened)
    page.get_by_role("button", name="Copy table as CSV").click()
    page.wait_for_function("() => document.querySelector('#announce').textContent === 'Copied'")
    assert page.evaluate("navigator.clipboard.readText()") == 'Disk,Note\nsda,"a, ""b"""'
    assert "unknown component" in page.inner_text(".tool--error .tool__arg")


def test_code_and_messages_are_copied_exactly(chat: OpenChat, console: Console) -> None:
    source = 'Text **bold**\n\n```python\nif a < b:\n\tprint("\u202e&amp;")\n```\n'
    console.gateway.texts["copying"] = source
    opened = chat("/chat/")
    opened.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened.ask("stream copying")
    page = opened.page

    page.locator(".code__copy").click()
    page.wait_for_function("() => document.querySelector('#announce').textContent === 'Copied'")
    code = page.evaluate("navigator.clipboard.readText()")
    page.locator(".msg--agent").hover()
    page.locator(".msg--agent [data-act=copy-message]").click()
    copied = ""
    for _ in range(50):
        copied = page.evaluate("navigator.clipboard.readText()")
        if copied != code:
            break
        page.wait_for_timeout(100)

    assert code == 'if a < b:\n\tprint("\u202e&amp;")\n'
    assert copied == source
    assert page.locator(".hid").first.get_attribute("data-mark") == "U+202E"


def test_hostile_markup_is_text_and_asks_nobody(chat: OpenChat, console: Console) -> None:
    console.gateway.texts["hostile"] = (
        "<img src=x onerror=alert(1)>\n\n[x](javascript:alert(1)) ![p](https://canary.example/p.png)"
        "\n\n<svg onload=alert(2)>\n\n`<script>alert(3)</script>`\n"
    )
    opened = chat("/chat/")
    page = opened.page
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("dialog", lambda dialog: requests.append(f"dialog {dialog.message}"))

    opened.ask("stream hostile")

    answer = page.locator(".msg--agent .prose").last
    assert "<img src=x onerror=alert(1)>" in answer.inner_text()
    assert "[x](javascript:alert(1))" in answer.inner_text()
    assert "Load image from canary.example: p" in answer.inner_text()
    assert answer.locator("img, script").count() == 0
    assert not [url for url in requests if not url.startswith(console.url)]
    assert opened.problems == []


def test_two_hundred_kilobytes_of_code_do_not_stall_the_field(
    chat: OpenChat, console: Console
) -> None:
    line = "value = compute(1, 2)  # note\n"
    console.gateway.texts["large"] = f"```python\n{line * 7000}```\nend\n"
    opened = chat("/chat/")
    opened.ask("reply ready")
    page = opened.page
    opened.send("stream large every 0.2 ms")
    page.wait_for_selector(".prose__tail .code")

    slow = page.evaluate(
        """async () => {
          const field = document.querySelector("#composer-text");
          const late = [];
          for (let i = 0; i < 20; i++) {
            const began = performance.now();
            field.value += "x";
            field.dispatchEvent(new Event("input", { bubbles: true }));
            await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
            late.push(performance.now() - began);
            await new Promise((done) => setTimeout(done, 40));
          }
          return late.sort((a, b) => a - b)[late.length / 2];
        }"""
    )
    opened.page.wait_for_selector('#chat[data-turn="idle"]', timeout=60_000)

    assert slow < 120  # 50 ms on a machine of one's own
    code = page.locator(".msg--agent .code code").last
    assert code.evaluate("(e) => e.textContent.length") == 7000 * len(line)
    assert code.locator("span").count() == 0  # above 50,000 characters nothing is coloured
    assert opened.answers[-1].endswith("end")


def test_a_failed_turn_says_why_and_can_be_tried_again(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.ask("fail 400 1\nreply second time lucky")
    page = opened.page
    assert "The turn failed." in page.inner_text(".msg .banner--err")

    page.get_by_role("button", name="Try again").click()
    opened.until_answered(2)

    assert opened.answers[-1] == "second time lucky"


def test_what_happens_is_announced_at_boundaries_only(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.ask("reply first")
    page = opened.page
    watch(
        page,
        "if (last('#announce').textContent) seen.push(last('#announce').textContent);",
        "#announce",
    )

    opened.ask("say 120 every 10 ms")
    page.wait_for_function("() => window.seen.some((text) => /reply finished/.test(text))")

    said = page.evaluate("window.seen")
    assert said[-1] == "reply finished, 120 words"
    assert len(said) <= 3
    assert page.get_attribute("#log", "aria-live") == "off"
