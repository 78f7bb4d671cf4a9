"""How long a product of 8192 x 8192 x 8192 halves on 24 AI cores takes, without its values and with them."""

from time import process_time

import numpy as np

from device_model.aicore.core.names import KernelType
from device_model.aicore.core.tensors import float32, half
from device_model.aicore.cube.matmul_tiling import multi_core_matmul_tiling
from device_model.aicore.runner import run
from device_model.compiled import CORE
from device_model.profile import load
from tests.bench.measure import say, show, target
from tests.bench.rows.matmuls import multiply

SIDE = 8192
GOALS = {False: 15, True: 60}  # seconds, by whether values are computed


def main():
    spec = load("ascend910b1").aicore
    tiling = multi_core_matmul_tiling(spec, SIDE, SIDE, SIDE, half, cores=spec.cube_cores)
    chance = np.random.default_rng(1)
    a, b = (chance.standard_normal((SIDE, SIDE), np.float32).astype(half) for _ in range(2))
    c = np.zeros((SIDE, SIDE), float32)
    took, count = {}, 0
    for values in GOALS:
        begin = process_time()
        result = run(
            multiply, tiling.used_core_num, (a, b, c, tiling, False), spec, kind=KernelType.AIC_ONLY, hazards=False,
            values=values,
        )  # fmt: skip
        took[values] = process_time() - begin
        count = sum(len(program.instructions) for program in result.programs)
    np.testing.assert_allclose(c[:4], a[:4].astype(np.float32) @ b.astype(np.float32), atol=SIDE * 1e-6)
    show(
        f"AI cores: a product of {SIDE} cubed, {count:,} instructions, {CORE}",
        ("values", "s of processor time"),
        [("computed" if values else "off", f"{seconds:.1f}") for values, seconds in took.items()],
    )
    for values, seconds in took.items():
        say(f"  {'with' if values else 'without'} values, s  {target(seconds, GOALS[values], form='{:.1f}')}")
    say("")
