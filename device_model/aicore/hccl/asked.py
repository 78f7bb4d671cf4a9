"""What a kernel asks of its server: buffers, their parts for each rank and turn, and what a card can do with them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from device_model.aicore.core.memories import Range
from device_model.aicore.core.tensors import GlobalBuffer, whole
from device_model.aicore.hccl.names import DTYPE_OF, REDUCED, REDUCTIONS, HcclDataType, HcclReduceOp
from device_model.integers import is_integer
from device_model.kernel.findings import KernelError

_MOST_TURNS = 255  # repeat is a byte
_REDUCING = ("AllReduce", "ReduceScatter")
Ranges = Callable[[int], tuple[Range, ...]]  # of a turn, by its number


class Part(NamedTuple):
    """A buffer of a task, as elements of *dtype*."""

    name: str
    buffer: GlobalBuffer
    dtype: np.dtype[Any]

    def range(self, first: int, count: int) -> Range:
        """Return *count* elements from *first* on."""
        start, nbytes = first * self.dtype.itemsize, count * self.dtype.itemsize
        if first < 0 or count < 0 or start + nbytes > self.buffer.nbytes:
            raise KernelError(
                f"{self.name} takes bytes {start}:{start + nbytes} of {self.buffer!r}, which has {self.buffer.nbytes}",
                "check the count, the stride and repeat",
            )
        return self.buffer.memory, self.buffer.address + start, self.buffer.address + start + nbytes


def part_of(kind: str, what: str, buffer: GlobalBuffer, data_type: HcclDataType) -> Part:
    """Return the argument *what* of a task; raise KernelError if it is no buffer, or *data_type* no type."""
    dtype = DTYPE_OF.get(data_type) if is_integer(data_type) else None
    if dtype is None:
        raise KernelError(f"Hccl.{kind} of data_type {data_type!r}", "give it an HcclDataType")
    if not isinstance(buffer, GlobalBuffer):
        raise KernelError(f"Hccl.{kind} with {what} {buffer!r}", "pass an argument of the kernel in GM, or x + n")
    return Part(f"the {what} of {kind}", buffer, dtype)


def count_of(name: str, count: int) -> int:
    """Return *count*; raise KernelError if it is below 1."""
    count = whole(name, count)
    if count < 1:
        raise KernelError(f"{name} is {count}", "a task moves 1 element or more")
    return count


def turns_of(kind: str, repeat: int, sends: Ranges, receives: Ranges) -> int:
    """Return *repeat*; raise KernelError if there cannot be so many turns, or they lie outside of the buffers."""
    repeat = whole("repeat", repeat)
    if not 1 <= repeat <= _MOST_TURNS:
        raise KernelError(f"Hccl.{kind} with repeat={repeat}", f"a task has 1 to {_MOST_TURNS} turns")
    for turn in (0, repeat - 1):
        sends(turn)
        receives(turn)
    return repeat


def check_reduction(kind: str, data_type: HcclDataType, op: HcclReduceOp | None) -> None:
    """Raise KernelError if a task of this *kind* combines elements, and no card combines those of this type so."""
    if kind in _REDUCING and (op not in REDUCTIONS or data_type not in REDUCED):
        raise KernelError(
            f"Hccl.{kind} of {HcclDataType(data_type).name} with op {op!r}",
            "a card has HCCL_REDUCE_SUM, MAX and MIN of float, half, bfloat16, and int8, int16 and int32",
        )


def strided(size: int, part: Part, count: int, stride: int) -> Ranges:
    """Return the ranges of a turn with *count* elements for each of *size* ranks."""
    stride = whole("stride_count", stride) or count
    if stride < count:
        raise KernelError(
            f"a stride_count of {stride} with {count} elements for each rank",
            f"give 0, or {count} or more: parts must not overlap",
        )
    return lambda turn: tuple(part.range(turn * count + rank * stride, count) for rank in range(size))


def listed(size: int, part: Part, name: str, counts: Sequence[int], places: Sequence[int]) -> Ranges:
    """Return the ranges of a turn of AlltoAllV with *size* ranks."""
    counts, places = _numbers(name, counts), _numbers("displacements", places)
    if len(counts) != size or len(places) != size:
        raise KernelError(
            f"AlltoAllV with {len(counts)} {name} and {len(places)} displacements",
            f"give {size}: one for each rank",
        )
    pairs = list(zip(counts, places, strict=True))
    return lambda turn: tuple(part.range(at + turn * count, count) for count, at in pairs)


def _numbers(name: str, numbers: Iterable[int]) -> list[int]:
    if not isinstance(numbers, Iterable):
        raise KernelError(f"AlltoAllV with {name} {numbers!r}", "give a list with a number for each rank")
    return [whole(name, number) for number in numbers]
