"""Activation functions: Sigmoid, Tanh, Silu, Swish, Gelu, SwiGLU and others.

Each may work in place, because dst is written only when the sources have been read.
"""

from math import pi, sqrt

from device_model.aicore.core.tensors import LocalTensor
from device_model.aicore.functions.makers import binary, unary
from device_model.aicore.functions.scratch import apply
from device_model.aicore.vector.elementwise import Add, Adds, Div, Exp, Maxs, Mins, Mul, Muls, Relu
from device_model.aicore.vector.fill import Duplicate

LARGEST_TANH = 8.8  # tanh of more is 1 in float
CUBIC = 0.044715  # of the approximation of Gelu by tanh


def _sigmoid(dst: LocalTensor, src: LocalTensor, count: int, ones: LocalTensor) -> None:
    Muls(dst, src, -1, count)
    Exp(dst, dst, count)
    Adds(dst, dst, 1, count)
    Duplicate(ones, 1, count)
    Div(dst, ones, dst, count)


Sigmoid = unary("Sigmoid", _sigmoid, "dst = 1 / (1 + e to the power of -src).", temporaries=1, widens=False)


def _tanh(dst: LocalTensor, src: LocalTensor, count: int, squared: LocalTensor) -> None:
    Mins(squared, src, LARGEST_TANH, count)
    Maxs(squared, squared, -LARGEST_TANH, count)
    Muls(squared, squared, 2, count)
    Exp(squared, squared, count)
    Adds(dst, squared, -1, count)
    Adds(squared, squared, 1, count)
    Div(dst, dst, squared, count)


Tanh = unary("Tanh", _tanh, "dst = hyperbolic tangent of src.", temporaries=1)


def _gate(dst: LocalTensor, src: LocalTensor, count: int, factor: float, tmp: LocalTensor) -> None:
    """Issue dst = src / (1 + e to the power of -factor * src)."""
    Muls(tmp, src, -factor, count)
    Exp(tmp, tmp, count)
    Adds(tmp, tmp, 1, count)
    Div(dst, src, tmp, count)


def Swish(dst: LocalTensor, src: LocalTensor, data_size: int, scalar_value: float) -> None:
    """Dst = src / (1 + e to the power of -scalar_value * src) (Ascend C: Swish).

    Made of vector instructions. Half is computed in float, in the bytes of UB that no buffer of the TPipe has.

    Args:
        dst: The tensor to write, in UB.
        src: The tensor to read, of the same type: half or float.
        data_size: The number of elements.
        scalar_value: The factor in the exponent.

    Raises:
        KernelError: A type or count is impossible, a tensor is too small, or UB has no bytes left.
    """
    apply("Swish", dst, (src,), data_size, None, lambda out, x, count, tmp: _gate(out, x, count, scalar_value, tmp), 1)


def Silu(dst: LocalTensor, src: LocalTensor, data_size: int) -> None:
    """Dst = src / (1 + e to the power of -src) (Ascend C: Silu). Arguments are those of Swish.

    Raises:
        KernelError: As for Swish.
    """
    apply("Silu", dst, (src,), data_size, None, lambda out, x, count, tmp: _gate(out, x, count, 1, tmp), 1)


def SwiGLU(
    dst: LocalTensor,
    src0: LocalTensor,
    src1: LocalTensor,
    scalar_value: float,
    tmp: LocalTensor | int | None = None,
    count: int | None = None,
) -> None:
    """Dst = src0 * src1 / (1 + e to the power of -scalar_value * src1) (Ascend C: SwiGLU).

    Args:
        dst: The tensor to write, in UB.
        src0: The factor, of the same type: half or float.
        src1: The gate, of the same type.
        scalar_value: The factor in the exponent.
        tmp: The temporary buffer, in UB; by default the bytes of UB that no buffer of the TPipe has. The count may
            stand in its place.
        count: The number of elements; by default those of src0.

    Raises:
        KernelError: A type or count is impossible, a tensor is too small, or the temporary buffer is too small or
            overlaps a tensor.
    """

    def compute(out: LocalTensor, x: LocalTensor, gate: LocalTensor, count: int, tmp: LocalTensor) -> None:
        _gate(tmp, gate, count, scalar_value, tmp)
        Mul(out, x, tmp, count)

    apply("SwiGLU", dst, (src0, src1), tmp, count, compute, 1)


def _gelu(dst: LocalTensor, src: LocalTensor, count: int, cube: LocalTensor) -> None:
    Mul(cube, src, src, count)
    Mul(cube, cube, src, count)
    Muls(cube, cube, CUBIC, count)
    Add(cube, cube, src, count)
    Muls(cube, cube, -2 * sqrt(2 / pi), count)
    Exp(cube, cube, count)
    Adds(cube, cube, 1, count)
    Div(dst, src, cube, count)


def _faster_gelu(dst: LocalTensor, src: LocalTensor, count: int, tmp: LocalTensor) -> None:
    _gate(dst, src, count, 1.702, tmp)


Gelu = unary(
    "Gelu",
    _gelu,
    "dst = src * (1 + tanh(sqrt(2 / pi) * (src + 0.044715 * src cubed))) / 2, the usual approximation of Gelu.",
    temporaries=1,
)
FasterGelu = unary(
    "FasterGelu", _faster_gelu, "dst = src / (1 + e to the power of -1.702 * src), a rough Gelu.", temporaries=1
)


def _reglu(dst: LocalTensor, src0: LocalTensor, src1: LocalTensor, count: int, tmp: LocalTensor) -> None:
    Relu(tmp, src1, count)
    Mul(dst, src0, tmp, count)


def _geglu(
    dst: LocalTensor, src0: LocalTensor, src1: LocalTensor, count: int, gate: LocalTensor, tmp: LocalTensor
) -> None:
    _gelu(gate, src1, count, tmp)
    Mul(dst, src0, gate, count)


ReGlu = binary("ReGlu", _reglu, "dst = src0 * max(src1, 0).", temporaries=1)
GeGLU = binary("GeGLU", _geglu, "dst = src0 * Gelu(src1).", temporaries=2)
