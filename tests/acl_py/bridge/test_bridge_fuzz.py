"""Random programs come to the very times of an ideal kernel, call by call."""

import asyncio

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from ideal import Ideal
from miniature import Host

TASKS, STREAMS = 6, 4
ns = st.one_of(st.sampled_from([0, 100, 700, 1_000, 3_300, 10_000, 20_000]), st.integers(0, 60_000))
streams = st.integers(0, STREAMS - 1)
tasks = st.integers(0, TASKS - 1)
steps = st.one_of(
    st.tuples(st.just("submit"), streams, ns),
    st.tuples(st.just("sync"), streams),
    st.tuples(st.just("query"), streams),
    st.tuples(st.just("work"), ns),
    st.tuples(st.just("sleep"), ns),
    st.tuples(st.just("turn")),
    st.tuples(st.just("put"), tasks),
    st.tuples(st.just("get")),
)


@st.composite
def programs(draw):
    """Steps of tasks, drawn in an order in which they could all be taken: no program waits for ever for a message."""
    found = [[] for _ in range(draw(st.integers(1, TASKS)))]
    unread = [0] * len(found)
    for task, step in draw(st.lists(st.tuples(tasks, steps), max_size=60)):
        who = task % len(found)
        if step[0] == "put":
            step = ("put", step[1] % len(found))
            unread[step[1]] += 1
        elif step[0] == "get":
            if not unread[who]:
                step = ("turn",)
            else:
                unread[who] -= 1
        found[who].append(step)
    return found


async def _play(found):
    host = Host()
    streams = [host.stream() for _ in range(STREAMS)]
    queues = [asyncio.Queue() for _ in found]
    log = []

    async def task(who):
        for number, (verb, *arguments) in enumerate(found[who]):
            match verb, *arguments:
                case "submit", stream, ns:
                    await host.submit(streams[stream], ns)
                case "sync", stream:
                    await host.sync(streams[stream])
                case "query", stream:
                    await host.query(streams[stream])
                case "work", ns:
                    await host.work(ns)
                case "sleep", ns:
                    await host.sleep(ns)
                case "turn", *_:
                    await asyncio.sleep(0)
                case "put", to:
                    queues[to].put_nowait("item")
                case "get", *_:
                    await queues[who].get()
            log.append((who, number, verb, host.host_ns))

    others = [asyncio.create_task(task(who)) for who in range(1, len(found))]
    await task(0)  # by the main task itself: where the others are gone, it waits in place
    await asyncio.gather(*others)
    assert not host.waiters
    return log


def _check(run, found):
    assert run(lambda: _play(found)) == Ideal(found).run()


@settings(max_examples=300)
@given(found=programs())
def test_random_programs_take_the_ideal_times(run, found):
    _check(run, found)


@pytest.mark.slow
@settings(settings.get_profile("campaign"), max_examples=5_000, phases=[Phase.generate, Phase.shrink])
@given(found=programs())
def test_many_random_programs_take_the_ideal_times(run, found):
    _check(run, found)


@settings(max_examples=100)
@given(found=programs())
def test_random_programs_take_the_ideal_times_with_a_tiny_budget(run, found):
    """A jump in many parts, with turns of the loop between them, is still one jump."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("acl_py.waiting.bridge.BUDGET", 1)
        _check(run, found)
