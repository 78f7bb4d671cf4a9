"""Random programs under ACL's rules: whatever waits for whatever, nothing is lost, and an abort frees everything."""

from contextlib import suppress
from itertools import chain

import pytest
from histories import busy
from hypothesis import given, settings
from hypothesis import strategies as st

import acl_py as acl
from tests.campaigns import many

STREAMS, EVENTS = 3, 3
WORK = [busy("short", 3), busy("long", 400)]

stream, event, small = st.integers(0, STREAMS - 1), st.integers(0, EVENTS - 1), st.integers(0, 3)
STEP = st.one_of(
    st.tuples(st.just("launch"), stream, st.integers(0, 1)),
    st.tuples(st.just("copy"), stream, st.booleans()),
    st.tuples(st.just("record"), stream, event),
    st.tuples(st.just("wait"), stream, event),
    st.tuples(st.just("reset"), stream, event),
    st.tuples(st.just("notify"), stream),
    st.tuples(st.just("await_notify"), stream),
    st.tuples(st.just("write"), stream, small),
    st.tuples(st.just("await_word"), stream, small),
    st.tuples(st.just("abort"), stream),
    st.tuples(st.just("sync"), stream),
)


def copy(dst, src, stream):
    return acl.MemcpyAsync(dst, 32, src, 32, acl.MemcpyKind.DEFAULT, stream)


async def play(steps):
    """The codes of the calls; at the end everything is aborted, and nothing may be left."""
    sim = acl.current_simulation()
    device = sim.runtime.device(0)
    streams = [await acl.CreateStream() for _ in range(STREAMS)]
    flags = acl.EventFlag.SYNC | acl.EventFlag.TIME_LINE
    events = [await acl.CreateEvent(), await acl.CreateEventWithFlag(flags), await acl.CreateEventExWithFlag(flags)]
    notify, word, host = await acl.CreateNotify(), await acl.Malloc(64), await acl.MallocHost(64)
    await acl.Memset(word, 64, 0, 64)
    verbs = {
        "launch": lambda s, k: acl.LaunchKernel(WORK[k], 1, (), streams[s]),
        "copy": lambda s, up: copy(*((word + 32, host) if up else (host, word + 32)), streams[s]),
        "record": lambda s, e: acl.RecordEvent(events[e], streams[s]),
        "wait": lambda s, e: acl.StreamWaitEvent(streams[s], events[e]),
        "reset": lambda s, e: acl.ResetEvent(events[e], streams[s]),
        "notify": lambda s: acl.RecordNotify(notify, streams[s]),
        "await_notify": lambda s: acl.WaitAndResetNotify(notify, streams[s]),
        "write": lambda s, v: acl.ValueWrite(word, v, 0, streams[s]),
        "await_word": lambda s, v: acl.ValueWait(word, v, 1, streams[s]),
        "abort": lambda s: acl.StreamAbort(streams[s]),
        "sync": lambda s: acl.SynchronizeStreamWithTimeout(streams[s], 1),
    }  # fmt: skip
    codes = []
    for name, *args in steps:
        try:
            await verbs[name](*args)
            codes.append(0)
        except acl.AclError as error:
            codes.append(error.code)
        except acl.DeadlockError as error:
            codes.append(f"dead after {len(error.chain)} links")
    for each in streams:
        await acl.StreamAbort(each)
        assert each.idle
        assert not each.steps
    with suppress(acl.AclError):  # told of the aborts
        await acl.SynchronizeDevice()
    await acl.HostWork(1_000_000)  # what ran when it was aborted has left its engine
    await acl.SynchronizeDevice()
    assert sim.runtime.unfinished() == []
    assert sim.runtime.scheduler.is_empty
    assert device.event_ids.free == device.event_ids.limit - 1  # class B holds one while it lives
    for queue in chain(*device._shared.values()):
        assert (list(queue.fifo), queue.requests, queue.reserved) == ([], [], 0)
    cores = device.cores
    assert (cores.open_cores, cores.shared_blocks, cores.resident, cores.list) == (
        sim.runtime.profile.cores.count,
        0,
        0,
        [],
    )
    assert (device.h2d.ready_heads, device.d2h.ready_heads) == (0, 0)
    after = await acl.LaunchKernel(WORK[0], 1, (), streams[0])
    await after
    return codes, [(op.name, op.stream, op.start_ns, op.end_ns) for op in sim.trace.ops]


def check(steps):
    def run():
        return acl.run(lambda: play(steps), device="tiny", rules="acl", workers=1)

    assert run() == run()


@given(st.lists(STEP, max_size=25))
def test_random_programs_leave_nothing_behind(steps):
    check(steps)


@pytest.mark.slow
@given(st.lists(STEP, max_size=60))
@settings(settings.get_profile("campaign"), max_examples=many(500))
def test_many_random_programs_leave_nothing_behind(steps):
    check(steps)
