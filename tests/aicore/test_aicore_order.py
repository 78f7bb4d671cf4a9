"""Random programs of a cube core and its vector cores, right and wrong: what is not ordered is found, and nothing else.

What is ordered is worked out here in another way than by clocks: as a graph of what must be over before what, in which
two accesses are ordered if one can be reached from the end of the other.
"""

import random
from collections import defaultdict

import numpy as np
import pytest
from cores import launch, prewritten, work

from device_model.aicore.core.blocks import ASCEND_IS_AIC
from device_model.aicore.core.machine import running
from device_model.aicore.core.names import EVENTS_OF, PIPES_OF, CoreType, KernelType, Pipe, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, half
from device_model.aicore.flags.crossing import CrossCoreSetFlag, CrossCoreWaitFlag, SyncAll
from device_model.aicore.flags.sync import PipeBarrier, SetFlag, WaitFlag
from device_model.aicore.moving.atomics import SetAtomicAdd, SetAtomicNone

UNIT = 16  # halves: tensors are two units long and begin at any
CORES = [(CoreType.AIC, 0), (CoreType.AIV, 0), (CoreType.AIV, 1)]  # of one mixed block
VECTORS = CORES[1:]
SCALAR = {Pipe.S}
# How cores meet: (who sets, who waits), and the mode; None is SyncAll.
MEETINGS = [
    (CORES[:1], VECTORS, 2),
    (VECTORS, CORES[:1], 2),
    (VECTORS, VECTORS, 1),
    (VECTORS, VECTORS, 0),
    (CORES, CORES, None),
]


class Random:
    """A program for each core: work, flags, barriers; and meetings of cores."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.steps = {core: [] for core in CORES}
        length, places = self.chance.choice([(1, 3), (2, 3), (2, 8), (8, 8), (16, 8)])
        for phase in range(self.chance.choice([2, 3, 5, 8])):
            if phase:
                self.meet(phase % 8)
            for core in CORES:
                self.go_on(core, self.chance.randint(0, length), places)

    def meet(self, flag):
        setters, waiters, mode = self.chance.choice(MEETINGS)
        for core in setters:
            pipe = self.chance.choice(PIPES_OF[core[0]])
            self.steps[core].append(("sync all", flag) if mode is None else ("set core", flag, mode, pipe))
        for core in waiters:
            if mode is not None:
                self.steps[core].append(("wait core", flag))

    def go_on(self, core, length, places):
        chance, steps, raised = self.chance, self.steps[core], set()
        pipes = [pipe for pipe in PIPES_OF[core[0]] if pipe is not Pipe.S]
        events = [event for event in EVENTS_OF[core[0]] if not {event.source, event.destination} & SCALAR]
        for _ in range(length):
            kind = chance.choices(("work", "wait", "set", "barrier", "all"), (10, 4, 4, 2, 1))[0]
            if kind == "work":
                pipe = chance.choice(pipes)
                atomic = pipe in (Pipe.MTE3, Pipe.FIX) and chance.random() < 0.3
                steps.append(("work", pipe, chance.randrange(places), chance.randrange(places), atomic))
            elif kind == "set":
                flag = chance.choice(events), chance.randrange(2)
                if flag not in raised:
                    raised.add(flag)
                    steps.append(("set", *flag))
            elif kind == "wait" and raised:
                flag = chance.choice(sorted(raised))
                raised.remove(flag)
                steps.append(("wait", *flag))
            elif kind in ("barrier", "all"):
                steps.append(("barrier", chance.choice(pipes) if kind == "barrier" else Pipe.ALL))
        steps += [("wait", *flag) for flag in sorted(raised)]


def kernel_of(steps, notes):
    """The kernel that takes these steps; *notes* gets (core, step, instruction) of what moves data, in its order."""

    def kernel(z):
        program = running().program
        core = program.core_type, program.sub_block
        gm = GlobalTensor(half).SetGlobalBuffer(z)
        position = TPosition.A1 if ASCEND_IS_AIC else TPosition.VECIN
        local = prewritten(LocalTensor(half, position, 0, 10 * UNIT))
        for index, (kind, *rest) in enumerate(steps[core]):
            if kind == "work":
                pipe, to, at, atomic = rest
                dst, src = (gm if pipe in (Pipe.MTE3, Pipe.FIX) else local), (gm if pipe is Pipe.MTE2 else local)
                if atomic:
                    SetAtomicAdd(half)
                work(pipe, pipe.name, *(part[place * UNIT :][: 2 * UNIT] for part, place in ((dst, to), (src, at))))
                SetAtomicNone()
                notes.append((core, index, running().instructions[-1]))
            elif kind in ("set", "wait"):
                (SetFlag if kind == "set" else WaitFlag)(*rest)
            elif kind == "barrier":
                PipeBarrier(*rest)
            elif kind == "set core":
                flag, mode, pipe = rest
                CrossCoreSetFlag(mode, pipe, flag)
            elif kind == "wait core":
                CrossCoreWaitFlag(*rest)
            else:
                SyncAll(aiv_only=False)

    return kernel


class Order:
    """What must be over before what: arrows between beginnings and ends of work, sets, barriers and meetings."""

    def __init__(self, steps):
        self.after = defaultdict(list)
        for core in CORES:
            self.follow(core, steps[core])

    def lead(self, earlier, later):
        for each in earlier:
            self.after[each].append(later)

    def follow(self, core, steps):
        pipes = PIPES_OF[core[0]]
        ends = {pipe: [] for pipe in pipes}  # of the work in it so far
        gates = {pipe: [] for pipe in pipes}  # what the next in it begins after
        flags = {}
        for index, (kind, *rest) in enumerate(steps):
            node = core, index
            if kind == "work":
                pipe = rest[0]
                self.lead(gates[pipe], ("begin", node))
                self.lead([("begin", node)], ("end", node))
                ends[pipe].append(("end", node))
                if pipe in (Pipe.V, Pipe.M):  # these need no barrier against themselves
                    gates[pipe].append(("end", node))
            elif kind == "set":
                source = rest[0].source
                self.lead(ends[source] + gates[source], node)
                flags[tuple(rest)] = node
            elif kind == "wait":
                gates[rest[0].destination].append(flags[tuple(rest)])
            elif kind == "set core":
                flag, _, pipe = rest
                self.lead(ends[pipe] + gates[pipe], ("meeting", flag))
            elif kind == "barrier" and rest[0] is not Pipe.ALL:
                self.lead(ends[rest[0]], node)
                gates[rest[0]].append(node)
            else:
                if kind != "wait core":
                    for pipe in pipes:
                        self.lead(ends[pipe] + gates[pipe], node)
                if kind == "sync all":
                    self.lead([node], ("meeting", rest[0]))
                for pipe in pipes:  # all issue is held
                    gates[pipe].append(node if kind == "barrier" else ("meeting", rest[0]))

    def reach(self, node):
        found, left = set(), [node]
        while left:
            fresh = [each for each in self.after[left.pop()] if each not in found]
            found.update(fresh)
            left += fresh
        return found


def accesses(core, step):
    """(memory, first unit, what is done to two units)"""
    _, pipe, to, at, atomic = step
    read = ("gm" if pipe is Pipe.MTE2 else core, at, "read")
    return read, ("gm" if pipe in (Pipe.MTE3, Pipe.FIX) else core, to, "add" if atomic else "write")


def in_conflict(some, others):
    return any(
        memory == other and abs(unit - place) < 2 and {what, how} not in ({"read"}, {"add"})
        for memory, unit, what in some
        for other, place, how in others
    )


def unordered(steps, notes):
    """The pairs of *notes* that touch the same bytes and are not ordered, as instructions."""
    order = Order(steps)
    touched = [accesses(core, steps[core][index]) for core, index, _ in notes]
    pairs = []
    for first, (core, index, earlier) in enumerate(notes):
        reached = order.reach(("end", (core, index)))
        for second in range(first + 1, len(notes)):
            other, place, later = notes[second]
            if ("begin", (other, place)) not in reached and in_conflict(touched[first], touched[second]):
                pairs.append((earlier, later))
    return pairs


@pytest.mark.one_in(5)
@pytest.mark.parametrize("first", range(0, 300, 60))
def test_what_is_not_ordered_is_found_and_nothing_else(first):
    right = 0
    for seed in range(first, first + 60):
        steps, notes = Random(seed).steps, []
        findings = launch(
            kernel_of(steps, notes), np.zeros(10 * UNIT, half), kind=KernelType.MIX_AIC_1_2, timing=False
        ).findings
        expected = unordered(steps, notes)
        assert bool(expected) == bool(list(findings)), f"seed {seed}"
        for finding in findings:
            assert finding.rule.name in ("RAW", "WAR", "WAW")
            assert finding.instructions in expected, f"seed {seed}: {finding}"
        right += not expected
    assert 5 < right < 55
