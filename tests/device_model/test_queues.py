"""Hardware queues: streams share them, no operation passes the head, and a full queue makes the host wait."""

import tracemalloc

from rig import Rig, tiny

from device_model.work import Lane


def test_streams_go_round_over_the_queues(rig):
    streams = [rig.stream() for _ in range(9)]
    for lane in (lane for lane in Lane if lane not in (Lane.HOST, Lane.COLLECTIVE)):
        numbers = [stream.queues[lane].index for stream in streams]
        assert numbers == [0, 1, 2, 3, 0, 1, 2, 3, 0]
    assert len({id(stream.queues[Lane.HOST]) for stream in streams}) == 9  # each has its own for host functions
    assert [stream.queues[0].index for stream in (rig.legacy, rig.context.per_thread)] == [3, 2]


ONE = tiny(queues={"copy": 1, "compute": 1})  # all streams share


def test_a_head_that_waits_holds_back_other_streams_of_its_queue():
    rig = Rig(ONE)
    streams = [rig.stream() for _ in range(5)]
    slow = rig.kernel(streams[1], 1000)
    streams[0].wait(slow)
    rig.h2d(streams[0], 100)
    rig.h2d(streams[4], 100)  # a false dependency
    rig.d2h(streams[4], 100)  # not before the copy in front of it, though its own queue is free
    assert rig.run() == [
        ("kernel", 2, 0, 1000), ("h2d", 1, 1000, 1100), ("h2d", 5, 1100, 1200), ("d2h", 5, 1200, 1300),
    ]  # fmt: skip


def test_a_stream_without_work_in_its_queue_takes_one_that_is_empty(rig):
    """Measured: u048, where a copy in stream 0 passes one that waits in stream 4; u022 for kernels."""
    streams = [rig.stream() for _ in range(5)]
    streams[0].wait(rig.kernel(streams[1], 1000))
    rig.h2d(streams[0], 100)
    rig.h2d(streams[4], 100)
    assert rig.run() == [("h2d", 5, 0, 100), ("kernel", 2, 0, 1000), ("h2d", 1, 1000, 1100)]


def test_a_stream_shares_its_queue_while_none_is_empty_and_keeps_to_it_while_it_has_work_there(rig):
    """Measured: t020, t168 and t188, where the copies of 8 busy streams run in chains of two."""
    streams = [rig.stream() for _ in range(6)]
    slow = rig.kernel(streams[5], 1000)
    for stream in streams[:4]:
        stream.wait(slow)
        rig.h2d(stream, 100)
    rig.h2d(streams[4], 100)
    assert streams[4].queue_for(Lane.H2D) is streams[0].queues[Lane.H2D]
    rig.device.abort(streams[3], None)  # now one is empty
    rig.h2d(streams[4], 50)
    assert rig.run()[1:] == [
        ("h2d", 1, 1000, 1100), ("h2d", 5, 1100, 1200), ("h2d", 5, 1200, 1250), ("h2d", 2, 1250, 1350),
        ("h2d", 3, 1350, 1450),
    ]  # fmt: skip


def test_each_of_many_queues_takes_as_much_memory_as_one_of_few():
    """A device with a queue for each stream prices the queues that streams share: it took 670 MB."""

    def room(count):
        tracemalloc.start()
        rig = Rig(tiny(queues={"copy": count, "compute": count}))
        used, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert rig.stream().queues[Lane.H2D].index == 0
        return used

    few, more, most = room(100), room(200), room(1_000)
    assert (most - more) / 800 < 1.5 * (more - few) / 100


def test_an_operation_that_becomes_ready_behind_a_waiting_head_goes_on_waiting():
    rig = Rig(tiny(queues={"copy": 1}))
    streams = [rig.stream() for _ in range(5)]
    streams[0].wait(rig.kernel(streams[1], 1000))
    streams[4].wait(rig.kernel(streams[2], 10))
    rig.h2d(streams[0], 100)
    rig.h2d(streams[4], 100)
    assert rig.run() == [
        ("kernel", 3, 0, 10), ("kernel", 2, 0, 1000), ("h2d", 1, 1000, 1100), ("h2d", 5, 1100, 1200),
    ]  # fmt: skip


def test_kernels_have_false_dependencies_too():
    rig = Rig(ONE)
    streams = [rig.stream() for _ in range(5)]
    streams[0].wait(rig.h2d(streams[1], 1000))
    rig.kernel(streams[0], 10)
    rig.kernel(streams[4], 10)
    assert rig.run() == [("h2d", 2, 0, 1000), ("kernel", 1, 1000, 1010), ("kernel", 5, 1000, 1010)]


def test_with_a_queue_for_each_stream_there_are_none():
    rig = Rig(tiny(queues={"copy": 5}))
    streams = [rig.stream() for _ in range(5)]
    streams[0].wait(rig.kernel(streams[1], 1000))
    rig.h2d(streams[0], 100)
    rig.h2d(streams[4], 100)
    assert rig.run() == [("h2d", 5, 0, 100), ("kernel", 2, 0, 1000), ("h2d", 1, 1000, 1100)]


def test_a_kernel_leaves_its_queue_when_it_is_ready_and_lines_up_for_cores(rig):
    streams = [rig.stream() for _ in range(5)]
    rig.kernel(streams[1], 100, blocks=4, exclusive=True)
    rig.kernel(streams[0], 10, blocks=4, exclusive=True)
    rig.kernel(streams[4], 10, exclusive=True)
    assert [len(stream.queues[0].fifo) for stream in streams[:2]] == [0, 0]
    assert rig.run()[1:] == [("kernel", 1, 100, 110), ("kernel", 5, 110, 120)]


def full(rig, count):
    """A stream with a running copy of 100 bytes and *count* more in its queue."""
    stream = rig.stream()
    for _ in range(count + 1):
        rig.h2d(stream, 100)
    return stream


class Host:
    """Asks for a place in the queue and, when it has one, takes it with a copy."""

    def __init__(self, rig, name, stream, notes, *, gives_up=False):
        self.rig, self.name, self.stream, self.notes, self.gives_up = rig, name, stream, notes, gives_up
        self.queue = stream.queues[1]
        self.request = self.queue.request_place()
        rig.scheduler.watch(self.request, lambda: True)

    def go_on(self):
        if self.request.done:
            self.notes.append((self.name, self.rig.now))
            if self.gives_up:
                self.queue.withdraw(self.request)
            else:
                self.queue.take_place(self.request)
                self.rig.h2d(self.stream, 100)


def run(rig, hosts):
    while hosts and rig.scheduler.run_to_wake(10**6):
        for host in list(hosts):
            host.go_on()
            if host.request.done:
                hosts.remove(host)


def test_records_and_waits_take_no_room(rig):
    stream = full(rig, 3)
    for _ in range(50):
        rig.event().record(stream)
        stream.wait(stream.tail)
    assert repr(stream.queues[1]).endswith("holding 3 of 16>")


def test_hosts_get_room_in_the_order_in_which_they_asked():
    rig = Rig(tiny(queues={"depth": 2}))
    stream, notes = full(rig, 2), []
    run(rig, [Host(rig, name, stream, notes) for name in "abc"])
    assert notes == [("a", 100), ("b", 200), ("c", 300)]


def test_a_place_that_is_not_taken_goes_to_the_next():
    """In a queue of one place, nothing else would wake the other hosts."""
    rig = Rig(tiny(queues={"depth": 1}))
    stream, notes = full(rig, 1), []
    gone = Host(rig, "gone", stream, notes)
    hosts = [Host(rig, "a", stream, notes, gives_up=True), Host(rig, "b", stream, notes), Host(rig, "c", stream, notes)]
    gone.queue.withdraw(gone.request)  # cancelled while it waited
    run(rig, hosts)
    assert notes == [("a", 100), ("b", 100), ("c", 200)]
    rig.run()
    assert (rig.now, stream.queues[1].reserved) == (400, 0)


def test_there_is_no_room_while_staged_copies_overfill_the_queue():
    """Chunks of pageable memory are queued without asking for a place."""
    rig = Rig(tiny(queues={"depth": 2}))
    stream, notes = full(rig, 4), []
    run(rig, [Host(rig, "a", stream, notes)])
    assert notes == [("a", 300)]  # four are queued, then three, two, one


def test_a_kernel_that_is_listed_makes_room(rig):
    stream = rig.stream()
    rig.kernel(stream, 100)
    for _ in range(16):
        rig.kernel(stream, 100)
    queue = stream.queues[0]
    request = queue.request_place()
    rig.advance(99)
    assert (request.done, len(queue.fifo)) == (False, 16)
    rig.advance(100)
    assert (request.done, len(queue.fifo)) == (True, 15)


def test_an_abort_of_the_head_starts_the_next_operation_whatever_stands_behind_that():
    rig = Rig(tiny(queues={"copy": 1}))
    streams = [rig.stream() for _ in range(9)]
    slow = rig.kernel(streams[1], 1000)
    streams[0].wait(slow)
    streams[8].wait(slow)
    rig.h2d(streams[0], 100)
    rig.h2d(streams[4], 100)
    rig.h2d(streams[8], 100)
    rig.advance(300)
    rig.device.abort(streams[0], None)
    assert rig.run() == [("h2d", 5, 300, 400), ("kernel", 2, 0, 1000), ("h2d", 9, 1000, 1100)]


def test_an_abort_of_the_head_leaves_the_next_operation_waiting_if_it_has_to():
    rig = Rig(tiny(queues={"copy": 1}))
    streams = [rig.stream() for _ in range(9)]
    slow = rig.kernel(streams[1], 1000)
    streams[0].wait(slow)
    streams[4].wait(slow)
    rig.h2d(streams[0], 100)
    rig.h2d(streams[4], 100)
    rig.h2d(streams[8], 100)
    rig.advance(300)
    rig.device.abort(streams[0], None)
    assert rig.run() == [("kernel", 2, 0, 1000), ("h2d", 5, 1000, 1100), ("h2d", 9, 1100, 1200)]
