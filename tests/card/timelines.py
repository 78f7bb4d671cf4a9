"""Timelines of random programs, to the nanosecond: on the simulated device as verbs find it, and as a card's runs do.

A run on a card makes calls of its own: marks, and questions between other tasks. So these are free in both runs, and
waits of the run on a card block in the driver. What is left must come to the same times.
"""

import asyncio
from dataclasses import replace
from typing import Any, NamedTuple

import acl_py
from acl_py.compat import cuda as switch
from acl_py.compat.acl.face.session import current_session
from acl_py.runtime.runtime import Limited
from device_model.completions import Completion
from device_model.curves import Curve
from device_model.profile import DeviceProfile, load
from tests.card.programs import OnDevice, asynchronous, calm, memory_of, pageable_in, queued
from tests.cuda.calling import PTX
from tests.cuda.programs import Step

FREE = (
    "record", "wait", "query", "sync", "wake", "wake_asleep", "create_event", "destroy_event", "create_stream",
    "set_device", "other", "launch_first",
)  # fmt: skip
_FREE_OF_GRAPHS = (
    "captured", "mark", "refused", "begin", "instantiate_other", "instantiate_branch", "instantiate_edge",
    "upload_other", "upload_run",
)  # fmt: skip


class Row(NamedTuple):
    """An operation, with times from the beginning of the program."""

    stream: int  # streams count in the order of their first operations
    kind: str
    start_ns: int
    end_ns: int


def profile() -> DeviceProfile:
    """Return the H200 on a host to which the calls of the layer cost nothing."""
    base = load("h200")
    graphs = replace(base.graphs, **dict.fromkeys(_FREE_OF_GRAPHS, 0), launch_first=base.graphs.launch)
    nothing = Curve([(0, 0), (1, 0)])
    graphs = replace(graphs, end=nothing, instantiate=nothing, upload=nothing, update=nothing)
    return replace(base, host=replace(base.host, **dict.fromkeys(FREE, 0)), graphs=graphs)


class Blocking:
    """A bridge whose waits block in the driver; everything else is that of the run."""

    def __init__(self, bridge: Any) -> None:
        self._bridge = bridge

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bridge, name)

    async def wait(self, completion: Completion, waiting: Any) -> None:
        awaited: Any = completion.awaited if isinstance(completion, Limited) else completion
        if awaited.stream is not None:
            awaited.stream.ask(awaited)
        for stream in [*self._bridge.runtime.cards[0].primary.asked]:
            _block(stream)
        assert completion.done, f"{completion!r} is over"


def _block(stream: Any) -> None:
    """Wait for what *stream* was asked for."""
    stream.look()
    if not stream.is_asked:
        return
    driver = stream.driver
    behind = next((mark.event for mark in stream._marks if mark.number >= stream._asked), None)
    if behind is None:
        driver(driver.cu.cuStreamSynchronize if hasattr(driver, "cu") else driver.rt.synchronize_stream, stream.handle)
    else:
        driver.synchronize_event(behind)
    stream.look()


class _Timed(OnDevice):
    """Plays a program, and keeps the times of its operations."""

    def __init__(self, device: Any, rules: str) -> None:
        super().__init__("cuda:0" if device == "cuda:0" else "h200", rules)
        self._on = device
        self.rows: list[Row] = []

    async def _played(self, steps: list[Step]) -> None:
        is_card = self._on == "cuda:0"
        options = {"trace": False} if is_card else {"workers": 1}
        async with acl_py.simulate(device=self._on, rules=self._rules, **options) as sim:
            self.context = await acl_py.GetCurrentContext()
            self.kernel = (await acl_py.ptx.load(PTX))["add"]
            session = current_session() if is_card else None
            if is_card:
                sim.runtime.bridge = Blocking(sim.runtime.bridge)
            runtime, trace = (sim.runtime, sim.trace) if session is None else (session.runtime, session.trace)
            begin_ns = runtime.host_ns
            self.codes = [await self._code(step) for step in steps]
            self.rows = rows(trace.timeline().ops, begin_ns)

    def play_timed(self, steps: list[Step]) -> list[Row]:
        asyncio.run(self._played(steps))
        return self.rows


def rows(ops: Any, begin_ns: int) -> list[Row]:
    """Return the operations that were queued since *begin_ns*."""
    numbers: dict[str, int] = {}
    own = sorted((op for op in ops if op.queued_ns >= begin_ns), key=lambda op: (op.queued_ns, op.start_ns))
    return [
        Row(numbers.setdefault(op.stream, len(numbers)), op.kind, op.start_ns - begin_ns, op.end_ns - begin_ns)
        for op in own
    ]


def written(seed: int) -> list[Step]:
    """Return the calm program of *seed* without what the host takes part in, and without FreeAsync(): where nothing is
    left to wait for, no call of the driver shrinks the pool.
    """
    pageable = pageable_in(calm(seed))
    steps = [asynchronous(step) for step in calm(seed) if step[0] not in ("in_thread", "free_async")]
    return [step for step in steps if not {_number(each) for each in memory_of(step)} & pageable]


def _number(place: Any) -> int:
    return int(place[0] if isinstance(place, tuple) else place)


def program(seed: int) -> list[Step]:
    """Return the program of *seed*: half of them have graphs."""
    if seed % 4 < 2:
        return written(seed)
    return [step for step in queued(seed) if step[0] != "free_async"]


def compare_timelines(seeds: range) -> int:
    """Play programs on the simulated device and on a card that it is; return how many timelines differ."""
    differ, machine = 0, profile()
    for seed in seeds:
        steps, rules = program(seed), ("cuda", "cuda_per_thread")[seed % 2]
        expected = _Timed(machine, rules).play_timed(steps)
        switch.install(device=machine, workers=1)
        got = _Timed("cuda:0", rules).play_timed(steps)
        switch.uninstall()
        if got != expected:
            differ += 1
            first = next((pair for pair in zip(expected, got, strict=False) if pair[0] != pair[1]), None)
            print(f"program {seed}: {len(expected)} operations and {len(got)}; first {first}", flush=True)
    return differ
