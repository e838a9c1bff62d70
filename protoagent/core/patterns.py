"""Regular expressions that a stranger wrote, matched in bounded time. Pure.

Python's engine tries every way to match, and nothing can stop it meanwhile. So the ways are
counted before: a pattern with too many is refused, and a text is matched only up to the
length at which the count stays affordable.
"""

from __future__ import annotations

import re
from typing import Any

from protoagent.core.errors import BadValue

MAX_CHARS = 200
# About a tenth of a second.
MAX_WAYS = 10_000_000
MIN_USEFUL_CHARS = 8

# Public until Python 3.10, and unchanged since; the alternative is a parser of our own.
_parser: Any = re._parser  # type: ignore[attr-defined]
_LEAVES = {"LITERAL", "NOT_LITERAL", "IN", "ANY", "AT", "CATEGORY", "RANGE", "NEGATE"}
_LOOPS = {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}
_SHORT_LOOP = 8


class _Ways:
    """How many ways there are: `fixed`, times the length of the text to the power of `loops`."""

    def __init__(self) -> None:
        self.fixed = 1
        self.loops = 0

    @property
    def is_one(self) -> bool:
        return self.fixed == 1 and not self.loops


def longest_text(pattern: str) -> int:
    """Up to how many characters a text can be matched against `pattern`.

    Raises BadValue when it is no regular expression or takes too long on any useful text:
    loops inside loops, choices inside loops, back references and look-around.
    """
    if len(pattern) > MAX_CHARS:
        raise BadValue(f"it has more than {MAX_CHARS} characters")
    try:
        tree = _parser.parse(pattern)
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        raise BadValue("it is no regular expression") from None
    ways = _count(tree)
    if not _is_anchored(tree):
        ways.loops += 1  # the engine begins anew at every character
    longest = MAX_WAYS
    while longest >= MIN_USEFUL_CHARS and ways.fixed * longest**ways.loops > MAX_WAYS:
        longest = longest * 9 // 10
    if longest < MIN_USEFUL_CHARS:
        raise BadValue("it is too complicated; use a simpler pattern")
    return longest


def is_found(pattern: str, text: str) -> bool:
    """Whether `pattern` matches somewhere in `text`, which JSON Schema asks for.

    Raises BadValue for what `longest_text` refuses and for a text that is longer than that.
    """
    longest = longest_text(pattern)
    if len(text) > longest:
        raise BadValue(f"at most {longest:,} characters")
    return re.search(pattern, text) is not None


def _is_anchored(tree: Any) -> bool:
    """Whether every match begins at the first character."""
    if not len(tree) or tree.state.flags & re.MULTILINE:
        return False
    kind, argument = tree[0]
    return str(kind) == "AT" and str(argument) in ("AT_BEGINNING", "AT_BEGINNING_STRING")


def _count(tree: Any) -> _Ways:
    found = _Ways()
    for kind, argument in tree:
        name = str(kind)
        if name in _LEAVES:
            continue
        if name == "SUBPATTERN":
            _multiply(found, _count(argument[3]))
        elif name == "ATOMIC_GROUP":
            _multiply(found, _count(argument))
        elif name == "BRANCH":
            _choose(found, argument[1])
        elif name in _LOOPS:
            _repeat(found, *argument)
        else:
            raise BadValue(
                "looking around or referring back is too complicated; use a simpler pattern"
            )
    return found


def _multiply(found: _Ways, inner: _Ways, times: int = 1) -> None:
    found.loops += inner.loops * times
    found.fixed = min(found.fixed * inner.fixed**times, MAX_WAYS + 1)


def _choose(found: _Ways, branches: list[Any]) -> None:
    inner = [_count(branch) for branch in branches]
    found.loops += max(ways.loops for ways in inner)
    found.fixed = min(found.fixed * sum(ways.fixed for ways in inner), MAX_WAYS + 1)


def _repeat(found: _Ways, least: int, most: Any, body: Any) -> None:
    inner = _count(body)
    if least == most:
        _multiply(found, inner, min(int(least), 64))
        return
    if not inner.is_one and most != 1:
        raise BadValue("repeating a choice or a loop is too complicated; use a simpler pattern")
    _multiply(found, inner)
    if isinstance(most, int) and most - least <= _SHORT_LOOP:
        found.fixed = min(found.fixed * (most - least + 1), MAX_WAYS + 1)
    else:
        found.loops += 1
