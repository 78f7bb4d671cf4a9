"""The common cases of the four verbs that programs call most, as functions that the compiled core runs.

A verb is a coroutine, which Python runs. On the compiled core it first calls its function here. That does the whole
call, and returns what the verb returns, or it has done nothing and returns None: then the verb goes its own way. The
common case is a stream of the current context, memory and events that need no second look, and room in the queue. On
the pure core the verbs do not call these functions, because each call would cost time.
"""

from collections.abc import Sequence
from types import FrameType
from typing import Any

from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import Scope, present_scope
from acl_py.sites import Site, known, site_of
from acl_py.verbs.launches import Launches
from device_model.completions import NOTHING, Completion, Nanoseconds, Why
from device_model.contexts import Context
from device_model.events import Event
from device_model.memory import Buffer
from device_model.ops import Op
from device_model.streams import Stream
from device_model.work import D2D, Copy, Kernel, Work

_HOST = Why.HOST


def scope_for(stream: object) -> Scope | None:
    """Return the scope of the calling task if a call on *stream* needs no second look."""
    scope = present_scope()
    if scope is None or type(scope.context) is not Context or type(scope.runtime) is not Runtime:
        return None  # a context or a runtime of a card, or none while a kernel runs
    if type(stream) is not Stream:
        return None
    context = scope.context
    line = stream
    return None if context.alert or line.home is not context else scope


def seen_site(frame: FrameType) -> Site | None:  # noqa: ARG001 - the compiled core has it in C (hot.pxd)
    """Return the site that `see_site` got for the place of *frame*, if it is still kept."""
    return None


def see_site(frame: FrameType, site: Site) -> None:
    """Keep *site* for the next call from the place of *frame*. The compiled core has it in C (hot.pxd)."""


def place_of(frame: FrameType) -> Site:
    """Return the site of *frame*, as site_of does. Most frames are the user's, and have called from here before."""
    site: Site | None = seen_site(frame)
    if site is None:
        site = site_of(frame)
        places = known.get(id(frame.f_code))
        if type(places) is dict and places.get(frame.f_lasti) is site:  # a site of the user's frame, whatever runs
            see_site(frame, site)
    return site


def new_op(work: Work, lane: int, nbytes: int, site: Site, called_ns: Nanoseconds) -> Op:
    """Return `Op(work, lane, nbytes, site, called_ns)`, with its `__init__` written out."""
    op = Op.__new__(Op)
    op.done = False
    op.waiters = None
    op.end_ns = op.start_ns = op.row = -1
    op.blockers = 0
    op.error = None
    op.by = op.reasons = None
    op.why = _HOST
    op.work = work
    op.lane = lane  # type: ignore[misc]
    op.nbytes = nbytes
    op.site = site
    op.called_ns = called_ns
    return op


def work_of(kernel: Any, runtime: Runtime, launches: Launches, blocks: int, args: tuple[Any, ...]) -> Work:
    """Return the work of a launch of *kernel*, as its method does; work that is prepared is found here."""
    try:
        work = launches.prepared.get((kernel, blocks, args))
    except TypeError:  # an argument that cannot be hashed
        work = None
    if type(work) is Kernel:
        prepared = work
        for allocation in prepared.touched:
            if allocation.freed is not None:
                break
        else:
            return prepared
    made: Work = kernel.work(runtime, blocks, args)
    return made


def queue_copy(frame: FrameType, dst: Any, dest_max: Any, src: Any, count: Any, kind: int, stream: Any) -> Op | None:
    """Queue a copy between a device and pinned memory, as MemcpyAsync does for the caller *frame*."""
    scope = scope_for(stream)
    if scope is None or type(count) is not int or type(dest_max) is not int or not 0 < count <= dest_max:
        return None
    if type(dst) is not Buffer or type(src) is not Buffer:
        return None
    runtime = scope.runtime
    into, out_of = dst, src
    target, source = into.allocation, out_of.allocation
    if target.home is not runtime.memory or source.home is not runtime.memory:
        return None
    if count > into.nbytes or count > out_of.nbytes:
        return None
    copy = into.copied
    if (
        copy is None
        or into.copied_kind is not kind
        or copy.src is not source
        or copy.src_offset != out_of.offset
        or copy.nbytes != count
    ):
        copy = None
        label = runtime.async_routes.get((kind, target.space, source.space))
    else:
        label = copy.label
    if label is None or label is D2D:
        return None
    line = stream
    queue = line.queues[label.lane]
    if len(queue.fifo) + queue.reserved >= queue.depth:
        return None
    if copy is None:
        copy = into.copied = Copy(label, target, into.offset, source, out_of.offset, count)
        into.copied_kind = kind
    op = new_op(copy, label.lane, count, place_of(frame), runtime.host_ns)
    cost = runtime.copy_cost if not runtime.cold else runtime.cost_of("copy")
    runtime.submit(line, op, cost, runtime.copy_latency)
    return op


def queue_launch(frame: FrameType, kernel: Any, block_dim: int, args: Sequence[Any], stream: Any) -> Op | None:
    """Queue *kernel*, a KernelFunction, as LaunchKernel does for the caller *frame*; not the first launch."""
    scope = scope_for(stream)
    if scope is None:
        return None
    runtime = scope.runtime
    line = stream
    queue = line.queues[0]
    if len(queue.fifo) + queue.reserved >= queue.depth or not runtime.has_launched:
        return None
    work = work_of(kernel, runtime, runtime.state(Launches), block_dim, tuple(args))
    op = new_op(work, 0, work.nbytes, place_of(frame), runtime.host_ns)
    cost = runtime.launch_cost if not runtime.cold else runtime.cost_of("launch")
    runtime.submit(line, op, cost, runtime.kernel_latency)
    return op


def record(frame: FrameType, event: Any, stream: Any) -> Completion | None:
    """Record a snapshot event, as RecordEvent does for the caller *frame*."""
    scope = scope_for(stream)
    if scope is None or type(event) is not Event:
        return None
    mark = event
    if mark.home is not scope.context:
        return None
    runtime = scope.runtime
    enter = runtime.host_ns
    site = place_of(frame)
    runtime.pay(runtime.record_cost if not runtime.cold else runtime.cost_of("record"))
    line = stream
    completion: Completion = line.turn()  # Event.record(), written out
    mark.work = completion
    mark.stream = stream
    mark.recorded_ns = runtime.scheduler.now
    recorded = runtime.hooks.recorded
    if recorded is not None:
        recorded(event, stream, enter, site, completion)
    return completion


def wait(frame: FrameType, event: Any, stream: Any) -> bool:
    """Let *stream* wait for a snapshot event, as StreamWaitEvent does for the caller *frame*; False: not done."""
    scope = scope_for(stream)
    if scope is None or type(event) is not Event:
        return False
    mark = event
    if mark.home is not scope.context:
        return False
    runtime = scope.runtime
    enter = runtime.host_ns
    site = place_of(frame)
    runtime.pay(runtime.wait_cost if not runtime.cold else runtime.cost_of("wait"))
    work = mark.work
    if work is not None:
        line = stream
        line.wait(work)
    waited = runtime.hooks.waited
    if waited is not None:
        waited(event, stream, enter, site, work or NOTHING)
    return True
