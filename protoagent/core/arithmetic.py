"""Plain arithmetic out of text: an evaluator whose work is bounded before it is done. Pure.

Nothing is executed: the text is parsed into a tree and only numbers, `+ - * / // % **`,
signs and parentheses are computed. Every result is sized up first, so that no expression
takes longer than a few milliseconds.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable

from protoagent.core.errors import BadValue
from protoagent.core.text import truncate

MAX_CHARS = 500
MAX_DEPTH = 50
MAX_BITS = 10_000
MAX_EXPONENT = 10_000

Number = int | float

_BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: dict[type[ast.unaryop], Callable[[Number], Number]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
_HINTS = {"BitXor": " (a power is written **)"}


def answer(expression: str) -> str:
    """The expression as it was typed, and its value: `2 ** 10 = 1024`.

    Raises BadValue, like `evaluate`.
    """
    value = evaluate(expression)
    try:
        return f"{expression} = {value}"
    except ValueError:  # the interpreter may be started with a lower limit of digits
        raise _too_large() from None


def evaluate(expression: str) -> Number:
    """The value of `expression`; whole numbers are exact.

    Raises BadValue for anything that is no arithmetic, for a division by zero, and for
    results that are too large, not finite or not real.
    """
    if len(expression) > MAX_CHARS:
        raise BadValue(f"expression is longer than {MAX_CHARS} characters")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise BadValue(f"not a valid expression: {truncate(expression, 200)!r}") from None
    try:
        return _value(tree.body, MAX_DEPTH)
    except ZeroDivisionError:
        raise BadValue("division by zero") from None
    except OverflowError:
        raise _too_large() from None


def _value(node: ast.expr, depth: int) -> Number:
    if depth <= 0:
        raise BadValue(f"expression is nested deeper than {MAX_DEPTH} levels")
    if isinstance(node, ast.Constant):
        return _constant(node.value)
    if isinstance(node, ast.UnaryOp):
        apply = _UNARY.get(type(node.op))
        if apply is None:
            raise _unsupported(node.op)
        return apply(_value(node.operand, depth - 1))
    if isinstance(node, ast.BinOp):
        return _chain(node, depth)
    raise _unsupported(node)


def _chain(node: ast.BinOp, depth: int) -> Number:
    """The value of `a + b - c …`, whose tree leans to the left, without a level for each term."""
    steps: list[ast.BinOp] = []
    first: ast.expr = node
    while isinstance(first, ast.BinOp):
        steps.append(first)
        first = first.left
    value = _value(first, depth - 1)
    for step in reversed(steps):
        value = _computed(step.op, value, _value(step.right, depth - 1))
    return value


def _computed(kind: ast.operator, left: Number, right: Number) -> Number:
    apply = _BINARY.get(type(kind))
    if apply is None:
        raise _unsupported(kind)
    if isinstance(left, int) and isinstance(right, int):
        _check_size(kind, left, right)
    value = apply(left, right)
    if isinstance(value, complex):
        raise BadValue("the result is not a real number")
    if isinstance(value, float) and not math.isfinite(value):
        raise _too_large()
    return value


def _check_size(kind: ast.operator, left: int, right: int) -> None:
    """Refuse a product or power of whole numbers that would be too large, before it is made.

    The other operations add one bit at most, so the length of the text bounds them.
    """
    bits = 0.0
    if isinstance(kind, ast.Mult):
        bits = left.bit_length() + right.bit_length() - 1
    elif isinstance(kind, ast.Pow):
        if abs(right) > MAX_EXPONENT:
            raise BadValue(f"the exponent is beyond {MAX_EXPONENT:,}")
        if abs(left) > 1 and right > 0:
            bits = right * math.log2(abs(left))
    if bits > MAX_BITS:
        raise _too_large()


def _constant(value: object) -> Number:
    if isinstance(value, int):
        return int(value)  # True and False count as 1 and 0
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _too_large()
        return value
    raise BadValue(f"unsupported constant: {truncate(repr(value), 100)}")


def _unsupported(node: ast.AST) -> BadValue:
    name = type(node).__name__
    return BadValue(f"unsupported expression node: {name}{_HINTS.get(name, '')}")


def _too_large() -> BadValue:
    return BadValue("the result is too large")
