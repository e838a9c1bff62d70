"""Forms: what an agent may ask, and what an operator may answer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protoagent.core.errors import BadValue
from tools_app import forms


def steps(required=(), **properties):
    return [{"title": "One", "schema": {"properties": properties, "required": list(required)}}]


def one(schema, value, *, required=False):
    """`(clean value, error)` of a form with one field."""
    form = steps(["x"] if required else [], x=schema)
    values = {} if value is None else {"x": value}
    clean, errors = forms.check_answers(form, values)
    return clean.get("x"), errors.get("x")


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ([], "at least one step"),
        ("no", "at least one step"),
        ([{"schema": {"properties": {}}}], "no properties"),
        ([{"title": "x"}], "schema"),
        ([5], "schema"),
        (steps(x={"type": "object"}), "nested object"),
        (steps(x={"$ref": "#/a"}), "$ref"),
        (steps(x={"type": "array"}), "choice"),
        (steps(x={"type": "array", "items": {"type": "string"}}), "choice"),
        (steps(x={"enum": list(range(41))}), "at most 40"),
        (steps(x={"enum": ["a", "a"]}), "the same"),
        (steps(x={"oneOf": [{"title": "no const"}]}), "const"),
        (steps(x={"pattern": "("}), "regular expression"),
        (steps(x={"pattern": "(a+)+$"}), "too complicated"),
        (steps(x={"type": "integer", "default": "many"}), "default"),
        (steps(x={"showWhen": {"field": "y", "equals": 1}}), "showWhen"),
        (steps(**{"bad name": {}}), "field name"),
        (steps() * 9, "at most 8"),
        (steps(x={}) + steps(x={}), "two fields"),
        (steps(**{f"f{n}": {} for n in range(13)}), "at most 12"),
    ],
)
def test_what_an_agent_may_not_ask_is_refused_with_a_reason(bad, says):
    with pytest.raises(BadValue, match=says.replace("$", r"\$")):
        forms.check_steps(bad)


def test_unknown_keywords_and_types_are_harmless():
    (step,) = forms.normalise(steps(x={"type": "colour", "x-future": True}))

    assert step.fields[0].kind == "string"
    assert step.fields[0].label == "X"


@pytest.mark.parametrize(
    ("schema", "value", "clean"),
    [
        ({"type": "string"}, " hi ", " hi "),
        ({"type": "integer"}, "42", 42),
        ({"type": "integer"}, 42.0, 42),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "number", "multipleOf": 0.1}, 0.3, 0.3),
        ({"type": "boolean"}, None, False),
        ({"type": "boolean"}, "on", True),
        ({"type": "boolean", "default": True}, None, True),
        ({"type": "integer", "default": 0}, None, 0),
        ({"enum": ["a", "b"]}, "b", "b"),
        ({"enum": [1, 2]}, "2", 2),
        ({"oneOf": [{"const": "pg"}]}, "pg", "pg"),
        ({"type": "array", "items": {"enum": ["a", "b", "c"]}}, ["c", "a", "c"], ["c", "a"]),
        ({"type": "array", "items": {"enum": ["a"]}}, "a", ["a"]),
        ({"format": "email"}, "a@b.example", "a@b.example"),
        ({"format": "date"}, "2026-03-18", "2026-03-18"),
        ({"format": "date-time"}, "2026-03-18T10:00:00Z", "2026-03-18T10:00:00Z"),
        ({"format": "uri"}, "https://example.com/x", "https://example.com/x"),
    ],
)
def test_good_answers_come_out_in_their_type(schema, value, clean):
    found, error = one(schema, value)

    assert error is None
    assert found == clean
    assert type(found) is type(clean)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, "1.5"),
        ({"type": "integer"}, "many"),
        ({"type": "integer"}, True),
        ({"type": "number"}, "nan"),
        ({"type": "number"}, "1e999999"),
        ({"type": "number", "minimum": 1}, 0),
        ({"type": "number", "maximum": 1}, 2),
        ({"type": "integer", "multipleOf": 5}, 7),
        ({"minLength": 3}, "ab"),
        ({"maxLength": 3}, "abcd"),
        ({"pattern": "^[a-z]+$"}, "A1"),
        ({"type": "string"}, 5),
        ({"type": "string"}, "a\x00b"),
        ({"enum": ["a"]}, "b"),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 2}, ["a"]),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 1}, ["a", "b"]),
        ({"type": "array", "items": {"enum": ["a"]}}, ["z"]),
        ({"type": "boolean"}, "maybe"),
        ({"format": "email"}, "nobody"),
        ({"format": "uri"}, "not a uri"),
        ({"format": "date"}, "18.3.2026"),
        ({"format": "time"}, "25:00"),
    ],
)
def test_bad_answers_are_named_and_not_kept(schema, value):
    found, error = one(schema, value)

    assert found is None
    assert error


@pytest.mark.parametrize("schema", [{}, {"type": "array", "items": {"enum": ["a"]}}])
def test_required_means_answered(schema):
    assert one(schema, None, required=True)[1]
    assert one(schema, [] if schema else "  ", required=True)[1]


def test_a_required_box_may_stay_unticked():
    assert one({"type": "boolean"}, None, required=True) == (False, None)


def test_hidden_fields_are_neither_asked_nor_kept():
    form = steps(
        ["why"],
        kind={"enum": ["a", "other"]},
        why={"showWhen": {"field": "kind", "equals": "other"}},
    )

    assert forms.check_answers(form, {"kind": "a", "why": "kept?"}) == ({"kind": "a"}, {})
    assert forms.check_answers(form, {"kind": "other"})[1] == {"why": "this is required"}


@pytest.mark.parametrize(
    ("condition", "value", "shown"),
    [
        ({"in": ["a", "b"]}, "b", True),
        ({"in": ["a", "b"]}, "c", False),
        ({"truthy": True}, "x", True),
        ({"truthy": False}, "x", False),
        ({"equals": 1}, True, False),
        ({"equals": "a"}, ["a", "b"], True),
    ],
)
def test_conditions(condition, value, shown):
    field = forms.Field("x", "string", "X", depends_on="y", condition=condition)

    assert forms.is_shown(field, {"y": value}) is shown


def test_unknown_names_are_errors():
    _, errors = forms.check_answers(steps(x={}), {"x": "a", "y": "lost?"})

    assert errors == {"y": "this form has no such field"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
keywords = st.dictionaries(
    st.sampled_from(
        [
            "type",
            "title",
            "enum",
            "oneOf",
            "items",
            "format",
            "default",
            "minimum",
            "pattern",
            "multipleOf",
            "minItems",
            "showWhen",
            "x-display",
            "minLength",
        ]
    ),
    json_values | st.sampled_from(["string", "array", "integer", "boolean", "date"]),
    max_size=5,
)


@given(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), keywords, min_size=1, max_size=3),
    st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), json_values, max_size=4),
)
def test_any_schema_and_any_answer_give_a_result_or_a_sentence(properties, values):
    try:
        checked = forms.check_steps([{"schema": {"properties": properties}}])
    except BadValue as error:
        assert str(error)
        return

    clean, errors = forms.check_answers(checked, values)

    json.dumps(clean)
    assert not set(clean) & set(errors)
