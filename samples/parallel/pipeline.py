"""Shows: a pipeline over four and eight devices with five schedules, and how long its ranks idle: the bubble.

Scenario: a model is too large for one card, so each rank has some of its layers. A micro-batch goes through all ranks
and back. Each schedule (schedules.py) is the order of the tasks on each rank; this program is the same for all. A rank
has a stream for its kernels and one for what it sends; events say when what has been sent is there.

A micro-batch takes a rank 3 ms forwards (F) and 6 ms backwards (B), of which 3 ms are for the weights (W); F of one and
B of another together take 8 ms (F&B). What is passed on has 1 MiB.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from schedules import SCHEDULES, Part, Schedule, Task, Times, needs

import acl_py as acl
from acl_py import Cost, Event, MemcpyKind

TIMES = Times(3_000, 6_000, 3_000, 8_000)
NBYTES = 1 << 20
SHAPES = [(ranks, micros) for ranks in (4, 8) for micros in (8, 16, 32, 64)]


def kernel_of(task: Task, chunks: int) -> Any:
    """Return a kernel that takes as long as *task* does on a rank with so many chunks of the model."""
    if len(task) == 2:
        us = TIMES.fused
    else:
        whole = {"F": TIMES.forward, "B": TIMES.backward, "W": TIMES.weights, "b": TIMES.backward - TIMES.weights}
        us = whole[task[0].kind] / chunks
    return acl.kernel(cost=Cost(us=us))(compute)


def compute() -> None:
    """Stand for the work of a rank: here only its time counts."""


class Own(NamedTuple):
    """What a rank has."""

    compute: acl.Stream
    sending: acl.Stream
    outbox: acl.Buffer
    inbox: acl.Buffer


class Pipeline:
    """A run of *schedule* on so many *ranks*, with so many micro-batches."""

    def __init__(self, schedule: Schedule, ranks: int, micros: int) -> None:
        self.schedule = schedule
        self.ranks = ranks
        self.last = ranks * schedule.chunks - 1
        self.order = schedule.order(ranks, micros)
        self.rank_of = {_result(part): rank for rank, tasks in enumerate(self.order) for task in tasks for part in task}
        self.kernels = {length: kernel_of(task, schedule.chunks) for length, task in self._tasks().items()}
        self.own: list[Own] = []
        self.done: dict[Part, Any] = {}  # by what is there then
        self.sent: dict[Part, Any] = {}
        self.arrived: dict[Part, Event] = {}  # recorded behind the copy, once that is queued
        self.queued = {part: asyncio.Event() for part in self.rank_of}

    def _tasks(self) -> dict[tuple[str, ...], Task]:
        return {_kinds(task): task for tasks in self.order for task in tasks}

    async def rank(self, rank: int) -> None:
        """Do the tasks of one rank."""
        compute, sending, outbox, _ = self.own[rank]
        for task in self.order[rank]:
            for part in task:
                for need in needs(part, self.last):
                    await self.queued[need].wait()
                    if need in self.arrived and self.rank_of[need] != rank:
                        await acl.StreamWaitEvent(compute, self.arrived[need])
            op = await acl.LaunchKernel(self.kernels[_kinds(task)], 1, (), compute)
            for part in task:
                result = _result(part)
                self.done[result] = op
                target = self._target(part)
                if target is not None and target != rank:
                    ready, arrived = await acl.CreateEvent(), await acl.CreateEvent()
                    await acl.RecordEvent(ready, compute)
                    await acl.StreamWaitEvent(sending, ready)
                    inbox = self.own[target].inbox
                    copied = await acl.MemcpyAsync(inbox, NBYTES, outbox, NBYTES, MemcpyKind.DEVICE_TO_DEVICE, sending)
                    await acl.RecordEvent(arrived, sending)
                    self.sent[result], self.arrived[result] = copied, arrived
                self.queued[result].set()
        await acl.SynchronizeDevice()

    def _target(self, part: Part) -> int | None:
        """Return the rank that needs the result of *part*; None if no other stage does."""
        step = {"F": 1, "B": -1, "b": -1, "W": 0}[part.kind]
        stage = part.stage + step
        if not step or not 0 <= stage <= self.last:
            return None
        return self.rank_of[_result(part)._replace(stage=stage)]

    async def run(self) -> tuple[float, float]:
        """Run it; return which part of the time the rank that idles most has idled, in percent, and the closed form."""
        for rank in range(self.ranks):
            await acl.SetDevice(rank)
            for peer in range(self.ranks):
                if peer != rank:
                    await acl.DeviceEnablePeerAccess(peer)
            streams = await acl.CreateStream(name="compute"), await acl.CreateStream(name="send")
            self.own.append(Own(*streams, await acl.Malloc(NBYTES), await acl.Malloc(NBYTES)))
        await acl.ranks(self.ranks, self.rank)
        self.check()
        total = max(op.end_ns for op in self.done.values()) - min(op.start_ns for op in self.done.values())
        busy = [self._busy_ns(tasks) for tasks in self.order]
        idle_us = self.schedule.idle(self.ranks, TIMES)
        return 100 * (1 - min(busy) / total), 100 * idle_us / (idle_us + min(busy) / 1e3)

    def _busy_ns(self, tasks: Sequence[Task]) -> int:
        ops = {self.done[_result(part)]: None for task in tasks for part in task}
        return sum(op.end_ns - op.start_ns for op in ops)

    def check(self) -> None:
        """Make sure that each task has begun behind all that it needs, and behind the copy of what it was sent."""
        for tasks in self.order:
            for task in tasks:
                begin = self.done[_result(task[0])].start_ns
                for need in (each for part in task for each in needs(part, self.last)):
                    assert self.done[need].end_ns <= begin, f"{task} began before {need} was over"
                    if self.rank_of[need] != self.rank_of[_result(task[0])]:
                        assert self.done[need].end_ns <= self.sent[need].start_ns, f"{need} was sent too early"
                        assert self.sent[need].end_ns <= begin, f"{task} began before {need} had arrived"


def _result(part: Part) -> Part:
    """Return what others need of *part*: of b the same as of B."""
    return part._replace(kind="B") if part.kind == "b" else part


def _kinds(task: Task) -> tuple[str, ...]:
    return tuple(part.kind for part in task)


def main() -> None:
    print("schedule     ranks  micro-batches   idle   closed form")
    for schedule in SCHEDULES:
        for ranks, micros in SHAPES:
            if schedule.allows(ranks, micros):
                idle, expected = acl.run(Pipeline(schedule, ranks, micros).run, device="h200", trace=False)
                print(f"{schedule.name:<11}  {ranks:>5}  {micros:>13}  {idle:>5.2f} %  {expected:>5.2f} %")


if __name__ == "__main__":
    main()
