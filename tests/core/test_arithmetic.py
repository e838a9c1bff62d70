"""The calculator's evaluator: exact, and bounded in work."""

from __future__ import annotations

import contextlib
import math
import operator
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protoagent.core import arithmetic
from protoagent.core.arithmetic import answer, evaluate
from protoagent.core.errors import BadValue

DEEP = "(1+" * 60 + "1" + ")" * 60


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("2 ** 10", "2 ** 10 = 1024"),
        ("100 / 4", "100 / 4 = 25.0"),
        ("-5 + 3", "-5 + 3 = -2"),
        ("1 + 2 * 3", "1 + 2 * 3 = 7"),
        ("(1 + 2) * 3", "(1 + 2) * 3 = 9"),
        ("10 // 3", "10 // 3 = 3"),
        ("10 % 3", "10 % 3 = 1"),
        ("-7 // 2", "-7 // 2 = -4"),
        ("-7 % 3", "-7 % 3 = 2"),
        ("+4", "+4 = 4"),
        ("--4", "--4 = 4"),
        ("-2 ** 2", "-2 ** 2 = -4"),
        ("2 ** 3 ** 2", "2 ** 3 ** 2 = 512"),
        ("10 - 3 - 2", "10 - 3 - 2 = 5"),
        ("100 / 10 / 2", "100 / 10 / 2 = 5.0"),
        ("1_000 + 1", "1_000 + 1 = 1001"),
        ("0x10 + 0b11", "0x10 + 0b11 = 19"),
        ("1e3 * 2", "1e3 * 2 = 2000.0"),
        ("0.1 + 0.2", "0.1 + 0.2 = 0.30000000000000004"),
        ("True + True", "True + True = 2"),
        ("False", "False = 0"),
        ("  1+1 ", "  1+1  = 2"),
        ("(1 +\n 2)", "(1 +\n 2) = 3"),
        ("2**100", "2**100 = 1267650600228229401496703205376"),
        ("2 ** -2", "2 ** -2 = 0.25"),
        ("0 ** 0", "0 ** 0 = 1"),
        ("1 ** 10000", "1 ** 10000 = 1"),
        ("10 ** -10000", "10 ** -10000 = 0.0"),
        ("1.0005 ** 20000", f"1.0005 ** 20000 = {1.0005**20000}"),
    ],
)
def test_arithmetic_is_answered_with_the_expression_as_typed(expression, expected):
    assert answer(expression) == expected


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("1/0", "division by zero"),
        ("1//0", "division by zero"),
        ("1%0", "division by zero"),
        ("1.5/0.0", "division by zero"),
        ("0 ** -1", "division by zero"),
        ("1 +", "not a valid expression: '1 +'"),
        ("", "not a valid expression: ''"),
        ("1 2", "not a valid expression: '1 2'"),
        ("2 × 3", "not a valid expression: '2 × 3'"),
        ("1\n2", "not a valid expression: '1\\n2'"),
        ("1\x002", "not a valid expression: '1\\x002'"),
        ("\ud800", "not a valid expression: '\\ud800'"),
        ("(" * 250 + ")" * 250, "not a valid expression: "),
        ("__import__('os')", "unsupported expression node: Call"),
        ("abs(-5)", "unsupported expression node: Call"),
        ("(1).__class__", "unsupported expression node: Attribute"),
        ("x", "unsupported expression node: Name"),
        ("1 < 2", "unsupported expression node: Compare"),
        ("1 and 2", "unsupported expression node: BoolOp"),
        ("not 1", "unsupported expression node: Not"),
        ("~1", "unsupported expression node: Invert"),
        ("1 << 2", "unsupported expression node: LShift"),
        ("1 | 2", "unsupported expression node: BitOr"),
        ("2 ^ 10", "unsupported expression node: BitXor (a power is written **)"),
        ("1 @ 2", "unsupported expression node: MatMult"),
        ("[1][0]", "unsupported expression node: Subscript"),
        ("(1, 2)", "unsupported expression node: Tuple"),
        ("lambda: 1", "unsupported expression node: Lambda"),
        ("[x for x in (1,)]", "unsupported expression node: ListComp"),
        ("1 if 1 else 2", "unsupported expression node: IfExp"),
        ("(y := 1)", "unsupported expression node: NamedExpr"),
        ("f'{1}'", "unsupported expression node: JoinedStr"),
        ("'a'", "unsupported constant: 'a'"),
        ("b'a'", "unsupported constant: b'a'"),
        ("1j", "unsupported constant: 1j"),
        ("None", "unsupported constant: None"),
        ("...", "unsupported constant: Ellipsis"),
        ("2.0 ** 10000", "the result is too large"),
        ("1e308 * 10", "the result is too large"),
        ("1e999", "the result is too large"),
        ("1e308 // 1e-308", "the result is too large"),
        ("10**2000 * 1.5", "the result is too large"),
        ("10**2000 / 3", "the result is too large"),
        ("(-8) ** (1/3)", "the result is not a real number"),
        ("(-2) ** 0.5", "the result is not a real number"),
        ("9**9**9", "the exponent is beyond 10,000"),
        ("2 ** 10001", "the exponent is beyond 10,000"),
        ("2 ** -10001", "the exponent is beyond 10,000"),
        ("9 ** 9999", "the result is too large"),
        ("10**2000 * 10**2000", "the result is too large"),
        (DEEP, "expression is nested deeper than 50 levels"),
        ("-" * 60 + "1", "expression is nested deeper than 50 levels"),
        ("1" * 501, "expression is longer than 500 characters"),
    ],
)
def test_everything_else_is_refused_in_one_sentence(expression, sentence):
    with pytest.raises(BadValue) as error:
        evaluate(expression)

    assert str(error.value).startswith(sentence)
    assert len(str(error.value)) < 300


def test_a_long_sum_is_not_a_deep_one():
    assert evaluate("+".join(["1"] * 250)) == 250
    assert evaluate("1-" * 249 + "1") == -248


def test_nesting_up_to_the_limit_is_fine():
    assert evaluate("(1+" * 48 + "1" + ")" * 48) == 49


def test_the_largest_power_is_exact():
    assert evaluate("2 ** 10000") == 2**10000
    assert evaluate("2 ** 10000 - 1") == 2**10000 - 1
    assert len(answer("2 ** 10000")) == len("2 ** 10000 = ") + 3011


def test_a_lower_limit_of_digits_is_a_plain_refusal():
    code = "from protoagent.core.arithmetic import answer; answer('2 ** 10000')"
    command = [sys.executable, "-X", "int_max_str_digits=640", "-c", code]

    result = subprocess.run(command, capture_output=True, text=True, check=False)

    assert "BadValue: the result is too large" in result.stderr


numbers = st.integers(-(10**6), 10**6)


@given(numbers, numbers, st.sampled_from(["+", "-", "*", "//", "%"]))
def test_whole_numbers_are_computed_like_python_does(left, right, sign):
    functions = {
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "//": operator.floordiv,
        "%": operator.mod,
    }
    if sign in ("//", "%") and right == 0:
        return

    assert evaluate(f"({left}) {sign} ({right})") == functions[sign](left, right)


@settings(max_examples=500, deadline=None)
@given(st.text("0123456789+-*/%.()_eEj x'\"<>=,[]\n", max_size=60))
def test_any_text_is_answered_or_refused(text):
    try:
        value = evaluate(text)
    except BadValue as error:
        assert str(error)
    else:
        assert type(value) in (int, float)
        assert math.isfinite(value) if isinstance(value, float) else True
        assert answer(text) == f"{text} = {value}"


leaves = st.integers(0, 99).map(str) | st.sampled_from(["1e300", "0.5", "9**9", "10**3000"])
trees = st.recursive(
    leaves,
    lambda inner: (
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%", "**"]), inner)
        .map("".join)
        .map(lambda text: f"({text})")
    ),
    max_leaves=40,
)


@settings(max_examples=300, deadline=None)
@given(trees)
def test_no_expression_takes_long(text):
    began = time.process_time()
    with contextlib.suppress(BadValue):
        answer(text)

    assert time.process_time() - began < 0.5  # about 1 ms on a quiet machine


HOSTILE = [
    "9**9**9",
    "9**9**9**9",
    "2**9999999",
    "(2**10000)**10000",
    "10**2999*10**2999",
    "*".join(["9999999999"] * 45),
    "**".join(["9"] * 100),
    "(" * 249 + "1" + ")" * 249,
    "-" * 499 + "1",
    "+" * 499 + "1",
    DEEP,
    "1e308*1e308",
    "(-1)**0.5",
    "9" * 500,
    "(9**3000)%(9**2999)//(9**1000)",
    "//".join(["9**3000"] * 60),
    "__import__('os').system('id')",
    "[1]*10**9",
    "'a'*10**9",
    "(lambda: 0)()",
]
ORDINARY = [
    "1+1",
    "2**100",
    "3*(4+5)",
    "100/7",
    "19.99*3",
    "2**64-1",
    "10//3",
    "10%3",
    "-5+3",
    "1_000_000*12",
    "(1+0.05)**30",
    "365*24*60*60",
    "0.1+0.2",
    "72/4.5",
    "15*8-4",
    "2**0.5",
    "((1+2)*(3+4))**2",
    "1/3",
    "123456789*987654321",
    "5e-3*1e6",
]


def test_twenty_hostile_and_twenty_ordinary_expressions_take_100_ms_together():
    def run():
        began = time.process_time()
        for expression in HOSTILE + ORDINARY:
            try:
                answer(expression)
            except BadValue:
                assert expression in HOSTILE
        return time.process_time() - began

    assert len(HOSTILE) == len(ORDINARY) == 20
    assert min(run() for _ in range(5)) < 0.1


def test_the_limits_are_those_of_the_specification():
    limits = (arithmetic.MAX_CHARS, arithmetic.MAX_DEPTH, arithmetic.MAX_BITS)

    assert limits == (500, 50, 10_000)
