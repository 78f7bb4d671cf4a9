"""Reads of the host that nobody sees: a wait for bytes that the host has an array over, and does not read, stays."""

import numpy as np
import pytest

import acl_py
from acl_py.advice.choosing import Chooser
from acl_py.advice.pairs import Doubt
from acl_py.explain.recordings import asker_of

SIZE, ROUNDS = 1 << 16, 3


@acl_py.kernel(cost=acl_py.Cost(us=30))
def count(data: acl_py.InOut):
    data += 1


async def results(use, rounds):
    """Fetch each of the results, and *use* the memory that it is in."""
    stream, device, host = await acl_py.CreateStream(), await acl_py.Malloc(SIZE), await acl_py.MallocHost(SIZE)
    await acl_py.MemsetAsync(device, SIZE, 0, SIZE, stream)
    taken = np.zeros(SIZE, np.uint8)
    for _ in range(rounds):
        await count[1, stream](acl_py.Array(device))
        await acl_py.MemcpyAsync(host, SIZE, device, SIZE, acl_py.MemcpyKind.DEVICE_TO_HOST, stream)
        await acl_py.SynchronizeStream(stream)
        use(taken, host)
    await acl_py.SynchronizeDevice()
    return acl_py.current_simulation().trace.timeline()


def assign(taken, host):
    taken[:] = host.numpy()  # NumPy tells nobody


def add(taken, host):
    taken += host.numpy()


def leave(taken, host):
    pass


@pytest.mark.parametrize("rounds", [1, ROUNDS])
@pytest.mark.parametrize(
    ("use", "advised", "doubt"),
    [(assign, 0, Doubt.HOST), (add, 0, None), (leave, 1, None)],
    ids=["assign", "add", "leave"],
)
def test_a_wait_before_a_read(use, advised, doubt, rounds):
    timeline = acl_py.run(results, use, rounds, device="tiny", sanitize="device,host")
    chosen = Chooser(asker_of(timeline, "run"), timeline).choose()
    assert [each.way.line.called for each in chosen.advice] == ["SynchronizeStream"] * advised
    (verdict,) = [each for each in chosen.verdicts if each.line.called == "SynchronizeStream"] or [None]
    assert (None if verdict is None else verdict.doubt) == doubt


async def timed(is_timed):
    """Measure some kernels behind the fill, of which the measurement must not know."""
    stream, device = await acl_py.CreateStream(), await acl_py.Malloc(SIZE)
    sim = acl_py.current_simulation()
    await acl_py.MemsetAsync(device, SIZE, 0, SIZE, stream)
    await acl_py.SynchronizeStream(stream)
    start = sim.now_ns if is_timed else 0
    for _ in range(ROUNDS):
        await count[1, stream](acl_py.Array(device))
    await acl_py.SynchronizeDevice()
    return sim.trace.timeline(), sim.now_ns - start


@pytest.mark.parametrize(("is_timed", "advised", "doubt"), [(True, 0, Doubt.TOLD), (False, 1, None)])
def test_a_wait_before_the_clock_is_read(is_timed, advised, doubt):
    timeline, _ = acl_py.run(timed, is_timed, device="tiny", sanitize="device,host")
    chosen = Chooser(asker_of(timeline, "run"), timeline).choose()
    assert [each.way.line.called for each in chosen.advice] == ["SynchronizeStream"] * advised
    (verdict,) = [each for each in chosen.verdicts if each.line.called == "SynchronizeStream"] or [None]
    assert (None if verdict is None else verdict.doubt) == doubt
