"""Templates: no inline code, small, and fragments that stand alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.template.loader import get_template

from tests.architecture.sources import CHECKOUT

FOLDER = CHECKOUT / "templates"
TEMPLATES = sorted(FOLDER.rglob("*.html"))
MAX_PAGE, MAX_FRAGMENT = 120, 60
INLINE = {
    "a script with a body": re.compile(r"<script(?![^>]*\bsrc=)[^>]*>", re.I),
    "a style element": re.compile(r"<style\b", re.I),
    "a style attribute": re.compile(r"<[^>]*\sstyle\s*=", re.I),
    "an event handler attribute": re.compile(r"<[^>]*\son[a-z]+\s*=", re.I),
    "a javascript: address": re.compile(r"javascript:", re.I),
    "hx-on": re.compile(r"\shx-on", re.I),
    "the safe filter": re.compile(r"\|\s*safe\b"),
    "autoescape off": re.compile(r"autoescape\s+off"),
    "something from another host": re.compile(r"""(?:src|href)\s*=\s*["'](?:https?:)?//""", re.I),
}


def name(path: Path) -> str:
    return str(path.relative_to(FOLDER))


@pytest.mark.parametrize("path", TEMPLATES, ids=name)
def test_template_has_no_inline_code_and_no_foreign_host(path):
    text = re.sub(r"{#.*?#}|{% comment %}.*?{% endcomment %}", "", path.read_text(), flags=re.S)

    assert [what for what, pattern in INLINE.items() if pattern.search(text)] == []


@pytest.mark.parametrize("path", TEMPLATES, ids=name)
def test_template_is_short_enough_to_read(path):
    lines = len(path.read_text().splitlines())

    assert lines <= (MAX_FRAGMENT if path.name.startswith("_") else MAX_PAGE)


@pytest.mark.parametrize("path", TEMPLATES, ids=name)
def test_template_compiles(path):
    assert get_template(name(path)).template.nodelist


@pytest.mark.parametrize("path", [p for p in TEMPLATES if p.name.startswith("_")], ids=name)
def test_fragment_begins_with_a_comment_naming_its_variables(path):
    text = re.sub(r"^\s*{% load [^%]*%}\s*", "", path.read_text())

    assert text.lstrip().startswith(("{#", "{% comment %}"))


@pytest.mark.parametrize("path", [p for p in TEMPLATES if not p.name.startswith("_")], ids=name)
def test_page_that_extends_does_so_first(path):
    text = path.read_text()

    if "{% extends" in text:
        assert re.sub(r"^({#.*?#}\s*)*", "", text, flags=re.S).startswith("{% extends")
