"""The form wizard: steps, checks, drafts, and what reaches the agent."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from protoagent.journal.models import Interruption, InterruptionState
from tests.console.asking import (
    Tab,
    ask_form,
    ask_question,
    open_tab,
    path_of,
    resolve,
)
from tests.console.steps import fields_of

pytestmark = pytest.mark.django_db

KEY = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
FIRST = {"name": "metrics", "engine": "pg", "hosts": ["nuc-01"]}


@pytest.fixture
def tab() -> Tab:
    return open_tab()


def on(tab: Tab, row: Interruption) -> Tab:
    """The tab shows the card."""
    assert tab.get(path_of(row)).status == 200
    return tab


def answer_of(row: Interruption) -> Any:
    row.refresh_from_db()
    assert row.state == InterruptionState.ANSWERED
    return row.value


def errors_of(tab: Tab) -> list[str]:
    assert tab.page is not None
    return [" ".join(e.text_content().split()) for e in tab.page.all(".field__error")]


def test_every_kind_of_field_has_its_control(tab: Tab) -> None:
    row = ask_form()

    first = on(tab, row).page
    assert first is not None
    kinds = {e.get("name"): e.get("type", e.tag) for e in first.all("[name^='f.']")}
    assert kinds == {
        "f.name": "text",
        "f.engine": "radio",
        "f.hosts": "checkbox",
        "f.zone": "select",
        "f.backup": "checkbox",
    }
    assert first.one("[name='f.name']").get("maxlength") == "40"
    assert "Choose 1 to 2." in first.text
    second = tab.press("next", **FIRST)
    size = second.one("[name='f.size']")
    assert (size.get("type"), size.get("step"), size.get("min"), size.get("value")) == (
        *("number", "10", "10", "20"),
    )
    assert second.one("[name='f.ratio']").get("step") == "any"
    assert second.has("textarea[name='f.notes']")
    third = tab.press("next")
    kinds = {e.get("name"): e.get("type") for e in third.all("[name^='f.']")}
    assert kinds == {
        "f.mail": "email",
        "f.link": "url",
        "f.day": "date",
        "f.hour": "time",
        "f.when": "datetime-local",
        "f.phrase": "password",
    }


def test_submit_sends_all_steps_as_one_object(tab: Tab) -> None:
    row = ask_form()
    on(tab, row)
    tab.press("next", **{**FIRST, "hosts": ["nuc-01", "pi-03"], "backup": "1"})
    tab.press("next", size="40", ratio="0.5", level="3", notes="one\r\ntwo")
    done = tab.press(
        "submit",
        mail="ada@example.com",
        link="https://example.com",
        day="2026-03-18",
        hour="14:30",
        phrase="open sesame",
    )

    assert answer_of(row) == {
        "name": "metrics",
        "engine": "pg",
        "hosts": ["nuc-01", "pi-03"],
        "backup": True,
        "size": 40,
        "ratio": 0.5,
        "level": 3,
        "notes": "one\ntwo",
        "mail": "ada@example.com",
        "link": "https://example.com",
        "day": "2026-03-18",
        "hour": "14:30",
        "phrase": "open sesame",
    }
    assert done.one(".hitl").get("data-state") == "answered"
    lines = dict(
        zip(
            [e.text_content() for e in done.all("dt")],
            [e.text_content() for e in done.all("dd")],
            strict=True,
        )
    )
    assert lines["Engine"] == "PostgreSQL"
    assert lines["Hosts"] == "nuc-01, pi-03"
    assert lines["Back it up"] == "Yes"
    assert lines["Left empty"] == "Zone, When"
    assert lines["Phrase"] == "••••••"
    assert "open sesame" not in done.text


def test_next_says_what_is_missing_beside_each_field(tab: Tab) -> None:
    row = ask_form()

    page = on(tab, row).press("next", name="x")

    assert page.status == 422
    assert errors_of(tab) == ["At least 2 characters.", "This is required.", "Choose at least one."]
    name = page.one("[name='f.name']")
    assert (name.get("aria-invalid"), name.get("value")) == ("true", "x")
    described = name.get("aria-describedby").split()[0]
    assert "At least 2" in page.one(f"#{described}").text_content()
    assert page.one(".hitl").get("data-focus") == "card"
    row.refresh_from_db()
    assert (row.state, row.step) == ("open", 0)


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"size": "25"}, "A multiple of 10."),
        ({"size": "0"}, "At least 10."),
        ({"size": ""}, "This is required."),
        ({"size": "ten"}, "This must be a number."),
        ({"size": "20.5"}, "This must be a whole number."),
        ({"ratio": "1.5"}, "At most 1."),
        ({"ratio": "Infinity"}, "This must be a number."),
        ({"level": "9"}, "Choose one of the options."),
    ],
)
def test_wrong_values_are_refused_and_kept(tab: Tab, values: dict[str, str], error: str) -> None:
    row = ask_form()
    on(tab, row).press("next", **FIRST)

    page = tab.press("next", **values)

    assert (page.status, errors_of(tab)) == (422, [error])
    if next(iter(values)) != "level":
        name, value = next(iter(values.items()))
        assert page.one(f"[name='f.{name}']").get("value") == value


def test_text_that_the_browser_cannot_send_is_an_error_and_not_an_empty_field(tab: Tab) -> None:
    row = ask_form(fields_of({"size": {"type": "number"}}))
    on(tab, row)

    page = tab.post(path_of(row, "step", "0"), {**tab.fill(), "move": "submit", "_bad": "f.size"})

    assert (page.status, errors_of(tab)) == (422, ["This must be a number."])


def test_back_checks_nothing_and_loses_nothing(tab: Tab) -> None:
    row = ask_form()
    on(tab, row).press("next", **FIRST)

    back = tab.press("back", size="7", notes="half a th")
    forth = tab.press("next")

    assert back.words("legend.vh") == "Step 1 of 3, Scope"
    assert back.one("[name='f.name']").get("value") == "metrics"
    assert forth.one("[name='f.size']").get("value") == "7"
    assert forth.one("textarea").text_content().strip() == "half a th"


def test_another_tab_and_another_device_continue_at_the_same_step(tab: Tab) -> None:
    row = ask_form()
    on(tab, row).press("next", **FIRST)
    tab.post(path_of(row, "draft"), {**tab.fill(size="30"), "step": "1"})

    elsewhere = open_tab("bob").get(path_of(row))

    assert elsewhere.words("legend.vh") == "Step 2 of 3, Storage"
    assert elsewhere.one("[name='f.size']").get("value") == "30"


def test_what_is_typed_is_saved_without_leaving_the_step(tab: Tab) -> None:
    row = ask_form()
    on(tab, row)

    saved = tab.post(path_of(row, "draft"), tab.fill(name="m"))

    row.refresh_from_db()
    assert (saved.status, saved.text) == (200, '{"masked": []}')
    assert (row.step, row.draft["name"]) == (0, "m")
    assert tab.get(path_of(row)).one("[name='f.name']").get("value") == "m"


def test_a_late_draft_of_an_earlier_step_does_not_move_the_wizard_back(tab: Tab) -> None:
    row = ask_form()
    first = on(tab, row).fill(**FIRST)
    tab.press("next", **FIRST)

    tab.post(path_of(row, "draft"), {**first, "f.name": "late"})

    page = tab.get(path_of(row))
    assert page.words("legend.vh") == "Step 2 of 3, Storage"
    row.refresh_from_db()
    assert row.draft["name"] == "late"


def test_defaults_are_answers_so_an_untouched_form_can_be_sent(tab: Tab) -> None:
    steps = fields_of(
        {"a": {"type": "string", "default": "x"}, "b": {"type": "boolean"}},
        {
            "c": {"type": "array", "items": {"enum": ["p", "q"]}, "default": ["q"]},
            "n": {"type": "integer", "default": 0},
        },
        required=("a", "b", "c", "n"),
    )
    row = ask_form(steps)

    on(tab, row).press("next")
    tab.press("submit")

    assert answer_of(row) == {"a": "x", "b": False, "c": ["q"], "n": 0}


def test_an_emptied_default_stays_empty(tab: Tab) -> None:
    row = ask_form(
        fields_of(
            {"a": {"type": "string", "default": "x"}, "b": {"type": "boolean", "default": True}}
        )
    )

    on(tab, row).press("submit", a="", b=None)

    assert answer_of(row) == {"b": False}


def test_a_field_appears_with_the_answer_that_asks_for_it(tab: Tab) -> None:
    steps = fields_of(
        {
            "proxy": {"type": "boolean", "title": "Use a proxy"},
            "host": {"type": "string", "showWhen": {"field": "proxy", "truthy": True}},
        },
        required=("host",),
    )
    row = ask_form(steps)

    page = on(tab, row).page
    assert page is not None
    assert not page.has("[name='f.host']")
    assert page.one("[name='f.proxy']").get("data-watched") is not None
    more = tab.press("submit", proxy="1")
    assert more.status == 422
    assert more.has("[name='f.host']")
    assert errors_of(tab) == []
    assert tab.press("submit").status == 422
    assert errors_of(tab) == ["This is required."]
    tab.press("submit", host="10.0.0.1")
    assert answer_of(row) == {"proxy": True, "host": "10.0.0.1"}


def test_with_script_a_changed_answer_redraws_the_step_at_once(tab: Tab) -> None:
    steps = fields_of(
        {
            "proxy": {"type": "boolean"},
            "host": {"type": "string", "showWhen": {"field": "proxy", "equals": True}},
        }
    )
    row = ask_form(steps)
    on(tab, row)

    tab.post(path_of(row, "draft"), tab.fill(proxy="1"))
    page = tab.get(path_of(row, "step", "0"))

    assert page.has("[name='f.host']")
    assert page.one(".hitl").get("data-focus") is None


def test_a_hidden_field_is_neither_required_nor_sent(tab: Tab) -> None:
    steps = fields_of(
        {
            "proxy": {"type": "boolean", "default": True},
            "host": {
                "type": "string",
                "default": "h",
                "showWhen": {"field": "proxy", "equals": True},
            },
        },
        required=("host",),
    )
    row = ask_form(steps)

    on(tab, row).press("submit", proxy=None)

    assert answer_of(row) == {"proxy": False}


def test_a_step_that_asks_nothing_is_skipped_in_both_directions(tab: Tab) -> None:
    hidden = {"size": {"type": "integer", "showWhen": {"field": "kind", "equals": "big"}}}
    steps = fields_of({"kind": {"enum": ["small", "big"]}}, hidden, {"note": {"type": "string"}})
    row = ask_form(steps)

    last = on(tab, row).press("next", kind="small")
    assert last.words("legend.vh") == "Step 2 of 2, Step 3"
    first = tab.press("back")
    assert first.words("legend.vh") == "Step 1 of 2, Step 1"
    second = tab.press("next", kind="big")
    assert second.words("legend.vh") == "Step 2 of 3, Step 2"


def test_a_form_of_one_step_has_no_step_indicator(tab: Tab) -> None:
    row = ask_form(fields_of({"a": {"type": "string"}}))

    page = on(tab, row).page

    assert page is not None
    assert not page.has(".stepper")
    assert not page.has("button[value='back']")
    assert page.words("[data-hitl-main]") == "Submit"


def test_enter_in_a_line_goes_on_and_never_dismisses(tab: Tab) -> None:
    page = on(tab, ask_form()).page

    assert page is not None
    first_button = page.all("form button")[0]
    assert (first_button.get("name"), first_button.get("value")) == ("move", "next")


def test_an_error_in_an_earlier_step_leads_back_to_it(tab: Tab) -> None:
    row = ask_form()
    on(tab, row).press("next", **FIRST)
    tab.press("next")
    Interruption.objects.filter(pk=row.pk).update(draft={**FIRST, "size": 7})

    page = tab.press("submit")

    assert page.status == 422
    assert page.words("legend.vh") == "Step 2 of 3, Storage"
    assert errors_of(tab) == ["At least 10."]


def test_the_first_answer_wins_and_the_other_tab_shows_it(tab: Tab) -> None:
    row = ask_form(fields_of({"a": {"type": "string"}}))
    other = on(open_tab("bob"), row)

    on(tab, row).press("submit", a="mine")
    late = other.press("submit", a="theirs")
    draft = other.post(path_of(row, "draft"), {"step": "0", "shown": "a", "f.a": "x"})

    assert answer_of(row) == {"a": "mine"}
    assert late.status == 409
    assert late.words("[data-hitl-elsewhere]") == "Answered in another tab"
    assert late.one("[data-hitl-elsewhere]").get("hidden") is None
    assert "mine" in late.text
    assert draft.status == 409


def test_sending_twice_answers_once(tab: Tab) -> None:
    row = ask_form(fields_of({"a": {"type": "string"}}))
    on(tab, row)
    values = {**tab.fill(a="x"), "move": "submit"}

    first = tab.post(path_of(row, "step", "0"), values)
    second = tab.post(path_of(row, "step", "0"), values)

    assert (first.status, second.status) == (200, 409)
    assert answer_of(row) == {"a": "x"}


def test_a_form_that_was_replaced_while_it_was_read_takes_no_answer(tab: Tab) -> None:
    row = ask_form(fields_of({"a": {"type": "string"}}))
    on(tab, row)

    page = tab.post(
        path_of(row, "step", "0"), {**tab.fill(a="x"), "move": "submit", "digest": "0" * 64}
    )

    assert page.status == 409
    assert "changed" in page.words(".hitl__notice")
    row.refresh_from_db()
    assert row.state == "open"


def test_an_untouched_form_is_dismissed_at_once_and_a_touched_one_asks(tab: Tab) -> None:
    untouched, touched = ask_form(), ask_form(fields_of({"a": {"type": "string"}}))

    gone = on(tab, untouched).post(path_of(untouched, "dismiss"), tab.fill())
    asked = on(tab, touched).post(path_of(touched, "dismiss"), tab.fill(a="typed"))
    kept = tab.get(path_of(touched))

    assert gone.one(".hitl").get("data-state") == "dismissed"
    assert "lose what you entered" in asked.text
    assert kept.one("[name='f.a']").get("value") == "typed"
    tab.post(path_of(touched, "dismiss"), {"confirmed": "1"})
    touched.refresh_from_db()
    assert (touched.state, touched.draft) == ("dismissed", {})


def test_what_looks_like_a_key_is_masked_before_it_is_stored_and_says_so(tab: Tab) -> None:
    row = ask_form(fields_of({"a": {"type": "string"}, "b": {"type": "string"}}))
    on(tab, row)

    saved = tab.post(path_of(row, "draft"), tab.fill(a=f"it is {KEY}", b="plain"))
    page = tab.get(path_of(row))
    tab.press("submit")

    assert saved.text == '{"masked": ["a"]}'
    assert page.one("[data-mask-note='a']").get("hidden") is None
    assert page.one("[data-mask-note='b']").get("hidden") is not None
    row.refresh_from_db()
    assert KEY not in str(row.draft) + str(answer_of(row))


def test_a_password_is_kept_but_never_sent_back_to_the_page(tab: Tab) -> None:
    steps = fields_of(
        {"pin": {"type": "string", "format": "password"}},
        {"a": {"type": "string"}},
        required=("pin",),
    )
    row = ask_form(steps)

    on(tab, row).press("next", pin="tell nobody")
    back = tab.press("back")
    assert back.one("[name='f.pin']").get("value") == ""
    assert "Entered" in back.one("[name='f.pin']").get("placeholder")
    assert "looks like a key is masked" in back.words(".field__help")
    assert "tell nobody" not in back.text
    tab.press("next")
    tab.press("submit")

    assert answer_of(row) == {"pin": "tell nobody"}


def test_times_are_entered_and_shown_in_the_persons_zone(tab: Tab) -> None:
    row = ask_form(fields_of({"when": {"type": "string", "title": "When", "format": "date-time"}}))

    with timezone.override("Europe/Paris"):
        page = on(tab, row).press("submit", when="2026-07-01T14:30")

    assert answer_of(row) == {"when": "2026-07-01T14:30:00+02:00"}
    assert "Wed 1 Jul 2026, 14:30 CEST" in page.text


def test_an_option_with_any_value_comes_back_as_that_value(tab: Tab) -> None:
    odd = ["", "true", '"quoted"', "a b", "日本"]
    steps = fields_of({f"f{i}": {"enum": [value, "other"]} for i, value in enumerate(odd)})
    steps[0]["schema"]["properties"]["n"] = {"enum": [1, 2.5], "type": "number"}
    row = ask_form(steps)
    page = on(tab, row).page
    assert page is not None
    first = {f"f{i}": page.all(f"[name='f.f{i}'] option")[1].get("value") for i in range(len(odd))}

    tab.press("submit", **first, n="2.5")

    value = answer_of(row)
    assert [value.get(f"f{i}", "") for i in range(len(odd))] == odd
    assert value["n"] == 2.5


def test_markup_in_titles_labels_and_options_is_text(tab: Tab) -> None:
    evil = "<script>alert(1)</script>"
    option = {"const": evil, "title": evil, "description": evil}
    schema = {
        "properties": {"a": {"title": evil, "description": evil, "oneOf": [option, {"const": "b"}]}}
    }
    row = ask_form(
        [{"title": evil, "description": evil, "schema": schema}], title=evil, description=evil
    )

    page = on(tab, row).page
    assert page is not None
    done = tab.press("submit", a=evil)

    assert "<script" not in page.text
    assert "<script" not in done.text
    assert answer_of(row) == {"a": evil}


def test_hidden_characters_in_labels_are_shown(tab: Tab) -> None:
    row = ask_form(fields_of({"a": {"title": "user\u202eeman"}}), title="x\u200by")

    page = on(tab, row).page

    assert page is not None
    assert "⟦U+202E⟧" in page.words(".field__label")
    assert "⟦U+200B⟧" in page.words("h2")


def test_a_viewer_sees_the_card_and_has_nothing_to_press() -> None:
    from protoagent.core.context import Scope

    row = ask_form()
    tab = open_tab("vera", scope=Scope.VIEWER)

    page = tab.get(path_of(row))
    refused = tab.post(path_of(row, "step", "0"), {"move": "next"})

    assert not page.has("button, input:not([type=hidden])")
    assert "watch" in page.text
    assert refused.status == 403


@pytest.mark.parametrize(
    ("path", "data", "status"),
    [
        ("step/9/", {}, 400),
        ("step/x/", {}, 404),
        ("step/99999999999999999999/", {}, 400),
        ("draft/", {"step": "9"}, 400),
        ("draft/", {"step": "-1"}, 400),
        ("draft/", {"step": "²"}, 400),
        ("draft/", {}, 400),
    ],
)
def test_steps_that_do_not_exist_are_refused(
    tab: Tab, path: str, data: dict[str, str], status: int
) -> None:
    row = ask_form()

    assert tab.post(path_of(row) + path, data).status == status


def test_a_card_of_another_session_is_not_found(tab: Tab) -> None:
    row = ask_question("why?", key="other")
    ask_form()

    assert tab.get(f"/chat/s1/hitl/{row.pk}/").status == 404
    assert tab.post(f"/chat/s1/hitl/{row.pk}/answer/", {"answer": "x"}).status == 404


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("answered", "answered by bob"),
        ("dismissed", "dismissed by bob"),
        ("auto", "No operator, the agent went on"),
        ("stopped", "stopped before an answer"),
    ],
)
def test_what_is_over_leaves_a_record(tab: Tab, outcome: str, words: str) -> None:
    row = resolve(
        ask_form(fields_of({"a": {}})), outcome, {"a": "x"} if outcome == "answered" else None
    )

    page = tab.get(path_of(row))

    assert page.one(".hitl").get("data-state") == outcome
    assert words in page.words("header")
    assert page.one("[data-hitl-elsewhere]").get("hidden") is not None
