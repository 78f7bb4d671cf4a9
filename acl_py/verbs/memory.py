"""Memory of the device and the host. Stream-ordered memory is in pools.py.

Where a verb takes memory it takes a buffer, a part of one, an address, a NumPy array or anything with the buffer
protocol; what is not pinned is pageable. Free(None) and FreeHost(None) do nothing, as in CUDA; elsewhere None is no
memory.
"""

from asyncio import CancelledError
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, SupportsIndex, TypeAlias

import numpy.typing as npt

from acl_py.calls.acts import Began, Ended
from acl_py.calls.table import verb
from acl_py.runtime.calls import Call, begin
from acl_py.runtime.pools import trim_pool
from acl_py.runtime.runtime import Runtime
from acl_py.verbs.arrays import Array
from device_model.completions import NOTHING, AllOf, Completion, Nanoseconds, Then
from device_model.device import Device
from device_model.integers import Integer
from device_model.memory import Allocation, Origin, Pool
from device_model.memory import Buffer as Buffer
from device_model.names import check_name
from device_model.rules import HostCall, Release


class HasBytes(Protocol):
    """An object with the buffer protocol: bytes, a bytearray, a memoryview, an array.array, an mmap."""

    def __buffer__(self, flags: int, /) -> memoryview:
        """Return a view of its bytes."""


# What a verb takes for memory. SupportsIndex is an address: an int, or what NumPy or ctypes have instead of one.
# NumPy's arrays are named because their types have no __buffer__ before Python 3.12.
Memory: TypeAlias = Buffer | Array | SupportsIndex | HasBytes | npt.NDArray[Any]

_MIB = 1 << 20


@verb(acl="aclrtMalloc", cuda="cudaMalloc", does=HostCall.ALLOCATES, step="malloc")
async def Malloc(
    nbytes: Integer,
    policy: int = 0,  # noqa: ARG001 - aclrt's huge-page policy: no difference here
    *,
    name: str | None = None,
) -> Buffer:
    """Allocate *nbytes* on the current device.

    Stands for aclrtMalloc and cudaMalloc. Memory that was never written reads as poison.

    Args:
        nbytes: The size in bytes, 1 or more.
        policy: aclrt's policy for huge pages; it makes no difference here.
        name: What messages, charts and traces call it instead of its number: 1 to 200 printable characters.

    Waits:
        all rules: For nothing (measured: malloc-busy-64m).

    Returns:
        The buffer.

    Raises:
        AclError: OUT_OF_MEMORY if the device, or the host that simulates it, has no room; INVALID_VALUE for 0 bytes or
            less.
        TypeError: *nbytes* is not an int, or *name* is not a str.
        ValueError: *name* is empty, too long or not printable.
    """
    scope, runtime, site, _ = call = begin()
    check_name(name)
    ordinal = scope.context.device.ordinal
    nbytes = runtime.memory.check_size(nbytes, Origin.MALLOC)
    if not runtime.memory.has_room(ordinal, nbytes):
        trim_pool(runtime, runtime.memory.pool(ordinal), 0)
    buffer = runtime.memory.malloc(ordinal, nbytes, site)
    return begin_life(call, Malloc.__name__, buffer, name, runtime.costs.malloc[nbytes])


@verb(acl="aclrtFree", cuda="cudaFree", does=HostCall.FREES, step="free")
async def Free(buffer: Memory | None) -> None:
    """Free memory of Malloc(), MallocAsync() or MallocManaged(); None is accepted, and nothing is freed.

    Stands for aclrtFree and cudaFree. Memory of MallocAsync() goes back to its pool. The pool may keep it, or give
    it back to the device. No queued work may still use this memory (measured: free-of-async). A Free that is cancelled
    while it waits frees all the same, once the device is idle.

    Args:
        buffer: The buffer, or its address.

    Waits:
        cuda, cuda_per_thread: Until the device of the buffer is idle, non-blocking streams included (measured:
            free-busy, free-busy-nonblocking, free-small-busy); for managed memory until all devices are (measured:
            managed-alloc-busy); for memory of MallocAsync() for nothing. The documentation promises no wait: do not
            build on it.
        acl: For nothing: work that still uses the memory fails.

    Raises:
        AclError: INVALID_ADDRESS if *buffer* is not the whole of such memory, or was freed already; INVALID_VALUE if it
            is no memory; the kind of the failure if the context has failed when the wait is over.
        DeadlockError: The work of the device can never complete.
    """
    _, runtime, site, enter = call = begin()
    if buffer is None:
        runtime.pay(runtime.costs.free[0])
        runtime.called(Free.__name__, enter, site)
        return
    allocation = runtime.memory.root(buffer, Free.__name__, Origin.MALLOC, Origin.POOL, Origin.MANAGED)
    if allocation.origin is Origin.POOL:
        give_back = partial(_give_back, runtime, runtime.memory.pool_of(allocation))
        await _end(call, Free.__name__, allocation, (), runtime.costs.free[0], give_back)
    else:
        devices = runtime.devices if allocation.pages is not None else (runtime.device(allocation.device),)
        cost = runtime.costs.free[allocation.nbytes]
        await _end(call, Free.__name__, allocation, devices, cost, runtime.memory.free)


@verb(acl="aclrtFreeWithDevSync", does=HostCall.FREES, step="free")
async def FreeWithDevSync(buffer: Memory) -> None:
    """Wait until the device is idle and free *buffer*, which Malloc() returned.

    Stands for aclrtFreeWithDevSync; cudaFree does the same on the measured card.

    Args:
        buffer: The buffer, or its address.

    Waits:
        all rules: Until the device of the buffer is idle.

    Raises:
        AclError: INVALID_ADDRESS if *buffer* is not the whole of such memory, or was freed already; INVALID_VALUE if it
            is no memory; the kind of the failure if the context has failed when the wait is over.
        DeadlockError: The work of the device can never complete.
    """
    _, runtime, _, _ = call = begin()
    allocation = runtime.memory.root(buffer, FreeWithDevSync.__name__, Origin.MALLOC)
    devices = [runtime.device(allocation.device)]
    cost = runtime.costs.free[allocation.nbytes]
    await _end(call, FreeWithDevSync.__name__, allocation, devices, cost, runtime.memory.free, waits=True)


@verb(acl="aclrtMallocHost", cuda="cudaMallocHost", does=HostCall.ALLOCATES, step="malloc_host")
async def MallocHost(nbytes: Integer, *, name: str | None = None) -> Buffer:
    """Allocate *nbytes* of pinned host memory.

    Stands for aclrtMallocHost and cudaMallocHost. `buffer.numpy()` gives a writable view of it. The call takes 0.4 ms
    per MB on the measured card (malloc-host-busy). On a board without a host it is memory of the device.

    Args:
        nbytes: The size in bytes, 1 or more.
        name: What messages, charts and traces call it instead of its number: 1 to 200 printable characters.

    Waits:
        all rules: For nothing (measured: malloc-host-busy).

    Returns:
        The buffer.

    Raises:
        AclError: OUT_OF_MEMORY if this host has no room; INVALID_VALUE for 0 bytes or less.
        TypeError: *nbytes* is not an int, or *name* is not a str.
        ValueError: *name* is empty, too long or not printable.
    """
    _, runtime, site, _ = call = begin()
    check_name(name)
    buffer = runtime.memory.malloc_host(nbytes, site)
    return begin_life(call, MallocHost.__name__, buffer, name, _by_size(runtime.costs.malloc_host, buffer.nbytes))


@verb(acl="aclrtFreeHost", cuda="cudaFreeHost", does=HostCall.FREES, step="free_host")
async def FreeHost(buffer: Memory | None) -> None:
    """Free pinned memory of MallocHost(); None is accepted, and nothing is freed.

    Stands for aclrtFreeHost and cudaFreeHost. A call that is cancelled while it waits frees all the same, once the
    devices are idle.

    Args:
        buffer: The buffer, its address, or a NumPy view of all of it.

    Waits:
        cuda, cuda_per_thread: Until all devices are idle (measured: free-host-busy). The documentation promises no
            wait: do not build on it.
        acl: For nothing: work that still uses the memory fails.

    Raises:
        AclError: INVALID_ADDRESS if *buffer* is not the whole of such memory, or was freed already; INVALID_VALUE if it
            is no memory; the kind of the failure if the context has failed when the wait is over.
        DeadlockError: The work of a device can never complete.
    """
    _, runtime, site, enter = call = begin()
    if buffer is None:
        runtime.pay(_by_size(runtime.costs.free_host, 0))
        runtime.called(FreeHost.__name__, enter, site)
        return
    allocation = runtime.memory.root(buffer, FreeHost.__name__, Origin.MALLOC_HOST)
    cost = _by_size(runtime.costs.free_host, allocation.nbytes)
    await _end(call, FreeHost.__name__, allocation, runtime.devices, cost, runtime.memory.free_host)


@verb(acl="aclrtFreeHostWithDevSync", does=HostCall.FREES, step="free_host")
async def FreeHostWithDevSync(buffer: Memory) -> None:
    """Wait until all devices are idle and free *buffer*, which MallocHost() returned.

    Stands for aclrtFreeHostWithDevSync; cudaFreeHost does the same on the measured card.

    Args:
        buffer: The buffer, its address, or a NumPy view of all of it.

    Waits:
        all rules: Until all devices are idle.

    Raises:
        AclError: INVALID_ADDRESS if *buffer* is not the whole of such memory, or was freed already; INVALID_VALUE if it
            is no memory; the kind of the failure if the context has failed when the wait is over.
        DeadlockError: The work of a device can never complete.
    """
    _, runtime, _, _ = call = begin()
    allocation = runtime.memory.root(buffer, FreeHostWithDevSync.__name__, Origin.MALLOC_HOST)
    cost = _by_size(runtime.costs.free_host, allocation.nbytes)
    verb = runtime.memory.free_host
    await _end(call, FreeHostWithDevSync.__name__, allocation, runtime.devices, cost, verb, waits=True)


@verb(acl="aclrtHostRegister", cuda="cudaHostRegister", does=HostCall.ALLOCATES, step="host_register")
async def HostRegister(memory: Memory, nbytes: Integer | None = None, *, name: str | None = None) -> Buffer:
    """Pin *memory* that the host has, so that copies from and to it work like those of MallocHost().

    Stands for aclrtHostRegister and cudaHostRegister. An array stays alive until HostUnregister(); memory at a bare
    address must be kept mapped by the caller.

    Args:
        memory: A writable, contiguous array or buffer, or an address of the host.
        nbytes: How many bytes of it, by default all; an address needs it.
        name: What messages, charts and traces call it instead of its number: 1 to 200 printable characters.

    Waits:
        all rules: For nothing (measured: host-register-busy).

    Returns:
        A buffer over the memory.

    Raises:
        AclError: ALREADY_REGISTERED if a part of it is pinned; INVALID_VALUE if it is no writable contiguous memory of
            this size; INVALID_ADDRESS if it is on a device or no longer alive.
        TypeError: *name* is not a str.
        ValueError: *name* is empty, too long or not printable.

    Example:
        data = np.zeros(1 << 20, np.uint8)
        await HostRegister(data)
        await MemcpyAsync(buffer, buffer.nbytes, data, 4096, MemcpyKind.DEFAULT, stream)  # does not wait now
        await SynchronizeStream(stream)
        await HostUnregister(data)
    """
    _, runtime, site, _ = call = begin()
    check_name(name)
    buffer = runtime.memory.host_register(memory, nbytes, site)
    return begin_life(call, HostRegister.__name__, buffer, name, _by_size(runtime.costs.register, buffer.nbytes))


@verb(acl="aclrtHostUnregister", cuda="cudaHostUnregister", does=HostCall.FREES, step="host_unregister")
async def HostUnregister(memory: Memory) -> None:
    """End HostRegister(); the memory is ordinary, pageable memory again.

    Stands for aclrtHostUnregister and cudaHostUnregister. A call that is cancelled while it waits ends the pinning all
    the same, once the devices are idle.

    Args:
        memory: The memory that was registered, the buffer that HostRegister() returned, or its address.

    Waits:
        cuda, cuda_per_thread: Until all devices are idle (measured: host-register-busy).
        acl: For nothing.

    Raises:
        AclError: NOT_REGISTERED if it is not registered; INVALID_ADDRESS if it is a part of registered memory (as CUDA
            answers); INVALID_VALUE if it is no memory; the kind of the failure if the context has failed when the wait
            is over.
        DeadlockError: The work of a device can never complete.
    """
    _, runtime, _, _ = call = begin()
    allocation = runtime.memory.root(memory, HostUnregister.__name__, Origin.REGISTERED)
    cost = _by_size(runtime.costs.unregister, allocation.nbytes)
    await _end(call, HostUnregister.__name__, allocation, runtime.devices, cost, runtime.memory.host_unregister)


@verb(acl="aclrtGetMemInfo", cuda="cudaMemGetInfo")
async def GetMemInfo(attribute: int = 0) -> tuple[int, int]:  # noqa: ARG001 - aclrt's kind of memory: there is one
    """Return the free and the total bytes of the current device.

    Stands for aclrtGetMemInfo and cudaMemGetInfo.

    Args:
        attribute: aclrt's kind of memory; there is only one kind here.

    Waits:
        all rules: For nothing (measured: mem-get-info-busy).

    Returns:
        Free bytes, and total bytes.
    """
    scope, runtime, site, enter = begin()
    ordinal = scope.context.device.ordinal
    runtime.pay(runtime.costs.memory_info)
    runtime.called(GetMemInfo.__name__, enter, site)
    return runtime.memory.free_bytes(ordinal), runtime.memory.total_bytes(ordinal)


# --- helpers


def begin_life(call: Call, name: str, buffer: Buffer, given_name: str | None, cost: Nanoseconds) -> Buffer:
    """Return *buffer*, whose life begins with a *call* of *name* that takes *cost*; the program may have named it."""
    _, runtime, site, enter = call
    buffer.allocation.given_name = given_name
    runtime.pay(cost)
    tell_allocated(runtime, buffer.allocation)
    runtime.called(name, enter, site, Began(buffer.allocation))
    return buffer


async def _end(
    call: Call,
    name: str,
    allocation: Allocation,
    devices: Sequence[Device],
    cost: Nanoseconds,
    verb: Callable[[object, object], None],
    *,
    waits: bool = False,
) -> None:
    """End the life of *allocation* with *verb*: when *devices* are idle if the rules, or *waits*, ask for that.

    A call that is cancelled while it waits leaves this to the devices.
    """
    scope, runtime, site, enter = call
    buffer = Buffer(allocation, 0, allocation.nbytes)

    def end() -> None:
        runtime.workers.flush(allocation)
        verb(buffer, site)
        tell_freed(runtime, allocation)

    def end_once() -> None:
        """Do what the cancelled call was to do, unless another call has done it meanwhile."""
        if allocation.freed is None:
            end()

    promised, waits = waits, waits or runtime.rules.release is Release.WAITS_FOR_DEVICE
    completion = AllOf([device.work() for device in devices] if waits else ())
    try:
        if waits:
            sleeps = not completion.done
            await runtime.wait(completion, f"{name}({buffer!r})", site, devices, promised=promised, sleeps=sleeps)
            if sleeps:
                runtime.memory.root(buffer, name, allocation.origin)  # refuses it if another call has ended it
                runtime.check_context(scope.context)
        runtime.pay(cost)
        end()
    except CancelledError:
        if completion.done:
            end_once()
        else:
            completion.add_waiter(Then(lambda _: end_once()))
        runtime.called(name, enter, site, Ended(allocation))
        raise
    except GeneratorExit:
        raise
    except BaseException:
        runtime.called(name, enter, site, Ended(allocation))
        raise
    runtime.called(name, enter, site, Ended(allocation))


def _give_back(runtime: Runtime, pool: Pool, buffer: object, site: object) -> None:
    runtime.memory.free(buffer, site)
    trim_pool(runtime, pool)


def _by_size(per_mib: int, nbytes: int) -> int:
    return max(per_mib // 100, per_mib * nbytes // _MIB)


def tell_allocated(runtime: Runtime, allocation: Allocation, since: Completion = NOTHING) -> None:
    """Tell the observers that *allocation* was made, and is in use when *since* is done."""
    if runtime.hooks.allocated is not None:
        runtime.hooks.allocated(allocation, since)


def tell_freed(runtime: Runtime, allocation: Allocation, until: Completion = NOTHING) -> None:
    """Tell the observers that *allocation* was freed, and is in use until *until* is done."""
    if runtime.hooks.freed is not None:
        runtime.hooks.freed(allocation, until)
