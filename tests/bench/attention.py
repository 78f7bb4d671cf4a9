"""How long simulated FlashAttention of thread blocks takes, and a block of 128 threads beside one of 32."""

import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from device_model.cta.launch import Machine, Options, Parameter, run_on_arrays
from device_model.profile import load
from tests.bench.measure import interleaved, ratio, say, show, spread, target

SAMPLE = Path(__file__).parents[2] / "samples" / "flash"
HEADS, LENGTH, D = 64, 512, 128
BLOCKS = 16  # of each number of threads, for their ratio
ROUNDS = 5
LIMIT = 20  # seconds for all heads
PARAMETERS = (
    *(Parameter(name, is_read=True, is_written=False) for name in "qkv"),
    Parameter("out", is_read=False, is_written=True),
)


def main():
    sys.path.append(str(SAMPLE))
    try:
        wall, busy, rows = _attend(4, HEADS, LENGTH)
        results = interleaved(
            {f"{32 * warps} threads": (warps,) for warps in (1, 4)},
            ROUNDS,
            lambda warps: _attend(warps, 1, BLOCKS * 16 * warps)[1] / BLOCKS * 1000,
        )
    finally:
        sys.path.remove(str(SAMPLE))
    blocks = HEADS * LENGTH // 64
    say(
        f"Thread blocks: attention of {HEADS} heads, d {D}, {LENGTH} positions, the last step of samples/flash\n"
        f"{blocks} blocks of 128 threads, {rows} rows of instructions each, hazards on"
    )
    say(f"  s                          {target(wall, LIMIT, form='{:.1f}')}")
    say(f"  s of processor time        {busy:.1f}")
    say(f"  us per row                 {busy / blocks / rows * 1e6:.0f}\n")
    show(
        "Thread blocks: one block with 16 queries for each warp",
        ("by", "ms of processor time"),
        [(threads, spread(runs, "{:.1f}")) for threads, runs in results.items()],
    )
    few, many = results.values()
    say(f"  128 : 32 threads           {target(ratio(many, few), 2)}\n")


def _attend(warps, heads, queries):
    """Run the last step of the sample; return its seconds, those of the processor, and the rows of a block."""
    aicore, config, forward = (import_module(name) for name in ("aicore", "config", "forward"))
    kernel = config.progression(d_head=D, n_warps=warps, b_r=16 * warps)[-1][1]
    shape = aicore.Shape(heads, queries, LENGTH, D)
    arrays = [each.reshape(*each.shape[:2], -1, 8) for each in aicore.random_inputs(shape, kernel.dtype, 0)]
    profile = load("h200")
    before = perf_counter(), process_time()
    result = run_on_arrays(
        partial(forward.forward, kernel, shape),
        (*forward.grid_of(kernel, heads, queries), 1),
        [*arrays, np.zeros_like(arrays[0])],
        machine=Machine(profile.sm, profile.cores.count, 0),
        options=Options(kernel.threads, kernel.shared_bytes, 128),
        parameters=PARAMETERS,
    )
    after = perf_counter(), process_time()
    assert not len(result.findings)
    return after[0] - before[0], after[1] - before[1], len(result.blocks[0].rows)
