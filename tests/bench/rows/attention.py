"""Attention on halves by the kernel of samples/flash, beside a published kernel of another author (910B2).

The published one has the same parts: tiles of 128 queries, a core for each, scores and shares between cube and vector
cores through rings in GM. The cube core is four tiles of scores ahead, so a ring has five slots, as `Config(stages=5)`
has. That number was taken from there, and no constant of the profile was fitted on these rows. By default a tile of the
published kernel has 256 keys; here it has 128.

Published are means of 50 launches in a row, so the L2 is warm (PTO-ISA, demos/torch_jit/flash_atten/README.md, on a
host with aarch64).
"""

import sys
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np

from device_model.aicore.runner import Result, run
from device_model.aicore.timing.l2 import Cache
from device_model.profile import load
from tests.bench.rows import Row

SAMPLE = Path(__file__).parents[3] / "samples" / "flash"
CARD = "ascend910b2"
D, SIDE, STAGES = 128, 128, 5
PUBLISHED = {  # us, by queries and keys
    (128, 2048): 23.42, (128, 8192): 68.778, (256, 2048): 23.939, (256, 8192): 71.212, (512, 2048): 24.787,
    (512, 8192): 74.903, (1024, 2048): 26.221, (1024, 8192): 76.855, (2048, 2048): 36.055, (2048, 8192): 107.78,
}  # fmt: skip


def attention(
    queries: int, keys: int, blocks: int | None = None, launches: int = 2, card: str = CARD, heads: int = 1
) -> Result:
    """Run the kernel with *blocks* cores, by default one for each 128 queries; return the last of *launches* in a row.

    What a launch leaves in the L2 is there for the next one.
    """
    sys.path.append(str(SAMPLE))
    try:
        sample = import_module("aicore")
    finally:
        sys.path.remove(str(SAMPLE))
    shape, config = sample.Shape(heads, queries, keys, D), sample.Config(SIDE, SIDE, STAGES)
    blocks = queries // SIDE if blocks is None else blocks
    q, k, v, out = (np.zeros((heads, length, D), np.float16) for length in (queries, keys, keys, queries))
    args = q, k, v, out, np.zeros(config.workspace_bytes(D, blocks), np.uint8), shape, SIDE, SIDE, STAGES
    kernel, spec = sample.flash_attention, load(card).aicore
    l2 = Cache(spec.l2_bytes)
    for _ in range(launches):
        result = run(
            kernel.function, blocks, args, spec, kind=kernel.kernel_type, hazards=False, values=False, l2=l2
        )  # fmt: skip
    return result


ROWS = [
    Row("Attention", f"{queries} queries, {keys} keys", CARD, us, partial(attention, queries, keys), reads="task")
    for (queries, keys), us in PUBLISHED.items()
]
