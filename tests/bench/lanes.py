"""What a launch of a kernel in PTX costs the simulator: processor time, with the check for races and without.

The kernels are samples and rows of rows/ptx_h200.json. Times are those of a launch and the wait for it, the least of
several; the first launch, which also compiles, is left out. Of the empty kernel it is the least of several means of
many launches.
"""

import json
from pathlib import Path
from time import process_time
from typing import NamedTuple

import acl_py as acl
from acl_py import ptx
from tests.bench.measure import show

RUNS, LAUNCHES = 5, 1000
MILLION = 1 << 20
_SAMPLES = Path(__file__).parents[2] / "samples" / "ptx"
_ROWS = Path(__file__).parent / "rows" / "ptx_h200.json"
_EMPTY = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry empty()\n{\n    ret;\n}\n"


class Row(NamedTuple):
    """A *kernel* and its launch: the bytes of its buffers, and the *number* that is its last argument."""

    title: str
    kernel: str
    grid: object
    block: object
    nbytes: tuple[int, ...]
    number: int


ROWS = (
    Row("add of 2^20 threads", "add", MILLION // 256, 256, (4 * MILLION,) * 3, MILLION),
    Row("sum of 2^20 numbers by blocks", "reduce_tree", 256, 256, (4 * MILLION, 1024, 4, 4), MILLION),
    Row("matrix product of 256", "matmul_tile16", (16, 16), (16, 16), (4 * 256 * 256,) * 3, 256),
    Row("2^20 atomics in shared memory", "hist_shared", 528, 256, (MILLION, 1024), MILLION),
)


def main():
    texts = {name: kernel["ptx"] for name, kernel in json.loads(_ROWS.read_text("utf-8"))["kernels"].items()}
    texts |= {"add": (_SAMPLES / "vector_add.ptx").read_text("utf-8"), "empty": _EMPTY}
    found = [acl.run(_seconds, texts, hazards, device="h200", rules="cuda") for hazards in (True, False)]
    rows = [(title, *(f"{1000 * seconds[title]:,.3f}" for seconds in found)) for title in found[0]]
    show(
        f"Launches of kernels in PTX: milliseconds of processor time, the least of {RUNS}, empty ones of {LAUNCHES:,}",
        ("kernel", "with the check for races", "without"),
        rows,
    )


async def _seconds(texts, hazards):
    """The seconds of each row."""
    found = {row.title: await _of_row(texts[row.kernel], row, hazards) for row in ROWS}
    empty = (await ptx.load(texts["empty"], hazards=hazards))["empty"]
    found["empty kernel"] = await _mean(lambda: empty[1, 32]())
    return found | {"empty kernel over arrays, not in PTX": await _mean(lambda: of_arrays[1]())}


async def _mean(launch):
    await launch()
    means = []
    for _ in range(RUNS):
        begin = process_time()
        for _ in range(LAUNCHES):
            await launch()
        await acl.SynchronizeDevice()
        means.append((process_time() - begin) / LAUNCHES)
    return min(means)


@acl.kernel(cost=acl.Cost(us=1))
def of_arrays():
    pass


async def _of_row(text, row, hazards):
    kernel = (await ptx.load(text, hazards=hazards))[row.kernel]
    buffers = [await acl.Malloc(each) for each in row.nbytes]
    for buffer in buffers:
        await acl.Memset(buffer, buffer.nbytes, 0, buffer.nbytes)
    times = []
    for _ in range(RUNS + 1):
        begin = process_time()
        await kernel[row.grid, row.block](*buffers, row.number)
        await acl.SynchronizeDevice()
        times.append(process_time() - begin)
    for buffer in buffers:
        await acl.Free(buffer)
    return min(times[1:])
