"""Markdown → HTML that is safe to show, for the whole of an answer.

Raw HTML is off, links are http, https and mailto only, images are never loaded; what comes
out is sanitised once more. An answer is rendered block by block, so that a streamed answer
(`streaming.py`) and a stored one are the same to the byte.
"""

from __future__ import annotations

import html
import re
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import nh3
from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from protoagent.core.text import is_hidden_character

Env = MutableMapping[str, Any]

MAX_HIGHLIGHT_CHARS = 50_000  # 200 KB took 0.4 s here and 1.1 s in a slow browser
MAX_BLOCK_CHARS = 64_000  # a longer single block is shown as plain text
LONG_CODE_LINES = 24
WIDE_CODE_CHARS = 90
FINAL, LEVELS = "final", "levels"

_SCHEMES = ("http", "https", "mailto")
_TAGS = {
    *("p", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "strong", "em", "s", "code"),
    *("pre", "a", "br", "hr", "table", "thead", "tbody", "tr", "th", "td", "div", "span", "button"),
}
_ATTRIBUTES = {
    "a": {"href", "title", "target", "class"},
    "button": {"type", "class", "data-act"},
    "code": {"class"},
    "div": {"class", "tabindex", "role", "aria-label"},
    "ol": {"start"},
    "p": {"class"},
    "pre": {"tabindex", "aria-label"},
    "span": {"class", "data-mark"},
    "td": {"class"},
    "th": {"class", "scope"},
}
_FORMATTER = HtmlFormatter(nowrap=True)
_ALIGN = {"text-align:right": "num", "text-align:center": "mid"}
_PAIRS = {")": "(", "]": "[", "}": "{"}
# Quotation marks and the full-width punctuation of Chinese and Japanese stand behind an address.
_URL = re.compile(r"https?://[^\s<>\"'`“”«»„「」『』【】《》（）、。，；：！？]+", re.IGNORECASE)
_HIDDEN_CANDIDATE = re.compile(r"[^\x20-\x7e\n\t]")

_cleaner = nh3.Cleaner(
    tags=_TAGS,
    attributes=_ATTRIBUTES,
    url_schemes=set(_SCHEMES),
    link_rel="noopener noreferrer",
)


@dataclass(frozen=True)
class Block:
    """A top-level piece of Markdown: `kind` is the type of its first token."""

    kind: str
    start: int
    source: str


def render(source: str) -> str:
    """The whole text as HTML."""
    source = source.replace("\r", "")
    env: Env = {}
    return "".join(render_block(block.source, env) for block in blocks(source, env))


def blocks(source: str, env: Env) -> list[Block]:
    """The top-level blocks in order; what stands before the first belongs to it.

    Link definitions anywhere in the text are noted in `env`, for `render_block`.
    """
    tokens = [t for t in _block_parser.parse(source, env) if t.level == 0 and t.map]
    tokens = [t for t in tokens if t.nesting >= 0]
    if not tokens:
        return [Block("", 0, source)] if source else []
    lines = source.split("\n")
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line) + 1)
    starts = [0, *(offsets[t.map[0]] for t in tokens[1:] if t.map)]
    ends = [*starts[1:], len(source)]
    return [
        Block(token.type, start, source[start:end])
        for token, start, end in zip(tokens, starts, ends, strict=True)
    ]


def render_block(source: str, env: Env, *, final: bool = True) -> str:
    """One block as HTML. `env` carries link definitions and heading levels to the next one.

    A block that is still growing (`final=False`) is not coloured and leaves `env` alone.
    """
    if len(source) > MAX_BLOCK_CHARS and not source.lstrip().startswith(("```", "~~~")):
        return f'<p class="plain">{html.escape(source.strip())}</p>' if source.strip() else ""
    if not final:
        env = {**env, LEVELS: list(env.get(LEVELS, ()))}
    env[FINAL] = final
    return _cleaner.clean(_parser.render(source, env)).rstrip("\n")


def open_code(
    language: str, acts: Sequence[str] = (), *, css_class: str = "code"
) -> tuple[str, str]:
    """What stands before and behind the text of a code block; `acts` are further buttons."""
    buttons = [_button(act, act.capitalize(), "") for act in acts]
    buttons.append(_button("copy", "Copy", " code__copy"))
    label = f"{language} code" if language else "code"
    return (
        f'<div class="{css_class}"><div class="code__bar">'
        f'<span class="code__lang">{html.escape(language) or "text"}</span>{"".join(buttons)}</div>'
        f'<pre tabindex="0" aria-label="{html.escape(label)}"><code>',
        "</code></pre></div>",
    )


def _button(act: str, label: str, css_class: str) -> str:
    css = f"btn btn--ghost btn--sm{css_class}"
    return f'<button class="{css}" type="button" data-act="{act}">{label}</button>'


def code_text(text: str) -> str:
    """Code as HTML: escaped, and hidden characters carry a visible mark."""
    return mark_hidden(html.escape(text))


def mark_hidden(markup: str) -> str:
    """Each zero-width or reordering character gets a box around it that shows its number.

    The character itself stays, so that copying gives exactly what the agent wrote.
    """
    return _HIDDEN_CANDIDATE.sub(_mark, markup)


def _mark(match: re.Match[str]) -> str:
    char = match[0]
    if not is_hidden_character(char):
        return char
    return f'<span class="hid" data-mark="U+{ord(char):04X}">{char}</span>'


def language_of(info: str) -> str:
    """The language named by the first word of a fence's info string."""
    words = info.split()
    return words[0][:40] if words else ""


def code_block(text: str, language: str, *, final: bool) -> str:
    """A code block with its bar; coloured when it is final and not too long."""
    if not final:
        before, after = open_code(language)
        return before + code_text(text) + after
    lines = text.splitlines()
    is_long = len(lines) > LONG_CODE_LINES
    acts = ["wrap"] if any(len(line) > WIDE_CODE_CHARS for line in lines) else []
    acts += ["expand"] if is_long else []
    before, after = open_code(language, acts, css_class="code code--long" if is_long else "code")
    return before + _coloured(text, language) + after


@lru_cache(maxsize=256)
def _coloured(text: str, language: str) -> str:
    if not language or len(text) > MAX_HIGHLIGHT_CHARS:
        return code_text(text)
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return code_text(text)
    return mark_hidden(highlight(text, lexer, _FORMATTER))


def host_of(url: str) -> str:
    """The host that a link leads to, in the form that hides no look-alike letters."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return ""
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        return host


def _is_allowed(url: str) -> bool:
    return url.partition(":")[0].strip().lower() in _SCHEMES and ":" in url


def _make_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.validateLink = _is_allowed  # type: ignore[method-assign]
    parser.core.ruler.push("autolink_urls", _autolink)
    parser.core.ruler.push("heading_depth", _heading_depth)
    for name, rule in _RULES.items():
        parser.add_render_rule(name, rule)
    return parser


def _make_block_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.validateLink = _is_allowed  # type: ignore[method-assign]
    return parser.disable(["inline", "text_join"])


def _heading_depth(state: StateCore) -> None:
    """Headings start below the message's own and never skip a level, whatever was written."""
    stack: list[int] = state.env.setdefault(LEVELS, [])
    for token in state.tokens:
        if token.type == "heading_open":
            level = int(token.tag[1])
            while stack and stack[-1] >= level:
                stack.pop()
            stack.append(level)
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(2 + len(stack), 6)}"


def _autolink(state: StateCore) -> None:
    """Bare http and https addresses become links."""
    for token in state.tokens:
        if token.type == "inline" and "://" in token.content and token.children:
            token.children = _linked(token.children)


def _linked(children: Sequence[Token]) -> list[Token]:
    found: list[Token] = []
    depth = 0
    for child in children:
        depth += {"link_open": 1, "link_close": -1}.get(child.type, 0)
        if child.type == "text" and depth == 0 and "://" in child.content:
            found += _split_urls(child.content)
        else:
            found.append(child)
    return found


def _split_urls(text: str) -> list[Token]:
    tokens: list[Token] = []
    position = 0
    for match in _URL.finditer(text):
        url = _without_trailing_marks(match[0])
        if not host_of(url):
            continue
        tokens.append(_text(text[position : match.start()]))
        tokens.append(Token("link_open", "a", 1, attrs={"href": url}))
        tokens += [_text(url), Token("link_close", "a", -1)]
        position = match.start() + len(url)
    return [*tokens, _text(text[position:])]


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _without_trailing_marks(url: str) -> str:
    """The address without the punctuation of the sentence that it stands in."""
    while url:
        last = url[-1]
        is_closing = last in _PAIRS and url.count(last) > url.count(_PAIRS[last])
        if not is_closing and last not in ".,;:!?*_~’‘…":
            break
        url = url[:-1]
    return url


def _fence(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Env) -> str:
    token = tokens[index]
    return code_block(token.content, language_of(token.info), final=bool(env.get(FINAL, True)))


def _inline_code(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Env) -> str:
    return f"<code>{code_text(tokens[index].content)}</code>"


def _link_open(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Env) -> str:
    href = str(tokens[index].attrGet("href") or "")
    title = host_of(href) or href
    return f'<a href="{html.escape(href)}" title="{html.escape(title)}" target="_blank">'


def _image(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Env) -> str:
    """A link in place of the image: loading it would tell its host that it was read."""
    token = tokens[index]
    source = str(token.attrGet("src") or "")
    alt = token.content.strip()
    label = f"Load image from {host_of(source)}" + (f": {alt}" if alt else "")
    href, title = html.escape(source), html.escape(host_of(source))
    text = html.escape(label)
    return f'<a class="remote-image" href="{href}" title="{title}" target="_blank">{text}</a>'


def _table_open(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Env) -> str:
    return (
        '<div class="prose__table" tabindex="0" role="group" aria-label="Table, scrollable"><table>'
    )


def _table_close(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Env) -> str:
    return "</table></div>"


def _cell_open(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Env) -> str:
    token = tokens[index]
    align = _ALIGN.get(str(token.attrGet("style") or ""), "")
    scope = ' scope="col"' if token.tag == "th" else ""
    css_class = f' class="{align}"' if align else ""
    return f"<{token.tag}{scope}{css_class}>"


_RULES = {
    "fence": _fence,
    "code_block": _fence,
    "code_inline": _inline_code,
    "link_open": _link_open,
    "image": _image,
    "table_open": _table_open,
    "table_close": _table_close,
    "th_open": _cell_open,
    "td_open": _cell_open,
}
_parser = _make_parser()
_block_parser = _make_block_parser()
