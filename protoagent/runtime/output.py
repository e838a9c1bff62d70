"""Cleaning a model's answer while it streams: characters, and its private thinking.

`<think>` and `<scratch_pad>` blocks, closed or cut off by the end, are neither shown nor
stored, unless a backtick stands before the tag (then the answer talks about the tag).
"""

from __future__ import annotations

import re

from protoagent.core.text import storable

_OPEN = re.compile(r"(?<!`)<(think|scratch_pad)>", re.IGNORECASE)
_TAGS = ("<think>", "</think>", "<scratch_pad>", "</scratch_pad>")
_LONGEST = max(map(len, _TAGS))


class CharacterFilter:
    """Feed it deltas, get text that can be stored.

    Some gateways cut a character outside the basic plane into two halves; the first one is
    held back until the other arrives.
    """

    def __init__(self) -> None:
        self._half = ""

    def feed(self, delta: str) -> str:
        """Everything fed so far that is not half a character."""
        if not self._half and delta.isascii():
            return delta.replace("\x00", "\ufffd")
        text, self._half = self._half + delta, ""
        if "\ud800" <= text[-1:] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return storable(text)

    def flush(self) -> str:
        """What stands for a half whose other half never came."""
        half, self._half = self._half, ""
        return storable(half)


class ThinkingFilter:
    """Feed it deltas, get what may be shown; at most one tag's length is held back."""

    def __init__(self) -> None:
        self._held = ""
        self._inside = ""
        self._last = ""

    def feed(self, delta: str) -> str:
        """The part of everything fed so far that became showable with `delta`."""
        if not self._inside and not self._held and "<" not in delta:
            self._last = delta[-1:] or self._last
            return delta
        text = self._held + delta
        self._held = ""
        shown: list[str] = []
        while text:
            text = self._skip(text) if self._inside else self._show(text, shown)
        return "".join(shown)

    def flush(self) -> str:
        """What was held back at the end of the answer; an unclosed block stays hidden."""
        rest = "" if self._inside else self._held
        self._held = ""
        return rest

    def _show(self, text: str, shown: list[str]) -> str:
        offset = len(self._last)
        # The character before only tells whether the tag is quoted: no tag begins with it.
        match = _OPEN.search(self._last + text, offset)
        if match:
            self._emit(text[: match.start() - offset], shown)
            self._inside = match[1].lower()
            return text[match.end() - offset :]
        keep = _unfinished_tag(text)
        self._held = text[len(text) - keep :]
        self._emit(text[: len(text) - keep], shown)
        return ""

    def _emit(self, visible: str, shown: list[str]) -> None:
        if visible:
            shown.append(visible)
            self._last = visible[-1]

    def _skip(self, text: str) -> str:
        closing = f"</{self._inside}>"
        at = text.lower().find(closing)
        if at >= 0:
            self._inside = ""
            self._last = ">"  # what stands before the block and after it is not one word
            return text[at + len(closing) :]
        keep = _unfinished_tag(text)
        self._held = text[len(text) - keep :]
        return ""


def _unfinished_tag(text: str) -> int:
    """How many characters at the end could be the beginning of a tag."""
    tail = text[-_LONGEST:].lower()
    at = tail.rfind("<")
    if at >= 0 and any(tag.startswith(tail[at:]) for tag in _TAGS):
        return len(tail) - at
    return 0
