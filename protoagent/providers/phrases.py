"""What the offline model understands: a few plain English requests, turned into tool calls."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import available_timezones

from protoagent.core import clock

# Patterns that search everywhere take time that grows with the square of the text.
MAX_SCANNED_CHARS = 500


@dataclass(frozen=True)
class Wish:
    """A tool that a request asks for, or, when `problem` is set, why it cannot be asked for."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    problem: str = ""


def understand(text: str, offered: Set[str]) -> list[Wish]:
    """The tools that `text` asks for, in order; empty when it asks for none.

    Several `/tool` lines are several wishes, and so are a time and a sum in one sentence.
    A wish for a tool that is not offered has its problem set.
    """
    wishes = _commands(text)
    if not wishes:
        plain = " ".join(text.split())
        single = next((wish for find in _SINGLE if (wish := find(plain))), None)
        short = plain[:MAX_SCANNED_CHARS]
        wishes = [single] if single else [w for find in _COMBINED if (w := find(short))]
    return [wish if wish.problem else _checked(wish, offered) for wish in wishes]


def _checked(wish: Wish, offered: Set[str]) -> Wish:
    if wish.tool in offered:
        return wish
    return Wish(wish.tool, problem=f"There is no tool `{wish.tool}` here.")


def _commands(text: str) -> list[Wish]:
    """`/tool NAME {json}` at the start of a line; the object may span lines."""
    wishes: list[Wish] = []
    for match in re.finditer(r"^/tool[ \t]+([\w.:-]+)[ \t]*", text, re.MULTILINE):
        name, rest = match[1], text[match.end() :]
        if not rest or rest[0] == "\n":
            wishes.append(Wish(name))
            continue
        try:
            value, _ = json.JSONDecoder().raw_decode(rest)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            wishes.append(Wish(name, value))
        else:
            problem = f"After `/tool {name}` comes one JSON object, as in `/tool {name} {{}}`."
            wishes.append(Wish(name, problem=problem))
    return wishes


_TIME = re.compile(
    r"\bwhat(?:'s|’s| is)?\s+(?:the\s+)?(?:current\s+|local\s+)?(?:time|date)\b|\bwhat day is\b"
    r"|\bcurrent (?:time|date)\b|\b(?:the )?time (?:is it|in)\b|\btoday'?s date\b",
    re.IGNORECASE,
)
_PLACE = re.compile(
    r"\b(?:in|for)\s+(?P<place>[A-Za-z][A-Za-z _/.'-]*?)"
    r"(?:\s+(?:right now|now|today|please|and\b.*))?\s*[?.!,]*(?:$|\s+and\b)"
)
_PLACES = {
    "nyc": "America/New_York",
    "boston": "America/New_York",
    "washington": "America/New_York",
    "san francisco": "America/Los_Angeles",
    "seattle": "America/Los_Angeles",
    "california": "America/Los_Angeles",
    "beijing": "Asia/Shanghai",
    "china": "Asia/Shanghai",
    "delhi": "Asia/Kolkata",
    "mumbai": "Asia/Kolkata",
    "india": "Asia/Kolkata",
    "japan": "Asia/Tokyo",
    "france": "Europe/Paris",
    "germany": "Europe/Berlin",
    "munich": "Europe/Berlin",
    "italy": "Europe/Rome",
    "spain": "Europe/Madrid",
    "uk": "Europe/London",
    "england": "Europe/London",
    "switzerland": "Europe/Zurich",
    "geneva": "Europe/Zurich",
}


def _time(text: str) -> Wish | None:
    if not _TIME.search(text):
        return None
    match = _PLACE.search(text)
    if match is None:
        return Wish("current_time")
    return Wish("current_time", {"timezone": _zone(match["place"].strip())})


def _zone(place: str) -> str:
    """The time zone of a city or country; an unknown place is given on as it is."""
    name = place.lower()
    return _PLACES.get(name) or _zones().get(name.replace(" ", "_"), place)


@lru_cache(maxsize=1)
def _zones() -> dict[str, str]:
    """Zones by their whole name and by the city at its end, in lower case."""
    cities: dict[str, str] = {}
    for zone in sorted(available_timezones()):
        region, _, city = zone.rpartition("/")
        if region and not zone.startswith(("Etc/", "SystemV/", "US/")):
            cities.setdefault(city.lower(), zone)
    return cities | {zone.lower(): zone for zone in available_timezones()}


_SUM_WORDS = (
    (r"\bto the power of\b|\^", "**"),
    (r"\bmultiplied by\b|\btimes\b|[×·]", "*"),
    (r"\bdivided by\b|÷", "/"),
    (r"\bplus\b", "+"),
    (r"\bminus\b|−", "-"),
    (r"\bmodulo\b|\bmod\b", "%"),
    (r"\bsquared\b", "** 2"),
    (r"\bcubed\b", "** 3"),
    (r"(?<=\d)\s*x\s*(?=\d)", " * "),
    (r"(?<=\d),(?=\d{3}\b)", ""),
    (r"(\d+(?:\.\d+)?)\s*(?:%|percent)\s+of\s+(\d+(?:\.\d+)?)", r"\2 * \1 / 100"),
)
_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)"
_OPERAND = rf"[-+(\s]*{_NUMBER}[)\s]*"
_SUM = re.compile(rf"{_OPERAND}(?:(?:\*\*|//|[-+*/%]){_OPERAND})+")
_SUM_ASKED = re.compile(
    r"\bwhat(?:'s|’s| is)\b|\bcalculate\b|\bcompute\b|\bevaluate\b|\bhow much\b|\bsolve\b"
    r"|\bwork out\b",
    re.IGNORECASE,
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d|\d{1,2}/\d{1,2}/\d{2,4}")


def _sum(text: str) -> Wish | None:
    if _DATE.search(text):
        return None
    is_asked = _SUM_ASKED.search(text) is not None
    for words, sign in _SUM_WORDS:
        text = re.sub(words, sign, text, flags=re.IGNORECASE)
    match = _SUM.search(text)
    # Without a question only a message that is nothing but a sum is one.
    if match is None or not (is_asked or match[0].strip() == text.strip(" =?.!")):
        return None
    expression = " ".join(match[0].split())
    if expression.count("(") < expression.count(")"):
        expression = expression.rstrip(") ")
    return Wish("calculator", {"expression": expression})


def _phrase(tool: str, pattern: str, *names: str) -> Callable[[str], Wish | None]:
    """A finder for requests that `pattern` matches from the start; groups become arguments."""
    compiled = re.compile(rf"(?:please |can you |could you )?{pattern}", re.IGNORECASE)

    def find(text: str) -> Wish | None:
        match = compiled.match(text)
        if match is None:
            return None
        values = [group.strip().rstrip("?!.") for group in match.groups() if group is not None]
        return Wish(tool, dict(zip(names, values, strict=True)))

    return find


def _ask(text: str) -> Wish | None:
    match = re.match(r"(?:please )?ask me (?P<what>.+)$", text, re.IGNORECASE)
    if match is None:
        return None
    what = match["what"].strip("\"' ?.!")
    if what.lower() in ("a question", "something", "anything"):
        what = "What would you like to tell me"
    return Wish("ask_human", {"question": f"{what[:1].upper()}{what[1:]}?"})


_REMIND = re.compile(
    r"(?:please )?remind me (?:to )?(?P<what>.+?)\s+(?P<when>(?:in \d+ \w+|every \w+.*|tomorrow.*"
    r"|(?:today )?at \d.*))$",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"at (\d{1,2})(?::(\d\d))?\s*(am|pm)?", re.IGNORECASE)


def _remind(text: str) -> Wish | None:
    if not re.match(r"(?:please )?remind me\b", text, re.IGNORECASE):
        return None
    match = _REMIND.match(text[:MAX_SCANNED_CHARS].rstrip("?.! "))
    when = _moment(match["when"].lower()) if match else ""
    if match is None or not when:
        return Wish(
            "schedule_task",
            problem="Say when, as in “remind me to stretch in 20 minutes”, “… tomorrow at 9:00” "
            "or “… every day at 18:30”.",
        )
    return Wish("schedule_task", {"prompt": f"Remind me to {match['what']}.", "when": when})


def _moment(words: str) -> str:
    """A time in ISO form or a cron rule, both in UTC; blank when the words are no time."""
    now = clock.now().replace(microsecond=0)
    if match := re.match(r"in (\d{1,4}) (second|minute|hour|day|week)s?$", words):
        return (now + timedelta(**{f"{match[2]}s": int(match[1])})).isoformat()
    if match := re.match(r"every (\d{1,2}) minutes?$", words):
        return f"*/{match[1]} * * * *" if 0 < int(match[1]) < 60 else ""
    if words.startswith("every hour"):
        return "0 * * * *"
    time = _CLOCK.search(words)
    at = _on_the_clock(time) if time else (9, 0)
    if at is None:
        return ""
    if words.startswith("every day"):
        return f"{at[1]} {at[0]} * * *"
    if words.startswith(("every", "in ")):
        return ""
    return _next(now, at, is_tomorrow=words.startswith("tomorrow")).isoformat()


def _on_the_clock(match: re.Match[str]) -> tuple[int, int] | None:
    hour, minute = int(match[1]), int(match[2] or 0)
    if match[3]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if match[3].lower() == "pm" else 0)
    return (hour, minute) if hour < 24 and minute < 60 else None


def _next(now: datetime, at: tuple[int, int], *, is_tomorrow: bool) -> datetime:
    moment = now.replace(hour=at[0], minute=at[1], second=0)
    if is_tomorrow or moment <= now:
        moment += timedelta(days=1)
    return moment


# What follows the first words is free text, so that only the first match counts.
_SINGLE: tuple[Callable[[str], Wish | None], ...] = (
    _remind,
    _ask,
    _phrase("memory_recall", r"what do you (?:remember|know) about (.+)$", "query"),
    _phrase("memory_recall", r"(?:recall|do you remember) (.+)$", "query"),
    _phrase("memory_list", r"what do you remember[?.!]*$"),
    _phrase("memory_ingest", r"(?:remember|keep in mind)(?: that|:)? (.+)$", "content"),
    _phrase("task_list", r"(?:list|show)(?: me)?(?: all| my| the| open)* tasks\b"),
    _phrase("task_list", r"what are my(?: open)? tasks\b"),
    _phrase(
        "task_create", r"(?:add|create|open|new)(?: a| a new| new)? task:? (?:to )?(.+)$", "title"
    ),
    _phrase("list_schedules", r"(?:list|show)(?: me)?(?: my| the)? (?:reminders|schedules|jobs)\b"),
    _phrase("check_inbox", r"check(?: my| the)? inbox\b"),
    _phrase("fetch_url", r"(?:fetch|open|read|get|summari[sz]e) (https?://\S+)", "url"),
    _phrase("web_search", r"search(?: the web| online)?(?: for)? (.+)$", "query"),
)
_COMBINED = (_time, _sum)
