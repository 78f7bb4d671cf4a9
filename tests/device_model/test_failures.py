"""What functions of the user raise in the middle of an instant: their operation fails, and the device goes on."""

import asyncio
import threading

import pytest
from rig import Rig, whole

from device_model import profile
from device_model.aicore.caches import Caches
from device_model.aicore.launch import Launch, Options
from device_model.completions import Completion, Process
from device_model.engines.workers import INLINE_BYTES
from device_model.errors import Kind
from device_model.observe import Observer
from device_model.rules import ACL
from device_model.work import Label, Lane


def raising(error):
    def body(*_):
        raise error

    return body


def kernel(rig, error):
    return rig.kernel(rig.stream(), 100, body=raising(error), name="bad")


def kernel_in_a_thread(rig, error):
    block = rig.on_device(64)
    return rig.kernel(rig.stream(), 100, body=raising(error), name="bad", written=[whole(block)], nbytes=INLINE_BYTES)


def core_kernel(rig, error):
    spec = profile.load("ascend910b1").aicore
    label = Label("kernel", Lane.COMPUTE, "bad")
    return rig.submit(rig.stream(), Launch(label, raising(error), 2, [], spec, 4, Caches(), Options()))


def host_function(rig, error):
    return rig.host_function(rig.stream(), 100, raising(error))


MAKERS = [kernel, kernel_in_a_thread, core_kernel, host_function]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("error", [asyncio.CancelledError("gone"), GeneratorExit()], ids=repr)
@pytest.mark.parametrize("make", MAKERS)
def test_what_ends_a_task_is_the_failure_of_the_operation_that_raises_it(make, error, workers):
    rig = Rig(rules=ACL, workers=workers)
    op = make(rig, error)
    behind = rig.kernel(op.stream, 10)
    rig.run()
    assert (op.done, behind.done, op.error.__cause__) == (True, True, error)
    assert op.error.kind in (Kind.LAUNCH_FAILURE, Kind.HOST_FUNCTION_FAILURE)
    assert f"raised {type(error).__name__}" in op.error.what
    rig.workers.close()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=repr)
@pytest.mark.parametrize("make", MAKERS)
def test_what_ends_a_program_fails_the_operation_and_goes_on_to_the_host(make, error, workers):
    rig = Rig(rules=ACL, workers=workers)
    op = make(rig, error)
    behind = rig.kernel(op.stream, 10)
    with pytest.raises(type(error)) as caught:
        rig.run()
    assert caught.value is error
    assert (op.done, op.error.__cause__) == (True, error)
    rig.run()  # once is enough
    assert (behind.done, behind.error) == (True, None)
    assert op.stream.error.kind is op.error.kind
    rig.workers.close()


@pytest.mark.parametrize("run", ["advance", "run_until", "run_to_wake"])
def test_an_interrupt_comes_out_when_its_instant_is_over_and_before_the_next(run):
    """Another operation that ends at the same instant has ended, its engine has gone on, and the clock stands there."""
    rig = Rig(rules=ACL)
    rig.kernel(rig.stream(), 100, body=raising(KeyboardInterrupt()))
    rig.h2d(rig.stream(), 100)
    rig.h2d(rig.stream(), 50)
    rig.kernel(rig.stream(), 120)
    arguments = {"advance": (1_000,), "run_until": (Completion(), 100), "run_to_wake": (100,)}[run]
    with pytest.raises(KeyboardInterrupt):
        getattr(rig.scheduler, run)(*arguments)
    assert rig.now == 100
    assert rig.history.rows == [("kernel", 1, 0, 100), ("h2d", 2, 0, 100)]
    assert rig.device.h2d.running.stream.id == 3
    assert rig.run()[2:] == [("kernel", 4, 0, 120), ("h2d", 3, 100, 150)]


def test_interrupts_of_one_instant_come_out_one_after_the_other():
    rig = Rig(rules=ACL)
    for error in (KeyboardInterrupt(), SystemExit(2)):
        rig.kernel(rig.stream(), 100, body=raising(error))
    with pytest.raises(KeyboardInterrupt):
        rig.run()
    with pytest.raises(SystemExit):
        rig.scheduler.settle()
    assert rig.run() == [("kernel", 1, 0, 100), ("kernel", 2, 0, 100)]


def test_bodies_in_threads_are_through_when_an_interrupt_comes_out():
    rig, written = Rig(rules=ACL, workers=2), []
    began = threading.Event()

    def slow():
        began.set()
        threading.Event().wait(0.05)
        written.append(rig.now)

    block = rig.on_device(64)
    rig.kernel(rig.stream(), 50, body=slow, written=[whole(block)], nbytes=INLINE_BYTES)
    rig.kernel(rig.stream(), 60, body=raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        rig.run()
    assert written
    assert rig.workers.flying == []
    rig.workers.close()


class Listener(Observer):
    """Raises when it is told that an operation ended."""

    def __init__(self, error):
        self.error = error

    def op_ended(self, op):
        if self.error is not None:
            error, self.error = self.error, None
            raise error


@pytest.mark.parametrize("submit", ["h2d", "d2d", "kernel", "host_function"])
def test_an_observer_that_raises_stops_no_engine(submit):
    rig = Rig()
    rig.hooks.add(Listener(ValueError("listener")))
    one, two = rig.stream(), rig.stream()
    for stream in (one, one, two):
        getattr(rig, submit)(stream, 100)
    with pytest.raises(ValueError, match="listener"):
        rig.run()
    assert rig.now == 100
    assert len(rig.run()) == 3


def test_an_observer_of_failures_that_raises_leaves_no_operation_running():
    class OfFailures(Observer):
        def failed(self, op, error):
            raise ValueError("listener")

    rig = Rig(rules=ACL)
    rig.hooks.add(OfFailures())
    op = kernel(rig, RuntimeError("bad"))
    behind = rig.kernel(op.stream, 10)
    with pytest.raises(ValueError, match="listener"):
        rig.run()
    rig.run()
    assert (op.done, behind.done, str(op.error.__cause__)) == (True, True, "bad")


def test_what_would_cancel_a_task_never_reaches_one_as_it_is():
    rig = Rig()
    rig.hooks.add(Listener(asyncio.CancelledError()))
    rig.h2d(rig.stream(), 100)
    with pytest.raises(RuntimeError, match=r"raised CancelledError\(\)"):
        rig.run()


def test_a_course_of_events_that_raises_is_over(rig):
    def course():
        yield rig.scheduler.timer(10)
        raise ValueError("course")

    process = Process(rig.scheduler, course())
    with pytest.raises(ValueError, match="course"):
        rig.run()
    assert (process.done, process.end_ns) == (True, 10)


def test_a_copy_that_goes_wrong_by_a_mistake_of_ours_has_ended():
    """The mistake passes through, and nothing waits for the copy any more."""
    rig = Rig()
    copy = rig.h2d(rig.stream(), 100)
    copy.work.src_offset = None  # no number
    behind = rig.kernel(copy.stream, 10)
    with pytest.raises(TypeError):
        rig.run()
    rig.run()
    assert (copy.done, copy.error.kind, behind.done) == (True, Kind.UNKNOWN, True)
