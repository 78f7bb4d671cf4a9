"""Random programs through pyACL and on the model: codes and bytes must be the same, and what each engine has done.

They are those of programs.py with what ACL has in place of what it lacks: memory that is managed or of a pool is that
of Malloc(), kernels have a body in Python, and there are flag events, notifies, words, callbacks, and copies that the
device refuses. Each of these waits for what the program has queued before, so none hangs.
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
from acl_py.errors import AclError
from acl_py.findings import Kind
from tests.card.programs import Result, asynchronous, calm, memory_of, pageable_in
from tests.cuda.players import NOTHING, InVerbs
from tests.cuda.programs import Step

CARD = "ascend910b3"
_EVENTS = (None, acl_py.EventFlag.SYNC | acl_py.EventFlag.TIME_LINE, acl_py.EventFlag.SYNC)
_WORD = 8
_ON_DEVICE = acl_py.MemcpyKind.DEVICE_TO_DEVICE


@acl_py.kernel(cost=acl_py.Cost(us=3))
def add(values: acl_py.InOut, number: int) -> None:
    """Add *number* to each value."""
    values += np.uint32(number)


class Row(NamedTuple):
    """An operation of the device; streams count in the order of their first operations."""

    stream: int
    kind: str
    nbytes: int


Engines = dict[str, list[Row]]  # what each engine has done, in order


class OnAcl(InVerbs):
    """Plays a program under the rules of ACL, on the model or through pyACL, and counts findings of the sanitizer."""

    def __init__(self, device: Any) -> None:
        super().__init__()
        self._device = device
        self.findings = 0
        self.engines: Engines = {}
        self._subscribed: Any = None

    @property
    def is_card(self) -> bool:
        """Whether the program goes through pyACL."""
        return bool(self._device == "npu:0")

    def result(self, steps: list[Step]) -> Result:
        """Play *steps*, and return what they come to."""
        return asyncio.run(self._result(steps))

    async def _result(self, steps: list[Step]) -> Result:
        options = {"bodies": "host"} if self.is_card else {"sanitize": "device,host", "workers": 1}
        async with acl_py.simulate(device=self._device, rules="acl", **options) as sim:
            self.context = await acl_py.GetCurrentContext()
            first = len(self._ops(sim))
            codes = [await self._code(step) for step in steps]
            self.engines = _by_engine(self._ops(sim)[first:])
            for step in steps:
                if step[0].startswith("free"):
                    self.memory.pop(step[1], None)
            content = await self._content()
        self.findings = sum(each.kind is not Kind.AFTER_DESTROY for each in sim.findings)
        return Result(codes, sorted(self.told), content)  # functions of two streams have no order

    def _ops(self, sim: Any) -> Any:
        """Return the operations of the device so far, which pyACL has in a session of its own."""
        if not self.is_card:
            return sim.trace.timeline().ops
        session: Any = current_session()
        if session is None:  # a real card tells nothing
            return []
        with session.bridge.lock:  # threads that process reports make calls
            return list(session.trace.timeline().ops)

    async def _code(self, step: Step) -> int:
        try:
            return await getattr(self, step[0])(*step[1:]) or 0
        except KeyError:
            return NOTHING
        except AclError as error:
            return error.code

    def _stream(self, stream: Any) -> Any:
        return self.streams[stream[1]] if isinstance(stream, tuple) else None

    async def event(self, number: int, flags: int) -> None:
        flag = _EVENTS[flags]
        make = acl_py.CreateEvent() if flag is None else acl_py.CreateEventExWithFlag(flag)
        self.events[number] = await make

    async def launch(self, place: Any, value: int, count: int, threads: int, stream: Any) -> None:
        array = acl_py.Array(acl_py.current_simulation().runtime.memory.at(self.address(place), 4 * count, "values"),
                             np.uint32)  # fmt: skip
        await acl_py.LaunchKernel(add, -(-count // threads), (array, value), self._stream(stream))

    async def notify(self, first: Any, second: Any) -> None:
        first, second, made = self._stream(first), self._stream(second), await acl_py.CreateNotify()
        await acl_py.RecordNotify(made, first)
        await acl_py.WaitAndResetNotify(made, second)

    async def flag(self, first: Any, second: Any) -> None:
        first, second = self._stream(first), self._stream(second)
        made = await acl_py.CreateEventWithFlag(acl_py.EventFlag.SYNC)
        await acl_py.RecordEvent(made, first)
        await acl_py.StreamWaitEvent(second, made)
        await acl_py.ResetEvent(made, second)

    async def word(self, value: int, first: Any, second: Any) -> None:
        first, second, memory = self._stream(first), self._stream(second), await acl_py.Malloc(_WORD)
        await acl_py.Memset(memory, _WORD, 0, _WORD)
        await acl_py.ValueWrite(memory, value, 0, first)
        await acl_py.ValueWait(memory, value, acl_py.Compare.EQ, second)

    async def callback(self, tag: int, block: int) -> None:
        if self._subscribed is None:
            self._subscribed = await acl_py.CreateStream()
            await acl_py.SubscribeReport(None, self._subscribed)
        await acl_py.LaunchCallback(self.told.append, tag, block, self._subscribed)
        await acl_py.ProcessReport(10_000)

    async def blind(self, dst: Any, src: int, nbytes: int, stream: Any) -> None:
        """A copy from pageable memory that says it is one inside the device, which finds that it is not."""
        stream = self._stream(stream)
        await acl_py.MemcpyAsync(self._place(dst), nbytes, self.pageable[src], nbytes, _ON_DEVICE, stream)
        await acl_py.SynchronizeStream(stream)  # at once: another wait might come before or after the failure

    async def in_thread(self, step: Step) -> int:
        return await self._code(step)


def _by_engine(ops: Any) -> Engines:
    engines: defaultdict[str, list[Row]] = defaultdict(list)
    numbers: dict[str, int] = {}
    for op in sorted(ops, key=attrgetter("start_ns", "queued_ns")):
        engines[op.engine].append(Row(numbers.setdefault(op.stream, len(numbers)), op.kind, op.bytes))
    return dict(engines)


def written(seed: int) -> list[Step]:
    """Return the program of *seed*."""
    chance, steps = random.Random(seed + 2), []
    streams: list[Any] = []
    devices: list[int] = []
    for step in calm(seed):
        step = _under_acl(step)
        streams += [("stream", step[1])] if step[0] == "stream" else []
        devices += [step[1]] if step[0] == "allocate" and step[2] == "device" else []
        if step[0] == "free" and step[1] in devices:
            devices.remove(step[1])
        if step[0] == "end_stream":
            streams = [each for each in streams if each[1] != step[1]] or streams
        steps.append(step)
        if len(streams) > 1 and devices and chance.random() < 0.25:
            steps.append(_more(chance, streams, devices, pageable_in(steps)))
    return [*steps, ("sync",)]


def _under_acl(step: Step) -> Step:
    """Return *step* with what ACL has in its place."""
    if step[0] == "in_thread":
        return "in_thread", _under_acl(step[1])
    if step[0] == "allocate" and step[2] in ("managed", "pool"):
        step = (*step[:2], "device", *step[3:])
    if step[0] == "free_async":
        step = ("free", *step[1:])
    return tuple(0 if each in (1, 2, "thread") and _is_stream(step, place) else each for place, each in enumerate(step))


def _is_stream(step: Step, place: int) -> bool:
    """Whether the argument at *place* names a stream."""
    if step[0] in ("wait", "query_stream", "sync_stream"):
        return place == 1
    without = ("stream", "event", "end_stream", "end_event", "query_event", "elapsed", "sync_event")
    return step[0] not in without and place == len(step) - 1


def _more(chance: random.Random, streams: list[Any], devices: list[int], pageable: set[int]) -> Step:
    """Return a step that only ACL has."""
    first, second = chance.choice(streams), chance.choice(streams)
    return chance.choice(
        [
            ("notify", first, second), ("flag", first, second),
            ("word", chance.randrange(1, 100), first, second),
            ("callback", chance.randrange(1000, 2000), chance.randrange(2)),
            ("blind", (chance.choice(devices), 0), min(pageable), 64, first),
        ]
    )  # fmt: skip


def on_engines(seed: int) -> list[Step]:
    """Return the program of *seed* without what is no operation of the same engine through pyACL: functions in Python,
    and what the host takes part in.
    """
    left, pageable = [], pageable_in(written(seed))
    for step in map(asynchronous, written(seed)):
        places = {place[0] if isinstance(place, tuple) else place for place in memory_of(step)}
        if step[0] not in ("in_thread", "launch", "host", "callback", "blind") and not places & pageable:
            left.append(step)
    return left


def compare(seeds: range, write: Callable[[int], list[Step]] = written, *, engines: bool = False) -> tuple[int, int]:
    """Play the programs that *write* makes on the model and through pyACL; return how many are without races, and how
    many of them differ. With *engines* each engine must also have done the same operations in the same order.
    """
    count = differ = 0
    for seed in seeds:
        steps, model = write(seed), OnAcl(CARD)
        expected = model.result(steps)
        if model.findings:
            continue
        count += 1
        ours = OnAcl("npu:0")
        got = ours.result(steps)
        if got != expected or (engines and ours.engines != model.engines):
            differ += 1
            print(f"program {seed} differs:", *_differences(steps, expected, got), sep="\n  ", flush=True)
            if engines:
                print(model.engines, "through acl", ours.engines, sep="\n  ", flush=True)
    return count, differ


def _differences(steps: list[Step], expected: Result, got: Result) -> list[str]:
    lines = [
        f"step {number} {step}: {want} on the model, {have} through acl"
        for number, (step, want, have) in enumerate(zip(steps, expected.codes, got.codes, strict=True))
        if want != have
    ]
    lines += [f"memory {number}" for number, data in expected.content.items() if got.content.get(number) != data]
    return lines or [f"told {expected.told} and {got.told}"]
