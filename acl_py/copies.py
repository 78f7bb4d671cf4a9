"""Copies and fills.

What a copy does follows from where both ends are; `kind` must agree. A copy or fill of no bytes is checked and pays
for the call, but is no work: nothing is queued, nobody waits, and no other work is held back by it.
"""

from sys import _getframe

from acl_py.arrays import Array
from acl_py.errors import Kind
from acl_py.memory import Memory
from acl_py.routes import FITTING, KINDS
from acl_py.routes import MemcpyKind as MemcpyKind
from acl_py.runtime import Runtime, Scope, current, found, scope_var
from acl_py.sites import Site, site_of
from acl_py.streams import StreamLike, resolve
from device_model import memory as model
from device_model.memory import Allocation, Buffer, Space
from device_model.ops import D2D, H2D, BlindCopy, Copy, Fill, Label, Op, PitchedCopy
from device_model.rules import CopyKind, HostToHost, PageableCopy, SyncCopy
from device_model.scheduler import NOTHING, Completion
from device_model.streams import Stream

_PLACES = {Space.DEVICE: "device", Space.PINNED: "pinned host", Space.PAGEABLE: "pageable host"}
_ANY_KIND = MemcpyKind.DEFAULT
# With these, a copy between two host addresses of which one is pageable stays one from host to host; with the others
# the runtime finds the pageable end, and copies synchronously.
_MEANS_HOST_TO_HOST = (MemcpyKind.HOST_TO_HOST, MemcpyKind.DEFAULT)


async def MemcpyAsync(
    dst: Memory, dest_max: int, src: Memory, count: int, kind: int, stream: StreamLike = None
) -> Completion:
    """Queue a copy of *count* bytes from *src* to *dst*, which has room for *dest_max*, in *stream*.

    From or to pinned memory, and inside the device, the host goes on at once; the source must not change before the
    copy is done. From pageable memory the host pays the staging, and waits when there is no room to stage; to pageable
    memory it waits until done. From host to host it waits for the stream and copies itself. Sources:
    docs/semantics.md.
    """
    scope = scope_var.get() or found()  # current(), written out: this is the hot path
    runtime = scope.runtime
    if scope.context.alert:
        runtime.heed(scope.context, "MemcpyAsync")
    enter = runtime.host_ns
    site = site_of(_getframe(1))
    if type(stream) is not Stream or stream.home is not scope.context:
        stream = resolve(scope, stream)
    if type(count) is not int or not 0 <= count <= dest_max:
        _check_count(runtime, count, dest_max)
    if (
        type(dst) is Buffer
        and type(src) is Buffer
        and count <= dst.nbytes
        and count <= src.nbytes
        and dst.allocation.freed is None
        and src.allocation.freed is None
    ):
        dst_allocation = dst.allocation
        dst_offset = dst.offset
        src_allocation = src.allocation
        src_offset = src.offset
    elif count or runtime.rules.copy_kind is CopyKind.MUST_FIT:
        dst_allocation, dst_offset, src_allocation, src_offset = _ends(runtime, dst, src, count, kind)
    else:  # then nobody looks at the addresses
        runtime.pay(runtime.costs.copy)
        runtime.called("MemcpyAsync", enter, site)
        return NOTHING
    route = runtime.async_routes.get((kind, dst_allocation.space, src_allocation.space))
    if route is None or not count:
        return await _copy_by_host(
            scope, stream, kind, dst_allocation, dst_offset, src_allocation, src_offset, count, site, enter
        )
    op = Op(Copy(route, dst_allocation, dst_offset, src_allocation, src_offset, count), route.lane, count, site, enter)
    queue = stream.queues[op.lane]
    if len(queue.fifo) >= queue.depth:
        await runtime.room(queue, op, stream, site)
    if route is D2D:
        runtime.submit(stream, op, runtime.costs.copy_on_device, runtime.kernel_latency)
    else:
        runtime.submit(stream, op, runtime.costs.copy, runtime.copy_latency)
    return op


async def MemcpyAsyncWithCondition(
    dst: Memory, dest_max: int, src: Memory, count: int, kind: int, stream: StreamLike = None
) -> Completion:
    """MemcpyAsync; what else aclrt's function of this name does is not documented."""
    return await MemcpyAsync(dst, dest_max, src, count, kind, stream)


async def Memcpy(dst: Memory, dest_max: int, src: Memory, count: int, kind: int) -> None:
    """Copy *count* bytes from *src* to *dst*.

    Under CUDA's rules in the default stream, after all that precedes it there. The host waits until it is done, with
    two exceptions that surprise: a copy inside the device is only queued, and one from pageable memory is done for the
    host when it has been staged (measured: sync-memcpy-d2d, sync-memcpy-h2d-pageable). Under ACL's rules at once and
    outside all streams, so not after what is queued; done on return; *kind* does not count.
    """
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    _check_count(runtime, count, dest_max)
    outside = runtime.rules.sync_copy is SyncCopy.OUTSIDE
    if outside and not count:
        runtime.pay(runtime.costs.copy)
    elif outside:
        dst_allocation, dst_offset, src_allocation, src_offset = _ends(runtime, dst, src, count, _ANY_KIND)
        await _copy_outside(scope, dst_allocation, dst_offset, src_allocation, src_offset, count, "Memcpy()", site)
    else:
        dst_allocation, dst_offset, src_allocation, src_offset = _ends(runtime, dst, src, count, kind)
        route = _route(runtime, kind, dst_allocation, src_allocation)
        await _copy_and_wait(scope, route, dst_allocation, dst_offset, src_allocation, src_offset, count, site)
    runtime.called("Memcpy", enter, site)
    if scope.context.error is not None:
        raise runtime.lost(scope.context)


async def Memcpy2dAsync(
    dst: Memory,
    dst_pitch: int,
    src: Memory,
    src_pitch: int,
    width: int,
    height: int,
    kind: int,
    stream: StreamLike = None,
) -> Completion:
    """Queue a copy of *height* rows of *width* bytes, whose beginnings lie a pitch apart, in *stream*."""
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    found = resolve(scope, stream)
    route, work = _pitched(runtime, dst, dst_pitch, src, src_pitch, width, height, kind)
    if route is None and runtime.rules.host_to_host is HostToHost.REFUSED:
        raise _no_host_to_host(runtime, work.dst, work.src)
    completion = await _copy_rows(runtime, found, route, work, site)
    runtime.called("Memcpy2dAsync", enter, site)
    return completion


async def Memcpy2d(
    dst: Memory, dst_pitch: int, src: Memory, src_pitch: int, width: int, height: int, kind: int
) -> None:
    """Copy *height* rows of *width* bytes in the default stream and wait for it, except inside the device; under ACL's
    rules outside all streams, and always wait for it.
    """
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    outside = runtime.rules.sync_copy is SyncCopy.OUTSIDE
    route, work = _pitched(runtime, dst, dst_pitch, src, src_pitch, width, height, _ANY_KIND if outside else kind)
    completion = await _copy_rows(runtime, _sync_stream(scope), route, work, site)
    if outside or route is not D2D:
        await runtime.wait(completion, "Memcpy2d()", site)
    if isinstance(completion, Op) and completion.error is not None:
        raise runtime.told(completion.error)
    runtime.called("Memcpy2d", enter, site)
    if scope.context.error is not None:
        raise runtime.lost(scope.context)


async def MemsetAsync(dst: Memory, dest_max: int, value: int, count: int, stream: StreamLike = None) -> Completion:
    """Queue a fill of *count* bytes of *dst*, device or pinned memory, with the byte *value*, in *stream*."""
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    completion, _ = await _fill(scope, resolve(scope, stream), dst, dest_max, value, count, site)
    runtime.called("MemsetAsync", enter, site)
    return completion


async def Memset(dst: Memory, dest_max: int, value: int, count: int) -> None:
    """Fill *count* bytes of *dst* in the default stream; the host waits only for pinned memory (measured:
    memset-busy). Under ACL's rules at once and outside all streams, done on return, also of pageable memory.
    """
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    completion, pinned = await _fill(scope, _sync_stream(scope), dst, dest_max, value, count, site)
    if pinned or runtime.rules.sync_copy is SyncCopy.OUTSIDE:
        await runtime.wait(completion, "Memset()", site)
    if isinstance(completion, Op) and completion.error is not None:
        raise runtime.told(completion.error)
    runtime.called("Memset", enter, site)
    if scope.context.error is not None:
        raise runtime.lost(scope.context)


# --- how it is done


async def _copy_by_host(
    scope: Scope,
    stream: Stream,
    kind: int,
    dst: Allocation,
    dst_offset: int,
    src: Allocation,
    src_offset: int,
    count: int,
    site: Site,
    enter: int,
) -> Completion:
    """The asynchronous copies in which the host takes part."""
    runtime, rules = scope.runtime, scope.runtime.rules
    completion: Completion = NOTHING
    same = dst is src and dst_offset == src_offset and rules.copy_kind is CopyKind.CORRECTED
    if same:
        route = None
    else:
        route = _route(runtime, kind, dst, src)
        pageable = Space.PAGEABLE in (dst.space, src.space)
        meant = not pageable or kind in _MEANS_HOST_TO_HOST
        if route is None and rules.host_to_host is HostToHost.REFUSED and meant:
            raise _no_host_to_host(runtime, dst, src)
    if same or not count:
        runtime.pay(runtime.costs.copy)
    elif rules.pageable_copy is PageableCopy.SYNCHRONOUS:
        if kind == MemcpyKind.DEVICE_TO_DEVICE:  # which hides that one end is pageable: the device finds out
            label = route or D2D
            work = BlindCopy(label, dst, dst_offset, src, src_offset, count)
            completion = await _queue(runtime, stream, work, site)
        else:
            await _until(runtime, stream.frontier(), f"a copy of pageable memory waits for {stream.name}", site)
            await _copy_outside(scope, dst, dst_offset, src, src_offset, count, "MemcpyAsync()", site)
    elif route is None:
        await _host_to_host(runtime, stream, dst, dst_offset, src, src_offset, count, site)
    elif route is H2D:
        completion = await _stage(runtime, stream, dst, dst_offset, src, src_offset, count, site)
    else:
        await _unstage(runtime, stream, dst, dst_offset, src, src_offset, count, site)
    runtime.called("MemcpyAsync", enter, site)
    if stream.context.error is not None:
        raise runtime.lost(stream.context)
    return completion


async def _copy_outside(
    scope: Scope,
    dst: Allocation,
    dst_offset: int,
    src: Allocation,
    src_offset: int,
    count: int,
    name: str,
    site: Site,
) -> None:
    """A copy at once, outside all streams; the host waits until it is done."""
    runtime = scope.runtime
    if dst is src and dst_offset == src_offset:
        runtime.pay(runtime.costs.copy)
        return
    route = FITTING[_ANY_KIND, dst.space, src.space]
    if route is None:
        runtime.pay(runtime.profile.copies.host_to_host[count])
        model.copy(dst, dst_offset, src, src_offset, count)
        return
    op = await _queue(runtime, scope.context.outside, Copy(route, dst, dst_offset, src, src_offset, count), site)
    await runtime.wait(op, f"{name} outside the streams", site)
    if op.error is not None:
        raise runtime.told(op.error)


async def _copy_and_wait(
    scope: Scope,
    route: Label | None,
    dst: Allocation,
    dst_offset: int,
    src: Allocation,
    src_offset: int,
    count: int,
    site: Site,
) -> None:
    """The synchronous copy: like the asynchronous one in the default stream, and mostly a wait."""
    runtime, stream = scope.runtime, scope.context.default
    if not count:
        runtime.pay(runtime.costs.copy)
    elif route is None:
        await _host_to_host(runtime, stream, dst, dst_offset, src, src_offset, count, site)
    elif src.space is Space.PAGEABLE:
        if count > runtime.profile.copies.pageable_small_bytes:
            await _until(runtime, stream.frontier(), f"Memcpy() in {stream.name}", site)
        await _stage(runtime, stream, dst, dst_offset, src, src_offset, count, site)
    elif dst.space is Space.PAGEABLE:
        await _unstage(runtime, stream, dst, dst_offset, src, src_offset, count, site)
    else:
        op = await _queue(runtime, stream, Copy(route, dst, dst_offset, src, src_offset, count), site)
        if route is not D2D:
            await runtime.wait(op, f"Memcpy() in {stream.name}", site)


async def _host_to_host(
    runtime: Runtime,
    stream: Stream,
    dst: Allocation,
    dst_offset: int,
    src: Allocation,
    src_offset: int,
    count: int,
    site: Site,
) -> None:
    await _until(runtime, stream.frontier(), f"a copy from host to host in {stream.name}", site)
    runtime.pay(runtime.profile.copies.host_to_host[count])
    model.copy(dst, dst_offset, src, src_offset, count)


async def _stage(
    runtime: Runtime,
    stream: Stream,
    dst: Allocation,
    dst_offset: int,
    src: Allocation,
    src_offset: int,
    count: int,
    site: Site,
) -> Completion:
    staging, copies = stream.context.device.staging, runtime.profile.copies
    if count > copies.pageable_small_bytes:
        process = staging.to_device(stream, dst, dst_offset, src, src_offset, count, site)
        runtime.scheduler.settle()
        await _until(runtime, process, f"staging pageable memory for {stream.name}", site)
        return stream.tail
    while not (room := staging.ring_room(count)).done:
        await _until(runtime, room, f"staging pageable memory for {stream.name}", site)
    work = Copy(H2D, dst, dst_offset, src, src_offset, count)
    op = Op(work, H2D.lane, count, site)
    await _room(runtime, stream, op, site)
    work.src, work.src_offset = model.snapshot(src, src_offset, count), 0
    runtime.submit(stream, op, copies.pageable_small[count], runtime.copy_latency)
    staging.put_in_ring(op)
    return op


async def _unstage(
    runtime: Runtime,
    stream: Stream,
    dst: Allocation,
    dst_offset: int,
    src: Allocation,
    src_offset: int,
    count: int,
    site: Site,
) -> None:
    runtime.pay(runtime.costs.copy)
    process = stream.context.device.staging.to_host(stream, dst, dst_offset, src, src_offset, count, site)
    runtime.scheduler.settle()
    await _until(runtime, process, f"a copy from {stream.name} to pageable memory", site)


async def _copy_rows(runtime: Runtime, stream: Stream, route: Label | None, work: Copy, site: Site) -> Completion:
    """Pitched copies; from pageable memory they are staged whole, and the host pays for that."""
    copies = runtime.profile.copies
    dst, src = work.dst, work.src
    if not work.nbytes:
        runtime.pay(runtime.costs.copy)
        return NOTHING
    if route is None:
        await _until(runtime, stream.frontier(), f"a copy from host to host in {stream.name}", site)
        runtime.pay(copies.host_to_host[work.nbytes])
        work.perform()
        return NOTHING
    if Space.PAGEABLE in (src.space, dst.space) and runtime.rules.pageable_copy is PageableCopy.SYNCHRONOUS:
        await _until(runtime, stream.frontier(), f"a copy of pageable memory waits for {stream.name}", site)
        op = await _queue(runtime, stream.context.outside, work, site)
        await runtime.wait(op, "a pitched copy outside the streams", site)
        return op
    if src.space is Space.PAGEABLE:
        runtime.pay(copies.stage_fixed + copies.stage[work.nbytes])
        _, start, stop = work.reads()[0]
        work.src, work.src_offset = model.snapshot(src, start, stop - start), 0
    op = await _queue(runtime, stream, work, site)
    if dst.space is Space.PAGEABLE:
        await _until(runtime, op, f"a copy from {stream.name} to pageable memory", site)
        runtime.pay(copies.unstage_fixed + copies.unstage[work.nbytes])
    return op


async def _queue(runtime: Runtime, stream: Stream, work: Copy | Fill, site: Site) -> Op:
    costs, latency = runtime.costs, runtime.profile.latency
    op = Op(work, work.label.lane, work.nbytes, site)
    await _room(runtime, stream, op, site)
    if isinstance(work, Fill):
        runtime.submit(stream, op, costs.fill, latency.submit_kernel)
    elif work.label is D2D:
        runtime.submit(stream, op, costs.copy_on_device, latency.submit_kernel)
    else:
        runtime.submit(stream, op, costs.copy, latency.submit_copy)
    return op


async def _room(runtime: Runtime, stream: Stream, op: Op, site: Site) -> None:
    queue = stream.queues[op.lane]
    if len(queue.fifo) >= queue.depth:
        await runtime.room(queue, op, stream, site)


async def _fill(
    scope: Scope, stream: Stream, dst: Memory, dest_max: int, value: int, count: int, site: Site
) -> tuple[Completion, bool]:
    """Queue a fill: its completion, and whether it is of pinned memory."""
    runtime = scope.runtime
    _check_count(runtime, count, dest_max)
    if not isinstance(value, int):
        raise TypeError(f"the value of a fill must be an int, not {value!r}")
    allocation, offset = _locate(runtime, dst, count, "dst")
    if allocation.space is Space.PAGEABLE and runtime.rules.sync_copy is SyncCopy.OUTSIDE:
        await _until(runtime, stream.frontier(), f"a fill of pageable memory waits for {stream.name}", site)
        runtime.pay(runtime.profile.copies.host_to_host[count])
        model.fill(allocation, offset, value & 0xFF, count)
        return NOTHING, False
    if allocation.space is Space.PAGEABLE:
        raise runtime.fail(
            Kind.INVALID_VALUE, "a fill of pageable host memory", "use device or pinned memory, or NumPy's fill"
        )
    if not count:
        runtime.pay(runtime.costs.fill)
        return NOTHING, False
    work = Fill(allocation, offset, value & 0xFF, count)
    return await _queue(runtime, stream, work, site), work.pinned


def _sync_stream(scope: Scope) -> Stream:
    """Where copies and fills are queued that name no stream."""
    return scope.context.outside if scope.runtime.rules.sync_copy is SyncCopy.OUTSIDE else scope.context.default


async def _until(runtime: Runtime, completion: Completion, what: str, site: Site) -> None:
    """Let the host, which has something to do itself, wait; that is no wake-up to pay for."""
    if not completion.done:
        await runtime.busy_until(completion, what, site)


# --- what is checked


def _check_count(runtime: Runtime, count: object, dest_max: object) -> None:
    for name, value in (("count", count), ("dest_max", dest_max)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{name} must be an int, not {value!r}")
    assert isinstance(count, int)
    assert isinstance(dest_max, int)
    if not 0 <= count <= dest_max:
        raise runtime.fail(
            Kind.INVALID_VALUE,
            f"{count} bytes for a destination of {dest_max}",
            "count must lie between 0 and dest_max",
        )


def _locate(runtime: Runtime, thing: Memory, nbytes: int, role: str) -> tuple[Allocation, int]:
    return runtime.memory.locate(thing.buffer if isinstance(thing, Array) else thing, nbytes, role)


def _ends(
    runtime: Runtime, dst: Memory, src: Memory, count: int, kind: object
) -> tuple[Allocation, int, Allocation, int]:
    if kind not in KINDS:
        raise _no_kind(runtime, kind)
    return *_locate(runtime, dst, count, "dst"), *_locate(runtime, src, count, "src")


def _route(runtime: Runtime, kind: int, dst: Allocation, src: Allocation) -> Label | None:
    try:
        return runtime.routes[kind, dst.space, src.space]
    except (KeyError, TypeError):
        raise _bad_route(runtime, kind, dst, src) from None


def _no_kind(runtime: Runtime, kind: object) -> Exception:
    return runtime.fail(
        Kind.INVALID_COPY_DIRECTION, f"{kind!r} is no copy kind", "use a MemcpyKind, or MemcpyKind.DEFAULT"
    )


def _no_host_to_host(runtime: Runtime, dst: Allocation, src: Allocation) -> Exception:
    return runtime.fail(
        Kind.NOT_SUPPORTED,
        f"an asynchronous copy from {_PLACES[src.space]} memory {src!r} to {_PLACES[dst.space]} memory {dst!r}",
        "use Memcpy(), or copy on the host",
    )


def _bad_route(runtime: Runtime, kind: object, dst: Allocation, src: Allocation) -> Exception:
    places = f"from {_PLACES[src.space]} memory {src!r} to {_PLACES[dst.space]} memory {dst!r}"
    if kind not in KINDS:
        return _no_kind(runtime, kind)
    name = MemcpyKind(kind).name
    return runtime.fail(
        Kind.INVALID_COPY_DIRECTION, f"{name} does not fit a copy {places}", "use MemcpyKind.DEFAULT, or the other kind"
    )


def _pitched(
    runtime: Runtime, dst: Memory, dst_pitch: int, src: Memory, src_pitch: int, width: int, height: int, kind: int
) -> tuple[Label | None, Copy]:
    for name, value in (("dst_pitch", dst_pitch), ("src_pitch", src_pitch), ("width", width), ("height", height)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{name} must be an int, not {value!r}")
    if width < 0 or height < 0 or width > min(dst_pitch, src_pitch):
        raise runtime.fail(
            Kind.INVALID_VALUE,
            f"rows of {width} bytes, {height} of them, at pitches of {dst_pitch} and {src_pitch}",
            "width must be positive and no larger than either pitch",
        )
    dst_allocation, dst_offset = _locate(runtime, dst, model.pitched_bytes(dst_pitch, width, height), "dst")
    src_allocation, src_offset = _locate(runtime, src, model.pitched_bytes(src_pitch, width, height), "src")
    route = _route(runtime, kind, dst_allocation, src_allocation)
    work = PitchedCopy(
        route or D2D, dst_allocation, dst_offset, dst_pitch, src_allocation, src_offset, src_pitch, width, height
    )
    return route, work
