"""Copies: the verbs, and what they check.

What a copy does follows from the places of both ends; `kind` must agree. A copy of no bytes is checked and pays for a
short call, but is no work: nothing is queued, and no host or other work waits for it.
"""

from collections.abc import Coroutine
from sys import _getframe
from typing import Any

from acl_py.calls.acts import Completed, Queued
from acl_py.calls.table import verb
from acl_py.errors import Kind
from acl_py.runtime.calls import begin
from acl_py.runtime.folds import refuse_shared
from acl_py.runtime.routes import KINDS, direction
from acl_py.runtime.routes import MemcpyKind as MemcpyKind
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import Scope, current_scope, present_scope
from acl_py.sites import Site, site_of
from acl_py.verbs import transfers
from acl_py.verbs.arrays import Array
from acl_py.verbs.hot import queue_copy
from acl_py.verbs.memory import Memory
from acl_py.verbs.streams import StreamLike, resolve
from device_model import memory as model
from device_model.compiled import IS_COMPILED
from device_model.completions import NOTHING, Completion
from device_model.integers import Integer, integer
from device_model.memory import Allocation, Buffer, Space
from device_model.ops import ON_DEVICES, P2P, P2P_STAGED, Op
from device_model.rules import CopyKind, HostCall, HostToHost, PageableCopy, SyncCopy
from device_model.streams import Stream
from device_model.work import D2D, H2D, H2H, BlindCopy, Copy, Label, PagedCopy, PagedRows, PitchedCopy

_PLACES = {
    Space.DEVICE: "device",
    Space.PINNED: "pinned host",
    Space.PAGEABLE: "pageable host",
    Space.MANAGED: "managed",
}
# With these, a copy between two host addresses of which one is pageable stays one from host to host; with the others
# the runtime finds the pageable end, and copies synchronously.
_MEANS_HOST_TO_HOST = (MemcpyKind.HOST_TO_HOST, MemcpyKind.DEFAULT)


@verb(
    acl="aclrtMemcpyAsync",
    cuda="cudaMemcpyAsync",
    aliases=("MemcpyAsyncWithCondition",),
    step="memcpy_async",
)
async def MemcpyAsync(
    dst: Memory, dest_max: Integer, src: Memory, count: Integer, kind: int, stream: StreamLike = None
) -> Completion:
    """Queue a copy of *count* bytes from *src* to *dst* in *stream*.

    Stands for aclrtMemcpyAsync and cudaMemcpyAsync; also called MemcpyAsyncWithCondition, because the vendor's function
    of that name has no argument for a condition. The kinds of memory at both ends decide what the copy does. The source
    must not change before the copy is done. A copy of no bytes is checked, but is no work.

    Args:
        dst: The destination: a buffer, an Array, a part of one, an address, or for pageable memory a NumPy array or
            anything with the buffer protocol.
        dest_max: The room at *dst*, in bytes.
        src: The source, as *dst*.
        count: How many bytes to copy, at most *dest_max*.
        kind: A MemcpyKind that fits both ends, or MemcpyKind.DEFAULT. Under ACL's rules it counts only where one end is
            pageable.
        stream: The stream; None is the default one, LEGACY_STREAM and PER_THREAD_STREAM name CUDA's.

    Waits:
        all rules: Pinned memory, and inside the device: for nothing (measured: h2d-p-*, d2h-p-*, d2d-async-busy),
            except for room if the hardware queue is full. (Names such as h2d-p-* are programs in docs/semantics.md.)
        cuda, cuda_per_thread: From pageable memory: until the bytes are staged, which means that the host has copied
            them to pinned buffers of the driver. The host waits for the stream while these buffers are full. On the
            measured card they are a ring of 4 MB for copies up to 64 KB, and two chunks of 1 MB for larger copies
            (h2d-g-*). To pageable memory: until the copy is done (d2h-g-*). From host to host: for the stream, and then
            the host copies itself (h2h-*).
        acl: From or to pageable memory: until the stream has done all earlier work, and the copy. From host to host:
            the copy is refused, unless *kind* names a device and one end is pageable.

    Returns:
        The completion of the copy. It is done already if the host made the copy or waited for it.

    Raises:
        AclError: INVALID_VALUE if *count* is negative or larger than *dest_max*, or an end has less; INVALID_ADDRESS or
            NULL_POINTER if *dst* or *src* is not memory, or was freed;
            INVALID_COPY_DIRECTION if *kind* does not fit;
            NOT_SUPPORTED for a copy from host to host under ACL's rules; CAPTURE_UNSUPPORTED for one of pageable memory
            beside a capture under ACL's rules; INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be
            used here.
        DeadlockError: The stream can never come to the copy that the host waits for.
        TypeError: *count* or *dest_max* is not an int, or *stream* is not a stream.

    Example:
        await MemcpyAsync(buffer, buffer.nbytes, pinned, 4096, MemcpyKind.HOST_TO_DEVICE, stream)  # returns at once
        await LaunchKernel(double, 8, (buffer,), stream)
        await MemcpyAsync(pinned, pinned.nbytes, buffer, 4096, MemcpyKind.DEVICE_TO_HOST, stream)
        await SynchronizeStream(stream)  # now pinned.numpy() has the result
    """
    if IS_COMPILED:
        queued = queue_copy(_getframe(1), dst, dest_max, src, count, kind, stream)
        if queued is not None:
            return queued
    scope = present_scope() or current_scope()  # begin(), written out: this is the hot path
    runtime, context = scope.runtime, scope.context
    if context.alert:
        runtime.check_call(context, MemcpyAsync.__name__)
    enter = runtime.host_ns
    site = site_of(_getframe(1))
    if type(stream) is not context.stream_type or stream.home is not context:
        stream = resolve(scope, stream, MemcpyAsync.__name__, captures=True)
    if type(count) is not int or type(dest_max) is not int or not 0 <= count <= dest_max:
        count = check_count(runtime, count, dest_max)
    memory = runtime.memory
    copy: Copy | None = None
    if (
        type(dst) is Buffer
        and type(src) is Buffer
        and 0 < count <= dst.nbytes
        and count <= src.nbytes
        and (dst_allocation := dst.allocation).home is memory  # alive, and of this simulation
        and (src_allocation := src.allocation).home is memory
    ):
        copy = dst.copied
        if (
            copy is not None
            and dst.copied_kind is kind
            and copy.src is src_allocation
            and copy.src_offset == src.offset
            and copy.nbytes == count
        ):
            label = copy.label
        else:
            copy = None
            route = runtime.async_routes.get((kind, dst_allocation.space, src_allocation.space))
            # A copy between two devices takes the longer way.
            if route is not None and (route is not D2D or dst_allocation.device == src_allocation.device):
                label = route
                copy = dst.copied = Copy(label, dst_allocation, dst.offset, src_allocation, src.offset, count)
                dst.copied_kind = kind
    if copy is None:
        if not count and runtime.rules.copy_kind is CopyKind.CORRECTED:  # the addresses are not looked at
            runtime.brief_call(MemcpyAsync.__name__, enter, site)
            return NOTHING
        copy = copy_of(runtime, dst, src, count, kind)
        label = copy.label
        work = _longer_way(scope, stream, kind, copy, site)
        if work is not None:
            return await runtime.carry_out(MemcpyAsync.__name__, site, work, Queued(copy, stream))
    op = Op(copy, label.lane, count, site, enter)
    queue = stream.queues[op.lane]
    if len(queue.fifo) + queue.reserved >= queue.depth:
        await runtime.wait_for_place(op, stream, site)
    if label is D2D:
        runtime.submit(stream, op, runtime.cost_of("copy_on_device"), runtime.kernel_latency)
    else:
        cost = runtime.copy_cost if not runtime.cold else runtime.cost_of("copy")
        runtime.submit(stream, op, cost, runtime.copy_latency)
    return op


@verb(acl="aclrtMemcpy", cuda="cudaMemcpy", does=HostCall.COPIES, step="memcpy")
async def Memcpy(dst: Memory, dest_max: Integer, src: Memory, count: Integer, kind: int) -> None:
    """Copy *count* bytes from *src* to *dst*.

    Stands for aclrtMemcpy and cudaMemcpy. A copy of no bytes is checked, but is no work.

    Args:
        dst: The destination: a buffer, an Array, a part of one, an address, or for pageable memory a NumPy array or
            anything with the buffer protocol.
        dest_max: The room at *dst*, in bytes.
        src: The source, as *dst*.
        count: How many bytes to copy, at most *dest_max*.
        kind: A MemcpyKind that fits both ends, or MemcpyKind.DEFAULT. ACL's rules do not look at it.

    Waits:
        cuda, cuda_per_thread: The copy is queued in the default stream, after all work that precedes it there, and the
            host waits until it is done, with two exceptions. A copy inside the device is only queued (measured:
            sync-memcpy-d2d). One from pageable memory waits for the work before it, and returns when its bytes are
            staged (measured: sync-memcpy-h2d-pageable, sync-h2d-*); to managed memory, when it is done (measured:
            managed-memcpy-sync). Work of non-blocking streams is not waited for
            (measured: legacy-memcpy-sync-nonblocking).
        acl: Until the copy is done. It is made at once and outside all streams, so not after work that is queued in
            one.

    Raises:
        AclError: INVALID_VALUE if *count* is negative or larger than *dest_max*, or an end has less; INVALID_ADDRESS or
            NULL_POINTER if *dst* or *src* is not memory, or was freed; INVALID_COPY_DIRECTION if *kind* does not fit,
            under CUDA's rules; the kind of the failure if the context has failed.
        DeadlockError: The copy can never be made.
        TypeError: *count* or *dest_max* is not an int.

    Example:
        await Memcpy(buffer, buffer.nbytes, array, array.nbytes, MemcpyKind.HOST_TO_DEVICE)
    """
    scope, runtime, site, _ = begin()
    count = check_count(runtime, count, dest_max)
    outside = runtime.rules.sync_copy is SyncCopy.OUTSIDE
    copy: Copy | None = None
    if not outside:
        copy = copy_of(runtime, dst, src, count, kind)
        _check_kind(runtime, kind, copy)
    elif count:  # the addresses of a copy of no bytes are not looked at
        copy = copy_of(runtime, dst, src, count, MemcpyKind.DEFAULT)
    await runtime.carry_out(Memcpy.__name__, site, _copy_and_wait(scope, copy, site), Completed(copy))


@verb(acl="aclrtMemcpy2dAsync", cuda="cudaMemcpy2DAsync", step="memcpy2d_async")
async def Memcpy2dAsync(
    dst: Memory,
    dst_pitch: Integer,
    src: Memory,
    src_pitch: Integer,
    width: Integer,
    height: Integer,
    kind: int,
    stream: StreamLike = None,
) -> Completion:
    """Queue a copy of *height* rows of *width* bytes in *stream*.

    Stands for aclrtMemcpy2dAsync and cudaMemcpy2DAsync.

    Args:
        dst: The first row of the destination, as in MemcpyAsync().
        dst_pitch: Bytes from the beginning of one row of *dst* to the next.
        src: The first row of the source.
        src_pitch: Bytes from the beginning of one row of *src* to the next.
        width: Bytes of a row to copy, at most either pitch.
        height: The number of rows.
        kind: A MemcpyKind that fits both ends, or MemcpyKind.DEFAULT.
        stream: The stream; None is the default one, LEGACY_STREAM and PER_THREAD_STREAM name CUDA's.

    Waits:
        all rules: Pinned memory, and inside the device: for nothing, except for room if the hardware queue is full.
        cuda, cuda_per_thread: From pageable memory: until the rows are staged, through the two chunks of 1 MB that
            large copies take in MemcpyAsync(), so for the stream while these are full (measured: memcpy-2d). To
            pageable memory: until the copy is done. From host to host: for the stream, and then the host copies itself.
        acl: From or to pageable memory: until the stream has done all earlier work, and the copy. From host to host:
            the copy is refused.

    Returns:
        The completion of the copy. It is done already if the host made the copy or waited for it.

    Raises:
        AclError: INVALID_PITCH for rows that are longer than their pitches; INVALID_VALUE for negative numbers, or an
            end that has less; INVALID_ADDRESS or NULL_POINTER if *dst* or *src* is not memory, or was freed;
            INVALID_COPY_DIRECTION if *kind* does not fit; NOT_SUPPORTED for a copy from host to host under ACL's
            rules; INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be used here.
        DeadlockError: The stream can never come to the copy that the host waits for.
        TypeError: A pitch, *width* or *height* is not an int, or *stream* is not a stream.

    Example:
        # 16 rows of 64 bytes, out of rows of 256 bytes, packed
        await Memcpy2dAsync(buffer, 64, pinned, 256, 64, 16, MemcpyKind.DEFAULT, stream)
    """
    scope, runtime, site, _ = begin()
    stream = resolve(scope, stream, Memcpy2dAsync.__name__, captures=True)
    copy = _rows_of(runtime, dst, dst_pitch, src, src_pitch, width, height)
    if runtime.captures.running and copy.is_pageable:
        runtime.captures.refuse_pageable(runtime, Memcpy2dAsync.__name__)
    _check_kind(runtime, kind, copy)
    if copy.label is H2H and runtime.rules.host_to_host is HostToHost.REFUSED:
        raise _no_host_to_host(runtime, copy)
    work = transfers.in_rows(runtime, stream, copy, site)
    return await runtime.carry_out(Memcpy2dAsync.__name__, site, work, Queued(copy, stream))


@verb(acl="aclrtMemcpy2d", cuda="cudaMemcpy2D", does=HostCall.COPIES, step="memcpy2d")
async def Memcpy2d(
    dst: Memory,
    dst_pitch: Integer,
    src: Memory,
    src_pitch: Integer,
    width: Integer,
    height: Integer,
    kind: int,
) -> None:
    """Copy *height* rows of *width* bytes.

    Stands for aclrtMemcpy2d and cudaMemcpy2D.

    Args:
        dst: The first row of the destination, as in MemcpyAsync().
        dst_pitch: Bytes from the beginning of one row of *dst* to the next.
        src: The first row of the source.
        src_pitch: Bytes from the beginning of one row of *src* to the next.
        width: Bytes of a row to copy, at most either pitch.
        height: The number of rows.
        kind: A MemcpyKind that fits both ends, or MemcpyKind.DEFAULT. ACL's rules do not look at it.

    Waits:
        cuda, cuda_per_thread: The copy is queued in the default stream, after all work that precedes it there, and the
            host waits until it is done; a copy inside the device is only queued.
        acl: Until the copy is done. It is made outside all streams, so not after work that is queued in one.

    Raises:
        AclError: INVALID_PITCH for rows that are longer than their pitches; INVALID_VALUE for negative numbers, or an
            end that has less; INVALID_ADDRESS or NULL_POINTER if *dst* or *src* is not memory, or was freed;
            INVALID_COPY_DIRECTION if *kind* does not fit, under CUDA's rules; the kind of the failure if the context
            has failed.
        DeadlockError: The copy can never be made.
        TypeError: A pitch, *width* or *height* is not an int.
    """
    scope, runtime, site, _ = begin()
    copy = _rows_of(runtime, dst, dst_pitch, src, src_pitch, width, height)
    outside = runtime.rules.sync_copy is SyncCopy.OUTSIDE
    _check_kind(runtime, MemcpyKind.DEFAULT if outside else kind, copy)
    await runtime.carry_out(Memcpy2d.__name__, site, _rows_and_wait(scope, copy, site), Completed(copy))


# --- copies in which the host takes part


def _longer_way(
    scope: Scope, stream: Stream, kind: int, copy: Copy, site: Site
) -> Coroutine[Any, Any, Completion] | None:
    """Return what makes *copy* if the host takes part in it, or it goes to another device; None if it is queued as it
    is.
    """
    runtime = scope.runtime
    is_plain = (kind, copy.dst.space, copy.src.space) in runtime.async_routes or _is_queued(copy)
    if not copy.nbytes or not is_plain:
        return _copy_with_host(scope, stream, kind, copy, site)
    if copy.label is not D2D and copy.label in ON_DEVICES:
        return transfers.queue(runtime, stream, copy, site)
    return None


async def _copy_with_host(scope: Scope, stream: Stream, kind: int, copy: Copy, site: Site) -> Completion:
    """Make an asynchronous copy in which the host takes part."""
    runtime, rules = scope.runtime, scope.runtime.rules
    if runtime.captures.running and copy.is_pageable:
        runtime.captures.refuse_pageable(runtime, MemcpyAsync.__name__)
    if stream.branch is not None:
        return await transfers.queue(runtime, stream, copy, site)
    completion: Completion = NOTHING
    skipped = rules.copy_kind is CopyKind.CORRECTED and copy.is_in_place
    if not skipped:
        _check_kind(runtime, kind, copy)
        is_refused = copy.label is H2H and rules.host_to_host is HostToHost.REFUSED
        if is_refused and (not copy.is_pageable or kind in _MEANS_HOST_TO_HOST):
            raise _no_host_to_host(runtime, copy)
    if skipped or not copy.nbytes:
        runtime.pay(runtime.costs.other)
    elif rules.pageable_copy is PageableCopy.SYNCHRONOUS:
        if kind == MemcpyKind.DEVICE_TO_DEVICE:  # hides the pageable end: the device finds it
            label = D2D if copy.label is H2H else copy.label
            blind = BlindCopy(label, copy.dst, copy.dst_offset, copy.src, copy.src_offset, copy.nbytes)
            completion = await transfers.queue(runtime, stream, blind, site)
        else:
            what = f"a copy of pageable memory waits for {stream.name}"
            await runtime.wait(stream.turn(), what, site, (stream,), sleeps=False)
            await transfers.at_once(scope, copy, "MemcpyAsync()", site)
    elif copy.label is H2H:
        await transfers.by_host(runtime, stream, copy, site)
    elif transfers.is_not_staged(runtime):
        completion = await transfers.queue(runtime, stream, copy, site)
    elif copy.label is H2D:
        completion = await transfers.stage(runtime, stream, copy, site)
    else:
        completion = await transfers.unstage(runtime, stream, copy, site, promised=False)
    runtime.check_context(stream.context)
    return completion


async def _copy_and_wait(scope: Scope, copy: Copy | None, site: Site) -> None:
    """Make a synchronous copy; None is a copy of no bytes."""
    runtime = scope.runtime
    if copy is None or not copy.nbytes:
        runtime.pay(runtime.costs.other)
    elif runtime.rules.sync_copy is SyncCopy.OUTSIDE:
        await transfers.at_once(scope, copy, "Memcpy()", site)
    else:
        await transfers.in_default_stream(scope, copy, site)
    runtime.check_context(scope.context)


async def _rows_and_wait(scope: Scope, copy: PitchedCopy, site: Site) -> None:
    """Make a synchronous copy of rows."""
    runtime = scope.runtime
    completion = await transfers.in_rows(runtime, transfers.sync_stream(scope), copy, site)
    if runtime.rules.sync_copy is SyncCopy.OUTSIDE or copy.label not in ON_DEVICES:
        await transfers.ended(runtime, completion, "Memcpy2d()", site)
    runtime.check_context(scope.context)


# --- checks


def check_count(runtime: Runtime, count: Integer, dest_max: Integer) -> int:
    """Return *count* as an int; refuse one that is negative or larger than the room at the destination."""
    count, dest_max = integer("count", count), integer("dest_max", dest_max)
    if not 0 <= count <= dest_max:
        raise runtime.error(
            Kind.INVALID_VALUE,
            f"count is {count}, but dest_max is {dest_max}",
            "give a count of 0 to dest_max bytes",
        )
    return count


def locate(runtime: Runtime, thing: Memory, nbytes: int, role: str) -> tuple[Allocation, int]:
    """Return the allocation that holds the first *nbytes* of *thing*, and their offset in it."""
    return runtime.memory.locate(thing.buffer if isinstance(thing, Array) else thing, nbytes, role)


def copy_of(runtime: Runtime, dst: Memory, src: Memory, count: int, kind: object) -> Copy:
    """Return the copy of *count* bytes from *src* to *dst*; refuse ends that are no memory, and an unknown *kind*."""
    if kind not in KINDS:
        raise _no_kind(runtime, kind)
    to, to_offset = locate(runtime, dst, count, "dst")
    from_, from_offset = locate(runtime, src, count, "src")
    kind_of_copy = Copy if to.pages is None and from_.pages is None else PagedCopy
    return kind_of_copy(_label_of(runtime, to, from_), to, to_offset, from_, from_offset, count)


def _is_queued(copy: Copy) -> bool:
    """Whether a copy of managed memory, as any other between these ends, is only queued."""
    return copy.moves_pages and not copy.is_pageable


def _rows_of(
    runtime: Runtime,
    dst: Memory,
    dst_pitch: Integer,
    src: Memory,
    src_pitch: Integer,
    width: Integer,
    height: Integer,
) -> PitchedCopy:
    dst_pitch, src_pitch = integer("dst_pitch", dst_pitch), integer("src_pitch", src_pitch)
    width, height = integer("width", width), integer("height", height)
    if width < 0 or height < 0 or width > min(dst_pitch, src_pitch):
        raise runtime.error(
            Kind.INVALID_PITCH if width > min(dst_pitch, src_pitch) else Kind.INVALID_VALUE,
            f"rows of {width} bytes, {height} of them, at pitches of {dst_pitch} and {src_pitch}",
            "give a width from 0 to the smaller pitch, and a height of 0 or more",
        )
    to, to_offset = locate(runtime, dst, model.pitched_bytes(dst_pitch, width, height), "dst")
    from_, from_offset = locate(runtime, src, model.pitched_bytes(src_pitch, width, height), "src")
    label = _label_of(runtime, to, from_)
    kind_of_copy = PitchedCopy if to.pages is None and from_.pages is None else PagedRows
    return kind_of_copy(label, to, to_offset, dst_pitch, from_, from_offset, src_pitch, width, height)


def _label_of(runtime: Runtime, dst: Allocation, src: Allocation) -> Label:
    """Return the label of a copy from *src* to *dst*."""
    label = direction(dst.space, src.space)
    if label is D2D and dst.device != src.device and Space.MANAGED not in (dst.space, src.space):
        to, source = runtime.device(dst.device), runtime.device(src.device)
        for each in (to, source):
            refuse_shared(runtime, "a copy", "memory", each.ordinal)
        return P2P if dst.device in source.reaches or src.device in to.reaches else P2P_STAGED
    return label


def _check_kind(runtime: Runtime, kind: object, copy: Copy) -> None:
    """Refuse a *kind* that is unknown, or that does not fit the places of both ends of *copy*."""
    if (kind, copy.dst.space, copy.src.space) not in runtime.routes:
        if kind not in KINDS:
            raise _no_kind(runtime, kind)
        raise runtime.error(
            Kind.INVALID_COPY_DIRECTION,
            f"{MemcpyKind(kind).name} does not fit a copy {_ends(copy)}",
            "use MemcpyKind.DEFAULT, or the other kind",
        )


def _no_kind(runtime: Runtime, kind: object) -> Exception:
    return runtime.error(
        Kind.INVALID_COPY_DIRECTION, f"{kind!r} is no copy kind", "use a MemcpyKind, or MemcpyKind.DEFAULT"
    )


def _no_host_to_host(runtime: Runtime, copy: Copy) -> Exception:
    return runtime.error(Kind.NOT_SUPPORTED, f"an asynchronous copy {_ends(copy)}", "use Memcpy(), or copy on the host")


def _ends(copy: Copy) -> str:
    dst, src = copy.dst, copy.src
    return f"from {_PLACES[src.space]} memory {src!r} to {_PLACES[dst.space]} memory {dst!r}"


MemcpyAsyncWithCondition = MemcpyAsync
