"""Bodies in threads: which of them may overlap, without an effect on any result."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig import Rig, tiny, whole

from device_model.engines.workers import INLINE_BYTES, Workers, default_workers
from device_model.errors import DeviceError, Kind
from device_model.memory import array
from device_model.observe import Observer

BIG = INLINE_BYTES
WIDE = tiny(queues={"compute": 64}, cores={"resident_kernels": 1000})


def values(allocation):
    return array(allocation, 0, np.uint8, allocation.nbytes)


def main_thread(notes):
    return lambda: notes.append(threading.current_thread() is threading.main_thread())


# --- which thread


def test_small_bodies_and_serial_ones_run_where_they_are():
    rig, notes = Rig(workers=2), []
    rig.kernel(rig.stream(), 10, body=main_thread(notes), nbytes=BIG - 1)
    rig.kernel(rig.stream(), 20, body=main_thread(notes), nbytes=BIG, serial=True)
    rig.host_function(rig.stream(), 30, main_thread(notes))
    rig.run()
    assert notes == [True, True, True]


def test_large_bodies_run_in_threads_if_there_are_several_workers():
    for workers, expected in [(1, True), (2, False)]:
        rig, notes = Rig(workers=workers), []
        rig.kernel(rig.stream(), 10, body=main_thread(notes), nbytes=BIG)
        rig.run()
        assert notes == [expected]
        rig.workers.close()


def test_there_is_one_worker_per_processor_or_as_many_as_asked_for():
    rig = Rig(workers=None)
    assert rig.workers.count == default_workers() >= 1
    with pytest.raises(ValueError, match="workers must be 1 or more, not 0"):
        Workers(rig.scheduler, 0)


# --- what overlaps


@pytest.mark.parametrize("order", [1, -1], ids=["the lower addresses first", "the higher addresses first"])
def test_bodies_that_share_nothing_overlap(order):
    rig = Rig(workers=2)
    meet = threading.Barrier(2)
    one, two = rig.on_device(64), rig.on_device(64)
    for allocation in (one, two)[::order]:
        body = lambda: meet.wait(10)  # noqa: E731 - broken after 10 s if the other never comes
        rig.kernel(rig.stream(), 10, body=body, written=[whole(allocation)], nbytes=BIG)
    rig.run()
    assert rig.context.error is None


def test_readers_of_the_same_bytes_overlap():
    rig = Rig(workers=2)
    meet = threading.Barrier(2)
    one = rig.on_device(64)
    for _ in range(2):
        rig.kernel(rig.stream(), 10, body=lambda: meet.wait(10), read=[whole(one)], nbytes=BIG)
    rig.run()
    assert rig.context.error is None


class Pair:
    """Two bodies; the first lingers a little, so that the second could begin beside it if that were possible."""

    def __init__(self):
        self.begun = threading.Event()
        self.overlapped = None

    def first(self):
        self.overlapped = self.begun.wait(0.03)

    def second(self):
        self.begun.set()
        self.seen = self.overlapped


def overlap(submit, workers=2):
    """Let *submit* submit both bodies of a pair. Returns whether the second began before the first was over."""
    rig, pair = Rig(WIDE, workers=workers), Pair()
    submit(rig, pair)
    rig.run()
    rig.workers.close()
    assert pair.seen is not None or pair.overlapped
    return pair.overlapped


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("written", "written", False),
        ("written", "read", False),
        ("read", "written", False),
        ("read", "read", True),
    ],
)
def test_a_body_waits_for_those_with_which_it_shares_bytes(first, second, expected):
    def submit(rig, pair):
        memory = rig.on_device(64)
        rig.kernel(rig.stream(), 10, body=pair.first, nbytes=BIG, **{first: [(memory, 0, 33)]})
        rig.kernel(rig.stream(), 11, body=pair.second, nbytes=BIG, **{second: [(memory, 32, 64)]})

    assert overlap(submit) is expected


def test_halves_of_one_allocation_are_not_shared():
    def submit(rig, pair):
        memory = rig.on_device(64)
        rig.kernel(rig.stream(), 10, body=pair.first, nbytes=BIG, written=[(memory, 0, 32)])
        rig.kernel(rig.stream(), 11, body=pair.second, nbytes=BIG, written=[(memory, 32, 64)])

    assert overlap(submit)


def test_a_body_waits_for_what_ended_before_it_started():
    def submit(rig, pair):
        stream = rig.stream()
        rig.kernel(stream, 10, body=pair.first, nbytes=BIG)
        rig.kernel(stream, 11, body=pair.second, nbytes=BIG)

    assert not overlap(submit)


def test_small_bodies_are_held_to_the_same():
    def submit(rig, pair):
        memory = rig.on_device(64)
        rig.kernel(rig.stream(), 10, body=pair.first, nbytes=BIG, written=[whole(memory)])
        rig.kernel(rig.stream(), 11, body=pair.second, nbytes=1, read=[whole(memory)])

    assert not overlap(submit)


@pytest.mark.parametrize("alone", ["kernel", "host function"])
def test_serial_bodies_and_host_functions_run_beside_nothing(alone):
    def submit(rig, pair):
        rig.kernel(rig.stream(), 10, body=pair.first, nbytes=BIG)
        if alone == "kernel":
            rig.kernel(rig.stream(), 11, body=pair.second, nbytes=BIG, serial=True)
        else:
            rig.host_function(rig.stream(), 11, pair.second)

    assert not overlap(submit)


def test_the_host_sees_no_body_unfinished():
    rig, notes = Rig(workers=2), []
    wait = threading.Event()
    rig.kernel(rig.stream(), 10, body=lambda: (wait.wait(0.03), notes.append("over")), nbytes=BIG)
    rig.advance(10)
    assert (notes, rig.workers.flying, rig.scheduler.before_return) == (["over"], [], None)


def test_no_more_bodies_fly_than_there_are_workers():
    rig, running, most = Rig(WIDE, workers=3), [], []

    def body():
        running.append(1)
        most.append(len(running))
        threading.Event().wait(0.005)
        running.pop()

    class Counting(Observer):
        def op_ended(self, op):
            most.append(len(rig.workers.flying))

    rig.hooks.add(Counting())
    for _ in range(10):
        rig.kernel(rig.stream(), 10, body=body, nbytes=BIG)
    rig.run()
    assert max(most) <= 3


# --- failures


def failing(what):
    def body():
        raise ValueError(what)

    return body


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_failure_keeps_what_starts_after_it_from_running(workers):
    rig, notes = Rig(WIDE, workers=workers), []
    stream, beside, event = rig.stream(), rig.stream(), rig.event()
    bad = rig.kernel(stream, 100, body=failing("bad"), nbytes=BIG, name="bad")
    event.record(stream)
    for nbytes in (BIG, 1):
        rig.kernel(stream, 10, body=lambda: notes.append("behind"), nbytes=nbytes)
    rig.kernel(beside, 150, body=lambda: notes.append("started before"), nbytes=1)
    rig.kernel(beside, 10, body=lambda: notes.append("started after"), nbytes=1)
    rig.run()
    assert notes == ["started before"]
    assert (rig.context.failed_op, rig.context.failed_ns, rig.context.error.kind) == (bad, 100, Kind.LAUNCH_FAILURE)
    assert rig.history.failures == [
        ("bad", 1, "kernel bad raised ValueError: bad; the exception is the cause of this error: fix the kernel")
    ]
    assert isinstance(rig.context.error.__cause__, ValueError)


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("sizes", [(BIG, BIG, BIG), (BIG, BIG, 1), (BIG, 1, BIG), (1, BIG, BIG)])
def test_of_several_failures_the_first_counts(workers, sizes):
    rig = Rig(WIDE, workers=workers)
    memory = rig.on_device(64)
    for index, nbytes in enumerate(sizes):
        # The last two share bytes, so the second is waited for while the first may still run.
        rig.kernel(
            rig.stream(), 100 + index, body=failing(str(index)), nbytes=nbytes, name=f"k{index}",
            written=[whole(memory)] if index else [],
        )  # fmt: skip
    rig.run()
    assert [row[0] for row in rig.history.failures] == ["k0", "k1", "k2"]
    assert rig.context.failed_op.work.label.name == "k0"


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_that_is_not_the_programs_passes_through(workers):
    rig = Rig(workers=workers)
    copy = rig.h2d(rig.stream(), BIG)
    copy.work.src_offset = None  # our own mistake: no number
    with pytest.raises(TypeError):
        rig.run()


def test_a_body_waits_for_all_that_are_in_flight_up_to_the_one_with_which_it_shares_bytes():
    def submit(rig, pair):
        one, two = rig.on_device(64), rig.on_device(64)
        rig.kernel(rig.stream(), 10, body=lambda: None, nbytes=BIG, written=[whole(one)])
        rig.kernel(rig.stream(), 10, body=pair.first, nbytes=BIG, written=[whole(two)])
        rig.kernel(rig.stream(), 11, body=pair.second, nbytes=BIG, read=[whole(two)])

    assert overlap(submit, workers=3) is False


# --- the same result for every number of workers

actions = st.lists(
    st.tuples(
        st.sampled_from(["write", "add", "mix", "fail", "copy"]),
        st.integers(0, 3),  # the stream
        st.integers(0, 2),  # memory read
        st.integers(0, 2),  # memory written
        st.integers(1, 40),  # duration
        st.booleans(),  # large
    ),
    min_size=2,
    max_size=15,
)


def race(actions, workers):
    """Run *actions* on unordered streams that share memory. Returns everything that a program can see of the run."""
    rig = Rig(WIDE, workers=workers)
    streams = [rig.stream(nonblocking=True) for _ in range(4)]
    memories = [rig.on_device(64) for _ in range(3)]
    for memory in memories:
        values(memory)[:] = 1

    def body(what, source, target, number):
        def run():
            if what == "write":
                target[:32] = number
            elif what == "add":
                np.add(target, source, out=target)
            elif what == "mix":
                target[:] = target[::-1] * 3 + number
            elif what == "fail":
                target[:] = number
                raise ValueError(number)

        return run

    for number, (what, stream, read, written, duration, large) in enumerate(actions):
        source, target = memories[read], memories[written]
        if what == "copy":
            rig.d2d(streams[stream], 64, dst=target, src=source)
        else:
            rig.kernel(
                streams[stream], duration, body=body(what, values(source), values(target), number), name=str(number),
                read=[whole(source), whole(target)], written=[whole(target)], nbytes=BIG if large else 1,
            )  # fmt: skip
    rig.run()
    rig.workers.close()
    failed = rig.context.failed_op
    return (
        rig.history.rows,
        rig.history.failures,
        failed and repr(failed),
        [values(memory).tobytes() for memory in memories],
    )


@given(actions)
def test_racy_and_failing_programs_give_the_same_result_for_every_number_of_workers(actions):
    alone = race(actions, 1)
    assert race(actions, 2) == alone
    assert race(actions, 4) == alone


@pytest.mark.one_in(3)
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_large_arrays_through_a_pipeline(workers):
    """Real copies of 4 MiB and more, in both directions and inside the device, beside each other."""
    rig = Rig(WIDE, workers=workers)
    nbytes, lanes = BIG + 4096, 3
    rng = np.random.default_rng(1)
    wanted, found = [], []
    for _ in range(lanes):
        stream = rig.stream()
        src, dst = rig.pinned(nbytes), rig.pinned(nbytes)
        first, second = rig.on_device(nbytes), rig.on_device(nbytes)
        values(src)[:] = rng.integers(0, 255, nbytes)
        rig.h2d(stream, nbytes, dst=first, src=src)
        rig.d2d(stream, nbytes, dst=second, src=first)
        rig.fill(stream, BIG, value=7, dst=first)

        def add(first=first, second=second):
            values(second)[:] += values(first)

        rig.kernel(stream, 10, body=add, read=[whole(first)], written=[whole(second)], nbytes=2 * nbytes)
        rig.d2h(stream, nbytes, dst=dst, src=second)
        expected = values(src).copy()
        expected[:BIG] += 7
        expected[BIG:] += values(src)[BIG:]
        wanted.append(expected)
        found.append(dst)
    rig.run()
    assert all((values(dst) == expected).all() for dst, expected in zip(found, wanted, strict=True))
    rig.workers.close()
    assert rig.workers.flying == []


def test_work_on_memory_that_was_freed_too_early_fails(rig):
    buffer = rig.memory.malloc(0, 100, "a.py:1")
    rig.h2d(rig.stream(), 100, dst=buffer.allocation)
    rig.memory.free(buffer, "a.py:2")
    rig.run()
    assert rig.context.error.kind is Kind.ILLEGAL_ADDRESS
    assert "h2d found that its destination" in str(rig.context.error)
    assert "freed at a.py:2> was gone before it ran; free memory only after" in str(rig.context.error)


def test_a_kernel_may_fail_with_an_error_of_the_devices_own(rig):
    def body():
        raise DeviceError(Kind.ILLEGAL_ADDRESS, "poked beyond the end")

    rig.kernel(rig.stream(), 10, body=body)
    rig.run()
    assert (rig.context.error.kind, str(rig.context.error)) == (Kind.ILLEGAL_ADDRESS, "poked beyond the end")


def test_a_host_function_that_raises_is_a_failure(rig):
    rig.host_function(rig.stream(), 10, failing("no"))
    rig.run()
    assert rig.context.error.kind is Kind.HOST_FUNCTION_FAILURE
    assert "host function body raised ValueError: no" in str(rig.context.error)
