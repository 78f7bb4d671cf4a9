"""Slack where ranks wait for one another: what an operation may take longer, held against replays in which it does."""

from dataclasses import replace

import numpy as np
import pytest
from histories import busy

import acl_py as acl
from acl_py.causes.path import critical_path
from acl_py.causes.slack import slacks
from acl_py.explain.recordings import asker_of

short, long = busy("short", 100), busy("long", 500)
NBYTES = 1 << 20


async def lanes(count):
    found = []
    for device, comm in enumerate(await acl.CommInitAll(count)):
        await acl.SetDevice(device)
        memory = await acl.Malloc(NBYTES), await acl.Malloc(NBYTES)
        found.append((comm, await acl.CreateStream(), *memory))
    return found


async def synchronised(count):
    for device in range(count):
        await acl.SetDevice(device)
        await acl.SynchronizeDevice()


async def reduces():
    """Rank 2 has more work in the first round, rank 0 in the second."""
    ranks = await lanes(3)
    for kernels in ((short, short, long), (long, short, short)):
        for device, (kernel, (comm, stream, memory, _)) in enumerate(zip(kernels, ranks, strict=True)):
            await acl.SetDevice(device)
            array = acl.Array(memory, np.float32)
            await kernel[1, stream]()
            await acl.AllReduce(array, array, None, None, acl.ReduceOp.SUM, comm, stream)
    await synchronised(3)


async def passes_on():
    """Each rank computes, receives from the one before and sends to the next; the first one takes long."""
    ranks = await lanes(3)
    for device, (kernel, (comm, stream, send, recv)) in enumerate(zip((long, short, short), ranks, strict=True)):
        await acl.SetDevice(device)
        await kernel[1, stream]()
        if device:
            await acl.Recv(recv, NBYTES, "uint8", device - 1, comm, stream)
        await short[1, stream]()
        if device < 2:
            await acl.Send(send, NBYTES, "uint8", device + 1, comm, stream)
    await synchronised(3)


async def sends_early():
    """The Send ends before its Recv, which stands behind a long kernel."""
    ranks = await lanes(2)
    for device, (kernel, (comm, stream, memory, _)) in enumerate(zip((short, long), ranks, strict=True)):
        await acl.SetDevice(device)
        await kernel[1, stream]()
        if device:
            await acl.Recv(memory, NBYTES, "uint8", 0, comm, stream)
        else:
            await acl.Send(memory, NBYTES, "uint8", 1, comm, stream)
    await synchronised(2)


async def exchanges():
    """Ranks exchange in a ring, in a group each; the last one is late."""
    ranks = await lanes(4)
    for device, (kernel, (comm, stream, send, recv)) in enumerate(zip((short, short, short, long), ranks, strict=True)):
        await acl.SetDevice(device)
        await kernel[1, stream]()
        async with acl.group():
            await acl.Send(send, NBYTES, "uint8", (device + 1) % 4, comm, stream)
            await acl.Recv(recv, NBYTES, "uint8", (device - 1) % 4, comm, stream)
        await short[1, stream]()
    await synchronised(4)


def recorded(main):
    async def whole():
        await main()
        return acl.current_simulation().trace.timeline()

    return acl.run(whole, device="h200")


@pytest.mark.parametrize("main", [reduces, passes_on, sends_early, exchanges])
def test_a_kernel_may_take_its_slack_longer_and_no_more(main):
    timeline = recorded(main)
    asker = asker_of(timeline, "run")
    found = slacks(timeline, critical_path(timeline))
    launches = [step for step in asker.case.program.steps if step.is_kernel]
    kernels = sorted(
        (index for index, op in enumerate(timeline.ops) if op.kind == "kernel"), key=lambda i: timeline.ops[i].queued_ns
    )
    assert len(launches) == len(kernels)
    for launch, index in zip(launches, kernels, strict=True):

        def longer_ns(more_ns, launch=launch):
            def change(step):
                if step.index != launch.index:
                    return [step]
                return [replace(step, fields={**step.fields, "us": round(step.fields["us"] + more_ns / 1000, 3)})]

            return -asker.gain_ns(asker.case.with_steps(change))

        op = timeline.ops[index]
        assert longer_ns(found[index]) <= 0, (op.name, op.device, found[index])
        assert longer_ns(found[index] + 50_000) > 0, (op.name, op.device, found[index])


def test_the_parts_of_one_collective_have_one_slack_and_a_wait_is_slack_of_the_work_before():
    timeline = recorded(reduces)
    found = slacks(timeline, critical_path(timeline))
    rows = {(op.device, op.name, number): found[index] for index, op, number in numbered(timeline)}
    assert [rows[device, "AllReduce", 1] for device in range(3)] == [0, 0, 0]
    starts = {op.device: op.start_ns for _, op, number in numbered(timeline) if (op.name, number) == ("AllReduce", 1)}
    assert rows[2, "long", 1] == 0
    for device in (0, 1):
        assert rows[device, "short", 1] == starts[2] - starts[device]


def numbered(timeline):
    seen = {}
    for index, op in enumerate(timeline.ops):
        number = seen[op.device, op.name] = seen.get((op.device, op.name), 0) + 1
        yield index, op, number
