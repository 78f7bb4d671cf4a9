"""Barriers: of the block, of a warp, named ones, and mbarriers."""

from collections.abc import Callable
from typing import Any

import numpy as np

from device_model.cta.block import Block, running
from device_model.cta.checks.rules import Rule
from device_model.cta.language.registers import Register, check_set, ids_of, marked, register, values_of
from device_model.cta.language.roles import park
from device_model.cta.names import threads_text
from device_model.kernel.findings import KernelError, KernelHangError
from device_model.kernel.sites import Site, site
from device_model.sm.instructions import Op
from device_model.sm.names import WARP, Bools, Ints

BARRIERS = 16  # of a block, syncthreads among them


def syncthreads() -> None:
    """Wait for all threads of the block, and show them what each of them wrote (bar.sync 0).

    Raises:
        KernelHangError: Some threads do not reach it, because it is in a branch. It is raised where they go on.
    """
    block = running()
    if block.is_whole:
        block.issue(Op.BARRIER, "bar.sync 0", number=block.warps)
        block.order.barrier()
        return
    _arrive(block, 0, block.threads, waits=True)


def syncthreads_or(condition: Any) -> Register:
    """Wait as syncthreads() does; return whether *condition* is true for a thread of the block (__syncthreads_or).

    Raises:
        KernelHangError: Some threads do not call it.
        KernelError: *condition* is not one value of each thread.
    """
    return _vote("or", condition, np.any)


def syncthreads_and(condition: Any) -> Register:
    """Wait as syncthreads() does; return whether *condition* is true for all threads (__syncthreads_and).

    Raises:
        KernelHangError: Some threads do not call it.
        KernelError: *condition* is not one value of each thread.
    """
    return _vote("and", condition, np.all)


def syncthreads_count(condition: Any) -> Register:
    """Wait as syncthreads() does; return for how many threads *condition* is true, as an int32 (__syncthreads_count).

    Raises:
        KernelHangError: Some threads do not call it.
        KernelError: *condition* is not one value of each thread.
    """
    return _vote("count", condition, lambda votes: votes.sum(dtype=np.int32))


def _vote(name: str, condition: Any, combine: Callable[[Bools], Any]) -> Register:
    """Let all threads meet (bar.red), and return to each what *combine* makes of the *condition* of all."""
    block = running()
    check_set(condition)
    votes = values_of(block, condition).astype(np.bool_)
    if votes.shape != (block.threads,):
        raise KernelError(
            f"syncthreads_{name}() at {site()} got {votes.shape[1:]} values of each thread", "give it one of each"
        )
    writes = (block.register(),)
    if block.is_whole:
        block.issue(Op.BARRIER, f"bar.red.{name} 0", number=block.warps, reads=ids_of(condition), writes=writes)
        block.order.barrier()
    elif len(block.active):
        raise KernelHangError(
            f"{threads_text(block.tids[~block.mask()])} of {block} do not reach syncthreads_{name}() at {site()}, "
            "which waits for the condition of every thread",
            "take it out of the branch, and make what the branch asks a part of the condition",
        )
    return marked(register(np.full(block.threads, combine(votes)), writes, ()), condition)


def syncwarp() -> None:
    """Wait for the active threads of each warp, and show them what each of them wrote (bar.warp.sync)."""
    block = running()
    block.issue(Op.SYNC_WARP, "bar.warp.sync")
    warps = block.active // WARP
    for warp in np.unique(warps).tolist():
        block.order.join(block.active[warps == warp])


def bar_sync(barrier: int, threads: int) -> None:
    """Wait at named *barrier* 0 to 15 until *threads* threads, a multiple of 32, have arrived (bar.sync).

    Raises:
        KernelError: There is no such barrier, or *threads* is impossible.
        KernelHangError: The other threads do not reach it.
    """
    block = running()
    _check(block, barrier, threads)
    _arrive(block, barrier, threads, waits=True)


def bar_arrive(barrier: int, threads: int) -> None:
    """Arrive at named *barrier* without waiting there (bar.arrive).

    Raises:
        KernelError: There is no such barrier, or *threads* is impossible.
    """
    block = running()
    _check(block, barrier, threads)
    _arrive(block, barrier, threads, waits=False)


def _check(block: Block, barrier: int, threads: int) -> None:
    if not 0 <= barrier < BARRIERS:
        raise KernelError(f"barrier {barrier} at {site()}", f"a block has barriers 0 to {BARRIERS - 1}")
    if threads % WARP or not 0 < threads <= block.warps * WARP:
        raise KernelError(
            f"barrier {barrier} of {threads} threads at {site()}",
            f"give a multiple of {WARP}, up to the {block.threads} threads of the block",
        )


def _arrive(block: Block, barrier: int, threads: int, *, waits: bool) -> None:
    """Let the active threads arrive at *barrier*; once *threads* have, those that wait go on."""
    if not len(block.active):
        return
    block.check_free()
    name = f"bar.sync {barrier}"
    arrivals = block.arrivals.setdefault(barrier, [])
    arrivals.append((block.active, block.order.tell(block.active), waits))
    if waits:
        block.block(name, block.active)
    arrived = sum(len(who) for who, _, _ in arrivals)
    if arrived < threads:
        if waits:
            park(name, lambda: block.arrivals.get(barrier) is not arrivals)
        return
    if arrived > threads:
        raise KernelError(
            f"{arrived} threads arrive at barrier {barrier} at {site()}, which is for {threads}",
            "give all calls of one barrier the same number of threads, and let no others come",
        )
    block.unblock(name)
    # One instruction for all who came, because the lanes of a warp may have come one after the other.
    everyone = np.unique(np.concatenate([who for who, _, _ in arrivals]) // WARP).tolist()
    block.issue(Op.BARRIER, name, number=len(everyone), key=barrier, warps=sum(1 << warp for warp in everyone))
    known = np.max([each for _, each, _ in arrivals], axis=0)
    for who, _, has_waited in arrivals:
        if has_waited:
            block.order.learn(who, known)
    del block.arrivals[barrier]


class Mbarrier:
    """A barrier in shared memory that counts arrivals, phase by phase (PTX: mbarrier).

    A phase is complete when all arrivals have come. Then the next one begins. A thread waits for a phase by its parity:
    0 for the first, 1 for the second, 0 for the third.

        full = cta.mbarrier(count=128)
        cta.syncthreads()  # now all threads know it
        full.arrive()
        full.wait(0)

    Attributes:
        count: The arrivals that a phase needs at first.
        phase: The number of the phase that is not complete.
        expected: The arrivals that it needs.
        key: Its name in the rows of the block.
    """

    __slots__ = (
        "_arrivals",
        "_known",
        "_line",
        "_lines",
        "_made",
        "_maker",
        "_phases",
        "_waited",
        "count",
        "expected",
        "key",
        "phase",
    )

    def __init__(self, count: int) -> None:
        block = running()
        if not 1 <= count < 1 << 20:
            raise KernelError(f"an mbarrier for {count} arrivals at {site()}", "give 1 to 1,048,575")
        block.issue(Op.STS, "mbarrier.init")
        self.count = count
        self.key = block.register()  # no address: the next mbarrier may have that of one that is gone
        self._line = site()
        self._made = block.order.now
        self._maker = int(block.active[0]) if len(block.active) else 0
        self.phase = 0  # the one that is not complete
        self._arrivals = 0
        self.expected = count
        self._known: Ints = np.zeros(2 * block.threads, np.int64)
        self._phases: dict[int, Ints] = {}  # what those who wait for it learn
        self._waited: Ints = np.full(block.threads, -2, np.int64)
        self._lines: dict[int, Site] = {}

    def __repr__(self) -> str:
        return f"<mbarrier of {self._line}, phase {self.phase}: {self._arrivals} of {self.expected} arrivals>"

    def arrive(self, count: int = 1) -> int:
        """Let each active thread arrive *count* times (mbarrier.arrive); return the phase that it arrives in."""
        block = running()
        self.check_made(block)
        block.issue(Op.ARRIVE, "mbarrier.arrive", count=count, number=self.phase, key=self.key)
        return self.count_arrivals(len(block.active) * count, block.order.tell(block.active))

    def expect(self, arrivals: int) -> None:
        """Let the phase need *arrivals* more, such as those of copies (mbarrier.expect)."""
        block = running()
        self.check_made(block)
        block.issue(Op.ALU, "mbarrier.expect")
        self.expected += arrivals

    def wait(self, parity: int) -> None:
        """Wait until the phase with this *parity* is complete (mbarrier.try_wait.parity).

        Raises:
            KernelHangError: It cannot become complete.
        """
        block = running()
        self.check_made(block)
        phase = self.phase - 1 if self.phase & 1 != parity else self.phase
        if phase == self.phase and not park(f"a wait for phase {phase} of {self!r}", lambda: self.phase > phase):
            raise KernelHangError(
                f"{threads_text(block.active)} of {block} wait at {site()} for phase {phase} of {self!r}, which is not "
                "complete",
                f"the phase needs {self.expected} arrivals, and {self._arrivals} have come",
            )
        if phase >= 0:
            block.issue(Op.WAIT_PHASE, "mbarrier.try_wait", number=phase, key=self.key)
        again = block.active[self._waited[block.active] == phase]
        if len(again) and phase >= 0:
            line = site()
            before = self._lines.get(phase, line)
            block.find(
                Rule.PHASE_TWICE,
                f"{threads_text(again)} wait at {line} for phase {phase} of the mbarrier of {self._line}, for which "
                f"they waited at {before}; so this wait does not wait for anything; flip the parity after each wait",
                (before, line),
                "a flip of the parity",
            )
        self._waited[block.active] = phase
        self._lines[phase] = site()
        if phase >= 0:
            block.order.learn(block.active, self._phases[phase])

    def count_arrivals(self, count: int, known: Ints) -> int:
        """Count arrivals that show *known* to those who wait; return the phase that they belong to."""
        phase = self.phase
        self._known = np.maximum(self._known, known)
        self._arrivals += count
        if self._arrivals > self.expected:
            raise KernelError(
                f"{self._arrivals} arrivals at {site()} in phase {phase} of the mbarrier of {self._line}, which "
                f"expects {self.expected}",
                "let as many threads arrive as the mbarrier was made for",
            )
        if self._arrivals == self.expected:
            self._phases[phase] = self._known
            self.phase += 1
            self._arrivals = 0
            self.expected = self.count
        return phase

    def check_made(self, block: Block) -> None:
        """Report active threads that do not know that the mbarrier was initialised: no barrier came after it."""
        order = block.order
        if self._made < order.floor:
            return
        maker = np.full_like(block.active, self._maker)
        strangers = block.active[~order.knows(block.active, maker, np.full_like(maker, self._made))]
        if not len(strangers):
            return
        line = site()
        block.find(
            Rule.EMPTY_PHASE,
            f"{threads_text(strangers)} use at {line} the mbarrier of {self._line} without knowing that it is "
            "initialised; missing syncthreads()",
            (self._line, line),
            "syncthreads()",
        )


def cp_async_mbarrier_arrive(barrier: Mbarrier, *, noinc: bool = False) -> None:
    """Let *barrier* have an arrival of each active thread when all copies that the thread has started are done.

    Whoever waits for the phase may then read what was copied. Without *noinc* the phase expects these arrivals in
    addition to its count.
    """
    block = running()
    barrier.check_made(block)
    block.issue(Op.COPY_ARRIVE, "cp.async.mbarrier.arrive", number=barrier.phase, key=barrier.key)
    if not noinc:
        barrier.expected += len(block.active)
    barrier.count_arrivals(len(block.active), block.order.hand_over(block.active))


def mbarrier(count: int) -> Mbarrier:
    """Return a new mbarrier for *count* arrivals in each phase; one thread initialises it (mbarrier.init)."""
    return Mbarrier(count)
