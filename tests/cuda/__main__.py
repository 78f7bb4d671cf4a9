"""Campaigns of the driver of CUDA.

python -m tests.cuda hostile 200000 1     calls that no program should make, with a seed: how often each code came
python -m tests.cuda programs 3000 1      random programs, through the library and in verbs: those that differ
python -m tests.cuda present              on a machine with a card: which driver programs get, and the card beside it
python -m tests.cuda start                processor time of a script with cuda.core, with acl-py run and without
python -m tests.cuda cost                 processor time of a call in C, and of the verb that it runs
python -m tests.cuda suites core --suites DIR [--json OUT] [--device DEVICE] [--limit SECONDS] [FILE ...]
    public tests, of a checkout of cuda-python in DIR: core or bindings; stumpy of a folder with its sources; numba has
    its own in its wheel. By file: the cases that pass on a card and need a driver, those of them that pass here, their
    share, and how all cases ended
python -m tests.cuda sanitized core --suites DIR [--json OUT] [--device DEVICE] [--limit SECONDS] [FILE ...]
    the same tests under the sanitizer: what it finds in each file, and how its cases end
python -m tests.cuda scripts --suites DIR
    public scripts and notebooks, each in the folder of its repository in DIR: how each ends under acl-py run
python -m tests.cuda stumpy [120 20]
    gpu_stump of a series of so many points with windows of so many: seconds here, and in the simulator of numba
"""

import ctypes
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any

import acl_py
from acl_py.compat.cuda.face.state import driver_here
from acl_py.compat.cuda.library.loading import Library
from acl_py.runtime.scopes import Scope, scope_var
from tests.bench.measure import fresh
from tests.cuda import matrix_profiles, public_scripts, sanitized, suites
from tests.cuda.calling import EMPTY, OUT, Cuda
from tests.cuda.conftest import driver
from tests.cuda.hostile import Hostile, lose_context
from tests.cuda.players import InC, InVerbs
from tests.cuda.present import look
from tests.cuda.programs import write
from tests.cuda.starting import start

_PARTS = 8  # of hostile calls
_BATCHES, _BATCH = 200, 100  # and the calls of each
_SIMPY = 24_000  # operations of the ring


def hostile(count: str, seed: str) -> None:
    """Make *count* calls in parts, each in a session of its own, and print how often each code came."""
    codes: Counter[int] = Counter()
    handles: list[int] = []
    for part in range(_PARTS):
        with driver("h200") as cuda:
            cuda.function()
            if part % 4 == 3:
                lose_context(cuda)
            calls = Hostile(cuda, int(seed) * _PARTS + part)
            calls.foreign(handles)
            each = int(count) // _PARTS
            codes += calls.run_in_threads(each // 4, 4) if part % 2 else calls.run(each)
            handles = calls.handles[-100:]
    for code, times in sorted(codes.items()):
        print(f"{code:4} {times:8,}")


def programs(count: str, seed: str) -> None:
    """Play *count* programs in both ways; print those that differ, and how often each code came."""
    codes: Counter[int] = Counter()
    differing = 0
    for number in range(int(seed), int(seed) + int(count)):
        steps = write(number)
        in_c, in_verbs = InC().play(steps), InVerbs().play(steps)
        codes.update(in_c.codes)
        if in_c != in_verbs:
            differing += 1
            parts = zip(in_c._fields, in_c, in_verbs, strict=True)
            print(f"program {number}: {', '.join(name for name, left, right in parts if left != right)}")
    print(f"{count} programs, {differing} differ; codes: {dict(sorted(codes.items()))}")
    sys.exit(differing > 0)


def cost() -> None:
    """Print the processor time of calls, what of it is not the verb's, and what of that the caller takes by itself. The
    second of these is in operations of SimPy's ring too, which runs beside each row: they are as fast as the machine.
    """
    Library(("libacl_py_nothing.so",), ("nothing",), 0)
    nothing = ctypes.CDLL("libacl_py_nothing.so")
    with driver("h200") as cuda:
        (_, stream), (_, event) = cuda.get("cuStreamCreate", OUT, 1), cuda.get("cuEventCreate", OUT, 2)
        device, (_, host) = cuda.allocate(64), cuda.get("cuMemAllocHost_v2", OUT, 64)
        function = cuda.function(EMPTY, b"empty")
        here = driver_here(scope_var.get())
        queue, mark = here.handles.find("stream", stream), here.handles.find("event", event)
        kernel = here.handles.find("function", function).kernel
        ends = [here.runtime.memory.at(each, 64, "memory") for each in (device, host)]
        rows: dict[str, tuple[tuple[Any, ...], Callable[[], object]]] = {
            "record": (("cuEventRecord", event, stream), lambda: acl_py.RecordEvent(mark, queue)),
            "wait": (("cuStreamWaitEvent", stream, event, 0), lambda: acl_py.StreamWaitEvent(queue, mark)),
            "copy": (
                ("cuMemcpyHtoDAsync_v2", device, host, 64, stream),
                lambda: acl_py.MemcpyAsync(ends[0], 64, ends[1], 64, acl_py.MemcpyKind.DEFAULT, queue),
            ),
            "launch": (
                ("cuLaunchKernel", function, *[1] * 3, *[32, 1, 1], 0, stream, 0, 0),
                lambda: kernel[1, 32, queue](),
            ),
        }
        for row, ((name, *values), verb) in rows.items():
            ways = (
                _called(cuda.library[name], values),
                lambda verb=verb: _finish(verb()),
                _called(nothing["nothing"], values),
            )
            in_c, alone, caller = _measured(cuda, stream, ways, here.thread.scope)
            simpy = fresh("simpy", _SIMPY, 8).us_per_op
            print(
                f"{row:8} {in_c:6.2f} us, the verb {alone:6.2f} us, between {in_c - alone:6.2f} us "
                f"({(in_c - alone) / simpy:.3f} of an operation of SimPy, {simpy:.1f} us); "
                f"of that the caller's {caller:6.2f} us"
            )


def _called(function: Any, values: Iterable[int]) -> Callable[[], object]:
    """Return a call of *function* in C, which needs some time itself: to hand the *values* over."""
    given = [ctypes.c_uint64(each) for each in values]
    return lambda: function(*given)


def _finish(verb: object) -> None:
    for _ in verb.__await__():  # type: ignore[attr-defined]
        raise AssertionError("the verb waits")


def _measured(cuda: Cuda, stream: int, ways: Sequence[Callable[[], object]], scope: Scope) -> list[float]:
    """Return the processor time of each of the *ways*, in microseconds: each the least of many batches. The second one
    is a verb, which needs the *scope*.
    """
    least = [inf for _ in ways]
    for number in range(len(ways) * _BATCHES):
        place = number % len(ways)
        token = scope_var.set(scope) if place == 1 else None
        begin = time.process_time()
        for _ in range(_BATCH):
            ways[place]()
        least[place] = min(least[place], (time.process_time() - begin) / _BATCH * 1e6)
        if token is not None:
            scope_var.reset(token)
        cuda("cuStreamSynchronize", stream)
    return least


if __name__ == "__main__":
    commands: dict[str, Callable[..., None]] = {
        "hostile": hostile,
        "programs": programs,
        "cost": cost,
        "present": look,
        "start": start,
        "scripts": public_scripts.scripts,
        "suites": suites.run,
        "sanitized": sanitized.run,
        "stumpy": matrix_profiles.run,
    }
    commands[sys.argv[1]](*sys.argv[2:])
