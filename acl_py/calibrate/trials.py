"""Trials: small stream programs, each of which tells some values of a profile.

A reading is a number that one run of a program gives, on a card or on the model. It is what a call took, or how long
the program took until a call returned. A value is found when the model gives the reading of the card.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from acl_py.calibrate.calls import READS, READS_LITTLE
from acl_py.calibrate.runs import Run
from acl_py.calibrate.values import Value, value
from device_model.profile import DeviceProfile

Reading = Callable[[Run], float]  # in nanoseconds
Step = dict[str, Any]
RUNS = 9
_MB = 1 << 20
_PINNED = 4 * _MB  # bytes that are allocated or registered to see what that takes
_FUNCTIONS = 12
_MOST_STAGED = 64 * _MB


@dataclass(frozen=True, slots=True)
class Trial:
    """A program, and the readings that tell values, in the order in which these are found. *what* names it."""

    what: str
    program: dict[str, Any]
    tells: tuple[tuple[Value, Reading], ...]
    runs: int = RUNS


def cost(*steps: int) -> Reading:
    """Return the reading of what the calls of these steps took, on average."""
    return lambda run: sum(run.calls[step].cost_ns for step in steps) / len(steps)


def until(step: int) -> Reading:
    """Return the reading of the time from the begin of a program to the return of a call."""
    return lambda run: run.calls[step].exit_ns


def since(first: int, step: int) -> Reading:
    """Return the reading of the time from the return of the call *first* to that of a later one."""
    return lambda run: run.calls[step].exit_ns - run.calls[first].exit_ns


def between(step: int) -> Reading:
    """Return the reading of the time between two events that a call has asked for."""
    return lambda run: run.calls[step].gave * 1e6


def trial(what: str, steps: Sequence[Step], tells: dict[str, Reading], *, runs: int = RUNS, **declared: Any) -> Trial:
    """Return a trial that *tells* values by their names; *declared* is what its program has besides its steps."""
    program = {"id": what, "buffers": {}, "streams": {"s": {}}, "events": {}, "steps": [*steps], **declared}
    return Trial(what, program, tuple((value(name), reading) for name, reading in tells.items()), runs)


def launch(us: float, stream: str = "s") -> Step:
    """Return the launch of a kernel of one block."""
    return {"op": "launch", "us": us, "stream": stream}


SYNC = {"op": "sync_stream", "stream": "s"}
SYNC_DEVICE = {"op": "sync_device"}


def chain(length: int) -> Trial:
    """Return a trial of so many kernels in a row, which are queued while the first runs."""
    return trial(f"{length} kernels in a row", [launch(400), *[launch(10)] * length, SYNC], {})


def of_host(profile: DeviceProfile, free_bytes: int) -> Iterator[Trial]:
    """Yield the trials of what the host has a part in, if what waits cost is known.

    The device has *free_bytes* of memory.
    """
    yield from _objects()
    yield from _memory(profile, free_bytes)
    yield from _functions()


def of_waits() -> Iterator[Trial]:
    """Yield the trials of waits."""
    yield trial("waits for a kernel of 50 us", [launch(50), SYNC], {"host.wake": since(0, 1)}, runs=25)
    yield trial(
        "waits for a blocking event behind a kernel of 300 us",
        [launch(300), {"op": "record", "event": "e", "stream": "s"}, {"op": "sync_event", "event": "e"}],
        {"host.wake_asleep": since(0, 2)},
        runs=25,
        events={"e": {"blocking": True, "timing": False}},
    )


def _objects() -> Iterator[Trial]:
    """Yield trials of calls that make and destroy streams and events, and that ask for something."""
    made, event = {"name": "made"}, {"event": "made"}
    for kind, fields in (("stream", made), ("event", event)):
        yield trial(
            f"{kind}s made and destroyed",
            [{"op": f"create_{kind}", **fields}, {"op": f"destroy_{kind}", **fields}],
            {f"host.create_{kind}": cost(0), f"host.destroy_{kind}": cost(1)},
        )
    records = [{"op": "record", "event": name, "stream": "s"} for name in "ab"]
    yield trial(
        "times between two events",
        [*records, SYNC_DEVICE, *[{"op": "elapsed", "start": "a", "end": "b"}] * 3],
        {"host.elapsed": cost(3, 4, 5)},
        events={"a": {}, "b": {}},
    )
    asked: tuple[tuple[str, Step], ...] = (
        ("set_device", Step(op="set_device")),
        ("memory_info", Step(op="mem_get_info")),
        ("other", Step(op="get_priority", stream="s")),
    )
    for name, op in asked:
        yield trial(f"{op['op']} 3 times", [op] * 3, {f"host.{name}": cost(0, 1, 2)})


def _memory(profile: DeviceProfile, free_bytes: int) -> Iterator[Trial]:
    for curve in ("malloc", "free"):
        points = getattr(profile.host, curve).points
        assert points[0][0] == 0, f"{curve} begins at 0"
    small = [size for size, _ in profile.host.malloc.points if size < 2 * _MB]
    for size in (size for size, _ in profile.host.malloc.points):
        if size in small[1:] or size > free_bytes // 2:
            continue
        sizes = ", ".join(map(str, small if size == small[0] else [size]))
        nbytes = 64 << 10 if size == small[0] else size
        yield trial(
            f"{nbytes:,} bytes allocated and freed",
            [{"op": "malloc", "name": "made", "bytes": nbytes}, {"op": "free", "name": "made"}],
            {f"host.malloc[{sizes}]": cost(0), f"host.free[{sizes}]": cost(1)},
        )
    for make, end, names in (
        ("malloc_host", "free_host", ("malloc_host", "free_host")),
        ("host_register", "host_unregister", ("register", "unregister")),
    ):
        yield trial(
            f"{make} of {_PINNED:,} bytes",
            [{"op": make, "name": "made", "bytes": _PINNED}, {"op": end, "name": "made"}],
            {f"host.{names[0]}": _per_mib(0), f"host.{names[1]}": _per_mib(1)},
        )
    if profile.managed is not None:
        yield trial(
            "managed memory allocated and freed",
            [{"op": "malloc_managed", "name": "made", "bytes": _MB}, {"op": "free", "name": "made"}],
            {"managed.malloc": cost(0)},
        )
    yield from _pools(profile)


def _per_mib(step: int) -> Reading:
    return lambda run: run.calls[step].cost_ns * _MB / _PINNED


# What an application does between two calls of one kind.
_SOME_CALLS: list[Step] = [launch(3), {"op": "query_stream", "stream": "s"}, launch(3)]


def _pools(profile: DeviceProfile) -> Iterator[Trial]:
    first, chunk, large = (size for size, _ in profile.host.pool_growth.points)
    for sizes, nbytes in ((f"{first}, {chunk}", _MB), (f"{large}", large - _MB)):
        steps: list[Step] = [
            {"op": "malloc_async", "name": "a", "bytes": nbytes, "stream": "s"},
            *_SOME_CALLS,
            {"op": "malloc_async", "name": "b", "bytes": 4096, "stream": "s"},
            *_SOME_CALLS,
            {"op": "free_async", "name": "b", "stream": "s"},
            {"op": "free_async", "name": "a", "stream": "s"},
            SYNC,
        ]
        small = {"host.malloc_async": cost(4)} if nbytes == _MB else {}
        curves = {f"host.pool_growth[{sizes}]": cost(0), f"host.pool_trim[{sizes}]": cost(10)}
        yield trial(f"a pool that takes and gives back {nbytes:,} bytes", steps, small | curves)


def _functions() -> Iterator[Trial]:
    function: Step = {"op": "host_func", "us": 0, "stream": "s"}
    record = [{"op": "record", "event": name, "stream": "s"} for name in "ab"]
    yield trial(
        f"{_FUNCTIONS} host functions in a row, kernels between them",
        [
            launch(200), function, launch(20), record[0], *[function, launch(20)] * _FUNCTIONS, record[1], SYNC,
            {"op": "elapsed", "start": "a", "end": "b"},
        ],
        {"latency.host_function_start": between(6 + 2 * _FUNCTIONS)},
        events={"a": {}, "b": {}},
    )  # fmt: skip
    yield trial(
        "the first host function behind a kernel of 300 us",
        [launch(300), record[0], function, record[1], SYNC, {"op": "elapsed", "start": "a", "end": "b"}],
        {"latency.host_function_asleep": between(5)},
        runs=25,
        events={"a": {}, "b": {}},
    )
    streams = ["s", *(f"s{index}" for index in range(7))]
    others = [{"op": "wait", "event": "a", "stream": stream} for stream in streams[1:]]
    yield trial(
        "host functions of eight streams at the same time",
        [launch(300), record[0], *others, *[function | {"stream": stream} for stream in streams], SYNC_DEVICE],
        {"latency.host_function_pause": since(0, 2 + len(others) + len(streams))},
        runs=25,
        streams={stream: {} for stream in streams},
        events={"a": {}},
    )


def with_memory(
    what: str, steps: Sequence[Step], tells: dict[str, Reading], nbytes: int = 4096, **declared: Any
) -> Trial:
    """Return a trial with a buffer of *nbytes* of each kind: d on the device, g and h pageable; p, pinned, is small."""
    spaces = {"d": "device", "p": "pinned", "g": "pageable", "h": "pageable"}
    pinned = min(nbytes, 4096)  # which takes long to allocate
    sizes = {name: pinned if space == "pinned" else nbytes for name, space in spaces.items()}
    buffers = {name: {"space": space, "bytes": sizes[name]} for name, space in spaces.items()}
    return trial(what, steps, tells, buffers=buffers, **declared)


def of_staging(profile: DeviceProfile) -> Iterator[Trial]:
    """Yield the trials of copies of pageable memory, and of what they leave behind."""
    copies = profile.copies
    for curve, ends in (("pageable_small", ("d", "g")), ("host_to_host", ("h", "g"))):
        sizes = [size for size, _ in getattr(copies, curve).points]
        yield _copies(curve, {f"copies.{curve}[{size}]": max(size, 64) for size in sizes}, ends)
    staged = {f"copies.stage[{size}]": size for size, _ in copies.stage.points[1:] if size <= _MOST_STAGED}
    yield _copies("stage", {"copies.stage_fixed": 2 * copies.pageable_small_bytes, **staged}, ("d", "g"))
    yield _copies("unstage", {"copies.unstage_fixed": 4096, "copies.unstage[1048576]": _MB}, ("g", "d"))
    yield _cold()


_WORK: Step = {"op": "host_work", "us": 5000, "name": READS}
_LITTLE: Step = {"op": "host_work", "us": 100, "name": READS_LITTLE}
_PINNED_COPY: Step = {"op": "memcpy_async", "dst": "d", "src": "p", "bytes": 64, "stream": "s"}


def _copies(curve: str, sizes: dict[str, int], ends: tuple[str, str]) -> Trial:
    """Return the trial of a copy of each size, alone, of bytes that the host has used before.

    So they are in the cache that all processors share, as far as that holds them, and in no other. A program copies
    what it has computed or read not long ago.
    """
    step = {"op": "memcpy"} if ends == ("h", "g") else {"op": "memcpy_async", "stream": "s"}
    steps, offset = [], 0
    for nbytes in (4096, *sizes.values()):  # the first one brings the driver's code into memory
        copy = step | {"dst": ends[0], "src": ends[1], "bytes": nbytes, "dst_off": offset, "src_off": offset}
        steps += [_WORK, copy, SYNC_DEVICE, _LITTLE, _PINNED_COPY, SYNC_DEVICE, copy]
        offset += nbytes
    tells = {name: cost(7 * place + 13) for place, name in enumerate(sizes)}
    return with_memory(f"copies of pageable memory ({curve})", [*steps, SYNC_DEVICE], tells, offset)


def _cold() -> Trial:
    """Return the trial of calls behind a large copy that the host makes itself."""
    large = {"op": "memcpy_async", "dst": "d", "src": "g", "bytes": 4 * _MB, "stream": "s"}
    calls = [
        {"op": "record", "event": "e", "stream": "s"},
        launch(3),
        {"op": "memcpy_async", "dst": "d", "src": "p", "bytes": 4096, "stream": "s"},
        {"op": "memset_async", "dst": "d", "bytes": 4096, "stream": "s"},
    ]
    return with_memory(
        "calls behind a copy of 4 MB of pageable memory",
        [*calls, SYNC_DEVICE, large, *calls, SYNC_DEVICE],
        {"host.cold_permille": cost(*range(6, 10))},
        4 * _MB,
        events={"e": {"timing": False}},
    )
