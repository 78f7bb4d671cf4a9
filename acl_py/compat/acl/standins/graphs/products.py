"""What the products of an ONNX graph take: the operations of its convolutions and products of matrices.

Element-wise work is not counted: the vector units do it beside the cube, and moving its data is what it takes. So the
count is that of papers: two operations for each multiplication and its addition.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]  # by the name of the tensor; a dim that is not known is -1


def flops(nodes: Iterable[Any], shapes: Shapes) -> float:
    """Return the operations of the products among *nodes*. Of the bodies of an If the larger one counts; those of
    loops count once.
    """
    total = 0.0
    for node in nodes:
        count = _PRODUCTS.get(node.op_type)
        if count is not None:
            total += 2.0 * max(count(node, shapes), 0)
        bodies = [flops(each.g.node, shapes) for each in node.attribute if each.HasField("g")]
        if bodies:
            total += max(bodies) if node.op_type == "If" else sum(bodies)
    return total


def needed(nodes: Iterable[Any]) -> set[str]:
    """Return the names of the tensors whose shapes `flops` asks for, without those of bodies."""
    return {name for node in nodes if node.op_type in _PRODUCTS for name in (*node.input, *node.output) if name}


def _elements(shape: Sequence[int]) -> int:
    return prod(shape) if -1 not in shape else 0


def _convolution(weights: int) -> Callable[[Any, Shapes], int]:
    """Each element of the output takes one multiplication for each weight of its channel."""

    def count(node: Any, shapes: Shapes) -> int:
        return _elements(shapes.get(node.output[0], (-1,))) * _elements(shapes.get(node.input[weights], (-1,))[1:])

    return count


def _transposed(node: Any, shapes: Shapes) -> int:
    """Each element of the input is multiplied with each weight of its channel."""
    return _elements(shapes.get(node.input[0], (-1,))) * _elements(shapes.get(node.input[1], (-1,))[1:])


def _gemm(node: Any, shapes: Shapes) -> int:
    transposes = any(each.name == "transA" and each.i for each in node.attribute)
    inner = shapes.get(node.input[0], (-1, -1))[0 if transposes else -1]
    return _elements(shapes.get(node.output[0], (-1,))) * inner


def _matmul(node: Any, shapes: Shapes) -> int:
    return _elements(shapes.get(node.output[0], (-1,))) * shapes.get(node.input[0], (-1,))[-1]


def _einsum(node: Any, shapes: Shapes) -> int:
    """One multiplication for each combination of indices; a sum over one operand has none."""
    equation = next(each.s.decode() for each in node.attribute if each.name == "equation").replace(" ", "")
    operands = equation.partition("->")[0].split(",")
    if len(operands) < 2 or "..." in equation:
        return 0
    sizes = dict[str, int]()
    for letters, name in zip(operands, node.input, strict=False):
        sizes |= dict(zip(letters, shapes.get(name, ()), strict=False))
    return _elements(tuple(sizes.values()))


def _recurrent(node: Any, shapes: Shapes) -> int:
    """Each step of each sequence is multiplied with all weights."""
    steps = _elements(shapes.get(node.input[0], (-1,))[:2])
    return steps * sum(_elements(shapes.get(name, (-1,))) for name in node.input[1:3])


_PRODUCTS: Mapping[str, Callable[[Any, Shapes], int]] = {
    "Conv": _convolution(1), "ConvInteger": _convolution(1), "QLinearConv": _convolution(3),
    "ConvTranspose": _transposed, "Gemm": _gemm, "MatMul": _matmul, "MatMulInteger": _matmul, "QLinearMatMul": _matmul,
    "Einsum": _einsum, "LSTM": _recurrent, "GRU": _recurrent, "RNN": _recurrent,
}  # fmt: skip
