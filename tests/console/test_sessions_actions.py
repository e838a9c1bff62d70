"""What can be done with sessions: rename, pin, archive, export, delete and take back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from protoagent.core import clock
from protoagent.core.context import Scope
from protoagent.journal.models import ChatSession, TitleSource, Turn
from protoagent.journal.services import agents, pending, sessions, turns
from tests.console.asking import Page, Tab, ask_question, begin, open_tab

pytestmark = pytest.mark.django_db


@pytest.fixture
def tab() -> Tab:
    return open_tab()


def make(key: str = "s1", title: str = "Disk check", **fields: Any) -> ChatSession:
    session = sessions.ensure(agents.current(), key)
    ChatSession.objects.filter(pk=session.pk).update(title=title, **fields)
    session.refresh_from_db()
    return session


def told(page: Page) -> dict[str, Any]:
    return json.loads(page.headers.get("HX-Trigger", "{}"))


def test_a_title_can_be_changed_in_the_row(tab: Tab) -> None:
    session = make()

    form = tab.get("/chat/s1/rename/")
    row = tab.post("/chat/s1/rename/", {"title": "  Disks  of <b>nuc-01 "})

    assert form.one("input[name=title]").get("value") == "Disk check"
    session.refresh_from_db()
    assert (session.title, session.title_source) == ("Disks of <b>nuc-01", TitleSource.MANUAL)
    assert row.one("li").get("id") == "session-s1"
    assert row.words(".session__title") == "Disks of <b>nuc-01"
    assert "session.changed" in told(row)


def test_a_blank_title_is_refused_in_the_row(tab: Tab) -> None:
    session = make()

    page = tab.post("/chat/s1/rename/", {"title": "  "})

    assert page.status == 422
    assert "at least one character" in page.words(".field__error")
    assert page.one("input[name=title]").get("aria-invalid") == "true"
    session.refresh_from_db()
    assert session.title == "Disk check"


def test_leaving_the_form_brings_the_row_back(tab: Tab) -> None:
    make()

    form = tab.get("/chat/s1/rename/")
    row = tab.get(form.one("form").get("data-cancel"))

    assert row.words(".session__title") == "Disk check"


def test_the_menu_says_what_the_session_is(tab: Tab) -> None:
    make("plain")
    make("both", pinned_at=clock.now(), archived_at=clock.now())
    make("secret", incognito=True)

    def items(key: str) -> list[str]:
        page = tab.get(f"/chat/{key}/menu/")
        return [item.words for item in page.all(".menu__item")]

    assert items("plain") == [
        *("Rename F2", "Pin", "Archive", "Export…", "Copy link", "Delete…"),
    ]
    assert items("both")[1:3] == ["Unpin", "Unarchive"]
    assert "Export not for incognito" in items("secret")


@pytest.mark.parametrize("name", ["pin", "archive"])
def test_pinning_and_archiving_can_be_undone(tab: Tab, name: str) -> None:
    session, field = make(), f"{name}{'ned' if name == 'pin' else 'd'}"

    on = tab.post(f"/chat/s1/{name}/", {field: "1"})
    session.refresh_from_db()
    was_on = getattr(session, f"{field}_at") is not None
    tab.post(f"/chat/s1/{name}/", {field: "0"})
    session.refresh_from_db()

    assert was_on
    assert getattr(session, f"{field}_at") is None
    assert on.status == 204
    assert "session.changed" in told(on)


@pytest.mark.parametrize("value", [None, "", "yes", "2"])
def test_a_switch_takes_only_0_and_1(tab: Tab, value: str | None) -> None:
    session = make()

    page = tab.post("/chat/s1/pin/", {} if value is None else {"pinned": value})

    assert page.status == 400
    session.refresh_from_db()
    assert session.pinned_at is None


def test_the_export_form_offers_formats_and_tool_bodies(tab: Tab) -> None:
    make()

    page = tab.get("/chat/s1/export/")

    assert [e.get("value") for e in page.all("[name=format]")] == ["md", "json"]
    assert page.one("[name=tools]").get("checked") is None


@pytest.mark.parametrize("fmt", ["md", "json"])
def test_an_export_is_a_download(tab: Tab, fmt: str) -> None:
    make()
    tab.htmx = False

    page = tab.get("/chat/s1/export/", format=fmt)

    assert page.headers["Content-Disposition"] == f'attachment; filename="disk-check-s1.{fmt}"'
    assert "Disk check" in page.text


def test_an_incognito_session_and_an_unknown_format_are_refused(tab: Tab) -> None:
    make()
    make("secret", incognito=True)
    tab.htmx = False

    assert tab.get("/chat/secret/export/", format="md").status == 409
    assert tab.get("/chat/s1/export/", format="html").status == 400


def test_deleting_names_what_goes_with_the_session(tab: Tab) -> None:
    row = ask_question()
    turns.steer(row.turn.session, "and hurry", client_id="m1")
    ChatSession.objects.update(title="Disk check")

    page = tab.get("/chat/s1/delete/")

    assert page.words("h2") == "Delete “Disk check”?"
    assert [e.text_content() for e in page.all("li")] == [
        "1 turn",
        "1 open question or form",
        "1 message that is not delivered yet",
    ]
    assert ChatSession.objects.get().deleted_at is None


def test_deleting_needs_a_yes(tab: Tab) -> None:
    session = make()

    asked = tab.post("/chat/s1/delete/")

    assert asked.has("dialog")
    session.refresh_from_db()
    assert session.deleted_at is None


def test_a_deleted_session_can_be_brought_back_as_it_was(tab: Tab) -> None:
    row = ask_question()
    session = row.turn.session

    gone = tab.post("/chat/s1/delete/", {"confirmed": "1"})
    session.refresh_from_db()
    was_gone = session.deleted_at is not None
    notice = told(gone)["toast"]
    back = tab.post(notice["undo"])

    assert was_gone
    assert notice["text"].startswith("Deleted: “")
    assert told(back)["toast"]["text"].startswith("Back: “")
    session.refresh_from_db()
    row.refresh_from_db()
    assert (session.deleted_at, row.state) == (None, "open")


def test_the_undo_of_a_notice_is_a_post_that_reads_json(tab: Tab) -> None:
    make()
    tab.post("/chat/s1/delete/", {"confirmed": "1"})

    response = tab.client.post(
        "/sessions/restore/?key=s1",
        {"csrfmiddlewaretoken": tab._token()},
        headers={"accept": "application/json"},
    )

    assert response.json() == {"ok": True, "text": "Back: “Disk check”"}


def test_a_turn_that_runs_is_stopped_with_its_session(tab: Tab) -> None:
    session, hold = begin()

    asked = tab.get("/chat/s1/delete/")
    tab.post("/chat/s1/delete/", {"confirmed": "1"})

    assert "the turn that runs now; it is stopped" in asked.text
    turn = Turn.objects.get(pk=hold.turn_id)
    assert (turn.stop_requested_at is not None, turn.stopped_by) == (True, "ada")
    assert session.pk


def test_deleting_the_open_session_leads_to_a_page_that_offers_it_back(tab: Tab) -> None:
    make()
    tab._token()
    response = tab.client.post(
        "/chat/s1/delete/",
        {"confirmed": "1", "csrfmiddlewaretoken": tab._token()},
        headers={"HX-Request": "true", "HX-Current-URL": "http://testserver/chat/s1/?at=3"},
    )

    assert response.headers["HX-Redirect"] == "/chat/?deleted=s1"
    tab.htmx = False
    page = tab.get("/chat/", deleted="s1")
    assert page.words(".sessions__undo p") == "Deleted: “Disk check”"
    tab.post(page.one(".sessions__undo").get("action"))
    assert ChatSession.objects.get().deleted_at is None


def test_what_was_purged_cannot_be_brought_back(tab: Tab) -> None:
    session = make()
    tab.post("/chat/s1/delete/", {"confirmed": "1"})
    session.delete()

    page = tab.post("/sessions/restore/?key=s1")

    assert page.status == 404
    assert "for good" in page.text
    assert tab.post("/sessions/restore/").status == 400


def test_several_sessions_are_archived_at_once(tab: Tab) -> None:
    for key in ("a", "b", "c"):
        make(key)

    page = tab.post("/sessions/bulk/", {"action": "archive", "key": ["a", "b"]})

    assert told(page)["toast"]["text"] == "Archived: 2 sessions"
    kept = ChatSession.objects.filter(archived_at=None).values_list("key", flat=True)
    assert list(kept) == ["c"]
    tab.post("/sessions/bulk/", {"action": "unarchive", "key": ["a", "b"]})
    assert ChatSession.objects.filter(archived_at=None).count() == 3


def test_several_sessions_are_deleted_after_one_question_and_brought_back_together(
    tab: Tab,
) -> None:
    for key in ("a", "b", "c"):
        make(key)
    ask_question(key="b")

    asked = tab.post("/sessions/bulk/", {"action": "delete", "key": ["a", "b"]})
    fields = {"key": [e.get("value") for e in asked.all("[name=key]")], "action": "delete"}
    gone = tab.post(asked.one("form").get("action"), {**fields, "confirmed": "1"})

    assert asked.words("h2") == "Delete 2 sessions?"
    assert ChatSession.objects.present().count() == 1
    tab.post(told(gone)["toast"]["undo"])
    assert ChatSession.objects.present().count() == 3


@pytest.mark.parametrize(
    ("data", "status"),
    [
        ({"action": "archive"}, 204),
        ({"action": "archive", "key": ["nobody"]}, 204),
        ({"action": "explode", "key": ["s1"]}, 400),
        ({"key": ["s1"]}, 400),
        ({"action": "archive", "key": [f"k{n}" for n in range(101)]}, 422),
    ],
)
def test_a_bulk_action_without_sense_changes_nothing(
    tab: Tab, data: dict[str, Any], status: int
) -> None:
    make()

    assert tab.post("/sessions/bulk/", data).status == status
    assert ChatSession.objects.filter(archived_at=None, deleted_at=None).count() == 1


def test_a_session_of_another_agent_is_out_of_reach(tab: Tab) -> None:
    other = sessions.ensure(agents.ensure("other"), "theirs")

    for path in ("menu", "rename", "export", "delete", "row"):
        assert tab.get(f"/chat/theirs/{path}/").status == 404
    tab.post("/sessions/bulk/", {"action": "archive", "key": ["theirs"]})
    other.refresh_from_db()
    assert other.archived_at is None


@pytest.mark.parametrize("path", ["rename/", "pin/", "archive/", "delete/", "../../sessions/bulk/"])
def test_a_viewer_changes_nothing(path: str) -> None:
    session = make()
    tab = open_tab("vera", scope=Scope.VIEWER)
    data = {"title": "x", "pinned": "1", "archived": "1", "confirmed": "1", "action": "archive"}
    address = "/sessions/bulk/" if path.startswith("..") else f"/chat/s1/{path}"

    page = tab.post(address, {**data, "key": ["s1"]})

    assert page.status == 403
    session.refresh_from_db()
    assert (session.title, session.pinned_at, session.archived_at) == ("Disk check", None, None)


@pytest.mark.parametrize("path", ["pin", "archive"])
def test_changes_need_a_post(tab: Tab, path: str) -> None:
    make()

    assert tab.get(f"/chat/s1/{path}/").status == 405


# — without script —


def test_everything_works_as_pages_without_script(tab: Tab) -> None:
    make()
    tab.htmx = False

    menu = tab.get("/chat/s1/menu/")
    form = tab.get("/chat/s1/rename/")
    question = tab.get("/chat/s1/delete/")
    export = tab.get("/chat/s1/export/")

    for page in (menu, form, question, export):
        assert page.status == 200
        assert page.has("h1")
    assert question.one("#main dialog").get("open") is not None
    renamed = tab.client.post(
        "/chat/s1/rename/", {"title": "New", "csrfmiddlewaretoken": tab._token()}
    )
    assert (renamed.status_code, renamed.headers["Location"]) == (302, "/chat/s1/")
    deleted = tab.client.post(
        "/chat/s1/delete/", {"confirmed": "1", "csrfmiddlewaretoken": tab._token()}
    )
    assert deleted.headers["Location"] == "/chat/?deleted=s1"
    back = tab.client.post("/sessions/restore/?key=s1", {"csrfmiddlewaretoken": tab._token()})
    assert back.headers["Location"] == "/chat/s1/"
    assert pending.waiting_in(ChatSession.objects.get().pk) == []
