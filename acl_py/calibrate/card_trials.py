"""Trials of the card itself, and of the bus: how long copies and fills take, and what passes between two operations.

A kernel holds the streams while the host queues what is measured, so no time of the host is in it. Of two times that
only occur together, such as that of a copy and of the gap behind it, one keeps the value of the profile.
"""

from collections.abc import Iterator, Sequence

from acl_py.calibrate.trials import RUNS, Reading, Step, Trial, between, since
from acl_py.calibrate.values import value
from device_model.profile import DeviceProfile

_HOLD: Step = {"op": "launch", "us": 1500, "stream": "s"}
_LEAST = 64  # bytes
_MOST = 64 << 20
_DUPLEX = 16 << 20
_ROUNDS = 8
_SYNC: Step = {"op": "sync_device"}
_CURVES = {"h2d": ("d", "p"), "d2h": ("p", "d"), "d2d": ("d", "d")}


def of_bus(profile: DeviceProfile) -> Iterator[Trial]:
    """Yield the trials of copies over the bus between the host and the card."""
    yield _sizes(profile, "h2d")
    yield _sizes(profile, "d2h")
    yield from _duplex()


def of_card(profile: DeviceProfile) -> Iterator[Trial]:
    """Yield the trials of what is the card's alone."""
    yield _sizes(profile, "d2d")
    yield _sizes(profile, "fill")
    yield _gaps("latency.engines", "copies and kernels in turn", [_work("s", _copy("h2d", 1 << 20)), _work("s")])
    yield _gaps("latency.kernel_other_stream", "kernels of two streams in turn", [_work("s"), _work("t")])


def of_submission() -> Iterator[Trial]:
    """Yield the trial of how long the card takes to begin a copy, when it is known how long the host takes to wake."""
    yield _trial(
        "waits for a copy of 1 MB",
        [_copy("h2d", 1 << 20) | {"stream": "s"}, {"op": "sync_stream", "stream": "s"}],
        {"latency.submit_copy": since(0, 1)},
        runs=25,
    )


def _trial(what: str, steps: Sequence[Step], tells: dict[str, Reading], runs: int = RUNS) -> Trial:
    names = [step["event"] for step in steps if step["op"] == "record"]
    buffers = {"d": {"space": "device", "bytes": 2 * _MOST}, "p": {"space": "pinned", "bytes": _MOST}}
    program = {"id": what, "buffers": buffers, "streams": {"s": {}, "t": {}}, "events": {name: {} for name in names}}
    return Trial(
        what, {**program, "steps": [*steps]}, tuple((value(name), reading) for name, reading in tells.items()), runs
    )


def _copy(curve: str, nbytes: int) -> Step:
    if curve == "fill":
        return {"op": "memset_async", "dst": "d", "bytes": nbytes}
    dst, src = _CURVES[curve]
    return {"op": "memcpy_async", "dst": dst, "src": src, "bytes": nbytes} | ({"dst_off": _MOST} if dst == src else {})


def _record(event: str, stream: str = "s") -> Step:
    return {"op": "record", "event": event, "stream": stream}


def _elapsed(start: str, end: str) -> Step:
    return {"op": "elapsed", "start": start, "end": end}


def _sizes(profile: DeviceProfile, curve: str) -> Trial:
    """Return the trial of two copies, or fills, of each size in a row; the second counts."""
    sizes = [size for size, _ in getattr(profile.copies, curve).points if size <= _MOST]
    steps = [_HOLD]
    for size in sizes:
        step = _copy(curve, max(size, _LEAST)) | {"stream": "s"}
        steps += [step, _record(f"from {size}"), step, _record(f"to {size}")]
    steps.append(_SYNC)
    tells = {f"copies.{curve}[{size}]": between(len(steps) + place) for place, size in enumerate(sizes)}
    steps += [_elapsed(f"from {size}", f"to {size}") for size in sizes]
    return _trial(f"two copies of each size in a row ({curve})", steps, tells)


def _duplex() -> Iterator[Trial]:
    steps = [_HOLD, _record("held"), {"op": "wait", "event": "held", "stream": "t"}]
    for curve, stream in (("h2d", "s"), ("d2h", "t")):
        copy = _copy(curve, _DUPLEX) | {"stream": stream}
        steps += [copy, _record(f"{curve} from", stream), copy, _record(f"{curve} to", stream), copy]
    steps.append(_SYNC)
    for curve in ("h2d", "d2h"):
        yield _trial(
            f"copies in both directions at once ({curve})",
            [*steps, _elapsed(f"{curve} from", f"{curve} to")],
            {f"copies.duplex_{curve}_permille": between(len(steps))},
        )


def _work(stream: str, step: Step | None = None) -> Step:
    return (step or {"op": "launch", "us": 20}) | {"stream": stream}


def _gaps(name: str, what: str, pair: Sequence[Step]) -> Trial:
    """Return the trial of two operations in turn, each of which waits for the one before it."""
    steps = [_HOLD, _record("from")]
    for number in range(2 * _ROUNDS):
        step, after = pair[number % 2], f"after {number}"
        steps += [step, _record(after, step["stream"])]
        if pair[0]["stream"] != pair[1]["stream"]:
            steps.append({"op": "wait", "event": after, "stream": pair[(number + 1) % 2]["stream"]})
    steps += [_record("to", pair[1]["stream"]), _SYNC, _elapsed("from", "to")]
    return _trial(what, steps, {name: between(len(steps) - 1)})
