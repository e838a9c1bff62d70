"""HTML as text: the rules of spec/behaviour-tools §1.5, and pages that mean harm."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protoagent.internet.readable import readable


def page(body):
    return f"<!doctype html><html><head><title>T</title></head><body>{body}</body></html>"


@pytest.mark.parametrize("html", ["", "  \n ", "<html></html>", page(""), "<!-- only -->"])
def test_nothing_gives_nothing(html):
    assert readable(html) == ""


@pytest.mark.parametrize(
    "unseen",
    [
        "<script>var x = '<p>x</p>';</script>",
        "<style>p { color: red }</style>",
        "<nav><a href=/>Home</a></nav>",
        "<footer>imprint</footer>",
        "<noscript>enable it</noscript>",
        "<div role='navigation'>Home</div>",
        "<div role='BANNER'>Home</div>",
        "<div role=contentinfo>Home</div>",
        "<div class='sidebar'>Home</div>",
        "<ul class='big menu wide'><li>Home</ul>",
        '<span class="breadcrumb">Home <span>x</span> y</span>',
        "<p class=menu>Home",
        "<title>Other</title>",
        "<template><p>x</p></template>",
        "<svg><text>x</text></svg>",
        "<iframe>x</iframe>",
        "<!-- <p>x</p> -->",
        "<!--> <!---> <!-- a --!>",
        "<?php echo 1 ?>",
        "<nav>a<nav>b</nav>c</nav>",
        "<nav><footer><div class=menu><script>x</script></div></footer></nav>",
        "<div class=menu><div class=menu><nav></nav></div></div>",
    ],
)
def test_what_surrounds_the_text_is_dropped(unseen):
    assert readable(page(f"<p>before</p>{unseen}<p>after</p>")) == "before\nafter"


@pytest.mark.parametrize("name", ["menu-item", "sidebar-open", "breadcrumbs", "Menu", "submenu"])
def test_a_class_counts_only_as_a_whole_word(name):
    assert readable(page(f"<div class='{name}'>kept</div>")) == "kept"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<header>H</header><p>t</p>", "t"),
        ("<div><header>H</header></div><p>t</p>", "H\nt"),
        ("<div><header>H<nav>n</nav></header></div><p>t</p>", "t"),
        ("<div><header>H</header></div><main>t</main>", "t"),
        ("<div><header>H</header><article>t</article></div>", "t"),
        ("<main><header>H</header>t</main>", "H\nt"),
        ("<article><header>H<nav>n</nav></header>t</article>", "H\nt"),
        ("<section><header>H</header>t</section>", "H\nt"),
        ("<aside><header>H</header>t</aside>", "H\nt"),
    ],
)
def test_a_header_goes_or_stays_by_its_place(body, text):
    assert readable(page(body)) == text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<p>out</p><main>in</main>", "in"),
        ("<p>out</p><article>in</article><article>second</article>", "in"),
        ("<article>a</article><main>m</main>", "m"),
        ("<p>out</p><div role=main>in</div>", "in"),
        ("<p>out</p><main></main>", "out"),
        ("<main><article>a</article><p>p</p></main>", "a\np"),
        ("<div>x</div><div>much more text than that</div>", "much more text than that"),
        ("<h1>T</h1><div>much more text than that</div>", "T\nmuch more text than that"),
        (
            "<div>x</div><div><div>y</div><div><h1>T</h1>much more text</div></div>",
            "T\nmuch more text",
        ),
        ("<div><div>y</div><div>much more text</div><h1>T</h1></div>", "y\nmuch more text\nT"),
        ("<div>same</div><div>same</div>", "same\nsame"),
    ],
)
def test_the_main_part_of_the_page_is_preferred(body, text):
    assert readable(page(body)) == text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<p>This <b>is</b>\n <a href=x>one</a> line.", "This is one line."),
        ("<p>a<br>b<br/>c<hr>d", "a\nb\nc\nd"),
        ("<ul><li>one<li>two<li>three<ul><li>inner</ul></ul>", "one\ntwo\nthree\ninner"),
        ("<dl><dt>t<dd>d<dt>t2<dd>d2</dl>", "t\nd\nt2\nd2"),
        ("<table><tr><th>A<th>B<tr><td>1<td><b>2</b></table>", "A | B\n1 | 2"),
        ("<table><tr><td></td><td>x</td><td> </td></tr></table>", "x"),
        ("<pre>a\n  b\n\nc</pre>", "a\nb\nc"),
        ("<pre>a\r\nb\rc</pre>", "a\nb\nc"),
        ("a\r\n b", "a b"),
        ("<textarea>a\nb &amp; <i></textarea>", "a\nb & <i>"),
        ("1 &lt; 2 &amp; 3 &gt; 2 &nbsp; &copy; &#65; &unknown;", "1 < 2 & 3 > 2 © A &unknown;"),
        ("a < b and c > d <3", "a < b and c > d <3"),
        ("<x-card>one</x-card><x-card>two</x-card>", "one\ntwo"),
        ("<button>Go</button><option>x</option>", "Go\nx"),
        ("<p>a</p></p></div></b>b", "a\nb"),
        ("<div>a</span>b</div>", "ab"),
        ("<p title='a > b' data-x=\"</p>\">t", "t"),
        ("<p>unfinished <a href='x", "unfinished"),
        ("<h1>T</h2>text", "T\ntext"),
        ("<DIV CLASS='MENU'>x</DIV><P>y</P>", "x\ny"),
        ('<div class="a&#32;menu">x</div>y', "y"),
        ("<p class=menu>hidden<div>shown</div>", "shown"),
        ("<nav>hidden<p>too</nav>shown", "shown"),
        ("<td>loose</td> cell", "loose cell"),
    ],
)
def test_each_line_of_text_is_one_line(body, text):
    assert readable(page(body)) == text


def test_a_fragment_is_a_page_too():
    assert readable("<b>Hi</b> there") == "Hi there"


PIECES = [
    *("<div>", "</div>", "<p>", "</p>", "<nav>", "</nav>", "<main>", "</main>", "<header>"),
    *("</header>", "<table>", "<tr>", "<td>", "</table>", "<span>", "</span>", "<h1>", "</h3>"),
    *("<span class=menu>", "<ul>", "<li>", "</ul>", "<!--", "-->", "<script>", "</script>", "<b"),
    *(" x='", ">", "'", '"', "<", "&", "text", "<br>", "<pre>", "\n", "<svg>", "</svg>", "\r"),
]


@settings(max_examples=500, deadline=None)
@given(
    st.lists(
        st.sampled_from(PIECES),
        max_size=60,
    )
)
def test_no_page_breaks_it_and_lines_are_clean(parts):
    text = readable("".join(parts))

    for line in text.split("\n") if text else []:
        assert line == line.strip() != ""


HOSTILE = {
    "nested blocks": "<div>",
    "nested headers": "<div><header>",
    "nested lists": "<ul><li>",
    "nested tables": "<table><td>",
    "open formatting": "<b id=x><p>",
    "hidden spans": "<span class=menu>",
    "rulers in cells": "<p><table><td><hr>",
    "rows": "<tr><td>a<td>b",
    "scripts": "<script>",
    "comments": "<!--",
    "quotes": "<a b='",
    "less than": "<",
    "attributes": "<p a=1 b=2 c=3 ",
    "wrong end tags": "<div></ul></p></table>",
    "entities": "&amp;&#x41;&",
    "main": "<main><article>",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_page_takes_time_in_proportion_to_its_length(name):
    def seconds(length):
        html = HOSTILE[name] * (length // len(HOSTILE[name]))
        began = time.process_time()
        readable(html)
        return time.process_time() - began

    small, large = min(seconds(100_000) for _ in range(2)), seconds(400_000)

    assert large < max(small * 20, 1.0)  # quadratic growth would be 16 times, and from seconds on
    assert large < 10
