"""One run of a sweep's program, in this or another process."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from acl_py.simulation import current_simulation, run
from acl_py.sweeps.points import Point, Program, faults_of, options_of, parameters_of
from acl_py.sweeps.rows import Row
from acl_py.trace.rows.columns import call_columns, op_columns

if TYPE_CHECKING:
    from acl_py.simulation import Simulation


@dataclass(frozen=True)
class Job:
    """What all points of a sweep share: the *program*."""

    program: Program

    def __call__(self, point: Point) -> Row:
        """Run the program at *point*. Whatever it raises makes the row a failure, and ends no other run."""
        begin = time.perf_counter()
        try:
            us, returned, numbers = run(partial(_whole, self.program, point), **options_of(point))
        except Exception as error:
            return Row(point, error=f"{type(error).__name__}: {error}", wall_s=time.perf_counter() - begin)
        except SystemExit as error:
            return Row(point, error=f"SystemExit: {error.code}", wall_s=time.perf_counter() - begin)
        wall_s = time.perf_counter() - begin
        try:
            plain = json.loads(json.dumps(returned, default=_plain))
        except (TypeError, ValueError) as error:
            what = f"{self.program.__qualname__}() returned {type(returned).__name__}: {error}"
            return Row(point, error=f"{what}; return numbers, texts, lists and mappings of these", wall_s=wall_s)
        return Row(point, us, plain, numbers, wall_s=wall_s)


async def _whole(program: Program, point: Point) -> tuple[float, Any, Mapping[str, float]]:
    sim = current_simulation()
    rules = faults_of(point)
    if rules:
        with sim.fault(*rules):
            returned = await program(**parameters_of(point))
    else:
        returned = await program(**parameters_of(point))
    return sim.now_ns / 1000, returned, _numbers(sim)


def _numbers(sim: "Simulation") -> dict[str, float]:
    """Return the numbers of a report that cost little: see `Row`."""
    ops, calls = op_columns(sim.trace.ops), call_columns(sim.trace.calls)
    found: dict[str, float] = {"operations": len(ops), "calls": len(calls), "findings": len(sim.findings)}
    waits = calls.sleeps
    found["host_waits_us"] = float((waits.end_ns - waits.begin_ns).sum()) / 1000
    busy = np.bincount(ops.kind, ops.end_ns - ops.start_ns, len(ops.kinds)) if len(ops) else ()
    for kind, busy_ns in zip(ops.kinds, busy, strict=False):
        name = f"{kind.engine}_us"
        found[name] = found.get(name, 0.0) + float(busy_ns) / 1000
    return found


def _plain(value: Any) -> Any:
    """Return a number of NumPy as one of Python, and an array as a list."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no form in JSON")
