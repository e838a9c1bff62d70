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


# Fields that depend on others ------------------------------------------------------------

CHAIN = steps(
    kind={"enum": ["files", "db"], "default": "files"},
    engine={"enum": ["pg", "ch"], "showWhen": {"field": "kind", "equals": "db"}},
    version={"type": "integer", "showWhen": {"field": "engine", "equals": "pg"}},
)


def test_what_depends_on_a_hidden_field_is_hidden_too():
    version = forms.normalise(CHAIN)[0].fields[2]

    assert forms.is_shown(version, {"kind": "db", "engine": "pg"})
    assert not forms.is_shown(version, {"kind": "files", "engine": "pg"})
    assert forms.check_answers(CHAIN, {"kind": "files", "engine": "pg", "version": 16}) == (
        {"kind": "files"},
        {},
    )


def test_a_field_may_depend_on_one_of_an_earlier_step():
    form = steps(a={"type": "boolean"}) + steps(
        ["b"], b={"showWhen": {"field": "a", "truthy": True}}
    )

    assert forms.check_answers(form, {}) == ({"a": False}, {})
    assert forms.check_answers(form, {"a": True})[1] == {"b": "this is required"}


@pytest.mark.parametrize(
    "bad",
    [
        steps(a={"showWhen": {"field": "b", "equals": 1}}, b={}),
        steps(a={"showWhen": {"field": "a", "equals": 1}}),
        steps(a={"showWhen": {"field": "b", "equals": 1}}) + steps(b={}),
        steps(
            a={"showWhen": {"field": "b", "equals": 1}}, b={"showWhen": {"field": "a", "equals": 1}}
        ),
    ],
)
def test_a_field_depends_only_on_what_was_asked_before(bad):
    with pytest.raises(BadValue, match="no field before it"):
        forms.check_steps(bad)


# Defaults --------------------------------------------------------------------------------


def test_a_fully_defaulted_form_may_be_sent_untouched():
    form = steps(
        ["text", "number", "flag", "one", "many"],
        text={"default": "x"},
        number={"type": "number", "default": 0},
        flag={"type": "boolean", "default": False},
        one={"oneOf": [{"const": "a"}, {"const": "b"}], "default": "b"},
        many={"type": "array", "items": {"enum": ["a", "b"]}, "default": ["a"], "minItems": 1},
    )

    assert forms.check_answers(form, {}) == (
        {"text": "x", "number": 0, "flag": False, "one": "b", "many": ["a"]},
        {},
    )


@pytest.mark.parametrize("emptied", [None, "", "  "])
def test_an_emptied_default_is_no_answer(emptied):
    assert forms.check_answers(steps(a={"default": "x"}), {"a": emptied}) == ({}, {})
    assert forms.check_answers(steps(["a"], a={"default": "x"}), {"a": emptied})[1]


def test_a_default_comes_in_its_type():
    (step,) = forms.normalise(
        steps(
            many={"type": "array", "items": {"enum": ["a", "b"]}, "default": "a"},
            number={"type": "integer", "default": "5"},
        )
    )

    assert [one.default for one in step.fields] == [["a"], 5]


# Numbers and patterns --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "multiple", "fits"),
    [(0.3, 0.1, True), (1e20, 0.1, True), ("1e299", 7, False), (0.35, 0.1, False), (-6, 3, True)],
)
def test_multiples_are_exact_for_every_size(number, multiple, fits):
    found, error = one({"type": "number", "multipleOf": multiple}, number)

    assert (error is None) is fits
    assert (found is not None) is fits


def test_a_pattern_is_looked_for_and_need_not_cover_the_text():
    assert one({"pattern": "@"}, "a@b") == ("a@b", None)
    assert one({"pattern": "^[a-z]+$"}, "a@b")[1]


@pytest.mark.parametrize("pattern", ["(a|a)*b", "(a+)+", ".*" * 9, r"(a)\1", "a" * 201])
def test_a_pattern_that_could_take_for_ever_is_refused(pattern):
    with pytest.raises(BadValue, match="the pattern of 'x' cannot be used"):
        forms.check_steps(steps(x={"pattern": pattern}))


def test_a_text_too_long_for_its_pattern_is_refused_quickly():
    found, error = one({"pattern": "^.*.*.*=$"}, "a" * 60_000)

    assert found is None
    assert error.startswith("at most ")


@given(st.text(max_size=40), st.text("ab=.*", max_size=40))
def test_any_pattern_and_text_give_a_result(pattern, text):
    try:
        forms.check_steps(steps(x={"pattern": pattern}))
    except BadValue:
        return

    found, error = one({"pattern": pattern}, text)
    assert found is None or error is None


def test_an_unknown_type_is_noted_in_the_log(caplog):
    caplog.set_level("INFO", "tools_app.forms")

    forms.normalise(steps(x={"type": "colour"}))

    assert "type=colour" in caplog.text


def test_fields_keep_their_order_in_a_column_that_sorts_keys():
    properties = {"zeta": {"type": "boolean"}, "a": {"showWhen": {"field": "zeta"}}, "mid": {}}
    stored = forms.check_steps([{"schema": {"properties": properties}}])

    sorted_by_the_database = json.loads(json.dumps(stored, sort_keys=True))

    assert [one.name for one in forms.normalise(sorted_by_the_database)[0].fields] == [
        *("zeta", "a", "mid"),
    ]
    assert forms.check_answers(sorted_by_the_database, {"zeta": True, "a": "x"})[1] == {}


@pytest.mark.parametrize("order", [None, "a", [1], [[], {}], ["nobody"], ["a", "a"]])
def test_an_order_without_sense_is_ignored(order):
    step = {"schema": {"properties": {"b": {}, "a": {}}}, "order": order}

    assert {one.name for one in forms.normalise([step])[0].fields} == {"a", "b"}
