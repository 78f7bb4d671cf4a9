"""What binds a launch: the pipe that is busy longest, or the start and end of the launch; and the least that it takes.

The least time follows from the instructions alone, without the play of their times: no pipe ends before it has executed
all that was issued to it, and no core moves bytes faster than its fastest path.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from device_model.aicore.core.names import CoreType
from device_model.aicore.core.program import Direction, Program
from device_model.aicore.core.spec import CoreSpec
from device_model.aicore.runner import Result
from device_model.kernel.tune import Binding

NAMES = {"mac": "cube", "vec": "vector", "mte1": "MTE1", "mte2": "MTE2", "mte3": "MTE3", "fixpipe": "FIX"}
BUSY = 0.6  # a pipe that is busy for a smaller part of the time binds nothing: pipes take turns


def what_binds(result: Any) -> Binding:
    """Return how fast a timed launch moved its bytes, which part of the memory's rate that is, and what binds it."""
    assert isinstance(result, Result)
    timeline, spec = result.timeline, result.spec
    assert timeline is not None, "the launch is timed"
    moved = sum(each.flow.nbytes for program in result.programs for each in program.instructions if each.flow)
    us = timeline.duration_ns / 1000
    wholes = [time for name, time in timeline.busy_us.items() if name.endswith("_time")]
    # A mixed kernel has pipes of two kinds of cores; each is compared with the time of the longer one.
    core_us = max(wholes, default=us)
    pipes = {name: time for name, time in timeline.busy_us.items() if not name.endswith("_time")}
    most = max(pipes, key=lambda name: pipes[name], default="")
    if us - core_us > core_us:
        binds = "head"
    elif not most or pipes[most] < BUSY * core_us:
        binds = "turns"
    else:
        binds = NAMES.get(most, most)
    return Binding(moved / us, moved / us / 1000 / spec.hbm_gbps, binds)


def least_us(result: Result, spec: CoreSpec) -> float:
    """Return a time in us below which a launch with these instructions cannot be; *result* needs no times."""
    least: dict[CoreType, list[float]] = {}
    moved = 0
    for program in result.programs:
        least.setdefault(program.core_type, []).append(_least_of(program, spec))
        moved += sum(each.flow.nbytes for each in program.instructions if each.flow)
    ns = [max(max(times), sum(times) / spec.cores[core_type]) for core_type, times in least.items()]
    head = spec.schedule_ns + spec.init_ns + spec.soft_init_ns + spec.report_ns
    return (head + max([*ns, moved / spec.l2_gbps])) / 1000


def _least_of(program: Program, spec: CoreSpec) -> float:
    """Return the least time of a core's instructions in ns."""
    cycles: Counter[Any] = Counter()
    moved: Counter[Direction] = Counter()
    for each in program.instructions:
        cycles[each.pipe] += each.cycles
        if each.flow is not None:
            moved[each.flow.direction] += each.flow.nbytes
    reading = max(spec.hit_read_gbps, spec.l1_read_gbps, spec.read_bytes_per_cycle * spec.mhz / 1000)
    writing = max(spec.l0c_write_gbps, spec.write_bytes_per_cycle * spec.mhz / 1000)
    times: Sequence[float] = [
        *(count * 1000 / spec.mhz for count in cycles.values()),
        moved[Direction.READ] / reading,
        moved[Direction.WRITE] / writing,
    ]
    return max(times)
