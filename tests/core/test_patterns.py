"""Strangers' regular expressions: refused or bounded."""

from __future__ import annotations

import contextlib
import re
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from protoagent.core.errors import BadValue
from protoagent.core.patterns import is_found, longest_text


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("", "x", True),
        ("^[a-z]+$", "abc", True),
        ("^[a-z]+$", "Abc", False),
        ("@", "a@b", True),
        (r"^[^@]+@[^@]+\.[a-z]+$", "ada@example.org", True),
        (r"^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$", "1.20.3-rc.1", True),
        (r"^(foo|bar|baz)$", "bar", True),
        (r"^[A-Z]{2,4}-\d{1,10}$", "AB-12", True),
        (r"^.{3,64}$", "ab", False),
        (r"^\d{4}-\d{2}-\d{2}$", "2026-03-18", True),
        (r"(?i)^abc$", "ABC", True),
    ],
)
def test_ordinary_patterns_are_matched(pattern, text, found):
    assert is_found(pattern, text) is found


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(a|a)*b",
        "(a|aa)+$",
        "(a?b?)*c",
        "(?:a?a)*b",
        "a?" * 30 + "a" * 30,
        "(ab|ab)" * 25,
        ".*" * 9 + "=",
        r"(a)\1",
        "(?=a)b",
        "(?<!a)b",
        r"(?P<x>a)(?P=x)",
        "(a)(?(1)b|c)",
        "(?:x{2,900}){2,900}",
    ],
)
def test_patterns_with_too_many_ways_are_refused(pattern):
    with pytest.raises(BadValue, match="too complicated; use a simpler pattern"):
        longest_text(pattern)


@pytest.mark.parametrize("pattern", ["(", "[", "*", "a{99999999999}", "(?P<1>a)", "\\"])
def test_what_is_no_pattern_is_refused(pattern):
    with pytest.raises(BadValue, match="no regular expression"):
        longest_text(pattern)


def test_a_pattern_has_a_limited_length():
    with pytest.raises(BadValue, match="more than 200 characters"):
        longest_text("a" * 201)


def test_a_text_is_matched_up_to_the_length_that_stays_affordable():
    pattern = r"^[^@]+@[^@]+\.[a-z]+$"

    assert 100 < longest_text(pattern) < 1000
    with pytest.raises(BadValue, match="at most"):
        is_found(pattern, "a" * 1000)


@pytest.mark.parametrize("pattern", ["^a|.*.*.*=", "(?m)^.*.*=$", ".*.*.*="])
def test_a_pattern_that_may_begin_anywhere_counts_that(pattern):
    assert longest_text(pattern) < longest_text("^.*.*=")


ATOMS = st.sampled_from(["a", "b", ".", "[ab]", r"\w", "(a)", "(?:ab)", "^", "$", "(a|b)"])
LOOPS = st.sampled_from(["", "", "?", "*", "+", "{2}", "{1,3}", "{0,20}", "*?", "+?", "*+"])
PIECES = st.tuples(ATOMS, LOOPS).map("".join)
GROUPS = st.lists(PIECES, min_size=1, max_size=3).map(lambda parts: f"({'|'.join(parts)})")
PATTERNS = st.lists(PIECES | st.tuples(GROUPS, LOOPS).map("".join), max_size=8).map("".join)


@settings(max_examples=300, deadline=None)
@given(PATTERNS, st.sampled_from(["a", "b", "ab", "aab"]))
@example(".*.*=", "a")
def test_no_accepted_pattern_takes_long_on_its_longest_text(pattern, piece):
    with contextlib.suppress(BadValue):
        longest = min(longest_text(pattern), 5000)
        text = (piece * longest)[: longest - 1] + "!"
        began = time.process_time()

        found = is_found(pattern, text)

        assert time.process_time() - began < 3  # a tenth of a second on a quiet machine
        assert found == (re.search(pattern, text) is not None)
