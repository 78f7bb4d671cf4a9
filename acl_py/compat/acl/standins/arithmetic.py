"""Arithmetic in texts, as dims and costs have it in sidecars: "height // 4", "2 * rows * columns"."""

import ast
import operator
from collections.abc import Callable, Mapping
from functools import cache

_LONGEST = 200  # characters; Python's parser fails in other ways when an expression is nested far deeper
_OPERATIONS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
}  # fmt: skip


def evaluate(text: str, names: Mapping[str, int]) -> int:
    """Return the value of *text*: whole numbers, + - * // and *names*. Raise ValueError if it is anything else."""
    if len(text) > _LONGEST:
        raise ValueError(f"{text[:20]!r}... has {len(text)} characters; arithmetic may have {_LONGEST}")
    try:
        return _value(_parsed(text), names)
    except ZeroDivisionError as error:
        raise ValueError(f"{text!r} divides by 0") from error
    except (SyntaxError, KeyError) as error:
        raise ValueError(f"{text!r} is not arithmetic (+ - * //) with {', '.join(names) or 'numbers'}") from error


@cache
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _value(node: ast.expr, names: Mapping[str, int]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_value(node.left, names), _value(node.right, names))
    raise SyntaxError(ast.unparse(node))
