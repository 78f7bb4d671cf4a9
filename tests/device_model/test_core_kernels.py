"""Core kernels on the engines: they run at their start, take cores all at once, give them back one by one, and take
effect at their end. The kernels here do what the test says; those that run on simulated cores are in tests/aicore.
"""

import numpy as np
import pytest
from rig import MIB, Rig, tiny, whole

from device_model.core_kernels import CoreKernel, Occupation
from device_model.engines.workers import INLINE_BYTES
from device_model.errors import DeviceError, Kind
from device_model.memory import array
from device_model.observe import Observer
from device_model.work import Label, Lane


class Stand(CoreKernel):
    """Reads the first byte of *src* when it runs and writes it to *dst* when it ends."""

    nbytes = 0

    def __init__(self, duration_ns, released, src=None, dst=None, name="core", cores=None):
        self.label = Label("kernel", Lane.COMPUTE, name)
        self.duration_ns = duration_ns
        self.released = released
        self.cores = sum(count for _, count in released) if cores is None else cores
        self.src, self.dst = src, dst
        self.seen = None
        self.result = None

    def run(self, start_ns):
        if self.src is not None:
            self.seen = int(array(self.src, 0, np.uint8, 1)[0])
        return Occupation(self.duration_ns, self.released)

    def perform(self):
        if self.dst is not None:
            array(self.dst, 0, np.uint8, 1)[0] = self.seen

    def reads(self):
        return [] if self.src is None else [whole(self.src)]

    def writes(self):
        return [] if self.dst is None else [whole(self.dst)]


def byte(allocation):
    return int(array(allocation, 0, np.uint8, 1)[0])


def test_a_core_kernel_lasts_as_long_as_running_it_says(rig):
    stream = rig.stream()
    rig.kernel(stream, 50)
    rig.submit(stream, Stand(300, [(200, 2), (300, 1)]))
    rig.kernel(stream, 10)
    assert rig.run() == [("kernel", 1, 0, 50), ("core", 1, 50, 350), ("kernel", 1, 350, 360)]


def test_it_reads_at_its_start_and_writes_at_its_end(rig):
    src, dst = rig.on_device(8), rig.on_device(8)
    one, two, three = rig.stream(), rig.stream(), rig.stream()
    rig.fill(one, 8, value=3, dst=src)  # holds the others back
    rig.submit(one, Stand(100, [(100, 1)], src, dst))  # from 8 to 108
    rig.kernel(two, 50, body=lambda: array(src, 0, np.uint8, 8).fill(4))  # while it runs: it has read already
    seen = []
    rig.kernel(three, 99, body=lambda: seen.append(byte(dst)))
    rig.kernel(three, 2, body=lambda: seen.append(byte(dst)))
    rig.run()
    assert (byte(src), byte(dst)) == (4, 3)
    assert seen[1] == 3
    assert seen[0] != 3  # a nanosecond before its end


def test_it_starts_when_all_the_cores_that_it_wants_are_empty(rig):
    """The device has 4; the first gives back 2 of its 3 early, and the second wants 3."""
    one, two, three = rig.stream(), rig.stream(), rig.stream()
    rig.submit(one, Stand(100, [(40, 1), (60, 1), (100, 1)], name="a"))
    rig.submit(two, Stand(100, [(100, 3)], name="b"))
    rig.kernel(three, 10, 1, exclusive=True)  # has room from the beginning, and stands behind one that has not
    assert rig.run() == [("a", 1, 0, 100), ("kernel", 3, 100, 110), ("b", 2, 60, 160)]


def test_blocks_that_share_cores_keep_it_out(rig):
    one, two = rig.stream(), rig.stream()
    rig.kernel(one, 70, blocks=2)
    rig.submit(two, Stand(10, [(10, 3)]))
    assert rig.run() == [("kernel", 1, 0, 70), ("core", 2, 70, 80)]


def test_it_is_one_of_the_resident_kernels():
    rig = Rig(tiny(cores={"resident_kernels": 2}))
    for _ in range(3):
        rig.submit(rig.stream(), Stand(100, [(10, 1)]))
    assert [row[2:] for row in rig.run()] == [(0, 100), (0, 100), (100, 200)]


def test_what_large_bodies_wrote_before_is_there_when_it_runs():
    """They may be in threads still when it starts, in real time."""
    rig = Rig(workers=4)
    src = rig.on_device(2 * MIB)
    stream, seen = rig.stream(), []

    def slow():
        part = array(src, 0, np.uint8, 2 * MIB)
        for _ in range(200):
            part[1:] += 1
        part[0] = 9

    for _ in range(5):
        array(src, 0, np.uint8, 1)[0] = 0
        rig.kernel(rig.stream(), 10, body=slow, written=[whole(src)], nbytes=INLINE_BYTES)
        work = Stand(10, [(10, 1)], src)
        rig.submit(stream, work, at=rig.now + 10)
        rig.run()
        seen.append(work.seen)
    assert seen == [9] * 5
    rig.workers.close()


def test_nothing_runs_once_its_context_is_lost(rig):
    one, two = rig.stream(), rig.stream()

    def broken():
        raise ValueError("broken")

    rig.kernel(one, 30, body=broken)
    src = rig.on_device(8)
    late = Stand(100, [(100, 1)], src, src)
    rig.submit(two, late, at=30)
    rig.run()
    assert late.seen is None
    assert rig.history.rows == [("kernel", 1, 0, 30), ("core", 2, 30, 30)]


@pytest.mark.parametrize("stop", [0, 1])
def test_what_stops_it_fails_its_context_at_its_end(rig, stop):
    class Stopped(Stand):
        def perform(self):
            raise DeviceError(Kind.LAUNCH_FAILURE, "stopped")

    stream = rig.stream()
    rig.submit(stream, Stopped(stop * 50, [(0, 1)]))
    rig.run()
    assert rig.history.failures == [("core", 1, "stopped")]
    assert rig.context.failed_ns == stop * 50


def test_observers_are_told_of_the_result_behind_the_end(rig):
    class Found:
        findings = ("one", "two")

    class Listener(Observer):
        def op_ended(self, op):
            notes.append(("ended", rig.now))

        def ran(self, op, result):
            notes.append(("ran", op.work.label.name, result))

        def finding(self, op, finding):
            notes.append(("finding", op.work.label.name, finding))

    notes = []
    rig.hooks.add(Listener())
    work = Stand(20, [(20, 1)])
    work.result = Found
    rig.submit(rig.stream(), work)
    rig.kernel(rig.stream(), 30)
    rig.run()
    assert notes == [
        ("ended", 20), ("ran", "core", Found), ("finding", "core", "one"), ("finding", "core", "two"), ("ended", 30),
    ]  # fmt: skip
