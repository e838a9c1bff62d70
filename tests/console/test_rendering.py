"""How times, lengths, amounts, calls and components read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from protoagent.console import calls, components, rendering
from protoagent.console.calls import Call, CallGroup
from protoagent.console.rendering import Look
from tests.console import dom

AT = datetime(2026, 3, 18, 13, 2, 31, tzinfo=UTC)
LOOK = Look("s1", "atlas")


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (8, "8 ms"),
        (49, "49 ms"),
        (100, "0.1 s"),
        (900, "0.9 s"),
        (9949, "9.9 s"),
        (9960, "10 s"),
        (38_000, "38 s"),
        (59_400, "59 s"),
        (59_600, "1:00"),
        (94_000, "1:34"),
        (7_500_000, "2 h 05"),
    ],
)
def test_durations_read_as_people_say_them(ms: float, text: str) -> None:
    assert rendering.duration(ms) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1k"),
        (12_400, "12.4k"),
        (999_949, "999.9k"),
        (1_200_000, "1.2M"),
    ],
)
def test_amounts_are_short(count: int, text: str) -> None:
    assert rendering.amount(count) == text


@pytest.mark.parametrize(
    ("usd", "text"),
    [(0, ""), (0.00001, "<$0.0001"), (0.0021, "$0.0021"), (0.021, "$0.021"), (1.2, "$1.20")],
)
def test_money_shows_as_many_digits_as_matter(usd: float, text: str) -> None:
    assert rendering.money(usd) == text


def test_a_time_is_in_the_readers_zone_and_its_title_says_which() -> None:
    html = rendering.time_tag(AT, ZoneInfo("Europe/Paris"))

    assert html == (
        '<time datetime="2026-03-18T13:02:31Z" title="Wed 18 Mar 2026, 14:02:31 CET">14:02</time>'
    )


def test_an_unknown_zone_is_utc() -> None:
    assert rendering.zone_of("Mars/Olympus") is UTC
    assert rendering.zone_of("../etc/passwd") is UTC


@pytest.mark.parametrize(
    ("name", "args", "target"),
    [
        ("web_search", {"max_results": 5, "query": "quiet  fans"}, "quiet fans"),
        ("fetch_url", {"url": "https://u:p@docs.example.org:8/a/b/?q=1#x"}, "docs.example.org/a/b"),
        ("fetch_url", {"url": "not a url"}, "not a url"),
        ("calculator", {"expression": "2 ** 10"}, "2 ** 10"),
        ("ask_human", {"question": "Which\none?"}, "Which one?"),
        ("show_component", {"component": "table", "props": {"title": "T"}}, "T"),
        ("show_component", {"component": "table", "props": {}}, "table"),
        ("current_time", {}, ""),
        ("some_plugin", {"a": {"b": 1}, "c": 2}, '{"b": 1}'),
        ("some_plugin", ["x"], ""),
        ("some_plugin", None, ""),
    ],
)
def test_a_call_says_what_it_is_about(name: str, args: Any, target: str) -> None:
    assert calls.target_of(name, args) == target


def test_long_targets_are_cut() -> None:
    assert len(calls.target_of("calculator", {"expression": "1+" * 500})) <= calls.TARGET_CHARS


def call(call_id: str = "a", **fields: Any) -> Call:
    values = {"name": "web_search", "args": {"query": "x"}, "source": "builtin", **fields}
    return Call(call_id, 1, started_at=AT, **values)


@pytest.mark.parametrize(
    ("fields", "word", "time"),
    [
        ({"state": calls.OK, "duration_ms": 1800}, "Done: ", "1.8 s"),
        ({"state": calls.ERROR, "duration_ms": 900, "output": "Error: 403"}, "Failed: ", "0.9 s"),
        (
            {"state": calls.CANCELLED, "duration_ms": 12_000},
            "Cancelled: ",
            "cancelled by you, 12 s",
        ),
        ({"state": calls.DECLINED}, "Declined: ", "declined by you"),
        ({"state": calls.WAIT, "waits_for": "needs approval"}, "Waiting: ", "needs approval"),
        ({"state": calls.RUNNING}, "Running: ", ""),
    ],
)
def test_each_state_of_a_call_is_told_in_words(
    fields: dict[str, Any], word: str, time: str
) -> None:
    page = dom.parse(call(**fields).html(LOOK))

    assert page.by_class("vh")[0].text == word
    assert page.by_class("tool__time")[0].text == time
    assert bool(page.by_class("tool__cancel")) == (fields["state"] == calls.RUNNING)


def test_what_a_call_was_given_is_escaped() -> None:
    html = call(name="<b>x</b>", args={"query": "<img src=x>"}).html(LOOK)

    assert "<img" not in html
    assert "<b>x" not in html


def test_a_run_that_is_folded_counts_its_time_from_first_start_to_last_end() -> None:
    first = call("a", state=calls.OK, finished_at=AT + timedelta(seconds=3), duration_ms=3000)
    second = call("b", state=calls.CANCELLED, finished_at=AT + timedelta(seconds=21))
    group = CallGroup(1, [first, second])

    assert group.fold()
    assert not group.fold()
    assert group.summary == "Worked 21 s · 2 tools"
    assert "1 cancelled" in group.html(LOOK)
    assert "failed" not in group.html(LOOK)


def test_one_call_alone_is_never_folded() -> None:
    assert not CallGroup(1, [call()]).fold()


def test_a_ragged_table_is_filled_up_and_numbers_stand_right() -> None:
    props = {"columns": ["a", "n"], "rows": [["x", 1], ["y"], {"a": "z", "n": "2 GB"}, "nonsense"]}

    page = dom.parse(components.render("c-1", "table", props))

    rows = _tags(page, "tr")[1:]
    assert [[cell.text for cell in row.children if isinstance(cell, dom.Node)] for row in rows] == [
        ["x", "1"],
        ["y", ""],
        ["z", "2 GB"],
        ["", ""],
    ]
    assert "num" in page.by_class("table")[0].html()


def test_a_huge_table_says_how_much_it_leaves_out() -> None:
    props = {"columns": ["n"], "rows": [[n] for n in range(700)]}

    page = dom.parse(components.render("c-1", "table", props))

    assert len(_tags(page, "tr")) == 501
    assert "200 more rows are not shown." in page.text


@pytest.mark.parametrize("kind", ["table", "keyvalue", "timeline", "hologram"])
@pytest.mark.parametrize(
    "props",
    [
        {},
        {"columns": None, "rows": "x"},
        {"items": [1, None]},
        {"steps": {"a": 1}},
        {"title": ["t"]},
    ],
)
def test_a_component_with_nonsense_in_it_breaks_nothing(kind: str, props: dict[str, Any]) -> None:
    page = dom.parse(components.render("c-1", kind, props))

    assert page.find("c-1")


def test_a_timeline_tells_its_states_in_words_and_escapes_them() -> None:
    steps = [
        {"label": "<b>one</b>", "state": "done", "detail": "d"},
        {"label": "two", "state": "<active>"},
    ]

    page = dom.parse(components.render("c-1", "timeline", {"steps": steps}))

    assert [node.text for node in page.by_class("vh")] == ["Done: ", "To do: "]
    assert "<b>one</b>" in page.text


def _tags(node: dom.Node, tag: str) -> list[dom.Node]:
    found = [node] if node.tag == tag else []
    for child in node.children:
        if isinstance(child, dom.Node):
            found += _tags(child, tag)
    return found
