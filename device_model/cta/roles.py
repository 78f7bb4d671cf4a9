"""Roles: parts of a block that run programs of their own (warp specialisation).

Each role is a greenlet. It runs until it ends or waits at a barrier that is not complete; then the next one runs. So
the order is the same in each run. The rows of a warp are in the order of its own role, which is all that timing needs.
"""

from collections.abc import Callable
from contextvars import copy_context
from functools import partial

import numpy as np
from greenlet import getcurrent, greenlet

from device_model.cta.block import Block, running, threads_text
from device_model.cta.names import WARP, Bools
from device_model.kernel.findings import KernelError, KernelHangError
from device_model.kernel.sites import site


class _Role(greenlet):
    """A part of a block: its threads, and the wait in which it is."""

    def __init__(self, block: Block, mask: Bools, program: Callable[[], object]) -> None:
        super().__init__(partial(_play, block, mask, program))
        self.gr_context = copy_context()  # it runs the same block
        self.name = threads_text(block.tids[mask])
        self.where = "its start"
        self.ready: Callable[[], bool] | None = None


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
    numbers = np.full(block.threads, -1)
    numbers[: sum(counts)] = np.repeat(np.arange(len(parts)), counts)
    strands = [_Role(block, numbers == number, program) for number, (_, program) in enumerate(parts)]
    block.roles = numbers
    block.order.begin_roles()
    _run(block, strands)


def park(where: str, ready: Callable[[], bool]) -> bool:
    """Let other roles run until *ready()* holds; return False if the caller is no role. *where* is for messages."""
    role = getcurrent()
    if not isinstance(role, _Role):
        return False
    block = running()
    before = block.active, block.warps_active
    role.where, role.ready = f"{where} at {site()}", ready
    assert role.parent is not None, "a role has a parent"
    role.parent.switch()
    role.ready = None
    block.active, block.warps_active = before
    return True


def _play(block: Block, mask: Bools, program: Callable[[], object]) -> None:
    with block.only(mask):
        program()


def _run(block: Block, strands: list[_Role]) -> None:
    before = block.active, block.warps_active
    alive = strands
    try:
        while alive:
            moved = False
            for role in alive:
                if role.ready is None or role.ready():
                    moved = True
                    role.switch()
                    block.active, block.warps_active = before
            alive = [role for role in alive if not role.dead]
            if not moved:
                waits = "; ".join(f"{role.name} in {role.where}" for role in alive)
                hang = KernelHangError(
                    f"roles of {block} wait, and none can continue: {waits}",
                    "each wait needs its arrivals, from roles that have not ended",
                )
                alive[0].throw(hang)  # so that the traceback shows its wait
    finally:
        block.active, block.warps_active = before
        block.roles = None
        for role in strands:
            if role and not role.dead:
                role.throw()
