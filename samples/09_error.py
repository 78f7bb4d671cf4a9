"""Shows: the two kinds of error, when they are found, and what their messages say.

Scenario: a copy in the wrong direction is the caller's mistake: the call raises at once and changes nothing. A kernel
that fails was queued earlier: its launch succeeds, and a later call finds the failure and names the line that queued
it. This error is sticky: later calls that touch the context fail, until ResetDevice makes a new one.
"""

from contextlib import contextmanager

import acl_py
from acl_py import Array, Cost, InOut, MemcpyKind

NBYTES = 1 << 10


@acl_py.kernel(cost=Cost(us=20))
def shift(x: InOut, by: int):
    if not 0 <= by < x.size:
        raise IndexError(f"cannot shift {x.size} numbers by {by}")
    x[by:] = x[: x.size - by]


@contextmanager
def attempt(what):
    try:
        yield
        print(f"{what}: well")
    except acl_py.AclError as error:
        print(f"{what}: {error.name}, {error.code}\n  what:   {error.what}\n  remedy: {error.remedy}")
        print(f"  cause:  {error.__cause__!r}")


async def main():
    host, device = await acl_py.MallocHost(NBYTES), await acl_py.Malloc(NBYTES)
    stream = await acl_py.CreateStream()
    await acl_py.Memset(device, NBYTES, 0, NBYTES)
    with attempt("a copy in the wrong direction"):
        await acl_py.MemcpyAsync(device, NBYTES, host, NBYTES, MemcpyKind.DEVICE_TO_HOST, stream)
    with attempt("a good launch"):
        await shift[1, stream](Array(device), 3)
    with attempt("a bad launch"):
        await shift[1, stream](Array(device), 5_000)
    with attempt("the wait for it"):
        await acl_py.SynchronizeStream(stream)
    with attempt("an allocation, which has nothing to do with it"):
        await acl_py.Malloc(NBYTES)
    print("the last error:", await acl_py.GetLastError(), "and when asked again:", await acl_py.GetLastError())
    await acl_py.ResetDevice(0)
    with attempt("an allocation after ResetDevice"):
        await acl_py.Malloc(NBYTES)


acl_py.run(main, device="h200")
