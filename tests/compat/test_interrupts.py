"""Signals that arrive in the middle of a call of `acl`: it is done whole, and the handler runs behind it."""

import os
import random
import signal
import sys
import threading

import numpy as np
import pytest
from card import D2H, H2D, done, made, module
from kernel_launches import appended, binary_of, function_of

from acl_py.compat.acl.face.session import session
from acl_py.sites import PACKAGE
from acl_py.waiting import interrupts

N = 4096


class Place:
    """A stream, an event, memory and a kernel, and the eight calls."""

    def __init__(self, acl, directory):
        self.acl, self.rt = acl, acl.rt
        self.stream, self.event = made(acl.rt.create_stream()), made(acl.rt.create_event())
        self.device, self.host, self.back = (made(acl.rt.malloc(N, 0)), *(made(acl.rt.malloc_host(N)) for _ in "12"))
        self.values = acl.util.ptr_to_numpy(self.host, (N,), 2)
        self.result = acl.util.ptr_to_numpy(self.back, (N,), 2)
        self.values[:] = 7
        self.spare = 0
        self.add = function_of(acl, binary_of(directory), "add")
        self.arguments = appended(acl, self.add, *[self.device] * 3, np.uint32(8))

    def copy(self):
        return self.rt.memcpy_async(self.device, N, self.host, N, H2D, self.stream)

    def fill(self):
        return self.rt.memset_async(self.device, N, 5, N, self.stream)

    def launch(self):
        return self.rt.launch_kernel_with_config(self.add, 1, self.stream, [], self.arguments, 0)

    def record(self):
        return self.rt.record_event(self.event, self.stream)

    def wait(self):
        return self.rt.stream_wait_event(self.stream, self.event)

    def synchronous_copy(self):
        return self.rt.memcpy(self.device, N, self.host, N, H2D)

    def synchronize(self):
        return self.rt.synchronize_stream(self.stream)

    def free(self):
        return self.rt.free(self.spare)

    def outcome(self, call, *, waits):
        """Prepare, make the *call*, and return its outcome: codes, bytes, what ran, the cost of the call, what is left.

        A call that *waits* has no cost, since a signal ends the wait earlier or later.
        """
        done(self.rt.memset(self.device, N, 1, N), self.fill(), self.record())
        self.spare = made(self.rt.malloc(64, 0))
        runtime, ops = session().runtime, len(session().trace.ops)
        begin = runtime.host_ns
        interrupted = call()
        cost = 0 if waits else runtime.host_ns - begin
        codes = [self.rt.synchronize_stream(self.stream), self.rt.synchronize_event(self.event)]
        codes += [self.rt.memcpy(self.back, N, self.device, N, D2H)]
        codes += [self.rt.free(self.spare) == 0]
        ran = len(session().trace.ops) - ops
        return interrupted, codes, self.result.tolist(), ran, cost, runtime.unfinished()


def at_opcode(place, number, act):
    """Do *act* before instruction *number* of ours; return how many there were."""
    count = 0

    def trace(frame, event, _):
        nonlocal count
        if not frame.f_code.co_filename.startswith((PACKAGE, interrupts.MODEL)):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            count += 1
            if count == number:
                act()
        return trace

    sys.settrace(trace)
    try:
        place()
        sys.settrace(None)
        while interrupts.held:
            pass  # the reminder comes
    finally:
        sys.settrace(None)
    return count


CALLS = ["copy", "fill", "launch", "record", "wait", "synchronous_copy", "synchronize", "free"]


@pytest.mark.parametrize("stride", [pytest.param(7, marks=pytest.mark.slow), 151])
@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_at_each_instruction_of_a_call_comes_behind_it(acl, tmp_path, name, stride):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    place = Place(acl, tmp_path)
    call = getattr(place, name)
    counts, waits = [], name in ("synchronous_copy", "synchronize")
    for _ in "12":
        _, *usual = place.outcome(lambda: counts.append(at_opcode(call, 0, None)), waits=waits)
    assert counts[-1] > stride
    for number in range(1, counts[-1], stride):

        def interrupted(number=number):
            sent = False

            def send():
                nonlocal sent
                sent = True
                signal.raise_signal(signal.SIGINT)

            try:
                at_opcode(call, number, send)
            except KeyboardInterrupt:
                assert sent
            else:
                assert not sent  # with warm caches a call has fewer instructions

        assert place.outcome(interrupted, waits=waits)[1:] == tuple(usual), number
    assert not interrupts.held


class Told(BaseException):
    """What a handler raises that is neither Ctrl-C's nor an Exception."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1, signal.SIGALRM])
def test_a_handler_that_is_set_later_may_raise_anything_and_make_calls(acl, tmp_path, number):
    place, told = Place(acl, tmp_path), []

    def handler(number, frame):
        told.append((number, frame.f_code.co_name, place.fill()))
        raise Told

    usual = signal.signal(number, handler)
    try:
        assert signal.getsignal(number) is handler
        with pytest.raises(Told):
            at_opcode(place.copy, 300, lambda: signal.raise_signal(number))
        assert told == [(number, "copy", 0)]
        assert place.synchronize() == 0
        done(acl.rt.memcpy(place.back, N, place.device, N, D2H))
        assert np.all(place.result == 5)  # the fill of the handler came behind the copy
    finally:
        assert signal.signal(number, usual) is handler


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"sanitize": "device"}], ids=["plain", "sanitized"])
def test_200_random_ctrl_cs_in_a_script(tmp_path, options):
    with module(**options) as acl:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        place, chance = Place(acl, tmp_path), random.Random(30)
        interrupted = 0
        for _ in range(200):
            timer = threading.Timer(chance.uniform(0, 0.02), os.kill, (os.getpid(), signal.SIGINT))
            try:
                timer.start()
                while True:
                    done(place.copy(), place.fill(), place.record(), place.wait(), place.synchronous_copy())
            except KeyboardInterrupt:
                interrupted += 1
            timer.join()
            done(place.fill(), place.synchronize(), acl.rt.memcpy(place.back, N, place.device, N, D2H))
            assert np.all(place.result == 5)
            assert session().runtime.unfinished() == []
        assert (interrupted, interrupts.held, list(session().failures.lines())) == (200, {}, [])
