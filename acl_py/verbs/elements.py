"""The arguments of collectives: how many elements of what type, and where. What is wrong with them is found here.

A program makes the same calls again and again, so arguments that were right are kept (`note`), and a call with the same
ones only looks at what can have changed (`recall`).
"""

from collections.abc import Callable, Sequence
from functools import cache
from sys import _getframe
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from acl_py.callers import current_caller
from acl_py.calls.acts import Act, Joined, Plain
from acl_py.errors import Kind
from acl_py.runtime.calls import Call
from acl_py.runtime.collectives import Communicators, check_rank, join_group, queue
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import Scope, current_scope, scope_var
from acl_py.sites import site_of
from acl_py.verbs.arrays import Array
from acl_py.verbs.copies import locate
from acl_py.verbs.memory import Memory
from acl_py.verbs.streams import StreamLike, resolve
from device_model.collectives import calls
from device_model.collectives.calls import CollectiveKind, ReduceOp
from device_model.collectives.cliques import Communicator
from device_model.collectives.parts import Part
from device_model.completions import NOTHING, Completion
from device_model.dtypes import as_dtype
from device_model.errors import DeviceError, shown
from device_model.integers import Integer, integer
from device_model.memory import Allocation, Buffer, Space
from device_model.ops import Op
from device_model.rules import CollectiveRules, ForeignStream
from device_model.streams import Stream
from device_model.work import Extent, Lane

DataType: TypeAlias = npt.DTypeLike  # None: that of an Array
_TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
          "float64")  # fmt: skip
# What HCCL reduces on an A2 (documented); NCCL reduces all types.
_REDUCED_BY_HCCL = ("int8", "int16", "int32", "int64", "float16", "bfloat16", "float32")
_NO_PROD = ("int16", "bfloat16")
# A member that is read through its enum takes ten times as long.
_LANE = Lane.COLLECTIVE
_REFUSED = ForeignStream.REFUSED
_MOST_KNOWN = 1024  # calls of a rank that are kept


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
        call: Call,
        comm: object,
        count: Integer | None,
        data_type: DataType,
        buffers: Sequence[Memory | None],
        *,
        shared: bool = False,
    ) -> None:
        self.runtime = call[1]
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

    def between(self, kind: CollectiveKind, buffer: Memory, peer: Integer) -> calls.Call:
        """Return the Send of *buffer* to the rank *peer*, or the Recv from there."""
        other = self.check_peer("peer", peer)
        whole = self.ranges((buffer, self.count))
        sends, receives = (whole, ()) if kind is CollectiveKind.SEND else ((), whole)
        return calls.Call(kind, self.count, self.dtype, peer=other, sends=sends, receives=receives)

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
        found = [integer(name, number) for number in numbers]
        if len(found) != self.size:
            raise self.wrong(f"{len(found)} numbers in {name}", f"pass one for each of {self.size} ranks")
        if any(number < 0 for number in found):
            raise self.wrong(f"{min(found)} in {name}", "all must be 0 or more")
        return found

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


class Known:
    """Calls of *rank* that were found right, which touch *memory*.

    There are none if the rank asks for no elements: that does nothing on all ranks.
    """

    __slots__ = ("calls", "groups", "memory", "rank")

    def __init__(
        self, runtime: Runtime, rank: Communicator, made: Sequence[calls.Call], memory: Sequence[Allocation] = ()
    ) -> None:
        self.rank = rank
        self.calls = made
        self.memory = memory
        self.groups = runtime.state(Communicators).groups  # that are open


def recall(comm: Communicator, key: tuple[Any, ...]) -> tuple[Call, Known | None]:
    """Begin a call, and return what `note` has kept for *key* if it is still right; None: look at all arguments.

    *key* has the verb, its two buffers, of which one may be None, and its other arguments but the stream. A number has
    its type beside it, for 1 is equal to True.
    """
    scope = scope_var.get() or current_scope()  # begin(), written out: this is the hot path
    runtime = scope.runtime
    if scope.context.alert:
        runtime.check_call(scope.context, key[0].__name__)
    call = scope, runtime, site_of(_getframe(2)), runtime.host_ns
    try:
        known: Known = comm.known.get(key) or comm.known[_at_places(key)]
    except (KeyError, TypeError, AttributeError):  # TypeError: an argument without a hash, such as an array
        return call, None
    memory = runtime.memory
    for allocation in known.memory:
        if allocation.home is not memory:  # it was freed, or belongs to another simulation
            return call, None
    return call, known


def _at_places(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return *key* with the bytes that its buffers are: a program may make the same parts of a buffer again and again.

    Raises:
        TypeError: They are not what handles of memory are, and may be other bytes next time.
    """
    verb, first, second, *others = key
    return verb, _place(first), _place(second), *others


def _place(memory: Memory | None) -> tuple[Any, ...]:
    if memory is None:
        return ()
    if isinstance(memory, Array):
        return *_place(memory.buffer), memory.nbytes, memory.dtype
    if isinstance(memory, Buffer):
        return memory.allocation, memory.offset, memory.nbytes
    raise TypeError("this is no handle of memory")


def note(elements: Elements, key: tuple[object, ...], made: calls.Call) -> Known:
    """Return what is known of *made*, for which *key* asks, and keep it for the next call with the same arguments."""
    rank = elements.rank
    memory = tuple(dict.fromkeys(allocation for allocation, _, _ in (*made.sends, *made.receives)))
    known = Known(elements.runtime, rank, (made,) if made.count else (), memory)
    try:
        places = _at_places(key)
    except TypeError:  # an address, or an object that may have other memory next time
        return known
    if len(rank.known) >= _MOST_KNOWN:
        rank.known.clear()
    rank.known[key] = rank.known[places] = known
    return known


def joined(call: Call, verb: Callable[..., object], known: Known, stream: StreamLike) -> Completion:
    """Queue what a rank is *known* to call with *verb* as one part, or add it to the open group."""
    scope, runtime, site, enter = call
    rank, made = known.rank, known.calls
    if not made:
        runtime.brief_call(verb.__name__, enter, site)
        return NOTHING
    if rank.clique.error is not None:
        raise runtime.operation_error(rank.clique.error)
    if (
        isinstance(stream, Stream)
        and (home := stream.home) is not None
        and not home.alert
        and home.device is rank.device
        and (home is scope.context or runtime.rules.foreign_stream is not _REFUSED)
    ):
        found = stream  # most streams: `_stream_of` would find the same, more slowly
    else:
        found = _stream_of(scope, verb.__name__, rank, stream)
    group = known.groups.get(current_caller()) if known.groups else None
    if group is None:
        part = Part(rank, made)
        op = Op(part, _LANE, part.nbytes, site)
        queue(runtime, op, part, found)
    else:
        op = join_group(group, rank, made, found, site)
    if runtime.hooks.call is not None:
        count = len(made)
        act: Act[Any] = Plain((rank, found))
        if group is None:
            act = Joined(tuple(made), (rank,) * count, (found,) * count)
        runtime.hooks.call(verb.__name__, enter, runtime.host_ns, site, act)
    return op


def _stream_of(scope: Scope, name: str, rank: Communicator, stream: StreamLike) -> Stream:
    """Return the stream that *stream* means in a call of the verb *name* for *rank*; refuse one of another device."""
    runtime, current = scope.runtime, scope.context.device
    if stream is None and current is not rank.device:
        raise runtime.error(
            Kind.INVALID_COLLECTIVE,
            f"{name}() of {rank!r} on the default stream of device {current.ordinal}",
            f"SetDevice({rank.device.ordinal}) first, or pass a stream of that device",
        )
    found = resolve(scope, stream, name, captures=True)
    if found.context.device is not rank.device:
        raise runtime.error(
            Kind.INVALID_COLLECTIVE,
            f"{name}() of {rank!r} on {found!r}",
            f"pass a stream of device {rank.device.ordinal}",
        )
    return found
