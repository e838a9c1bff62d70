"""Files in the console: the composer's requests, and what pages show of them."""

from __future__ import annotations

from typing import Any

import pytest

from protoagent.config import services as config
from protoagent.console import snapshot
from protoagent.core.context import Scope
from protoagent.core.ids import new_id
from protoagent.journal.models import ChatSession, QueuedMessage, Turn
from protoagent.journal.services import pauses, pending
from protoagent.uploads import services as uploads
from protoagent.uploads.models import Attachment
from tests.accounts.factories import browser_of, make_account
from tests.console.asking import Tab, ask_question, begin, open_tab
from tests.factories import make_attachment, make_session, make_turn
from tests.uploads import pictures

pytestmark = pytest.mark.django_db
HEAD = {"accept": "application/json"}


@pytest.fixture(autouse=True)
def _fresh_cache(clean_env: pytest.MonkeyPatch) -> None:
    snapshot.cache = snapshot._Cache()


class Page:
    """The page's script: it posts and reads JSON."""

    def __init__(self, client: Any) -> None:
        self.client = client
        client.get("/account/")
        self.token = {"x-csrftoken": client.cookies["protoagent_csrf"].value}

    def get(self, path: str) -> Any:
        return self.client.get(path, headers=HEAD)

    def post(self, path: str, **fields: Any) -> Any:
        return self.client.post(path, fields, headers={**HEAD, **self.token})

    def upload(self, body: bytes = b"hello", name: str = "notes.txt") -> Any:
        headers = {**HEAD, **self.token}
        path = f"/files/?name={name}"
        return self.client.post(
            path, body, content_type="application/octet-stream", headers=headers
        )

    def file(self, body: bytes = b"hello", name: str = "notes.txt") -> str:
        response = self.upload(body, name)
        assert response.status_code == 201, response.content
        return str(response.json()["id"])

    def send(self, key: str, text: str, *ids: str, **fields: Any) -> Any:
        values = {"text": text, "mode": "turn", "client_id": new_id("c"), **fields}
        path = f"/chat/{key}/send/" if key else "/chat/"
        return self.post(path, attachments=",".join(ids), **values)


@pytest.fixture
def tab() -> Tab:
    return open_tab()


@pytest.fixture
def page(tab: Tab) -> Page:
    return Page(tab.client)


def html_of(page: Page, key: str) -> str:
    response = page.client.get(f"/chat/{key}/")
    assert response.status_code == 200
    return response.content.decode()


def test_a_file_is_uploaded_described_listed_and_removed(page: Page) -> None:
    uploaded = page.upload(pictures.PNG, "cat.png")
    file_id = uploaded.json()["id"]

    described = page.post(f"/files/{file_id}/alt/", alt="a cat")
    listed = page.get(f"/files/?ids={file_id},f0000000000000000,%00,").json()
    removed = page.post(f"/files/{file_id}/remove/")

    assert uploaded.status_code == 201
    assert described.json() == {**uploaded.json(), "alt": "a cat"}
    assert listed == {"files": [described.json()]}
    assert removed.status_code == 204
    assert page.get(f"/files/?ids={file_id}").json() == {"files": []}
    assert page.post(f"/files/{file_id}/remove/").status_code == 404


def test_an_upload_without_a_csrf_token_is_refused(page: Page) -> None:
    page.client.handler.enforce_csrf_checks = True

    response = page.client.post("/files/?name=a.txt", b"x", content_type="text/plain")

    assert response.status_code == 403
    assert not Attachment.objects.exists()


def test_a_file_above_the_limit_is_refused_in_words(page: Page, clean_env: Any) -> None:
    clean_env.setenv("PROTOAGENT__ATTACHMENTS__MAX_MB", "1")
    config.reload()

    response = page.upload(b"x" * (1024 * 1024 + 1))

    assert (response.status_code, response.json()["detail"]) == (413, "a file has at most 1 MB")
    clean_env.undo()
    config.reload()


def test_a_file_is_shown_so_that_nothing_in_it_can_run(page: Page) -> None:
    script = page.file(b"<script>alert(1)</script>", "page.html")
    drawing = page.file(b"<svg onload='alert(1)'/>", "a.svg")
    image = page.file(pictures.GIF, "a.html")

    answers = [page.client.get(f"/files/{one}/") for one in (script, drawing, image)]

    assert [a["Content-Type"] for a in answers] == [*["text/plain; charset=utf-8"] * 2, "image/gif"]
    for answer in answers:
        assert answer["X-Content-Type-Options"] == "nosniff"
        assert answer["Content-Security-Policy"] == "sandbox; default-src 'none'"
        assert answer["Cache-Control"] == "private, no-cache"
        assert answer["Content-Disposition"].startswith("inline")


def test_a_name_cannot_add_headers(page: Page) -> None:
    row = make_attachment(name='a"\\ é\u2028.txt')

    value = page.client.get(f"/files/{row.pk}/")["Content-Disposition"]

    assert "\n" not in value and value.isascii()


def test_a_viewer_sees_sent_files_and_no_drafts_and_uploads_nothing(page: Page) -> None:
    vera = Page(browser_of(make_account("vera", scope=Scope.VIEWER)))
    draft, sent = page.file(), make_attachment()

    assert vera.client.get(f"/files/{sent.pk}/").content == b"hello"
    assert vera.get(f"/files/{draft}/").status_code == 404
    assert vera.get(f"/files/?ids={draft}").json() == {"files": []}
    assert vera.upload().status_code == 403
    for what in ("alt", "remove"):
        assert vera.post(f"/files/{draft}/{what}/").status_code == 403


def test_a_first_message_may_be_files_only_and_names_the_session(page: Page) -> None:
    response = page.send("", "", page.file(b"x", "report.md"))

    session = ChatSession.objects.get(key=response.json()["session"])
    turn = Turn.objects.get(session=session)
    html = html_of(page, session.key)
    assert session.title == "report.md"
    assert (turn.text, turn.attachments[0]["name"]) == ("", "report.md")
    assert 'class="msg__body"' not in html
    assert f'href="/files/{turn.attachments[0]["id"]}/"' in html
    assert ">1 byte<" in html


def test_the_same_first_message_twice_is_one(page: Page) -> None:
    file_id, client_id = page.file(), new_id("c")

    first = page.send("", "look", file_id, client_id=client_id)
    second = page.send("", "look", file_id, client_id=client_id)

    assert (first.json()["duplicate"], second.json()["duplicate"]) == (False, True)
    assert Turn.objects.count() == 1


def test_a_first_message_with_a_file_that_is_gone_makes_no_session(page: Page) -> None:
    elsewhere = make_attachment(name="report.txt")
    before = ChatSession.objects.count()

    response = page.send("", "look", elsewhere.pk)

    assert response.status_code == 400
    assert response.json()["detail"] == "report.txt is not there any more; attach it again"
    assert ChatSession.objects.count() == before


def test_files_of_a_message_are_shown_with_a_fixed_place_for_images(page: Page) -> None:
    image = page.file(pictures.PNG, "cat <b>.png")
    page.post(f"/files/{image}/alt/", alt='a "cat"')
    key = make_session().key

    page.send(key, "look", image, page.file())

    html = html_of(page, key)
    assert f'src="/files/{image}/" alt="a &quot;cat&quot;" width="72" height="72"' in html
    assert 'loading="lazy"' in html
    assert "cat &lt;b&gt;.png" in html and "notes.txt" in html


def test_steered_and_queued_files_stand_in_the_pending_list(page: Page) -> None:
    begin("s1")

    steered = page.send("s1", "", page.file(b"x", "steer.txt"), mode="steer")
    queued = page.send("s1", "later", page.file(b"x", "queue.txt"), mode="queue")

    html = html_of(page, "s1").partition('id="pending"')[2].partition("</form>")[0]
    assert (steered.json()["mode"], queued.json()["mode"]) == ("steer", "queue")
    assert "steer.txt" in html and "queue.txt" in html


def test_a_pending_message_with_files_may_lose_its_text_and_one_without_may_not(
    page: Page,
) -> None:
    begin("s1")
    page.send("s1", "with", page.file(), mode="queue", client_id="client-1")
    page.send("s1", "without", mode="queue", client_id="client-2")

    def edit(client_id: str) -> int:
        values = {"do": "edit", "client_id": client_id, "text": " "}
        return int(page.post("/chat/s1/pending/", **values).status_code)

    assert (edit("client-1"), edit("client-2")) == (200, 400)
    assert QueuedMessage.objects.get(client_id="client-1").attachments


def test_files_beside_an_answer_are_held_and_read_with_it(page: Page) -> None:
    row = ask_question()

    response = page.send("s1", "port 80", page.file(b"x", "ports.txt"), mode="steer")

    row.refresh_from_db()
    (held,) = pending.waiting_in(row.turn.session_id)
    assert response.json()["mode"] == "answer"
    assert (row.state, row.value) == ("answered", "port 80")
    assert (held.kind, held.text, held.attachments[0]["name"]) == ("held", "", "ports.txt")


def test_files_alone_are_no_answer(page: Page) -> None:
    row = ask_question()

    response = page.send("s1", "", page.file(), mode="steer", answers=row.pk)

    row.refresh_from_db()
    assert (response.json()["mode"], row.state) == ("held", "open")


def test_files_are_taken_back_when_the_answer_came_too_late(page: Page) -> None:
    row = ask_question()
    too_long = "x" * (64 * 1024 + 1)

    response = page.send("s1", too_long, page.file(), mode="steer", answers=row.pk)

    assert response.status_code == 400
    assert pending.waiting_in(row.turn.session_id) == []
    assert pauses.open_in_session(row.turn.session_id) != []


def test_trying_again_sends_the_same_files(page: Page) -> None:
    session = make_session()
    row = make_attachment(session=session)
    files = [uploads.summary(row)]
    turn = make_turn(session=session, status="failed", text="", attachments=files)

    page.post(f"/chat/{session.key}/send/", retry=turn.pk, client_id=new_id("c"))

    assert Turn.objects.latest("queued_at").attachments == files


@pytest.mark.parametrize("vision", [False, True])
def test_the_composer_knows_the_limits(page: Page, clean_env: Any, vision: bool) -> None:
    clean_env.setenv("PROTOAGENT__MODEL__PROVIDER", "openai")
    clean_env.setenv("PROTOAGENT__MODEL__API_BASE", "http://127.0.0.1:9/v1")
    clean_env.setenv("PROTOAGENT__MODEL__VISION", "true" if vision else "false")
    config.reload()

    html = page.client.get("/chat/").content.decode()

    assert 'data-max-files="10" data-max-bytes="20971520" data-max-image="3750000"' in html
    assert f'data-sees="{int(vision)}"' in html
    assert 'aria-label="Attach files"' in html
    clean_env.undo()
    config.reload()
