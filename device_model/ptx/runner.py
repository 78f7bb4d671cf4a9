"""Runs a launch: group after group of its blocks.

A group whose lanes wait for what others store is set aside, and goes on when the others have run. If no group can go
on, the launch waits: for other launches, for the host, or for a time. A block begins when the card has a place for it.
"""

import traceback
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from device_model.kernel.findings import KernelError, KernelHangError
from device_model.ptx.code.special import fill
from device_model.ptx.lanes.clocks import Polled
from device_model.ptx.lanes.ends import StoppedError
from device_model.ptx.lanes.fragments import Fragments, State
from device_model.ptx.lanes.group import Group, Ints
from device_model.ptx.lanes.launch import Launch, indices
from device_model.ptx.lanes.memory import AccessError
from device_model.ptx.lanes.program import Place, Program, filename

LANES = 1 << 14  # of a group: what fits the cache of a host
_UNIT = 16  # bytes, of which the memories of blocks and lanes are multiples


class Wait(NamedTuple):
    """No lane can go on until a cycle, if *until* is not None, or until others change the memory at *polled*."""

    until: int | None
    polled: Sequence[Polled]


def run(program: Program, launch: Launch) -> None:
    """Run all blocks of *launch*, while nobody else changes memory.

    Raises:
        KernelError: A lane does what stops a card: the message has its block, its thread and its line.
        KernelHangError: Lanes wait for what never happens.
    """
    running = Run(program, launch)
    while (wait := running.go_on()) is not None:
        if wait.until is None:
            raise running.hang()
        assert launch.clock is not None, "there are times"
        launch.clock.now = max(launch.clock.now, wait.until)


class Run:
    """The run of a launch, which waits for others in between.

    Attributes:
        changes: How often its lanes have changed memory.
    """

    def __init__(self, program: Program, launch: Launch) -> None:
        self._program = program
        self._launch = launch
        self._at_once = max(1, LANES // launch.threads)
        self._begun = 0  # blocks
        self._waiting: list[Fragments] = []  # groups that have not ended
        self.changes = 0
        self._seen = 0  # changes, when those that wait looked last

    def go_on(self) -> Wait | None:
        """Run until all lanes have ended, and return None; or until none can go on, and return for what they wait.

        Raises:
            KernelError: A lane does what stops a card: the message has its block, its thread and its line.
        """
        with np.errstate(all="ignore"):
            self._seen = -1  # others may have changed memory
            while self._begin() or (self._waiting and self._advance()):
                pass
        return self._wait() if self._waiting else None

    def hang(self) -> KernelHangError:
        """Return the error for lanes that wait for what never happens."""
        spin = next((spin for each in self._waiting for spin in each.spinning), None)
        assert spin is not None, "lanes that sleep wake up"
        fragments = next(each for each in self._waiting if spin in each.spinning)
        place = self._program.places[self._program.blocks[spin.place].line]
        where = _lane_text(fragments.group, spin.lanes.flat.reshape(-1))
        return KernelHangError(
            f"{where}: the loop in {place} repeats without end, and nothing is left that could end it",
            "store what it waits for before the launch, or in lanes that run beside it",
        )

    @property
    def blocks_left(self) -> int:
        """How many blocks have not ended."""
        return self._launch.blocks - self._begun + self._resident

    @property
    def _resident(self) -> int:
        """How many blocks have begun and not ended."""
        return sum(each.group.blocks - len(each.ended_blocks()) for each in self._waiting)

    def _begin(self) -> bool:
        """Begin and run blocks for which the card has a place, a group at a time; return whether there were any."""
        left = self._launch.blocks - self._begun
        free = min(self._at_once, left, self._launch.places - self._resident) if left else 0
        if free <= 0:
            return False
        group = _group(self._program, self._launch, self._begun, free)
        self._begun += free
        self._run(Fragments(group, self._program.blocks))
        return True

    def _advance(self) -> bool:
        """Let the groups look once more at what they wait for, if memory has changed; return whether it has."""
        if self.changes == self._seen:
            return False
        self._seen = self.changes
        waiting, self._waiting = self._waiting, []
        for each in waiting:  # the others look whenever this one changes memory
            each.retry()
            self._run(each)
        return True

    def _wait(self) -> Wait:
        times = [each.wakes_at for each in self._waiting]
        polled = [pair for each in self._waiting for spin in each.spinning for pair in spin.polled]
        return Wait(min((time for time in times if time is not None), default=None), polled)

    def _run(self, fragments: Fragments) -> None:
        """Run a group until it ends or waits."""
        before = fragments.group.changes
        if _advanced(self._program, fragments) is State.STUCK:
            self._waiting.append(fragments)
        self.changes += fragments.group.changes - before
        clock = self._launch.clock
        if clock is not None:
            clock.end_blocks(fragments.group, fragments.ended_blocks())


def _group(program: Program, launch: Launch, first: int, blocks: int) -> Group:
    """Return blocks *first* and the next ones, at their beginning."""
    shared = program.dynamic_at + launch.dynamic_shared if launch.dynamic_shared else program.shared_bytes
    group = Group(launch, first, blocks, program.registers, -(-shared // _UNIT) * _UNIT, program.local_bytes)
    for name, number in program.special.items():
        group.put(number, fill(name, group))
    for number, dtype in program.zeros.items():
        group.put(number, np.zeros((1, 1), dtype))
    for watch in launch.watches:
        watch.begin(group)
    return group


def _advanced(program: Program, fragments: Fragments) -> State:
    """Run a group until its lanes end or wait for others."""
    try:
        state = fragments.run()
        if state is State.ENDED:
            for watch in fragments.group.launch.watches:
                watch.end(fragments.group)
        return state
    except (AccessError, StoppedError) as error:
        place = _place(program, error)
        where = _lane_text(fragments.group, error.lanes)
        raise KernelError(f"{where}: {error.what}{'' if place is None else f', in {place}'}") from error


def _lane_text(group: Group, lanes: Ints) -> str:
    """Return the first of *lanes* for a message, and how many more there are."""
    block, thread = divmod(int(lanes[0]), group.threads)
    names = [indices(group.first + block, group.launch.grid), indices(thread, group.launch.block)]
    more = f" and {len(lanes) - 1} more" if len(lanes) > 1 else ""
    return f"block {names[0]}, thread {names[1]}{more}"


def _place(program: Program, error: BaseException) -> Place | None:
    """Return the line of the kernel that *error* comes from."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename == filename(program.name) and frame.lineno is not None:
            return program.places[program.lines[frame.lineno]]
    if isinstance(error, StoppedError) and error.line is not None:
        return program.places[error.line]
    return None
