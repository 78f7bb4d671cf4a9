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
from acl_py.runtime.scopes import Scope, scope_var
from acl_py.sites import site_of
from acl_py.verbs.launches import Launches
from device_model.completions import NOTHING, Completion
from device_model.events import Event
from device_model.memory import Buffer
from device_model.ops import Op
from device_model.work import D2D, Copy


def scope_for(stream: object) -> Scope | None:
    """Return the scope of the calling task if a call on *stream* needs no second look."""
    scope = scope_var.get()
    if scope is None:
        return None
    context = scope.context
    if context.alert or type(stream) is not context.stream_type or type(scope.runtime) is not Runtime:
        return None
    return scope if stream.home is context else None


def queue_copy(frame: FrameType, dst: Any, dest_max: Any, src: Any, count: Any, kind: int, stream: Any) -> Op | None:
    """Queue a copy between a device and pinned memory, as MemcpyAsync does for the caller *frame*."""
    scope = scope_for(stream)
    if scope is None or type(count) is not int or type(dest_max) is not int or not 0 < count <= dest_max:
        return None
    if type(dst) is not Buffer or type(src) is not Buffer or count > dst.nbytes or count > src.nbytes:
        return None
    runtime = scope.runtime
    target, source = dst.allocation, src.allocation
    if target.home is not runtime.memory or source.home is not runtime.memory:
        return None
    label = runtime.async_routes.get((kind, target.space, source.space))
    if label is None or label is D2D:
        return None
    line = stream
    queue = line.queues[label.lane]
    if len(queue.fifo) + queue.reserved >= queue.depth:
        return None
    copy = dst.copied
    if copy is None or copy.src is not source or copy.src_offset != src.offset or copy.nbytes != count:
        copy = dst.copied = Copy(label, target, dst.offset, source, src.offset, count)
    op = Op(copy, label.lane, count, site_of(frame), runtime.host_ns)
    cost = runtime.costs.copy if not runtime.cold else runtime.cost_of("copy")
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
    if len(queue.fifo) + queue.reserved >= queue.depth or not scope.runtime.state(Launches).begun:
        return None
    work = kernel.work(runtime, block_dim, tuple(args))
    op = Op(work, 0, work.nbytes, site_of(frame), runtime.host_ns)
    cost = runtime.costs.launch if not runtime.cold else runtime.cost_of("launch")
    runtime.submit(line, op, cost, runtime.kernel_latency)
    return op


def record(frame: FrameType, event: Any, stream: Any) -> Completion | None:
    """Record a snapshot event, as RecordEvent does for the caller *frame*."""
    scope = scope_for(stream)
    if scope is None or type(event) is not Event or scope.context.event_type is not Event:
        return None
    if event.home is not scope.context:
        return None
    runtime = scope.runtime
    enter = runtime.host_ns
    site = site_of(frame)
    runtime.pay(runtime.costs.record if not runtime.cold else runtime.cost_of("record"))
    completion = event.record(stream, site)
    recorded = runtime.hooks.recorded
    if recorded is not None:
        recorded(event, stream, enter, site, completion)
    return completion


def wait(frame: FrameType, event: Any, stream: Any) -> bool:
    """Let *stream* wait for a snapshot event, as StreamWaitEvent does for the caller *frame*; False: not done."""
    scope = scope_for(stream)
    if scope is None or type(event) is not Event or scope.context.event_type is not Event:
        return False
    if event.home is not scope.context:
        return False
    runtime = scope.runtime
    enter = runtime.host_ns
    site = site_of(frame)
    runtime.pay(runtime.costs.wait if not runtime.cold else runtime.cost_of("wait"))
    work = event.work
    if work is not None:
        line = stream
        line.wait(work)
    waited = runtime.hooks.waited
    if waited is not None:
        waited(event, stream, enter, site, work or NOTHING)
    return True
