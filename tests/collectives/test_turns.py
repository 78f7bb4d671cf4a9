"""The turns of hosts: whose call is over first goes on first, and of calls that end together the one made first."""

from dataclasses import replace
from heapq import heappop, heappush

from hypothesis import given
from hypothesis import strategies as st

import acl_py as acl
from device_model.profile import load

US = 1_000  # nanoseconds; on the card "tiny", SetDevice, CreateStream and a launch take one microsecond each
BEGUN_NS = 2 * US
RANKS = 5  # at most


@acl.kernel(cost=acl.Cost(us=3))
def kernel():
    """What the device does meanwhile."""


def order(programs):
    """Who is over with which step when, in order: each call is an entry of a heap, with the number that it has."""
    calls = [(BEGUN_NS, rank, rank, 0) for rank in range(len(programs))]  # in order, so it is a heap
    number, log = len(programs), []
    while calls:
        now, _, rank, step = heappop(calls)
        if step:
            log.append((rank, step, now))
        while step < len(programs[rank]) and not programs[rank][step]:  # a call that takes no time needs no turn
            step += 1
            log.append((rank, step, now))
        if step < len(programs[rank]):
            number += 1
            heappush(calls, (now + abs(programs[rank][step]) * US, number, rank, step + 1))
    return log


def turns(programs):
    """The same, as ranks with hosts of their own do it: a step is work of so many microseconds, or -1, a launch."""

    async def rank(number):
        sim, stream = acl.current_simulation(), await acl.CreateStream()
        for step, us in enumerate(programs[number], 1):
            await (acl.HostWork(us) if us >= 0 else kernel[1, stream]())
            log.append((number, step, sim.now_ns))

    log = []
    acl.run(
        lambda: acl.ranks(len(programs), rank, own_hosts=True), device=replace(load("tiny"), devices=RANKS), trace=False
    )
    return log


@given(st.lists(st.lists(st.integers(-1, 4), max_size=12), min_size=1, max_size=RANKS))
def test_hosts_go_on_in_the_order_in_which_their_calls_end_and_were_made(programs):
    assert turns(programs) == order(programs)


def test_what_a_program_sees_between_two_calls_is_what_is_so_at_that_time():
    """A kernel runs from 4 to 7 us; the launches behind it end at 5, 6, 7 and 8 us. Looks between them are no calls."""

    async def rank(number):
        first, second = await acl.CreateStream(), await acl.CreateStream()
        op, seen = await kernel[1, first](), []
        for _ in range(4):
            await kernel[1, second]()
            seen.append((op.done, first.idle))
            if number == 1:
                shared.append(seen[-1])
        return seen, list(shared)

    shared = []
    looks = [(False, False)] * 2 + [(True, True)] * 2
    found = acl.run(lambda: acl.ranks(2, rank, own_hosts=True), device="tiny", trace=False)
    assert found == [(looks, looks[:3]), (looks, looks)]
