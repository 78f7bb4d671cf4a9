"""Operators: what acl.op executes, by the vendor's names.

An operator is a Python function: its inputs are its positional parameters, its attributes its keyword-only ones. It
returns one array, or a tuple of several, which become what the output descriptions say. Programs add their own:

    @register_op("AddCustom")
    def add_custom(x, y, *, alpha=1.0):
        return x + alpha * y

The built-in operators compute small floats in float32 and round the result, as the vendor's do.
"""

from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from math import prod
from sys import maxsize
from typing import Any

import numpy as np
import numpy.typing as npt

from acl_py.compat.acl.face.dtypes import dtype_of

Array = npt.NDArray[Any]
Flops = Callable[..., float]


class Operator:
    """An operator: its *function*, and *flops*, which returns the operations of a call from its shapes and attributes.

    Without *flops* a call takes the time to move its data. If it *converts*, its results may be of any numeric type.
    *inputs* are the least and the largest number of inputs; *attributes* says for each one whether it is required.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        flops: Flops | None = None,
        outputs: int = 1,
        *,
        converts: bool = False,
    ) -> None:
        self.name = name
        self.function = function
        self.flops = flops
        self.outputs = outputs
        self.converts = converts
        parameters = signature(function).parameters.values()
        places = [
            each for each in parameters if each.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        ]
        any_number = any(each.kind is Parameter.VAR_POSITIONAL for each in parameters)
        needed = sum(each.default is each.empty for each in places)
        self.inputs = (max(needed, 1), maxsize) if any_number else (needed, len(places))
        self.attributes = {
            each.name: each.default is each.empty for each in parameters if each.kind is Parameter.KEYWORD_ONLY
        }

    def __repr__(self) -> str:
        return f"<operator {self.name}>"

    def takes(self, inputs: int) -> bool:
        """Return whether it can have this number of inputs."""
        return self.inputs[0] <= inputs <= self.inputs[1]


_operators: dict[str, Operator] = {}


def register_op(
    name: str, *, flops: Flops | None = None, outputs: int = 1
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function the operator *name* of acl.op; it replaces an operator of that name, built in or not.

        @register_op("AddCustom", flops=lambda x, y, alpha=1.0: 2 * prod(x.shape))
        def add_custom(x, y, *, alpha=1.0):  # inputs by position, attributes by keyword
            return x + alpha * y

    The function gets a read-only NumPy array for each input, and None for an optional input that is left out. It
    returns an array, or a tuple of several. They get the data types of the output descriptions; floats do not become
    ints.

    Args:
        name: What acl.op.execute() and acl.op.create_handle() call it.
        flops: A function that returns the number of operations of a call. It gets the same arguments, with objects that
            have a shape in the place of arrays. Without it a call takes the time to move its bytes.
        outputs: How many outputs it has.

    Returns:
        A decorator, which returns the function unchanged.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _operators[name] = Operator(name, function, flops, outputs)
        return function

    return register


def unregister_op(name: str) -> None:
    """Undo `register_op`. If it replaced a built-in operator, that one is back.

    Raises:
        KeyError: There is no operator of this name.
    """
    del _operators[name]
    if name in _built_in:
        _operators[name] = _built_in[name]


def operator_of(name: str) -> Operator | None:
    """Return the operator of this name, or None."""
    return _operators.get(name)


def names() -> list[str]:
    """The names of all operators."""
    return sorted(_operators)


# --- those that are here


def _wide(x: Any) -> Any:
    """Small floats as float32."""
    small = isinstance(x, np.ndarray) and x.dtype.itemsize < 4 and x.dtype.kind in "fV"
    return x.astype(np.float32) if small else x


def _add(name: str, function: Callable[..., Any], flops: Flops | None = None, *, converts: bool = False) -> None:
    _operators[name] = Operator(name, function, flops, converts=converts)


def _elementwise(name: str, compute: Callable[..., Any], inputs: int) -> None:
    def one(x: Array) -> Any:
        return compute(_wide(x))

    def two(x: Array, y: Array) -> Any:
        return compute(_wide(x), _wide(y))

    _add(name, one if inputs == 1 else two)


def _divide(x: Array, y: Array) -> Any:
    """Floats as usual; ints towards zero, as in C."""
    if x.dtype.kind not in "iu":
        return np.divide(x, y)
    quotient = np.abs(x) // np.abs(y)
    return np.where((x < 0) != (y < 0), -quotient, quotient).astype(x.dtype)


def _sigmoid(x: Array) -> Any:
    return 1 / (1 + np.exp(-x))


def _gelu(x: Array) -> Any:
    """The form with tanh, which the vendor's operator computes."""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


_ONE: dict[str, Callable[..., Any]] = {
    "Abs": np.abs, "Ceil": np.ceil, "Cos": np.cos, "Exp": np.exp, "Floor": np.floor, "Gelu": _gelu, "Log": np.log,
    "LogicalNot": np.logical_not, "Neg": np.negative, "OnesLike": np.ones_like, "Reciprocal": lambda x: 1 / x,
    "Relu": lambda x: np.maximum(x, 0), "Round": np.rint, "Rsqrt": lambda x: 1 / np.sqrt(x), "Sigmoid": _sigmoid,
    "Sign": np.sign, "Sin": np.sin, "Sqrt": np.sqrt, "Square": np.square, "Swish": lambda x: x * _sigmoid(x),
    "Tanh": np.tanh, "ZerosLike": np.zeros_like,
}  # fmt: skip
_TWO: dict[str, Callable[..., Any]] = {
    "Add": np.add, "Div": _divide, "Equal": np.equal, "FloorDiv": np.floor_divide, "FloorMod": np.mod,
    "Greater": np.greater, "GreaterEqual": np.greater_equal, "Less": np.less, "LessEqual": np.less_equal,
    "LogicalAnd": np.logical_and, "LogicalOr": np.logical_or, "Maximum": np.maximum, "Minimum": np.minimum,
    "Mod": np.fmod, "Mul": np.multiply, "NotEqual": np.not_equal, "Pow": np.power, "RealDiv": np.divide,
    "SquaredDifference": lambda x, y: np.square(x - y), "Sub": np.subtract,
}  # fmt: skip
_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "Sum": np.sum, "Mean": np.mean, "Max": np.max, "Min": np.min, "Prod": np.prod, "All": np.all, "Any": np.any,
}  # fmt: skip


def _reduce(name: str, compute: Callable[..., Any]) -> None:
    def reduce(x: Array, axes: Sequence[int] | Array, keep_dims: bool) -> Any:
        places = tuple(int(each) for each in np.ravel(axes)) or None  # none given: all of them
        wide = _wide(x)
        kept = {} if wide.dtype.kind != "i" or name not in ("Sum", "Prod") else {"dtype": wide.dtype}
        return compute(wide, axis=places, keepdims=keep_dims, **kept)

    def by_input(x: Array, axes: Array, *, keep_dims: bool = False) -> Any:
        return reduce(x, axes, keep_dims)

    def by_attribute(x: Array, *, axes: Sequence[int] = (), keep_dims: bool = False) -> Any:
        return reduce(x, axes, keep_dims)

    _add(f"Reduce{name}", by_input, converts=name == "Mean")  # the mean of ints is one, too
    _add(f"Reduce{name}D", by_attribute, converts=name == "Mean")


def _factor(x: Array, turn: bool) -> Any:
    """Of a product, which is summed in float32 or, of bytes, in int32."""
    wide = x.astype(np.int32) if x.dtype.itemsize == 1 and x.dtype.kind in "iu" else _wide(x)
    return wide.swapaxes(-1, -2) if turn else wide


def _matmul(x1: Array, x2: Array, bias: Array | None, turn1: bool, turn2: bool) -> Any:
    product = np.matmul(_factor(x1, turn1), _factor(x2, turn2))
    return product if bias is None else product + _wide(bias)


def _matmul_flops(x1: Any, x2: Any, turn1: bool, turn2: bool) -> float:
    rows, inner = x1.shape[-2:][::-1] if turn1 else x1.shape[-2:]
    columns = x2.shape[-2 if turn2 else -1]
    return 2.0 * float(max(prod(x1.shape[:-2]), prod(x2.shape[:-2])) * rows * inner * columns)


def _matmul_v2(
    x1: Array,
    x2: Array,
    bias: Array | None = None,
    *,
    transpose_x1: bool = False,
    transpose_x2: bool = False,
    offset_x: int = 0,  # noqa: ARG001 - of quantized inputs
) -> Any:
    return _matmul(x1, x2, bias, transpose_x1, transpose_x2)


def _batch_matmul(
    x1: Array, x2: Array, bias: Array | None = None, *, adj_x1: bool = False, adj_x2: bool = False
) -> Any:
    return _matmul(x1, x2, bias, adj_x1, adj_x2)


def _gemm(
    a: Array, b: Array, c: Array, alpha: Array, beta: Array, *, transpose_a: bool = False, transpose_b: bool = False
) -> Any:
    return _wide(alpha) * _matmul(a, b, None, transpose_a, transpose_b) + _wide(beta) * _wide(c)


def _softmax(x: Array, *, axes: Sequence[int] = (-1,)) -> Any:
    wide, places = _wide(x), tuple(axes)
    raised = np.exp(wide - wide.max(axis=places, keepdims=True))
    return raised / raised.sum(axis=places, keepdims=True)


def _log_softmax(x: Array, *, axes: Sequence[int] = (-1,)) -> Any:
    wide, places = _wide(x), tuple(axes)
    lowered = wide - wide.max(axis=places, keepdims=True)
    return lowered - np.log(np.exp(lowered).sum(axis=places, keepdims=True))


def _cast(x: Array, *, dst_type: int | None = None, truncate: bool = False) -> Any:  # noqa: ARG001 - reserved
    """To *dst_type*, an aclDataType, and from there to that of the output."""
    dtype = None if dst_type is None else dtype_of(dst_type)
    with np.errstate(over="ignore", invalid="ignore"):
        return x if dtype is None else x.astype(dtype)


def _concat(*inputs: Array, concat_dim: int = 0, N: int = 0) -> Any:  # noqa: ARG001, N803 - the vendor's name for their number
    return np.concatenate(inputs, axis=concat_dim)


def _select(condition: Array, x1: Array, x2: Array) -> Any:
    return np.where(condition, x1, x2)


def _gather(x: Array, indices: Array, axis: Array | None = None, *, batch_dims: int = 0) -> Any:
    if batch_dims:
        raise ValueError("GatherV2 is here for batch_dims = 0 only; register_op() another")
    return np.take(x, indices, axis=0 if axis is None else int(np.ravel(axis)[0]))


def _slice(x: Array, offsets: Sequence[int] | Array, size: Sequence[int] | Array) -> Any:
    """Return *size* elements from *offsets* on, in each dim; -1 is all that follow."""
    begins, lengths = np.ravel(offsets).tolist(), np.ravel(size).tolist()
    if not x.ndim == len(begins) == len(lengths):
        raise ValueError(f"x has {x.ndim} dims, offsets {len(begins)} and size {len(lengths)} numbers")
    ends = [
        dim if length == -1 else begin + length for dim, begin, length in zip(x.shape, begins, lengths, strict=True)
    ]
    if not all(0 <= begin <= end <= dim for dim, begin, end in zip(x.shape, begins, ends, strict=True)):
        raise ValueError(f"offsets {begins} and size {lengths} go beyond x, whose dims are {list(x.shape)}")
    return x[tuple(map(slice, begins, ends))]


def _bias_add(x: Array, bias: Array, *, data_format: str = "NHWC") -> Any:
    channels = 1 if data_format.startswith("NC") else x.ndim - 1
    return _wide(x) + _wide(bias).reshape([-1 if place == channels else 1 for place in range(x.ndim)])


def _build() -> None:
    for name, compute in _ONE.items():
        _elementwise(name, compute, 1)
    for name, compute in _TWO.items():
        _elementwise(name, compute, 2)
    for name, compute in _REDUCTIONS.items():
        _reduce(name, compute)
    for name in ("MatMul", "MatMulV2"):
        _add(name, _matmul_v2, _flops_of_matmul_v2)
    for name in ("BatchMatMul", "BatchMatMulV2"):
        _add(name, _batch_matmul, _flops_of_batch_matmul)
    _add("GEMM", _gemm, _flops_of_gemm)
    for name in ("Cast", "CastD"):
        _add(name, _cast, converts=True)
    for name in ("Softmax", "SoftmaxV2"):
        _add(name, _softmax)
    for name in ("LogSoftmax", "LogSoftmaxV2"):
        _add(name, _log_softmax)
    for name in ("ConcatD", "ConcatV2D"):
        _add(name, _concat)
    for name in ("Select", "SelectV2"):
        _add(name, _select)
    for name in ("Adds", "Muls"):
        _add(name, _with_scalar(np.add if name == "Adds" else np.multiply))
    for name in ("ArgMax", "ArgMin"):
        _arg(name, np.argmax if name == "ArgMax" else np.argmin)
    _add("BiasAdd", _bias_add)
    _add("GatherV2", _gather)
    _add("Permute", lambda x, *, order: np.transpose(x, order))
    _add("Transpose", lambda x, perm: np.transpose(x, np.ravel(perm).tolist()))
    _add("TransposeD", lambda x, *, perm: np.transpose(x, perm))
    _add("Slice", _slice)
    _add("SliceD", lambda x, *, offsets, size: _slice(x, offsets, size))
    _add("Reshape", lambda x, shape: x.reshape(np.ravel(shape).tolist()))


def _flops_of_matmul_v2(
    x1: Any, x2: Any, *_: Any, transpose_x1: bool = False, transpose_x2: bool = False, **__: Any
) -> float:
    return _matmul_flops(x1, x2, transpose_x1, transpose_x2)


def _flops_of_batch_matmul(x1: Any, x2: Any, *_: Any, adj_x1: bool = False, adj_x2: bool = False) -> float:
    return _matmul_flops(x1, x2, adj_x1, adj_x2)


def _flops_of_gemm(a: Any, b: Any, *_: Any, transpose_a: bool = False, transpose_b: bool = False) -> float:
    return _matmul_flops(a, b, transpose_a, transpose_b)


def _with_scalar(compute: Callable[..., Any]) -> Callable[..., Any]:
    def function(x: Array, *, value: float) -> Any:
        return compute(_wide(x), np.float32(value)).astype(_wide(x).dtype)

    return function


def _arg(name: str, compute: Callable[..., Any]) -> None:
    def by_attribute(x: Array, *, dimension: int, dtype: int = 3) -> Any:  # noqa: ARG001 - the output says its dtype
        return compute(x, axis=dimension)

    def by_input(x: Array, dimension: Array, *, dtype: int = 3) -> Any:  # noqa: ARG001 - the output says its dtype
        return compute(x, axis=int(np.ravel(dimension)[0]))

    _add(f"{name}D", by_attribute)
    _add(f"{name}V2", by_input)


_build()
_built_in = dict(_operators)
