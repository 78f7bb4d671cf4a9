"""Finalizers of scripts call `acl`, and the garbage collector runs them when it likes: in the midst of a call, too."""

import gc
import sys

import numpy as np
import pytest
from card import done, made

from acl_py.compat.acl import install, uninstall
from acl_py.compat.acl.face.session import session
from acl_py.sites import MODEL, PACKAGE
from device_model.compiled import IS_COMPILED

H2D, D2H = 1, 2
N = 4096


@pytest.fixture
def eager():
    """The garbage collector runs as often as it can."""
    usual = gc.get_threshold()
    gc.set_threshold(3)
    yield
    gc.set_threshold(*usual)


class Net:
    """What scripts have: handles, a reference to itself, and a finalizer that gives all back."""

    def __init__(self, acl, rets):
        self.itself, self.acl, self.rets = self, acl, rets
        self.stream, self.event = made(acl.rt.create_stream()), made(acl.rt.create_event())
        self.device, self.host = made(acl.rt.malloc(N, 0)), made(acl.rt.malloc_host(N))
        self.buffer = acl.create_data_buffer(self.device, N)
        done(
            acl.rt.memcpy_async(self.device, N, self.host, N, H2D, self.stream),
            acl.rt.record_event(self.event, self.stream),
        )

    def __del__(self):
        acl = self.acl
        self.rets.append(
            (
                acl.rt.synchronize_stream(self.stream),
                acl.rt.destroy_event(self.event),
                acl.rt.destroy_stream(self.stream),
                acl.rt.free(self.device),
                acl.rt.free_host(self.host),
                acl.destroy_data_buffer(self.buffer),
            )
        )


def test_finalizers_run_in_the_midst_of_other_calls(acl, eager):
    stream, device = made(acl.rt.create_stream()), made(acl.rt.malloc(N, 0))
    host = made(acl.rt.malloc_host(N))
    values, rets = acl.util.ptr_to_numpy(host, (N,), 2), []
    for turn in range(60):
        Net(acl, rets)
        values[:] = turn
        done(acl.rt.memcpy_async(device, N, host, N, H2D, stream), acl.rt.synchronize_stream(stream))
        values[:] = 255
        done(acl.rt.memcpy_async(host, N, device, N, D2H, stream), acl.rt.synchronize_stream(stream))
        assert np.all(values == turn)
    gc.collect()
    assert rets == [(0,) * 6] * 60


def test_a_finalizer_runs_while_a_session_begins(eager):
    """It is of the session before: nothing of that is there any more, and nothing waits for anything."""
    rets = []
    acl = install(device="ascend910b3")
    try:
        gc.disable()
        done(acl.init(), acl.rt.set_device(0))
        Net(acl, rets)
        acl = install(device="ascend910b3")
        gc.enable()
        done(acl.init(), acl.rt.set_device(0))
        gc.collect()
        assert len(rets) == 1
        assert all(rets[0])
    finally:
        gc.enable()
        uninstall()


class Owner:
    """Gives back, at its end, what it has; it is part of a cycle, so that only the garbage collector ends it."""

    def __init__(self, act):
        self.itself, self.act = self, act

    def __del__(self):
        self.act()


def at_instruction(number, call, act):
    """Make the *call*, and *act* before instruction *number* of ours; return how many there were."""
    count = 0

    def trace(frame, event, _):
        nonlocal count
        if not frame.f_code.co_filename.startswith((PACKAGE, MODEL)):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            count += 1
            if count == number:
                sys.settrace(None)
                act()
                sys.settrace(trace)
        return trace

    sys.settrace(trace)
    try:
        done(call())
    finally:
        sys.settrace(None)
    return count


@pytest.mark.parametrize("way", ["by reference count", "by a collection"])
@pytest.mark.skipif(IS_COMPILED, reason="it counts Python's instructions")
def test_a_finalizer_in_the_middle_of_a_call_runs_its_calls_behind_it(acl, way):
    """The fill of the finalizer comes behind the copy, and its free behind the fill, wherever the copy was."""
    stream, device, host = made(acl.rt.create_stream()), made(acl.rt.malloc(N, 0)), made(acl.rt.malloc_host(N))
    acl.util.ptr_to_numpy(host, (N,), 2)[:] = 7

    def copy():
        return acl.rt.memcpy_async(device, N, host, N, H2D, stream)

    done(copy(), copy())
    count = max(at_instruction(0, copy, None) for _ in range(2))  # Python 3.12.1 traces no opcodes the first time
    inside = 0
    for number in range(1, count, 97):
        spare, rets = made(acl.rt.malloc(64, 0)), []

        def act(spare=spare, rets=rets):
            rets.extend((acl.rt.memset_async(device, N, 5, N, stream), acl.rt.free(spare)))
            rets.append(spare in session().buffers)

        owners = [Owner(act)]
        if way == "by reference count":
            owners[0].itself = None
        at_instruction(number, copy, lambda owners=owners: (owners.clear(), gc.collect(0)))
        assert rets[:2] == [0, 0]
        inside += rets[2]
        assert spare not in session().buffers
        done(acl.rt.synchronize_stream(stream))
        names = [op.name for op in session().trace.ops][-2:]
        assert sorted(names) == ["fill", "h2d"]
        assert not rets[2] or names == ["h2d", "fill"]
        assert session().runtime.unfinished() == []
    assert inside > 3
    assert list(session().failures.lines()) == []


@pytest.mark.skipif(IS_COMPILED, reason="it counts Python's instructions")
def test_a_finalizer_in_the_middle_of_a_call_gets_no_value(acl):
    stream, device, answers = made(acl.rt.create_stream()), made(acl.rt.malloc(N, 0)), []

    def fill():
        return acl.rt.memset_async(device, N, 5, N, stream)

    done(fill())
    owners = [Owner(lambda: answers.append((acl.rt.malloc(64, 0), acl.rt.free(0))))]
    at_instruction(at_instruction(0, fill, None) // 2, fill, lambda: (owners.clear(), gc.collect(0)))
    assert answers == [((0, 207000), 0)]
    refused, failed = session().failures.lines()
    assert "a __del__ calls it in the middle of another call" in refused
    assert "the address is 0" in failed
    done(acl.rt.synchronize_stream(stream))


def test_a_finalizer_gives_something_back_and_then_asks(acl):
    """What it gives back is put off to the end of the call that is under way; the question is answered at once."""
    event = made(acl.rt.create_event())
    with session().turn_here():
        assert (acl.rt.destroy_event(event), acl.rt.get_device_count()) == (0, (2, 0))
    acl.rt.synchronize_device()
    assert acl.rt.destroy_event(event) == 107017
