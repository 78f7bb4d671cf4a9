"""Shows: a sweep over streams, chunks and cards, and its heat map.

Scenario: 8 MiB go to the device, through a kernel, and back. In one piece, nothing overlaps. In chunks over several
streams, a chunk goes up while another is computed and a third comes down; but each chunk costs calls, and the start of
a kernel. How many streams, and which chunk? Each of three cards has another answer. The name
of a file as argument is for a picture of all times, which needs matplotlib.
"""

import sys

import numpy as np

import acl_py as acl

SIZE = 8 << 20
GRID = {
    "streams": [1, 2, 3, 4, 6],
    "chunk": [1 << 18, 1 << 19, 1 << 20, 1 << 21, 1 << 22],
    "device": ["h200", "ascend910b1", "ascend310p3"],
}


@acl.kernel(cost=acl.Cost(bytes=lambda x: 12 * x.nbytes))
def add_one(x: acl.InOut):
    x += 1


async def main(streams=2, chunk=1 << 20):
    """Bring 8 MiB to the device and back, in chunks over some streams."""
    made = [await acl.CreateStream() for _ in range(streams)]
    pinned, buffer = await acl.MallocHost(SIZE), await acl.Malloc(SIZE)
    pinned.numpy()[:] = 0
    begin_ns = acl.current_simulation().now_ns
    for index, start in enumerate(range(0, SIZE, chunk)):
        stream, part = made[index % streams], slice(start, start + chunk)
        await acl.MemcpyAsync(buffer[part], chunk, pinned[part], chunk, acl.MemcpyKind.HOST_TO_DEVICE, stream)
        await add_one[16, stream](buffer[part])
        await acl.MemcpyAsync(pinned[part], chunk, buffer[part], chunk, acl.MemcpyKind.DEVICE_TO_HOST, stream)
    await acl.SynchronizeDevice()
    end_ns = acl.current_simulation().now_ns
    assert np.all(pinned.numpy() == 1)
    for stream in made:
        await acl.DestroyStream(stream)
    await acl.Free(buffer)
    await acl.FreeHost(pinned)
    return {"transfer_us": (end_ns - begin_ns) / 1000}


if __name__ == "__main__":
    result = acl.sweep(main, GRID, workers=1)
    for device in GRID["device"]:
        of_card = [row for row in result if row.point["device"] == device]
        for what, rows in (("best", of_card), ("one stream", [row for row in of_card if row.point["streams"] == 1])):
            best = min(rows, key=lambda row: row.value("transfer_us"))
            streams, chunk, us = best.point["streams"], best.point["chunk"] >> 10, best.value("transfer_us")
            print(f"{device:12} {what:10} {us:6,.0f} us with {streams} streams and chunks of {chunk:,} KiB")
    if len(sys.argv) > 1:
        result.plot("transfer_us", "streams", "chunk").savefig(sys.argv[1])
