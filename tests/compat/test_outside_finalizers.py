"""Finalizers of scripts call `acl`, and the garbage collector runs them when it likes: in the midst of a call, too."""

import gc

import numpy as np
import pytest
from card import done, made

from acl_py.compat.acl import install, uninstall

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
