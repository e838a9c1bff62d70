"""Secrets are masked wherever text is stored, shown or sent to a model.

A mask keeps the public beginning (`sk-`, `password: `, `-----BEGIN … KEY-----`) and hides
the rest. Nothing here raises, and text without anything suspicious costs microseconds.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from protoagent.core.text import one_line
from protoagent.security.secret_shapes import (
    MAX_LOOK_BEHIND,
    SHAPES,
    is_secret_name,
)

MASK = "[REDACTED]"
MIN_KNOWN_CHARS = 6
MAX_DEPTH = 60

# Enough of what has left for an anchor that a delta cuts in two, and what stands before it.
_KEEP = 24
_HEAD = 4
_KNOWN = -1

Hit = tuple[int, int]


def _triggers() -> tuple[tuple[str, tuple[tuple[str, tuple[int, ...]], ...]], ...]:
    """For each cheap test of a text the anchors it stands for, and the shapes of each."""
    anchors: dict[str, list[int]] = {}
    for place, shape in enumerate(SHAPES):
        for anchor in shape.anchors:
            anchors.setdefault(anchor, []).append(place)
    found: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
    for anchor, places in anchors.items():
        trigger = next((mark for mark in "_-" if mark in anchor), anchor)
        found.setdefault(trigger, []).append((anchor, tuple(places)))
    return tuple((trigger, tuple(entries)) for trigger, entries in found.items())


_TRIGGERS = _triggers()


@functools.cache
def _compiled(expression: str) -> re.Pattern[str]:
    """Compiled when first needed: together they take longer than the rest of a cold start."""
    return re.compile(expression, re.ASCII)


def _find(text: str, part: str, place: int, found: list[Hit]) -> None:
    at = text.find(part)
    while at >= 0:
        found.append((at, place))
        at = text.find(part, at + 1)


class _Known:
    """Secret values that were registered, prepared for searching. Immutable."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        written: set[str] = set()
        for value in values:
            if len(value.strip()) >= MIN_KNOWN_CHARS:
                written |= {value.strip(), json.dumps(value)[1:-1], quote(value, safe="")}
        # The longest first: of two values that begin alike the longer one must win.
        self.values = tuple(sorted(written, key=lambda value: (-len(value), value)))
        self.heads = tuple({value[:_HEAD] for value in self.values})
        self.starts = frozenset(v[:size] for v in self.values for size in range(1, _HEAD))

    def hits(self, text: str) -> list[Hit]:
        """Where in `text` a secret of which shape may begin, in order; mostly nowhere."""
        lower = text.lower()
        if len(lower) != len(text):  # a few letters become two; places must stay the same
            lower = "".join(char.lower() if char.isascii() else char for char in text)
        found: list[Hit] = []
        for trigger, anchors in _TRIGGERS:
            if trigger in lower:
                for anchor, places in anchors:
                    if anchor in lower:
                        for place in places:
                            _find(lower, anchor, place, found)
        for head in self.heads:
            if head in text:
                _find(text, head, _KNOWN, found)
        found.sort()
        return found

    def body_at(self, text: str, hit: Hit, *, is_last: bool) -> tuple[int, int, bool] | None:
        """Begin and end of the secret part at `hit`, and whether it may yet prove to be none.

        The undecided ones reach the end of `text`; there are none when it is the last.
        """
        at, place = hit
        if place == _KNOWN:
            value = next((value for value in self.values if text.startswith(value, at)), None)
            return (at, at + len(value), False) if value else None
        shape = SHAPES[place]
        prefix = _compiled(shape.prefix).match(text, at)
        if prefix is None:
            return None
        begin = prefix.end()
        if not is_last and _compiled(f"(?:{shape.open})\\Z").match(text, begin):
            return begin, len(text), True
        body = _compiled(shape.body).match(text, begin)
        return (begin, body.end(), False) if body else None

    def tail(self, text: str, begin: int, *, is_last: bool = False) -> int:
        """Where the beginning of a value stands that may go on after the end of `text`."""
        first = len(text)
        if is_last:
            return first
        for value in self.values:
            at = text.find(value[0], max(begin, len(text) - len(value) + 1), first)
            while at >= 0:
                if value.startswith(text[at:]):
                    first = at
                    break
                at = text.find(value[0], at + 1, first)
        return first

    def may_begin(self, text: str) -> bool:
        """Whether the last one to three characters are the beginning of a value."""
        starts = self.starts
        return text[-1:] in starts or text[-2:] in starts or text[-3:] in starts


_known = _Known()


def set_known_secrets(values: Iterable[str]) -> None:
    """From now on these values are masked too, also JSON-escaped and percent-encoded.

    Replaces the previous ones. Values under six characters are ignored: they would be
    found everywhere.
    """
    global _known
    _known = _Known(values)


def mask_text(text: str) -> str:
    """`text` with every secret in it masked."""
    return StreamMask().whole(text)


def one_masked_line(text: str, max_chars: int) -> str:
    """`text` on one line for a sentence about it: masked before it is cut, so not half a secret."""
    return one_line(mask_text(text), max_chars)


def mask_value(value: Any) -> Any:
    """A copy of a JSON value with every secret masked, in keys, in texts and under telling keys.

    What is nested deeper than sixty levels is masked as a whole.
    """
    return _mask_value(value, MAX_DEPTH)


class StreamMask:
    """Masks a text that arrives in pieces.

    Whatever the pieces are, what comes out is `mask_text` of the whole. Ordinary text
    leaves at once; only a tail that may still turn out to be a secret is held back, a
    thousand characters at most.
    """

    def __init__(self) -> None:
        self._known = _known
        self._reset()

    def feed(self, delta: str) -> str:
        """What may be shown now that `delta` has arrived."""
        if self._swallowing:
            delta = self._swallow(delta)
        return self._release(delta, is_last=False) if delta else ""

    def flush(self) -> str:
        """What was held back, now that nothing follows. A new text may begin afterwards."""
        return self.whole("")

    def whole(self, text: str) -> str:
        """What may be shown of the rest of a text that ends with `text`."""
        if self._swallowing:
            text = self._swallow(text)
        shown = self._release(text, is_last=True)
        self._reset()
        return shown

    def _reset(self) -> None:
        # The end of what has left, as far as it can matter; secrets begin at `_from` or later.
        self._left = ""
        self._from = 0
        self._held = ""
        # What belongs to a secret whose mask has left already.
        self._swallowing = ""

    def _swallow(self, delta: str) -> str:
        match = _compiled(self._swallowing).match(delta)
        end = match.end() if match else 0
        if end:
            self._left = (self._left + delta[:end])[-MAX_LOOK_BEHIND:]
            self._from = len(self._left)
        if end < len(delta):
            self._swallowing = ""
        return delta[end:]

    def _release(self, delta: str, *, is_last: bool) -> str:
        text = self._left + self._held + delta
        hits = self._known.hits(text)
        if hits:
            return self._search(text, hits, is_last)
        shown, end = len(self._left), len(text)
        if not is_last and self._known.may_begin(text):
            end = self._known.tail(text, shown)
        self._remember(text, end, self._from, ())
        return text[shown:end]

    def _search(self, text: str, hits: list[Hit], is_last: bool) -> str:
        known, shown, begin = self._known, len(self._left), self._from
        hits = [hit for hit in hits if _can_reach(hit, shown)]
        pieces: list[str] = []
        stop = known.tail(text, begin, is_last=is_last)
        for position, hit in enumerate(hits):
            if hit[0] < begin:
                continue
            body = known.body_at(text, hit, is_last=is_last)
            if stop <= hit[0] or (body and body[2]):
                stop = self._first_body(text, hits[position:], stop)
                break
            if body:
                pieces += (text[shown : body[0]], MASK)
                begin = shown = body[1]
                if shown == len(text) and hit[1] != _KNOWN:
                    self._swallowing = SHAPES[hit[1]].more
                stop = known.tail(text, begin, is_last=is_last)
        pieces.append(text[shown:stop])
        self._remember(text, max(stop, shown), begin, hits)
        return "".join(pieces)

    def _first_body(self, text: str, hits: Iterable[Hit], first: int) -> int:
        """Where the first body begins, when the first of `hits` is undecided.

        Whether the later ones count depends on it, so none of their bodies may be shown.
        """
        for hit in hits:
            body = self._known.body_at(text, hit, is_last=False)
            if body:
                first = min(first, body[0])
        return first

    def _remember(self, text: str, stop: int, begin: int, hits: Iterable[Hit]) -> None:
        keep = min((at for at, place in hits if _can_reach((at, place), stop)), default=stop)
        cut = max(0, min(keep, stop - _KEEP) - MAX_LOOK_BEHIND)
        self._left, self._held = text[cut:stop], text[stop:]
        self._from = max(begin - cut, MAX_LOOK_BEHIND if cut else 0)


def _can_reach(hit: Hit, shown: int) -> bool:
    """Whether a secret at `hit` can have its body after the first `shown` characters.

    Nothing of a body is ever shown, so one whose prefix ends earlier is none.
    """
    at, place = hit
    return at + (SHAPES[place].width if place != _KNOWN else 0) >= shown


def _mask_value(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return mask_text(value)
    if not isinstance(value, dict | list | tuple):
        return value
    if depth <= 0:
        return MASK
    if isinstance(value, dict):
        return {
            mask_text(key) if isinstance(key, str) else key: _mask_entry(key, entry, depth - 1)
            for key, entry in value.items()
        }
    return [_mask_value(entry, depth - 1) for entry in value]


def _mask_entry(key: Any, value: Any, depth: int) -> Any:
    if isinstance(key, str) and is_secret_name(key):
        if isinstance(value, str):
            return MASK if value.strip() else value
        if isinstance(value, list | tuple):
            return [_mask_entry(key, entry, depth - 1) for entry in value] if depth > 0 else MASK
    return _mask_value(value, depth)
