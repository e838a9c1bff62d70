"""HTML as the plain text a reader sees: no scripts, no navigation, one line per text line.

Source of the rules: spec/behaviour-tools.md §1.5.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from protoagent.internet import markup
from protoagent.internet.markup import BREAK, Node

_DROPPED = {"nav", "footer", "noscript", "template", "svg"}
_DROPPED_ROLES = {"navigation", "banner", "contentinfo"}
_DROPPED_CLASSES = {"sidebar", "menu", "breadcrumb"}
_SECTIONING = {"main", "article", "section", "aside"}
_EDGES = {**dict.fromkeys(markup.INLINE, ("", "")), "td": ("\t", ""), "th": ("\t", "")}
_SPACE = re.compile(r"[ \t\n\f\v\u00a0]+")


def readable(html: str) -> str:
    """The text of a page: of its main part if it names one, without what surrounds it."""
    return _Page(markup.parse(html)).text()


class _Page:
    def __init__(self, body: Node) -> None:
        self._body = body
        self._has_main = body.find("main", "article") is not None

    def text(self) -> str:
        """The text of the best part that has any."""
        for part in self._parts():
            text = "\n".join(self._lines(part))
            if text:
                return text
        return ""

    def _parts(self) -> Iterator[Node]:
        named = [self._body.find("main"), self._body.find("article")]
        named.append(next((node for node in self._body.below() if "main" in node.roles), None))
        yield from (part for part in named if part is not None)
        if not any(named):
            yield self._dominant()
        yield self._body

    def _dominant(self) -> Node:
        """The innermost div that holds most of the text, and every heading of the page."""
        sizes: dict[Node, tuple[int, int]] = {}
        self._measure(self._body, sizes)
        here = self._body
        while True:
            size, headings = sizes[here]
            there = next(
                (node for node in sizes if node.parent is here and sizes[node][0] * 2 > size), None
            )
            if there is None or sizes[there][1] < headings:
                return here
            here = there

    def _measure(self, node: Node, sizes: dict[Node, tuple[int, int]]) -> tuple[int, int]:
        """Characters of text and number of page headings in `node`; kept for each div."""
        size = headings = 0
        for child in node.children:
            if isinstance(child, str):
                size += len(child.strip())
            elif not self._is_dropped(child):
                inside = self._measure(child, sizes)
                size += inside[0]
                headings += inside[1] + (child.tag in ("header", "h1"))
        if node.tag in ("div", "body"):
            sizes[node] = (size, headings)
        return size, headings

    def _lines(self, root: Node) -> Iterator[str]:
        line: list[str] = []
        for text in self._texts(root):
            if text == BREAK:
                yield from _finished(line)
            else:
                line.append(text)
        yield from _finished(line)

    def _texts(self, root: Node) -> Iterator[str]:
        """Pieces of text, with BREAK where a line ends and a tab before a cell of a table."""
        waiting: list[tuple[Iterator[str | Node], str, bool]] = []
        waiting.append((iter(root.children), "", root.tag == "pre"))
        while waiting:
            children, after, is_preformatted = waiting[-1]
            child = next(children, None)
            if child is None:
                waiting.pop()
                yield after
            elif isinstance(child, str):
                yield from _pieces(child, is_preformatted)
            elif not self._is_dropped(child):
                before, after = _EDGES.get(child.tag, (BREAK, BREAK))
                yield before
                is_preformatted = is_preformatted or child.tag == "pre"
                waiting.append((iter(child.children), after, is_preformatted))

    def _is_dropped(self, node: Node) -> bool:
        if node.tag in _DROPPED or not _DROPPED_ROLES.isdisjoint(map(str.lower, node.roles)):
            return True
        if not _DROPPED_CLASSES.isdisjoint(node.classes):
            return True
        return node.tag == "header" and self._is_page_header(node)

    def _is_page_header(self, node: Node) -> bool:
        above = node.parent
        is_at_top = above is self._body
        while above is not None:
            if above.tag in _SECTIONING:
                return False
            above = above.parent
        return self._has_main or is_at_top or node.find("nav") is not None


def _pieces(text: str, is_preformatted: bool) -> Iterator[str]:
    if not is_preformatted or text == BREAK:
        yield text if text == BREAK else _SPACE.sub(" ", text)
        return
    for number, part in enumerate(text.split("\n")):
        if number:
            yield BREAK
        yield part.replace("\t", " ")


def _finished(line: list[str]) -> Iterator[str]:
    """The line, if anything is on it, cells of a table apart; `line` is empty afterwards."""
    cells = [_SPACE.sub(" ", cell).strip() for cell in "".join(line).split("\t")]
    line.clear()
    if any(cells):
        yield " | ".join(cell for cell in cells if cell)
