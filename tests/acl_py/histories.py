"""What the tests of the verbs share: programs on the tiny device, their histories, and calls that are refused.

On the tiny device one byte takes one nanosecond, nothing has a latency, calls take 1000 ns (a synchronisation 300, a
query 700, a wake-up 2000).
"""

from contextlib import contextmanager
from functools import partial, wraps

import pytest

import acl_py
from acl_py import AclError, Cost, kernel
from acl_py.runtime.scopes import scope_var
from acl_py.simulation import simulation_of

H2H, H2D, D2H, D2D, DEFAULT, *_ = acl_py.MemcpyKind


def tiny(program=None, **options):
    """Make a coroutine function a test that runs in a simulation of the tiny device."""
    if program is None:
        return partial(tiny, **options)

    @wraps(program)
    def test(*args, **kwargs):
        return acl_py.run(partial(program, *args, **kwargs), **{"device": "tiny", "workers": 1} | options)

    return test


tiny_acl = tiny(rules="acl")


def busy(name, us):
    """A kernel that does nothing for *us* microseconds."""

    def work():
        pass

    work.__name__ = name
    return kernel(cost=Cost(us=us))(work)


def history(sim, since=0):
    """The operations queued from *since* on that have ended, in the order of their starts; times count from then."""
    ops = [(op.name, op.start_ns - since, op.end_ns - since) for op in sim.trace.ops if op.queued_ns >= since]
    return sorted(ops, key=lambda op: (op[1], op[2], op[0]))


def calls(sim, since=0):
    """The host's calls: name and times, from *since* on."""
    return [(c.name, c.enter_ns - since, c.exit_ns - since) for c in sim.trace.calls if c.enter_ns >= since]


def state(sim):
    """All that a failing call must not change."""
    runtime = sim.runtime
    return (
        sim.now_ns,
        len(sim.trace.ops),
        len(sim.trace.calls),
        len(runtime.unfinished()),
        [runtime.memory.free_bytes(device) for device in range(runtime.profile.devices)],
        [repr(each) for each in runtime.memory.leaks()],
        [len(context.streams) for device in runtime.devices for context in device.contexts],
    )


@contextmanager
def refused(kind, *parts, takes_ns=0):
    """The call in this block fails as *kind* with all of *parts* and changes nothing; the host needs *takes_ns*."""
    sim = simulation_of(scope_var.get().runtime)  # that of this task, also when it is over
    before = state(sim)
    with pytest.raises(AclError) as caught:
        yield caught
    error = caught.value
    assert error.kind is kind
    code = sim.runtime.rules.codes[kind]
    assert str(error).startswith(f"{code.name} ({code.value}): ")
    assert (error.code, error.name) == (code.value, code.name)
    for part in parts:
        assert str(part) in str(error)
    assert error.remedy
    now_ns, *others = before
    assert state(sim) == (now_ns + takes_ns, *others)


@contextmanager
def misused(kind, match):
    """The call in this block gets something that Python refuses, and changes nothing."""
    sim = simulation_of(scope_var.get().runtime)  # that of this task, also when it is over
    before = state(sim)
    with pytest.raises(kind, match=match) as caught:
        yield caught
    assert state(sim) == before
