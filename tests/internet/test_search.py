"""Web search: the wall to DuckDuckGo and what comes over it."""

from __future__ import annotations

import threading
import time

import pytest
from ddgs.exceptions import DDGSException, RatelimitException, TimeoutException

from protoagent.core.errors import BadValue
from protoagent.internet import search as module
from protoagent.internet.search import Hit, search
from protoagent.security.egress import FetchFailed


def answering(found, asked=None):
    def ask(query, limit):
        if asked is not None:
            asked.append((query, limit))
        if isinstance(found, Exception):
            raise found
        return found

    return ask


async def test_hits_are_tidied():
    found = [
        {"title": " A\n title ", "href": "https://a.example/", "body": "some  \n text"},
        {"title": None, "href": "https://b.example/"},
        {},
    ]

    assert await search("x", 5, ask=answering(found)) == [
        Hit("A title", "https://a.example/", "some text"),
        Hit("", "https://b.example/", ""),
        Hit("", "", ""),
    ]


@pytest.mark.parametrize(("wanted", "limit"), [(-3, 1), (0, 1), (1, 1), (5, 5), (10, 10), (99, 10)])
async def test_the_number_of_results_is_clamped(wanted, limit):
    asked = []

    hits = await search("x", wanted, ask=answering([{"title": "t"}] * 20, asked))

    assert asked == [("x", limit)]
    assert len(hits) == limit


async def test_no_result_is_an_empty_list():
    assert await search("x", 5, ask=answering(DDGSException("No results found."))) == []
    assert await search("x", 5, ask=answering([])) == []


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (RatelimitException("202 Ratelimit"), "DuckDuckGo search failed: 202 Ratelimit"),
        (TimeoutException("timed\nout"), "DuckDuckGo search failed: timed out"),
        (DDGSException(""), "DuckDuckGo search failed: DDGSException"),
        (
            DDGSException("DNSError: error sending request > DNS error: no records found"),
            "DuckDuckGo search failed: its address cannot be found; is this machine online?",
        ),
        (
            DDGSException("ConnectError: error sending request for url (x) > tcp connect"),
            "DuckDuckGo search failed: it cannot be reached",
        ),
    ],
)
async def test_a_failure_is_one_sentence(error, sentence):
    with pytest.raises(FetchFailed) as failure:
        await search("x", 5, ask=answering(error))

    assert str(failure.value) == sentence


@pytest.mark.parametrize("query", ["", "  \n ", "x" * 501])
async def test_a_query_must_be_usable(query):
    with pytest.raises(BadValue, match="query"):
        await search(query, 5, ask=answering([]))


async def test_the_search_leaves_the_event_loop():
    threads = []

    await search("x", 5, ask=lambda query, limit: threads.append(threading.current_thread()) or [])

    assert threads[0] is not threading.main_thread()


async def test_a_search_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr(module, "TIMEOUT_S", 0.05)

    with pytest.raises(FetchFailed, match=r"DuckDuckGo search failed: no answer within 0\.05 s"):
        await search("x", 5, ask=lambda query, limit: time.sleep(0.5))


async def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(module, "ddgs", None)

    with pytest.raises(FetchFailed, match="the Python package ddgs"):
        await search("x", 5)


async def test_only_duckduckgo_is_asked_and_with_a_timeout(monkeypatch):
    asked = []

    class Finder:
        def __init__(self, **options):
            asked.append(options)

        def text(self, query, **options):
            asked.append((query, options))
            return [{"title": "t", "href": "u", "body": "b"}]

    monkeypatch.setattr(module.ddgs, "DDGS", Finder)

    assert await search("x", 3) == [Hit("t", "u", "b")]
    assert asked == [{"timeout": 10}, ("x", {"max_results": 3, "backend": "duckduckgo"})]


def test_the_package_still_has_what_is_used():
    from ddgs.engines import ENGINES

    assert "duckduckgo" in ENGINES["text"]
    assert callable(module.ddgs.DDGS(timeout=1).text)
