"""Races of kernels on AI cores name the instructions on both sides."""

import numpy as np

import acl_py as acl
from acl_py import asc
from acl_py.sanitizer.reports import details
from tests.sanitizer.racing import H2D

TILE = 128  # elements of half


@asc.kernel
def shift(x: asc.In, y: asc.Out):
    """Copy the tile of each block from *x* to *y*."""
    source, target = (asc.GlobalTensor(asc.half).SetGlobalBuffer(each, each.nbytes // 2) for each in (x, y))
    at, local = asc.GetBlockIdx() * TILE, asc.LocalTensor(asc.half, asc.TPosition.VECCALC, 0, TILE)
    asc.DataCopy(local, source[at:], TILE)
    asc.SetFlag(asc.HardEvent.MTE2_MTE3, 0)
    asc.WaitFlag(asc.HardEvent.MTE2_MTE3, 0)
    asc.DataCopy(target[at:], local, TILE)


FIRST = shift.__wrapped__.__code__.co_firstlineno
READ, WRITE = (f"test_core_kernels.py:{FIRST + line}: DataCopy in block {{}} (AIV)" for line in (5, 8))


def stacks(program):
    """The lines of kernels in the stacks of each finding of *program*, and the findings."""

    async def whole():
        await program()
        await acl.SynchronizeDevice()
        return acl.current_simulation().findings

    findings = acl.run(whole, device="ascend910b3", sanitize="device")
    lines = [[line for line in access.stack if " in block " in line] for each in findings for access in each.accesses]
    return lines, findings


async def tiles():
    x, y, z = [await acl.Malloc(4 * TILE) for _ in "xyz"]  # two tiles each
    await acl.Memset(x, 4 * TILE, 0, 4 * TILE)
    return *(acl.Array(each, np.float16) for each in (x, y, z)), await acl.CreateStream(), await acl.CreateStream()


def test_a_launch_that_reads_what_another_one_writes():
    async def program():
        x, y, z, one, two = await tiles()
        await shift[2, one](x, y)
        await shift[2, two](y, z)

    lines, [finding] = stacks(program)
    assert lines == [[WRITE.format(0)], [READ.format(0)]]
    assert f"        from {WRITE.format(0)}" in details(finding)


def test_only_the_bytes_in_question_count():
    async def program():
        x, y, _, one, two = await tiles()
        host = await acl.MallocHost(2 * TILE)
        await shift[2, one](x, y)
        await acl.SynchronizeStream(two)
        await acl.MemcpyAsync(y[TILE:], 2 * TILE, host, 2 * TILE, H2D, two)

    assert stacks(program)[0] == [[WRITE.format(1)], []]


def test_a_launch_that_has_run_before_the_race_is_found():
    async def program():
        x, y, z, one, two = await tiles()
        await shift[2, one](x, y)
        await acl.Sleep(1000)
        await shift[2, two](y, z)

    assert stacks(program)[0] == [[WRITE.format(0)], [READ.format(0)]]


def test_a_launch_that_does_not_touch_the_bytes_it_declares_has_no_such_line():
    async def program():
        x, y, _, one, two = await tiles()
        await shift[1, one](x, y)
        await acl.MemsetAsync(y[TILE:], 2 * TILE, 0, 2 * TILE, two)

    assert stacks(program)[0][:2] == [[], []]
