"""Whether a machine is idle enough to be measured."""

import os
from time import perf_counter_ns

from acl_py.calibrate.machine import Machine

_LOOK_NS = 200_000_000
_JUMP_NS = 20_000  # between two looks at the clock: the host was interrupted
_LOST = 0.05  # a part of the time
_LOAD = 0.5  # processes that want to run, for each core
_SPIN_NS, _MORE_NS = 2_000_000, 200_000


def disturbances(machine: Machine) -> list[str]:
    """Return a sentence for each thing that disturbs measurements on this machine."""
    found = []
    cores = os.cpu_count() or 1
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > _LOAD * cores:
        found.append(f"{load:.1f} processes want to run on {cores} cores (the load of the last minute)")
    if (lost := _lost()) > _LOST:
        found.append(f"this process loses {100 * lost:.0f} % of its time to others")
    if (longer := _longer(machine)) > _MORE_NS:
        found.append(f"a kernel of {_SPIN_NS // 1000} us took {longer // 1000} us longer: the card has other work")
    return found


def _lost() -> float:
    """Return which part of the time the host is interrupted for."""
    begin = last = perf_counter_ns()
    lost = 0
    while last - begin < _LOOK_NS:
        now = perf_counter_ns()
        if now - last > _JUMP_NS:
            lost += now - last
        last = now
    return lost / (last - begin)


def _longer(machine: Machine) -> int:
    """Return how much longer a kernel took than it should, in the better of three tries."""
    times = []
    for _ in range(4):
        begin = machine.clock()
        machine.launch(_SPIN_NS)
        machine.driver(machine.driver.cu.cuCtxSynchronize)
        times.append(machine.clock() - begin)
    return min(times[1:]) - _SPIN_NS
