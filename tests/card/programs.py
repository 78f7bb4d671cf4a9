"""Random programs on a card and on the model: codes and bytes must be the same.

They are those of tests/cuda, without what no two runs on a card have in common: answers about time, accesses that
nothing orders, bytes that were never written, copies within one
piece of memory, whose ends may overlap, and uses of memory that is freed, whose address the card gives out again.
"""

import asyncio
import random
from typing import Any, NamedTuple

import acl_py
from tests.cuda.calling import PTX
from tests.cuda.players import InVerbs
from tests.cuda.programs import Step, write

_QUESTIONS = ("query_stream", "query_event", "elapsed", "memory_info")


class Result(NamedTuple):
    """What a program has come to."""

    codes: list[int]
    told: list[Any]
    content: dict[int, bytes]


class OnDevice(InVerbs):
    """Plays a program with verbs on a device, and counts findings of the sanitizer if it is simulated."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self._device = device
        self.findings = 0

    def result(self, steps: list[Step]) -> Result:
        return asyncio.run(self._result(steps))

    async def _result(self, steps: list[Step]) -> Result:
        is_card = self._device.startswith("cuda:")
        async with acl_py.simulate(
            device=self._device, rules="cuda", sanitize=None if is_card else "device,host"
        ) as sim:
            self.context = await acl_py.GetCurrentContext()
            self.kernel = (await acl_py.ptx.load(PTX))["add"]
            codes = [await self._code(step) for step in steps]
            for step in steps:
                if step[0].startswith("free"):
                    self.memory.pop(step[1], None)
            content = await self._content()
        self.findings = len(sim.findings)
        return Result(codes, self.told, content)


def calm(seed: int) -> list[Step]:
    """Return the program of *seed* without questions and uses of freed memory, with more synchronisations."""
    chance, gone, steps = random.Random(seed), set(), []
    for step in write(seed):
        inner = step[1] if step[0] == "in_thread" else step
        places = [_number(each) for each in _memory_of(inner)]
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


def _memory_of(step: Step) -> list[Any]:
    """Return the places of memory that *step* names."""
    if step[0].startswith("free"):
        return [step[1]]
    return [each for each in step[1:3] if isinstance(each, tuple) and not isinstance(each[0], str)]


def _number(place: Any) -> int:
    return place[0] if isinstance(place, tuple) else place


def compare(seeds: range, card: str) -> tuple[int, int]:
    """Play the programs on the model and on *card*; return how many are without races, and how many of them differ."""
    count = differ = 0
    for seed in seeds:
        steps, model = calm(seed), OnDevice("h200")
        expected = model.result(steps)
        if model.findings:
            continue
        count += 1
        got = OnDevice(card).result(steps)
        if got != expected:
            differ += 1
            print(f"program {seed} differs:", *_differences(steps, expected, got), sep="\n  ", flush=True)
    return count, differ


def _differences(steps: list[Step], expected: Result, got: Result) -> list[str]:
    lines = [
        f"step {number} {step}: {want} on the model, {have} on the card"
        for number, (step, want, have) in enumerate(zip(steps, expected.codes, got.codes, strict=True))
        if want != have
    ]
    lines += [f"memory {number}" for number, data in expected.content.items() if got.content.get(number) != data]
    return lines or [f"told {expected.told} and {got.told}"]
