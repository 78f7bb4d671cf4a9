"""The container of an `in`: Python compares a number with its elements and says to none of them what it looks for.

What stands behind the word is read in the source and computed again, if that changes nothing: numbers, names, fields,
arithmetic, `range` and written lists.
"""

import ast
import builtins
import operator
from collections import ChainMap
from collections.abc import Callable, Mapping
from inspect import getattr_static
from itertools import islice
from linecache import getlines
from types import FrameType
from typing import Any

_CONTAINERS = (range, tuple, list, set, frozenset, dict)
_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}  # fmt: skip


def container_of(frame: FrameType) -> tuple[int, ...] | range | None:
    """Return the elements of the container in which *frame* looks for something just now.

    None: it does something else, or they are no plain integers, or to compute the container might change something.
    """
    asked = _expression(frame)
    if not isinstance(asked, ast.Compare) or len(asked.ops) != 1 or not isinstance(asked.ops[0], ast.In | ast.NotIn):
        return None
    try:
        found = _value(asked.comparators[0], ChainMap(frame.f_locals, frame.f_globals, vars(builtins)))
    except (LookupError, AttributeError, ArithmeticError, TypeError, ValueError):
        return None
    if type(found) not in _CONTAINERS or not all(type(each) is int for each in found):
        return None
    return found if isinstance(found, range) else tuple(found)


def _expression(frame: FrameType) -> ast.expr | None:
    """Return the expression that *frame* evaluates just now, as its source has it."""
    place = frame.f_lasti // 2  # an instruction has two bytes
    first, last, begin, end = next(islice(frame.f_code.co_positions(), place, None))
    if first is None or last is None or begin is None or end is None:
        return None
    lines = [line.encode() for line in getlines(frame.f_code.co_filename, frame.f_globals)[first - 1 : last]]
    if len(lines) <= last - first:
        return None
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][begin:]
    try:
        return ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    except SyntaxError:  # the file has changed since
        return None


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """Return the value of *node*.

    Raises:
        LookupError: It has none, or it would take calls that might change something.
        AttributeError: Something has no such field.
    """
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return names[name]
        case ast.Attribute(value=owner, attr=name):
            return getattr_static(_value(owner, names), name)  # of a property it is not what a call would return
        case ast.Tuple(elts=each) | ast.List(elts=each) | ast.Set(elts=each):
            return tuple(_value(one, names) for one in each)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_integer(operand, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _ARITHMETIC[type(op)](_integer(left, names), _integer(right, names))
        case ast.Call(func=ast.Name(id="range"), args=args, keywords=[]) if names["range"] is range:
            return range(*(_integer(each, names) for each in args))
    raise LookupError(ast.unparse(node))


def _integer(node: ast.expr, names: Mapping[str, Any]) -> int:
    value = _value(node, names)
    if type(value) is not int:  # nor the number of a rank, which is another one for each
        raise LookupError(ast.unparse(node))
    return value
