"""HTML as a small tree of blocks, built in linear time from any text whatever.

Only what decides where text belongs is kept: blocks, and the few inline elements that a
reader of the page must not see. The tree is at most 200 levels deep. HTML5 parsers are not
used for strangers' pages: their tree building takes quadratic time where elements are left
open (selectolax 1.0 needs 0.8 s for 100 KB of `<div>`, minutes for the 2 MB that a fetch
may bring), and neither a time limit nor cancelling reaches a parser written in C.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html import unescape

MAX_DEPTH = 200
MAX_NODES = 200_000

# Stands among the texts of a node where a line ends.
BREAK = "\r"

INLINE = frozenset(
    {
        *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn"),
        *("em", "font", "i", "ins", "kbd", "label", "mark", "q", "ruby", "rt", "rp", "s", "samp"),
        *("small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr"),
        *("img", "input", "meta", "link", "picture", "source", "html", "body", "head", "slot"),
    }
)
BLOCKS = frozenset(
    {
        *("address", "article", "aside", "blockquote", "caption", "center", "dd", "details"),
        *("dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer"),
        *("form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hgroup", "li", "main", "menu"),
        *("nav", "noscript", "ol", "p", "pre", "search", "section", "select", "summary", "svg"),
        *("table", "tbody", "td", "template", "tfoot", "th", "thead", "tr", "ul"),
    }
)
# Their content is text, not markup, up to the end tag.
_RAW = frozenset({"script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes"})
_SHOWN_RAW = frozenset({"textarea", "xmp"})
# Opening the one closes the others, unless a list or table of its own lies between.
_CLOSES: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    **dict.fromkeys(("li",), (frozenset({"li"}), frozenset({"ul", "ol", "menu", "dir"}))),
    **dict.fromkeys(("dt", "dd"), (frozenset({"dt", "dd"}), frozenset({"dl"}))),
    **dict.fromkeys(("td", "th"), (frozenset({"td", "th", "caption"}), frozenset({"table"}))),
    **dict.fromkeys(("tr",), (frozenset({"tr", "caption"}), frozenset({"table"}))),
    **dict.fromkeys(
        ("tbody", "thead", "tfoot"),
        (frozenset({"tbody", "thead", "tfoot", "caption"}), frozenset({"table"})),
    ),
}
# An end tag does not reach out of these, except their own.
_WALLS = frozenset({"table", "td", "th", "caption", "template"})
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})

_ATTRIBUTE = r"""[^\s/>=][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^\s>]*+))?+"""
_TOKEN = re.compile(
    rf"<(?:!--(?:-?>|.*?(?:--!?>|\Z))|(?P<end>/?)(?P<name>[a-zA-Z][^\s/>]*+)"
    rf"(?P<attributes>(?:[\s/=]++|{_ATTRIBUTE})*+)>?|[!?/][^>]*+>?)",
    re.DOTALL,
)
_ROLE_OR_CLASS = re.compile(
    r"""(?:\A|[\s/"'])(role|class)\s*+=\s*+(?:"([^"]*)|'([^']*)|([^\s>]*))""", re.IGNORECASE
)


class Node:
    """A block, or a hidden inline element. `children` are texts and nodes in order."""

    __slots__ = ("children", "classes", "nested", "parent", "roles", "tag")

    def __init__(self, tag: str, parent: Node | None, roles: list[str], classes: list[str]) -> None:
        self.tag = tag
        self.parent = parent
        self.roles = roles
        self.classes = classes
        self.children: list[str | Node] = []
        self.nested = 0

    def find(self, *tags: str) -> Node | None:
        """The first node below this one with one of these tags."""
        return next((node for node in self.below() if node.tag in tags), None)

    def below(self) -> Iterator[Node]:
        """Every node below this one, in the order of the page."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            if node is not self:
                yield node
            waiting += [child for child in reversed(node.children) if isinstance(child, Node)]


def parse(html: str) -> Node:
    """The body of the page."""
    tree = _Tree()
    at = 0
    while (token := _TOKEN.search(html, at)) is not None:
        tree.text(html[at : token.start()])
        at = token.end()
        name = (token["name"] or "").lower()
        if not name:
            continue
        if token["end"]:
            tree.close(name)
        elif name in _RAW:
            at = tree.raw(name, html, at)
        else:
            tree.open(name, token["attributes"])
    tree.text(html[at:])
    return tree.body


class _Tree:
    def __init__(self) -> None:
        self.body = Node("body", None, [], [])
        self._here = self.body
        self._depth = 0
        self._nodes = 0
        self._open: Counter[str] = Counter()
        # Elements beyond the limits, so that their end tags close nothing else.
        self._left_out: Counter[str] = Counter()

    def text(self, text: str) -> None:
        if text:
            text = unescape(text) if "&" in text else text
            self._here.children.append(text.replace("\r\n", "\n").replace("\r", "\n"))

    def _break(self) -> None:
        """The line ends here."""
        children = self._here.children
        if not children or children[-1] != BREAK:
            children.append(BREAK)

    def raw(self, name: str, html: str, at: int) -> int:
        """Take the text up to the end tag of `name`; where to go on."""
        end = re.compile(rf"</{name}(?=[\s/>]|\Z)[^>]*+>?", re.IGNORECASE).search(html, at)
        stop = end.start() if end else len(html)
        if name in _SHOWN_RAW:
            self._push("pre", [], [])
            self.text(html[at:stop])
            self._pop("pre")
        return stop if end is None else end.end()

    def open(self, name: str, attributes: str) -> None:
        roles, classes = _role_and_class(attributes)
        if name in BLOCKS:
            self._close_implied(name)
            self._push(name, roles, classes)
        elif name in INLINE:
            if self._here.tag == name:  # inside a hidden one of the same name
                self._here.nested += 1
            elif (roles or classes) and name not in ("html", "body", "head"):
                self._push(name, roles, classes)
        elif name in ("br", "hr"):
            if name == "hr":
                self._close_implied(name)
            self._break()
        else:
            self._break()  # unknown elements stand apart

    def close(self, name: str) -> None:
        if self._left_out[name]:
            self._left_out[name] -= 1
        elif name in _HEADINGS:  # any of them closes any other
            self._pop(next((tag for tag in _HEADINGS if self._open[tag]), name))
        elif name == "br" or (name not in BLOCKS and name not in INLINE):
            self._break()
        elif self._here.tag == name and self._here.nested:
            self._here.nested -= 1
        else:
            self._pop(name)

    def _push(self, name: str, roles: list[str], classes: list[str]) -> None:
        if self._depth >= MAX_DEPTH or self._nodes >= MAX_NODES:
            self._left_out[name] += 1
            self._break()
            return
        node = Node(name, self._here, roles, classes)
        self._here.children.append(node)
        self._here = node
        self._depth += 1
        self._nodes += 1
        self._open[name] += 1

    def _pop(self, name: str) -> None:
        """Leave the innermost open `name`, with all that is open in it."""
        if not self._open[name]:
            return
        node = self._here
        while node.tag != name:
            if node.tag in _WALLS or (name in INLINE and node.tag in BLOCKS):
                return
            if node.parent is None:
                return
            node = node.parent
        self._leave(node)

    def _leave(self, node: Node) -> None:
        while True:
            left = self._here
            assert left.parent is not None  # noqa: S101 — the body is never left
            self._here = left.parent
            self._depth -= 1
            self._open[left.tag] -= 1
            if left is node:
                return

    def _close_implied(self, name: str) -> None:
        if self._open["p"] and self._here.tag == "p":
            self._leave(self._here)
        closed, walls = _CLOSES.get(name, (frozenset(), frozenset()))
        if not any(self._open[tag] for tag in closed):
            return
        node: Node | None = self._here
        while node is not None and node.tag not in walls:
            if node.tag in closed:
                self._leave(node)
                return
            node = node.parent


def _role_and_class(attributes: str) -> tuple[list[str], list[str]]:
    if "=" not in attributes:
        return [], []
    found: dict[str, list[str]] = {}
    for match in _ROLE_OR_CLASS.finditer(attributes):
        value = next((text for text in match.groups()[1:] if text), "")
        found.setdefault(match[1].lower(), unescape(value).split())
    return found.get("role", []), found.get("class", [])
