"""Attaching files: the button, pasting, dropping, chips, limits, reload, and what arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.conftest import Chat, Console, OpenChat
from tests.browser.test_shell import TARGETS
from tests.fakes import gateway as fake_gateway
from tests.services.servers import servers
from tests.uploads import pictures

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator

pytestmark = pytest.mark.browser

MIB = 1024 * 1024
DRAG = """([kind, name, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name));
  const at = document.querySelector("#log");
  at.dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
}"""


def file(name: str = "notes.txt", body: bytes | str = b"some notes") -> dict[str, Any]:
    buffer = body.encode() if isinstance(body, str) else body
    return {"name": name, "mimeType": "", "buffer": buffer}


def film(folder: Path) -> Path:
    """A file of 30 MB, empty on the disk."""
    path = folder / "film.txt"
    with path.open("wb") as sparse:
        sparse.truncate(30 * MIB)
    return path


def pick(chat: Chat, *files: dict[str, Any] | Path) -> None:
    """What the button's dialog would hand over; a path is read by the browser itself."""
    chat.page.set_input_files("#composer-pick", list(files))  # type: ignore[arg-type]


def chips(chat: Chat, state: str = "ready") -> Locator:
    return chat.page.locator(f'#composer-files [data-state="{state}"]')


def attach(chat: Chat, *files: dict[str, Any]) -> None:
    before = chips(chat).count()
    pick(chat, *files)
    chat.page.wait_for_function(
        "(n) => document.querySelectorAll('#composer-files [data-state=ready]').length >= n",
        arg=before + len(files),
    )


def paste(chat: Chat, text: str) -> None:
    chat.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    chat.page.evaluate("(text) => navigator.clipboard.writeText(text)", text)
    chat.field.press("Control+v")


def received(console: Console) -> Any:
    """What the model got as the newest user message."""
    users = [m for m in console.gateway.requests[-1]["messages"] if m["role"] == "user"]
    return users[-1]["content"]


def test_a_long_paste_becomes_a_file_that_can_be_kept_as_text(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.field.fill("before  after")
    opened.field.evaluate("(area) => area.setSelectionRange(7, 7)")
    text = "".join(f"line {number:06}\n" for number in range(500))

    paste(opened, text)
    chips(opened).get_by_text("pasted.txt").wait_for()
    in_field = opened.field.input_value()
    size = chips(opened).locator(".file__size").inner_text()
    opened.page.get_by_role("button", name="Keep as text").click()
    chips(opened).wait_for(state="detached")

    assert len(text) == 6000
    assert (in_field, size) == ("before  after", "6 KB")
    assert opened.field.input_value() == f"before {text} after"
    assert opened.page.evaluate("document.activeElement.id") == "composer-text"
    assert opened.problems == []


def test_a_paste_of_4000_characters_stays_text(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.field.focus()

    paste(opened, "x" * 4000)

    assert opened.field.input_value() == "x" * 4000
    assert opened.page.locator("#composer-files li").count() == 0


def test_a_file_above_the_limit_is_refused_before_it_is_sent(
    chat: OpenChat, tmp_path: Path
) -> None:
    opened = chat("/chat/")
    posts: list[str] = []
    opened.page.on("request", lambda request: posts.append(request.url))

    pick(opened, film(tmp_path))
    note = chips(opened, "failed").locator(".file__note").inner_text()
    opened.send("reply hello").until_answered(1)

    assert note == "30 MB; a file has at most 20 MB."
    assert not any("/files/" in url for url in posts)
    assert opened.page.locator("#composer-files li").count() == 0


def test_what_is_no_text_and_no_image_says_so_on_its_chip(chat: OpenChat) -> None:
    opened = chat("/chat/")

    pick(opened, file("a.zip", b"PK\x03\x04\x00\x00"), file("empty.txt", b""))
    opened.page.locator(".file__note", has_text="neither text").wait_for()
    notes = chips(opened, "failed").locator(".file__note").all_inner_texts()

    assert notes == [
        "a.zip is neither text nor a known image; text files and PNG, JPEG, GIF or WebP images "
        "can be attached.",
        "The file is empty.",
    ]


def test_the_eleventh_file_is_one_too_many(chat: OpenChat) -> None:
    opened = chat("/chat/")

    pick(opened, *[file(f"{number}.txt") for number in range(11)])
    note = chips(opened, "failed").locator(".file__note").inner_text()

    assert note == "A message has at most 10 files."
    opened.page.wait_for_function(
        "() => document.querySelectorAll('[data-state=ready]').length === 10"
    )


def test_a_file_is_dropped_anywhere_on_the_chat(chat: OpenChat, console: Console) -> None:
    opened = chat("/chat/")
    outlined = "document.querySelector('#chat').hasAttribute('data-dropping')"

    opened.page.evaluate(DRAG, ["dragenter", "drop.md", ""])
    while_over = opened.page.evaluate(outlined)
    opened.page.evaluate(DRAG, ["drop", "drop.md", "# dropped here"])
    chips(opened).get_by_text("drop.md").wait_for()
    after = opened.page.evaluate(outlined)
    opened.send("reply got it").until_answered(1)

    assert (while_over, after) == (True, False)
    assert "# dropped here" in received(console)


def test_chips_survive_navigation_and_reload_until_the_message_is_sent(
    chat: OpenChat, console: Console
) -> None:
    opened = chat("/chat/")
    opened.ask("reply start")
    path = opened.path()
    attach(opened, file("kept.txt", "kept over a reload"))

    opened.page.get_by_role("link", name="New session").click()
    opened.page.wait_for_url("**/chat/")
    elsewhere = opened.page.locator("#composer-files li").count()
    opened.goto(path)
    opened.page.reload()
    opened.page.wait_for_selector('#link-state[data-state="live"]')
    again = chips(opened).all_inner_texts()
    opened.send("reply read").until_answered(2)
    opened.page.reload()
    opened.page.wait_for_selector('#link-state[data-state="live"]')

    assert elsewhere == 0
    assert len(again) == 1 and "kept.txt" in again[0]
    assert "kept over a reload" in received(console)
    assert opened.page.locator("#composer-files li").count() == 0
    assert opened.page.locator(".msg--user .file__name").all_inner_texts() == ["kept.txt"]


LOSE = """() => {
  const kept = JSON.parse(localStorage.getItem("draft-files:new"));
  kept.push({ id: "f0000000000000000", name: "gone.txt", size: 5, kind: "text", alt: "" });
  localStorage.setItem("draft-files:new", JSON.stringify(kept));
}"""


def test_a_file_that_is_gone_leaves_with_a_notice(chat: OpenChat) -> None:
    opened = chat("/chat/", own_session=True)
    attach(opened, file("here.txt"))
    opened.page.evaluate(LOSE)

    opened.page.reload()
    toast = opened.page.locator(".toast")
    toast.wait_for()

    assert toast.inner_text() == "Not there any more: gone.txt. Attach again what you need."
    assert opened.page.locator("#composer-files .file__name").all_inner_texts() == ["here.txt"]
    assert "gone.txt" not in opened.page.evaluate("localStorage.getItem('draft-files:new')")


def test_sent_files_appear_in_two_tabs_with_a_thumbnail(chat: OpenChat, console: Console) -> None:
    opened = chat("/chat/")
    opened.ask("reply start")
    other = chat(opened.path(), context=opened.page.context)
    attach(opened, file("cat.png", pictures.png(60, 40)), file("list.md", "- one"))
    note = chips(opened).locator(".file__note").first.inner_text()
    opened.page.get_by_label("Alt text for cat.png").fill("a blue cat")

    opened.send("reply nice").until_answered(2)
    image = other.page.locator(".msg--user img")
    image.wait_for()
    other.page.wait_for_function(
        "() => document.querySelector('.msg--user img').naturalWidth === 60"
    )

    box = image.bounding_box()
    assert note == "The model cannot see images; it gets the name and the alt text."
    assert image.get_attribute("alt") == "a blue cat"
    assert box and (box["width"], box["height"]) == (72, 72)
    assert other.page.locator(".msg--user .file__name").all_inner_texts() == ["cat.png", "list.md"]
    assert "alt text: a blue cat. The model in use cannot see images.]" in received(console)
    assert "- one" in received(console)
    assert opened.problems == other.problems == []


def test_a_message_may_be_files_only(chat: OpenChat, console: Console) -> None:
    opened = chat("/chat/")
    attach(opened, file("only.txt", "reply from the file"))

    opened.field.press("Enter")
    opened.until_answered(1)

    assert opened.answers == ["from the file"]
    assert opened.page.inner_text("h1") == "only.txt"
    assert opened.page.locator(".msg--user .msg__body").count() == 0


def test_sending_waits_for_uploads_and_a_post_that_fails_gives_everything_back(
    chat: OpenChat, console: Console
) -> None:
    opened = chat("/chat/")
    opened.ask("reply start")

    def slowly(route: Any) -> None:
        opened.page.wait_for_timeout(500)
        route.continue_()

    opened.page.route("**/files/?name=*", slowly)
    opened.page.route("**/send/", lambda route: route.abort())
    pick(opened, file("slow.txt", "arrived late"))
    opened.send("reply done")
    said = opened.page.inner_text("#composer-problem")
    opened.page.locator("#composer-problem", has_text="Not sent").wait_for()
    kept = opened.field.input_value()
    back = chips(opened).locator(".file__name").all_inner_texts()
    opened.page.unroute("**/send/")
    opened.field.press("Enter")
    opened.until_answered(2)

    assert said.startswith("Files are still on their way")
    assert (kept, back) == ("reply done", ["slow.txt"])
    assert "arrived late" in received(console)
    assert opened.page.locator(".msg--user").count() == 2


def test_an_upload_that_finds_no_server_can_be_tried_again(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.page.route("**/files/?name=*", lambda route: route.abort())
    pick(opened, file("again.txt"))
    note = chips(opened, "failed").locator(".file__note").inner_text()

    opened.page.unroute("**/files/?name=*")
    opened.page.get_by_role("button", name="Try again").click()
    chips(opened).wait_for()

    assert note == "No connection to the server."


def test_an_upload_that_a_reload_breaks_off_is_told(chat: OpenChat) -> None:
    opened = chat("/chat/", own_session=True)
    opened.page.route("**/files/?name=*", lambda route: None)
    pick(opened, file("half.txt"))
    chips(opened, "sending").wait_for()

    opened.page.reload()
    note = chips(opened, "failed").locator(".file__note").inner_text()
    opened.page.reload()
    opened.page.get_by_role("button", name="Remove half.txt").click()
    opened.page.reload()
    opened.page.wait_for_selector('#link-state[data-state="live"]')

    assert note == "The upload was broken off; attach the file again."
    assert opened.page.locator("#composer-files li").count() == 0


def test_a_command_leaves_the_files_where_they_are(chat: OpenChat) -> None:
    opened = chat("/chat/")
    opened.ask("reply start")
    attach(opened, file("stay.txt"))

    opened.send("/rename Another title")
    opened.page.wait_for_function(
        "() => document.querySelector('h1').textContent === 'Another title'"
    )

    chips(opened).get_by_text("stay.txt").wait_for()
    assert opened.page.locator(".msg--user").count() == 1


def test_chips_are_removed_by_keyboard(chat: OpenChat) -> None:
    opened = chat("/chat/")
    attach(opened, file("one.txt"), file("two.txt"))

    opened.page.get_by_role("button", name="Remove one.txt").focus()
    opened.page.keyboard.press("Enter")
    focused = opened.page.evaluate("document.activeElement.getAttribute('aria-label')")
    opened.page.keyboard.press("Enter")

    assert focused == "Remove two.txt"
    assert opened.page.locator("#composer-files li").count() == 0
    assert opened.page.evaluate("document.activeElement.id") == "composer-text"


def test_a_steer_takes_its_files_along(chat: OpenChat, console: Console) -> None:
    opened = chat("/chat/")
    opened.send("call fetch_url " + f'{{"url": "{console.slow_site}"}}').until("working")
    opened.page.wait_for_selector(".tool--running")
    attach(opened, file("steer.txt", "steered content"))

    opened.send("look at this")
    pending = opened.page.locator(".pending__item .file__name")
    pending.wait_for()
    opened.page.get_by_role("button", name="Cancel fetch_url").first.click()
    opened.until_answered(1)

    assert "steered content" in received(console)
    assert opened.page.locator(".msg--user .file__name").all_inner_texts() == ["steer.txt"]


def test_signing_out_forgets_the_files_of_drafts(chat: OpenChat) -> None:
    opened = chat("/chat/", own_session=True)
    attach(opened, file("secret.txt"))
    kept = opened.page.evaluate("Object.keys(localStorage).join()")

    opened.page.goto(f"{opened.url}/account/")
    opened.page.get_by_role("button", name="Sign out", exact=True).first.click()
    opened.page.wait_for_url("**/login/**")

    assert "draft-files:new" in kept
    assert "draft" not in opened.page.evaluate("Object.keys(localStorage).join()")


def test_attaching_works_on_a_telephone(chat: OpenChat, console: Console, tmp_path: Path) -> None:
    opened = chat("/chat/", width=390, height=844, has_touch=True, is_mobile=True)
    name = "a-rather-long-name-of-a-file-that-would-not-fit.txt"
    pick(opened, film(tmp_path))
    attach(opened, file("cat.png", pictures.PNG), file(name, "on the phone"))

    too_small = opened.page.evaluate(TARGETS)
    width = opened.page.evaluate("document.documentElement.scrollWidth")
    opened.field.fill("reply ok")
    opened.page.get_by_role("button", name="Send", exact=True).tap()
    opened.until_answered(1)

    assert too_small == []
    assert width == 390
    assert "on the phone" in received(console)
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 390
    assert opened.page.evaluate(TARGETS) == []


def test_a_model_that_sees_gets_the_image(chat: OpenChat) -> None:
    with fake_gateway.running() as gateway, servers() as make:
        environment = {
            "PROTOAGENT__MODEL__PROVIDER": "openai",
            "PROTOAGENT__MODEL__API_BASE": gateway.base,
            "PROTOAGENT__MODEL__NAME": "fake-model",
            "PROTOAGENT__IDENTITY__NAME": "atlas",
            "PROTOAGENT__MODEL__VISION": "true",
        }
        opened = chat("/chat/", server=make(env=environment))
        attach(opened, file("cat.png", pictures.PNG))
        note = chips(opened).locator(".file__note")
        is_told = note.is_visible()
        opened.send("reply seen").until_answered(1)

        content = gateway.requests[-1]["messages"][-1]["content"]
        assert not is_told
        assert content[1]["image_url"]["url"].startswith("data:image/png;base64,")
