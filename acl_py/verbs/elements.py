"""The elements that a collective is called with: how many of what type, and where. What is wrong is found here."""

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from acl_py.errors import Kind
from acl_py.runtime.collectives import check_rank
from acl_py.runtime.runtime import Runtime
from acl_py.verbs.arrays import Array
from acl_py.verbs.copies import locate
from acl_py.verbs.memory import Memory
from device_model.collectives.calls import Call, CollectiveKind, ReduceOp
from device_model.collectives.cliques import Communicator
from device_model.collectives.folds import why_not
from device_model.dtypes import as_dtype
from device_model.errors import DeviceError, shown
from device_model.integers import Integer, integer
from device_model.memory import Space
from device_model.rules import CollectiveRules
from device_model.work import Extent

DataType: TypeAlias = npt.DTypeLike  # None: that of an Array
_TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
          "float64")  # fmt: skip
# What HCCL reduces on an A2 (documented); NCCL reduces all types.
_REDUCED_BY_HCCL = ("int8", "int16", "int32", "int64", "float16", "bfloat16", "float32")
_NO_PROD = ("int16", "bfloat16")


@cache
def _is_type(dtype: "np.dtype[Any]") -> bool:
    return dtype.name in _TYPES


class Elements:
    """*count* elements of one type in *buffers*, for a call of the rank that *comm* is.

    Where *count* is None it is that of the first buffer, an Array; divided by the ranks if that is *shared* by them.
    """

    __slots__ = ("_names", "count", "dtype", "nbytes", "rank", "runtime", "size")

    def __init__(
        self,
        runtime: Runtime,
        comm: object,
        count: Integer | None,
        data_type: DataType,
        buffers: Sequence[Memory | None],
        *,
        shared: bool = False,
    ) -> None:
        self.runtime = runtime
        self.rank: Communicator = check_rank(self.runtime, comm)
        self.size = len(self.rank.clique)
        self.dtype = self._type(data_type, buffers)
        self.count = self._count(count, buffers, self.size if shared else 1)
        self.nbytes = self.count * self.dtype.itemsize

    @property
    def own_place(self) -> int:
        """Where this rank's elements begin among those of all ranks, in bytes."""
        return self.rank.index * self.nbytes

    def wrong(self, what: str, remedy: str) -> DeviceError:
        """Return the error for an argument that a collective cannot take."""
        return self.runtime.error(Kind.INVALID_COLLECTIVE, f"{what}, on {self._who}", remedy)

    @property
    def _who(self) -> str:
        return f"rank {self.rank.index} of {self.rank.clique.name}"

    def _type(self, data_type: DataType, buffers: Sequence[Memory | None]) -> "np.dtype[Any]":
        if data_type is None:
            arrays = [buffer for buffer in buffers if isinstance(buffer, Array)]
            if not arrays:
                raise self.wrong("no data_type", "name it, or pass Arrays")
            if any(array.dtype != arrays[0].dtype for array in arrays):
                types = " and ".join(str(array.dtype) for array in arrays)
                raise self.wrong(f"Arrays of {types}", "pass Arrays of one type")
            dtype = arrays[0].dtype
        else:
            dtype = as_dtype(data_type)
        if not _is_type(dtype):
            raise self.wrong(f"elements of {dtype}", f"they can be {', '.join(_TYPES)}")
        return dtype

    def _count(self, count: Integer | None, buffers: Sequence[Memory | None], shares: int) -> int:
        if count is None:
            first = buffers[0]
            if not isinstance(first, Array):
                raise self.wrong("no count", "say how many elements, or pass Arrays")
            if first.nbytes % (self.dtype.itemsize * shares):
                what = f"{first.nbytes // self.dtype.itemsize:,} elements for {shares} ranks"
                raise self.wrong(what, "each rank must get the same number of whole elements")
            return first.nbytes // self.dtype.itemsize // shares
        number = integer("count", count)
        if number < 0:
            raise self.wrong(f"{number} elements", "the count must be 0 or more")
        return number

    def check_same(self, count: Integer | None, data_type: DataType) -> None:
        """Refuse a second count or type that is another one."""
        if count is not None and integer("recv_count", count) != self.count:
            raise self.wrong(f"{self.count:,} elements to each rank, and {count:,} from each", "pass the same count")
        if data_type is not None and as_dtype(data_type) != self.dtype:
            raise self.wrong(
                f"elements of {self.dtype} to each rank, of {as_dtype(data_type)} from each", "pass one type"
            )

    def check_reduction(self, op: object) -> None:
        """Refuse what is no ReduceOp, or one that the rules in force do not have for the type."""
        if not isinstance(op, ReduceOp):
            raise TypeError(f"op must be a ReduceOp, such as ReduceOp.SUM, not {shown(op)}")
        if self.runtime.rules.collectives is CollectiveRules.NCCL:
            return
        name = self.dtype.name
        if op is ReduceOp.AVERAGE:
            raise self.wrong("ReduceOp.AVERAGE", "HCCL has sum, prod, max and min: divide the sum yourself")
        if name not in _REDUCED_BY_HCCL or (op is ReduceOp.PROD and name in _NO_PROD):
            able = [each for each in _REDUCED_BY_HCCL if op is not ReduceOp.PROD or each not in _NO_PROD]
            raise self.wrong(f"the {op.value} of {name}", f"HCCL can reduce {', '.join(able)} so")

    def check_peer(self, name: str, peer: Integer) -> int:
        """Return the rank *peer*, which an argument of this *name* gives."""
        number = integer(name, peer)
        if not 0 <= number < self.size:
            raise self.wrong(f"there is no rank {number} for {name}", f"ranks have the numbers 0 to {self.size - 1}")
        return number

    def ranges(self, *wanted: tuple[Memory | None, int]) -> tuple[Extent, ...]:
        """Return the bytes of each buffer of *wanted*, which has so many elements."""
        return tuple([self._range(buffer, 0, count) for buffer, count in wanted])

    def between(self, kind: CollectiveKind, buffer: Memory, peer: Integer) -> Call:
        """Return the Send of *buffer* to the rank *peer*, or the Recv from there."""
        other = self.check_peer("peer", peer)
        if self.rank.clique.fold is not None:
            refusal = why_not(self.rank, other)
            if refusal is not None:
                raise self.wrong(*refusal)
        whole = self.ranges((buffer, self.count))
        sends, receives = (whole, ()) if kind is CollectiveKind.SEND else ((), whole)
        return Call(kind, self.count, self.dtype, peer=other, sends=sends, receives=receives)

    def _range(self, buffer: Memory | None, first: int, count: int) -> Extent:
        if buffer is None:
            raise self.wrong("None as a buffer", "pass device memory")
        start, nbytes = first * self.dtype.itemsize, count * self.dtype.itemsize
        allocation, offset = locate(self.runtime, buffer, start + nbytes, "a buffer of a collective")
        if allocation.space is Space.PAGEABLE:
            raise self.wrong(f"{allocation!r}, which is pageable host memory", "pass device memory")
        if allocation.space is Space.DEVICE and allocation.device != self.rank.device.ordinal:
            raise self.wrong(
                f"{allocation!r} of device {allocation.device}", f"pass memory of device {self.rank.device.ordinal}"
            )
        return allocation, offset + start, offset + start + nbytes

    def check_apart(self, part: Extent, whole: Extent, *, inside: int | None) -> None:
        """Refuse two ranges that overlap, unless *part* begins *inside* bytes behind the begin of *whole*."""
        if _overlap(part, whole) and (inside is None or part[1] - whole[1] != inside):
            allowed = "not at all" if inside is None else f"only if one begins {inside:,} bytes inside the other"
            raise self.wrong(
                f"bytes {part[1]:,} to {part[2]:,} and {whole[1]:,} to {whole[2]:,} of {part[0]!r} overlap",
                f"what is sent and received here may overlap {allowed}",
            )

    def pieces(
        self, name: str, buffer: Memory, counts: Sequence[Integer], displacements: Sequence[Integer] | None
    ) -> tuple[Extent, ...]:
        """Return the bytes for each rank: so many elements, from a displacement on; None: one behind the other."""
        sizes = self._numbers(f"{name}_counts", counts)
        if displacements is None:
            places = [sum(sizes[:rank]) for rank in range(self.size)]
        else:
            places = self._numbers(f"{name}_displs", displacements)
        return tuple(self._range(buffer, place, size) for place, size in zip(places, sizes, strict=True))

    def _numbers(self, name: str, numbers: Sequence[Integer]) -> list[int]:
        counts = [integer(name, number) for number in numbers]
        if len(counts) != self.size:
            raise self.wrong(f"{len(counts)} numbers in {name}", f"pass one for each of {self.size} ranks")
        if any(count < 0 for count in counts):
            raise self.wrong(f"{min(counts)} in {name}", "all must be 0 or more")
        return counts

    def check_pieces_apart(self, sends: Sequence[Extent], receives: Sequence[Extent]) -> None:
        """Refuse ranges that are received and overlap another one."""
        for place, target in enumerate(receives):
            for other in (*sends, *receives[:place]):
                self.check_apart(target, other, inside=None)

    def row_and_column(self, matrix: Sequence[Sequence[Integer]]) -> tuple[list[int], list[int]]:
        """Return how many elements this rank sends to each rank, and gets from each."""
        rows = [self._numbers("a row of send_count_matrix", row) for row in matrix]
        if len(rows) != self.size:
            raise self.wrong(f"{len(rows)} rows in send_count_matrix", f"pass one for each of {self.size} ranks")
        return rows[self.rank.index], [row[self.rank.index] for row in rows]


def _overlap(one: Extent, other: Extent) -> bool:
    return one[0] is other[0] and one[1] < other[2] and other[1] < one[2]
