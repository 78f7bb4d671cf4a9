"""Random verbs, faults and cancellations against a naive model (oracle.py) that does everything at once.

A call that a rule makes fail, or that is cancelled before it has queued anything, has done nothing: in the model it
never was. When work fails or hangs, whatever is not over becomes unknown; sooner or later a call must say which rule it
was, and then a reset begins again. At every step nobody may be left waiting, and all memory must be accounted for.
"""

import asyncio
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from oracle import CELL, CELLS, Lane, Model, Piece, merge

import acl_py as acl
from acl_py import faults
from tests.campaigns import many

NBYTES = CELL * CELLS
ANY = acl.MemcpyKind.DEFAULT
PATIENCE = 4  # calls after the one that doomed the device, until it is reset

small = st.integers(0, 7)
part = st.integers(0, CELLS - 1)
racy = st.sampled_from([False, False, False, False, False, True])
few = st.none() | st.integers(0, 4)  # turns of the loop after which a call is cancelled
NUISANCES = (
    faults.slow("H2D", 3),
    faults.slow("cores", 0.5),
    faults.delay(20, op="*", every=2),
    faults.delay(5, call="*", every=3),
    faults.out_of_memory(beyond=2048),
)
well = precondition(lambda self: self.patience > 0)


@acl.kernel(cost=acl.Cost(us=120))  # so long that what does not wait for it comes first
def increment(x: acl.InOut):
    x += 1


@acl.kernel(cost=acl.Cost(flops=5e7))
def combine(x: acl.In, y: acl.In, out: acl.Out):
    np.add(x, y, out=out)


class Machine(RuleBasedStateMachine):
    order = "cuda"

    def __init__(self):
        super().__init__()
        self.runner = asyncio.Runner()
        self.sim = self.runner.run(self.open())
        self.runtime = self.sim.runtime
        self.model = Model(legacy=self.order == "cuda")
        self.events = []  # (event, the clock of its last record)
        self.guards, self.names = [], []  # rules in force; all that may be told of
        self.doomed = False  # something has failed, or hangs, and nobody may know yet
        self.patience = PATIENCE
        self.leaving = 0  # frees that were cancelled: they take place when the device is idle
        self.called_back, self.to_call_back = [], 0
        self.now_ns = 0

    async def open(self):
        return acl.open(device="h200", rules=self.order, workers=1)

    @initialize()
    def begin(self):
        for _ in range(2):
            self.create_stream(nonblocking=False)
            self.create_event()
            self.allocate(on_device=True)
            self.allocate(on_device=False)

    def teardown(self):
        self.patience = PATIENCE
        if self.doomed:
            self.recover()
        self.remove_rules()
        self.compare()
        for piece in self.model.pieces:
            self.run(acl.Free(piece.buffer) if piece.on_device else acl.FreeHost(piece.buffer))
        assert not self.runtime.memory.leaks()
        self.runner.run(self.sim.close())
        self.runner.close()

    # --- how calls are made

    def run(self, coroutine):
        """What a call gives, in a tuple; None if a rule has made it fail. Errors must name a rule."""
        before = [rule.struck for guard in self.guards for rule in guard.rules]
        self.sound = True
        try:
            return self.runner.run(_answer(coroutine))
        except (acl.AclError, acl.DeadlockError) as error:
            self.look_for_strikes(before)
            self.judge(error)
            return None
        finally:
            self.look_for_strikes(before)
            self.patience -= self.doomed

    def judge(self, error):
        """A failure must say which rule it comes from, and only what has befallen work may be fatal."""
        assert any(name in text for name in self.names for text in _stories(error)), f"no rule is named: {error}"
        is_fatal = isinstance(error, acl.DeadlockError) or self.runtime.device(0).primary.error is not None
        assert self.doomed or not is_fatal, f"nothing was to be lost: {error}"

    def look_for_strikes(self, before):
        """What have rules done to the operations that were queued?"""
        rules = [rule for guard in self.guards for rule in guard.rules]
        struck = [rule for rule, count in zip(rules, before, strict=True) if rule.struck > count]
        verdicts = {rule.verdict.name for rule in struck if rule.op is not None or rule.verdict.name == "LOSE"}
        if "CORRUPT" in verdicts:
            self.sound = False
        if verdicts & {"FAIL", "HANG", "LOSE"}:
            self.doomed = True
            self.model.forget()
            for cell in self.device_cells():
                cell.known = False

    def join(self, first, second):
        """Order one lane behind another: by an event, or a wait of the host where there is none left, or no lane."""
        if self.events and first in self.model.lanes:
            self.record(self.model.lanes.index(first), 0)
            self.wait(self.model.lanes.index(second), 0)
        else:
            self.compare()

    def device_cells(self):
        return [cell for piece in self.model.pieces if piece.on_device for cell in piece.cells]

    def queue(self, verb, lane, reads, writes, compute, *, racy):
        """Make a call that queues an operation in *lane*; unless *racy*, behind all that it must be ordered behind."""
        if not racy:
            for other in self.model.unordered(lane, reads, writes):
                self.join(other, lane)
        done = self.run(verb())
        if done:
            self.model.perform(lane, reads, writes, compute, sound=self.sound and not self.doomed)
        elif self.doomed:  # it may have been queued before the failure was found
            for cell in writes:
                cell.known = False
        return done

    # --- what there is

    def lane(self, n):
        return self.model.lanes[n % len(self.model.lanes)]

    def piece(self, n, *, on_device=None):
        found = [piece for piece in self.model.pieces if on_device is None or piece.on_device is on_device]
        return found[n % len(found)] if found else None

    @well
    @rule(nonblocking=st.booleans())
    def create_stream(self, nonblocking):
        if len(self.model.lanes) < 6 and (made := self.run(acl.CreateStream(nonblocking=nonblocking))):
            self.model.lanes.append(Lane(made[0], blocking=not nonblocking))

    @well
    @rule(n=small)
    def destroy_stream(self, n):
        lane = self.lane(n)
        if lane.stream is not None and self.run(acl.DestroyStream(lane.stream)):
            self.model.lanes.remove(lane)  # its work goes on, and no other stream waits for that

    @well
    @rule()
    def create_event(self):
        if len(self.events) < 4 and (made := self.run(acl.CreateEvent())):
            self.events.append((made[0], {}))

    @well
    @rule(on_device=st.booleans())
    def allocate(self, on_device):
        if len(self.model.pieces) < 8:
            made = self.run(acl.Malloc(NBYTES) if on_device else acl.MallocHost(NBYTES))
            if made:
                self.model.pieces.append(Piece(made[0], on_device))
                self.fill(0, len(self.model.pieces) - 1, 0, len(self.model.pieces), racy=False)

    @well
    @rule(n=small, turns=few)
    def free(self, n, turns):
        """Also cancelled: once it has begun it takes place all the same."""
        piece = self.piece(n)
        if piece is None:
            return
        verb = acl.Free(piece.buffer) if piece.on_device else acl.FreeHost(piece.buffer)
        done = self.run(verb if turns is None else _cancelled(verb, turns))
        if done == (None,):
            self.model.waited(self.model.total)
        if done and (done == (None,) or turns):
            self.leaving += done != (None,)
            self.model.pieces.remove(piece)

    # --- work

    @well
    @rule(n=small, src=small, dst=small, at=part, to=part, count=st.integers(1, CELLS), turns=few, racy=racy)
    def copy(self, n, src, dst, at, to, count, turns, racy):
        source, target, lane = self.piece(src), self.piece(dst), self.lane(n)
        if source is None or source is target or not (source.on_device or target.on_device):
            return
        count = min(count, CELLS - at, CELLS - to)
        (x, reads), (y, writes) = source.part(at, count), target.part(to, count)

        def verb():
            copy = acl.MemcpyAsync(y, y.nbytes, x, x.nbytes, ANY, lane.stream)
            return copy if turns is None else _cancelled(copy, turns)

        if turns == 0:  # it never begins
            assert self.run(verb()) == (CANCELLED,)
        else:
            self.queue(verb, lane, reads, writes, lambda values: values, racy=racy)

    @well
    @rule(src=small, dst=small, at=part, to=part, racy=racy)
    def copy_and_wait(self, src, dst, at, to, racy):
        source, target, lane = self.piece(src), self.piece(dst), self.model.lanes[0]
        if source is None or source is target or not (source.on_device or target.on_device):
            return
        (x, reads), (y, writes) = source.part(at, 1), target.part(to, 1)
        verb = partial(acl.Memcpy, y, CELL, x, CELL, ANY)
        done = self.queue(verb, lane, reads, writes, lambda values: values, racy=racy)
        if done and not (source.on_device and target.on_device):
            self.model.waited(lane.clock)

    @well
    @rule(n=small, dst=small, at=part, value=st.integers(0, 255), racy=racy)
    def fill(self, n, dst, at, value, racy):
        target, lane = self.piece(dst), self.lane(n)
        if target is not None:
            y, writes = target.part(at, CELLS - at)
            verb = partial(acl.MemsetAsync, y, y.nbytes, value, y.nbytes, lane.stream)
            self.queue(verb, lane, [], writes, lambda _: [value] * len(writes), racy=racy)

    @well
    @rule(n=small, dst=small, at=part, racy=racy)
    def launch(self, n, dst, at, racy):
        target, lane = self.piece(dst), self.lane(n)
        if target is not None:
            x, cells = target.part(at, CELLS - at)
            verb = partial(increment[1, lane.stream], acl.Array(x, np.uint8))
            self.queue(verb, lane, cells, cells, lambda values: [value + 1 for value in values], racy=racy)

    @well
    @rule(n=small, a=small, b=small, c=small, at=part, racy=racy)
    def launch_with_three(self, n, a, b, c, at, racy):
        pieces, lane = [self.piece(i) for i in (a, b, c)], self.lane(n)
        if pieces[0] is None or pieces[2] in pieces[:2]:
            return
        (x, xs), (y, ys), (out, outs) = [piece.part(at, 1) for piece in pieces]
        verb = partial(combine[64, lane.stream], *[acl.Array(each, np.uint8) for each in (x, y, out)])
        self.queue(verb, lane, xs + ys, outs, lambda values: [values[0] + values[1]], racy=racy)

    @well
    @rule(n=small)
    def host_function(self, n):
        lane = self.lane(n)
        verb = partial(acl.LaunchHostFunc, lane.stream, self.called_back.append, (1,), us=2)
        if self.queue(verb, lane, [], [], list, racy=True):
            self.to_call_back += 1

    @well
    @rule(dst=small, at=part, value=st.integers(0, 255))
    def write_on_the_host(self, dst, at, value):
        target = self.piece(dst, on_device=False)
        if target is not None:
            y, cells = target.part(at, 1)
            y.numpy()[:] = value
            self.model.write(cells, value)

    # --- order

    @well
    @rule(n=small, e=small)
    def record(self, n, e):
        if self.events:
            lane, e = self.lane(n), e % len(self.events)
            if self.run(acl.RecordEvent(self.events[e][0], lane.stream)):
                self.model.begin(lane)
                self.events[e] = (self.events[e][0], dict(lane.clock))
                self.model.end(lane)

    @well
    @rule(n=small, e=small)
    def wait(self, n, e):
        if self.events:
            lane, (event, clock) = self.lane(n), self.events[e % len(self.events)]
            if self.run(acl.StreamWaitEvent(lane.stream, event)):
                self.model.begin(lane)
                merge(lane.clock, clock)
                self.model.end(lane)

    @well
    @rule(n=small, turns=few)
    def synchronize_stream(self, n, turns):
        lane = self.lane(n)
        verb = acl.SynchronizeStream(lane.stream)
        if self.run(verb if turns is None else _cancelled(verb, turns)) == (None,):
            self.model.waited(self.model.of_sync(lane))

    @well
    @rule(n=small)
    def synchronize_stream_for_a_while(self, n):
        lane = self.lane(n)
        if self.run(_within(lane.stream)) == (True,):
            self.model.waited(self.model.of_sync(lane))

    @well
    @rule(e=small, turns=few)
    def synchronize_event(self, e, turns):
        if self.events:
            event, clock = self.events[e % len(self.events)]
            verb = acl.SynchronizeEvent(event)
            if self.run(verb if turns is None else _cancelled(verb, turns)) == (None,):
                self.model.waited(clock)

    @well
    @rule(n=small, m=small)
    def two_tasks_wait(self, n, m):
        lanes = self.lane(n), self.lane(m)
        if self.run(_both(*(acl.SynchronizeStream(lane.stream) for lane in lanes))):
            for lane in lanes:
                self.model.waited(self.model.of_sync(lane))

    @well
    @rule(n=small)
    def query(self, n):
        lane = self.lane(n)
        if self.run(acl.StreamQuery(lane.stream)) == (acl.Status.COMPLETE,):
            self.model.waited(self.model.of_sync(lane))

    @well
    @rule()
    def compare(self):
        """What is known is what is there."""
        if not self.run(acl.SynchronizeDevice()):
            return
        assert not self.doomed, "the device was lost and nobody is told"
        self.model.waited(self.model.total)
        self.leaving = 0
        assert len(self.called_back) == self.to_call_back
        for piece in self.model.pieces:
            seen = np.zeros(NBYTES, np.uint8)
            if not piece.on_device:
                seen[:] = piece.buffer.numpy()
            elif not self.run(acl.Memcpy(seen, NBYTES, piece.buffer, NBYTES, ANY)) or not self.sound or self.doomed:
                continue
            for i, cell in enumerate(piece.cells):
                if cell.known:
                    np.testing.assert_array_equal(seen[i * CELL : (i + 1) * CELL], cell.bytes, err_msg=f"cell {i}")

    # --- faults

    def enforce(self, fault):
        if len(self.guards) < 3:
            guard = self.sim.fault(fault)
            self.guards.append(guard)
            self.names += [repr(each) for each in guard.rules]

    @well
    @rule(
        call=st.sampled_from(["*", "Memcpy*", "Launch*", "Synchronize*", "Create*", "Free*", "*Event"]),
        nth=st.integers(1, 4),
        kind=st.sampled_from([acl.Kind.UNKNOWN, acl.Kind.INVALID_VALUE, acl.Kind.OUT_OF_MEMORY]),
    )
    def a_call_is_to_fail(self, call, nth, kind):
        self.enforce(faults.fail(call=call, nth=nth, kind=kind))

    @well
    @rule(
        op=st.sampled_from(["*", "h2d", "d2h", "d2d", "fill", "kernel"]),
        nth=st.integers(1, 4),
        make=st.sampled_from([faults.fail, faults.hang, faults.corrupt, faults.lose_device, faults.ecc_error]),
    )
    def an_operation_is_to_misbehave(self, op, nth, make):
        self.enforce(make(op=op, nth=nth))

    @well
    @rule(fault=st.sampled_from(NUISANCES))
    def all_is_to_be_slow_or_short(self, fault):
        self.enforce(fault)

    @rule()
    def remove_rules(self):
        for guard in self.guards:
            guard.remove()
        self.guards.clear()

    @precondition(lambda self: self.doomed)
    @rule()
    def recover(self):
        """Whoever waits for the device is told; a reset begins again."""
        self.remove_rules()
        assert self.run(acl.SynchronizeDevice()) is None, "the device was lost and nobody is told"
        assert self.run(acl.ResetDevice(0))
        self.model.reset()
        self.events.clear()
        self.names.clear()
        self.doomed, self.patience, self.leaving = False, PATIENCE, 0
        self.called_back.clear()
        self.to_call_back = 0

    # --- what always holds

    @invariant()
    def nobody_is_left_waiting(self):
        assert not self.runtime.waiters
        assert not asyncio.all_tasks(self.runner.get_loop())
        for op in self.runtime.unfinished():
            assert not op.done, f"{op!r} is over and unfinished"
        for device in self.runtime.devices:
            for queue in (*device.h2d.queues, *device.d2h.queues):
                assert not queue.requests, f"somebody waits for room in {queue!r}"

    @invariant()
    def time_goes_on(self):
        assert self.now_ns <= self.sim.now_ns
        assert self.runtime.scheduler.now <= self.sim.now_ns
        self.now_ns = self.sim.now_ns

    @invariant()
    def all_memory_is_accounted_for(self):
        alive = len(self.runtime.memory.leaks()) - self.leaving
        assert alive <= len(self.model.pieces) <= alive + self.leaving
        free, total = self.runtime.memory.free_bytes(0), self.runtime.memory.total_bytes(0)
        on_device = sum(allocation.device == 0 for allocation in self.runtime.memory.leaks())
        assert total - free == on_device * NBYTES


class PerThreadMachine(Machine):
    order = "cuda_per_thread"


CANCELLED = "cancelled"


async def _answer(coroutine):
    return (await coroutine,)


async def _cancelled(coroutine, turns):
    """Begin a call as a task and cancel it some turns later: CANCELLED, unless it was over by then."""
    task = asyncio.ensure_future(coroutine)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        return CANCELLED


async def _within(stream):
    try:
        await acl.SynchronizeStreamWithTimeout(stream, 1)
    except acl.AclError as error:
        if error.kind is not acl.Kind.STREAM_TIMEOUT or "injected" in error.what:
            raise
        return False
    return True


async def _both(one, other):
    results = await asyncio.gather(one, other, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


def _stories(error):
    while error is not None:
        yield str(error)
        error = error.__cause__ or error.__context__


machines = pytest.mark.parametrize("machine", [Machine, PerThreadMachine])
common = {"suppress_health_check": list(HealthCheck)}


@machines
def test_random_programs_do_what_the_model_does(machine):
    run_state_machine_as_test(machine, settings=settings(max_examples=10, stateful_step_count=30, **common))


@pytest.mark.slow
@machines
def test_many_random_programs_do_what_the_model_does(machine):
    """5,000 steps and more for each machine."""
    run_state_machine_as_test(machine, settings=settings(max_examples=many(125), stateful_step_count=60, **common))
