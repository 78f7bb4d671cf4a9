"""How many instructions of simulated AI cores a second takes, beside the same kernel's body as a bare NumPy loop."""

from functools import partial
from time import perf_counter, process_time

import numpy as np

from device_model.aicore.core.names import KernelType
from device_model.aicore.core.tensors import half
from device_model.aicore.cube.matmul_tiling import multi_core_matmul_tiling
from device_model.aicore.runner import run
from device_model.profile import load
from tests.bench.measure import interleaved, processor_seconds, ratio, say, show, spread, target
from tests.bench.rows.matmuls import multiply
from tests.bench.rows.vector_adds import vector_add

CORES = 48
TILE = 16384  # halves: 32 KB
SIZE = 85 * CORES * TILE  # 8160 x 8192: whole tiles for each core
ROUNDS = 3
SMALL = 2048  # halves of a tile where what an instruction costs counts
TILES = 20  # of each block
SIDE = 1024  # of a product of 24 cores without values
PRODUCT = "from tests.bench.rows.matmuls import product; product('ascend910b1', 1024, 1024, 1024)"
# What the libraries that NumPy may be built with read at their start.
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "OMP_NUM_THREADS"), "1")


def main():
    _instructions()
    _alike()
    _products()


def _products():
    """Small products of cube cores, which threads of BLAS would spin on: a process for each run, from start to end."""
    ways = {"as it is": {}, "BLAS has one thread from the start": ONE_THREAD}
    results = interleaved(
        {way: (way,) for way in ways}, ROUNDS, lambda way: processor_seconds(["-c", PRODUCT], **ways[way])
    )
    show(
        "AI cores: a product of 1024 x 1024 x 1024 halves, each process as a whole",
        ("BLAS", "s of processor time"),
        [(way, spread(runs)) for way, runs in results.items()],
    )
    says = ratio(*results.values())
    say(f"  as it is : one thread from the start  {target(says, 1.1)}\n")


def alone(kernel):
    """Return *kernel*, which notes that it is called: so no block stands for another one."""
    calls = []

    def noting(*args):
        calls.append(None)
        kernel(*args)

    return noting


def _alike():
    """Blocks that do the same, against the same blocks one by one."""
    spec, instructions = load("ascend910b1").aicore, {}
    x, y, z = (np.full(CORES * TILES * SMALL, value, np.float16) for value in (1, 2, 0))
    add = partial(vector_add, x.size, SMALL, 1, 1, 1)
    tiling = multi_core_matmul_tiling(spec, SIDE, SIDE, SIDE, half, cores=spec.cube_cores)
    factors = [np.zeros((SIDE, SIDE), np.float16) for _ in range(3)]
    launches = {
        "AddCustom": (add, CORES, (x, y, z), {}),
        "AddCustom without values": (add, CORES, (x, y, z), {"values": False}),
        f"product of {SIDE} cubed without values": (
            multiply, tiling.used_core_num, (*factors, tiling, False),
            {"values": False, "hazards": False, "kind": KernelType.AIC_ONLY},
        ),
    }  # fmt: skip

    def took(name, is_alone):
        kernel, blocks, args, options = launches[name]
        begin = process_time()
        result = run(alone(kernel) if is_alone else kernel, blocks, args, spec, **options)
        seconds = process_time() - begin
        instructions[name] = sum(len(program.instructions) for program in result.programs)
        return seconds

    ways = {(name, way): (name, way == "one by one") for name in launches for way in ("one by one", "as one")}
    results = interleaved(ways, ROUNDS, took)
    show(
        f"AI cores: blocks that do the same, on {CORES} cores with tiles of {SMALL} halves and on {spec.cube_cores}",
        ("launch", "blocks", "instructions", "us of processor time per instruction"),
        [
            (name, way, f"{instructions[name]:,}", spread([each * 1e6 / instructions[name] for each in runs]))
            for (name, way), runs in results.items()
        ],
    )
    for name in launches:
        says = ratio(results[name, "one by one"], results[name, "as one"])
        say(f"  {name}, one by one : as one  {target(says, 2.5, at_least=True)}")
    say("")


def _instructions():
    x, y, z = (np.full(SIZE, value, np.float16) for value in (1, 2, 0))
    spec = load("ascend910b1").aicore
    instructions = []

    def simulated(hazards, timing):
        z.fill(0)
        begin = perf_counter()
        result = run(partial(vector_add, SIZE, TILE, 1, 1, 1), CORES, (x, y, z), spec, hazards=hazards, timing=timing)
        took = perf_counter() - begin
        instructions[:] = [sum(len(program.instructions) for program in result.programs)]
        assert z.min() == z.max() == 3
        return took

    ways = {
        "NumPy, the same tiles": (lambda: _bare(x, y, z),),
        "hazards off, no times": (lambda: simulated(False, False),),
        "hazards off": (lambda: simulated(False, True),),
        "hazards on": (lambda: simulated(True, True),),
    }
    results = interleaved(ways, ROUNDS, lambda way: way())
    (count,) = instructions
    bare = results["NumPy, the same tiles"]
    own = {
        way: [(took - least) * 1e6 / count for took, least in zip(runs, bare, strict=True)]
        for way, runs in results.items()
    }
    show(
        f"AI cores: AddCustom with queues of 8160 x 8192 halves on {CORES} cores, 32 KB tiles, {count:,} instructions",
        ("by", "s", "instructions/s", "us per instruction, without NumPy's"),
        [
            (
                way,
                spread(runs),
                spread([count / took for took in runs], "{:,.0f}") if runs is not bare else "",
                spread(own[way], "{:.1f}") if runs is not bare else "",
            )
            for way, runs in results.items()
        ],
    )
    say(f"  with hazards, s                       {target(np.median(results['hazards on']), 3)}")
    say(f"  us per instruction, hazards on        {target(np.median(own['hazards on']), 15, form='{:.1f}')}")
    say(f"  us per instruction, hazards off       {target(np.median(own['hazards off']), 6, form='{:.1f}')}")
    timed = [after - before for after, before in zip(own["hazards off"], own["hazards off, no times"], strict=True)]
    say(f"  of that, to find the times            {np.median(timed):.1f}")
    say(f"  hazards on : NumPy                    {ratio(results['hazards on'], bare):.1f} times as long\n")


def _bare(x, y, z):
    """What the kernel's instructions do: two tiles in, a sum, a tile out."""
    begin = perf_counter()
    a, b, c = (np.empty(TILE, np.float16) for _ in range(3))
    for start in range(0, SIZE, TILE):
        a[:] = x[start : start + TILE]
        b[:] = y[start : start + TILE]
        np.add(a, b, out=c)
        z[start : start + TILE] = c
    return perf_counter() - begin
