"""Random programs on a card and on the model: codes and bytes must be the same.

They are those of tests/cuda, without what no two runs on a card have in common: answers about time, accesses that
nothing orders, bytes that were never written, copies within one
piece of memory, whose ends may overlap, and uses of memory that is freed, whose address the card gives out again.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

import acl_py
from acl_py.compat.acl.face.session import current_session
from acl_py.findings import Kind
from tests.cuda.calling import PTX
from tests.cuda.players import InVerbs
from tests.cuda.programs import Step, write

_RULES = ("cuda", "cuda_per_thread")
_QUESTIONS = ("query_stream", "query_event", "elapsed", "memory_info")


class Result(NamedTuple):
    """What a program has come to."""

    codes: list[int]
    told: list[Any]
    content: dict[int, bytes]


Operations = list[list[tuple[str, int]]]  # of each stream: kind and bytes


class OnDevice(InVerbs):
    """Plays a program with verbs on a device, and counts findings of the sanitizer if it is simulated."""

    def __init__(self, device: str, rules: str, *, records: bool = False) -> None:
        super().__init__()
        self._device = device
        self._rules = rules
        self._records = records
        self.findings = 0
        self.operations: Operations = []  # on the simulated device, which for a card is that of the driver
        self.graphs: dict[int, Any] = {}
        self.executables: dict[int, Any] = {}

    def result(self, steps: list[Step]) -> Result:
        return asyncio.run(self._result(steps))

    async def _result(self, steps: list[Step]) -> Result:
        is_card = self._device.startswith("cuda:")
        async with acl_py.simulate(
            device=self._device, rules=self._rules, sanitize=None if is_card else "device,host"
        ) as sim:
            self.context = await acl_py.GetCurrentContext()
            self.kernel = (await acl_py.ptx.load(PTX))["add"]
            session = current_session() if is_card else None  # of the simulated driver
            begin_ns = sim.now_ns if session is None else session.runtime.host_ns
            codes = [await self._code(step) for step in steps]
            for step in steps:
                if step[0].startswith("free"):
                    self.memory.pop(step[1], None)
            if self._records:
                recorded = sim.trace if session is None else session.trace
                self.operations = _by_stream([op for op in recorded.timeline().ops if op.queued_ns >= begin_ns])
            content = await self._content()
        self.findings = sum(each.kind is not Kind.AFTER_DESTROY for each in sim.findings)  # those calls just fail
        told = sorted(self.told) if self.graphs else self.told  # nodes side by side call in any order
        return Result(codes, told, content)

    # --- graphs

    async def begin_capture(self, stream: Any, mode: int) -> None:
        await acl_py.BeginCapture(self._stream(stream), mode)

    async def end_capture(self, number: int, stream: Any) -> None:
        self.graphs[number] = await acl_py.EndCapture(self._stream(stream))

    async def add_kernel(self, number: int, place: Any, value: int, count: int) -> None:
        graph = self.graphs[number]
        values = np.uint64(self.address(place)), np.uint32(value), np.uint32(count)
        await acl_py.GraphAddNode(graph, lambda on: self.kernel[-(-count // 128), 128, on](*values), graph.nodes[-1:])

    async def instantiate(self, number: int) -> None:
        self.executables[number] = await acl_py.GraphInstantiate(self.graphs[number])

    async def graph_launch(self, number: int, stream: Any) -> None:
        await acl_py.GraphLaunch(self.executables[number], self._stream(stream))

    async def exec_update(self, number: int, other: int) -> None:
        await acl_py.GraphExecUpdate(self.executables[number], self.graphs[other])

    async def switch(self, number: int, place: int, on: int) -> None:
        nodes = dict(enumerate(self.graphs[number].nodes))
        await acl_py.GraphNodeSetEnabled(self.executables[number], nodes[place], on)

    async def exec_destroy(self, number: int) -> None:
        await acl_py.GraphExecDestroy(self.executables[number])

    async def graph_destroy(self, number: int) -> None:
        await acl_py.GraphDestroy(self.graphs[number])


def _by_stream(ops: Any) -> Operations:
    streams: defaultdict[str, list[Any]] = defaultdict(list)
    for op in sorted(ops, key=attrgetter("queued_ns")):
        streams[op.stream].append((op.kind, op.bytes))
    return sorted(streams.values())


def calm(seed: int) -> list[Step]:
    """Return the program of *seed* without questions and uses of freed memory, with more synchronisations."""
    chance, gone, steps = random.Random(seed), set(), []
    for step in write(seed):
        inner = step[1] if step[0] == "in_thread" else step
        places = [_number(each) for each in memory_of(inner)]
        if inner[0] in _QUESTIONS or any(each in gone for each in places) or len(set(places)) < len(places):
            continue
        if inner[0].startswith("free"):
            gone.add(inner[1])
        if chance.random() < 0.5:
            steps.append(("sync",))
        steps.append(step)
        if step[0] == "allocate":  # what was never written is poison on the model, and anything on a card
            steps.append(("fill", (step[1], 0), step[1], 1, step[3], 0))
    return steps


_CAPTURED = (
    "copy_async", "rows_async", "fill_async", "launch", "host", "record", "wait", "sync_stream", "sync_event", "sync",
    "end_stream",
)  # fmt: skip


def drawn(seed: int) -> list[Step]:
    """Return the calm program of *seed* with parts of it in captures, whose graphs are launched, changed, destroyed."""
    chance, steps, number = random.Random(seed + 1), list[Step](), 0
    left = [step for step in calm(seed) if not step[0].startswith("free")]  # graphs would use it later
    pageable = pageable_in(left)  # in a graph its copies are asynchronous, and the sanitizer sees no races of it
    streams: list[Any] = []
    while left:
        block = left[: chance.randint(2, 7)] if len(streams) > 1 and chance.random() < 0.4 else left[:1]
        left = left[len(block) :]
        streams += [("stream", step[1]) for step in block if step[0] == "stream"]
        if len(block) == 1:
            steps += block
            continue
        number += 1
        on = chance.choice(streams)
        captured = [step for step in block if step[0] in _CAPTURED and not _places(step) & pageable]
        inside = [_moved(step, on) if chance.random() < 0.9 else step for step in captured]
        inside = [step for step in inside if not step[0].startswith("sync") or chance.random() < 0.1]
        steps += [("begin_capture", on, chance.randrange(3)), *inside, ("end_capture", number, on)]
        steps += [step for step in block if step[0] not in _CAPTURED]
        steps += [_use(chance, number, streams) for _ in range(chance.randint(2, 7))]
    return [*steps, ("sync",)]


def _moved(step: Step, on: Any) -> Step:
    """Return *step* in the stream *on*."""
    if step[0] == "end_stream" or step[0].startswith("sync"):
        return step
    return ("wait", on, step[2]) if step[0] == "wait" else (*step[:-1], on)


def _use(chance: random.Random, number: int, streams: list[Any]) -> Step:
    other, on = chance.randint(1, number), chance.choice(streams)
    return chance.choice(
        [
            ("instantiate", other), ("instantiate", number), ("graph_launch", number, on), ("graph_launch", number, on),
            ("graph_launch", other, on), ("exec_update", number, other), ("switch", other, chance.randrange(9), 0),
            ("switch", other, chance.randrange(9), 1), ("exec_destroy", other), ("graph_destroy", other),
            ("add_kernel", number, (1, 0), chance.randrange(100), 16), ("sync",),
        ]
    )  # fmt: skip


def queued(seed: int) -> list[Step]:
    """Return the program with graphs of *seed* without what the host takes part in, so that all is work of streams."""
    pageable = pageable_in(calm(seed))
    steps = [asynchronous(step) for step in drawn(seed) if step[0] != "in_thread"]
    return [step for step in steps if not _places(step) & pageable]


def pageable_in(steps: list[Step]) -> set[int]:
    """Return the numbers of pageable memory."""
    return {step[1] for step in steps if step[0] == "allocate" and step[2] == "pageable"}


def _places(step: Step) -> set[int]:
    return {_number(each) for each in memory_of(step)}


def asynchronous(step: Step) -> Step:
    """Return *step* without its wait."""
    return (f"{step[0]}_async", *step[1:]) if step[0] in ("copy", "rows", "peer", "fill") else step


def memory_of(step: Step) -> list[Any]:
    """Return the places of memory that *step* names."""
    if step[0].startswith("free"):
        return [step[1]]
    return [each for each in step[1:3] if isinstance(each, tuple) and not isinstance(each[0], str)]


def _number(place: Any) -> int:
    return place[0] if isinstance(place, tuple) else place


def compare(
    seeds: range, card: str, write: Callable[[int], list[Step]] = calm, *, operations: bool = False
) -> tuple[int, int]:
    """Play the programs that *write* makes on the model and on *card*; return how many are without races, and how many
    of them differ. With *operations* each stream must also have done the same, which only the simulated driver tells.
    """
    count = differ = 0
    for seed in seeds:
        rules = _RULES[seed % 2]
        steps, model = write(seed), OnDevice("h200", rules, records=operations)
        expected = model.result(steps)
        if model.findings:
            continue
        count += 1
        ours = OnDevice(card, rules, records=operations)
        got = ours.result(steps)
        if got != expected:
            differ += 1
            print(f"program {seed} differs:", *_differences(steps, expected, got), sep="\n  ", flush=True)
        elif operations and ours.operations != model.operations:
            differ += 1
            print(f"program {seed}:", *model.operations, "on the card:", *ours.operations, sep="\n  ", flush=True)
    return count, differ


def _differences(steps: list[Step], expected: Result, got: Result) -> list[str]:
    lines = [
        f"step {number} {step}: {want} on the model, {have} on the card"
        for number, (step, want, have) in enumerate(zip(steps, expected.codes, got.codes, strict=True))
        if want != have
    ]
    lines += [f"memory {number}" for number, data in expected.content.items() if got.content.get(number) != data]
    return lines or [f"told {expected.told} and {got.told}"]
