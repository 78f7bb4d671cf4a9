"""Which operations are certain to be in order, and which of them conflict."""

from itertools import combinations

import pytest
from histories import D2H, H2D, busy

import acl_py
from acl_py import In, Out, kernel
from acl_py.explain.order import Order

SIZE = 1_000
a, b, c = (busy(name, 10) for name in "abc")


def order_of(program, **options):
    async def main():
        await program()
        await acl_py.SynchronizeDevice()
        return acl_py.current_simulation().trace.timeline()

    return Order(acl_py.run(main, **{"device": "tiny", "workers": 1} | options))


def ordered(program, **options):
    """The pairs of names of the program's operations that are in order, as "ab"."""
    order = order_of(program, **options)
    ops = order.timeline.ops
    pairs = [*combinations(range(len(ops)), 2), *((j, i) for i, j in combinations(range(len(ops)), 2))]
    return {ops[i].name + ops[j].name for i, j in pairs if order.is_before(i, j)}


def conflicts(program, **options):
    order = order_of(program, **options)
    ops = order.timeline.ops
    return [(ops[each.one].name, ops[each.other].name, each.start, each.stop) for each in order.conflicts()]


def test_stream_order_is_transitive_and_streams_are_apart():
    async def program():
        one, two = await acl_py.CreateStream(), await acl_py.CreateStream()
        await a[1, one]()
        await b[1, one]()
        await c[1, two]()

    assert ordered(program) == {"ab"}


def test_an_event_orders_what_comes_before_the_record_and_behind_the_wait():
    async def program():
        one, two = await acl_py.CreateStream(), await acl_py.CreateStream()
        event = await acl_py.CreateEvent()
        await a[1, one]()
        await acl_py.RecordEvent(event, one)
        await b[1, one]()
        await acl_py.StreamWaitEvent(two, event)
        await c[1, two]()

    assert ordered(program) == {"ab", "ac"}


@pytest.mark.parametrize(
    ("rules", "pairs"), [("cuda", {"ab", "bc", "ac"}), ("cuda_per_thread", {"ac"}), ("acl", {"ac"})]
)
def test_the_default_stream_is_a_barrier_under_cuda(rules, pairs):
    async def program():
        stream = await acl_py.CreateStream()
        await a[1, stream]()
        await b[1]()
        await c[1, stream]()

    assert ordered(program, rules=rules) == pairs


def test_a_nonblocking_stream_is_outside_the_barrier():
    async def program():
        stream = await acl_py.CreateStream(nonblocking=True)
        await a[1, stream]()
        await b[1]()
        await c[1, stream]()

    assert ordered(program) == {"ac"}


@pytest.mark.parametrize("sync", ["stream", "event", "device"])
def test_a_host_that_synchronises_orders_what_it_queues_then(sync):
    async def program():
        one, two = await acl_py.CreateStream(), await acl_py.CreateStream()
        event = await acl_py.CreateEvent()
        await a[1, one]()
        await acl_py.RecordEvent(event, one)
        await b[1, one]()
        match sync:
            case "stream":
                await acl_py.SynchronizeStream(one)
            case "event":
                await acl_py.SynchronizeEvent(event)
            case "device":
                await acl_py.SynchronizeDevice()
        await c[1, two]()

    assert ordered(program) == {"ab", "ac"} | ({"bc"} if sync != "event" else set())


def test_a_notify_orders_two_streams():
    async def program():
        one, two = await acl_py.CreateStream(), await acl_py.CreateStream()
        notify = await acl_py.CreateNotify()
        await a[1, one]()
        await acl_py.RecordNotify(notify, one)
        await acl_py.WaitAndResetNotify(notify, two)
        await b[1, two]()

    assert ordered(program, rules="acl") == {"ab"}


@kernel(cost=acl_py.Cost(us=10))
def fill(x: Out):
    x[:] = 1


@kernel(cost=acl_py.Cost(us=10))
def look(x: In):
    pass


def copies(*, event=False, apart=False, reads=False):
    """Two streams touch one buffer; with an event between them, or different halves, or both only read."""

    async def program():
        one, two = await acl_py.CreateStream(), await acl_py.CreateStream()
        host, device = await acl_py.MallocHost(SIZE), await acl_py.Malloc(SIZE)
        made = await acl_py.CreateEvent()
        if reads:
            await acl_py.MemcpyAsync(host, SIZE, device, SIZE, D2H, one)
        else:
            await acl_py.MemcpyAsync(device, SIZE // 2, host, SIZE // 2, H2D, one)
        await acl_py.RecordEvent(made, one)
        if event:
            await acl_py.StreamWaitEvent(two, made)
        part = device[SIZE // 2 :] if apart else device
        await look[1, two](acl_py.Array(part, "uint8"))

    return program


def test_bytes_that_two_streams_touch_without_order_are_a_conflict():
    assert conflicts(copies()) == [("h2d", "look", 0, SIZE // 2)]
    assert conflicts(copies(event=True)) == []
    assert conflicts(copies(apart=True)) == []
    assert conflicts(copies(reads=True)) == []
