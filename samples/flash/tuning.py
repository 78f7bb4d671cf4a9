"""Shows: tuning over tiles in two processes: which tiles of FlashAttention are the fastest, and which do not fit.

Scenario: the kernel for AI cores beside this file has three numbers to choose: B_r queries and B_c keys of a tile, and
how many tiles are in flight between the cube core and its vector cores. asc.tune runs the kernel with each choice,
compares the result with float64, and makes a table. Larger tiles load fewer keys, until one of the memories of a core
is too small; its row says which. The table is the same for any number of processes. Then the best choice is launched.
"""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from aicore import DEVICE, Config, Shape, attend, flash_attention, is_right, random_inputs

import acl_py as acl
from acl_py import asc

SHAPE = Shape(1, 256, 256, 128)
BLOCKS = 2
CHOICES = {"br": (64, 128, 256), "bc": (64, 128, 256), "stages": (1, 4)}


def tuned(executor=None, choices=CHOICES, shape=SHAPE):
    """Return the table of *choices* for *shape*."""
    q, k, v = random_inputs(shape)
    largest = Config(*map(max, choices.values()))
    workspace = np.zeros(largest.workspace_bytes(shape.d, BLOCKS), np.uint8)
    args = q, k, v, np.zeros_like(q), workspace, shape
    return asc.tune(flash_attention, BLOCKS, args, choices, device=DEVICE, check=is_right, executor=executor)


async def launch_best(best):
    launch, right = await attend(SHAPE, Config(**best.choice), BLOCKS)
    print(f"\nlaunched: {best.choice}, {(launch.end_ns - launch.start_ns) / 1000:.2f} us, right: {right}")


def main():
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        tuning = tuned(executor)
    print(tuning)
    acl.run(launch_best, tuning.best, device=DEVICE)


if __name__ == "__main__":
    main()
