"""Managed memory: one address for the host and all devices, whose pages move to where they are used.

A page that is not where it is used moves there first, and its user waits. A kernel, a copy or a fill takes longer, and
so does the line of the host that touches an array of `numpy()`. That is implicit synchronisation, which no call shows.
A prefetch moves pages ahead of their use, and advice says where they should stay.

Only CUDA's rules have managed memory, and only profiles that know what its pages cost.
"""

from enum import IntEnum
from itertools import chain
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy.typing as npt

from acl_py.callers import current_caller
from acl_py.calls.acts import Plain, Queued
from acl_py.calls.table import FAULTS, verb
from acl_py.errors import Kind
from acl_py.host_arrays.views import Views
from acl_py.ranges import Ranges
from acl_py.runtime.calls import begin
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import Barred, opened, scope_var
from acl_py.sites import Site
from acl_py.verbs import transfers
from acl_py.verbs.arguments import profiles_with
from acl_py.verbs.arrays import Array
from acl_py.verbs.memory import Memory, begin_life
from acl_py.verbs.streams import StreamLike, resolve
from device_model.completions import Completion
from device_model.integers import Integer, integer
from device_model.memory import HOST, NONE, NOWHERE, Allocation, Buffer, Pages, Space
from device_model.memory import Advice as Advice
from device_model.names import check_name
from device_model.ops import Op
from device_model.rules import HostCall, ManagedMemory
from device_model.streams import Stream
from device_model.work import HostFunction, Prefetch

if TYPE_CHECKING:
    from device_model.profile import Managed

K = TypeVar("K", bound=IntEnum)

CPU_DEVICE_ID = HOST  # the host, as a location (cudaCpuDeviceId)
INVALID_DEVICE_ID = NOWHERE  # no location, or not the same for all pages (cudaInvalidDeviceId)

_TABLES_CHANGE = (Advice.SET_READ_MOSTLY, Advice.SET_PREFERRED_LOCATION, Advice.UNSET_PREFERRED_LOCATION)
_HAS_LOCATION = (Advice.SET_PREFERRED_LOCATION, Advice.SET_ACCESSED_BY, Advice.UNSET_ACCESSED_BY)


class MemAttach(IntEnum):
    """Who may use managed memory, with the values of cudaMemAttachGlobal and its relatives."""

    GLOBAL = 1  # all streams
    HOST = 2  # the host alone
    SINGLE = 4  # one stream


class RangeAttribute(IntEnum):
    """What MemRangeGetAttribute tells, with the values of cudaMemRangeAttribute."""

    READ_MOSTLY = 1
    PREFERRED_LOCATION = 2
    ACCESSED_BY = 3
    LAST_PREFETCH_LOCATION = 4


class MemoryType(IntEnum):
    """Kinds of memory, with the values of cudaMemoryType."""

    UNREGISTERED = 0
    HOST = 1
    DEVICE = 2
    MANAGED = 3


class PointerAttributes(NamedTuple):
    """What memory is: its *type*, and the *device* that it was allocated on (-1: none)."""

    type: MemoryType
    device: int


_TYPES = {
    Space.PAGEABLE: MemoryType.UNREGISTERED,
    Space.PINNED: MemoryType.HOST,
    Space.DEVICE: MemoryType.DEVICE,
    Space.MANAGED: MemoryType.MANAGED,
}


@verb(cuda="cudaMallocManaged", does=HostCall.ALLOCATES, step="malloc_managed")
async def MallocManaged(nbytes: Integer, *, name: str | None = None) -> Buffer:
    """Allocate *nbytes* of managed memory, which the host and all devices can use.

    Stands for cudaMallocManaged. The host uses it through `buffer.numpy()`, which knows its pages; what C code or a
    bare address touches is not seen. It takes no room of a device until pages move there.

    Args:
        nbytes: The size in bytes, 1 or more.
        name: What messages, charts and traces call it instead of its number: 1 to 200 printable characters.

    Waits:
        cuda, cuda_per_thread: For nothing (measured: managed-alloc-busy).
        acl: For nothing: the call is refused.

    Returns:
        The buffer; Free() frees it.

    Raises:
        AclError: NOT_SUPPORTED under ACL's rules, and on a device whose profile has no managed memory; OUT_OF_MEMORY if
            this host has no room; INVALID_VALUE for 0 bytes or less.
        TypeError: *nbytes* is not an int, or *name* is not a str.
        ValueError: *name* is empty, too long or not printable.

    Example:
        buffer = await MallocManaged(1 << 20)
        buffer.numpy()[:] = 1                                   # pages are on the host
        await MemPrefetchAsync(buffer, 1 << 20, 0, stream)      # they move before the kernel wants them
        await double[8, stream](buffer)
    """
    scope, runtime, site, _ = call = begin()
    check_name(name)
    buffer = make_managed(runtime, scope.context.device.ordinal, nbytes, site)
    return begin_life(call, MallocManaged.__name__, buffer, name, _costs(runtime).malloc)


@verb(cuda="cudaMemPrefetchAsync", step="prefetch")
async def MemPrefetchAsync(buffer: Memory, nbytes: Integer, location: Integer, stream: StreamLike = None) -> Completion:
    """Move the pages of the first *nbytes* of *buffer* to *location*, in *stream*.

    Stands for cudaMemPrefetchAsync. Pages that are there stay. Pages that the host gets are not yet in its page table,
    so its first use of them still takes some time.

    Args:
        buffer: Managed memory, or a part of it.
        nbytes: How many bytes, 1 or more; whole pages move.
        location: The number of a device, or CPU_DEVICE_ID for the host.
        stream: The stream; None is the default one, LEGACY_STREAM and PER_THREAD_STREAM name CUDA's.

    Waits:
        cuda, cuda_per_thread: To a device: for nothing. If *stream* is idle, the call itself begins the prefetch,
            which takes 40 ns a page; otherwise a thread of the driver does (measured: managed-prefetch-device,
            managed-prefetch-busy). To the host: if *stream* is idle, until the pages are there (measured:
            managed-prefetch-host).
        acl: For nothing: the call is refused.

    Returns:
        The completion of the prefetch.

    Raises:
        AclError: INVALID_VALUE if the memory is not managed, or has fewer bytes, or for 0 bytes or less;
            INVALID_DEVICE if there is no such device; INVALID_ADDRESS or NULL_POINTER if *buffer* is not memory, or was
            freed; NOT_SUPPORTED where there is no managed memory, or if *stream* cannot be used here; INVALID_HANDLE or
            FOREIGN_STREAM if it cannot be used here.
        DeadlockError: The stream can never make room.
        TypeError: *nbytes* or *location* is not an int, or *stream* is not a stream.
    """
    scope, runtime, site, enter = begin()
    costs = _costs(runtime)
    stream = resolve(scope, stream, MemPrefetchAsync.__name__)
    allocation, pages, start, stop = _range_of(runtime, buffer, nbytes, MemPrefetchAsync.__name__)
    location = _location(runtime, location)
    prefetch = Prefetch(allocation, start, stop, location)
    op = await _prefetch(runtime, costs, stream, prefetch, pages, site)
    runtime.called(MemPrefetchAsync.__name__, enter, site, Queued(prefetch, stream))
    return op


@verb(cuda="cudaMemAdvise", step="advise")
async def MemAdvise(buffer: Memory, nbytes: Integer, advice: int, location: Integer = HOST) -> None:
    """Say how the first *nbytes* of *buffer* will be used.

    Stands for cudaMemAdvise. READ_MOSTLY: a read copies pages, and a write gives the other copies up.
    PREFERRED_LOCATION: pages that are there stay, and others reach them over the bus. ACCESSED_BY: a device reaches
    pages of the host over the bus, without faults.

    Args:
        buffer: Managed memory, or a part of it.
        nbytes: How many bytes, 1 or more; whole pages count.
        advice: An Advice.
        location: The device, or CPU_DEVICE_ID; advice about READ_MOSTLY does not use it.

    Waits:
        cuda, cuda_per_thread: For nothing.
        acl: For nothing: the call is refused.

    Raises:
        AclError: INVALID_VALUE if *advice* is none, the memory is not managed, or has fewer bytes, or for 0 bytes or
            less; INVALID_DEVICE if there is no such device; INVALID_ADDRESS or NULL_POINTER if *buffer* is not memory,
            or was freed; NOT_SUPPORTED where there is no managed memory.
        TypeError: *nbytes* or *location* is not an int.
    """
    _, runtime, site, enter = begin()
    costs = _costs(runtime)
    allocation, pages, start, stop = _range_of(runtime, buffer, nbytes, MemAdvise.__name__)
    known = _member(runtime, Advice, advice, "an Advice")
    location = _location(runtime, location) if known in _HAS_LOCATION else HOST
    cost = costs.advise
    if known in _TABLES_CHANGE:
        cost += pages.blocks(start, stop) * costs.advise_block
    elif known is Advice.SET_ACCESSED_BY:
        cost += pages.missing(start, stop, location) * costs.advise_map
    runtime.pay(cost)
    pages.advise(start, stop, known, location)
    runtime.called(MemAdvise.__name__, enter, site, Plain((allocation, start, stop - start, int(known), location)))


@verb(cuda="cudaStreamAttachMemAsync", step="attach")
async def StreamAttachMemAsync(
    stream: StreamLike, buffer: Memory, nbytes: Integer = 0, flags: int = MemAttach.SINGLE
) -> Completion:
    """Say who uses managed memory, behind the work of *stream*.

    Stands for cudaStreamAttachMemAsync. On a card on which host and kernels may use managed memory at the same time,
    as on the measured one, it changes no access.

    Args:
        stream: The stream; None is the default one, LEGACY_STREAM and PER_THREAD_STREAM name CUDA's.
        buffer: A whole managed allocation.
        nbytes: 0, or the size of the allocation.
        flags: A MemAttach.

    Waits:
        cuda, cuda_per_thread: For nothing (measured: managed-attach-busy). Behind work, a thread of the driver does it.
        acl: For nothing: the call is refused.

    Returns:
        The completion of the attachment.

    Raises:
        AclError: INVALID_VALUE if *flags* is no MemAttach, the memory is not managed, or it is not all of it;
            INVALID_ADDRESS or NULL_POINTER if *buffer* is not memory, or was freed; NOT_SUPPORTED where there is no
            managed memory, or if *stream* cannot be used here; INVALID_HANDLE or FOREIGN_STREAM if it cannot be used
            here.
        TypeError: *nbytes* is not an int, or *stream* is not a stream.
    """
    scope, runtime, site, enter = begin()
    costs = _costs(runtime)
    stream = resolve(scope, stream, StreamAttachMemAsync.__name__)
    _member(runtime, MemAttach, flags, "a MemAttach")
    nbytes = integer("nbytes", nbytes)
    allocation, pages, start, stop = _range_of(runtime, buffer, nbytes or 1, StreamAttachMemAsync.__name__)
    if start or nbytes not in (0, allocation.nbytes):
        what = f"StreamAttachMemAsync() of {stop - start} bytes at {start} of {allocation!r}"
        raise runtime.refuse(Kind.INVALID_VALUE, what, "attach whole allocations")
    runtime.pay(costs.attach)
    done = pages.attach(stream, int(flags))
    if runtime.moves_pages and not stream.turn().done:
        done = _by_driver(runtime, costs, stream, driver_attaches, site)
    runtime.called(StreamAttachMemAsync.__name__, enter, site, Plain((allocation, stream, int(flags))))
    return done


@verb(acl="aclrtPointerGetAttributes", cuda="cudaPointerGetAttributes")
async def PointerGetAttributes(memory: Memory) -> PointerAttributes:
    """Return what *memory* is.

    Stands for cudaPointerGetAttributes and aclrtPointerGetAttributes, whose numbers for the types differ.

    Args:
        memory: A buffer, an Array, an address, or an array or buffer of the host.

    Waits:
        all rules: For nothing.

    Returns:
        The type, and the device.

    Raises:
        AclError: INVALID_ADDRESS or NULL_POINTER if it is not memory, or was freed.
    """
    _, runtime, site, enter = begin()
    allocation, _ = runtime.memory.locate(_plain(memory), 0, "memory")
    runtime.brief_call(PointerGetAttributes.__name__, enter, site)
    return PointerAttributes(_TYPES[allocation.space], allocation.device)


@verb(cuda="cudaMemRangeGetAttribute")
async def MemRangeGetAttribute(buffer: Memory, nbytes: Integer, attribute: int) -> int | tuple[int, ...]:
    """Return what was advised about the first *nbytes* of *buffer*, or where they were prefetched to last.

    Stands for cudaMemRangeGetAttribute.

    Args:
        buffer: Managed memory, or a part of it.
        nbytes: How many bytes, 1 or more.
        attribute: A RangeAttribute.

    Waits:
        cuda, cuda_per_thread: For nothing.
        acl: For nothing: the call is refused.

    Returns:
        READ_MOSTLY: 1 if that was said of all pages, else 0. ACCESSED_BY: the devices that it was said of for all
        pages. The others: a device, CPU_DEVICE_ID, or INVALID_DEVICE_ID if there is none or pages differ.

    Raises:
        AclError: INVALID_VALUE if *attribute* is none, the memory is not managed, or has fewer bytes, or for 0 bytes or
            less; INVALID_ADDRESS or NULL_POINTER if *buffer* is not memory, or was freed; NOT_SUPPORTED where there is
            no managed memory.
        TypeError: *nbytes* is not an int.
    """
    _, runtime, site, enter = begin()
    costs = _costs(runtime)
    _, pages, start, stop = _range_of(runtime, buffer, nbytes, MemRangeGetAttribute.__name__)
    known = _member(runtime, RangeAttribute, attribute, "a RangeAttribute")
    runtime.pay(costs.range_attribute)
    runtime.called(MemRangeGetAttribute.__name__, enter, site)
    if known is RangeAttribute.READ_MOSTLY:
        return int(pages.is_read_mostly(start, stop))
    if known is RangeAttribute.ACCESSED_BY:
        return pages.devices_with_access(start, stop)
    if known is RangeAttribute.PREFERRED_LOCATION:
        return pages.preferred_location(start, stop)
    return pages.last_prefetch(start, stop)


# --- the host


class HostPages:
    """Moves the managed pages that the host touches through views, and lets the host wait for them."""

    def __init__(self) -> None:
        self._runtime: Runtime | None = None
        self._views: Views | None = None

    def begin(self, runtime: Runtime) -> None:
        """Give out views of the managed memory of *runtime*, until it is closed. A second call does nothing."""
        if self._views is None:
            self._runtime = runtime
            self._views = Views(self._accessed, self._exported)
            runtime.memory.watch_managed = self._watch
            runtime.at_close.append(self._views.close)

    def use(self, allocation: Allocation, ranges: Ranges, site: Site, *, writes: bool) -> None:
        """Let the host use the bytes *ranges* of *allocation*: pages that it lacks move, and it is busy meanwhile."""
        runtime, pages = self._runtime, allocation.pages
        assert runtime is not None, "there is managed memory before the first MallocManaged()"
        assert pages is not None, f"{allocation!r} is not managed"
        costs = _costs(runtime)
        moves = NONE
        for start, stop in ranges:
            moves = moves.beside(pages.use_on_host(start, stop, writes=writes))
        enter, time = runtime.host_ns, costs.host_ns(moves)
        if _is_beside_the_program(runtime):
            time = 0
        elif time:
            runtime.pay(time)
            runtime.called(FAULTS, enter, site, Plain((allocation, int(writes), *chain.from_iterable(ranges))))
        if runtime.hooks.pages_moved is not None:
            runtime.hooks.pages_moved(None, moves, enter, enter + time, site)

    def _watch(self, allocation: Allocation, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        assert self._runtime is not None, "views before the first MallocManaged()"
        assert self._views is not None, "views before the first MallocManaged()"
        if self._runtime.memory.watch_view is not None:
            self._runtime.memory.watch_view(allocation, array)  # the sanitizer learns of the view
        return self._views.watch(allocation, array)

    def _accessed(self, allocation: Allocation, ranges: Ranges, writes: bool, site: Site) -> None:
        assert self._runtime is not None, "an access before the first MallocManaged()"
        if allocation.freed is None:
            self.use(allocation, ranges, site, writes=writes)
        sanitizer = self._runtime.sanitizer
        if sanitizer is not None and sanitizer.views is not None:
            sanitizer.host_access(allocation, ranges, writes, site)

    def _exported(self, allocation: Allocation, ranges: Ranges, site: Site) -> None:
        """The program got at the memory itself, and may write all of it from now on."""
        assert self._runtime is not None, "an access before the first MallocManaged()"
        if allocation.freed is None:
            self.use(allocation, ranges, site, writes=True)
        sanitizer = self._runtime.sanitizer
        if sanitizer is not None and sanitizer.views is not None:
            sanitizer.host_exported(allocation, ranges, site)


def _is_beside_the_program(runtime: Runtime) -> bool:
    """Whether a kernel or a host function runs, which takes the time that it declares, or a thread without a clock."""
    scope = scope_var.get()
    if scope is None:  # a task of a notebook is in the simulation of open(), a thread is in none
        is_outside = not any(each.runtime is runtime for each in opened) or isinstance(current_caller(), Thread)
    else:
        is_outside = isinstance(scope.context, Barred)
    return is_outside or any(each.calling for each in runtime.devices)


def make_managed(runtime: Runtime, device: int, nbytes: Integer, site: Site | None) -> Buffer:
    """Allocate managed memory, in no time; raise as MallocManaged() does."""
    _costs(runtime)
    if runtime.moves_pages:
        runtime.state(HostPages).begin(runtime)
    return runtime.memory.malloc_managed(device, nbytes, site)


# --- the driver


def driver_begins_prefetch() -> None:
    """Do nothing: the pages move in the operation behind."""


def driver_attaches() -> None:
    """Do nothing: on a card with concurrent access an attachment changes no access."""


def _by_driver(runtime: Runtime, costs: "Managed", stream: Stream, function: Any, site: Site) -> Op:
    """Queue *function* for the driver's thread, which the card's host functions run on, too."""
    work = HostFunction(function, (), costs.driver_thread)
    op = Op(work, work.label.lane, 0, site)
    runtime.submit(stream, op, 0, 0)
    return op


async def _prefetch(runtime: Runtime, costs: "Managed", stream: Stream, work: Prefetch, pages: Pages, site: Site) -> Op:
    """Queue *work*; in an idle stream the host itself takes part in it."""
    op = Op(work, work.label.lane, work.nbytes, site)
    await transfers.room(runtime, stream, op, site)
    runtime.pay(costs.prefetch)
    work.by_driver = runtime.moves_pages and not stream.turn().done
    if work.by_driver:
        _by_driver(runtime, costs, stream, driver_begins_prefetch, site)
    missing = pages.missing(work.start, work.stop, work.location)
    runtime.submit(stream, op, 0, runtime.copy_latency)
    if work.by_driver or not missing:
        return op
    if work.location == HOST:
        if not op.done:
            what = f"a prefetch to the host in {stream.name}"
            await runtime.wait(op, what, site, (op,), promised=False, sleeps=False)
    else:
        runtime.pay(missing * costs.prefetch_page)
    return op


# --- checks


def _costs(runtime: Runtime) -> "Managed":
    """Return what managed memory costs; raise if the rules or the device have none."""
    if runtime.rules.managed_memory is ManagedMemory.NONE:
        raise runtime.error(
            Kind.NOT_SUPPORTED,
            f"managed memory under rules {runtime.rules.name}, which have none",
            "use Malloc() and MallocHost(), and copy between them",
        )
    costs = runtime.profile.managed
    if costs is None:
        raise runtime.error(
            Kind.NOT_SUPPORTED,
            f"managed memory on {runtime.profile.name}, whose profile does not know what its pages cost",
            f"use Malloc() and copies, or a profile that has it: {profiles_with('managed')}",
        )
    return costs


def _plain(memory: Memory) -> object:
    return memory.buffer if isinstance(memory, Array) else memory


def _range_of(runtime: Runtime, memory: Memory, nbytes: Integer, verb: str) -> tuple[Allocation, Pages, int, int]:
    """Return the managed allocation that holds the first *nbytes* of *memory*, its pages, and the range."""
    nbytes = integer("nbytes", nbytes)
    if nbytes <= 0:
        raise runtime.refuse(Kind.INVALID_VALUE, f"{verb}() of {nbytes} bytes", "give a range of 1 byte or more")
    allocation, offset = runtime.memory.locate(_plain(memory), nbytes, f"the memory of {verb}()")
    if allocation.pages is None:
        whole = Buffer(allocation, 0, allocation.nbytes)
        what = f"{verb}() of {whole!r}, which is not managed"
        raise runtime.refuse(Kind.INVALID_VALUE, what, "pass memory of MallocManaged()")
    return allocation, allocation.pages, offset, offset + nbytes


def _location(runtime: Runtime, location: Integer) -> int:
    """Return *location* as an int: the host, or a device that there is."""
    location = integer("location", location)
    return location if location == HOST else runtime.device(location).ordinal


def _member(runtime: Runtime, kinds: type[K], value: int, what: str) -> K:
    """Return the member of *kinds* that *value* is."""
    if value not in tuple(kinds):
        names = ", ".join(member.name for member in kinds)
        raise runtime.refuse(Kind.INVALID_VALUE, f"{value!r} is not {what}", f"use one of {names}")
    return kinds(value)
