"""The session list in a real browser: find, rename, pin, export, delete; two tabs agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Chat, OpenChat

pytestmark = pytest.mark.browser

KEY = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3


def key_of(opened: Chat) -> str:
    return opened.path().split("/")[2]


def row(page: Page, key: str) -> Locator:
    return page.locator(f'#session-list li[data-session="{key}"]')


def title(page: Page, key: str) -> Locator:
    return row(page, key).locator(".session__title")


def menu(page: Page, key: str) -> Locator:
    """The open menu of a session."""
    row(page, key).hover()
    row(page, key).locator("[data-session-menu]").click()
    found = page.locator("#session-pop")
    expect(found).to_be_visible()
    return found


def talk(chat: OpenChat, text: str = "reply hello") -> Chat:
    opened = chat()
    opened.ask(text)
    expect(row(opened.page, key_of(opened))).to_be_visible()
    return opened


def test_renaming_in_the_row_is_seen_in_the_other_tab(chat: OpenChat) -> None:
    opened = talk(chat)
    page, key = opened.page, key_of(opened)
    other = chat("/chat/", context=page.context)

    row(page, key).locator("a.session").focus()
    page.keyboard.press("F2")
    field = page.get_by_label("New title")
    expect(field).to_be_focused()
    field.press("ControlOrMeta+a")
    field.press_sequentially("Cellar <b>pump")
    field.press("Enter")

    expect(title(page, key)).to_have_text("Cellar <b>pump")
    expect(title(other.page, key)).to_have_text("Cellar <b>pump")
    expect(page.locator("#session-title")).to_contain_text("Cellar <b>pump")
    assert opened.problems == []


def test_escape_leaves_a_title_as_it_was_and_gives_the_focus_back(chat: OpenChat) -> None:
    opened = talk(chat)
    page, key = opened.page, key_of(opened)
    before = title(page, key).inner_text()

    row(page, key).locator("a.session").focus()
    page.keyboard.press("F2")
    page.get_by_label("New title").fill("something else")
    page.keyboard.press("Escape")

    expect(title(page, key)).to_have_text(before)
    expect(row(page, key).locator("a.session")).to_be_focused()


def test_a_blank_title_says_what_is_wrong(chat: OpenChat) -> None:
    opened = talk(chat)
    page, key = opened.page, key_of(opened)
    menu(page, key).get_by_text("Rename").click()

    page.get_by_label("New title").fill("  ")
    page.get_by_label("New title").press("Enter")

    expect(page.get_by_role("alert").filter(has_text="at least one character")).to_be_visible()


def test_the_menu_works_with_keys_and_gives_the_focus_back(chat: OpenChat) -> None:
    opened = talk(chat)
    page, key = opened.page, key_of(opened)
    opener = row(page, key).locator("[data-session-menu]")

    opener.press("Enter")
    expect(page.locator("#session-pop")).to_be_visible()
    expect(page.locator("#session-pop .menu__item").first).to_be_focused()
    page.keyboard.press("End")
    expect(page.locator("#session-pop .menu__item").last).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#session-pop .menu__item").first).to_be_focused()
    page.keyboard.press("Escape")

    expect(page.locator("#session-pop")).to_be_hidden()
    expect(opener).to_be_focused()


def test_pinning_moves_the_session_up_in_both_tabs(chat: OpenChat) -> None:
    opened = talk(chat)
    page, key = opened.page, key_of(opened)
    other = chat("/chat/", context=page.context)

    menu(page, key).get_by_text("Pin", exact=True).click()

    for each in (page, other.page):
        pinned = each.locator("section", has=each.get_by_role("heading", name="Pinned"))
        expect(pinned.locator(f'[data-session="{key}"]')).to_have_count(1)
    menu(page, key).get_by_text("Unpin").click()
    expect(
        page.locator("section", has=page.get_by_role("heading", name="Pinned")).locator(
            f'[data-session="{key}"]'
        )
    ).to_have_count(0)


def test_an_archived_session_is_found_under_archived(chat: OpenChat) -> None:
    opened = talk(chat)
    page, key = opened.page, key_of(opened)

    menu(page, key).get_by_text("Archive", exact=True).click()
    expect(row(page, key)).to_have_count(0)
    page.get_by_role("link", name="Archived").click()

    expect(row(page, key)).to_be_visible()


def test_a_search_filters_titles_at_once_and_finds_messages(chat: OpenChat) -> None:
    opened = talk(chat, "reply the Laing pump is loud\nabout 日本語のポンプ")
    page, key = opened.page, key_of(opened)
    search = page.get_by_label("Search sessions and messages")

    search.press_sequentially("zzz-no-such-title")
    expect(row(page, key)).to_be_hidden()
    expect(page.locator(".sessions__empty")).to_contain_text("Nothing contains")
    search.fill("laing PUMP")
    hit = page.locator(".session--hit").first
    expect(hit.locator("mark")).to_have_text(["Laing", "pump"])
    search.fill("ポンプ")
    expect(page.locator(".session--hit mark").first).to_have_text("ポンプ")
    search.fill("")

    expect(row(page, key)).to_be_visible()
    assert opened.problems == []


def test_a_found_message_opens_where_it_stands(chat: OpenChat) -> None:
    first = talk(chat, "reply the needle is here")
    page = first.page
    for _ in range(3):
        first.ask("say 300")
    page.goto(f"{first.url}/chat/")

    page.get_by_label("Search sessions and messages").fill("needle")
    hit = page.locator(".session--hit", has_text="You:").first
    anchor = (hit.get_attribute("href") or "").partition("#")[2]
    hit.click()

    expect(page.locator(f"#{anchor}")).to_be_in_viewport()
    expect(page.locator(f"#{anchor}")).to_contain_text("the needle is here")
    assert re.search(r"\?at=\d+#m-\d+$", page.url)


def test_an_export_is_a_file_without_secrets(chat: OpenChat, tmp_path: Path) -> None:
    opened = talk(chat, f"reply the key is {KEY}")
    page, key = opened.page, key_of(opened)
    menu(page, key).get_by_text("Export…").click()
    dialog = page.get_by_role("dialog", name=re.compile("^Export"))

    dialog.get_by_text("JSON").click()
    dialog.get_by_text("Include what tools").click()
    with page.expect_download() as download:
        dialog.get_by_role("button", name="Export").click()
    download.value.save_as(tmp_path / "export.json")

    text = (tmp_path / "export.json").read_text()
    assert download.value.suggested_filename.endswith(".json")
    assert "the key is" in text
    assert KEY not in text
    expect(dialog).to_have_count(0)


def test_deleting_the_open_session_asks_leads_away_and_can_be_taken_back(chat: OpenChat) -> None:
    opened = talk(chat)
    page, key = opened.page, key_of(opened)
    other = chat("/chat/", context=page.context)
    expect(row(other.page, key)).to_be_visible()

    menu(page, key).get_by_text("Delete…").click()
    dialog = page.get_by_role("dialog", name=re.compile("^Delete"))
    expect(dialog).to_contain_text("1 turn")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.locator(".sessions__undo")).to_contain_text("Deleted:")
    expect(row(other.page, key)).to_have_count(0)
    page.locator(".sessions__undo").get_by_role("button", name="Undo").click()

    expect(row(page, key)).to_be_visible()
    expect(row(other.page, key)).to_be_visible()
    opened.goto(f"/chat/{key}/")
    assert opened.answers[-1].strip() == "hello"


def test_deleting_another_session_offers_undo_for_a_while(chat: OpenChat) -> None:
    doomed = key_of(talk(chat))
    opened = talk(chat)
    page = opened.page

    menu(page, doomed).get_by_text("Delete…").click()
    page.get_by_role("dialog", name=re.compile("^Delete")).get_by_role(
        "button", name="Delete"
    ).click()
    expect(row(page, doomed)).to_have_count(0)
    page.locator(".toast").get_by_role("button", name="Undo").click()

    expect(row(page, doomed)).to_be_visible()
    assert key_of(opened) != doomed


def test_keeping_changes_nothing_and_gives_the_focus_back(chat: OpenChat) -> None:
    opened = talk(chat)
    page, key = opened.page, key_of(opened)
    menu(page, key).get_by_text("Delete…").click()
    dialog = page.get_by_role("dialog", name=re.compile("^Delete"))

    dialog.get_by_text("Keep").click()

    expect(dialog).to_have_count(0)
    expect(row(page, key)).to_be_visible()


def test_several_sessions_are_archived_together(chat: OpenChat) -> None:
    keys = [key_of(talk(chat)) for _ in range(2)]
    opened = talk(chat)
    page = opened.page

    page.get_by_label("Select several").click()
    for key in keys:
        page.locator(f'#session-list input[value="{key}"]').check()
    expect(page.locator("[data-sessions-chosen]")).to_have_text("2 chosen")
    page.locator("[data-sessions-select]").get_by_role("button", name="Archive").click()
    expect(page.locator(f'#session-list input[value="{keys[0]}"]')).to_have_count(0)
    page.get_by_label("Leave selecting").click()

    expect(row(page, key_of(opened))).to_be_visible()
    for key in keys:
        expect(row(page, key)).to_have_count(0)


def test_rows_do_not_move_under_the_pointer_but_their_state_does(chat: OpenChat) -> None:
    older = talk(chat)
    newer = talk(chat)
    page = newer.page
    expect(row(page, key_of(older))).to_be_visible()
    order = page.locator("#session-list li[data-session]")
    before = order.evaluate_all("all => all.map(one => one.dataset.session)")

    row(page, key_of(newer)).hover()
    older.send("say 40 every 50ms")
    expect(row(page, key_of(older)).locator(".session__dot--run")).to_be_visible()
    during = order.evaluate_all("all => all.map(one => one.dataset.session)")
    older.until("idle")
    page.locator("#composer-text").hover()

    assert during == before
    expect(order.first).to_have_attribute("data-session", key_of(older))


def test_an_unsent_text_is_marked_in_the_list(chat: OpenChat) -> None:
    opened = talk(chat)
    page, key = opened.page, key_of(opened)

    opened.field.press_sequentially("not yet")
    page.goto(f"{opened.url}/chat/")

    expect(row(page, key).locator(".session__sub")).to_have_text("Draft")


def test_the_list_is_a_page_of_its_own_on_a_phone(chat: OpenChat) -> None:
    key = key_of(talk(chat))
    opened = chat("/sessions/", width=390, height=844, has_touch=True, is_mobile=True)
    page = opened.page

    width = page.evaluate("document.documentElement.scrollWidth")
    targets = page.locator("#session-list :is(a, button), .sessions__top :is(a, input)").all()
    small = [t.evaluate("e => e.outerHTML") for t in targets if t.bounding_box()["height"] < 39.5]
    row(page, key).locator("a.session").click()

    assert width == 390
    assert small == []
    expect(page.locator("#stream")).to_contain_text("hello")
