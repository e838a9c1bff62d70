"""Questions, approvals, and what all cards have in common."""

from __future__ import annotations

from typing import Any

import pytest

from protoagent.core.context import Scope
from protoagent.journal.models import Interruption, InterruptionState
from tests.console.asking import (
    Tab,
    ask_approval,
    ask_form,
    ask_question,
    open_tab,
    path_of,
    resolve,
)
from tests.console.steps import fields_of
from tools_app.approvals import is_approval

pytestmark = pytest.mark.django_db

LOCAL_PROJECT = {
    "title": "Register this folder?",
    "tool": "register_local_project",
    "path": "/srv/metrics",
    "session_allow": False,
    "options": [
        {"value": "allow-read-only@0123456789ab", "label": "Allow read-only", "primary": True},
        {"value": "allow-read-write@0123456789ab", "label": "Allow read-write"},
        {"value": "deny", "label": "Deny"},
    ],
}


@pytest.fixture
def tab() -> Tab:
    return open_tab()


def answer_of(row: Interruption) -> Any:
    row.refresh_from_db()
    assert row.state == InterruptionState.ANSWERED
    return row.value


def decide(tab: Tab, row: Interruption, decision: str, **more: str) -> Any:
    data = {"decision": decision, "digest": row.digest, **more}
    return tab.post(path_of(row, "answer"), data)


def buttons(tab: Tab, row: Interruption) -> list[tuple[str, str]]:
    page = tab.get(path_of(row))
    return [(b.get("value"), b.text_content()) for b in page.all("button[name=decision]")]


# — questions —


def test_a_short_question_is_the_heading_itself(tab: Tab) -> None:
    page = tab.get(path_of(ask_question("Which colour?")))

    assert page.words("h2") == "Which colour?"
    assert not page.has(".hitl__desc")


def test_a_long_or_marked_up_question_is_rendered_below_a_heading(tab: Tab) -> None:
    page = tab.get(path_of(ask_question("Which **engine**?\n\n- pg\n- ch")))

    assert page.words("h2").endswith(" asks")
    assert page.has(".hitl__desc strong")
    assert len(page.all(".hitl__desc li")) == 2


def test_an_answer_reaches_the_agent_without_surrounding_space(tab: Tab) -> None:
    row = ask_question()

    page = tab.post(path_of(row, "answer"), {"answer": "  blue\n", "digest": row.digest})

    assert answer_of(row) == "blue"
    assert page.words("dd") == "blue"
    assert "answered by ada" in page.words("header")
    assert page.one(".hitl").get("data-focus") == "composer"
    assert "attention.changed" in page.headers["HX-Trigger"]


def test_an_empty_answer_is_refused_beside_the_field(tab: Tab) -> None:
    row = ask_question()

    page = tab.post(path_of(row, "answer"), {"answer": " ", "digest": row.digest})

    assert page.status == 422
    assert "needs some text" in page.words(".field__error")
    assert page.one("textarea").get("aria-invalid") == "true"
    row.refresh_from_db()
    assert row.state == "open"


def test_an_answer_that_is_too_long_is_refused_and_kept(tab: Tab) -> None:
    row = ask_question()
    text = "x" * (64 * 1024 + 1)

    page = tab.post(path_of(row, "answer"), {"answer": text, "digest": row.digest})

    assert page.status == 422
    assert page.one("textarea").text_content() == text


def test_a_typed_answer_survives_a_reload_and_asks_before_it_is_dismissed(tab: Tab) -> None:
    row = ask_question()

    tab.post(path_of(row, "draft"), {"answer": "blu"})
    assert tab.get(path_of(row)).words("textarea") == "blu"
    asked = tab.post(path_of(row, "dismiss"), {"answer": "blue"})
    assert "lose what you entered" in asked.text
    assert asked.words("textarea") == "blue"
    assert tab.get(path_of(row)).words("textarea") == "blue"
    gone = tab.post(path_of(row, "dismiss"), {"answer": "blue", "confirmed": "1"})

    assert gone.one(".hitl").get("data-state") == "dismissed"


def test_an_untouched_question_is_dismissed_at_once(tab: Tab) -> None:
    row = ask_question()

    tab.post(path_of(row, "dismiss"), {"answer": ""})

    row.refresh_from_db()
    assert (row.state, row.value) == ("dismissed", None)


def test_the_first_answer_to_a_question_wins(tab: Tab) -> None:
    row = ask_question()
    tab.post(path_of(row, "answer"), {"answer": "blue", "digest": row.digest})

    late = open_tab("bob").post(path_of(row, "answer"), {"answer": "red", "digest": row.digest})

    assert late.status == 409
    assert late.words("[data-hitl-elsewhere]") == "Answered in another tab"
    assert answer_of(row) == "blue"


def test_dismissing_what_is_answered_changes_nothing(tab: Tab) -> None:
    row = ask_question()
    tab.post(path_of(row, "answer"), {"answer": "blue", "digest": row.digest})

    late = tab.post(path_of(row, "dismiss"), {"confirmed": "1"})

    assert late.status == 409
    assert answer_of(row) == "blue"


# — approvals —


def test_the_text_of_an_approval_is_literal(tab: Tab) -> None:
    detail = "echo <b>**bold**</b> && rm\u200b -rf \u202e/gnihton\n\tcat x"

    page = tab.get(path_of(ask_approval(detail=detail)))

    shown = page.one("pre")
    assert shown.text_content() == (
        "echo <b>**bold**</b> && rm⟦U+200B⟧ -rf ⟦U+202E⟧/gnihton\n\tcat x"
    )
    assert [mark.text_content() for mark in shown.all("mark")] == ["⟦U+200B⟧", "⟦U+202E⟧"]
    assert not shown.all("b")
    assert "draw nothing" in page.words(".hitl__warning")


def test_letters_that_look_like_others_are_named(tab: Tab) -> None:
    page = tab.get(path_of(ask_approval(detail="curl p\u0430ypal.com # größe 日本")))

    assert page.words(".hitl__warning") == (
        "Contains letters that look like others: а (Cyrillic Small Letter A)."
    )


def test_a_long_text_is_shown_whole(tab: Tab) -> None:
    detail = "\n".join(f"line {number}" for number in range(2000))

    page = tab.get(path_of(ask_approval(detail=detail)))

    assert page.one("pre").text_content() == detail
    assert page.one("pre").get("tabindex") == "0"
    assert "2000 lines" in page.one("pre").get("aria-label")


def test_everything_in_the_payload_is_shown(tab: Tab) -> None:
    extra = {"why": "backup", "folder": "/srv", "timeout": 60, "network": True, "env": {"A": "1"}}

    page = tab.get(path_of(ask_approval(**extra)))

    labels = [e.text_content() for e in page.all("dt")]
    values = [e.text_content() for e in page.all("dd")]
    assert dict(zip(labels, values, strict=True)) == {
        "Why": "backup",
        "Folder": "/srv",
        "Timeout": "60 s",
        "Network": "yes",
        "Env": '{"A": "1"}',
    }


def test_no_button_of_an_approval_is_the_default(tab: Tab) -> None:
    page = tab.get(path_of(ask_approval(session_allow=True)))

    assert not page.has("[autofocus]")
    assert not page.has("form input:not([type=hidden])")
    assert page.one(".hitl").get("data-settling") is not None
    assert [b.get("data-chord") for b in page.all("button[name=decision]")] == [
        "deny",
        None,
        "approve",
    ]


@pytest.mark.parametrize("allowed", [None, False, "yes", 1])
def test_a_standing_yes_is_offered_only_where_policy_allows_it(tab: Tab, allowed: Any) -> None:
    without = ask_approval(**({} if allowed is None else {"session_allow": allowed}))
    with_it = ask_approval(session_allow=True)

    assert buttons(tab, without) == [("denied", "Deny"), ("approved", "Approve once")]
    assert ("session", "Allow for this session") in buttons(tab, with_it)
    assert decide(tab, without, "session").status == 400
    without.refresh_from_db()
    assert without.state == "open"


@pytest.mark.parametrize(
    ("decision", "reason", "value", "is_yes", "record"),
    [
        ("approved", "", "approved", True, "Approved once"),
        ("approved", "ignored", "approved", True, "Approved once"),
        ("denied", "", "denied", False, "Denied"),
        ("denied", " too wide ", {"decision": "denied", "reason": "too wide"}, False, "Denied"),
        (
            "session",
            "",
            {"decision": "approved", "scope": "session"},
            True,
            "Allowed for this session",
        ),
    ],
)
def test_each_button_gives_the_tool_its_decision(
    tab: Tab, decision: str, reason: str, value: Any, is_yes: bool, record: str
) -> None:
    row = ask_approval(session_allow=True)

    page = decide(tab, row, decision, reason=reason)

    assert answer_of(row) == value
    assert is_approval(value) is is_yes
    assert page.all("dd")[0].text_content() == record
    assert ("too wide" in page.text) is (reason.strip() == "too wide")


def test_options_of_the_tool_replace_the_usual_buttons(tab: Tab) -> None:
    row = ask_approval(**LOCAL_PROJECT)

    assert buttons(tab, row) == [
        ("deny", "Deny"),
        ("allow-read-write@0123456789ab", "Allow read-write"),
        ("allow-read-only@0123456789ab", "Allow read-only"),
    ]
    assert decide(tab, row, "approved").status == 400
    page = decide(tab, row, "allow-read-write@0123456789ab")
    assert answer_of(row) == "allow-read-write@0123456789ab"
    assert page.words("dl dd") == "Allow read-write"


def test_options_that_forget_a_no_get_one(tab: Tab) -> None:
    row = ask_approval(options=["read-only", "read-write"])

    assert buttons(tab, row) == [
        ("denied", "Deny"),
        ("read-only", "Read only"),
        ("read-write", "Read write"),
    ]


@pytest.mark.parametrize("digest", ["", "0" * 64])
def test_an_approval_counts_only_for_what_was_shown(tab: Tab, digest: str) -> None:
    row = ask_approval()

    page = tab.post(path_of(row, "answer"), {"decision": "approved", "digest": digest})

    assert page.status == 409
    assert "changed" in page.words(".hitl__notice")
    row.refresh_from_db()
    assert row.state == "open"


@pytest.mark.parametrize("decision", ["", "yes", "approve", "APPROVED", "allow"])
def test_a_button_that_the_card_does_not_have_is_refused(tab: Tab, decision: str) -> None:
    row = ask_approval()

    assert decide(tab, row, decision).status == 400
    row.refresh_from_db()
    assert row.state == "open"


def test_the_record_of_an_approval_keeps_what_was_asked(tab: Tab) -> None:
    row = resolve(ask_approval(detail="rm -rf \u202ebuild"), "answered", "denied")

    page = tab.get(path_of(row))

    assert page.words("details pre") == "rm -rf ⟦U+202E⟧build"


def test_dismissing_an_approval_asks_nothing_and_is_no_yes(tab: Tab) -> None:
    row = ask_approval()

    tab.post(path_of(row, "dismiss"))

    row.refresh_from_db()
    assert (row.state, row.value) == ("dismissed", None)


# — all cards —


@pytest.mark.parametrize("make", [ask_question, ask_approval, ask_form])
def test_a_card_has_one_root_with_its_address_and_a_labelled_heading(tab: Tab, make: Any) -> None:
    row = make()

    page = tab.get(path_of(row))

    root = page.one(".hitl")
    assert root.get("id") == f"hitl-{row.pk}"
    assert page.one(f"#{root.get('aria-labelledby')}").tag == "h2"
    assert root.get("data-state") == "open"


@pytest.mark.parametrize("make", [ask_question, ask_approval, ask_form])
def test_every_control_has_a_label_and_no_id_stands_twice(tab: Tab, make: Any) -> None:
    page = tab.get(path_of(make()))

    ids = [element.get("id") for element in page.all("[id]")]
    labelled = {label.get("for") for label in page.all("label[for]")}
    wrapped = {e.get("id") for e in page.all("label input")}
    controls = page.all("input:not([type=hidden]), select, textarea")
    assert len(ids) == len(set(ids))
    assert all(control.get("id") in labelled | wrapped for control in controls)
    described = [e.get("aria-describedby").split() for e in page.all("[aria-describedby]")]
    assert all(part in ids for parts in described for part in parts)


@pytest.mark.parametrize("make", [ask_question, ask_approval])
def test_a_viewer_watches_and_cannot_answer(make: Any) -> None:
    row, tab = make(), open_tab("vera", scope=Scope.VIEWER)

    page = tab.get(path_of(row))
    refused = tab.post(path_of(row, "answer"), {"decision": "approved", "answer": "x"})

    assert not page.has("form")
    assert refused.status == 403
    row.refresh_from_db()
    assert row.state == "open"


@pytest.mark.parametrize("name", ["", "step/0", "draft", "answer", "dismiss"])
def test_signed_out_nothing_is_shown_or_done(name: str) -> None:
    row = ask_question()
    tab = open_tab()
    tab.sign_out()

    page = tab.post(path_of(row) + (f"{name}/" if name else ""), {"answer": "x"})

    assert page.status == 401
    assert page.headers["HX-Redirect"].startswith("/login/")


def test_a_stopped_turns_card_says_that_no_answer_is_needed(tab: Tab) -> None:
    row = resolve(ask_question(), "stopped")

    late = tab.post(path_of(row, "answer"), {"answer": "x", "digest": row.digest})

    assert late.status == 409
    assert "stopped" in late.words("[data-hitl-elsewhere]")


def test_only_forms_have_steps(tab: Tab) -> None:
    assert tab.post(path_of(ask_question(), "step", "0")).status == 400


def test_a_form_can_also_be_posted_to_the_answer_address(tab: Tab) -> None:
    row = ask_form(fields_of({"a": {"type": "string"}}))
    tab.get(path_of(row))

    tab.post(path_of(row, "answer"), {**tab.fill(a="x"), "move": "submit"})

    assert answer_of(row) == {"a": "x"}
