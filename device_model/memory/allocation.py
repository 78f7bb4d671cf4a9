"""Allocations: pieces of memory with one life each, and the buffers through which users hold them.

An allocation begins with Malloc, MallocHost or one of their relatives, and ends with the call that frees it. Each time
memory is given out it is a new allocation with the next number, even at an address that was used before. So a buffer
that outlives its memory is found out: it points to an allocation that has ended, and not to the memory's next user.

Messages name allocations by their numbers, never by addresses of host memory, because those differ from run to run.
"""

from collections.abc import Callable, Sequence
from enum import Enum, IntEnum
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from device_model.display import table
from device_model.dtypes import as_dtype
from device_model.errors import Fail, Kind
from device_model.handles import Handle
from device_model.integers import Integer, integer, lengths
from device_model.memory import backing
from device_model.memory.backing import GONE, NOTHING, VALUELESS, Cold
from device_model.memory.pages import Pages
from device_model.names import named

if TYPE_CHECKING:
    from device_model.memory.directory import Directory
    from device_model.memory.pool import Pool
    from device_model.work import Copy

# The addresses of device memory: no host pointer has such a value, and all of them are positive as int64. On a board
# without a host, device memory has real addresses instead.
DEVICE_BASE = 1 << 60
_CUDA = 2  # the kind of device that DLPack calls so
WITH_VALUES = "leave it out where `current_simulation().values` is False, or run with values"


class Space(IntEnum):
    """Where memory is, as far as copies distinguish."""

    DEVICE = 0
    PINNED = 1
    PAGEABLE = 2
    MANAGED = 3  # moves between host and devices, page by page: see pages.py


class Origin(Enum):
    """How memory was made: the names of the call that makes it and of the call that ends it."""

    MALLOC = "Malloc", "Free"
    POOL = "MallocAsync", "FreeAsync"
    MALLOC_HOST = "MallocHost", "FreeHost"
    REGISTERED = "HostRegister", "HostUnregister"
    MAPPED = "MapMem", "UnmapMem"
    MANAGED = "MallocManaged", "Free"
    MODULE = "load", ""
    PAGEABLE = "", ""

    def __init__(self, maker: str, ender: str) -> None:
        self.maker = maker
        self.ender = ender


class AllocationCore:
    """What work needs of a piece of memory: where it is, and its bytes."""

    __slots__ = ("address", "cold", "device", "freed", "home", "nbytes", "pages", "space", "view")
    address: int
    nbytes: int
    space: Space
    device: int  # -1 for host memory
    view: memoryview  # of bytes; writable unless it is a read-only source
    cold: Cold | None  # None if every chunk is warm: see backing.py
    freed: object
    home: "Directory | None"
    pages: Pages | None  # of managed memory


class Allocation(AllocationCore):
    """One piece of memory with one life.

    `freed` is None while it is alive, then the line that freed it: from then on the host may not name it. `home` is the
    memory that it is part of while it is alive, then None. Work that was queued before a FreeAsync may still use it,
    until `drop` takes the bytes away. From then on reads give poison and writes have no effect (`is_dropped`).
    """

    __slots__ = ("fail", "given_name", "made", "origin", "owner", "pool", "serial")

    is_on_card: ClassVar[bool] = False  # a real one, so that other libraries can use its address

    def __init__(
        self,
        address: int,
        nbytes: int,
        space: Space,
        origin: Origin,
        view: memoryview,
        fail: Fail,
        *,
        device: int = -1,
        cold: Cold | None = None,
        made: object = None,
        owner: object = None,
        serial: int = -1,
    ) -> None:
        self.address = address
        self.nbytes = nbytes
        self.space = space
        self.origin = origin
        self.device = device
        self.view = view
        self.cold = cold
        self.made = made
        self.given_name: str | None = None  # as the program calls it
        self.freed = None
        self.home = None
        self.owner = owner  # keeps the view alive: a registered array, a mapping
        self.pages = None
        self.pool: Pool | None = None  # that it goes back to
        self.serial = serial  # -1 for pageable memory that was passed to one call
        self.fail = fail

    @property
    def name(self) -> str:
        """As messages call it, whatever its state."""
        return named("allocation", self.serial, self.given_name)

    @property
    def is_dropped(self) -> bool:
        """Whether the bytes are gone."""
        return self.cold is GONE

    @property
    def is_host_visible(self) -> bool:
        """Whether the host can read it at its address: host memory, and the device memory of a board without a host."""
        return self.address < DEVICE_BASE

    def dlpack(
        self,
        offset: int,
        dtype: "np.dtype[Any]",
        shape: tuple[int, ...],
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """Return values at *offset* as a capsule of DLPack; the other arguments are those of `__dlpack__`."""
        raise NotImplementedError  # pragma: no cover - memory on a card has it

    @property
    def has_values(self) -> bool:
        """Whether there are bytes; a run without values has memory without them."""
        return self.cold is not VALUELESS

    def check_values(self, what: str) -> None:
        """Refuse *what*, which needs the values that this memory holds, in a run without values."""
        if self.cold is VALUELESS:
            raise self.fail(Kind.NOT_SUPPORTED, f"{what} of {self!r} needs its values, and values=False", WITH_VALUES)

    def warm(self, offset: int, nbytes: int) -> None:
        """Write poison to the chunks of a range that were never written, so that its view can be read and written."""
        cold = self.cold
        if cold is None or cold is GONE or cold is VALUELESS:
            return
        cold.prepare_read(self.view, offset, offset + nbytes)
        if not cold.cold_chunks:
            self.cold = None

    def check_host(self, offset: int, nbytes: int, what: str) -> None:
        """Raise an error if *what*, such as "a view", needs more than this host's memory for *nbytes* from *offset*."""
        if nbytes > backing.ROOM:
            raise self.fail(
                Kind.OUT_OF_MEMORY,
                f"{what} of {describe(self, offset, nbytes)} needs {size_text(nbytes)} of this host's memory, "
                f"which has {size_text(backing.ROOM)}",
                "take it in smaller parts, or use a host with more memory",
            )

    def drop(self) -> None:
        """Give up the bytes; NumPy arrays over them keep theirs."""
        self.view = NOTHING
        self.cold = GONE
        self.owner = None

    def tombstone(self) -> "Allocation":
        """Return a copy of this record that keeps no bytes."""
        stone = Allocation(
            self.address, self.nbytes, self.space, self.origin, NOTHING, self.fail,
            device=self.device, cold=GONE, made=self.made, serial=self.serial,
        )  # fmt: skip
        stone.freed = self.freed
        stone.given_name = self.given_name
        return stone

    def __repr__(self) -> str:
        return f"<Allocation {describe(self, 0, self.nbytes)}>"


class BufferCore(Handle):
    """What copies need of a buffer: the memory, and its part."""

    __slots__ = ("allocation", "copied", "copied_kind", "nbytes", "offset")
    allocation: Allocation
    offset: int
    nbytes: int
    copied: "Copy | None"  # the last copy to it: a call that repeats it takes this object
    copied_kind: int  # the kind that its call named; not set without a copy


@final
class Buffer(BufferCore):
    """A handle of an allocation, or of a bounded part of one.

    `buf + n` and `buf[a:b]` are smaller buffers over the same memory, in bytes. Two buffers are equal only if they are
    the same object.
    """

    __slots__ = ()

    def __init__(self, allocation: Allocation, offset: int, nbytes: int) -> None:
        self.allocation = allocation
        self.offset = offset
        self.nbytes = nbytes
        self.copied = None

    @property
    def address(self) -> int:
        """The address of the first byte: simulated for device memory, real for memory that the host can read."""
        allocation = self.allocation
        # A caller that knows a real address may write there unseen, so all poison must be in place from now on.
        if allocation.cold is not None and allocation.is_host_visible:
            allocation.warm(0, allocation.nbytes)
        return allocation.address + self.offset

    def __index__(self) -> int:
        return self.address

    def __len__(self) -> int:
        return self.nbytes

    __iter__ = None  # Python must not iterate by index, nor NumPy take it for a sequence

    def __add__(self, nbytes: Integer) -> "Buffer":
        nbytes = integer("what is added to a buffer", nbytes)
        if not 0 <= nbytes <= self.nbytes:
            raise IndexError(f"{self!r} + {nbytes} lies outside; stay within 0 to {self.nbytes}")
        return Buffer(self.allocation, self.offset + nbytes, self.nbytes - nbytes)

    def __getitem__(self, part: slice) -> "Buffer":
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise TypeError(f"{self!r} takes slices in bytes, [first:last]; for values use numpy() of host memory")
        first = self._bound(part.start, 0)
        last = self._bound(part.stop, self.nbytes)
        if not 0 <= first <= last <= self.nbytes:
            raise IndexError(f"[{first}:{last}] lies outside {self!r}; stay within 0 to {self.nbytes}, in order")
        return Buffer(self.allocation, self.offset + first, last - first)

    def _bound(self, bound: Integer | None, default: int) -> int:
        if bound is None:
            return default
        bound = integer("a bound of a part of a buffer", bound)
        return bound if bound >= 0 else bound + self.nbytes

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return the bytes of host memory for `np.asarray`; device memory is refused, as by numpy()."""
        return np.array(self.numpy(), dtype, copy=copy)

    def numpy(
        self, dtype: npt.DTypeLike = np.uint8, shape: Integer | Sequence[Integer] | None = None
    ) -> npt.NDArray[Any]:
        """Return a writable array over this host memory, without a copy.

        On a board without a host (`run_mode` 0 in its profile), this works for device memory, too.

        Args:
            dtype: The type of the values.
            shape: The shape; by default one-dimensional over all of the buffer.

        Raises:
            DeviceError: (AclError in acl_py) This is device memory, it was freed, or it is too small for *shape*.
        """
        allocation = self.allocation
        if not allocation.is_host_visible:
            raise allocation.fail(
                Kind.INVALID_VALUE, f"{self!r} is device memory, which NumPy cannot see", "copy it to the host first"
            )
        if allocation.freed is not None:
            what, remedy = f"{self!r} is no longer alive", "free it after its last use"
            raise allocation.fail(Kind.INVALID_ADDRESS, what, remedy, dead=allocation)
        kind = as_dtype(dtype)
        if shape is None:
            sizes: tuple[int, ...] = (self.nbytes // kind.itemsize,)
            needed = self.nbytes if self.nbytes % kind.itemsize == 0 else self.nbytes + 1
        else:
            sizes = lengths(shape)
            needed = kind.itemsize * prod(sizes)
        if kind.hasobject or not 0 <= needed <= self.nbytes:
            what = f"{self!r} does not hold {kind} of shape {sizes}"
            raise allocation.fail(Kind.INVALID_VALUE, what, "choose a dtype and shape that fit")
        allocation.check_values("numpy()")
        allocation.check_host(self.offset, needed, "a view")
        allocation.warm(self.offset, needed)
        array: npt.NDArray[Any] = np.ndarray(sizes, kind, allocation.view, self.offset)
        home = allocation.home
        watch = None if home is None else home.watch_view
        if home is not None and home.watch_managed is not None and allocation.pages is not None:
            watch = home.watch_managed
        return array if watch is None else watch(allocation, array)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The bytes for torch, CuPy and numba, which compute on the card that this memory is on.

        Raises:
            AttributeError: The memory is simulated or on the host, so no other library can use it.
        """
        return cuda_array(self, np.dtype(np.uint8), (self.nbytes,))

    @property
    def __dlpack__(self) -> Callable[..., object]:
        """The bytes for `from_dlpack` of torch, CuPy and JAX.

        Raises:
            AttributeError: As `__cuda_array_interface__`.
        """
        return dlpack(self, np.dtype(np.uint8), (self.nbytes,))

    @property
    def __dlpack_device__(self) -> Callable[[], tuple[int, int]]:
        """The kind of device, 2 for CUDA, and the number of the card.

        Raises:
            AttributeError: As `__cuda_array_interface__`.
        """
        return dlpack_device(self)

    def __repr__(self) -> str:
        return f"<Buffer {describe(self.allocation, self.offset, self.nbytes)}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows. The bytes themselves are not shown: to read them is an access of the host."""
        whole, allocation = (0, self.allocation.nbytes), self.allocation
        size = f"{size_text(self.nbytes)} ({self.nbytes:,} bytes)"
        part = f"from byte {self.offset:,} of {size_text(whole[1])}" if (self.offset, self.nbytes) != whole else ""
        # That of host memory is another one in each run.
        address = hex(allocation.address + self.offset) if allocation.space is Space.DEVICE else ""
        rows = {"memory": _place(allocation), "size": size, "part": part, "address": address}
        ended = _end_text(allocation).removeprefix(", ")
        return table(allocation.name, {**rows, "made at": allocation.made, "state": ended})


def cuda_array(buffer: Buffer, dtype: "np.dtype[Any]", shape: tuple[int, ...]) -> dict[str, Any]:
    """Return what `__cuda_array_interface__` says of *buffer* as values of *dtype* in an array of *shape*.

    Raises:
        AttributeError: The memory is not on a card, or was freed.
    """
    _check_on_card(buffer)
    data = buffer.allocation.address + buffer.offset, False
    return {"version": 3, "shape": shape, "typestr": dtype.str, "data": data, "strides": None, "stream": None}


def dlpack(buffer: Buffer, dtype: "np.dtype[Any]", shape: tuple[int, ...]) -> Callable[..., object]:
    """Return the function `__dlpack__` of *buffer* as values of *dtype* in an array of *shape*.

    Raises:
        AttributeError: The memory is not on a card, or was freed.
    """
    _check_on_card(buffer)
    return partial(buffer.allocation.dlpack, buffer.offset, dtype, shape)


def dlpack_device(buffer: Buffer) -> Callable[[], tuple[int, int]]:
    """Return the function `__dlpack_device__` of *buffer*.

    Raises:
        AttributeError: The memory is not on a card, or was freed.
    """
    _check_on_card(buffer)
    device = _CUDA, buffer.allocation.device
    return lambda: device


def _check_on_card(buffer: Buffer) -> None:
    if not buffer.allocation.is_on_card:
        raise AttributeError(f"{buffer!r} is not on a card, so only acl_py can use it; on device='cuda:0' others can")
    if buffer.allocation.freed is not None:
        raise AttributeError(f"{buffer!r} is no longer alive")


def describe(allocation: Allocation, offset: int, nbytes: int) -> str:
    """Describe a part of an allocation: its kind and size, where it was made, and where it was freed."""
    if allocation.serial < 0:
        return f"pageable {size_text(nbytes)}"
    part = f"at {offset} of " if (offset, nbytes) != (0, allocation.nbytes) else ""
    made = "" if allocation.made is None else f" made at {allocation.made}"
    return f"{_place(allocation)} {size_text(nbytes)} {part}{allocation.name}{made}{_end_text(allocation)}"


def _place(allocation: Allocation) -> str:
    if allocation.space is Space.DEVICE:
        return f"device:{allocation.device}" if allocation.device else "device"
    if allocation.space is Space.MANAGED:
        return "managed"
    return "registered" if allocation.origin is Origin.REGISTERED else "pinned"


def _end_text(allocation: Allocation) -> str:
    if allocation.freed is None:
        return ""
    word = "unregistered" if allocation.origin is Origin.REGISTERED else "freed"
    return f", {word}" if allocation.freed is True else f", {word} at {allocation.freed}"


def size_text(nbytes: int) -> str:
    """Write a number of bytes as people do: 512 B, 1.5 KiB, 4.0 MiB."""
    if nbytes.bit_length() > 64:
        return f"a number of bytes that has {nbytes.bit_length():,} bits"
    if nbytes < 1024:
        return f"{nbytes} B"
    size = float(nbytes)
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TiB"
