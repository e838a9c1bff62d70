import pytest
from hypothesis import given
from hypothesis import strategies as st

from protoagent.core.errors import AgentError, BadValue, TooLarge
from protoagent.web import bodies


def test_an_ordinary_object_is_read():
    assert bodies.parse_json('{"a": ["ä", 1.5, null, "\\u00e9", "\\ud83d\\ude00"]}') == {
        "a": ["ä", 1.5, None, "é", "😀"]
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "nan",
        "NaN",
        "[Infinity]",
        "{'a': 1}",
        '"\\u0000"',
        '{"\\u0000": 1}',
        '["\\ud800"]',
        "[" * 100_000,
        "1" * 5000,
        b"\xff\xfe",
    ],
)
def test_what_no_database_can_store_is_refused(text):
    with pytest.raises(BadValue):
        bodies.parse_json(text)


def test_a_backslash_before_u0000_is_text():
    assert bodies.parse_json(r'"\\u0000"') == r"\u0000"


def test_the_limit_counts_bytes():
    bodies.parse_json('"' + "x" * 8 + '"', max_bytes=10)

    with pytest.raises(TooLarge):
        bodies.parse_json('"' + "ä" * 5 + '"', max_bytes=10)


@given(st.one_of(st.text(), st.binary()))
def test_anything_is_either_read_or_refused_in_a_sentence(text):
    try:
        bodies.parse_json(text)
    except AgentError as error:
        assert str(error)
