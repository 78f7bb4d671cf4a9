"""What calls and copies of a host took in measured programs, read off the programs' single calls.

They are looked at alone: none that may have waited for the device or that was made in a capture. Of the makespan
nothing counts but the last call. Kinds of calls and copies of which there are fewer than `FEW` have no value.

* A call costs the mean of the costs of its kind. Two kinds are left out: those of more than three times the median, in
  which the host was interrupted; and those that are the first of their kind behind a copy that left cold caches
  (`cold_bytes`).
* A pool takes its first chunk in the first `malloc_async` of a program: the curve is the profile's, times the mean of
  what that takes by ours. It gives it back at the same rate.
* `sync` is the mean of the synchronisations that find nothing to wait for when the program runs here.
* The gap between two calls is the median of the time from the end of one to the begin of the next.
* The synchronisation that ends a program is not among its calls. Where the last step was one, too, the device is idle.
  Then the median of the time from the end of that step to the end of the program, less `gap` and `sync`, is `gap_last`.
* The first host function of a program begins so long after it is ready, less `host_function_start`, because its thread
  has slept. It is ready at the end of its call, or of a kernel that is the first step.
* A blocking event wakes a host that waits for a kernel that is alone so late, less what other waits take (`sync`,
  `wake`). The least late is taken, because there are few such waits and one of them is the first of its host.
* A copy of pageable memory is read off those that were alone: the device was idle when their call began. The curves of
  the host's copies are the profile's, times the median of the measured time by ours for such a call.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from statistics import mean, median
from typing import Any

from acl_py.programs.format import parse
from acl_py.programs.replay import replay
from device_model.profile import DeviceProfile

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
SLOW = 3  # times the median: a call that was interrupted
LEAST = 65536  # bytes: a smaller copy is mostly the cost of its call
SYNCS = ("sync_stream", "sync_event", "sync_device")
BEGINS = ("begin_capture", "begin_capture_to", "begin_capture_body")
ENDS = ("end_capture", "end_capture_body")
IDLE = ("record", "wait", "host_work", "query_stream", "query_event")  # steps that give an idle device nothing to do
Document = dict[str, Any]


@dataclass
class Readings:
    """What the single calls of some programs took, in microseconds. *profile* is what the model takes for them."""

    profile: DeviceProfile
    costs: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))  # by the value of [host]
    gaps: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)  # from the last step, if the device is idle then, to the end
    rates: list[float] = field(default_factory=list)  # of pageable copies that were alone: there / here
    growth: list[float] = field(default_factory=list)  # of the pool, for its first chunk: there / here
    blocking: list[float] = field(default_factory=list)  # how late waits for blocking events ended
    asleep: list[float] = field(default_factory=list)  # how late the first host function of each program began

    WARM = (*COSTS.values(), *COPIES.values(), "launch_first")  # at the begin of a program

    def read(self, document: Document) -> None:
        """Add the calls of one program, and what its waits tell, for which the model plays it."""
        self.read_calls(document)
        self.costs["sync"] += _idle_syncs(self.profile, document)
        self.growth += _growth(self.profile, document)
        self.asleep += _first_function(self.profile, document)
        self.blocking += _blocking(self.profile, document)

    def read_calls(self, document: Document) -> None:
        """Add the calls of one program, and the times between them."""
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
            if is_pageable(step, spaces) and step["bytes"] >= self.profile.host.cold_bytes:
                warm.clear()
            if idle and is_pageable(step, spaces):
                self.rates.append(call["cost_us"] / _alone(self.profile, document, step))
            idle = step["op"] == "sync_device" or (idle and step["op"] in IDLE)
        if document["steps"][-1]["op"] == "sync_device":
            self.ends.append(document["observed"]["makespan_us"] - calls[-1]["exit_us"])
        ends = [call["exit_us"] for call in calls]
        begins = [call["enter_us"] for call in calls[1:]]
        self.gaps += [begin - end for end, begin in zip(ends, begins, strict=False)]

    def values(self) -> dict[str, int]:
        """Return the values of [host] that enough calls have, in nanoseconds."""
        values = {name: _cost(costs) for name, costs in self.costs.items() if len(costs) >= FEW}
        first = values.pop("launch_first", None)
        if first is not None:
            values["launch_first"] = max(0.0, first - values.get("launch", self.profile.host.launch / 1000))
        if self.gaps:
            values["gap"] = median(self.gaps)
        if len(self.ends) >= FEW and "gap" in values and "sync" in values:
            values["gap_last"] = max(0.0, median(self.ends) - values["gap"] - values["sync"])
        return {name: round(1000 * us / 10) * 10 for name, us in sorted(values.items())}


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


def _idle_syncs(profile: DeviceProfile, document: Document) -> list[float]:
    """Return what the synchronisations took that find nothing to wait for here."""
    run = replay(parse(document), device=profile)
    return [
        call["cost_us"]
        for call, step, ours in zip(document["observed"]["host"], document["steps"], run.host, strict=True)
        if step["op"] in SYNCS and call["ret"] == [0]
        if round(1000 * (ours.exit_us - ours.enter_us)) == profile.host.sync
    ]


def _growth(profile: DeviceProfile, document: Document) -> list[float]:
    """Return what the first growth of the pool took, by ours; nothing for a program without one."""
    steps = document["steps"]
    for call, step, is_captured in zip(document["observed"]["host"], steps, _captured(steps), strict=True):
        if step["op"] == "malloc_async" and not is_captured:
            host, chunk = profile.host, profile.memory.pool_chunk
            ours = host.pool_growth[-(-step["bytes"] // chunk) * chunk]
            return [(1000 * call["cost_us"] - host.malloc_async) / ours]
    return []


def _blocking(profile: DeviceProfile, document: Document) -> Iterator[float]:
    """Yield how late each wait for a blocking event ended that is behind one kernel, which was launched before it."""
    steps, calls = document["steps"], document["observed"]["host"]
    for i in range(2, len(steps)):
        ops = [step["op"] for step in steps[i - 2 : i + 1]]
        if ops != ["launch", "record", "sync_event"] or not document["events"][steps[i]["event"]].get("blocking"):
            continue
        latency = profile.latency
        around = latency.submit_kernel + latency.block + latency.kernel_drain + profile.host.wake
        end_us = calls[i - 2]["exit_us"] + steps[i - 2]["us"] + around / 1000
        yield calls[i]["cost_us"] - max(0.0, end_us - calls[i]["enter_us"])


def _first_function(profile: DeviceProfile, document: Document) -> list[float]:
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
        latency = profile.latency
        around = latency.submit_kernel + latency.block + latency.kernel_drain
        ready = max(calls[first]["exit_us"], calls[0]["exit_us"] + steps[0]["us"] + around / 1000)
    else:
        return []
    return [start - ready]


def is_pageable(step: Document, spaces: Mapping[str, str]) -> bool:
    """Whether *step* is a copy between the device and pageable memory, and large enough for its bytes to count."""
    if step["op"] not in ("memcpy", "memcpy_async") or step["bytes"] < LEAST:
        return False
    return {spaces.get(step["dst"]), spaces.get(step["src"])} == {"pageable", "device"}


def _alone(profile: DeviceProfile, document: Document, step: Document) -> float:
    """Return how long the call of *step* takes here, alone and with the profile's values, in microseconds."""
    run = replay(parse({**document, "steps": [step]}), device=profile)
    return run.host[0].exit_us - run.host[0].enter_us
