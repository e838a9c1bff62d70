"""What waits on the operator: the page, the dialog, the count."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from protoagent.console.views import attention
from protoagent.core.context import Scope
from protoagent.journal.models import ChatSession, Interruption
from protoagent.journal.services import agents, sessions
from tests.console.asking import (
    Tab,
    ask_approval,
    ask_form,
    ask_question,
    open_tab,
    resolve,
)

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 18, 14, 0, tzinfo=UTC)


@pytest.fixture
def tab() -> Tab:
    return open_tab()


def test_everything_that_waits_is_listed_longest_first_with_its_age(tab: Tab) -> None:
    form, question = ask_form(), ask_question("Which colour?", key="s2")
    Interruption.objects.filter(pk=form.pk).update(asked_at=NOW - timedelta(minutes=2), step=1)
    Interruption.objects.filter(pk=question.pk).update(asked_at=NOW - timedelta(days=3))
    ChatSession.objects.filter(key="s2").update(title="Paint")

    with time_machine.travel(NOW, tick=False):
        page = tab.get("/attention/")

    texts = [link.words for link in page.all(".attention__link")]
    assert texts == [
        "Which colour? Paint question · 3 d",
        "Storage, step 2 of 3 set it up form · 2 min",
    ]
    assert [link.get("href") for link in page.all(".attention__link")] == [
        f"/chat/s2/#hitl-{question.pk}",
        f"/chat/s1/#hitl-{form.pk}",
    ]


def test_an_approval_is_shown_whole_and_can_be_decided_on_the_spot(tab: Tab) -> None:
    row = ask_approval(detail="rm -rf \u202e/ # " + "x" * 5000)

    page = tab.get("/attention/")
    card = page.one(f"#attention-{row.pk}")
    form = card.all("form")[0]
    decided = tab.post(form.get("action"), {"decision": "denied", "digest": row.digest})

    assert "x" * 5000 in page.one("pre").text_content()
    assert "⟦U+202E⟧" in page.one("pre").text_content()
    assert form.get("hx-target") == f"#attention-{row.pk}"
    assert decided.one(".hitl").get("id") == f"attention-{row.pk}"
    row.refresh_from_db()
    assert (row.state, row.value) == ("answered", "denied")


def test_what_is_over_deleted_or_of_another_agent_does_not_wait(tab: Tab) -> None:
    resolve(ask_question(key="done"), "dismissed")
    ask_question(key="gone")
    sessions.delete(ChatSession.objects.get(key="gone"))
    ask_question(key="foreign")
    ChatSession.objects.filter(key="foreign").update(agent=agents.ensure("other"))
    archived = ask_question(key="archived")
    ChatSession.objects.filter(key="archived").update(archived_at=NOW)

    page = tab.get("/attention/")

    assert [link.get("href") for link in page.all(".attention__link")] == [
        f"/chat/archived/#hitl-{archived.pk}"
    ]
    assert attention.count() == 1


def test_when_nothing_waits_it_says_so(tab: Tab) -> None:
    assert tab.get("/attention/").words(".empty") == "Nothing waits on you."


def test_it_is_a_page_and_a_fragment_that_refreshes_itself(tab: Tab) -> None:
    fragment = tab.get("/attention/")
    tab.htmx = False
    page = tab.get("/attention/")

    assert "attention.changed from:body" in fragment.one("#attention-list").get("hx-trigger")
    assert not fragment.has("h1")
    assert page.words("h1") == "Waiting on you"


def test_a_viewer_sees_what_waits_and_cannot_decide() -> None:
    ask_approval()

    page = open_tab("vera", scope=Scope.VIEWER).get("/attention/")

    assert page.has("pre")
    assert not page.has("button")


def test_the_number_of_queries_does_not_grow_with_what_waits(tab: Tab) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as context:
            assert tab.get("/attention/").status == 200
        return len(context)

    for number in range(3):
        ask_approval(key=f"a{number}")
    few = queries()
    for number in range(3, 30):
        ask_approval(key=f"a{number}")

    assert queries() == few


@pytest.mark.parametrize(
    ("since", "text"),
    [
        (timedelta(seconds=-3), "now"),
        (timedelta(seconds=59), "now"),
        (timedelta(minutes=59), "59 min"),
        (timedelta(hours=47), "47 h"),
        (timedelta(days=2), "2 d"),
    ],
)
def test_ages_are_short(since: timedelta, text: str) -> None:
    assert attention.age(since) == text


# — without script —


def test_a_card_in_the_transcript_leads_to_its_page_where_there_is_no_script(tab: Tab) -> None:
    row = ask_question()
    tab.htmx = False

    page = tab.get("/chat/s1/")

    assert f'<noscript><p class="hitl__notice"><a href="/chat/s1/hitl/{row.pk}/">' in page.text


def test_a_form_can_be_filled_in_on_a_page_of_its_own(tab: Tab) -> None:
    row = ask_form()
    tab.htmx = False
    path = f"/chat/s1/hitl/{row.pk}/"

    page = tab.get(path)
    wrong = tab.press("next", name="x")
    right = tab.client.post(
        f"{path}step/0/",
        {
            **tab.fill(name="metrics", engine="pg", hosts=["nuc-01"]),
            "move": "next",
            "csrfmiddlewaretoken": wrong.one(".hitl [name=csrfmiddlewaretoken]").get("value"),
        },
    )

    assert page.one(".hitl [name=csrfmiddlewaretoken]").get("value")
    assert (wrong.status, wrong.has("h1")) == (422, True)
    assert len(wrong.all(".field__error")) == 3
    assert right.headers["Location"] == path
    assert tab.get(path).words("legend.vh") == "Step 2 of 3, Storage"


def test_after_the_end_a_browser_without_script_is_back_in_the_session(tab: Tab) -> None:
    row = ask_question()
    tab.htmx = False
    path = f"/chat/s1/hitl/{row.pk}/"
    token = tab.get(path).one(".hitl [name=csrfmiddlewaretoken]").get("value")

    data = {"answer": "blue", "digest": row.digest, "csrfmiddlewaretoken": token}
    answered = tab.client.post(f"{path}answer/", data)
    late = tab.client.get(path)

    for response in (answered, late):
        assert response.headers["Location"] == f"/chat/s1/#hitl-{row.pk}"
