"""Task groups under ACL's rules: which kernels they have, what breaks them, and how an update replaces their work.

Codes and states are those of CANN's published pages and runtime; no NPU was asked.
"""

import pytest
from histories import busy, tiny, tiny_acl

import acl_py as acl
from acl_py import CaptureStatus, EventFlag, Kind

A, B, C, NEW = busy("A", 10), busy("B", 10), busy("C", 10), busy("NEW", 30)


async def refused(kind, call):
    """The call fails as *kind*."""
    with pytest.raises(acl.AclError) as caught:
        await call
    assert caught.value.kind is kind
    assert caught.value.remedy


async def captured(stream, kernels=(B,)):
    """A graph of A, a task group of *kernels*, and C; with the group."""
    await acl.BeginCapture(stream)
    await A[1, stream]()
    await acl.CaptureTaskGrpBegin(stream)
    for kernel in kernels:
        await kernel[1, stream]()
    group = await acl.CaptureTaskGrpEnd(stream)
    await C[1, stream]()
    return await acl.GraphInstantiate(await acl.EndCapture(stream)), group


async def update(stream, group, *kernels):
    await acl.CaptureTaskUpdateBegin(stream, group)
    for kernel in kernels:
        await kernel[1, stream]()
    return await acl.CaptureTaskUpdateEnd(stream)


def names():
    """The names of the operations so far, by their ends."""
    return [op.name for op in acl.current_simulation().trace.ops]


@tiny_acl
async def test_an_update_replaces_the_work_of_later_launches():
    stream, other = [await acl.CreateStream() for _ in range(2)]
    executable, group = await captured(stream)
    assert [node.name for node in group.nodes] == ["B"]
    await acl.GraphLaunch(executable, stream)
    await acl.SynchronizeStream(stream)
    await update(other, group, NEW)
    await acl.SynchronizeStream(other)
    assert names() == ["A", "B", "C"]  # an update runs nothing
    await acl.GraphLaunch(executable, stream)
    await acl.SynchronizeStream(stream)
    assert names() == ["A", "B", "C", "A", "NEW", "C"]
    [new] = [op for op in acl.current_simulation().trace.ops if op.name == "NEW"]
    assert new.end_ns - new.start_ns == 30_000


@tiny_acl
async def test_an_update_has_its_turn_in_its_stream():
    """A launch that is made before that turn does the old work, unless it begins with it after the turn."""
    stream, other = [await acl.CreateStream() for _ in range(2)]
    executable, group = await captured(stream)
    await busy("long", 1000)[1, other]()
    completion = await update(other, group, NEW)
    await acl.GraphLaunch(executable, stream)
    await acl.SynchronizeStream(stream)
    assert not completion.done
    assert names() == ["A", "B", "C"]
    await acl.SynchronizeStream(other)
    await acl.GraphLaunch(executable, stream)
    await acl.SynchronizeStream(stream)
    assert names() == ["A", "B", "C", "long", "A", "NEW", "C"]


@tiny_acl
async def test_a_queued_launch_that_waits_for_the_update_does_the_new_work():
    """As CANN's guide has it: the graph waits for an external event, which is recorded behind the update."""
    stream, other = [await acl.CreateStream() for _ in range(2)]
    updated = await acl.CreateEventWithFlag(EventFlag.SYNC)
    await acl.BeginCapture(stream)
    await A[1, stream]()
    await acl.StreamWaitEvent(stream, updated, external=True)
    await acl.CaptureTaskGrpBegin(stream)
    await B[1, stream]()
    group = await acl.CaptureTaskGrpEnd(stream)
    executable = await acl.GraphInstantiate(await acl.EndCapture(stream))
    await busy("long", 100)[1, other]()
    await update(other, group, NEW)
    await acl.RecordEvent(updated, other)
    await acl.GraphLaunch(executable, stream)
    await acl.SynchronizeDevice()
    assert names() == ["A", "long", "NEW"]


@tiny_acl
async def test_a_kernel_that_runs_goes_on_with_the_old_work():
    stream, other = [await acl.CreateStream() for _ in range(2)]
    executable, group = await captured(stream, (busy("long", 1000),))
    await acl.GraphLaunch(executable, stream)
    await acl.HostWork(100)
    await update(other, group, NEW)
    await acl.SynchronizeStream(stream)
    assert names() == ["A", "long", "C"]


@tiny_acl
async def test_only_kernels_can_be_in_a_group():
    """The call is refused and adds no node; the group is broken and the capture is not lost."""
    stream = await acl.CreateStream()
    buffer = await acl.Malloc(64)
    await acl.BeginCapture(stream)
    await acl.CaptureTaskGrpBegin(stream)
    await refused(Kind.GROUP_WORK, acl.MemsetAsync(buffer, 64, 0, 64, stream))
    await B[1, stream]()
    await refused(Kind.GROUP_WORK, acl.CaptureTaskGrpEnd(stream))
    assert await acl.IsCapturing(stream) is CaptureStatus.ACTIVE
    assert [node.name for node in (await acl.EndCapture(stream)).nodes] == ["B"]


@tiny_acl
async def test_other_streams_take_no_work_while_a_group_goes_on():
    one, two = [await acl.CreateStream() for _ in range(2)]
    fork = await acl.CreateEventWithFlag(EventFlag.SYNC)
    await acl.BeginCapture(one)
    await acl.RecordEvent(fork, one)
    await acl.StreamWaitEvent(two, fork)
    await acl.CaptureTaskGrpBegin(one)
    await refused(Kind.GROUP_INTERRUPTED, B[1, two]())
    await refused(Kind.GROUP_INTERRUPTED, acl.CaptureTaskGrpEnd(one))
    await refused(Kind.GROUP_STATUS, acl.CaptureTaskGrpEnd(one))
    await acl.EndCapture(one)


@tiny_acl
async def test_two_streams_may_each_have_a_group():
    one, two = [await acl.CreateStream() for _ in range(2)]
    fork, join = [await acl.CreateEventWithFlag(EventFlag.SYNC) for _ in range(2)]
    await acl.BeginCapture(one)
    await acl.RecordEvent(fork, one)
    await acl.StreamWaitEvent(two, fork)
    for stream in (one, two):
        await acl.CaptureTaskGrpBegin(stream)
    for stream in (one, two):
        await B[1, stream]()
    groups = [await acl.CaptureTaskGrpEnd(stream) for stream in (one, two)]
    assert [len(group.nodes) for group in groups] == [1, 1]
    await acl.RecordEvent(join, two)
    await acl.StreamWaitEvent(one, join)
    assert len((await acl.EndCapture(one)).nodes) == 2


@tiny_acl
async def test_begins_and_ends_must_be_paired():
    stream, other = [await acl.CreateStream() for _ in range(2)]
    await refused(Kind.NOT_CAPTURING, acl.CaptureTaskGrpBegin(stream))
    await refused(Kind.NOT_CAPTURING, acl.CaptureTaskGrpEnd(stream))
    await refused(Kind.GROUP_STATUS, acl.CaptureTaskUpdateEnd(stream))
    await acl.BeginCapture(stream)
    await refused(Kind.GROUP_STATUS, acl.CaptureTaskGrpEnd(stream))
    await acl.CaptureTaskGrpBegin(stream)
    await refused(Kind.GROUP_STATUS, acl.CaptureTaskGrpBegin(stream))
    await refused(Kind.GROUP_STATUS, acl.EndCapture(stream))
    assert await acl.IsCapturing(stream) is CaptureStatus.NONE
    _, group = await captured(stream)
    await acl.CaptureTaskUpdateBegin(stream, group)
    await refused(Kind.GROUP_STATUS, acl.CaptureTaskUpdateBegin(stream, group))
    await refused(Kind.GROUP_STATUS, acl.CaptureTaskUpdateBegin(other, group))
    await refused(Kind.GROUP_STATUS, acl.CaptureTaskGrpBegin(stream))
    await refused(Kind.GROUP_STATUS, acl.BeginCapture(stream))
    await acl.BeginCapture(other)
    await refused(Kind.CAPTURE_BEGUN, acl.CaptureTaskUpdateBegin(other, group))
    await refused(Kind.CAPTURE_BEGUN, acl.CaptureTaskUpdateEnd(other))
    await acl.EndCapture(other)


@tiny_acl
async def test_an_update_has_as_many_kernels_as_the_group():
    """Otherwise it changes nothing, and the stream works again after its end."""
    stream, other = [await acl.CreateStream() for _ in range(2)]
    executable, group = await captured(stream, (B, B))
    buffer = await acl.Malloc(64)
    await acl.CaptureTaskUpdateBegin(other, group)
    await NEW[1, other]()
    with pytest.raises(acl.AclError, match=r"during the update of task group 1 .*, which takes kernels only"):
        await acl.MemsetAsync(buffer, 64, 0, 64, other)
    await refused(Kind.GROUP_WORK, acl.GraphLaunch(executable, other))
    await acl.SynchronizeStream(other)
    await refused(Kind.GROUP_UPDATE, acl.CaptureTaskUpdateEnd(other))
    await acl.CaptureTaskUpdateBegin(other, group)
    await NEW[1, other]()
    await NEW[1, other]()
    await refused(Kind.GROUP_UPDATE, NEW[1, other]())
    await acl.DestroyStream(other)  # its update is gone
    await acl.GraphLaunch(executable, stream)
    await acl.SynchronizeStream(stream)
    assert names() == ["A", "B", "B", "C"]
    await update(stream, group, A, A)


@tiny_acl
async def test_a_group_of_a_lost_capture_is_of_no_use():
    stream = await acl.CreateStream()
    await acl.BeginCapture(stream)
    await acl.CaptureTaskGrpBegin(stream)
    await refused(Kind.CAPTURE_UNSUPPORTED, acl.SynchronizeStream(stream))
    await refused(Kind.CAPTURE_INVALIDATED, acl.CaptureTaskGrpEnd(stream))
    await refused(Kind.CAPTURE_INVALIDATED, acl.EndCapture(stream))


@tiny
async def test_cuda_has_no_task_groups():
    stream = await acl.CreateStream()
    await refused(Kind.NOT_SUPPORTED, acl.CaptureTaskGrpBegin(stream))
    await refused(Kind.NOT_SUPPORTED, acl.CaptureTaskGrpEnd(stream))
    await refused(Kind.NOT_SUPPORTED, acl.CaptureTaskUpdateBegin(stream, None))
    await refused(Kind.NOT_SUPPORTED, acl.CaptureTaskUpdateEnd(stream))
