"""Shows: the same kernel with events instead of queues, and what happens when one of them is forgotten.

Scenario: z = x + y with two sets of tensors at fixed addresses, and events between the pipes, the style of kernels that
must save every cycle. There are three versions: a right one, one that does not wait for its copies before it adds, and
the same with `weak=True`. With a forgotten flag, results are often right because the times happen to fit. The check for
hazards therefore looks at the order that flags give, not at times. It reports both bad versions, with the two lines and
the missing event. In weak mode the read also sees the old bytes, so that the result is wrong too.
"""

import numpy as np

import acl_py as acl
from acl_py import Array, MemcpyKind, asc

TILE = 2048  # halves
TILES = 4
MTE2_V, V_MTE3 = asc.HardEvent.MTE2_V, asc.HardEvent.V_MTE3  # data is ready
V_MTE2, MTE3_V = asc.HardEvent.V_MTE2, asc.HardEvent.MTE3_V  # a buffer is free


def add_tiles(x, y, z, waits_for_copies):
    x_gm, y_gm, z_gm = (asc.GlobalTensor(asc.half).SetGlobalBuffer(part) for part in (x, y, z))
    sets = [
        [asc.LocalTensor(asc.half, asc.TPosition.VECCALC, (3 * number + place) * TILE * 2, TILE) for place in range(3)]
        for number in range(2)
    ]
    for number in range(2):
        asc.SetFlag(V_MTE2, number)
        asc.SetFlag(MTE3_V, number)
    for tile in range(TILES):
        number = tile % 2
        a, b, c = sets[number]
        asc.WaitFlag(V_MTE2, number)
        asc.DataCopy(a, x_gm[tile * TILE :], TILE)
        asc.DataCopy(b, y_gm[tile * TILE :], TILE)
        if waits_for_copies:
            asc.SetFlag(MTE2_V, number)
            asc.WaitFlag(MTE2_V, number)
        asc.WaitFlag(MTE3_V, number)
        asc.Add(c, a, b, TILE)
        asc.SetFlag(V_MTE2, number)
        asc.SetFlag(V_MTE3, number)
        asc.WaitFlag(V_MTE3, number)
        asc.DataCopy(z_gm[tile * TILE :], c, TILE)
        asc.SetFlag(MTE3_V, number)
    for number in range(2):  # waits for the flags set before the loop; the next kernel would find them set
        asc.WaitFlag(V_MTE2, number)
        asc.WaitFlag(MTE3_V, number)


@asc.kernel
def right(x: asc.In, y: asc.In, z: asc.Out):
    add_tiles(x, y, z, waits_for_copies=True)


@asc.kernel
def forgetful(x: asc.In, y: asc.In, z: asc.Out):
    add_tiles(x, y, z, waits_for_copies=False)


@asc.kernel(weak=True)
def forgetful_and_unlucky(x: asc.In, y: asc.In, z: asc.Out):
    add_tiles(x, y, z, waits_for_copies=False)


async def main():
    values = np.arange(TILES * TILE).astype(np.float16)
    result = np.empty_like(values)
    x, y, z = [Array(await acl.Malloc(values.nbytes), np.float16) for _ in range(3)]
    for array in (x, y):
        await acl.Memcpy(array, array.nbytes, values, values.nbytes, MemcpyKind.HOST_TO_DEVICE)
    for kernel in (right, forgetful, forgetful_and_unlucky):
        launch = await kernel[1](x, y, z)
        await acl.SynchronizeDevice()
        await acl.Memcpy(result, result.nbytes, z, z.nbytes, MemcpyKind.DEVICE_TO_HOST)
        wrong = np.count_nonzero(result != values + values)
        findings = launch.work.result.findings
        print(f"{kernel.name}: {wrong:,} of {result.size:,} numbers are wrong, {len(findings)} findings\n")


acl.run(main, device="ascend910b1")
