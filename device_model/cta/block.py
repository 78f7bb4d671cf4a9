"""Block: one block of threads while it runs, and the instructions that it has issued.

The kernel is called once for a block, so each of its operations is an instruction of all warps with an active thread.
`cta.where` makes threads inactive. What a block does is appended to its rows, which are timed afterwards.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from math import prod
from sys import _getframe
from types import CodeType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from device_model.cta.checks.histories import Histories, History
from device_model.cta.checks.order import Order
from device_model.cta.checks.rules import Rule
from device_model.cta.names import POISON, threads_text
from device_model.kernel.findings import Finding, Findings, KernelError, KernelHangError
from device_model.kernel.sites import Site, frame_of_kernel, instruction_of, site
from device_model.sm.instructions import Op, Row
from device_model.sm.names import WARP, Bools, Dim3, Ints


class Store(NamedTuple):
    """A store to global memory.

    Attributes:
        row: The place of its row in the block.
        key: What tells the allocation from others.
        addresses: Where each thread stored, in bytes: [thread, number].
        width: The bytes that it stored at each.
        threads: The threads.
    """

    row: int
    key: Hashable
    addresses: Ints
    width: int
    threads: Ints


# Instructions whose results are what memory holds.
_FROM_MEMORY = frozenset((Op.LDS_32, Op.LDS_64, Op.LDS_128, Op.LDMATRIX, Op.LDG, Op.ATOMS, Op.ATOMG))


class Message(NamedTuple):
    """What a thread printed.

    Attributes:
        block: The number of its block.
        thread: Its number.
        rows: How many rows the block had before it.
        text: The message, without a newline at its end.
    """

    block: int
    thread: int
    rows: int
    text: str


_running: ContextVar["Block"] = ContextVar("block")


class Block:
    """One block of threads.

    Attributes:
        index: Its place in the grid, (x, y, z).
        rows: The instructions that it has issued.
        messages: What its threads have printed.
        stores: What they have stored in global memory.
        active: The threads that take part in instructions, in their order.
        roles: By thread the number of its role, -1 without one; None outside of `roles`.
        shared: Its shared memory.
        capacity: The bytes of shared memory that it may use; *is_dynamic* if the kernel has asked for so many.
    """

    __slots__ = (
        "_blocked",
        "_histories",
        "_history",
        "_is_replaying",
        "_next_register",
        "_waiting",
        "active",
        "arrivals",
        "capacity",
        "findings",
        "grid",
        "has_values",
        "hazards",
        "index",
        "index_ids",
        "indices",
        "is_dynamic",
        "loaded",
        "messages",
        "number",
        "order",
        "roles",
        "rows",
        "shared",
        "shared_used",
        "stores",
        "threads",
        "tids",
        "warps",
        "warps_active",
    )

    def __init__(
        self,
        number: int,
        grid: Dim3,
        threads: int,
        findings: Findings,
        histories: Histories,
        *,
        capacity: int,
        is_dynamic: bool,
        hazards: bool,
        has_values: bool = True,
    ) -> None:
        self.has_values = has_values
        self.loaded: set[int] = set()  # without values: registers with what memory holds, and with results of that
        self.number = number
        self.index: Dim3 = place_of(number, grid)
        self.grid = grid
        self.threads = threads
        self.warps = -(-threads // WARP)
        self.findings = findings
        self.hazards = hazards
        self.order = Order(threads, self._note if hazards else None)
        self.rows: list[Row] = []
        self.messages: list[Message] = []
        self.stores: list[Store] = []
        self.tids: Ints = np.arange(threads, dtype=np.int64)
        self.active: Ints = self.tids
        self.warps_active = (1 << self.warps) - 1
        self.roles: Ints | None = None
        self.is_dynamic = is_dynamic
        self.capacity = capacity
        self.shared_used = 0
        self.shared = np.full(-(-self.capacity // 2), POISON, np.uint16).view(np.uint8)
        self.arrivals: dict[int, list[tuple[Ints, Ints, bool]]] = {}  # at barriers that are not complete
        # Registers computed from thread indices and constants alone, by line, how they are computed and values.
        self.indices: dict[Hashable, tuple[int, ...]] = {}
        self.index_ids: set[int] = set()
        self._next_register = 0
        self._histories = histories
        self._history = History(histories, findings.seen, self._replay)
        self._is_replaying = False
        # Threads that wait at a barrier for others: the barrier and its line.
        self._blocked: Bools | None = None
        self._waiting: list[tuple[str, Site, Ints]] = []

    def __str__(self) -> str:
        return block_text(self.number, self.grid)

    def __repr__(self) -> str:
        return f"<Block {self.index}: {self.threads} threads, {len(self.rows)} rows>"

    # Instructions

    def issue(
        self,
        op: Op,
        name: str,
        *,
        count: int = 1,
        chains: int = 0,
        phases: int | tuple[int, ...] = 1,
        conflicts: int | tuple[int, ...] = 0,
        sectors: int | tuple[int, ...] = 0,
        misses: int | tuple[int, ...] = 0,
        reads: tuple[int, ...] = (),
        writes: tuple[int, ...] = (),
        number: int = 0,
        key: Hashable = 0,
        warps: int | None = None,
    ) -> None:
        """Append a row: an instruction of each warp with an active thread, or of *warps*; see `Row`."""
        if op > Op.SFU:  # arithmetic of threads that wait at a barrier has no effect that anybody sees
            self.check_free()
        if not self.has_values and (op in _FROM_MEMORY or not self.loaded.isdisjoint(reads)):
            self.loaded.update(writes)
        if not self.warps_active or not count:
            return
        code, lasti = self.line()
        warps = self.warps_active if warps is None else warps
        self.rows.append(
            Row(op, name, warps, code, lasti, count=count, chains=chains, phases=phases,
                conflicts=conflicts, sectors=sectors, misses=misses, reads=reads, writes=writes, number=number, key=key)
        )  # fmt: skip

    @staticmethod
    def line() -> tuple[CodeType, int]:
        """Return the line of the kernel that is running, as a code object and an offset in it."""
        return instruction_of(frame_of_kernel(_getframe(1)))

    def register(self) -> int:
        """Return the id of a new register."""
        self._next_register += 1
        return self._next_register

    # Active threads

    @contextmanager
    def only(self, mask: npt.NDArray[Any]) -> Iterator[None]:
        """Let only the active threads for which *mask* is true take part in what follows."""
        before = self.active, self.warps_active
        if mask.dtype != np.bool_ or mask.shape != (self.threads,):
            raise KernelError(
                f"where() takes a truth value for each of the {self.threads} threads, not {mask.dtype} of shape "
                f"{mask.shape}, at {site()}",
                "compare registers, such as cta.tid < n",
            )
        self.active = self.active[mask[self.active]]
        self.warps_active = 0
        for warp in np.unique(self.active // WARP).tolist():
            self.warps_active |= 1 << warp
        try:
            yield
        finally:
            self.active, self.warps_active = before

    @property
    def is_whole(self) -> bool:
        """Whether all threads are active."""
        return len(self.active) == self.threads

    def mask(self) -> Bools:
        """Return for each thread whether it is active."""
        mask = np.zeros(self.threads, np.bool_)
        mask[self.active] = True
        return mask

    # Barriers that some threads have not reached

    def block(self, name: str, threads: Ints) -> None:
        """Note that *threads* wait at the barrier *name* until `unblock`."""
        if self._blocked is None:
            self._blocked = np.zeros(self.threads, np.bool_)
        self._blocked[threads] = True
        self._waiting.append((name, site(), threads))

    def unblock(self, name: str) -> None:
        """Let the threads that wait at the barrier *name* go on."""
        self._waiting = [each for each in self._waiting if each[0] != name]
        self._blocked = None
        for _, _, threads in self._waiting:
            if self._blocked is None:
                self._blocked = np.zeros(self.threads, np.bool_)
            self._blocked[threads] = True

    def check_free(self) -> None:
        """Raise KernelHangError if an active thread waits at a barrier that can no longer be complete."""
        if self._blocked is None or not self._blocked[self.active].any():
            return
        self._hang(f"they go on at {site()}")

    def _hang(self, where: str) -> None:
        name, line, threads = self._waiting[0]
        waits = np.zeros(self.threads, np.bool_)
        waits[threads] = True
        missing = np.flatnonzero(~waits)
        raise KernelHangError(
            f"{threads_text(threads)} of {self} wait in {name} at {line}, which {threads_text(missing)} do not reach: "
            f"{where}",
            f"let all threads reach {name}: take it out of the branch",
        )

    # Findings

    def site_number(self) -> int:
        """Return a number for the running line of the kernel; `site_of` gives the line back."""
        return self._histories.site_number(*self.line())

    def site_of(self, number: int) -> Site:
        """Return the line with this *number*."""
        return self._histories.site_of(number)

    def find(self, rule: Rule, text: str, sites: Sequence[Site], missing: str = "") -> Hashable:
        """Add a finding, or count it up if the same lines have made it before; return its key."""
        key = (rule, tuple(sites), missing)
        if not self.findings.seen(key):
            self.findings.add(key, Finding(rule, text, str(self), tuple(sites), (), missing))
        return key

    # Hazards

    def check(self, check: Callable[..., None], name: str, threads: Ints, addresses: Ints, *details: int) -> None:
        """Call *check* with all but *name*, unless an earlier block has done all that this one did so far."""
        call = partial(check, threads, addresses, *details)
        if not self._history.is_known(call, f"{check.__name__} {name} {details}", threads, addresses):
            call()

    def find_hazard(self, rule: Rule, text: str, sites: Sequence[Site], missing: str) -> None:
        """Add a finding of `check`."""
        if not self._is_replaying:
            self._history.add(self.find(rule, text, sites, missing))

    def _note(self, change: Callable[..., object], args: tuple[Any, ...]) -> None:
        """Note a *change* of the order as a step."""
        numbers = [each for each in args if isinstance(each, int)]
        arrays = [each for each in args if not isinstance(each, int)]
        self._history.is_known(lambda: change(self.order, *args), f"{change.__name__} {numbers}", *arrays)

    def _replay(self, calls: Sequence[Callable[[], object]]) -> None:
        """Do *calls* from the start of the block on; their findings have been counted."""
        order, self.order = self.order, Order(self.threads)
        self._is_replaying = True
        for call in calls:
            call()
        assert self.order.now == order.now, "the same steps take the same time"
        self.order, self._is_replaying = order, False

    def finish(self) -> None:
        """Raise KernelHangError if threads still wait at a barrier."""
        if self._waiting:
            self._hang("they have ended")

    # Running

    def forget(self) -> None:
        """Let go of all but the rows: shared memory is large, and there may be thousands of blocks."""
        self.shared = self.shared[:0]
        self.order.log = None
        self._history.forget()
        self.indices.clear()

    def run(self, kernel: Callable[[], object]) -> None:
        """Call *kernel* as this block."""
        token = _running.set(self)
        try:
            with np.errstate(all="ignore"):
                kernel()
        except BaseException as error:
            error.add_note(f"in {self} of the kernel")
            raise
        finally:
            _running.reset(token)


def running() -> Block:
    """Return the block that runs the caller; raise KernelError outside a kernel."""
    block = _running.get(None)
    if block is None:
        raise KernelError(
            "a function of the kernel language was called outside a thread-block kernel",
            "call it in a function made with @cta.kernel, and launch that",
        )
    return block


def place_of(number: int, grid: Dim3) -> Dim3:
    """Return the place of block *number* in *grid*."""
    x, y, _ = grid
    return number % x, number // x % y, number // (x * y)


def block_text(number: int, grid: Dim3) -> str:
    """Return block *number* of *grid* for a message: "block 3", or "block (3, 0, 1)"."""
    return f"block {number if prod(grid[1:]) == 1 else place_of(number, grid)}"
