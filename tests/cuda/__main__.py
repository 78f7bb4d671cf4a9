"""Campaigns of the driver of CUDA.

python -m tests.cuda hostile 200000 1     calls that no program should make, with a seed: how often each code came
python -m tests.cuda cost                 processor time of a call in C, and of the verb that it runs
python -m tests.cuda suites core --suites DIR [--json OUT] [FILE ...]
    public tests, of a checkout of cuda-python in DIR: core or bindings; numba has its own in its wheel. Three columns
    by file: the cases that pass on a card and need a driver, those of them that pass here, and their share
python -m tests.cuda stumpy [120 20]
    gpu_stump of a series of so many points with windows of so many: seconds here, and in the simulator of numba
"""

import ctypes
import sys
import time
from collections.abc import Callable

import acl_py
from acl_py.compat.cuda.face.state import driver_here
from acl_py.runtime.scopes import scope_var
from tests.cuda import matrix_profiles, suites
from tests.cuda.calling import OUT, Cuda
from tests.cuda.conftest import driver
from tests.cuda.hostile import Hostile

_CALLS, _BATCH = 20_000, 500  # measured, and between two waits


def hostile(count: str, seed: str) -> None:
    """Make *count* calls, and print how often each code came."""
    with driver("h200") as cuda:
        cuda.function()
        for code, times in sorted(Hostile(cuda, int(seed)).run(int(count)).items()):
            print(f"{code:4} {times:8,}")


def cost() -> None:
    """Print the processor time of calls, and what of it is not the verb's."""
    with driver("h200") as cuda:
        (_, stream), (_, event) = cuda.get("cuStreamCreate", OUT, 1), cuda.get("cuEventCreate", OUT, 2)
        device, (_, host) = cuda.allocate(64), cuda.get("cuMemAllocHost_v2", OUT, 64)
        here = driver_here()
        objects = here.handles.find("stream", stream), here.handles.find("event", event)
        ends = [here.runtime.memory.at(each, 64, "memory") for each in (device, host)]
        rows: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "record": (_called(cuda, "cuEventRecord", event, stream), lambda: acl_py.RecordEvent(*reversed(objects))),
            "wait": (_called(cuda, "cuStreamWaitEvent", stream, event, 0), lambda: acl_py.StreamWaitEvent(*objects)),
            "copy": (
                _called(cuda, "cuMemcpyHtoDAsync_v2", device, host, 64, stream),
                lambda: acl_py.MemcpyAsync(ends[0], 64, ends[1], 64, acl_py.MemcpyKind.DEFAULT, objects[0]),
            ),
        }
        for name, (call, verb) in rows.items():
            in_c = _measured(cuda, stream, call)
            token = scope_var.set(here.thread.scope)
            alone = _measured(cuda, stream, lambda verb=verb: _finish(verb()))
            scope_var.reset(token)
            print(f"{name:8} {in_c:6.2f} us, the verb {alone:6.2f} us, between {in_c - alone:6.2f} us")


def _called(cuda: Cuda, name: str, *args: int) -> Callable[[], object]:
    function, values = cuda.library[name], [ctypes.c_uint64(each) for each in args]
    return lambda: function(*values)


def _finish(verb: object) -> None:
    for _ in verb.__await__():  # type: ignore[attr-defined]
        raise AssertionError("the verb waits")


def _measured(cuda: Cuda, stream: int, call: Callable[[], object]) -> float:
    """Return the processor time of *call*, in microseconds."""
    spent = 0.0
    for _ in range(_CALLS // _BATCH):
        begin = time.process_time()
        for _ in range(_BATCH):
            call()
        spent += time.process_time() - begin
        cuda("cuStreamSynchronize", stream)
    return spent / _CALLS * 1e6


if __name__ == "__main__":
    {"hostile": hostile, "cost": cost, "suites": suites.run, "stumpy": matrix_profiles.run}[sys.argv[1]](*sys.argv[2:])
