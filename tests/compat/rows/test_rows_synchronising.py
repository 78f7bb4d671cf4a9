"""The complete list of what synchronises implicitly, and of what does not, through the module."""

import numpy as np
import pytest
from card import D2D, D2H, H2D, done, made, module, now, work

N = 256
LONG_NS = 100_000_000

ITEMS = {
    "memcpy to the device": lambda acl, here: acl.rt.memcpy(here.device, N, here.pageable, N, H2D),
    "memcpy to the host": lambda acl, here: acl.rt.memcpy(here.pageable, N, here.device, N, D2H),
    "memcpy inside the device": lambda acl, here: acl.rt.memcpy(here.device, 128, here.device + 128, 128, D2D),
    "memset": lambda acl, here: acl.rt.memset(here.device, N, 1, N),
    "memset of host memory": lambda acl, here: acl.rt.memset(here.pageable, N, 1, N),
    "malloc": lambda acl, here: acl.rt.malloc(N, 0)[1],
    "free": lambda acl, here: acl.rt.free(here.device),
    "malloc_host": lambda acl, here: acl.rt.malloc_host(N)[1],
    "free_host": lambda acl, here: acl.rt.free_host(here.pinned),
    "create_event": lambda acl, here: acl.rt.create_event()[1],
    "destroy_event": lambda acl, here: acl.rt.destroy_event(here.event),
    "create_stream": lambda acl, here: acl.rt.create_stream()[1],
    "the default stream": lambda acl, here: acl.rt.memset_async(here.device, N, 1, N, 0),
    "memcpy_async of pinned memory": lambda acl, here: acl.rt.memcpy_async(
        here.device, N, here.pinned, N, H2D, here.stream
    ),
    "memset_async": lambda acl, here: acl.rt.memset_async(here.device, N, 1, N, here.stream),
    "record_event": lambda acl, here: acl.rt.record_event(here.event, here.stream),
}


class Scene:
    """A stream and a default stream with long work, an event behind it, and memory of each kind."""

    def __init__(self, acl):
        self.stream, self.event = made(acl.rt.create_stream()), made(acl.rt.create_event())
        self.device, self.pinned = made(acl.rt.malloc(N, 0)), made(acl.rt.malloc_host(N))
        self.array = np.zeros(N, np.uint8)
        self.pageable = self.array.ctypes.data
        self.ops = [work("long", 100_000, stream) for stream in (self.stream, 0)]
        done(acl.rt.record_event(self.event, self.stream))


@pytest.mark.parametrize("name", ITEMS)
def test_not_implicitly_synchronising(acl, name):
    scene = Scene(acl)
    begin = now()
    done(ITEMS[name](acl, scene))
    assert now() - begin < LONG_NS / 1000
    assert not any(op.done for op in scene.ops)


def test_memcpy_async_with_pageable_memory_synchronises_its_stream(acl):
    scene = Scene(acl)
    done(acl.rt.memcpy_async(scene.device, N, scene.pageable, N, H2D, scene.stream))
    assert scene.ops[0].done
    assert now() >= LONG_NS


def test_destroy_stream_synchronises_that_stream(acl):
    scene = Scene(acl)
    done(acl.rt.destroy_stream(scene.stream))
    assert scene.ops[0].done


@pytest.mark.parametrize("name", ["reset_device", "reset_device_force"])
def test_reset_device_at_count_0_synchronises_the_default_context(acl, name):
    scene = Scene(acl)
    done(getattr(acl.rt, name)(0))
    assert [(op.done, op.error) for op in scene.ops] == [(True, None), (True, None)]
    assert now() >= LONG_NS


def test_a_submission_to_a_full_stream_blocks_the_host(acl):
    scene = Scene(acl)
    done(*(acl.rt.memset_async(scene.device, N, 1, N, scene.stream) for _ in range(17)))
    assert scene.ops[0].done


def test_record_event_blocks_the_host_when_ids_are_exhausted():
    with module(limits={"events": 1}) as acl:
        scene = Scene(acl)
        done(acl.rt.record_event(made(acl.rt.create_event()), scene.stream))
        assert scene.ops[0].done
