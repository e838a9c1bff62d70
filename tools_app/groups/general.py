"""The time, arithmetic, and the open internet."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from datetime import UTC, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from protoagent.core import arithmetic, clock
from protoagent.core.errors import AgentError, BadValue
from protoagent.core.text import one_line, truncate
from protoagent.internet import fetch, search
from protoagent.security.redaction import one_masked_line
from tools_app.spec import tool

log = logging.getLogger(__name__)

MAX_ERROR_CHARS = 200
_UTC_NAMES = {"utc", "etc/utc"}


def safety_net(hint: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Turn an unexpected exception of a tool, sync or async, into three lines for the model.

    `hint` is the last line. Refusals (AgentError) and cancellation pass: they are no surprise.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        advice = hint or "Hint: try again, or with other arguments; if it persists, do without."

        def caught(error: Exception) -> str:
            log.exception("tool %s failed", function.__name__)
            first = f"Error (partial result): {function.__name__} could not complete."
            detail = f"{type(error).__name__}: {one_masked_line(str(error), MAX_ERROR_CHARS)}"
            return f"{first}\n{detail}\n{advice}"

        @functools.wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            try:
                return await function(*args, **kwargs)
            except AgentError:
                raise
            except Exception as error:  # noqa: BLE001 — the boundary of these four tools
                return caught(error)

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except AgentError:
                raise
            except Exception as error:  # noqa: BLE001 — the boundary of these four tools
                return caught(error)

        return awaited if inspect.iscoroutinefunction(function) else called

    return decorate


@tool(group="general", repeatable=True)
@safety_net()
async def current_time(timezone: str = "UTC") -> str:
    """Current wall-clock time in an IANA timezone.

    Args:
        timezone: IANA name such as "UTC", "America/New_York" or "Asia/Tokyo".
    """
    zone, note = _zone(timezone)
    now = clock.now().astimezone(zone)
    return (
        f"{now.isoformat(timespec='microseconds')} ({timezone})\n"
        f"Human: {now:%A, %B %d %Y, %H:%M:%S %Z}{note}"
    )


@tool(group="general", repeatable=True)
@safety_net()
async def calculator(expression: str) -> str:
    """Evaluate plain arithmetic exactly: + - * / // % **, signs and parentheses.

    Args:
        expression: For example "(1 + 2) * 3" or "2 ** 100". No names, no functions.
    """
    return arithmetic.answer(expression)


@tool(group="general", repeatable=True)
@safety_net()
async def web_search(query: str, max_results: int = 5) -> str:
    """Search the web with DuckDuckGo: titles, addresses and snippets.

    Args:
        query: What to look for.
        max_results: How many results, 1 to 10.
    """
    hits = await search.search(query, max_results)
    if not hits:
        return f"No results for '{query}'."
    lines = [f"{len(hits)} result(s) for '{query}':"]
    for number, hit in enumerate(hits, 1):
        lines.append(f"{number}. {hit.title or '(no title)'} — {hit.url}")
        lines += [f"   {hit.snippet}"] if hit.snippet else []
    return "\n".join(lines)


@tool(group="general", repeatable=True)
@safety_net()
async def fetch_url(url: str, max_chars: int = 8000) -> str:
    """Fetch a web page and return its readable text; JSON, CSV and plain text as they are.

    Args:
        url: Full address, beginning with http:// or https://.
        max_chars: Longest text to return; more is cut and marked.
    """
    page = await fetch.fetch(url)
    return f"[{page.status}] {url}\n\n{_shortened(page.text, max_chars, is_cut=page.is_cut)}"


def _zone(name: str) -> tuple[tzinfo, str]:
    """The zone of that name, and what to say when this machine knows none."""
    if name.lower() in _UTC_NAMES:
        return UTC, ""
    zone = _find_zone(name)
    if zone is not None:
        return zone, ""
    if _find_zone("Europe/London") is None:
        return UTC, "\nNote: this machine has no time zone database; the time is in UTC."
    raise BadValue(
        f"unknown timezone {one_line(name, 60)!r}. Use an IANA name such as 'America/New_York'."
    )


def _find_zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):  # not known; a path; a folder, or too long
        return None


def _shortened(text: str, max_chars: int, *, is_cut: bool) -> str:
    limit = max(1, max_chars)
    if len(text) <= limit and not is_cut:
        return text
    return f"{truncate(text[:limit], limit, '').rstrip()}\n…[truncated]"


TOOLS = (current_time, calculator, web_search, fetch_url)
