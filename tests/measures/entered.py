"""Functions that one call enters on an otherwise idle stream, in how many files, and how deep.

Each program makes its call until it is warm, and then several times under `sys.setprofile`. The call that enters least
is shown: now and then a wait lets the event loop turn, by real time.

Each entry of a function of acl_py or device_model counts, also if it was entered before. What the user's program and
libraries enter does not count. The call's own function has depth 1. The device is tiny, and the run is traced, as runs
are by default. Garbage is not collected meanwhile, because finalizers would count, too. Later versions of Python than
3.11 enter less, because a comprehension is no function there.

Issue 31 says for SynchronizeStream 47 / 20 / 14, for `await op` 48 / 18 / 16, and for GraphLaunch 75 / 18 / 8. This
way of counting gave 45 / 19 / 14, 37 / 16 / 12 and 73 / 18 / 8 at its beginning; a function that is entered twice
would count once in 42, 36 and 62. How the issue measured `await op` is not known.

    python -m tests.measures entered [--calls]      the table; with --calls also each function, indented by its depth
"""

import gc
import sys
from contextlib import contextmanager

import acl_py as acl
from tests.measures.sources import PACKAGES, ROOT

WARM, CALLS = 3, 50  # calls before those of which the least counts; a busy machine lets the loop turn in many
NBYTES = 64
TARGETS = {  # functions, files, depth
    "MemcpyAsync": (10, 8, 6),
    "SynchronizeStream": (40, 15, 12),
    "await op": (40, 14, 13),
    "GraphLaunch": (60, 15, 8),
}
_OURS = tuple(f"{ROOT / package}/" for package in PACKAGES)


class Entries:
    """What was entered: for each entry its depth, file and function."""

    def __init__(self):
        self.rows = []

    @contextmanager
    def counted(self):
        """Count what the block enters."""
        outside = _depth(sys._getframe())
        try:
            sys.setprofile(lambda frame, event, _: event == "call" and self._enter(frame, outside))
            yield
        finally:
            sys.setprofile(None)

    def _enter(self, frame, outside):
        code = frame.f_code
        if code.co_filename.startswith(_OURS):
            self.rows.append((_depth(frame) - outside, code.co_filename.removeprefix(f"{ROOT}/"), code.co_qualname))

    @property
    def numbers(self):
        """Functions entered, their files, and the largest depth."""
        return len(self.rows), len({file for _, file, _ in self.rows}), max(depth for depth, *_ in self.rows)


def _depth(frame):
    """How many functions of the product are on the stack that ends with *frame*."""
    depth = 0
    while frame is not None:
        depth += frame.f_code.co_filename.startswith(_OURS)
        frame = frame.f_back
    return depth


@acl.kernel(cost=acl.Cost(us=10))
def work():
    pass


async def copying(stream, entries):
    pinned, device = await acl.MallocHost(NBYTES), await acl.Malloc(NBYTES)
    for entry in entries:
        with entry.counted():
            await acl.MemcpyAsync(device, NBYTES, pinned, NBYTES, acl.MemcpyKind.HOST_TO_DEVICE, stream)
        await acl.SynchronizeStream(stream)


async def synchronising(stream, entries):
    for entry in entries:
        await acl.LaunchKernel(work, 1, (), stream)
        with entry.counted():
            await acl.SynchronizeStream(stream)


async def awaiting(stream, entries):
    for entry in entries:
        op = await acl.LaunchKernel(work, 1, (), stream)
        with entry.counted():
            await op


async def launching(stream, entries):
    await acl.BeginCapture(stream)
    await acl.LaunchKernel(work, 1, (), stream)
    await acl.LaunchKernel(work, 1, (), stream)
    executable = await acl.GraphInstantiate(await acl.EndCapture(stream))
    for entry in entries:
        with entry.counted():
            await acl.GraphLaunch(executable, stream)
        await acl.SynchronizeStream(stream)


PROGRAMS = dict(zip(TARGETS, (copying, synchronising, awaiting, launching), strict=True))


async def _run(program, entries):
    await program(await acl.CreateStream(), entries)


def entered(name):
    """The entries of the call *name*, when it is warm."""
    entries = [Entries() for _ in range(CALLS)]
    gc.collect()
    gc.disable()
    try:
        acl.run(_run, PROGRAMS[name], entries, device="tiny", workers=1)
    finally:
        gc.enable()
    return min(entries[WARM:], key=lambda each: len(each.rows))


def main(arguments):
    sys.stdout.write(f"{'':20}{'functions':>10}{'files':>7}{'depth':>7}   targets\n")
    for name, targets in TARGETS.items():
        entries = entered(name)
        functions, number, depth = entries.numbers
        sys.stdout.write(f"{name:20}{functions:>10}{number:>7}{depth:>7}   {' / '.join(map(str, targets))}\n")
        if "--calls" in arguments:
            sys.stdout.writelines(f"{'  ' * depth}{function}  {file}\n" for depth, file, function in entries.rows)
