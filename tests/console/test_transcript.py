"""The transcript: a page and the frames that follow it can never tell different things."""

from __future__ import annotations

import random

import pytest

from protoagent.console.feeds import merged
from protoagent.console.rendering import Look
from protoagent.console.transcript import TurnView
from tests.console import dom
from tests.console.stories import STORIES, Event, journal, received, started

LOOK = Look("s1", "atlas", can_write=True, zone_name="Europe/Paris")
CARDS = {
    "q1": '<section class="hitl" id="hitl-q1">one</section>',
    "q2": '<section class="hitl" id="hitl-q2">two</section>',
}


def snapshot(events: list[Event]) -> dom.Node:
    """The page as the server renders it after these events."""
    view = TurnView(LOOK, dict(CARDS))
    for event in events:
        view.apply(event, live=False)
    return page_of(view)


def page_of(view: TurnView) -> dom.Node:
    html, days = [], set()
    for article in view.articles():
        if article.day[0] not in days:
            days.add(article.day[0])
            html.append(article.day[1])
        html.append(article.html)
    return dom.parse("".join(html))


def text_of(events: list[Event]) -> str:
    return " ".join(snapshot(events).text.split())


@pytest.mark.parametrize("story", STORIES)
def test_frames_behind_any_page_lead_to_the_page_of_the_whole_turn(story):
    events = STORIES[story]

    for cut in range(len(events)):
        view = TurnView(LOOK, dict(CARDS))
        for event in events[:cut]:
            view.apply(event, live=False)
        page = page_of(view)
        for number, event in enumerate(events[cut:], cut + 1):
            dom.apply(page, view.apply(event).ops)
            assert page.html() == snapshot(events[:number]).html(), f"from {cut} to {number}"


@pytest.mark.parametrize("story", STORIES)
def test_two_viewers_who_joined_at_different_moments_get_equal_frames_in_the_end(story):
    events = STORIES[story]
    early, late = TurnView(LOOK, dict(CARDS)), TurnView(LOOK, dict(CARDS))
    late_from = random.Random(story).randrange(len(events))

    for event in events[:late_from]:
        early.apply(event)
        late.apply(event, live=False)

    for event in events[late_from:]:
        assert early.apply(event).ops == late.apply(event).ops


@pytest.mark.parametrize("story", STORIES)
def test_text_that_is_caught_up_at_once_leads_to_the_same_page(story):
    events = STORIES[story]

    for cut in range(len(events)):
        view = TurnView(LOOK, dict(CARDS))
        for event in events[:cut]:
            view.apply(event, live=False)
        page = page_of(view)
        for event in merged(events[cut:]):
            dom.apply(page, view.apply(event).ops)
        assert page.html() == snapshot(events).html(), f"from {cut}"


def test_merged_text_tells_which_events_it_covers():
    events = merged(STORIES["plain"])

    spans = [(event["first"], event["seq"]) for event in events]
    assert spans == [(1, 1), (2, 2), (3, 7), (8, 8), (9, 9)]


@pytest.mark.parametrize("story", STORIES)
def test_every_id_in_a_page_is_unique(story):
    ids: list[str] = []

    def collect(node: dom.Node) -> None:
        if "id" in node.attributes:
            ids.append(node.attributes["id"])
        for child in node.children:
            if isinstance(child, dom.Node):
                collect(child)

    collect(snapshot(STORIES[story]))

    assert len(ids) == len(set(ids))


def test_a_turn_of_several_tools_is_folded_into_one_line_that_counts_failures():
    page = snapshot(STORIES["tools"])

    first, second = page.by_class("work")
    assert "open" not in first.attributes
    assert first.by_class("work__sum")[0].text == "Worked 10 s · 3 tools"
    assert first.by_class("badge--err")[0].text == "1 failed"
    assert "open" in second.attributes  # one call alone is not folded
    assert "data-bare" in second.attributes


def test_a_call_tells_what_it_is_about_and_why_it_failed():
    page = snapshot(STORIES["tools"])

    targets = [node.text for node in page.by_class("tool__arg")]
    assert targets == [
        "1+1",
        "docs.example.org/a/b — HTTP 403 for https://docs",
        "time <series> · 5 results",
        "",
    ]
    times = [node.text for node in page.by_class("tool__time")]
    assert times == ["1.2 s", "1.2 s", "1.2 s", "cancelled by you, 1.2 s"]


def test_a_running_call_has_its_cancel_button_beside_the_summary():
    events = STORIES["tools"][:3]

    page = snapshot(events)

    tool = page.find("call-a")
    button = tool.by_class("tool__cancel")[0]
    assert tool.parent_of(button) is tool
    assert page.by_class("tool__time")[0].attributes["data-since"].endswith("Z")


def test_a_viewer_sees_no_button_that_changes_anything():
    look = Look("s1", "atlas", can_write=False, zone_name="UTC")
    view = TurnView(look, dict(CARDS))
    for event in STORIES["tools"][:3]:
        view.apply(event, live=False)
    html = page_of(view).html()

    assert "cancel-call" not in html
    assert ">Operator<" in html


def test_a_steer_stands_where_the_agent_read_it():
    page = snapshot(STORIES["steered"])

    kinds = [node.attributes["class"] for node in page.by_class("msg")]
    assert kinds == ["msg msg--user", "msg msg--agent", "msg msg--user", "msg msg--agent"]
    steer = page.find("m-4")
    assert "shorter please" in steer.text
    assert "steered" in steer.text
    assert [node.text for node in page.by_class("prose")] == ["First", "Short."]


def test_an_edited_steer_is_shown_as_it_was_delivered_and_a_withdrawn_one_not_at_all():
    text = text_of(STORIES["steered at once"])

    assert "one, edited" in text
    assert "gone" not in text


def test_an_undelivered_steer_is_not_in_the_transcript():
    assert "shorter please" not in text_of(STORIES["steered"][:6])


def test_text_that_a_crash_made_void_is_gone():
    text = text_of(STORIES["crash"])

    assert "Void" not in text
    assert "Kept." in text
    assert "New text" in text


def test_a_failed_turn_says_why_and_offers_to_try_again():
    page = snapshot(STORIES["failed"])

    assert "The turn failed. The gateway said <no>" in " ".join(page.text.split())
    assert page.by_class("banner--err")[0].by_class("btn")[0].attributes["data-turn"] == "t1"


def test_a_stopped_turn_keeps_its_text_and_says_who_stopped_it_and_when():
    text = text_of(STORIES["stopped"])

    assert "partial" in text
    assert "Stopped by you, 14:02" in text


def test_what_waits_for_the_operator_is_marked_until_it_is_answered():
    waiting, going_on = text_of(STORIES["question"][:6]), text_of(STORIES["question"][:8])

    assert "waiting on you" in waiting
    assert "waits for your answer" in waiting
    assert "waiting on you" not in going_on
    assert "needs approval" in text_of(STORIES["two cards"][:7])


def test_thinking_is_shown_only_while_nothing_else_is():
    shown = [("Thinking" in text_of(STORIES["tools"][:n])) for n in range(1, 13)]

    assert shown == [False, True, False, True, False, False, False, True, False, False, True, False]


def test_usage_stands_at_the_end_of_the_turn():
    assert "12.4k tokens · $0.021" in text_of(STORIES["plain"])


def test_a_message_of_a_schedule_wears_its_origin():
    page = snapshot(STORIES["scheduled"])

    note = page.by_class("msg--note")[0]
    assert note.by_class("badge--auto")[0].text == "schedule"
    assert "You" not in note.text


def test_a_queued_message_says_so_until_its_turn_starts():
    assert "queued" in text_of(journal(received()))
    assert "queued" not in text_of(journal(received(), started()))


def test_components_escape_what_they_show():
    page = snapshot(STORIES["components"])

    assert [cell.text for cell in page.by_class("num")] == ["n", "1", "2.5 GB"]
    assert "<y>" in page.text
    assert "hologram" in page.text


def test_changes_are_announced_in_words():
    view, said = TurnView(LOOK, dict(CARDS)), []
    for event in STORIES["question"]:
        said += view.apply(event).say

    assert said == [
        ("work", "atlas is working"),
        ("work", "ask_human started"),
        ("now", "waiting for your answer: Choose"),
        ("now", "reply finished, 3 words"),
    ]


def test_a_day_separator_stands_above_the_first_message_of_a_day_in_the_readers_zone():
    view = TurnView(Look("s1", "a", zone_name="Asia/Tokyo"))
    event = journal(received())[0] | {"at": "2026-03-18T16:30:00Z"}

    change = view.apply(event)

    assert change.ops[0]["day"]["id"] == "day-2026-03-19"
    assert "Thursday 19 March 2026" in change.ops[0]["day"]["h"]
    assert "01:30" in change.ops[0]["h"]
