"""Markdown: what an answer looks like, and that streaming it changes nothing."""

from __future__ import annotations

import html as html_module
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protoagent.console import markdown
from protoagent.console.streaming import BLOCK, TAIL, TEXT, StreamMarkdown

SAMPLES = {
    "prose": "Hello **world**, this is `code` and *more*.\n\nSecond paragraph\nover two lines.\n",
    "fence": "Before\n\n```python\ndef f(x):\n    return x * 2  # ```\n```\n\nAfter\n",
    "fence at once": "para\n```js\nlet a = 1\n```\nafter\n",
    "tildes": "~~~\na ``` b\n~~~~\nx\n",
    "open fence": "text\n\n```sh\necho hi\necho `date`\n",
    "indented fence": "  ```py\n    a = 1\n  b = 2\n  ```\nx\n",
    "list": "1. one\n2. two\n   - nested **b**\n   - more\n\n   para in item\n3. three\n\nend",
    "list with fence": "- a\n\n  ```py\n  x = 1\n\n  y = 2\n  ```\n- b\n",
    "table": "Intro\n\n| a | b |\n|---|--:|\n| 1 | `2` |\n| 3 | 4 |\n\nend",
    "table after text": "Intro\n| a | b |\n|---|--:|\n| 1 | 2 |\n",
    "quote": "> a\n> b\nlazy\n\n> - x\n> - y\n",
    "setext": "Title\n=====\n\npara\n---\n\n***\n\nend\n",
    "headings": "### Deep first\n\n# Top\n\n### Skips\n\n## Two\n\ntext\n",
    "references": "See [the docs][d] and [later].\n\n[d]: https://example.org/a\n\nmore [d]\n\n"
    "[later]: https://example.org/b 'T'\n",
    "hash": "para\n#hashtag is text\n# but this is not\n",
    "number": "para\n1\n2. not a list\n1. a list\n",
    "dashes": "para\n- a\n- b\n\n* other\n+ third\n",
    "hidden": "code `a\u202eb` and\n\n```\nx\u200by\n```\n",
    "code": "para\n\n    indented\n    code **x**\n\nend\n",
    "links": "[x](https://a.example/p?q=1) <https://b.example> https://c.example/d_e_f. (https://d.example)\n",
    "html": "<b>x</b> <script>alert(1)</script>\n\n<div>\nhi\n</div>\n",
    "unfinished": "a **bold `code` and [link](http",
    "unicode": "漢字 🦉 ü\u2028x\n\n- ß\n",
    "breaks": "a  \nb\\\nc\n",
}


def shown_after(edits: list[tuple[str, str]], page: tuple[str, str]) -> tuple[str, str]:
    """What a browser holds (final blocks, growing block) after applying edits."""
    done, tail = page
    for kind, html in edits:
        if kind == BLOCK:
            done, tail = done + html, ""
        elif kind == TAIL:
            tail = html
        elif kind == TEXT:
            tail = tail.removesuffix("</code></pre></div>") + html + "</code></pre></div>"
        else:
            done, tail = html, ""
    return done, tail


@pytest.mark.parametrize("name", SAMPLES)
def test_a_streamed_text_ends_as_the_same_html_as_a_rendered_one(name):
    text = SAMPLES[name]

    stream, page = StreamMarkdown(), ("", "")
    for char in text:
        page = shown_after(stream.feed(char), page)
        assert stream.html == f'{page[0]}<div class="prose__tail">{page[1]}</div>'
    page = shown_after(stream.close(), page)

    assert page == (markdown.render(text), "")
    assert stream.html == markdown.render(text)
    assert stream.source == text


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("size", [2, 3, 7, 50, 10_000])
def test_what_is_shown_does_not_depend_on_how_the_text_was_cut(name, size):
    text = SAMPLES[name]
    pieces, whole = StreamMarkdown(), StreamMarkdown()

    for start in range(0, len(text), size):
        pieces.feed(text[start : start + size])
    whole.feed(text)

    assert pieces.html == whole.html


PIECES = [
    *("a", " ", "\n", "\n\n", "```", "```py\n", "`", "**", "*", "- ", "1. ", "# ", "> ", "|", "\t"),
    *("[x](https://e.example)", "[x]", "[x]: /u\n", "---\n", "===\n", "    ", "~~~", "word "),
    *("|-|-|\n", "a stretch of plain words, so that blocks grow; "),
]
markdownish = st.lists(st.sampled_from(PIECES), max_size=80).map("".join)


@settings(max_examples=300, deadline=None)
@given(text=markdownish, cuts=st.lists(st.integers(0, 120), max_size=8))
def test_any_text_streams_to_what_it_renders_to_at_every_cut(text, cuts):
    stream, page, position = StreamMarkdown(), ("", ""), 0
    for cut in [*sorted(cuts), len(text)]:
        page = shown_after(stream.feed(text[position:cut]), page)
        position = max(position, cut)
        again = StreamMarkdown()
        again.feed(text[:position])
        assert again.html == stream.html
        assert stream.html == f'{page[0]}<div class="prose__tail">{page[1]}</div>'

    page = shown_after(stream.close(), page)

    assert page[0] == markdown.render(text)


def test_no_frame_of_a_streamed_answer_shows_a_raw_mark():
    text = (
        "Some **bold words** here and `inline code` too.\n\n```python\nx = 1\n```\n\n"
        "- item with **bold**\n- `two`\n\nA [link](https://example.org/path) ends it.\n"
    )
    stream, page = StreamMarkdown(), ("", "")

    for char in text:
        page = shown_after(stream.feed(char), page)
        seen = re.sub(r"<[^>]+>", "", "".join(page))
        assert "`" not in seen
        assert "**" not in seen
        assert "](" not in seen


def test_an_open_fence_takes_appends_and_is_coloured_once_when_it_closes():
    stream = StreamMarkdown()

    opened = stream.feed("```python\n")
    first = stream.feed("x = 1\ny")
    second = stream.feed(" = 2\n")
    closed = stream.feed("```\n")

    assert [kind for kind, _ in opened] == [TAIL]
    assert first == [(TEXT, "x = 1\n")]
    assert second == [(TEXT, "y = 2\n")]
    assert [kind for kind, _ in closed] == [BLOCK]
    assert '<span class="n">x</span>' in closed[0][1]
    assert '<span class="' not in opened[0][1].replace('class="code__lang"', "")


def test_raw_html_and_script_links_are_shown_as_text():
    shown = markdown.render(
        "<img src=x onerror=alert(1)>\n\n[x](javascript:alert(1)) [y](data:text/html,x)"
    )

    assert "<img" not in shown
    assert "&lt;img src=x onerror=alert(1)&gt;" in shown
    assert "<a" not in shown
    assert "[x](javascript:alert(1))" in shown


def test_images_become_links_that_name_their_host():
    shown = markdown.render("![a <cat>](https://tracker.example/p.png?u=1)")

    assert "<img" not in shown
    assert "Load image from tracker.example: a &lt;cat&gt;" in shown
    assert 'rel="noopener noreferrer"' in shown


def test_a_link_tells_its_host_without_look_alike_letters():
    shown = markdown.render("[paypal](https://pаypal.example/x)")

    assert 'title="xn--pypal-4ve.example"' in shown
    assert 'target="_blank"' in shown


@pytest.mark.parametrize(
    ("text", "href"),
    [
        ("see https://a.example/x.", "https://a.example/x"),
        ("(https://a.example/x(y))", "https://a.example/x(y)"),
        ("https://a.example/a_b_c, and", "https://a.example/a_b_c"),
        ("**https://a.example/**", "https://a.example/"),
        ("“Read https://a.example/x”", "https://a.example/x"),
        ("（https://a.example/x）。", "https://a.example/x"),
        ("it is https://a.example/x’s page", "https://a.example/x’s"),
    ],
)
def test_bare_addresses_become_links_without_the_sentence_around_them(text, href):
    assert f'<a href="{href}"' in markdown.render(text)


def test_addresses_in_code_stay_code():
    assert "<a" not in markdown.render("`https://a.example/` and\n\n    https://b.example/\n")


def test_headings_never_skip_a_level():
    shown = markdown.render("### a\n\n# b\n\n#### c\n\n## d\n\n###### e\n")

    assert re.findall(r"<(h\d)>", shown) == ["h3", "h3", "h4", "h4", "h5"]


def test_hidden_characters_in_code_are_marked_and_kept():
    shown = markdown.render("`a\u202eb`\n\n```python\nx = '\u200b'\n```\n")

    assert '<span class="hid" data-mark="U+202E">\u202e</span>' in shown
    assert 'data-mark="U+200B"' in shown
    assert "x = '\u200b'\n" in html_module.unescape(re.sub(r"<[^>]+>", "", shown))


def test_code_keeps_its_text_exactly():
    code = "def f():\n\n    return '<b>' and \"&\"\t# ü\n"

    shown = markdown.render(f"```python\n{code}```\n")

    inner = re.search(r"<code>(.*)</code>", shown, re.DOTALL)[1]
    assert html_module.unescape(re.sub(r"<[^>]+>", "", inner)) == code


def test_code_above_fifty_thousand_characters_is_not_coloured():
    short, long = "x = 1\n" * 100, "x = 1\n" * 10_000

    assert '<span class="n">' in markdown.render(f"```python\n{short}```")
    assert '<span class="n">' not in markdown.render(f"```python\n{long}```")


def test_an_unknown_language_keeps_its_label():
    shown = markdown.render("```Klingon\nqapla\n```")

    assert ">Klingon</span>" in shown
    assert "qapla" in shown


def test_table_cells_are_aligned_without_style_attributes():
    shown = markdown.render("| a | b | c |\n|---|--:|:-:|\n| 1 | 2 | 3 |\n")

    assert "style=" not in shown
    assert '<td class="num">2</td>' in shown
    assert '<th scope="col" class="mid">c</th>' in shown or 'class="mid"' in shown
    assert 'tabindex="0"' in shown


@pytest.mark.parametrize(
    "hostile", ["[", "![", "*a ", "`", "> ", "- ", "[a](", "|a", "<", "_a", "\\", "(", "&"]
)
@pytest.mark.parametrize("size", [30_000, 200_000])
def test_hostile_repetition_is_rendered_in_bounded_time(hostile, size):
    text = hostile * (size // len(hostile))
    began = time.process_time()

    shown = markdown.render(text)

    assert time.process_time() - began < 3
    assert shown


def test_a_long_growing_list_is_not_rendered_anew_for_every_token():
    stream, rendered = StreamMarkdown(), 0
    for number in range(1000):
        rendered += sum(1 for kind, _ in stream.feed(f"- item {number} of many\n") if kind == TAIL)

    assert rendered < 600
    assert stream.html != ""
