"""Where a program parts from its prediction: the card is the simulated driver's, and the model has one wrong value."""

import pytest

import acl_py
from acl_py.calibrate.values import value, with_values
from acl_py.compat.acl.face.current import current_session
from acl_py.explain.parting import differences, parting_text
from device_model.profile import load
from tests.card.kernels import SPIN

NBYTES = 1 << 20
ANY = acl_py.MemcpyKind.DEFAULT
TIMES = 12


async def pipeline():
    """Copies, kernels and waits between two streams."""
    spin = (await acl_py.ptx.load(SPIN))["spin"]
    first, second, event = await acl_py.CreateStream(), await acl_py.CreateStream(), await acl_py.CreateEvent()
    pinned, buffer = await acl_py.MallocHost(NBYTES), await acl_py.Malloc(NBYTES)
    for _ in range(TIMES):
        await acl_py.MemcpyAsync(buffer, NBYTES, pinned, NBYTES, ANY, first)
        await acl_py.RecordEvent(event, first)
        await acl_py.StreamWaitEvent(second, event)
        await spin[1, 1, second](20_000)
    await acl_py.SynchronizeStream(second)


async def requests():
    """Requests that are waited for, one after another."""
    spin, stream = (await acl_py.ptx.load(SPIN))["spin"], await acl_py.CreateStream()
    for _ in range(TIMES):
        await spin[1, 1, stream](20_000)
        await acl_py.SynchronizeStream(stream)


async def fills():
    """Fills of memory that comes and goes."""
    stream = await acl_py.CreateStream()
    for _ in range(TIMES):
        buffer = await acl_py.Malloc(4096)
        await acl_py.MemsetAsync(buffer, 4096, 1, 4096, stream)
        await acl_py.Free(buffer)


async def pooled():
    """Memory of the pool."""
    stream = await acl_py.CreateStream()
    kept = await acl_py.MallocAsync(4096, stream)
    for _ in range(TIMES):
        await acl_py.FreeAsync(await acl_py.MallocAsync(4096, stream), stream)
    await acl_py.FreeAsync(kept, stream)


@pytest.fixture
def clock(card, monkeypatch):
    """The host's clock is that of the simulated driver."""
    from acl_py.card import clock, runtime  # not imported before a card is asked for
    from acl_py.card.cuda.driver import bindings

    bindings().cuInit(0)
    session = current_session()
    if session is None:
        pytest.skip("a real card has no simulated clock")
    for module in (clock, runtime):
        monkeypatch.setattr(module, "perf_counter_ns", lambda: session.runtime.host_ns)
    return card


def recorded(main, device):
    async def run():
        await main()
        return acl_py.current_simulation().trace

    return acl_py.run(run, device=device).timeline()


@pytest.mark.parametrize(
    ("main", "wrong", "number", "named"),
    [
        (pipeline, "host.launch", 15_000, "LaunchKernel"),
        (pipeline, "host.copy", 20_000, "MemcpyAsync"),
        (requests, "host.wake", 20_000, "SynchronizeStream"),
        (fills, "host.malloc[0, 2097151]", 40_000, "Malloc"),
        (pooled, "host.malloc_async", 30_000, "MallocAsync"),
    ],
)
def test_the_call_with_the_wrong_value_is_named_first(clock, main, wrong, number, named):
    card = recorded(main, clock)
    model = recorded(main, with_values(load("h200"), {value(wrong): number}))
    first = differences(model, card)[0]
    assert first.what.split(" in ")[0] == named, parting_text(model, card)
