"""Runs a launch: group after group of its blocks.

A group whose lanes wait for what others store is set aside, and goes on when the others have run. If no group can go
on, the kernel would never end.
"""

import traceback
from typing import NoReturn

import numpy as np

from device_model.kernel.findings import KernelError, KernelHangError
from device_model.ptx.code.special import fill
from device_model.ptx.lanes.ends import StoppedError
from device_model.ptx.lanes.fragments import Fragments, State
from device_model.ptx.lanes.group import Group, Ints
from device_model.ptx.lanes.launch import Launch, indices
from device_model.ptx.lanes.memory import AccessError
from device_model.ptx.lanes.program import Place, Program, filename

LANES = 1 << 14  # of a group: what fits the cache of a host
_UNIT = 16  # bytes, of which the memories of blocks and lanes are multiples


def run(program: Program, launch: Launch) -> None:
    """Run all blocks of *launch*.

    Raises:
        KernelError: A lane does what stops a card: the message has its block, its thread and its line.
        KernelHangError: Lanes wait for what never happens.
    """
    at_once = max(1, LANES // launch.threads)
    stuck: list[Fragments] = []
    with np.errstate(all="ignore"):
        for first in range(0, launch.blocks, at_once):
            fragments = Fragments(_group(program, launch, first, min(at_once, launch.blocks - first)), program.blocks)
            if _advanced(program, fragments) is State.STUCK:
                stuck.append(fragments)
        while stuck:
            changes = [fragments.group.changes for fragments in stuck]
            left = [fragments for fragments in stuck if _advanced(program, fragments) is State.STUCK]
            if left == stuck and changes == [fragments.group.changes for fragments in stuck]:
                _hang(program, stuck[0])
            stuck = left


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


def _hang(program: Program, fragments: Fragments) -> NoReturn:
    number, lanes = fragments.waiting
    place = program.places[program.blocks[number].line]
    where = _lane_text(fragments.group, lanes.flat.reshape(-1))
    raise KernelHangError(
        f"{where}: the loop in {place} repeats without end, and nothing is left that could end it",
        "store what it waits for before the launch, or in lanes that run beside it",
    )


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
