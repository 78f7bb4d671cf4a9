"""Strands of roles: each role of a block is a strand (kernel/strands.py), which has active threads of its own."""

from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial

from device_model.cta.block import Block
from device_model.cta.names import threads_text
from device_model.kernel import strands
from device_model.kernel.findings import KernelHangError
from device_model.kernel.greenlets import getcurrent
from device_model.kernel.sites import site
from device_model.sm.names import Bools


class RoleStrand(strands.Strand):
    """A role of *block*: its threads, which *mask* tells, and its program."""

    def __init__(self, block: Block, mask: Bools, program: Callable[[], object]) -> None:
        super().__init__(partial(_play, block, mask, program))
        self.gr_context = copy_context()  # it runs the same block
        self.name = threads_text(block.tids[mask])
        self._block = block
        self._outside = block.active, block.warps_active

    def park(self, where: str, ready: Callable[[], bool]) -> None:
        """Let other roles run until *ready()* is true; the active threads are then those of this role again."""
        block = self._block
        before = block.active, block.warps_active
        block.active, block.warps_active = self._outside
        super().park(f"{where} at {site()}", ready)
        block.active, block.warps_active = before


def _play(block: Block, mask: Bools, program: Callable[[], object]) -> None:
    with block.only(mask):
        program()


def park(where: str, ready: Callable[[], bool]) -> None:
    """Let other roles run until *ready()* is true. *where* is for messages."""
    strand = getcurrent()
    assert isinstance(strand, RoleStrand), "the caller runs in no role"
    strand.park(where, ready)


def run(block: Block, roles: Sequence[RoleStrand]) -> None:
    """Run *roles* of *block* until all have ended; raise KernelHangError if none of those left can go on."""
    strands.run(roles, partial(_hang, block))


def _hang(block: Block, waiting: Sequence[RoleStrand]) -> None:
    waits = "; ".join(f"{strand.name} in {strand.where}" for strand in waiting)
    hang = KernelHangError(
        f"roles of {block} wait, and none can continue: {waits}",
        "each wait needs its arrivals, from roles that have not ended",
    )
    waiting[0].throw(hang)  # so that the traceback shows its wait
