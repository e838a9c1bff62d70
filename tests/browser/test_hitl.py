"""Questions, forms and approvals in a real browser: keyboard, focus, several tabs, restarts."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Chat, Console, OpenChat, environment
from tests.console.steps import EVERY_KIND, fields_of
from tests.services.servers import Server, ServerFactory

pytestmark = pytest.mark.browser

CARD = ".hitl[data-state=open]"
APPROVAL = """
import json
from protoagent.core.ids import new_id
from protoagent.journal.models import Turn
from protoagent.journal.services import agents, events, pauses, sessions, turns
session = sessions.ensure(agents.current(), KEY)
turns.accept(session, turns.Message("reply understood"), holder="elsewhere:1:b")
turn = Turn.objects.filter(session=session).active().get()
row, _ = pauses.open_for_call(turn.pk, new_id("c"), 0, json.loads(PAYLOAD))
Turn.objects.filter(pk=turn.pk).update(status="waiting", lease_until=None, holder="")
events.append(session.pk, [pauses.required_event(row)])
print(row.pk)
"""


def form(steps: list[dict[str, Any]], title: str = "Choose storage") -> str:
    return "call request_user_input " + json.dumps({"title": title, "steps": steps})


def ask_form(opened: Chat, steps: list[dict[str, Any]]) -> Locator:
    """The agent asks for a form; its open card."""
    opened.send(form(steps))
    card = opened.page.locator(CARD)
    expect(card).to_be_visible()
    return card


def ask_question(opened: Chat, question: str = "Which colour?") -> Locator:
    opened.send("call ask_human " + json.dumps({"question": question}))
    card = opened.page.locator(CARD)
    expect(card).to_be_visible()
    return card


def ask_approval(server: Server, key: str, **more: Any) -> str:
    """An approval in this session; until a tool asks for one, its rows are made directly."""
    payload = {"kind": "approval", "title": "Run this command?", "detail": "rm -rf build", **more}
    text = APPROVAL.replace("KEY", repr(key)).replace("PAYLOAD", repr(json.dumps(payload)))
    printed = server.manage("shell", "-c", text)
    assert printed.returncode == 0, printed.stderr
    return printed.stdout.split()[-1]


def state_of(server: Server, number: str) -> tuple[str, Any]:
    row = server.query(f"SELECT state, value FROM journal_interruption WHERE id = '{number}'")[0]
    return row[0], json.loads(row[1]) if isinstance(row[1], str) else row[1]


def wait_for(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def focused(page: Page) -> str:
    """The name of the field that has the focus, or the id of the element."""
    return str(page.evaluate("document.activeElement.name || document.activeElement.id"))


def settled(page: Page) -> None:
    """Approvals are inert for 600 ms after they appear or move."""
    page.wait_for_selector(".hitl--approval[data-state=open]:not([data-settling])")


# — questions —


def test_a_question_is_announced_answered_by_keyboard_and_kept_as_a_record(chat: OpenChat) -> None:
    opened = chat()
    page = opened.page

    card = ask_question(opened)
    expect(page).to_have_title(re.compile(r"^\(\d+\) "))
    expect(page.locator("#sessions-waiting")).to_have_text("Waiting on you")
    expect(page.locator("#session-list [aria-current=page]")).to_contain_text("Which colour?")
    card.get_by_label("Your answer").fill("blue")
    card.get_by_label("Your answer").press("Enter")
    opened.until("idle")

    record = page.locator(".hitl--done")
    expect(record.locator("header")).to_contain_text("answered by operator")
    expect(record.locator("dd")).to_have_text("blue")
    assert "done: blue" in opened.answers[-1]
    assert focused(page) == "text"
    expect(page.locator("#sessions-waiting")).to_have_count(0)
    assert opened.problems == []


def test_shift_enter_is_a_new_line_in_an_answer(chat: OpenChat) -> None:
    opened = chat()
    card = ask_question(opened)
    field = card.get_by_label("Your answer")

    field.press_sequentially("one")
    field.press("Shift+Enter")
    field.press_sequentially("two")
    field.press("Enter")
    opened.until("idle")

    expect(opened.page.locator(".hitl--done dd")).to_have_text("one\ntwo")


def test_a_card_that_arrives_while_somebody_types_takes_nothing_away(
    chat: OpenChat, console: Console
) -> None:
    opened = chat()
    opened.ask("reply ready")
    page = opened.page
    asking = threading.Thread(
        target=ask_approval, args=(console.server, opened.path().split("/")[2])
    )

    asking.start()
    opened.field.press_sequentially("half a thou")
    page.wait_for_selector(CARD)
    opened.field.press_sequentially("ght")
    asking.join()

    expect(opened.field).to_have_value("half a thought")
    assert focused(page) == "text"
    expect(page.locator("#announce")).to_contain_text("waiting for your approval")


def test_escape_asks_before_it_throws_something_away(chat: OpenChat) -> None:
    opened = chat()
    page = opened.page
    card = ask_question(opened)
    card.get_by_label("Your answer").fill("almost")

    page.keyboard.press("Escape")
    expect(page.get_by_text("Dismiss, and lose what you entered?")).to_be_visible()
    assert page.evaluate("document.activeElement.textContent") == "Keep it"
    page.keyboard.press("Enter")
    expect(page.get_by_text("Dismiss, and lose what you entered?")).to_be_hidden()
    expect(card.get_by_label("Your answer")).to_have_value("almost")
    card.get_by_role("button", name="Dismiss").press("Enter")
    expect(page.get_by_text("Dismiss, and lose what you entered?")).to_be_visible()
    page.locator(".hitl__foot--ask").get_by_role("button", name="Dismiss").press("Enter")
    opened.until("idle")

    expect(page.locator(".hitl--done header")).to_contain_text("dismissed by operator")
    assert "[dismissed]" in opened.answers[-1]


def test_an_untouched_card_is_dismissed_by_escape_at_once(chat: OpenChat) -> None:
    opened = chat()
    card = ask_question(opened)
    card.get_by_label("Your answer").focus()

    opened.page.keyboard.press("Escape")
    opened.until("idle")

    expect(opened.page.locator(".hitl--done header")).to_contain_text("dismissed")


def test_a_card_out_of_sight_is_pointed_to_above_the_composer(chat: OpenChat) -> None:
    opened = chat()
    opened.ask("say 900")
    card = ask_question(opened)
    page = opened.page
    bar = page.locator("[data-hitl-bar]")
    expect(bar).to_have_count(0)

    page.locator("#log").hover()
    page.mouse.wheel(0, -4000)
    expect(bar).to_have_text("Waiting on you: Which colour?")
    bar.click()

    expect(card).to_be_in_viewport()
    assert focused(page) == card.locator("h2").get_attribute("id")
    expect(bar).to_have_count(0)


# — forms —


def fill_first_step(card: Locator) -> None:
    card.get_by_label("Name").fill("metrics")
    card.get_by_text("PostgreSQL", exact=True).click()
    card.get_by_text("nuc-01", exact=True).click()
    card.get_by_text("pi-03", exact=True).click()


def test_a_wizard_with_every_kind_of_field_gives_the_agent_one_object(chat: OpenChat) -> None:
    opened = chat()
    page = opened.page
    card = ask_form(opened, EVERY_KIND)

    card.get_by_role("button", name="Next").click()
    expect(card.get_by_text("This is required.")).to_have_count(2)
    expect(card.get_by_text("Choose at least one.")).to_be_visible()
    expect(page.locator(f"{CARD} [name='f.name']")).to_be_focused()
    fill_first_step(card)
    card.get_by_label("Name").press("Enter")
    expect(page.locator("#announce")).to_have_text("Step 2 of 3, Storage")
    expect(card.get_by_role("heading")).to_be_focused()
    page.keyboard.press("Tab")
    expect(card.get_by_label("Size in GB")).to_be_focused()
    card.get_by_label("Size in GB").fill("40")
    card.get_by_label("Level").select_option("3")
    card.get_by_role("button", name="Back").click()
    expect(card.get_by_label("Name")).to_have_value("metrics")
    card.get_by_role("button", name="Next").click()
    expect(card.get_by_label("Size in GB")).to_have_value("40")
    card.get_by_role("button", name="Next").click()
    card.get_by_label("Mail").fill("ada@example.com")
    card.get_by_label("Day").fill("2026-03-18")
    card.get_by_label("When").fill("2026-07-01T14:30")
    card.get_by_role("button", name="Submit").click()
    opened.until("idle")

    answer = json.loads(opened.answers[-1].partition("done: ")[2].removesuffix("…").strip())
    assert answer == {
        "name": "metrics",
        "engine": "pg",
        "hosts": ["nuc-01", "pi-03"],
        "backup": False,
        "size": 40,
        "level": 3,
        "mail": "ada@example.com",
        "day": "2026-03-18",
        "when": answer["when"],
    }
    assert opened.problems == []


def test_radio_and_check_cards_work_with_arrows_and_space(chat: OpenChat) -> None:
    card = ask_form(chat(), EVERY_KIND)
    page = card.page

    card.get_by_label("Name").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")

    expect(card.locator("[name='f.engine']:checked")).to_have_attribute("value", "ch")
    expect(card.locator("[name='f.hosts']:checked")).to_have_attribute("value", "nuc-01")


def test_what_is_typed_survives_a_reload_and_another_tab_goes_on_from_there(
    chat: OpenChat,
) -> None:
    opened = chat()
    page = opened.page
    card = ask_form(opened, EVERY_KIND)
    fill_first_step(card)
    card.get_by_role("button", name="Next").click()
    card.get_by_label("Notes").fill("half a th")
    expect(card.locator("[data-hitl-saved]")).to_have_text("Saved")

    page.reload()
    expect(card.get_by_label("Notes")).to_have_value("half a th")
    other = chat(opened.path(), context=page.context)
    expect(other.page.locator(CARD).get_by_label("Notes")).to_have_value("half a th")
    other.page.locator(CARD).get_by_role("button", name="Next").click()
    other.page.locator(CARD).get_by_role("button", name="Submit").click()

    expect(page.locator(".hitl--done [data-hitl-elsewhere]")).to_have_text(
        "Answered in another tab"
    )
    expect(page.locator(".hitl--done")).to_contain_text("half a th")
    expect(other.page.locator(".hitl--done")).to_be_visible()
    expect(other.page.locator(".hitl--done [data-hitl-elsewhere]")).to_be_hidden()


def test_leaving_the_page_in_the_middle_of_a_word_loses_nothing(chat: OpenChat) -> None:
    opened = chat()
    card = ask_form(opened, fields_of({"a": {"type": "string", "title": "Word"}}))

    card.get_by_label("Word").press_sequentially("quick")
    opened.page.reload()

    expect(card.get_by_label("Word")).to_have_value("quick")


def test_a_fully_defaulted_form_can_be_sent_untouched(chat: OpenChat) -> None:
    opened = chat()
    card = ask_form(
        opened,
        fields_of({"a": {"type": "string", "default": "x"}, "b": {"type": "boolean"}}),
    )

    card.get_by_role("button", name="Submit").click()
    opened.until("idle")

    assert '{"a": "x", "b": false}' in opened.answers[-1]


def test_a_field_appears_as_soon_as_an_answer_asks_for_it(chat: OpenChat) -> None:
    card = ask_form(
        chat(),
        fields_of(
            {
                "proxy": {"type": "boolean", "title": "Use a proxy"},
                "host": {
                    "type": "string",
                    "title": "Host",
                    "showWhen": {"field": "proxy", "truthy": True},
                },
                "note": {"type": "string", "title": "Note"},
            }
        ),
    )
    card.get_by_label("Note").fill("kept")

    card.get_by_label("Use a proxy").check()
    expect(card.get_by_label("Host")).to_be_visible()
    expect(card.get_by_label("Note")).to_have_value("kept")
    expect(card.get_by_label("Use a proxy")).to_be_focused()
    card.get_by_label("Use a proxy").uncheck()

    expect(card.get_by_label("Host")).to_have_count(0)


def test_text_that_looks_like_a_key_says_that_it_is_masked(chat: OpenChat) -> None:
    card = ask_form(chat(), fields_of({"a": {"type": "string", "title": "Word"}}))
    note = card.get_by_text("looks like a key is masked")
    expect(note).to_be_hidden()

    card.get_by_label("Word").fill("sk-proj-" + "a1B2c3D4e5F6g7H8" * 3)

    expect(note).to_be_visible()


def test_a_form_outlives_a_restart_and_is_answered_once(
    chat: OpenChat, make_server: ServerFactory, console: Console
) -> None:
    server = make_server(env=environment(console.gateway))
    opened = chat("/chat/", server=server)
    page = opened.page
    card = ask_form(opened, EVERY_KIND)
    fill_first_step(card)
    card.get_by_role("button", name="Next").click()
    expect(card.get_by_label("Size in GB")).to_have_value("20")

    server.stop()
    card.get_by_label("Notes").fill("written offline")
    expect(card.locator("[data-hitl-saved]")).to_have_text("Not saved: offline")
    server.start()
    card.get_by_role("button", name="Next").click()
    card.get_by_role("button", name="Submit").click()
    opened.until("idle")

    assert page.locator(".hitl--done").count() == 1
    assert "written offline" in page.locator(".hitl--done").inner_text()
    rows = server.query("SELECT COUNT(*) FROM tools_app_toolcall")
    assert rows[0][0] == 1


def test_stopping_with_an_open_card_leaves_a_record_and_a_session_that_works(
    chat: OpenChat,
) -> None:
    opened = chat()
    ask_question(opened)

    opened.page.get_by_role("button", name="Stop").click()
    expect(opened.page.locator(".hitl--done header")).to_contain_text("stopped")
    opened.until("idle")
    opened.ask("reply still here")

    assert opened.answers[-1].strip() == "still here"


# — approvals —


HASTY = """() => {
  window.hasty = 0;
  const press = () => {
    const button = document.querySelector(".hitl--approval [data-chord=approve]");
    if (!button || window.hasty) return;
    window.hasty = 1;
    button.click();
  };
  new MutationObserver(press).observe(document.body, { childList: true, subtree: true });
}"""


def test_an_approval_is_literal_and_takes_no_stray_key_or_hasty_click(
    chat: OpenChat, console: Console
) -> None:
    detail = "echo <b>hi</b> && rm\u200b -rf build"
    opened = chat()
    opened.ask("reply ready")
    page = opened.page
    page.evaluate(HASTY)
    number = ask_approval(console.server, opened.path().split("/")[2], detail=detail)
    card = page.locator(CARD)
    expect(card.locator("pre")).to_have_text("echo <b>hi</b> && rm⟦U+200B⟧ -rf build")
    assert page.evaluate("window.hasty") == 1

    settled(page)
    card.get_by_role("button", name="Approve once").press("Enter")
    card.get_by_text("Say why").click()
    card.get_by_label("Reason for the agent").press("Enter")
    settled(page)
    card.get_by_label("Reason for the agent").fill("too wide")
    page.keyboard.press("Control+Alt+Backspace")

    expect(page.locator(".hitl--done")).to_contain_text("Denied")
    expect(page.locator(".hitl--done")).to_contain_text("too wide")
    answer = {"decision": "denied", "reason": "too wide"}
    assert state_of(console.server, number) == ("answered", answer)
    assert opened.problems == []


def test_a_click_on_a_card_that_has_just_moved_is_not_a_decision(
    chat: OpenChat, console: Console
) -> None:
    opened = chat()
    opened.ask("say 400")
    number = ask_approval(console.server, opened.path().split("/")[2])
    page = opened.page
    settled(page)

    page.evaluate(
        "document.querySelector('#log').scrollTop -= 8;"
        "document.querySelector('.hitl [data-chord=approve]').dispatchEvent("
        "new MouseEvent('click', { bubbles: true, cancelable: true, detail: 1 }))"
    )
    expect(page.locator("#announce")).to_have_text("One moment: read it first, then decide.")
    before = state_of(console.server, number)[0]
    settled(page)
    page.evaluate("document.querySelector('.hitl [data-chord=approve]').click()")
    expect(page.locator(".hitl--done")).to_contain_text("Approved once")

    assert before == "open"


def test_an_approval_is_decided_from_the_list_of_what_waits_in_every_tab(
    chat: OpenChat, console: Console
) -> None:
    first = chat()
    first.ask("reply ready")
    number = ask_approval(console.server, first.path().split("/")[2], session_allow=True)
    expect(first.page.locator(CARD)).to_be_visible()
    second = chat("/chat/", context=first.page.context)

    second.page.keyboard.press("w")
    item = second.page.locator(f"#attention-{number}")
    expect(item.locator("pre")).to_have_text("rm -rf build")
    expect(item).not_to_have_attribute("data-settling", "")
    item.get_by_role("button", name="Allow for this session").press("Space")

    expect(first.page.locator(".hitl--done")).to_contain_text("Allowed for this session")
    expect(first.page.locator("[data-hitl-elsewhere]")).to_be_visible()
    expect(item).to_have_count(0)
    answer = {"decision": "approved", "scope": "session"}
    assert state_of(console.server, number) == ("answered", answer)


def test_a_tool_with_its_own_choices_shows_exactly_those(chat: OpenChat, console: Console) -> None:
    opened = chat()
    opened.ask("reply ready")
    options = [
        {"value": "allow-read-only@0123", "label": "Allow read-only", "primary": True},
        {"value": "allow-read-write@0123", "label": "Allow read-write"},
        {"value": "deny", "label": "Deny"},
    ]
    number = ask_approval(
        console.server, opened.path().split("/")[2], options=options, session_allow=False
    )
    card = opened.page.locator(CARD)

    expect(card.locator("button[name=decision]")).to_have_text(
        ["Deny", "Allow read-write", "Allow read-only"]
    )
    settled(opened.page)
    card.get_by_role("button", name="Allow read-write").press("Space")
    wait_for(lambda: state_of(console.server, number)[0] == "answered")

    assert state_of(console.server, number)[1] == "allow-read-write@0123"


# — phones —


def test_cards_fit_a_phone_and_a_finger(chat: OpenChat) -> None:
    opened = chat(width=390, height=844, has_touch=True, is_mobile=True)
    page = opened.page
    opened.field.fill(form(EVERY_KIND))
    page.get_by_role("button", name="Send").click()
    card = page.locator(CARD)
    expect(card).to_be_visible()

    width = page.evaluate("document.documentElement.scrollWidth")
    targets = card.locator("button:not(.vh), select, .choice, .check, input.input").all()
    small = [t.evaluate("e => e.outerHTML") for t in targets if t.bounding_box()["height"] < 43.5]
    fonts = card.locator(".input, .select, .textarea").evaluate_all(
        "all => all.map(e => parseFloat(getComputedStyle(e).fontSize))"
    )

    assert width == 390
    assert small == []
    assert min(fonts) >= 16
