"""Stream programs measured on a card, and how far the model is from them with the values of overlays.

    python -m tests.card.measuring timelines2 --on-card --overlay mine.toml --json OUT.json

measures the programs of tests/conformance/data/timelines2.json; without --on-card on the simulated driver. If the name
ends with .json, it is such an OUT.json, and nothing is measured.
"""

import argparse
import ctypes
import json
import mmap
import time
from collections import defaultdict
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from acl_py.calibrate.calibration import ROUNDS, Calibration
from acl_py.calibrate.calls import no_time
from acl_py.calibrate.machine import Machine, open_machine
from acl_py.calibrate.runs import Run, observed, runs
from acl_py.compat import cuda as switch
from acl_py.compat.acl.face.current import current_session
from acl_py.programs.format import parse
from acl_py.programs.replay import replay
from device_model import overlay
from device_model.profile import DeviceProfile, load

DATA = Path(__file__).parent.parent / "conformance" / "data"
_RUNS = 9
# x86-64, f(cycles): wait so many cycles of the processor's counter. It needs no interpreter, as no function in C would.
_SPIN = bytes.fromhex("0f31 48c1e220 4809d0 4889c6 4801fe f390 0f31 48c1e220 4809d0 4839f0 72f0 c3")
Document = dict[str, Any]


def measure(machine: Machine, name: str, count: int | None) -> list[Document]:
    """Return the programs of one file of data with what the card did now."""
    documents = json.loads((DATA / f"{name}.json").read_text())[:count]
    found: list[list[Run]] = [[] for _ in documents]
    for _ in range(ROUNDS):  # a host is slow for seconds
        for each, document in zip(found, documents, strict=True):
            each += runs(machine, parse(document), _RUNS // ROUNDS, function)
    return [document | {"observed": observed(each)} for document, each in zip(documents, found, strict=True)]


def function(us: float) -> tuple[int, int]:
    """Return the address of a function of the host that takes *us*, and its argument."""
    if not us:
        return no_time(us)
    code, cycles_per_us = _counter()
    return ctypes.addressof(ctypes.c_char.from_buffer(code)), round(us * cycles_per_us)


@cache
def _counter() -> tuple[mmap.mmap, float]:
    """Return the code of a function that waits, and how many cycles are a microsecond."""
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(_SPIN)
    wait = ctypes.CFUNCTYPE(None, ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    cycles, times = 10**7, []
    for _ in range(5):
        begin = time.perf_counter_ns()
        wait(cycles)
        times.append(time.perf_counter_ns() - begin)
    return code, 1000 * cycles / min(times)


def is_plain(document: Document) -> bool:
    """Whether a program has neither pageable memory nor host functions."""
    spaces = {name: buffer["space"] for name, buffer in document["buffers"].items()}
    ends = {spaces.get(step[end]) for step in document["steps"] for end in ("dst", "src") if end in step}
    return "pageable" not in ends and not any(step["op"] == "host_func" for step in document["steps"])


def compare(documents: list[Document], profiles: dict[str, DeviceProfile]) -> None:
    """Print how far the makespans of each profile are from the measured ones, and what single calls cost."""
    for name, profile in profiles.items():
        ours = [replay(parse(document), device=profile) for document in documents]
        print(f"{name}: makespans, median, 90th percentile and largest error in %, and the mean with its sign")
        for what, chosen in (("all", lambda _: True), ("plain", is_plain)):
            pairs = [pair for pair in zip(documents, ours, strict=True) if chosen(pair[0])]
            errors = [100 * (run.makespan_us / each["observed"]["makespan_us"] - 1) for each, run in pairs]
            outside = [
                0.0
                if each["observed"]["makespan_min_us"] <= run.makespan_us <= each["observed"]["makespan_max_us"]
                else error
                for error, (each, run) in zip(errors, pairs, strict=True)
            ]
            if errors:
                text = f"{_spread(errors)}; if none within its runs: {_spread(outside)}"
                print(f"  {what:5} {len(errors):4} programs: {text}")
        far = sorted(
            (100 * (run.makespan_us / each["observed"]["makespan_us"] - 1), each["id"])
            for each, run in zip(documents, ours, strict=True)
        )
        print("  furthest:", ", ".join(f"{id_} {error:+.1f}" for error, id_ in [*far[:4], *far[-4:]]))
        _calls(documents, ours)


def _spread(errors: list[float]) -> str:
    sizes = sorted(map(abs, errors))
    mean = sum(errors) / len(errors)
    return f"{median(sizes):.2f} {sizes[int(0.9 * (len(sizes) - 1))]:.2f} {sizes[-1]:.2f} {mean:+.2f}"


def _calls(documents: list[Document], ours: list[Any]) -> None:
    """Print for each kind of step what its calls took there and here, where they took less than 50 us."""
    costs = defaultdict(list)
    for document, run in zip(documents, ours, strict=True):
        for step, call, here in zip(document["steps"], document["observed"]["host"], run.host, strict=True):
            costs[step["op"]].append((call["cost_us"], here.exit_us - here.enter_us))
    for op, pairs in costs.items():
        short = [pair for pair in pairs if max(pair) < 50]
        if short:
            there, here = ([pair[side] for pair in short] for side in (0, 1))
            means = sum(there) / len(there), sum(here) / len(here)
            text = f"mean {means[0]:6.2f} us, here {means[1]:6.2f}; median {median(there):6.2f}"
            print(f"    {op:16} {len(short):5} calls, {text}")


def machine_of(*, on_card: bool) -> Machine:
    """Return the first card, or the simulated driver's with its clock."""
    if on_card:
        return open_machine(0)
    switch.install(device="h200", workers=1)
    machine = open_machine(0)
    session = current_session()
    assert session is not None, "the driver has begun"
    machine.clock, machine.work = lambda: session.runtime.host_ns, session.runtime.pay  # type: ignore[method-assign]
    return machine


def main() -> None:
    """Read the arguments, measure and compare."""
    parser = argparse.ArgumentParser(prog="python -m tests.card.measuring")
    parser.add_argument("name")
    parser.add_argument("--count", type=int, help="only so many of the programs")
    parser.add_argument("--overlay", action="append", default=[], help="what calibrate has written; may be repeated")
    parser.add_argument("--json", type=Path, help="write the programs, with what was observed, to this file")
    parser.add_argument("--on-card", action="store_true", help="on a real one, and not the simulated driver")
    chosen = parser.parse_args()
    if chosen.name.endswith(".json"):
        documents = json.loads(Path(chosen.name).read_text())
    else:
        machine = machine_of(on_card=chosen.on_card)
        Calibration(machine, load("h200")).trim()  # kernels last as long as the model's
        documents = measure(machine, chosen.name, chosen.count)
        machine.close()
        if chosen.json is not None:
            chosen.json.write_text(json.dumps(documents))
    h200 = load("h200")
    compare(documents, {"h200": h200} | {each: overlay.load(each, h200) for each in chosen.overlay})


if __name__ == "__main__":
    main()
