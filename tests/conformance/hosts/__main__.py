"""The hosts on which the programs in tests/conformance/data were measured, as overlays of the profile h200.

    python -m tests.conformance.hosts

reads each file of data and writes what its host's calls and copies took to an overlay of the same name, beside this
module. It looks at single calls only, and at none that may have waited for the device or that was made in a capture. Of
the makespan it takes nothing but the last call.

Kinds of calls and copies of which there are fewer than `FEW` keep the profile's value.

* A call costs the mean of the costs of its kind. Those of more than three times the median are left out, in which the
  host was interrupted, and those that are the first of their kind behind a copy that left cold caches (`cold_bytes`).
* A pool takes its first chunk in the first `malloc_async` of a program: the curve is the profile's, times the mean of
  what that takes by ours. It gives it back at the same rate.
* `sync` is the mean of the synchronisations that find nothing to wait for when the program runs here.
* The gap between two calls is the median of the time from the end of one to the begin of the next.
* The synchronisation that ends a program is not among its calls. Where the last step was one, too, the device is idle:
  the median of the time from the end of that step to the end of the program, less `gap` and `sync`, is `gap_last`.
* The first host function of a program begins so long after it is ready, less `host_function_start`, because its thread
  has slept. It is ready at the end of its call, or of a kernel that is the first step.
* A blocking event wakes a host that waits for a kernel that is alone so late, less what other waits take (`sync`,
  `wake`). The least late is taken, because there are few such waits and one of them is the first of its host.
* A copy of pageable memory is read off those that were alone: the device was idle when their call began. The curves of
  the host's copies are the profile's, times the median of the measured time by ours for such a call.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from statistics import mean, median
from typing import Any

from acl_py.programs.format import parse
from acl_py.programs.replay import replay
from device_model.profile import load

HERE = Path(__file__).parent
DATA = HERE.parent / "data"
SETS = ("timelines", "semantics", "waits", "timelines2", "staging", "gaps", "graphs", "managed")
FEW = 4  # calls of one kind: what is read off fewer is noise

# The value of [host] that the calls of an op pay, for those that never wait for the device.
COSTS = {
    "launch": "launch",
    "record": "record",
    "wait": "wait",
    "query_stream": "query",
    "query_event": "query",
    "host_func": "host_function",
    "add_callback": "host_function",
    "free_async": "free_async",
    "elapsed": "elapsed",
    "memset_async": "fill",
}
COPIES = {
    ("device", "pinned"): "copy",
    ("pinned", "device"): "copy",
    ("device", "device"): "copy_on_device",
}  # by the spaces of the destination and of the source
WHAT = {"gap": "the gaps between calls", "gap_last": "what follows the last step"}
SLOW = 3  # times the median: a call that was interrupted
CURVES = ("pageable_small", "stage", "unstage", "host_to_host")  # of [copies]: what the host copies itself
LEAST = 65536  # bytes: a smaller copy is mostly the cost of its call
SYNCS = ("sync_stream", "sync_event", "sync_device")
BEGINS = ("begin_capture", "begin_capture_to", "begin_capture_body")
ENDS = ("end_capture", "end_capture_body")
IDLE = ("record", "wait", "host_work", "query_stream", "query_event")  # steps that give an idle device nothing to do
Document = dict[str, Any]
H200 = load("h200")


@dataclass
class Readings:
    """What the single calls of one file of data took, in microseconds."""

    costs: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))  # by the value of [host]
    gaps: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)  # from the last step, if the device is idle then, to the end
    rates: list[float] = field(default_factory=list)  # of pageable copies that were alone: there / here
    growth: list[float] = field(default_factory=list)  # of the pool, for its first chunk: there / here
    blocking: list[float] = field(default_factory=list)  # how late waits for blocking events ended
    asleep: list[float] = field(default_factory=list)  # how late the first host function of each program began

    WARM = (*COSTS.values(), *COPIES.values(), "launch_first")  # at the begin of a program

    def read(self, document: Document) -> None:
        """Add the calls of one program."""
        spaces = {name: buffer["space"] for name, buffer in document["buffers"].items()}
        calls = document["observed"]["host"]
        launches, idle = 0, True
        warm: dict[str, None] = dict.fromkeys(self.WARM)
        captured = _captured(document["steps"])
        for call, step, is_captured in zip(calls, document["steps"], captured, strict=True):
            value = _value(step, spaces)
            if value == "launch":
                launches += 1
                value = "launch_first" if launches == 1 else value
            if value in warm and call["ret"] == [0] and not is_captured:
                self.costs[value].append(call["cost_us"])
            if value is not None:
                warm[value] = None
            if _is_pageable(step, spaces) and step["bytes"] >= H200.host.cold_bytes:
                warm.clear()
            if idle and _is_pageable(step, spaces):
                self.rates.append(call["cost_us"] / _alone(document, step))
            idle = step["op"] == "sync_device" or (idle and step["op"] in IDLE)
        self.costs["sync"] += _idle_syncs(document)
        if document["steps"][-1]["op"] == "sync_device":
            self.ends.append(document["observed"]["makespan_us"] - calls[-1]["exit_us"])
        self.growth += _growth(document)
        ends = [call["exit_us"] for call in calls]
        self.asleep += _first_function(document)
        self.blocking += _blocking(document)
        begins = [call["enter_us"] for call in calls[1:]]
        self.gaps += [begin - end for end, begin in zip(ends, begins, strict=False)]

    def values(self) -> dict[str, int]:
        """Return the values of [host] that enough calls have, in nanoseconds."""
        values = {name: _cost(costs) for name, costs in self.costs.items() if len(costs) >= FEW}
        first = values.pop("launch_first", None)
        if first is not None:
            values["launch_first"] = max(0.0, first - values.get("launch", H200.host.launch / 1000))
        if self.gaps:
            values["gap"] = median(self.gaps)
        if len(self.ends) >= FEW and "gap" in values and "sync" in values:
            values["gap_last"] = max(0.0, median(self.ends) - values["gap"] - values["sync"])
        return {name: round(1000 * us, -1) for name, us in sorted(values.items())}


def _value(step: Document, spaces: Mapping[str, str]) -> str | None:
    if step.get("thread") is not None:
        return None
    if step["op"] == "memcpy_async":
        return COPIES.get((spaces.get(step["dst"], ""), spaces.get(step["src"], "")))
    return COSTS.get(step["op"])


def _cost(costs: list[float]) -> float:
    return mean(cost for cost in costs if cost <= SLOW * median(costs))


def _captured(steps: list[Document]) -> list[bool]:
    """Return whether each step is made while anything is captured: such a call costs something else."""
    return [number > 0 for number in accumulate((step["op"] in BEGINS) - (step["op"] in ENDS) for step in steps)]


def _idle_syncs(document: Document) -> list[float]:
    """Return what the synchronisations took that find nothing to wait for here."""
    run = replay(parse(document))
    return [
        call["cost_us"]
        for call, step, ours in zip(document["observed"]["host"], document["steps"], run.host, strict=True)
        if step["op"] in SYNCS and call["ret"] == [0]
        if round(1000 * (ours.exit_us - ours.enter_us)) == H200.host.sync
    ]


def _growth(document: Document) -> list[float]:
    """Return what the first growth of the pool took, by ours; nothing for a program without one."""
    steps = document["steps"]
    for call, step, is_captured in zip(document["observed"]["host"], steps, _captured(steps), strict=True):
        if step["op"] == "malloc_async" and not is_captured:
            host, chunk = H200.host, H200.memory.pool_chunk
            ours = host.pool_growth[-(-step["bytes"] // chunk) * chunk]
            return [(1000 * call["cost_us"] - host.malloc_async) / ours]
    return []


def _blocking(document: Document) -> Iterator[float]:
    """Yield how late each wait for a blocking event ended that is behind one kernel, which was launched before it."""
    steps, calls = document["steps"], document["observed"]["host"]
    for i in range(2, len(steps)):
        ops = [step["op"] for step in steps[i - 2 : i + 1]]
        if ops != ["launch", "record", "sync_event"] or not document["events"][steps[i]["event"]].get("blocking"):
            continue
        latency = H200.latency
        around = latency.submit_kernel + latency.block + latency.kernel_drain + H200.host.wake
        end_us = calls[i - 2]["exit_us"] + steps[i - 2]["us"] + around / 1000
        yield calls[i]["cost_us"] - max(0.0, end_us - calls[i]["enter_us"])


def _first_function(document: Document) -> list[float]:
    """Return how long after it was ready the first host function of a program began; nothing if that is not known."""
    steps, calls = document["steps"], document["observed"]["host"]
    first = next((i for i, step in enumerate(steps) if step["op"] == "host_func"), None)
    if first is None or _captured(steps)[first]:
        return []
    stream = steps[first]["stream"]
    before = [i for i, step in enumerate(steps[:first]) if step.get("stream") in (stream, "legacy")]
    [[start, *_]] = calls[first]["extra"]
    if not before:
        ready = calls[first]["exit_us"]
    elif before == [0] and steps[0]["op"] == "launch":
        latency = H200.latency
        around = latency.submit_kernel + latency.block + latency.kernel_drain
        ready = max(calls[first]["exit_us"], calls[0]["exit_us"] + steps[0]["us"] + around / 1000)
    else:
        return []
    return [start - ready]


def _is_pageable(step: Document, spaces: Mapping[str, str]) -> bool:
    """Whether *step* is a copy between the device and pageable memory, and large enough for its bytes to count."""
    if step["op"] not in ("memcpy", "memcpy_async") or step["bytes"] < LEAST:
        return False
    return {spaces.get(step["dst"]), spaces.get(step["src"])} == {"pageable", "device"}


def _alone(document: Document, step: Document) -> float:
    """Return how long the call of *step* takes here, alone and with the profile's values, in microseconds."""
    run = replay(parse({**document, "steps": [step]}))
    return run.host[0].exit_us - run.host[0].enter_us


def overlay_of(name: str) -> str:
    """Return the overlay of the host on which the programs of data/NAME.json were measured, as TOML."""
    readings = Readings()
    for document in json.loads((DATA / f"{name}.json").read_text()):
        readings.read(document)
    lines = [
        f"# The host of tests/conformance/data/{name}.json: `python -m tests.conformance.hosts` wrote this.",
        "[host]",
    ]
    for value, ns in readings.values().items():
        what = WHAT.get(value) or f"{len(readings.costs[value])} calls"
        lines.append(f'{value} = {{ value = {ns:.0f}, source = "measured: {name}, {what}" }}')
    if len(readings.growth) >= FEW:
        rate = mean(readings.growth)
        source = f"measured: {name}, the profile's times {rate:.2f}, as {len(readings.growth)} first growths"
        for curve in ("pool_growth", "pool_trim"):
            points = [[size, round(ns * rate)] for size, ns in getattr(H200.host, curve).points]
            lines.append(f'{curve} = {{ value = {points}, source = "{source}" }}')
    if readings.blocking:
        late = round(1000 * min(readings.blocking), -2)
        lines.append(f'wake_asleep = {{ value = {late:.0f}, source = "measured: {name}, waits for blocking events" }}')
    if len(readings.asleep) >= FEW:
        late = round(1000 * median(readings.asleep) - H200.latency.host_function_start, -2)
        source = f"measured: {name}, {len(readings.asleep)} programs' first host functions"
        lines += ["", "[latency]", f'host_function_asleep = {{ value = {max(0, late):.0f}, source = "{source}" }}']
    if len(readings.rates) >= FEW:
        rate = median(readings.rates)
        source = f"measured: {name}, the profile's times {rate:.2f}, as {len(readings.rates)} copies that were alone"
        lines += ["", "[copies]"]
        for curve in CURVES:
            points = [[size, round(ns * rate)] for size, ns in getattr(H200.copies, curve).points]
            lines.append(f'{curve} = {{ value = {points}, source = "{source}" }}')
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the overlays of all files of data."""
    for name in SETS:
        (HERE / f"{name}.toml").write_text(overlay_of(name))


if __name__ == "__main__":
    main()
