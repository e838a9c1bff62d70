"""Text search with DuckDuckGo.

The one outbound path beside `security.egress`: the package brings an HTTP client of its own
that looks like a browser, and it only ever talks to DuckDuckGo. Nothing that a model or a
page says chooses the host. Source: spec/behaviour-tools.md §1.4.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from protoagent.core.errors import BadValue
from protoagent.core.text import one_line
from protoagent.security.egress import FetchFailed

try:
    import ddgs
    from ddgs.exceptions import DDGSException
except ImportError:
    ddgs = None  # type: ignore[assignment]
    DDGSException = OSError  # type: ignore[assignment,misc]

MAX_RESULTS = 10
MAX_QUERY_CHARS = 500
# Of one request, and of everything together: the package may ask several times.
REQUEST_TIMEOUT_S = 10
TIMEOUT_S = 20.0

_searchers = ThreadPoolExecutor(max_workers=4, thread_name_prefix="search")


@dataclass(frozen=True)
class Hit:
    """One result. `title` may be empty, `snippet` too."""

    title: str
    url: str
    snippet: str


async def search(
    query: str, max_results: int, *, ask: Callable[[str, int], list[dict[str, Any]]] | None = None
) -> list[Hit]:
    """At most `max_results` hits (one to ten), best first; none is an empty list.

    Raises BadValue for an empty query and FetchFailed when the search fails. `ask` is the
    wall that tests replace.
    """
    query = " ".join(query.split())
    if not query:
        raise BadValue("query must not be empty")
    if len(query) > MAX_QUERY_CHARS:
        raise BadValue(f"query is longer than {MAX_QUERY_CHARS} characters")
    limit = min(max(max_results, 1), MAX_RESULTS)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(TIMEOUT_S):
            found = await loop.run_in_executor(_searchers, ask or _duckduckgo, query, limit)
    except TimeoutError:
        raise FetchFailed(f"DuckDuckGo search failed: no answer within {TIMEOUT_S:g} s") from None
    except DDGSException as error:
        if "no results" in str(error).lower():
            return []
        raise FetchFailed(f"DuckDuckGo search failed: {_detail(error)}") from None
    return [_hit(entry) for entry in found[:limit]]


def _detail(error: DDGSException) -> str:
    """What went wrong. The package hands on nested messages of its HTTP library as they are."""
    text = str(error)
    if "dns error" in text.lower():
        return "its address cannot be found; is this machine online?"
    if "error sending request" in text.lower():
        return "it cannot be reached"
    return one_line(text, 200) or type(error).__name__


def _duckduckgo(query: str, limit: int) -> list[dict[str, Any]]:
    if ddgs is None:
        raise FetchFailed("web search needs the Python package ddgs, which is not installed")
    # Without a named backend the package asks up to nine other search engines as well.
    finder = ddgs.DDGS(timeout=REQUEST_TIMEOUT_S)
    found: list[dict[str, Any]] = finder.text(query, max_results=limit, backend="duckduckgo")
    return found


def _hit(entry: dict[str, Any]) -> Hit:
    texts = (str(entry.get(name) or "") for name in ("title", "href", "body"))
    title, url, snippet = (" ".join(text.split()) for text in texts)
    return Hit(one_line(title, 300), url, one_line(snippet, 1000))
