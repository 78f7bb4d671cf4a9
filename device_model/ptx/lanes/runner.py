"""Runs a launch: group after group of its blocks."""

import numpy as np

from device_model.ptx.code.special import fill
from device_model.ptx.lanes.fragments import Fragments, State
from device_model.ptx.lanes.group import Group
from device_model.ptx.lanes.launch import Launch
from device_model.ptx.lanes.program import Program

LANES = 1 << 14  # of a group: what fits the cache of a host


def run(program: Program, launch: Launch) -> None:
    """Run all blocks of *launch*."""
    blocks, at_once = launch.blocks, max(1, LANES // launch.threads)
    shared = (
        -(-(program.dynamic_at + launch.dynamic_shared) // 16) * 16 if launch.dynamic_shared else program.shared_bytes
    )
    shared = -(-shared // 16) * 16
    stuck: list[Fragments] = []
    with np.errstate(all="ignore"):
        for first in range(0, blocks, at_once):
            group = Group(launch, first, min(at_once, blocks - first), program.registers, shared, program.local_bytes)
            for name, number in program.special.items():
                group.put(number, fill(name, group))
            for number, dtype in program.zeros.items():
                group.put(number, np.zeros((1, 1), dtype))
            fragments = Fragments(group, program.blocks)
            if fragments.run() is State.STUCK:
                stuck.append(fragments)
        while stuck:
            changes = [fragments.group.changes for fragments in stuck]
            left = [fragments for fragments in stuck if fragments.run() is State.STUCK]
            if left == stuck and changes == [fragments.group.changes for fragments in stuck]:
                raise RuntimeError("hang")
            stuck = left
