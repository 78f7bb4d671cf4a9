"""Random programs come to the very times of an ideal kernel, call by call."""

import asyncio
from functools import partial

import pytest
from environments import SIMULATED_LOOPS
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from ideal import Ideal
from miniature import Host

from acl_py.waiting import clock
from acl_py.waiting.bridge import Bridge
from tests.campaigns import many

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

    async def do(who, verb, *arguments):
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
            case "rest", ns:
                await asyncio.sleep(ns / 1e9)
            case "kill", other:
                tasks[other].cancel()
            case "within", ns, step:
                try:
                    async with asyncio.timeout(ns / 1e9):
                        await do(who, *step)
                except TimeoutError:
                    return "too late"
                return "in time"
        return verb

    async def task(who):
        for number, step in enumerate(found[who]):
            try:
                outcome = await do(who, *step)
            except asyncio.CancelledError:
                log.append((who, number, "killed", host.host_ns))
                raise
            log.append((who, number, outcome, host.host_ns))

    tasks = {who: asyncio.create_task(task(who)) for who in range(1, len(found))}
    await task(0)  # by the main task itself: where the others are gone, it waits in place
    await asyncio.gather(*tasks.values(), return_exceptions=True)
    for each in tasks.values():
        assert each.cancelled() or each.result() is None
    assert not host.waiters
    return log


def _check(run, found):
    assert run(lambda: _play(found)) == Ideal(found).run()


def _check_with_a_tiny_budget(run, found):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("acl_py.waiting.bridge.BUDGET", 1)
        _check(run, found)


@given(found=programs())
def test_random_programs_take_the_ideal_times(run, found):
    _check(run, found)


@pytest.mark.slow
@settings(settings.get_profile("campaign"), max_examples=many(800), phases=[Phase.generate, Phase.shrink])
@given(found=programs())
def test_many_random_programs_take_the_ideal_times(run, found):
    _check(run, found)


@given(found=programs())
def test_random_programs_take_the_ideal_times_with_a_tiny_budget(run, found):
    """A jump in many parts, with turns of the loop between them, is still one jump."""
    _check_with_a_tiny_budget(run, found)


@pytest.mark.slow
@settings(settings.get_profile("campaign"), max_examples=many(400), phases=[Phase.generate, Phase.shrink])
@given(found=programs())
def test_many_random_programs_take_the_ideal_times_with_a_tiny_budget(run, found):
    _check_with_a_tiny_budget(run, found)


# --- asyncio's timers, on a simulated clock

waits = st.one_of(
    st.tuples(st.just("sync"), streams),
    st.tuples(st.just("query"), streams),
    st.tuples(st.just("sleep"), ns),
    st.tuples(st.just("rest"), ns),
    st.tuples(st.just("get")),
    st.tuples(st.just("turn")),
)
timed_steps = st.one_of(
    st.tuples(st.just("submit"), streams, ns),
    waits.filter(lambda step: step[0] != "get"),  # its sender may have been killed
    st.tuples(st.just("rest"), ns),
    st.tuples(st.just("within"), ns, waits),
    st.tuples(st.just("work"), ns),
    st.tuples(st.just("put"), tasks),
    st.tuples(st.just("kill"), tasks),
)


@st.composite
def timed_programs(draw):
    """Steps of tasks; the first one, which is the main task, cannot be killed, and no task kills itself."""
    found = [[] for _ in range(draw(st.integers(1, TASKS)))]
    for task, step in draw(st.lists(st.tuples(tasks, timed_steps), max_size=60)):
        who = task % len(found)
        verb, *arguments = step
        if verb in ("put", "kill"):
            step = (verb, arguments[0] % len(found))
        if verb != "kill" or step[1] not in (0, who):
            found[who].append(step)
    return found


def _takes_ideal_times(run, found):
    return run(lambda: _play(found)) == Ideal(found).run()


@pytest.fixture(params=SIMULATED_LOOPS)
def run_simulated(request):
    return SIMULATED_LOOPS[request.param]


@given(found=timed_programs())
def test_random_programs_with_timers_take_the_ideal_times(run_simulated, found):
    _check(run_simulated, found)


@pytest.mark.slow
@settings(settings.get_profile("campaign"), max_examples=many(800), phases=[Phase.generate, Phase.shrink])
@given(found=timed_programs())
def test_many_random_programs_with_timers_take_the_ideal_times(run_simulated, found):
    _check(run_simulated, found)


@given(found=timed_programs())
def test_random_programs_with_timers_take_the_ideal_times_with_a_tiny_budget(run_simulated, found):
    _check_with_a_tiny_budget(run_simulated, found)


@pytest.mark.slow
@settings(settings.get_profile("campaign"), max_examples=many(400), phases=[Phase.generate, Phase.shrink])
@given(found=timed_programs())
def test_many_random_programs_with_timers_take_the_ideal_times_with_a_tiny_budget(run_simulated, found):
    _check_with_a_tiny_budget(run_simulated, found)


def _ties_by_heap(patch):
    """Of two timers at one instant the one that was set last rings first."""
    add = clock.Timers.add

    def add_before(timers, ns, timer):
        timers._sequence -= 2
        add(timers, ns, timer)

    patch.setattr(clock.Timers, "add", add_before)


def _timer_before_completion(patch):
    """A timer rings before what a device completes at the same instant."""
    first_device = clock.Clock._first_device

    def before(self, limit):
        return first_device(self, limit - 1 if limit == self.timers.first_ns else limit)

    patch.setattr(clock.Clock, "_first_device", before)


def _in_place_past_a_timer(patch):
    """A task that is alone runs its device past the first timer, as it may until a trip is due in real time: never."""

    def run_in_place(bridge, completion):
        done = bridge.host.scheduler.run_until(completion, 1_000)
        bridge._catch_up()
        return done

    patch.setattr(Bridge, "_run_in_place", run_in_place)
    patch.setattr(clock.Clock, "is_trip_due", lambda self: False)


def _trip_by_the_wall_clock(patch):
    """A task without company goes on past a timer that is due, until the last trip is long ago in real time.

    The machine counts as so fast that it never is, whatever its load.
    """
    patch.setattr(clock.Clock, "alone", lambda self: len(asyncio.all_tasks()) == 1)
    patch.setattr(clock.Clock, "is_trip_due", lambda self: False)


def _horizon_too_high(patch):
    """A call goes past a timer that was set after the horizon, and for an earlier time."""
    call = clock.Clock._call

    def call_without_horizon(self, *arguments):
        self._horizon_ns = -1  # no time is earlier, so the horizon of the host stays
        return call(self, *arguments)

    patch.setattr(clock.Clock, "_call", call_without_horizon)


# Faults, each with the shortest program that has other times because of it.
FAULTS = {
    _ties_by_heap: [[("rest", 1)], [("rest", 1)]],
    _timer_before_completion: [[("within", 100, ("sleep", 100))], []],
    _in_place_past_a_timer: [[("within", 100, ("sleep", 700))]],
    _trip_by_the_wall_clock: [[("within", 0, ("sync", 0))]],
    _horizon_too_high: [[("within", 100, ("sync", 0))]],
}
each_fault = pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)


def _is_noticed(plant, found):
    """Whether a program takes its ideal times, but for the fault."""
    run = SIMULATED_LOOPS["simulated"]
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        is_wrong = not _takes_ideal_times(run, found)
    return is_wrong and _takes_ideal_times(run, found)


@each_fault
def test_the_ideal_kernel_notices_a_fault(plant):
    """Else all the tests above could agree on nothing."""
    assert _is_noticed(plant, FAULTS[plant])


@pytest.mark.slow
@each_fault
def test_a_random_program_shows_a_fault(plant):
    options = settings(max_examples=5_000, derandomize=True, database=None, phases=[Phase.generate])
    find(timed_programs(), partial(_is_noticed, plant), settings=options)  # raises NoSuchExample if there is none
