"""Shows: the flags that queues set. AddCustom with raw flags, and as a pipeline with flags or with queues.

Scenario: z = x + y on 8 vector cores, with two buffers. The first kernel sets all flags by hand: each buffer has an
event id for "full" and one for "free". The free flags are set before the loop and waited for after it. The second
kernel says only what each stage does, and Pipeline orders the stages, with raw events or with queues. With events, it
sets the flags of the first kernel, one by one. Queues set no flags before the loop, because they know which buffers
were never used. They cost the scalar pipe some work.
"""

import numpy as np

import acl_py as acl
from acl_py import Array, MemcpyKind, asc

BLOCKS = 8
TILE, TILES = 2048, 8  # halves; tiles of a block
BUFFERS = 2
MTE2_V, V_MTE3 = asc.HardEvent.MTE2_V, asc.HardEvent.V_MTE3  # full
V_MTE2, MTE3_V = asc.HardEvent.V_MTE2, asc.HardEvent.MTE3_V  # free


def of_block(*buffers):
    """Return the parts of *buffers* that belong to this block."""
    first = asc.GetBlockIdx() * TILES * TILE
    return [asc.GlobalTensor(asc.half).SetGlobalBuffer(buffer[first:], TILES * TILE) for buffer in buffers]


@asc.kernel
def by_hand(x: asc.In, y: asc.In, z: asc.Out):
    x_gm, y_gm, z_gm = of_block(x, y, z)
    sets = [
        [asc.LocalTensor(asc.half, asc.TPosition.VECCALC, (3 * number + place) * TILE * 2, TILE) for place in range(3)]
        for number in range(BUFFERS)
    ]
    for number in range(BUFFERS):
        asc.SetFlag(V_MTE2, number)
        asc.SetFlag(MTE3_V, number)
    for tile in range(TILES):
        number = tile % BUFFERS
        a, b, c = sets[number]
        asc.WaitFlag(V_MTE2, number)
        asc.DataCopy(a, x_gm[tile * TILE :], TILE)
        asc.DataCopy(b, y_gm[tile * TILE :], TILE)
        asc.SetFlag(MTE2_V, number)
        asc.WaitFlag(MTE2_V, number)
        asc.WaitFlag(MTE3_V, number)
        asc.Add(c, a, b, TILE)
        asc.SetFlag(V_MTE3, number)
        asc.SetFlag(V_MTE2, number)
        asc.WaitFlag(V_MTE3, number)
        asc.DataCopy(z_gm[tile * TILE :], c, TILE)
        asc.SetFlag(MTE3_V, number)
    for number in range(BUFFERS):
        asc.WaitFlag(V_MTE2, number)
        asc.WaitFlag(MTE3_V, number)


def add_in_stages(x, y, z, link):
    x_gm, y_gm, z_gm = of_block(x, y, z)

    def load(tile, a, b):
        asc.DataCopy(a, x_gm[tile * TILE :], TILE)
        asc.DataCopy(b, y_gm[tile * TILE :], TILE)

    def add(_, a, b, c):
        asc.Add(c, a, b, TILE)

    def store(tile, c):
        asc.DataCopy(z_gm[tile * TILE :], c, TILE)

    pipeline = asc.Pipeline(asc.TPipe(), BUFFERS, link)
    pipeline.AddStage(asc.Pipe.MTE2, load, [(asc.half, TILE), (asc.half, TILE)])
    pipeline.AddStage(asc.Pipe.V, add, [(asc.half, TILE)])
    pipeline.AddStage(asc.Pipe.MTE3, store)
    pipeline.Run(range(TILES))


@asc.kernel
def stages_with_flags(x: asc.In, y: asc.In, z: asc.Out):
    add_in_stages(x, y, z, asc.FlagLink)


@asc.kernel
def stages_with_queues(x: asc.In, y: asc.In, z: asc.Out):
    add_in_stages(x, y, z, asc.QueueLink)


def flags_in_the_loop(program):
    """Return the names of the flag instructions between the first copy and the last."""
    names = [each.name for each in program.instructions]
    last = len(names) - names[::-1].index("DataCopy")
    return [name for name in names[names.index("DataCopy") : last] if "Flag" in name]


async def main():
    rng = np.random.default_rng(0)
    values = [rng.integers(-99, 100, BLOCKS * TILES * TILE).astype(np.float16) for _ in range(2)]
    result = np.empty_like(values[0])
    flags = {}
    x, y, z = [Array(await acl.Malloc(result.nbytes), np.float16) for _ in range(3)]
    for array, numbers in zip((x, y), values, strict=True):
        await acl.Memcpy(array, array.nbytes, numbers, numbers.nbytes, MemcpyKind.HOST_TO_DEVICE)
    for kernel in (by_hand, stages_with_flags, stages_with_queues):
        asc.reset_l2()  # or the second kernel would find the inputs of the first one in the L2
        launch = await kernel[BLOCKS](x, y, z)
        await acl.SynchronizeDevice()
        await acl.Memcpy(result, result.nbytes, z, z.nbytes, MemcpyKind.DEVICE_TO_HOST)
        ran = launch.work.result
        flags[kernel] = flags_in_the_loop(ran.programs[0])
        print(
            f"{kernel.name:20} as NumPy's: {np.array_equal(result, values[0] + values[1])}, "
            f"{len(ran.findings)} findings, {(launch.end_ns - launch.start_ns) / 1000:.2f} us, "
            f"scalar {ran.timeline.busy_us['scalar']:.2f} us"
        )
    print("the stages set the flags that were set by hand:", flags[stages_with_flags] == flags[by_hand])
    for kernel in (by_hand, stages_with_queues):
        print(f"{kernel.name}, first tile:", " ".join(flags[kernel][: flags[kernel].index("SetFlag<MTE3_V>") + 1]))


acl.run(main, device="ascend910b1")
