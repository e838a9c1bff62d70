"""Markdown while it is being written: finished blocks are rendered once, the last one again.

What a `StreamMarkdown` shows depends on the text alone, never on how it was cut into
pieces: a page that is rendered from the stored pieces continues exactly where another
tab is. Cuts are made at complete lines only, because an unfinished line can still turn
into something else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from protoagent.console import markdown

Edit = tuple[str, str]  # ("block" | "tail" | "text" | "whole", html)

BLOCK, TAIL, TEXT, WHOLE = "block", "tail", "text", "whole"
EAGER_CHARS = 8192  # a longer growing block is shown in steps of 1/32 of its length
LOOK_EVERY = 8  # a look at a block follows when it has grown by an eighth
LOOK_BACK_CHARS = 400

_FENCE = re.compile(r"^( {0,3})(`{3,}|~{3,})([^\n]*)\n", re.MULTILINE)
_UNDECIDED = re.compile(
    r"\s*(?:[-=*_+#>|: ]*|\d{1,9}[.)]?|`{1,2}|~{1,2}|`{3,}[^`]*|~{3,}.*|\[[^\]]*\]:?.*)\Z"
)
_PARTIAL_LINK = re.compile(r"!?\[([^\]\n]*)\](?:\([^)\n]*)?\Z")
_BACKTICKS = re.compile(r"`+")
_NESTED_FENCE = re.compile(r"^\s*(?:[-*+>]\s+|\d+[.)]\s+)*(?:```|~~~)", re.MULTILINE)


@dataclass
class _Fence:
    """The open code block: how it was opened, and how much of the source has been looked at."""

    indent: int
    mark: str
    language: str
    position: int
    shown: list[str]

    def closes(self, line: str) -> bool:
        text = line.strip(" \t\n")
        return (
            len(line) - len(line.lstrip(" ")) <= 3
            and len(text) >= len(self.mark)
            and not text.strip(self.mark[0])
        )

    def content(self, line: str) -> str:
        """The line as code: without the indentation of the fence."""
        spaces = len(line) - len(line.lstrip(" "))
        return line[min(spaces, self.indent) :]


class StreamMarkdown:
    """One run of an answer's text."""

    def __init__(self) -> None:
        self._source: list[str] = []
        self._done: list[str] = []
        self._env: markdown.Env = {}
        self._tail = ""
        self._looked_to = self._next_look = 0
        self._kind = self._visible = self._shown = ""
        self._fence: _Fence | None = None
        self._is_closed = False

    @property
    def source(self) -> str:
        """Everything that was fed."""
        return "".join(self._source)

    @property
    def html(self) -> str:
        """What a page shows now; while open, the growing block stands in its own element."""
        done = "".join(self._done)
        return (
            done if self._is_closed else f'{done}<div class="prose__tail">{self._tail_html}</div>'
        )

    @property
    def _tail_html(self) -> str:
        if self._fence is None:
            return self._shown
        before, after = markdown.open_code(self._fence.language)
        return before + "".join(self._fence.shown) + after

    def feed(self, text: str) -> list[Edit]:
        """What changes on the page with `text` appended."""
        text = text.replace("\r", "")
        if not text:
            return []
        self._source.append(text)
        self._tail += text
        edits: list[Edit] = []
        while self._fence_step(edits) if self._fence else self._look(edits):
            pass
        if self._fence is None:
            self._show_tail(edits)
        return edits

    def close(self) -> list[Edit]:
        """The text is complete: the edits that make the page what `markdown.render` gives."""
        if self._is_closed:
            return []
        whole = markdown.render(self.source)
        streamed = "".join(self._done)
        rest = whole.removeprefix(streamed) if whole.startswith(streamed) else None
        self._is_closed, self._done, self._fence = True, [whole], None
        self._tail = self._shown = ""
        return [(WHOLE, whole)] if rest is None else [(BLOCK, rest)]

    def _look(self, edits: list[Edit]) -> bool:
        """Look for finished blocks, line by line; whether something was taken off the tail.

        The looks of a long block are spread out: each parses the whole of it.
        """
        while end := self._tail.find("\n", self._looked_to) + 1:
            self._looked_to = end
            if end < self._next_look:
                continue
            self._next_look = end + end // LOOK_EVERY
            found = markdown.blocks(self._tail[:end], {})
            if len(found) > 1:
                self._finish(found[-1].start, edits)
                return True
            self._kind = found[0].kind
            if self._kind == "fence":
                return self._open_fence(edits)
        return False

    def _show_tail(self, edits: list[Edit]) -> None:
        visible = _visible(self._tail, self._kind)
        if visible == self._visible:
            return
        self._visible = visible
        shown = ""
        if visible.strip():
            shown = markdown.render_block(visible, self._env, final=False)
        if shown != self._shown:
            self._shown = shown
            edits.append((TAIL, shown))

    def _finish(self, end: int, edits: list[Edit]) -> None:
        """The first `end` characters of the tail are final."""
        final: list[str] = []
        source, self._tail = self._tail[:end], self._tail[end:]
        for block in markdown.blocks(source, self._env):
            final.append(markdown.render_block(block.source, self._env))
        self._looked_to = self._next_look = 0
        self._kind = self._visible = self._shown = ""
        html = "".join(final)
        self._done.append(html)
        edits.append((BLOCK, html))

    def _open_fence(self, edits: list[Edit]) -> bool:
        opening = _FENCE.search(self._tail)
        if opening is None:
            return False
        if self._tail[: opening.start()].strip():  # link definitions, which show nothing
            self._finish(opening.start(), edits)
            return True
        language = markdown.language_of(opening[3])
        self._fence = _Fence(len(opening[1]), opening[2], language, opening.end(), [])
        self._shown = ""
        edits.append((TAIL, self._tail_html))
        return True

    def _fence_step(self, edits: list[Edit]) -> bool:
        """Append complete lines of code; whether the fence was closed."""
        fence = self._fence
        assert fence is not None  # noqa: S101 — only called while a fence is open
        new: list[str] = []
        for text in self._tail[fence.position :].split("\n")[:-1]:
            line = f"{text}\n"
            fence.position += len(line)
            if fence.closes(line):
                self._fence = None
                self._finish(fence.position, edits)
                return True
            new.append(fence.content(line))
        if new:
            html = markdown.code_text("".join(new))
            fence.shown.append(html)
            edits.append((TEXT, html))
        return False


def _visible(tail: str, kind: str) -> str:
    """The part of a growing block that can be shown without showing raw marks."""
    if len(tail) > EAGER_CHARS:
        step = 1 << (len(tail).bit_length() - 6)
        tail = tail[: len(tail) - len(tail) % step]
    head, newline, last = tail.rpartition("\n")
    if _UNDECIDED.match(last):
        tail, last = head + newline, ""
    if tail.lstrip().startswith("|") and tail.count("\n") < 2:
        return ""  # a table's head, as long as the line below it is not there
    if kind == "code_block" or len(_NESTED_FENCE.findall(tail)) % 2:
        return tail
    return _mended(tail)


def _mended(text: str) -> str:
    """The text with what is open at its end closed, so that no raw mark flashes."""
    start = max(text.rfind("\n\n") + 2 if "\n\n" in text else 0, len(text) - LOOK_BACK_CHARS)
    head, end = text[:start], text[start:].rstrip()
    end = _PARTIAL_LINK.sub(r"\1", end)
    outside, open_run = _outside_code(end)
    if open_run:
        return head + (end + open_run if not end.endswith("`") else end.rstrip("`"))
    if outside.count("**") % 2:
        end = end.rstrip("*")
        return head + (end.rstrip() + "**" if outside.rstrip("*").count("**") % 2 else end)
    return head + (end[:-1] if end.endswith("*") and not end.endswith("**") else end)


def _outside_code(text: str) -> tuple[str, str]:
    """The text without its inline code, and the backticks of a code span that is not closed."""
    outside: list[str] = []
    position = 0
    while opening := _BACKTICKS.search(text, position):
        outside.append(text[position : opening.start()])
        closing = next(
            (m for m in _BACKTICKS.finditer(text, opening.end()) if len(m[0]) == len(opening[0])),
            None,
        )
        if closing is None:
            return "".join(outside), opening[0]
        position = closing.end()
    return "".join([*outside, text[position:]]), ""
