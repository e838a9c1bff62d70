"""The four general tools: the happy line, each error line, the clamps."""

from __future__ import annotations

import asyncio
import inspect
import zoneinfo
from datetime import UTC, datetime

import pytest

from protoagent.core import clock
from protoagent.core.errors import BadValue, Blocked
from protoagent.internet import fetch, search
from protoagent.internet.fetch import Page
from protoagent.internet.search import Hit
from protoagent.security.egress import EgressPolicy, FetchFailed
from tests.fakes.web import fake_web
from tools_app.groups import general
from tools_app.groups.general import (
    TOOLS,
    calculator,
    current_time,
    fetch_url,
    safety_net,
    web_search,
)

NOW = datetime(2026, 4, 7, 17, 23, 42, 644606, tzinfo=UTC)


@pytest.fixture
def at_a_fixed_time(monkeypatch):
    monkeypatch.setattr(clock, "now", lambda: NOW)


def test_the_tools_have_their_published_names_and_parameters():
    published = {spec.name: spec.parameters["properties"] for spec in TOOLS}

    assert {name: list(found) for name, found in published.items()} == {
        "current_time": ["timezone"],
        "calculator": ["expression"],
        "web_search": ["query", "max_results"],
        "fetch_url": ["url", "max_chars"],
    }
    assert published["current_time"]["timezone"]["default"] == "UTC"
    assert published["web_search"]["max_results"]["default"] == 5
    assert published["fetch_url"]["max_chars"]["default"] == 8000
    for spec in TOOLS:
        assert spec.description
        assert spec.repeatable
        assert not spec.lead_only
        assert all(entry["description"] for entry in spec.parameters["properties"].values())


# current_time ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "first", "second"),
    [
        (
            "America/New_York",
            "2026-04-07T13:23:42.644606-04:00 (America/New_York)",
            "Human: Tuesday, April 07 2026, 13:23:42 EDT",
        ),
        (
            "UTC",
            "2026-04-07T17:23:42.644606+00:00 (UTC)",
            "Human: Tuesday, April 07 2026, 17:23:42 UTC",
        ),
        (
            "etc/utc",
            "2026-04-07T17:23:42.644606+00:00 (etc/utc)",
            "Human: Tuesday, April 07 2026, 17:23:42 UTC",
        ),
        (
            "Asia/Kathmandu",
            "2026-04-07T23:08:42.644606+05:45 (Asia/Kathmandu)",
            "Human: Tuesday, April 07 2026, 23:08:42 +0545",
        ),
    ],
)
async def test_the_time_is_told_in_two_lines(at_a_fixed_time, zone, first, second):
    assert await current_time.run(timezone=zone) == f"{first}\n{second}"


async def test_a_whole_second_still_has_microseconds(monkeypatch):
    monkeypatch.setattr(clock, "now", lambda: NOW.replace(microsecond=0))

    assert "17:23:42.000000+00:00" in await current_time.run()


@pytest.mark.parametrize(
    "zone",
    [
        "Not/A_Zone",
        "",
        "../x",
        "/etc/passwd",
        "America",
        "a\x00b",
        "\ud800",
        "x" * 5000,
        "EST5 EDT",
    ],
)
async def test_an_unknown_zone_is_named_with_an_example(zone):
    with pytest.raises(BadValue, match=r"^unknown timezone '.*'\. Use an IANA name such as"):
        await current_time.run(timezone=zone)


async def test_without_a_zone_database_the_time_is_in_utc_and_says_so(monkeypatch, at_a_fixed_time):
    def missing(name):
        raise zoneinfo.ZoneInfoNotFoundError(name)

    monkeypatch.setattr(general, "ZoneInfo", missing)

    for zone in ("UTC", "Etc/UTC", "utc"):
        assert "Note:" not in await current_time.run(timezone=zone)
    answer = await current_time.run(timezone="Asia/Tokyo")

    assert answer.startswith("2026-04-07T17:23:42.644606+00:00 (Asia/Tokyo)\nHuman: ")
    assert answer.splitlines()[2].startswith("Note: ")


# calculator ------------------------------------------------------------------------------


async def test_the_calculator_answers_with_the_expression_as_typed():
    assert await calculator.run(expression="2 ** 10") == "2 ** 10 = 1024"


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("1/0", "division by zero"),
        ("1 +", "not a valid expression: '1 +'"),
        ("abs(-5)", "unsupported expression node: Call"),
        ("'a'", "unsupported constant: 'a'"),
        ("9**9**9", "the exponent is beyond 10,000"),
    ],
)
async def test_the_calculator_refuses_in_one_sentence(expression, sentence):
    with pytest.raises(BadValue) as error:
        await calculator.run(expression=expression)

    assert str(error.value) == sentence


# web_search ------------------------------------------------------------------------------


@pytest.fixture
def found(monkeypatch):
    hits = [
        Hit(
            "LangGraph Introduction", "https://langchain.com/langgraph", "LangGraph is a framework"
        ),
        Hit("", "https://b.example/", ""),
    ]
    asked = []

    async def answer(query, max_results):
        asked.append((query, max_results))
        return hits

    monkeypatch.setattr(search, "search", answer)
    return hits, asked


async def test_hits_are_listed_with_number_title_address_and_snippet(found):
    assert await web_search.run(query="LangGraph tutorial") == (
        "2 result(s) for 'LangGraph tutorial':\n"
        "1. LangGraph Introduction — https://langchain.com/langgraph\n"
        "   LangGraph is a framework\n"
        "2. (no title) — https://b.example/"
    )
    assert found[1] == [("LangGraph tutorial", 5)]


async def test_no_hit_is_said(found):
    found[0].clear()

    assert await web_search.run(query="x", max_results=1) == "No results for 'x'."


async def test_a_failing_search_passes_its_sentence_on(monkeypatch):
    async def fail(query, max_results):
        raise FetchFailed("DuckDuckGo search failed: rate limit")

    monkeypatch.setattr(search, "search", fail)

    with pytest.raises(FetchFailed, match=r"^DuckDuckGo search failed: rate limit$"):
        await web_search.run(query="x")


# fetch_url -------------------------------------------------------------------------------


@pytest.fixture
async def web(monkeypatch):
    original = fetch.fetch
    async with fake_web() as web:

        async def fetch_from_fake(url):
            return await original(url, EgressPolicy(), resolve=web.resolve, network=web)

        monkeypatch.setattr(fetch, "fetch", fetch_from_fake)
        yield web


async def test_a_page_comes_with_its_status_and_the_address_as_given(web):
    web.redirect("http://public.example/a", "/b")
    web.page("http://public.example/b", "<main><h1>Example</h1><p>Text</main>")

    answer = await fetch_url.run(url="http://public.example/a")

    assert answer == "[200] http://public.example/a\n\nExample\nText"


@pytest.mark.parametrize(
    ("max_chars", "text"),
    [
        (8000, "one two three"),
        (13, "one two three"),
        (12, "one two thre\n…[truncated]"),
        (8, "one two\n…[truncated]"),
        (1, "o\n…[truncated]"),
        (0, "o\n…[truncated]"),
        (-5, "o\n…[truncated]"),
    ],
)
async def test_a_long_text_is_cut_and_marked(web, max_chars, text):
    web.page("http://public.example/", "one two three", content_type="text/plain")

    answer = await fetch_url.run(url="http://public.example/", max_chars=max_chars)

    assert answer == f"[200] http://public.example/\n\n{text}"


async def test_a_body_over_the_cap_is_marked_even_if_its_text_is_short(monkeypatch):
    async def page(url):
        return Page(200, "text/html", "short", is_cut=True)

    monkeypatch.setattr(fetch, "fetch", page)

    assert (await fetch_url.run(url="u")).endswith("short\n…[truncated]")


@pytest.mark.parametrize(
    ("url", "error", "sentence"),
    [
        ("ftp://x/", BadValue, "url must start with http:// or https://"),
        ("http://127.0.0.1/", Blocked, "blocked: 127.0.0.1 is a loopback address"),
        ("http://public.example/none", FetchFailed, "HTTP 404 for http://public.example/none"),
    ],
)
async def test_a_failed_fetch_passes_its_sentence_on(web, url, error, sentence):
    with pytest.raises(error) as failure:
        await fetch_url.run(url=url)

    assert str(failure.value) == sentence


# The safety net --------------------------------------------------------------------------


def test_the_net_keeps_name_docstring_and_parameters():
    @safety_net()
    async def look_up(word: str, times: int = 2) -> str:
        """Look a word up."""
        return word * times

    assert look_up.__name__ == "look_up"
    assert look_up.__doc__ == "Look a word up."
    assert list(inspect.signature(look_up).parameters) == ["word", "times"]


async def test_the_net_turns_a_surprise_into_three_lines():
    @safety_net()
    async def look_up():
        raise KeyError("x" * 500)

    first, second, third = (await look_up()).split("\n")

    assert first == "Error (partial result): look_up could not complete."
    assert second.startswith("KeyError: 'xxx")
    assert len(second) <= len("KeyError: ") + 200
    assert third.startswith("Hint: ")


def test_the_net_works_for_plain_functions_and_takes_a_message():
    @safety_net("Hint: ask somebody.")
    def look_up(word):
        if word == "bad":
            raise ValueError("no such\nword")
        return word

    assert look_up("good") == "good"
    assert look_up("bad").split("\n")[1:] == ["ValueError: no such word", "Hint: ask somebody."]


@pytest.mark.parametrize("error", [BadValue("refused"), asyncio.CancelledError()])
async def test_refusals_and_cancellation_pass_the_net(error):
    @safety_net()
    async def look_up():
        raise error

    with pytest.raises(type(error)):
        await look_up()


async def test_a_surprise_inside_a_tool_is_caught(monkeypatch):
    async def broken(url):
        raise RuntimeError("boom")

    monkeypatch.setattr(fetch, "fetch", broken)

    answer = await fetch_url.run(url="http://public.example/")

    assert answer.startswith("Error (partial result): fetch_url could not complete.\nRuntimeError")
