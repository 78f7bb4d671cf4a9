"""Simulated time: what happens when, in which order within one instant, and how far a run goes."""

import pytest

from device_model.completions import NOTHING, AllOf, Completion, Process
from device_model.scheduler import Engine, Scheduler
from device_model.work import Lane


class Noting:
    """Waits for completions and notes when each released it."""

    def __init__(self, notes, name):
        self.notes = notes
        self.name = name

    def release(self, by):
        self.notes.append((self.name, by.end_ns))


class Granting(Engine):
    """An engine that notes when it is granted; the first grant calls *then*."""

    def __init__(self, scheduler, notes, name, then=lambda: None):
        super().__init__(scheduler, name)
        self.notes = notes
        self.then = then

    def __repr__(self):
        return self.name

    def grant(self):
        self.is_dirty = False
        self.notes.append((f"grant {self.name}", self.scheduler.now))
        then, self.then = self.then, lambda: None
        then()


@pytest.fixture
def scheduler():
    return Scheduler()


def test_what_happens_is_ordered_by_time_and_then_by_when_it_was_asked_for(scheduler):
    notes = []
    for name, time in [("late", 20), ("first", 10), ("second", 10), ("at once", 0)]:
        scheduler.at(time, lambda name: notes.append((name, scheduler.now)), name)
    scheduler.advance(15)
    assert notes == [("at once", 0), ("first", 10), ("second", 10)]
    assert (scheduler.now, repr(scheduler)) == (15, "<Scheduler now=15 scheduled=1>")
    scheduler.advance(20)
    assert notes[3:] == [("late", 20)]


def test_what_an_action_schedules_for_the_same_instant_happens_in_it(scheduler):
    notes = []

    def again(left):
        notes.append((left, scheduler.now))
        if left:
            scheduler.at(scheduler.now, again, left - 1)

    scheduler.at(5, again, 2)
    scheduler.advance(5)
    assert notes == [(2, 5), (1, 5), (0, 5)]


def test_nothing_can_happen_in_the_past(scheduler):
    scheduler.advance(10)
    with pytest.raises(AssertionError, match="would happen at 9, before 10"):
        scheduler.at(9, print, None)


def test_engines_hand_out_after_all_completions_of_an_instant(scheduler):
    notes = []
    engine = Granting(scheduler, notes, "engine")
    for name in ("a", "b"):
        scheduler.at(10, lambda name: (notes.append((name, scheduler.now)), engine.request_grant()), name)
    scheduler.advance(10)
    assert notes == [("a", 10), ("b", 10), ("grant engine", 10)]


def test_an_engine_that_another_one_sets_free_is_asked_in_the_same_instant(scheduler):
    notes = []
    second = Granting(scheduler, notes, "second")
    first = Granting(scheduler, notes, "first", then=second.request_grant)
    first.request_grant()
    scheduler.settle()
    assert notes == [("grant first", 0), ("grant second", 0)]
    assert scheduler.dirty == []


def test_waiters_are_released_in_the_order_in_which_they_came(scheduler):
    notes = []
    timer = scheduler.timer(7)
    for name in ("a", "b", "c"):
        timer.add_waiter(Noting(notes, name))
    scheduler.advance(100)
    assert notes == [("a", 7), ("b", 7), ("c", 7)]
    assert (timer.done, timer.end_ns, timer.waiters) == (True, 7, None)


def test_a_completion_is_done_once(scheduler):
    completion = Completion()
    completion.complete(3)
    with pytest.raises(AssertionError, match="completed twice"):
        completion.complete(4)
    with pytest.raises(AssertionError, match="done already"):
        completion.add_waiter(Noting([], "late"))


def test_all_of_several_is_done_with_the_last(scheduler):
    notes = []
    both = AllOf([scheduler.timer(5), NOTHING, scheduler.timer(3)])
    both.add_waiter(Noting(notes, "both"))
    scheduler.advance(4)
    assert (both.done, both.missing) == (False, 1)
    scheduler.advance(9)
    assert (both.done, both.end_ns, notes) == (True, 5, [("both", 5)])


def test_all_of_what_is_done_is_done_at_its_latest(scheduler):
    timers = [scheduler.timer(5), scheduler.timer(8)]
    scheduler.advance(20)
    assert (AllOf(timers).done, AllOf(timers).end_ns) == (True, 8)
    assert (AllOf([]).done, AllOf([]).end_ns) == (True, 0)


def test_all_of_ended_where_its_last_one_did(rig):
    first, last = rig.h2d(rig.stream(), 1), rig.d2h(rig.stream(), 2)
    both = AllOf([AllOf([first]), AllOf([last])])
    rig.run()
    assert (both.lane, both.end_ns) == (Lane.D2H, 2)


def test_a_completion_may_be_listed_twice(scheduler):
    timer = scheduler.timer(5)
    both = AllOf([timer, timer])
    scheduler.advance(5)
    assert both.done


def test_a_chain_of_completions_may_be_long(scheduler):
    notes = []
    chain = [scheduler.timer(5)]
    for _ in range(20_000):
        chain.append(AllOf([chain[-1], chain[0]]))
    chain[-1].add_waiter(Noting(notes, "last"))
    chain[10].add_waiter(Noting(notes, "tenth"))
    scheduler.advance(5)
    assert all(each.done and each.end_ns == 5 for each in chain)
    assert notes == [("tenth", 5), ("last", 5)]


def test_a_process_goes_from_completion_to_completion(scheduler):
    notes = []

    def course():
        for delay in (5, 0, 7):
            yield scheduler.timer(scheduler.now + delay) if delay else NOTHING
            notes.append(scheduler.now)

    process = Process(scheduler, course())
    process.add_waiter(Noting(notes, "over"))
    scheduler.advance(100)
    assert notes == [5, 5, 12, ("over", 12)]


def test_a_process_with_nothing_to_wait_for_is_over_at_once(scheduler):
    scheduler.advance(3)
    process = Process(scheduler, iter([NOTHING]))
    assert (process.done, process.end_ns) == (True, 3)


def test_run_until_stops_with_the_instant_of_the_completion(scheduler):
    notes = []
    timer = scheduler.timer(10)
    for time in (5, 10, 11):
        scheduler.at(time, notes.append, time)
    assert scheduler.run_until(timer, 100)
    assert (notes, scheduler.now, len(list(scheduler.subjects()))) == ([5, 10], 10, 1)


def test_run_until_gives_up_when_nothing_is_scheduled_or_the_budget_is_spent(scheduler):
    assert not scheduler.run_until(Completion(), 100)
    timers = [scheduler.timer(time) for time in range(1, 6)]
    assert not scheduler.run_until(timers[-1], 3)
    assert scheduler.now == 3
    assert scheduler.run_until(timers[-1], 2)


def test_run_to_wake_stops_when_somebody_woke_and_not_for_a_cancelled_waiter(scheduler):
    notes = []
    cancelled, waiting, later = (scheduler.timer(time) for time in (3, 6, 9))
    scheduler.watch(cancelled, lambda: bool(notes.append("cancelled")))
    scheduler.watch(waiting, lambda: notes.append("woken") is None)
    scheduler.at(6, notes.append, "the same instant")
    assert scheduler.run_to_wake(100)
    assert (notes, scheduler.now) == (["cancelled", "woken", "the same instant"], 6)
    assert scheduler.run_to_wake(100)
    assert later.done
    assert not scheduler.run_to_wake(100)


def test_run_to_wake_has_a_budget(scheduler):
    for time in range(10):
        scheduler.timer(time)
    assert scheduler.run_to_wake(4)
    assert scheduler.now == 3


def test_whoever_lets_time_pass_sees_nothing_half_done(scheduler):
    returns = []
    scheduler.before_return = lambda: returns.append(scheduler.now)
    for time in (3, 6, 9):
        scheduler.timer(time)
    scheduler.advance(4)
    scheduler.run_until(scheduler.timer(6), 100)
    scheduler.run_to_wake(100)
    assert returns == [4, 6, 9]


# --- steps that need no entry of the heap


class Passing(Engine):
    """An engine that, when it is granted at 10 ns, lets time pass through three steps of 4 ns, 1 ns apart.

    `ends` has the times at which they have ended; *act* is called then.
    """

    def __init__(self, scheduler, act=lambda: None):
        super().__init__(scheduler, "passing")
        self.act = act
        self.ends = []
        scheduler.at(10, scheduler.dirty.append, self)

    def grant(self):
        steps = [(self._end, 4)] * 3
        self.over, self.error = self.scheduler.pass_through(steps, self.scheduler.now, 1)

    def _end(self):
        self.ends.append(self.scheduler.now)
        self.act()


def test_time_passes_through_steps_until_the_run_ends(scheduler):
    engine = Passing(scheduler)
    scheduler.advance(23)
    assert (engine.ends, engine.over, engine.error, scheduler.now) == ([14, 19], 2, None, 23)
    engine.grant()  # while no run is under way
    assert engine.over == 0


def test_no_time_passes_through_steps_after_a_run_that_has_failed(scheduler):
    engine = Passing(scheduler)
    scheduler.at(5, scheduler.raise_later, ValueError("of an observer"))
    with pytest.raises(ValueError, match="of an observer"):
        scheduler.advance(100)
    engine.grant()
    assert engine.over == 0


def test_time_passes_through_steps_until_something_else_is_due(scheduler):
    engine = Passing(scheduler)
    scheduler.timer(19)  # the second step is not over before it
    scheduler.advance(100)
    assert engine.ends == [14]


def test_time_passes_through_no_step_in_the_instant_in_which_a_host_goes_on(scheduler):
    engine, timer = Passing(scheduler), scheduler.timer(10)
    assert scheduler.run_until(timer, 100)
    assert (engine.ends, scheduler.now) == ([], 10)
    engine = Passing(scheduler)
    scheduler.watch(scheduler.timer(10), lambda: True)
    assert scheduler.run_to_wake(100)
    assert (engine.ends, scheduler.now) == ([], 10)


def test_a_step_is_an_instant_of_the_budget(scheduler):
    engine = Passing(scheduler)
    scheduler.run_until(Completion(), 3)
    assert engine.ends == [14, 19]


def test_no_time_passes_behind_a_step_that_lets_the_host_run(scheduler):
    ready = []
    engine = Passing(scheduler, lambda: ready.append("a task"))
    scheduler.run_until(Completion(), 100, ready=ready)
    assert (engine.ends, scheduler.now) == ([14], 14)


def test_a_step_that_raises_is_the_last(scheduler):
    error = ValueError("of the step")

    def fail():
        raise error

    engine = Passing(scheduler, fail)
    scheduler.advance(100)
    assert (engine.ends, engine.over, engine.error) == ([14], 1, error)
