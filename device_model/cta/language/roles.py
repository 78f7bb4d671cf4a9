"""Roles: parts of a block that run programs of their own (warp specialisation).

The rows of a warp are in the order of its own role, which is all that timing needs; strands.py runs the roles.
"""

from collections.abc import Callable

import numpy as np

from device_model.cta.block import running
from device_model.kernel.findings import KernelError
from device_model.kernel.sites import site
from device_model.sm.names import WARP


def roles(*parts: tuple[int, Callable[[], object]]) -> None:
    """Let parts of the block run programs of their own, and go on when all of them have ended.

        cta.roles((32, producer), (96, consumer))

    In a program, only the threads of its part are active. They wait for others at named barriers and mbarriers, or at
    syncthreads that all threads of the block call.

    Args:
        parts: A number of threads, a multiple of 32, and the program of these; the first part has the first threads.

    Raises:
        KernelError: The numbers are impossible, or threads of the block are not active.
        KernelHangError: All parts wait, and none can go on.
    """
    block = running()
    counts = [count for count, _ in parts]
    if any(count <= 0 or count % WARP for count in counts) or sum(counts) > block.threads or not block.is_whole:
        raise KernelError(
            f"roles of {', '.join(map(str, counts))} threads at {site()}, in {block} with {len(block.active)} of "
            f"{block.threads} threads active",
            f"give multiples of {WARP} that are not more than the block has, outside of where() and other roles",
        )
    numbers = np.full(block.threads, -1, np.int64)
    numbers[: sum(counts)] = np.repeat(np.arange(len(parts)), counts)
    from device_model.cta.language import strands  # imported here: most kernels have no roles, and need no greenlet

    own = [strands.RoleStrand(block, numbers == number, program) for number, (_, program) in enumerate(parts)]
    block.roles = numbers
    block.order.begin_roles()
    try:
        strands.run(block, own)
    finally:
        block.roles = None


def park(where: str, ready: Callable[[], bool]) -> bool:
    """Let other roles run until *ready()* is true; return False if the caller is no role. *where* is for messages."""
    if running().roles is None:
        return False
    from device_model.cta.language import strands  # imported by now

    strands.park(where, ready)
    return True
