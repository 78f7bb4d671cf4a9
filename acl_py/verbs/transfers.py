"""Transfers: how bytes get to where a copy or a fill wants them.

A copy that an engine can make is queued for it. Pageable memory goes through buffers of the driver, and the host fills
or empties them. A copy from host to host is made by the host, when the stream has done all its earlier work.
"""

from collections.abc import Iterable, Sequence
from functools import partial

from acl_py.errors import DeviceError
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import Scope
from acl_py.sites import Site
from device_model.completions import NOTHING, Completion, Nanoseconds
from device_model.memory import Space
from device_model.ops import ON_DEVICES, P2P, P2P_STAGED, Op, UnreachableCopy
from device_model.rules import PageableCopy, PeerAccess, SyncCopy
from device_model.streams import Stream
from device_model.work import D2D, H2D, H2H, Copy, Fill, PitchedCopy


def sync_stream(scope: Scope) -> Stream:
    """Return the stream for copies and fills that name none."""
    return scope.context.outside if scope.runtime.rules.sync_copy is SyncCopy.OUTSIDE else scope.default


async def queue(runtime: Runtime, stream: Stream, work: Copy | Fill, site: Site) -> Op:
    """Queue *work* in *stream*, for an engine."""
    op = _op_of(runtime, work, site)
    hardware = stream.queues[op.lane]  # room(), written out
    if len(hardware.fifo) + hardware.reserved >= hardware.depth:
        await runtime.wait_for_place(op, stream, site)
    runtime.submit(stream, op, *_price(runtime, op))
    return op


async def queue_all(runtime: Runtime, stream: Stream, copies: Sequence[Copy], site: Site) -> Op:
    """Queue *copies*, which engines make, in *stream*; the host pays once, for all of them. Return the last one."""
    ops = [_op_of(runtime, copy, site) for copy in copies]
    cost, latencies = _price_of_all(runtime, ops)
    for number, op in enumerate(ops):
        hardware = stream.queue_for(op.lane)
        if len(hardware.fifo) + hardware.reserved >= hardware.depth:
            check = partial(_check_memory, runtime, ops[number:])
            await runtime.wait_for_room(hardware, op.work.label.name, stream, site, check)
        runtime.submit(stream, op, cost, latencies[number])
        cost = 0
    return ops[-1]


def _check_memory(runtime: Runtime, ops: Iterable[Op]) -> None:
    """Raise if memory of *ops* was freed while the host waited for room."""
    for op in ops:
        runtime.check_memory(op.work, op)


def _op_of(runtime: Runtime, work: Copy | Fill, site: Site) -> Op:
    if work.label is P2P_STAGED and runtime.rules.peer_access is PeerAccess.FOR_COPIES:
        assert isinstance(work, Copy), f"{work!r} is no copy"
        work = UnreachableCopy(P2P, work.dst, work.dst_offset, work.src, work.src_offset, work.nbytes)
    return Op(work, work.label.lane, work.nbytes, site)


def _price(runtime: Runtime, op: Op) -> tuple[Nanoseconds, Nanoseconds]:
    """Return what the call that queues *op* takes the host, and the time until its engine can start it."""
    latency, label = runtime.profile.latency, op.work.label
    if isinstance(op.work, Fill):
        return runtime.cost_of("fill"), latency.submit_kernel
    if label is D2D:
        return runtime.cost_of("copy_on_device"), latency.submit_kernel
    if label is P2P_STAGED:
        return runtime.profile.copies.peer_staged_call[op.nbytes], latency.submit_copy
    return runtime.cost_of("copy"), latency.submit_copy


def _price_of_all(runtime: Runtime, ops: Sequence[Op]) -> tuple[Nanoseconds, list[Nanoseconds]]:
    """Return what one call that queues *ops* takes the host, and the latency of each.

    The first copy pays for the call. A further copy over the bus adds little. One inside the device, or through the
    host, as much as a call of its own (measured on an H200: 3.65 us of 3.5).
    """
    prices = [_price(runtime, op) for op in ops]
    cost = prices[0][0]
    for op, (price, _) in zip(ops[1:], prices[1:], strict=True):
        cost += price if op.work.label in (D2D, P2P_STAGED) else runtime.costs.copy_more
    return cost, [latency for _, latency in prices]


async def room(runtime: Runtime, stream: Stream, op: Op, site: Site) -> None:
    """Let the host wait until a hardware queue takes *op*."""
    queue = stream.queues[op.lane]
    if len(queue.fifo) + queue.reserved >= queue.depth:
        await runtime.wait_for_place(op, stream, site)


async def ended(runtime: Runtime, completion: Completion, what: str, site: Site) -> None:
    """Let the host wait for work that it has queued; raise AclError if the work has failed."""
    await runtime.wait(completion, what, site, (completion,))
    if isinstance(completion, Op) and completion.error is not None:
        raise runtime.operation_error(completion.error)


async def at_once(scope: Scope, copy: Copy, name: str, site: Site) -> None:
    """Copy outside all streams, for the call *name*, and let the host wait until that is done."""
    runtime = scope.runtime
    if copy.is_in_place:
        runtime.pay(runtime.costs.other)
    elif copy.label is H2H:
        _move(runtime, copy)
    else:
        op = await queue(runtime, scope.context.outside, copy, site)
        await ended(runtime, op, f"{name} outside the streams", site)


async def in_default_stream(scope: Scope, copy: Copy, site: Site) -> None:
    """Copy in the default stream; the host does not wait for copies inside the device, nor for the last staged part."""
    runtime, stream = scope.runtime, scope.default
    if copy.label is H2H and runtime.stages:
        await by_host(runtime, stream, copy, site)
    elif copy.src.space is Space.PAGEABLE and runtime.stages:  # of whatever size: measured, sync-h2d-*
        await runtime.wait(stream.turn(), f"Memcpy() in {stream.name}", site, (stream,), sleeps=False)
        completion = await stage(runtime, stream, copy, site)
        if copy.moves_pages:  # measured, managed-memcpy-sync
            await runtime.wait(completion, f"Memcpy() in {stream.name}", site, (stream,), promised=False, sleeps=False)
    elif copy.dst.space is Space.PAGEABLE and runtime.stages:
        await unstage(runtime, stream, copy, site, promised=True)
    else:
        op = await queue(runtime, stream, copy, site)
        if copy.label not in ON_DEVICES:
            await runtime.wait(op, f"Memcpy() in {stream.name}", site, (op,))


async def by_host(runtime: Runtime, stream: Stream, copy: Copy, site: Site) -> None:
    """Let the host copy from host to host when *stream* has done all its earlier work."""
    await runtime.wait(stream.turn(), f"a copy from host to host in {stream.name}", site, (stream,), sleeps=False)
    _move(runtime, copy)


def _move(runtime: Runtime, copy: Copy) -> None:
    runtime.pay(runtime.profile.copies.host_to_host[copy.nbytes])
    runtime.cool(copy.nbytes)
    try:
        copy.perform()
    except DeviceError as error:  # the memory was freed while the host waited
        raise runtime.operation_error(error) from error


async def stage(runtime: Runtime, stream: Stream, copy: Copy, site: Site) -> Completion:
    """Copy from pageable memory to the device; the host goes on when all bytes have been staged."""
    staging, copies = stream.context.device.staging, runtime.profile.copies
    if copy.nbytes > copies.pageable_small_bytes or (isinstance(copy, PitchedCopy) and copy.height > 1):
        runtime.pay(0)  # a timer may have taken the host beyond the device, where the copy would begin
        process = staging.to_device(stream, copy, site)
        runtime.scheduler.settle()
        what = f"staging pageable memory for {stream.name}"
        await runtime.wait(process, what, site, sleeps=False)
        runtime.cool(copy.nbytes)
        return stream.tail
    ring = staging.ring(stream)
    while not (free := ring.until_it_takes(copy.nbytes)).done:
        await runtime.wait(free, f"staging pageable memory for {stream.name}", site, sleeps=False)
    op = Op(copy, H2D.lane, copy.nbytes, site)
    await room(runtime, stream, op, site)
    copy.stage()
    runtime.submit(stream, op, copies.pageable_small[copy.nbytes], runtime.copy_latency)
    ring.put(op)
    return op


async def unstage(runtime: Runtime, stream: Stream, copy: Copy, site: Site, *, promised: bool) -> Completion:
    """Copy from the device to pageable memory; the host goes on when the bytes are there. *promised* is whether the
    vendor documents that it waits. Return the completion of the copy, which is done.
    """
    runtime.pay(runtime.costs.copy)
    process = stream.context.device.staging.to_host(stream, copy, site)
    runtime.scheduler.settle()
    what = f"a copy from {stream.name} to pageable memory"
    await runtime.wait(process, what, site, (stream,), promised=promised, sleeps=False)
    runtime.cool(copy.nbytes)
    return process


def is_not_staged(runtime: Runtime) -> bool:
    """Whether a copy of pageable memory takes place without the host, as a choice point of this run says."""
    choices = runtime.scheduler.choices
    return choices is not None and choices.is_not_staged()


async def in_rows(runtime: Runtime, stream: Stream, copy: Copy, site: Site) -> Completion:
    """Copy rows. Several rows of pageable memory are staged in chunks, however short they are (measured: memcpy-2d)."""
    if not copy.nbytes:
        runtime.pay(runtime.costs.other)
        return NOTHING
    if not runtime.stages or stream.branch is not None:
        return await queue(runtime, stream, copy, site)
    if copy.label is H2H:
        await by_host(runtime, stream, copy, site)
        return NOTHING
    if copy.is_pageable and runtime.rules.pageable_copy is PageableCopy.SYNCHRONOUS:
        what = f"a copy of pageable memory waits for {stream.name}"
        await runtime.wait(stream.turn(), what, site, (stream,), sleeps=False)
        op = await queue(runtime, stream.context.outside, copy, site)
        await ended(runtime, op, "a pitched copy outside the streams", site)
        return op
    if copy.src.space is Space.PAGEABLE:
        return await stage(runtime, stream, copy, site)
    if copy.dst.space is Space.PAGEABLE:
        return await unstage(runtime, stream, copy, site, promised=False)
    return await queue(runtime, stream, copy, site)
