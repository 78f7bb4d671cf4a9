"""Writes files in every format, and breaks off: is killed at a step of it, or finds that the disk is full.

    python tests/broken_off.py 24 chrome csv    is killed 24 times for each format, at steps from the first to the last
    python tests/broken_off.py full csv         has a limit of 4 KB for each file

It ends with an assertion if what is left is neither the old file nor the whole new one. Otherwise it prints how often
it broke off.
"""

import asyncio
import errno
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import acl_py as acl
from acl_py import recorded
from acl_py.teaching import files
from acl_py.trace import chrome, kineto, msprof, msprof_op, table
from acl_py.trace.page import Page, Run
from acl_py.trace.rows.files import save
from acl_py.trace.rows.timeline import CoreInstruction, Timeline
from acl_py.whole_files import UNFINISHED, write_text

STEPS = {"open", "write", "writelines", "flush", "fsync", "close", "chmod", "replace"}  # functions of Python
OLD = b"old"


async def work() -> Timeline:
    async with acl.simulate(device="tiny") as sim:
        memory = await acl.Malloc(4096)
        for _ in range(300):
            await acl.Memset(memory, 4096, 0, 4096)
        await acl.Free(memory)
    return sim.trace.timeline()


def instructions(timeline: Timeline) -> Timeline:
    row = CoreInstruction(0, "AIV 0", 0, "V", "work", "vadd", 1.0, 2.0, 0, "kernel.py:1", None)
    return replace(timeline, instructions=[row] * 300)


FORMATS: dict[str, Callable[[Timeline, Path], object]] = {
    "chrome": chrome.write,
    "kineto": kineto.write,
    "csv": table.write,
    "msprof": msprof.write,
    "msprof-op": lambda timeline, path: msprof_op.write(instructions(timeline), path),
    "acl": lambda timeline, path: save(instructions(timeline), path),
    "program": recorded.write,
    "page": lambda timeline, path: Page([Run("run", timeline)]).write(path),
    "json": lambda timeline, path: write_text(path, "[0]" * 4000),
    "notebooks": lambda timeline, path: files.write(path),
}


def contents(path: Path) -> dict[str, bytes]:
    """The file, or the files of the folder, and what lies beside them: bytes by name."""
    found = sorted(each for each in path.parent.rglob("*") if each.is_file())
    return {str(each.relative_to(path.parent)): each.read_bytes() for each in found}


def prepare(path: Path, new: dict[str, bytes]) -> None:
    """Put an old file in the place of each that there will be; notebooks replace none."""
    shutil.rmtree(path.parent)
    path.parent.mkdir()
    for name in new if "notebooks" not in str(path) else ():
        file = path.parent / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(OLD)


@contextmanager
def at_each_step(do):
    """Call *do* before each step of writing."""

    def profile(frame, event, function):
        if event == "c_call" and function.__name__ in STEPS:
            do()

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)


def steps_of(write, timeline, path) -> int:
    steps = []
    with at_each_step(lambda: steps.append(1)):
        write(timeline, path)
    return len(steps)


def check(path: Path, new: dict[str, bytes], *, is_killed: bool) -> None:
    for name, data in contents(path).items():
        if is_killed and UNFINISHED in name:
            assert name.partition(UNFINISHED)[0] in new, name
        else:
            assert data in (OLD, new[name]), f"{name} is neither the old file nor the new one"


def killed(write, timeline, path, new, times) -> int:
    prepare(path, new)
    last = steps_of(write, timeline, path)
    for number in range(times):
        prepare(path, new)
        left = 1 + number * (last - 1) // (times - 1)

        def step():
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        child = os.fork()
        if child == 0:
            with at_each_step(step):
                write(timeline, path)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "it was not killed"
        check(path, new, is_killed=True)
    return times


def full(write, timeline, path, new) -> int:
    prepare(path, new)
    assert max(map(len, new.values())) > 4096, "the files are too short for this limit"
    sys.dont_write_bytecode = True  # the limit would cut the files of Python's cache
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    with pytest.raises(OSError) as caught:
        write(timeline, path)
    assert caught.value.errno == errno.EFBIG
    named = str(caught.value.filename)
    assert named == str(path) or path in Path(named).parents, named
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    check(path, new, is_killed=False)
    return 1


def main(how: str, *formats: str) -> None:
    timeline, broken = asyncio.run(work()), 0
    for name in formats:
        write, path = FORMATS[name], Path("files", name) / name
        path.parent.mkdir(parents=True)
        write(timeline, path)
        new = contents(path)
        broken += full(write, timeline, path, new) if how == "full" else killed(write, timeline, path, new, int(how))
    print(f"broken off {broken} times")


if __name__ == "__main__":
    main(*sys.argv[1:])
