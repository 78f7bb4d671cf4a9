"""Shows: bank conflicts in shared memory, and two layouts of a tile without them: padded and swizzled.

Scenario: a block of one warp transposes tiles of 32 x 32 numbers: it stores the rows of a tile in shared memory and
loads its columns. Shared memory has 32 banks, and in one pass each bank gives one number. In a tile as it is, all
numbers of a column are in one bank, so a load takes 32 passes: 32 ways. With an unused number behind each row, a column
has a number in every bank. A swizzle needs no more memory: number j of row i is in place i ^ j of its row.
"""

import numpy as np

import acl_py as acl
from acl_py import Array, MemcpyKind, cta

TILES, SIDE = 8, 32
LAYOUTS = {"as it is": (SIDE, False), "padded": (SIDE + 1, False), "swizzled": (SIDE, True)}


@cta.kernel(threads=SIDE)
def transpose(x: cta.In, y: cta.Out, pitch: int, is_swizzled: bool):
    def place(row, column):
        return row ^ column if is_swizzled else column

    s, t = cta.shared(np.float32, (SIDE, pitch)), cta.tid[:, None]
    each = np.arange(SIDE)[None, :]  # a thread loads and stores as many numbers at a time
    for tile in range(TILES):
        s[each, place(each, t)] = x[tile, each, t]
        cta.syncwarp()
        y[tile, each, t] = s[t, place(t, each)]
        cta.syncwarp()


def ways(launch, instruction):
    """How many passes an instruction takes: the most of all that the first block has issued."""
    rows = [row for row in launch.work.result.blocks[0].rows if row.name == instruction]
    return max(max(row.phases) for row in rows)


async def main():
    values = np.random.default_rng(0).random((TILES, SIDE, SIDE), np.float32)
    result = np.empty_like(values)
    x, y = [Array(await acl.Malloc(values.nbytes), np.float32, values.shape) for _ in range(2)]
    await acl.Memcpy(x, x.nbytes, values, values.nbytes, MemcpyKind.HOST_TO_DEVICE)
    print("layout    bytes  ways of stores  of loads     time")
    for layout, (pitch, is_swizzled) in LAYOUTS.items():
        launch = await transpose[1](x, y, pitch, is_swizzled)
        await acl.Memcpy(result, result.nbytes, y, y.nbytes, MemcpyKind.DEVICE_TO_HOST)
        assert (result == values.transpose(0, 2, 1)).all()
        stores, loads = ways(launch, "st.shared.32"), ways(launch, "ld.shared.32")
        us = (launch.end_ns - launch.start_ns) / 1000
        print(f"{layout:9} {4 * SIDE * pitch:5} {stores:15} {loads:9} {us:5.2f} us")


acl.run(main, device="h200")
