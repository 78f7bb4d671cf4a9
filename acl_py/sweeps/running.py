"""One run of a sweep's program, in this or another process."""

import hashlib
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from acl_py.running import run
from acl_py.simulation import current_simulation
from acl_py.sweeps.files import filesystem_of, is_remote
from acl_py.sweeps.points import Point, Program, faults_of, options_of, parameters_of
from acl_py.sweeps.rows import Row, plain_json, plain_of
from acl_py.trace.rows.columns import call_columns, op_columns
from acl_py.trace.rows.files import save
from acl_py.trace.rows.timeline import Call, Operation, Timeline


@dataclass(frozen=True)
class Job:
    """What all points of a sweep share: the *program*, and the folder of *traces*, "" for none."""

    program: Program
    traces: str = ""

    def __call__(self, point: Point) -> Row:
        """Run the program at *point*. Whatever it raises makes the row a failure, and ends no other run."""
        begin = time.perf_counter()
        try:
            us, returned, numbers, trace = run(partial(_whole, self.program, point, self.traces), **options_of(point))
        except Exception as error:
            return Row(point, error=_text_of(error), wall_s=time.perf_counter() - begin)
        except SystemExit as error:
            return Row(point, error=f"SystemExit: {error.code}", wall_s=time.perf_counter() - begin)
        wall_s = time.perf_counter() - begin
        try:
            plain = plain_of(returned)
        except (TypeError, ValueError) as error:
            what = f"{self.program.__qualname__}() returned {type(returned).__name__}: {error}"
            return Row(point, error=f"{what}; return numbers, texts, lists and mappings of these", wall_s=wall_s)
        return Row(point, us, plain, numbers, wall_s=wall_s, trace=trace)


async def _whole(program: Program, point: Point, traces: str) -> tuple[float, Any, Mapping[str, float], str]:
    sim = current_simulation()
    rules = faults_of(point)
    if rules:
        with sim.fault(*rules):
            returned = await program(**parameters_of(point))
    else:
        returned = await program(**parameters_of(point))
    us = sim.now_ns / 1000
    trace = save_trace(sim.trace.timeline(), traces, point) if traces else ""
    return us, returned, numbers_of(sim.trace.ops, sim.trace.calls, len(sim.findings)), trace


def _text_of(error: Exception) -> str:
    """Return what an error says; of one that says nothing, the line where it was raised."""
    if str(error) or error.__traceback__ is None:
        return f"{type(error).__name__}: {error}"
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(at.filename).name}:{at.lineno}: {at.line}"


def numbers_of(operations: Sequence[Operation], of_host: Sequence[Call], findings: int) -> dict[str, float]:
    """Return the numbers of a report that cost little: see `Row`."""
    ops, calls = op_columns(operations), call_columns(of_host)
    found: dict[str, float] = {"operations": len(ops), "calls": len(calls), "findings": findings}
    waits = calls.sleeps
    found["host_waits_us"] = float((waits.end_ns - waits.begin_ns).sum()) / 1000
    busy: dict[str, float] = {}
    for kind, kind_ns in zip(ops.kinds, np.bincount(ops.kind, ops.end_ns - ops.start_ns, len(ops.kinds)), strict=True):
        busy[kind.engine] = busy.get(kind.engine, 0.0) + float(kind_ns)
    return found | {f"{engine}_us": busy_ns / 1000 for engine, busy_ns in busy.items()}


def save_trace(timeline: Timeline, folder: str, point: Point) -> str:
    """Save *timeline* in *folder*, which may be an address for fsspec; return where. The name is that of the point."""
    name = hashlib.sha256(plain_json(dict(point), sort_keys=True).encode()).hexdigest()[:16] + ".acl"
    if not is_remote(folder):
        Path(folder).mkdir(parents=True, exist_ok=True)
        save(timeline, Path(folder, name))
        return str(Path(folder, name))
    system, place = filesystem_of(folder)
    system.makedirs(place, exist_ok=True)
    with TemporaryDirectory() as own:
        save(timeline, Path(own, name))
        system.put_file(str(Path(own, name)), f"{place}/{name}")
    return f"{folder.rstrip('/')}/{name}"
