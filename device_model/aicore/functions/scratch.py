"""Temporary buffers: a function works on its tensors piece by piece, as many elements as its temporaries have room for.

The kernel gives a temporary buffer, or the function takes the bytes of the UB that no buffer of the TPipe has. So the
size of the buffer decides how many instructions a function issues.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from device_model.aicore.core.machine import running
from device_model.aicore.core.names import BLOCK, RoundMode, Space, TPosition
from device_model.aicore.core.tensors import LocalTensor, float32, uint8
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.vector.elementwise import FLOATS, Cast
from device_model.aicore.vector.unit import check_count, check_type, vector_unit
from device_model.kernel.findings import KernelError

GRAIN = 32  # elements: pieces are multiples of it, as the vendor's are


class Piece(NamedTuple):
    """A part of a function's tensors: its first element, its length, and temporaries of that length."""

    start: int
    length: int
    temporaries: Sequence[LocalTensor]


def temporary(name: str, given: LocalTensor | None, *used: LocalTensor) -> LocalTensor:
    """Return the temporary buffer of function *name*, as bytes: the one *given*, or the rest of the UB.

    Raises:
        KernelError: It overlaps a tensor that the function uses, or there is no TPipe to ask for the rest.
    """
    unit = vector_unit()
    if given is None:
        pipe = running().tpipe
        if not isinstance(pipe, TPipe):
            raise KernelError(
                f"{name} without a temporary buffer, and {running().program} has no TPipe",
                "give it a tensor of uint8 in UB, or make a TPipe, whose free bytes it then takes",
            )
        start, size = pipe.rest(Space.UB)
        key: Any = ("rest", start)
        if key not in unit.scratch:
            unit.scratch[key] = LocalTensor(uint8, TPosition.VECCALC, start, size)
        rest: LocalTensor = unit.scratch[key]
        return rest
    if not isinstance(given, LocalTensor) or given.memory.space is not Space.UB:
        raise KernelError(
            f"{name}: the temporary buffer is {given!r}", "it is a tensor in UB: VECIN, VECOUT or VECCALC"
        )
    for tensor in used:
        if tensor.address < given.address + given.nbytes and given.address < tensor.address + tensor.nbytes:
            raise KernelError(f"{name}: the temporary buffer {given!r} overlaps {tensor!r}", "give it bytes of its own")
    return given


def pieces(name: str, buffer: LocalTensor, count: int, dtypes: Sequence[np.dtype[Any]]) -> Iterator[Piece]:
    """Yield the pieces of *count* elements, with a temporary of each of *dtypes*.

    Raises:
        KernelError: The buffer has no room for the smallest piece.
    """
    each = sum(dtype.itemsize for dtype in dtypes)
    at = -(-buffer.address // BLOCK) * BLOCK
    room = buffer.address + buffer.nbytes - at
    most = count if each == 0 else room // each // GRAIN * GRAIN
    if most <= 0:
        raise KernelError(
            f"{name}: a temporary buffer of {buffer.nbytes} bytes",
            f"it takes {each} bytes an element, and {GRAIN * each} at least",
        )
    unit = vector_unit()
    key = at, most, tuple(dtypes)
    tensors = unit.scratch.get(key)
    if tensors is None:
        tensors = unit.scratch[key] = []
        for dtype in dtypes:
            tensors.append(LocalTensor(dtype, TPosition.VECCALC, at, most))
            at += most * dtype.itemsize
    for start in range(0, count, most):
        yield Piece(start, min(most, count - start), tensors)


def arguments(
    name: str, src: LocalTensor, tmp: LocalTensor | int | None, count: int | None
) -> tuple[LocalTensor | None, int]:
    """Return the temporary buffer and the number of elements; the caller gave both, either, or neither."""
    if not isinstance(tmp, LocalTensor | None):
        if count is not None:
            raise TypeError(f"{name}: the temporary buffer must be a LocalTensor, not {tmp!r}")
        tmp, count = None, tmp
    if count is None:
        count = src.GetSize()
    check_count(name, count)
    return tmp, int(count)


Compute = Callable[..., None]


def apply(
    name: str,
    dst: LocalTensor,
    sources: Sequence[LocalTensor],
    tmp: LocalTensor | int | None,
    count: int | None,
    compute: Compute,
    temporaries: int,
    *,
    bits: int = 0,
    widens: bool = True,
    types: Sequence[str] = FLOATS,
) -> None:
    """Let `compute(dst, *sources, count, *temporaries)` issue the instructions of each piece.

    Args:
        name: The function.
        dst: The tensor to write.
        sources: The tensors to read, of the type of dst.
        tmp: The temporary buffer, or the count; see `arguments`.
        count: The number of elements.
        compute: Issues instructions of floats; of the type of dst without *widens*.
        temporaries: How many temporaries it gets.
        bits: How many temporaries of bytes it gets after these, for results of comparisons.
        widens: Whether half is converted to float for it, in temporaries.
        types: The types that the function has.
    """
    for role, tensor in zip(("dst", *(f"src{index}" for index in range(len(sources)))), (dst, *sources), strict=True):
        check_type(name, role, tensor, types if role == "dst" else (dst.dtype.name,))
    tmp, count = arguments(name, sources[0], tmp, count)
    for role, tensor in (("dst", dst), *((f"src{index}", each) for index, each in enumerate(sources))):
        if tensor.size < count:
            raise KernelError(f"{name}: a count of {count}", f"{role} has {tensor.size} elements")
    converts = widens and dst.dtype == np.float16
    wide = len(sources) if converts else 0
    dtypes = [float32] * wide + [float32 if widens else dst.dtype] * temporaries + [uint8] * bits
    buffer = temporary(name, tmp, dst, *sources) if dtypes else dst
    for start, length, tensors in pieces(name, buffer, count, dtypes):
        out, inputs = dst[start : start + length], [each[start : start + length] for each in sources]
        extra = tensors[wide:]
        if converts:
            for narrow, each in zip(inputs, tensors, strict=False):
                Cast(each, narrow, RoundMode.CAST_NONE, length)
            compute(tensors[0], *tensors[:wide], length, *extra)
            Cast(out, tensors[0], RoundMode.CAST_NONE, length)
        else:
            compute(out, *inputs, length, *extra)
