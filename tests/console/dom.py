"""A browser's document, small: enough to apply the console's operations and compare pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from html.parser import HTMLParser
from typing import Any

VOID = {"br", "hr", "img", "input", "meta", "link"}


@dataclass(eq=False)
class Node:
    """An element; children are elements and texts."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Node | str] = field(default_factory=list)

    def find(self, element_id: str) -> Node | None:
        if self.attributes.get("id") == element_id:
            return self
        for child in self.children:
            if isinstance(child, Node) and (found := child.find(element_id)):
                return found
        return None

    def parent_of(self, node: Node) -> Node | None:
        for child in self.children:
            if child is node:
                return self
            if isinstance(child, Node) and (found := child.parent_of(node)):
                return found
        return None

    def by_class(self, name: str) -> list[Node]:
        found = [self] if name in self.attributes.get("class", "").split() else []
        for child in self.children:
            if isinstance(child, Node):
                found += child.by_class(name)
        return found

    @property
    def text(self) -> str:
        return "".join(c if isinstance(c, str) else c.text for c in self.children)

    def html(self) -> str:
        """Normalised: texts joined, blank space between elements dropped."""
        parts: list[str] = []
        for child in _joined(self.children):
            if isinstance(child, Node):
                parts.append(child.html())
            elif child.strip():
                parts.append(escape(child, quote=False))
        attributes = "".join(f' {k}="{escape(v)}"' for k, v in sorted(self.attributes.items()))
        return f"<{self.tag}{attributes}>{''.join(parts)}</{self.tag}>"


def _joined(children: list[Node | str]) -> list[Node | str]:
    out: list[Node | str] = []
    for child in children:
        if isinstance(child, str) and out and isinstance(out[-1], str):
            out[-1] += child
        else:
            out.append(child)
    return out


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("root")
        self._stack = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {name: value or "" for name, value in attrs})
        self._stack[-1].children.append(node)
        if tag not in VOID:
            self._stack.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._stack[-1].children.append(Node(tag, {n: v or "" for n, v in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        assert self._stack[-1].tag == tag, f"</{tag}> closes <{self._stack[-1].tag}>"
        self._stack.pop()

    def handle_data(self, data: str) -> None:
        self._stack[-1].children.append(data)


def parse(html: str) -> Node:
    """The elements of `html` under a root; fails on a tag that is not closed."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert len(reader._stack) == 1, f"not closed: {reader._stack[-1].tag}"
    return reader.root


def elements(html: str) -> list[Node]:
    return [node for node in parse(html).children if isinstance(node, Node)]


def apply(page: Node, ops: list[dict[str, Any]]) -> None:
    """Change the page as the browser's script does."""
    for op in ops:
        _APPLY[op["t"]](page, op)


def _one(html: str) -> Node:
    found = elements(html)
    assert len(found) == 1, f"not one element: {html[:200]}"
    return found[0]


def _replace(page: Node, old: Node, new: Node) -> None:
    parent = page.parent_of(old)
    assert parent is not None
    parent.children[parent.children.index(old)] = new


def _msg(page: Node, op: dict[str, Any]) -> None:
    node = _one(op["h"])
    assert node.attributes["id"] == op["id"]
    if old := page.find(op["id"]):
        _replace(page, old, node)
        return
    place = page.find(op["after"]) if op["after"] else None
    index = page.children.index(place) + 1 if place else len(page.children)
    page.children.insert(index, node)
    if not page.find(op["day"]["id"]):
        page.children.insert(index, _one(op["day"]["h"]))


def _put(page: Node, op: dict[str, Any]) -> None:
    node = _one(op["h"])
    assert node.attributes["id"] == op["id"]
    if old := page.find(op["id"]):
        _replace(page, old, node)
        return
    inside = page.find(op["in"])
    assert inside is not None, f"nothing to put into: {op['in']}"
    inside.children.append(node)


def _set(page: Node, op: dict[str, Any]) -> None:
    old = page.find(op["id"])
    assert old is not None, f"nothing to set: {op['id']}"
    node = _one(op["h"])
    assert node.attributes["id"] == op["id"]
    _replace(page, old, node)


def _drop(page: Node, op: dict[str, Any]) -> None:
    old = page.find(op["id"])
    assert old is not None
    parent = page.parent_of(old)
    assert parent is not None
    parent.children.remove(old)


def _tail_of(page: Node, op: dict[str, Any]) -> tuple[Node, Node]:
    prose = page.find(op["id"])
    assert prose is not None, f"no prose {op['id']}"
    tail = prose.children[-1]
    assert isinstance(tail, Node)
    assert tail.attributes.get("class") == "prose__tail"
    return prose, tail


def _block(page: Node, op: dict[str, Any]) -> None:
    prose, tail = _tail_of(page, op)
    at = prose.children.index(tail)
    prose.children[at:at] = parse(op["h"]).children
    tail.children = []


def _tail(page: Node, op: dict[str, Any]) -> None:
    _tail_of(page, op)[1].children = parse(op["h"]).children


def _text(page: Node, op: dict[str, Any]) -> None:
    code = _tail_of(page, op)[1]
    while code.tag != "code":
        code = [child for child in code.children if isinstance(child, Node)][-1]
    code.children += parse(op["h"]).children


def _fin(page: Node, op: dict[str, Any]) -> None:
    prose, tail = _tail_of(page, op)
    _block(page, op)
    prose.children.remove(tail)


_APPLY = {
    "msg": _msg,
    "put": _put,
    "set": _set,
    "drop": _drop,
    "block": _block,
    "tail": _tail,
    "text": _text,
    "fin": _fin,
}
