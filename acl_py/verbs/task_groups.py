"""Task groups: kernels of a capture whose work an update replaces. Only under ACL's rules; CUDA has GraphExecUpdate."""

from acl_py.calls.acts import Plain
from acl_py.calls.table import verb
from acl_py.errors import Kind
from acl_py.runtime.calls import Call, begin
from acl_py.runtime.runtime import Runtime
from acl_py.verbs.signals import check_signals
from acl_py.verbs.streams import StreamLike, resolve_any
from device_model.completions import Completion
from device_model.errors import shown
from device_model.graphs.capture import Branch
from device_model.graphs.groups import TaskGroup as TaskGroup
from device_model.graphs.groups import Update
from device_model.streams import Stream

_REMEDY = "capture again and use GraphExecUpdate(), or rules='acl'"


@verb(acl="aclmdlRICaptureTaskGrpBegin", step="group_begin")
async def CaptureTaskGrpBegin(stream: StreamLike) -> None:
    """Begin a task group: the kernels that are launched in *stream* until CaptureTaskGrpEnd() can be updated later.

    Stands for aclmdlRICaptureTaskGrpBegin; CUDA has no such call. Until the end, other streams of the capture that have
    no group of their own take no work.

    Args:
        stream: A stream that captures.

    Waits:
        cuda, cuda_per_thread: For nothing: the call is refused.
        acl: For nothing.

    Raises:
        AclError: NOT_SUPPORTED under CUDA's rules; NOT_CAPTURING if *stream* does not capture; CAPTURE_INVALIDATED if a
            call has lost the capture; GROUP_STATUS if *stream* has begun a group already, or takes an update;
            INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be used here.
        TypeError: *stream* is not a stream.
    """
    _, runtime, site, enter = call = begin()
    branch = _branch(call, CaptureTaskGrpBegin.__name__, stream)
    branch.capture.check(runtime.error)
    if branch.group is not None:
        raise runtime.error(
            Kind.GROUP_STATUS,
            f"CaptureTaskGrpBegin() on {branch.stream.name}, where {branch.group!r} goes on",
            "call CaptureTaskGrpEnd() on it first",
        )
    runtime.pay(runtime.profile.graphs.begin)
    branch.capture.begin_group(branch.stream, site)
    runtime.called(CaptureTaskGrpBegin.__name__, enter, site, Plain((branch.stream,)))


@verb(acl="aclmdlRICaptureTaskGrpEnd", step="group_end")
async def CaptureTaskGrpEnd(stream: StreamLike) -> TaskGroup:
    """End the task group that CaptureTaskGrpBegin() began on *stream*, and return it.

    Stands for aclmdlRICaptureTaskGrpEnd; CUDA has no such call.

    Args:
        stream: The stream on which the group began.

    Waits:
        cuda, cuda_per_thread: For nothing: the call is refused.
        acl: For nothing.

    Returns:
        The group, for CaptureTaskUpdateBegin().

    Raises:
        AclError: NOT_SUPPORTED under CUDA's rules; NOT_CAPTURING if *stream* does not capture; GROUP_STATUS if it has
            begun no group. The group is over, and of no use, with CAPTURE_INVALIDATED if a call has lost the capture,
            GROUP_INTERRUPTED if another stream of the capture got work meanwhile, and GROUP_WORK if there was other
            work than kernels. INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be used here.
        TypeError: *stream* is not a stream.
    """
    _, runtime, site, enter = call = begin()
    branch = _branch(call, CaptureTaskGrpEnd.__name__, stream)
    if branch.group is None:
        raise runtime.error(
            Kind.GROUP_STATUS,
            f"CaptureTaskGrpEnd() on {branch.stream.name}, which has begun no task group",
            "call CaptureTaskGrpBegin() on it first",
        )
    runtime.pay(runtime.profile.graphs.begin)
    # The group is over, also if it is broken.
    runtime.called(CaptureTaskGrpEnd.__name__, enter, site, Plain((branch.stream, branch.group)))
    return branch.capture.end_group(branch.stream, runtime.error)


@verb(acl="aclmdlRICaptureTaskUpdateBegin", step="update_begin")
async def CaptureTaskUpdateBegin(stream: StreamLike, group: TaskGroup) -> None:
    """Begin an update of *group*: *stream* takes the kernels that are launched in it as new work, and runs none.

    Stands for aclmdlRICaptureTaskUpdateBegin; CUDA has GraphExecUpdate(). Until CaptureTaskUpdateEnd() the stream takes
    kernels only.

    Args:
        stream: A stream of the same device that does not capture.
        group: What CaptureTaskGrpEnd() gave.

    Waits:
        cuda, cuda_per_thread: For nothing: the call is refused.
        acl: For nothing.

    Raises:
        AclError: NOT_SUPPORTED under CUDA's rules; CAPTURE_BEGUN if *stream* captures; GROUP_STATUS if *stream* takes
            an update already, or another stream one of *group*; INVALID_HANDLE if *group* is of another simulation or
            device; INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be used here.
        TypeError: *stream* is not a stream, or *group* is not a task group.

    Example:
        await BeginCapture(stream)
        await CaptureTaskGrpBegin(stream)
        await LaunchKernel(work, 8, (), stream)
        group = await CaptureTaskGrpEnd(stream)
        executable = await GraphInstantiate(await EndCapture(stream))
        await CaptureTaskUpdateBegin(other, group)
        await LaunchKernel(work, 16, (), other)
        await CaptureTaskUpdateEnd(other)
        await SynchronizeStream(other)
        await GraphLaunch(executable, stream)  # with 16 blocks
    """
    scope, runtime, site, enter = begin()
    check_signals(runtime, CaptureTaskUpdateBegin.__name__, _REMEDY)
    stream = resolve_any(scope, stream)
    _check_no_capture(runtime, CaptureTaskUpdateBegin.__name__, stream)
    if not isinstance(group, TaskGroup):
        raise TypeError(f"a task group must be what CaptureTaskGrpEnd() gave, not {shown(group)}")
    if group.device is not stream.context.device:
        raise runtime.error(
            Kind.INVALID_HANDLE,
            f"{group!r} is of another device or simulation than {stream!r}",
            "update it by a stream of the device of its capture",
        )
    for update in (stream.update, group.update):
        if update is not None:
            raise runtime.error(
                Kind.GROUP_STATUS,
                f"CaptureTaskUpdateBegin({stream.name}, {group.name}) during the {repr(update)[1:-1]}",
                f"call CaptureTaskUpdateEnd() on {update.stream.name} first",
            )
    runtime.pay(runtime.profile.graphs.begin)
    Update(group, stream, site)
    runtime.called(CaptureTaskUpdateBegin.__name__, enter, site, Plain((stream, group)))


@verb(acl="aclmdlRICaptureTaskUpdateEnd", step="update_end")
async def CaptureTaskUpdateEnd(stream: StreamLike) -> Completion:
    """End the update that CaptureTaskUpdateBegin() began on *stream*: its kernels replace those of the group.

    Stands for aclmdlRICaptureTaskUpdateEnd; CUDA has GraphExecUpdate(). That happens when *stream* comes to the update,
    also in launches of the graph that are queued and have not begun with these kernels. A launch that has to do the new
    work is made after that, or waits in its graph for an external event that is recorded in *stream* behind the update.

    Args:
        stream: The stream on which the update began.

    Waits:
        cuda, cuda_per_thread: For nothing: the call is refused.
        acl: For nothing.

    Returns:
        The completion of the update.

    Raises:
        AclError: NOT_SUPPORTED under CUDA's rules; CAPTURE_BEGUN if *stream* captures; GROUP_STATUS if it has begun no
            update. GROUP_UPDATE if there were fewer kernels than the group has: then the update is over and changes
            nothing. INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be used here.
        TypeError: *stream* is not a stream.
    """
    scope, runtime, site, enter = begin()
    check_signals(runtime, CaptureTaskUpdateEnd.__name__, _REMEDY)
    stream = resolve_any(scope, stream)
    _check_no_capture(runtime, CaptureTaskUpdateEnd.__name__, stream)
    update = stream.update
    if update is None:
        raise runtime.error(
            Kind.GROUP_STATUS,
            f"CaptureTaskUpdateEnd() on {stream.name}, which takes no update",
            "call CaptureTaskUpdateBegin() on it first",
        )
    runtime.pay(runtime.profile.graphs.begin)
    update.close()
    new, old = len(update.works), len(update.group.nodes)
    if new < old:
        runtime.called(CaptureTaskUpdateEnd.__name__, enter, site, Plain((stream,)))  # the update is over
        raise runtime.error(
            Kind.GROUP_UPDATE,
            f"CaptureTaskUpdateEnd() of the {repr(update)[1:-1]}, which has new work for {new} of {old} kernels",
            "launch as many kernels as between CaptureTaskGrpBegin() and CaptureTaskGrpEnd()",
        )
    completion = update.queue(site)
    runtime.scheduler.settle()
    runtime.called(CaptureTaskUpdateEnd.__name__, enter, site, Plain((stream,)))
    return completion


def _branch(call: Call, name: str, stream: StreamLike) -> Branch:
    """Return the part of *stream* in its capture; refuse a stream that does not capture."""
    scope, runtime, _, _ = call
    check_signals(runtime, name, _REMEDY)
    stream = resolve_any(scope, stream)
    if stream.branch is None:
        if stream.update is not None:
            raise runtime.error(
                Kind.GROUP_STATUS, f"{name}() during the {repr(stream.update)[1:-1]}", "use a stream that captures"
            )
        raise runtime.error(Kind.NOT_CAPTURING, f"{stream!r} does not capture", "call BeginCapture() on it first")
    return stream.branch


def _check_no_capture(runtime: Runtime, name: str, stream: Stream) -> None:
    if stream.branch is not None:
        raise runtime.error(
            Kind.CAPTURE_BEGUN,
            f"{name}() on {stream!r}, which takes part in {stream.branch.capture!r}",
            "update on a stream that does not capture",
        )
