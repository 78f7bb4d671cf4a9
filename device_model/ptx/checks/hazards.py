"""The watch that finds mistakes: it asks of each access which line it is of, and which memory it is in."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from device_model.kernel.findings import Findings
from device_model.ptx.checks.arrivals import Arrivals
from device_model.ptx.checks.lines import Access, Lines
from device_model.ptx.checks.order import Order
from device_model.ptx.checks.picking import same_in_all_blocks
from device_model.ptx.checks.races import Report
from device_model.ptx.checks.rules import Rule
from device_model.ptx.checks.shadows import LocalShadow
from device_model.ptx.checks.shared import SharedChecks
from device_model.ptx.checks.variables import Variables, outside
from device_model.ptx.checks.world import GlobalChecks
from device_model.ptx.code.calls import called
from device_model.ptx.lanes.group import WARP, Array, Group, Lanes
from device_model.ptx.lanes.memory import AccessError
from device_model.ptx.lanes.program import Program
from device_model.ptx.lanes.watching import Watch
from device_model.ptx.text.syntax import Module

_EVERYBODY = 0xFFFFFFFF


class _Blocks:
    """What is known of one group."""

    __slots__ = ("arrivals", "local", "order", "shared")

    def __init__(self, group: Group, hazards: "Hazards", report: Report) -> None:
        self.order = Order(group)
        self.shared = SharedChecks(group, self.order, report, hazards.variables)
        self.local = LocalShadow(group.width, group.local_bytes)

        def divergent(block: int, thread: int, line: int, other: int) -> None:
            report.find(
                Rule.DIVERGENT_BARRIER, group.first + block, thread,
                f"waits at the barrier in {report.place(line)}, and other threads of the block at the one in "
                f"{report.place(other)}; let all of them reach one barrier", (line, other), "bar.sync",
            )  # fmt: skip

        self.arrivals = Arrivals(group, self.order, hazards.lines, divergent)


@lru_cache(256)
def _text_of(module: Module, name: str) -> tuple[Variables, Lines]:
    """Return what the text of the kernel *name* says, which its launches share."""
    return Variables(module, name), Lines(called(module, module.functions[name]))


class Hazards(Watch):
    """Finds the mistakes of one launch of the kernel *program*, whose text is *module*.

    Attributes:
        variables: The variables of the kernel.
        lines: What its text says about accesses and barriers.
    """

    __slots__ = ("_groups", "_program", "_report", "_world", "lines", "variables")

    def __init__(self, module: Module, program: Program) -> None:
        self.variables, self.lines = _text_of(module, program.name)
        self._program = program
        self._report: Report | None = None
        self._world: GlobalChecks | None = None
        self._groups: dict[int, _Blocks] = {}

    @property
    def findings(self) -> Findings:
        """The mistakes so far."""
        return Findings() if self._report is None else self._report.findings

    def begin(self, group: Group) -> None:
        """The lanes of *group* begin."""
        if self._report is None:
            self._report = Report(group.launch, self._program.places)
            self._world = GlobalChecks(group.launch, self._report, self.variables.written)
        self._groups[group.first] = _Blocks(group, self, self._report)

    def end(self, group: Group) -> None:
        """All lanes of *group* have ended."""
        del self._groups[group.first]

    def load(self, at: Lanes, space: str, address: Array, nbytes: int) -> None:
        """Check a load."""
        access = self.lines.access("load", at.group.launch.line)
        blocks, world = self._groups[at.group.first], self._all()
        if space == "global":
            world.load(at, blocks.order, address, nbytes, access)
        elif space in ("shared", "local") and self._is_inside(at, space, address, nbytes, access.line):
            if space == "shared":
                blocks.shared.load(at, address, nbytes, access)
            else:
                self._load_local(at, blocks.local, address, nbytes, access)
        if access.acquires:
            self._synchronise(at, space, blocks, access)

    def store(self, at: Lanes, space: str, address: Array, nbytes: int, values: Sequence[Array]) -> None:
        """Check a store."""
        access = self.lines.access("store", at.group.launch.line)
        blocks, world = self._groups[at.group.first], self._all()
        if space == "global":
            world.store(at, blocks.order, address, nbytes, access, values)
        elif self._is_inside(at, space, address, nbytes, access.line):
            if space == "shared":
                blocks.shared.store(at, address, nbytes, access, values)
            else:
                _store_local(at, blocks.local, address, nbytes)
        if access.releases:
            self._synchronise(at, space, blocks, access)

    def change(self, at: Lanes, space: str, address: Array, nbytes: int) -> None:
        """Check an atomic operation."""
        access = self.lines.access("change", at.group.launch.line)
        blocks, world = self._groups[at.group.first], self._all()
        if space == "global":
            world.change(at, blocks.order, address, nbytes, access)
        elif space == "shared" and self._is_inside(at, space, address, nbytes, access.line):
            blocks.shared.change(at, address, nbytes, access)
        if access.releases or access.acquires:
            self._synchronise(at, space, blocks, access)

    def fence(self, at: Lanes) -> None:
        """Note a fence."""
        assert self._report is not None, "the launch has begun"
        if self.lines.is_fence(at.group.launch.line):
            self._all().fence(at, self._groups[at.group.first].order, self._report.now)

    def arrive(self, at: Lanes, number: int) -> None:
        """The lanes arrive at a barrier."""
        assert self._report is not None, "the launch has begun"
        self._groups[at.group.first].arrivals.arrive(at, number, at.group.launch.line, self._report.now)

    def release(self, group: Group, number: int, blocks: Array) -> None:
        """A barrier is complete in *blocks*."""
        assert self._report is not None, "the launch has begun"
        known = self._groups[group.first]
        if not blocks.all():
            known.shared.spread()
        known.arrivals.release(number, blocks, self._report.now)
        self._all().barrier(group, blocks)

    def meet(self, at: Lanes, members: Array) -> None:
        """Lanes of warps have met."""
        assert self._report is not None, "the launch has begun"
        known = self._groups[at.group.first]
        if at.index is not None or members.size > 1 or int(members.reshape(-1)[0]) != _EVERYBODY:
            named = np.broadcast_to(members, at.shape).reshape(-1).astype(np.int64)
            lanes = at.flat.reshape(-1)
            thread = lanes % at.group.threads
            absent = np.flatnonzero(named >> thread % WARP & 1 == 0)
            if len(absent):
                self._not_named(at, int(lanes[absent[0]]), int(named[absent[0]]))
            if same_in_all_blocks(at.group, lanes, named) is None:
                known.shared.spread()
        known.order.meet(at, members, self._report.now + 1)

    def _all(self) -> GlobalChecks:
        assert self._world is not None, "the launch has begun"
        return self._world

    def _not_named(self, at: Lanes, lane: int, named: int) -> None:
        assert self._report is not None, "the launch has begun"
        block, thread = divmod(lane, at.group.threads)
        line = at.group.launch.line
        self._report.find(
            Rule.MASK, at.group.first + block, thread,
            f"lane {thread % WARP} of its warp comes to {self._report.place(line)}, and is not in the mask "
            f"{named & _EVERYBODY:#x} there; what it gets is not defined", (line,),
        )  # fmt: skip

    def _synchronise(self, at: Lanes, space: str, blocks: _Blocks, access: Access) -> None:
        assert self._report is not None, "the launch has begun"
        now = self._report.now
        blocks.shared.spread()
        blocks.order.synchronise(at, now, releases=access.releases, acquires=access.acquires)
        self._all().synchronise(at, blocks.order, now, access, space)

    def _is_inside(self, at: Lanes, space: str, address: Array, nbytes: int, line: int) -> bool:
        """Return whether an access is inside of its memory; report it if it is outside of its variable.

        Raises:
            AccessError: It is outside of both.
        """
        offset = address.view(np.int64)
        low, high = int(np.minimum.reduce(offset, None)), int(np.maximum.reduce(offset, None))
        size = at.group.shared_bytes if space == "shared" else at.group.local_bytes
        meant = self.variables.meant.get(line)
        is_inside = low >= 0 and high <= size - nbytes
        if meant is None or meant.space != space or (low >= meant.start and high + nbytes <= meant.stop):
            return is_inside
        lanes = at.some((offset < meant.start) | (offset > meant.stop - nbytes))
        first = low if low < meant.start else high
        if low >= meant.start:
            lanes = at.some(offset > meant.stop - nbytes)
            first = int(np.broadcast_to(offset, at.shape).reshape(-1)[np.searchsorted(at.flat.reshape(-1), lanes[0])])
        text = f"an access of {outside(meant, first, nbytes)}"
        if not is_inside:
            raise AccessError(f"{text}: this is outside of {space} memory", lanes)
        assert self._report is not None, "the launch has begun"
        block, thread = divmod(int(lanes[0]), at.group.threads)
        where = self._report.place(line)
        self._report.find(
            Rule.OUT_OF_VARIABLE, at.group.first + block, thread,
            f"{text}, in {where}; it reaches what else is in {space} memory", (line,),
        )  # fmt: skip
        return True

    def _load_local(self, at: Lanes, local: LocalShadow, address: Array, nbytes: int, access: Access) -> None:
        size = nbytes // access.parts
        step = min(size, 8)
        for byte in (each for each in range(0, nbytes, step) if each // size not in access.unused):
            nothing = local.unwritten(*_lanes(at, address + np.uint64(byte)), step)
            if nothing.any():
                lane = int(at.flat.reshape(-1)[int(nothing.argmax())])
                self._unwritten(at, lane, int(np.broadcast_to(address, at.shape).reshape(-1)[int(nothing.argmax())]),
                                nbytes, access)  # fmt: skip
                return

    def _unwritten(self, at: Lanes, lane: int, address: int, nbytes: int, access: Access) -> None:
        assert self._report is not None, "the launch has begun"
        block, thread = divmod(lane, at.group.threads)
        what = self.variables.describe("local", address, nbytes)
        self._report.find(
            Rule.UNWRITTEN_READ, at.group.first + block, thread,
            f"reads {what} in {self._report.place(access.line)}, where nothing was written", (access.line,), "a store",
        )  # fmt: skip


def _lanes(at: Lanes, address: Array) -> tuple[Array | None, Array]:
    """Return lanes and their addresses; None if all lanes have one address."""
    if at.index is None and address.size == 1:
        return None, address
    return at.flat.reshape(-1), np.broadcast_to(address, at.shape)


def _store_local(at: Lanes, local: LocalShadow, address: Array, nbytes: int) -> None:
    step = min(nbytes, 8)
    for byte in range(0, nbytes, step):
        local.write(*_lanes(at, address + np.uint64(byte)), step)
