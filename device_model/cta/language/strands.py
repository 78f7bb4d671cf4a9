"""Strands: the greenlets in which the roles of a block run, one after the other.

A strand runs until it ends or waits at a barrier that is not complete; then the next one runs. So the order is the same
in each run.
"""

from collections.abc import Callable
from contextvars import copy_context
from functools import partial

from device_model.cta.block import Block, running
from device_model.cta.names import Bools, threads_text
from device_model.kernel.findings import KernelHangError
from device_model.kernel.greenlets import getcurrent, greenlet
from device_model.kernel.sites import site


class Strand(greenlet):
    """A part of a block: its threads, and the wait in which it is."""

    def __init__(self, block: Block, mask: Bools, program: Callable[[], object]) -> None:
        super().__init__(partial(_play, block, mask, program))
        self.gr_context = copy_context()  # it runs the same block
        self.name = threads_text(block.tids[mask])
        self.where = "its start"
        self.ready: Callable[[], bool] | None = None

    @staticmethod
    def park(where: str, ready: Callable[[], bool]) -> None:
        """Let other strands run until *ready()* holds; the caller runs in a strand. *where* is for messages."""
        strand = getcurrent()
        assert isinstance(strand, Strand), "the caller runs in no strand"
        block = running()
        before = block.active, block.warps_active
        strand.where, strand.ready = f"{where} at {site()}", ready
        assert strand.parent is not None, "a strand has a parent"
        strand.parent.switch()
        strand.ready = None
        block.active, block.warps_active = before


def _play(block: Block, mask: Bools, program: Callable[[], object]) -> None:
    with block.only(mask):
        program()


def run(block: Block, strands: list[Strand]) -> None:
    """Run *strands* of *block* until all have ended; raise KernelHangError if none of those left can go on."""
    before = block.active, block.warps_active
    alive = strands
    try:
        while alive:
            moved = False
            for strand in alive:
                if strand.ready is None or strand.ready():
                    moved = True
                    strand.switch()
                    block.active, block.warps_active = before
            alive = [strand for strand in alive if not strand.dead]
            if not moved:
                waits = "; ".join(f"{strand.name} in {strand.where}" for strand in alive)
                hang = KernelHangError(
                    f"roles of {block} wait, and none can continue: {waits}",
                    "each wait needs its arrivals, from roles that have not ended",
                )
                alive[0].throw(hang)  # so that the traceback shows its wait
    finally:
        block.active, block.warps_active = before
        for strand in strands:
            if strand and not strand.dead:
                strand.throw()
