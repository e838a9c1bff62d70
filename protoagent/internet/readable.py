"""HTML as the plain text a reader sees: no scripts, no navigation, one line per text line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import unescape

try:
    from selectolax.lexbor import LexborHTMLParser, LexborNode
except ImportError:  # pragma: no cover — tests cover the fallback by removing the name
    LexborHTMLParser = None

# Never text for a reader. `template` and `svg` hold markup that is not shown as text.
_DROPPED = {"script", "style", "nav", "footer", "noscript", "template", "svg", "iframe", "head"}
_DROPPED_ROLES = {"navigation", "banner", "contentinfo"}
_DROPPED_CLASSES = {"sidebar", "menu", "breadcrumb"}
_SECTIONING = {"main", "article", "section", "aside"}
_INLINE = {
    *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn"),
    *("em", "font", "i", "ins", "kbd", "label", "mark", "q", "ruby", "s", "samp", "small"),
    *("span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr"),
}
_SPACE = re.compile(r"[ \t\r\n\f\v\u00a0]+")


def readable(html: str) -> str:
    """The text of a page: of its main part if it names one, without what surrounds it."""
    if not html.strip():
        return ""
    if LexborHTMLParser is None:
        return _without_tags(html)
    parser = LexborHTMLParser(html)  # owns the tree, so it must outlive it
    return _Page(parser.body).text() if parser.body is not None else ""


class _Page:
    """One parsed page. Nothing is removed from the tree: what is dropped is never entered."""

    def __init__(self, body: LexborNode) -> None:
        self._body = body
        self._has_main = body.css_first("main, article") is not None

    def text(self) -> str:
        """The text of the best part that has any."""
        for part in self._parts():
            text = "\n".join(self._lines(part))
            if text:
                return text
        return ""

    def _parts(self) -> Iterator[LexborNode]:
        named = [self._body.css_first(name) for name in ("main", "article", '[role="main"]')]
        yield from (part for part in named if part is not None)
        if not any(named):
            yield self._dominant()
        yield self._body

    def _dominant(self) -> LexborNode:
        """The innermost div that holds most of the text and every heading of the page."""
        sizes = self._sizes()
        here = self._body
        while True:
            size, headings = sizes[here.mem_id]
            there = next(
                (
                    child
                    for child in _children(here)
                    if child.tag == "div" and sizes.get(child.mem_id, (0, 0))[0] * 2 > size
                ),
                None,
            )
            if there is None or sizes[there.mem_id][1] < headings:
                return here
            here = there

    def _sizes(self) -> dict[int, tuple[int, int]]:
        """Characters of text and number of headings inside each div and the body."""
        found: dict[int, tuple[int, int]] = {}
        size = headings = 0
        open_: list[tuple[int, int]] = []
        for node, is_start in self._walk(self._body):
            if node.tag == "-text":
                size += len((node.text_content or "").strip()) if is_start else 0
            elif node.tag in ("div", "body"):
                if is_start:
                    open_.append((size, headings))
                else:
                    before = open_.pop()
                    found[node.mem_id] = (size - before[0], headings - before[1])
            elif node.tag in ("header", "h1") and is_start:
                headings += 1
        return found

    def _lines(self, root: LexborNode) -> Iterator[str]:
        line: list[str] = []
        preformatted = 0
        for node, is_start in self._walk(root):
            tag = node.tag
            if tag == "-text":
                if is_start:
                    *whole, rest = _split(node.text_content or "", bool(preformatted))
                    for piece in whole:
                        yield from _flushed(line, piece)
                    line.append(rest)
                continue
            preformatted += (1 if is_start else -1) if tag in ("pre", "textarea") else 0
            if tag in ("td", "th"):
                if is_start and any(map(str.strip, line)):
                    line.append(" | ")
            elif tag not in _INLINE:
                yield from _flushed(line)
        yield from _flushed(line)

    def _walk(self, root: LexborNode) -> Iterator[tuple[LexborNode, bool]]:
        """Each node that a reader sees, once when entered and once when left.

        Without recursion: a page may be nested as deeply as it is long.
        """
        node, sections, kept_headers = root, 0, 0
        while True:
            if self._is_dropped(node, is_in_section=sections > 0, is_in_header=kept_headers > 0):
                is_start = False
            else:
                yield node, True
                is_start = True
                sections += node.tag in _SECTIONING
                kept_headers += node.tag == "header"
                if node.child is not None:
                    node = node.child
                    continue
            while True:
                if is_start:
                    yield node, False
                    sections -= node.tag in _SECTIONING
                    kept_headers -= node.tag == "header"
                if node.mem_id == root.mem_id:
                    return
                if node.next is not None:
                    node = node.next
                    break
                node, is_start = node.parent, True

    def _is_dropped(self, node: LexborNode, *, is_in_section: bool, is_in_header: bool) -> bool:
        tag = node.tag
        if tag in ("-text", "body"):
            return False
        if tag in _DROPPED or tag.startswith("-"):
            return True
        if tag == "header" and not is_in_section and not is_in_header:
            above = node.parent
            if (
                self._has_main
                or (above is not None and above.tag in ("body", "html"))
                or node.css_first("nav") is not None
            ):
                return True
        attributes = node.attributes
        return not (
            _DROPPED_ROLES.isdisjoint((attributes.get("role") or "").lower().split())
            and _DROPPED_CLASSES.isdisjoint((attributes.get("class") or "").split())
        )


def _children(node: LexborNode) -> Iterator[LexborNode]:
    child = node.child
    while child is not None:
        yield child
        child = child.next


def _split(text: str, is_preformatted: bool) -> list[str]:
    if is_preformatted:
        return text.split("\n")
    return [_SPACE.sub(" ", text)]


def _flushed(line: list[str], last: str = "") -> Iterator[str]:
    """The finished line, if anything is on it; `line` is empty afterwards."""
    text = _SPACE.sub(" ", "".join(line) + last).strip()
    line.clear()
    if text.strip("| "):
        yield text.removesuffix(" |").rstrip()


def _without_tags(html: str) -> str:
    """The same without a parser: scripts and tags go, white space collapses, navigation stays.

    Linear in the length of the page, however it is broken.
    """
    text = html
    for tag in ("script", "style"):
        text = " ".join(_outside(text, f"<{tag}", f"</{tag}"))
    return unescape(" ".join(" ".join(_outside(text, "<", ">")).split()))


def _outside(text: str, opening: str, closing: str) -> Iterable[str]:
    lower, at = text.lower(), 0
    if len(lower) != len(text):  # a few letters become two; places must stay the same
        lower = "".join(char.lower() if char.isascii() else char for char in text)
    while (start := lower.find(opening, at)) >= 0:
        yield text[at:start]
        end = lower.find(closing, start)
        if end < 0:
            return
        at = end + len(closing)
    yield text[at:]
