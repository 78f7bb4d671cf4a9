"""One run with one rule, and what must be true afterwards.

A run goes on after its failure: the rule is removed, the device reset if its context is lost (or its streams aborted,
where a reset would wait for what hangs), what the program could not give back is given back, and the same program runs
once more in the same simulation, where it has to come to its result. Then nothing may be left: no stream, event, byte,
waiter, task, thread or queued operation. Behind each tenth run and the last one, the program runs in a simulation of
its own, whose trace has to be that of the first.
"""

import asyncio
import gc
import signal
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache

import acl_py as acl
from acl_py import AclError, DeadlockError, Kind, faults
from acl_py.many.crew import Crew
from acl_py.runtime.pools import trim_pool
from acl_py.runtime.runtime import Runtime
from acl_py.verbs.callbacks import subscribers_of
from device_model.faults import Verdict
from device_model.rules import RULES

from .programs import Bag, Program, Wrong

# How calls and operations can fail: all kinds that the rules know; devices only in these ways.
OF_OPS = (Kind.ECC_ERROR, Kind.LAUNCH_FAILURE, Kind.ILLEGAL_ADDRESS, Kind.OP_EXECUTE_TIMEOUT, Kind.UNKNOWN)
ANEW = 10  # runs between two simulations that are compared with the first


# What ends the things that a reset of their device leaves alone.
OUTLIVE = (acl.FreeHost, acl.HostUnregister, acl.DestroyNotify)


@dataclass
class Outcome:
    """How one program fared: runs by what came of them, and what was wrong."""

    program: str
    calls: int
    ops: int
    ends: Counter = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    @property
    def runs(self):
        return sum(self.ends.values())


def simulate(program):
    return acl.simulate(device="h200", rules=program.rules, workers=1)


def rows(sim):
    """All that a simulation has done."""
    return sim.trace.ops, sim.trace.calls, sim.now_ns


async def reference(program):
    """The trace of a run without faults, and what there is to strike."""
    counted = Counter()

    class Count(acl.Observer):
        def fault(self, rule, subject, at_ns):
            counted["call" if isinstance(subject, str) else "op"] += 1

    async with simulate(program) as sim:
        async with Bag() as bag:
            await program.main(bag)
        plain = rows(sim)
    async with simulate(program) as sim:
        sim.observe(Count())
        with sim.fault(faults.delay(0, call="*"), faults.delay(0, op="*")):
            async with Bag() as bag:
                await program.main(bag)
        assert rows(sim) == plain, "rules that delay by nothing change nothing"
    return plain, counted["call"], counted["op"]


def rules_for(program, calls, ops):
    """Each rule of the campaign, and what may come of it."""
    kinds = distinct(RULES[program.rules])
    for n in range(1, calls + 1):
        for kind in kinds:
            yield faults.fail(call="*", nth=n, kind=kind), "error"
        yield faults.delay(50, call="*", nth=n), "late"
        yield faults.lose_device(call="*", nth=n), "error"
    for n in range(1, ops + 1):
        for kind in OF_OPS:
            yield faults.fail(op="*", nth=n, kind=kind), "error"
        yield faults.delay(50, op="*", nth=n), "late"
        yield faults.hang(op="*", nth=n), "hang"
        yield faults.corrupt(op="*", nth=n), "wrong"
        yield faults.lose_device(op="*", nth=n), "error"
        yield faults.ecc_error(op="*", nth=n), "error"
    for n in range(1, 6):
        yield faults.out_of_memory(nth=n), "error"
    for beyond in (0, 2048, 8192):
        yield faults.out_of_memory(beyond=beyond), "error"
    for engine in ("H2D", "D2H", "cores"):
        yield faults.slow(engine, 3), "late"


def distinct(rules):
    """Kinds of failure, one for each code."""
    return list({code.value: kind for kind, code in reversed(rules.codes.items())}.values())


async def attempt(program, sim, fault):
    """Run *program* with *fault*: what came of it, its bag, and the rule."""
    bag = Bag()
    guard = sim.fault(fault)
    rule = guard.rules[0]
    end = "late"
    try:
        async with bag:
            await program.main(bag)
    except* (AclError, DeadlockError, Wrong) as group:
        end = verdict_of(group, rule)
    finally:
        guard.remove()
    return end, bag, rule


def verdict_of(group, rule):
    """What the failures of a program come to."""
    leaves = list(flat(group))
    if all(isinstance(error, Wrong) for error in leaves):
        return "wrong"
    told = rule.verdict is Verdict.CORRUPT or any(repr(rule) in text for each in leaves for text in stories(each))
    assert told, f"{leaves} do not name {rule!r}"
    return "hang" if any(isinstance(error, DeadlockError) for error in leaves) else "error"


def stories(error):
    """What an error says, and those that it came of."""
    while error is not None:
        yield str(error)
        error = error.__cause__ or error.__context__


def flat(group):
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from flat(error)
        else:
            yield error


async def recover(program, sim, bag):
    """Bring the device back as the rules in force say, and give back what the program left."""
    runtime = sim.runtime
    device = runtime.device(0)
    if program.rules == "acl":
        for stream in device.primary.everything():
            if device.primary.error is None:
                await acl.StreamAbort(None if stream is device.primary.default else stream)
    if device.primary.error is not None or runtime.faults.hung:
        await acl.ResetDevice(0)
        await acl.SetDevice(0)
        bag.held = {thing: end for thing, end in bag.held.items() if end in OUTLIVE}
    for _ in range(2):  # under ACL's rules the first call may be told of the failure
        try:
            await bag.give_back()
            await acl.SynchronizeDevice()
        except AclError:
            continue
        break
    assert not bag.held, f"{bag.held} cannot be given back"


def assert_nothing_is_left(sim):
    runtime = sim.runtime
    trim_pool(runtime, runtime.memory.pool(0), 0)
    device = runtime.device(0)
    assert not runtime.waiters, f"{runtime.waiters} wait"
    assert not runtime.unfinished(), f"{runtime.unfinished()} are unfinished"
    assert not runtime.faults.hung, f"{runtime.faults.hung} hang"
    assert not runtime.faults.rules, f"{runtime.faults.rules} are in force"
    assert not subscribers_of(runtime), f"{subscribers_of(runtime)} are subscribed"
    assert not runtime.memory.leaks(), f"{runtime.memory.leaks()} leak"
    assert runtime.memory.free_bytes(0) == runtime.memory.total_bytes(0), "bytes of the device are lost"
    assert runtime.memory.pool(0).used_current == 0, "the pool counts wrong"
    assert [context for context in device.contexts if context.streams or not context.idle] == [], "streams are left"
    defaults = sum(context.legacy is None and context.destroyed is None for context in device.contexts)
    for ids, used in ((device.stream_ids, defaults), (device.event_ids, 0), (device.notify_ids, 0)):
        assert ids.free == ids.limit - used, f"{ids!r} although {used} are in use"
    assert len(asyncio.all_tasks()) == 1, f"{asyncio.all_tasks()} run"


async def one(program, fault, expected):
    """One run and its aftermath: what came of it."""
    async with simulate(program) as sim:
        end, bag, rule = await attempt(program, sim, fault)
        if rule.struck:
            # A wrong byte may be overwritten before anybody reads it, or be an index that a kernel falls over. Who
            # gives up because of an error and does not run its callbacks waits for them when it destroys the stream.
            allowed = {"wrong": {"wrong", "late", "error"}, "error": {"error", "hang"}}.get(expected, {expected})
            assert end in allowed, f"{end} instead of {expected}"
        else:
            assert end == "late", f"{end}, and {rule!r} has not struck"
            end = "not struck"
        await recover(program, sim, bag)
        async with Bag() as again:
            await program.main(again)
        await acl.SynchronizeDevice()
        assert_nothing_is_left(sim)
    return end


async def run_anew(program, plain):
    """Run *program* in a simulation of its own: it is as the first one was, whatever has failed in others."""
    async with simulate(program) as sim:
        async with Bag() as bag:
            await program.main(bag)
        assert rows(sim) == plain, "the next simulation is another than the first"


def runtimes():
    """How many simulations are in memory, over or not."""
    gc.collect()
    return sum(isinstance(each, Runtime) for each in gc.get_objects())


@contextmanager
def limited(seconds):
    """A run that hangs is an error. A signal, not a timer of the loop: that could wake the program, so no wait would be
    called a deadlock. Other threads, such as those of Dask's workers, get no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def give_up(*_):
        raise TimeoutError(f"the program has hung for {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    left = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *left)  # pytest's own limit


class Prepared:
    """What a process that strikes *program* has to know: its first trace, the rules, and what else is in memory."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.plain, self.calls, self.ops = asyncio.run(reference(program))
        self.rules = list(rules_for(program, self.calls, self.ops))
        self.threads, self.runtimes = threading.active_count(), runtimes()

    def check(self):
        """Run the program again, and check that nothing of the runs before is left in this process."""
        asyncio.run(run_anew(self.program, self.plain))
        assert threading.active_count() <= self.threads, f"{threading.enumerate()} run"
        assert runtimes() <= self.runtimes + 1, f"{runtimes() - self.runtimes} simulations are still in memory"


@cache
def prepared(program):
    """What is prepared for *program* in this process."""
    return Prepared(program)


@dataclass(frozen=True)
class Strike:
    """Runs *program* with one rule, in any process; returns how it ended, and what was wrong."""

    program: Program
    every: int

    def __call__(self, number):
        known = prepared(self.program)
        fault, expected = known.rules[number * self.every]
        try:
            with limited(60):  # a machine may be busy: a run that takes 0.4 s of a processor took 20
                end = asyncio.run(one(known.program, fault, expected))
                if number % ANEW == ANEW - 1:
                    known.check()
        except Exception as error:
            return "FAULTY", f"{fault!r}: {type(error).__name__}: {error}"
        return end, ""


def run(program: Program, every: int = 1, say=lambda _: None, crew: Crew | None = None) -> Outcome:
    """Run *program* with each *every*-th rule of the campaign, on *crew* or here: what comes out is the same."""
    prepared.cache_clear()
    known = prepared(program)
    outcome = Outcome(program.name, known.calls, known.ops)
    numbers = range(len(known.rules[::every]))
    crew = crew or Crew(workers=1)
    for end, fault in crew.in_order(Strike(program, every), numbers):
        if fault:
            outcome.faults.append(fault)
            say(fault)
        outcome.ends[end] += 1
    if crew.is_here:  # other processes check themselves behind each tenth run
        known.check()
    prepared.cache_clear()
    return outcome
