"""Streams, contexts and devices through the module: order, destruction, time-outs, limits."""

import pytest
from card import done, each, made, module, now, times, work

from acl_py import DeadlockError

PERSISTENT, CPU_SCHEDULE, DEVICE_USE_ONLY = 0x4, 0x10, 0x20


def streams(acl, count):
    return each(*(acl.rt.create_stream() for _ in range(count)))


# --- order


def test_first_in_first_out_within_a_stream_and_streams_are_concurrent(acl):
    a, b = streams(acl, 2)
    begin = now()
    ops = [work("A", 10, a), work("B", 10, b), work("C", 10, a)]
    done(acl.rt.synchronize_device())
    assert times(begin, *ops) == [("A", 1_000, 11_000), ("B", 2_000, 12_000), ("C", 11_000, 21_000)]


def test_the_default_stream_does_not_synchronise_with_explicit_ones(acl):
    (stream,) = streams(acl, 1)
    begin = now()
    ops = [work("A", 10, stream), work("B", 10, 0), work("C", 10, stream)]
    done(acl.rt.synchronize_stream(0))
    assert ops[1].done
    assert not ops[2].done
    done(acl.rt.synchronize_device())
    assert times(begin, *ops) == [("A", 1_000, 11_000), ("B", 2_000, 12_000), ("C", 11_000, 21_000)]


def test_0_and_the_real_handle_are_the_same_default_stream(acl):
    handle = made(acl.rt.ctx_get_current_default_stream())
    op = work("A", 10, handle)
    assert (handle != 0, acl.rt.stream_query(0)) == (True, (1, 0))
    done(acl.rt.synchronize_stream(0))
    assert op.done
    assert made(acl.rt.stream_get_id(handle)) == made(acl.rt.stream_get_id(0))


# --- destruction


def test_destroy_stream_waits_for_unfinished_work(acl):
    (stream,) = streams(acl, 1)
    begin = now()
    op = work("A", 10, stream)
    done(acl.rt.destroy_stream(stream))
    assert (op.done, now() - begin) == (True, 13_000)


def test_destroy_stream_of_another_context_is_refused(acl):
    (stream,) = streams(acl, 1)
    mine = made(acl.rt.get_context())
    made(acl.rt.create_context(0))
    assert acl.rt.destroy_stream(stream) == 107003
    done(acl.rt.set_context(mine), acl.rt.destroy_stream(stream))


@pytest.mark.parametrize("name", ["destroy_stream", "destroy_stream_force"])
def test_the_default_stream_cannot_be_destroyed(acl, name):
    assert getattr(acl.rt, name)(0) == 107000
    assert getattr(acl.rt, name)(made(acl.rt.ctx_get_current_default_stream())) == 107000
    done(acl.rt.synchronize_stream(0))


def test_destroy_stream_force_drops_tasks_and_does_not_wait(acl):
    (stream,) = streams(acl, 1)
    begin = now()
    work("A", 10, stream)
    dropped = work("B", 10, stream)
    done(acl.rt.destroy_stream_force(stream))
    assert (now() - begin, dropped.done, dropped.error is not None) == (3_000, True, True)
    assert acl.rt.synchronize_stream(stream) == 107017


@pytest.mark.parametrize("name", [
    "destroy_stream", "destroy_stream_force", "synchronize_stream", "stream_abort", "stream_query", "stream_get_id",
])  # fmt: skip
def test_a_stale_or_garbage_handle(acl, name):
    (stream,) = streams(acl, 1)
    done(acl.rt.destroy_stream(stream))
    for handle in (stream, 0xDEAD, 2**64 - 1):
        answer = getattr(acl.rt, name)(handle)
        assert (answer[-1] if isinstance(answer, tuple) else answer) == 107017


# --- abort


def test_stream_abort_stops_what_runs_drops_what_is_queued_and_syncs_return_107023(acl):
    (stream,) = streams(acl, 1)
    ops = [work("running", 10_000, stream), work("queued", 10, stream)]
    done(acl.rt.stream_abort(stream))
    assert all(op.done for op in ops)
    assert acl.rt.synchronize_stream(stream) == 107023
    op = work("new", 10, stream)
    done(acl.rt.synchronize_stream(stream))
    assert op.error is None


def test_a_stream_that_waits_for_an_event_of_a_hung_one_is_freed_by_its_own_abort(acl):
    (a,) = streams(acl, 1)
    event = made(acl.rt.create_event_with_flag(1))
    done(acl.rt.stream_wait_event(a, event))
    work("never", 10, a)
    with pytest.raises(DeadlockError):
        acl.rt.synchronize_stream(a)
    done(acl.rt.stream_abort(a))
    assert acl.rt.synchronize_stream(a) == 107023


# --- model-bound streams


@pytest.mark.parametrize("flag", [PERSISTENT, CPU_SCHEDULE, DEVICE_USE_ONLY])
def test_synchronize_returns_at_once_on_streams_that_wait_for_a_model(acl, flag):
    stream = made(acl.rt.create_stream_with_config(0, flag))
    op = work("A", 10, stream)
    begin = now()
    done(acl.rt.synchronize_stream(stream))
    assert (now() - begin, op.done) == (300, False)
    done(acl.rt.destroy_stream(stream))


def test_a_full_persistent_stream_takes_no_more_work(acl):
    stream, n = made(acl.rt.create_stream_with_config(0, PERSISTENT)), 64
    device, pinned = made(acl.rt.malloc(n, 0)), made(acl.rt.malloc_host(n))
    rets = [acl.rt.memcpy_async(device, n, pinned, n, 1, stream) for _ in range(17)]  # 16 have room
    assert rets == [0] * 16 + [507002]


# --- synchronize_device


def test_synchronize_device_means_all_streams_of_the_current_context(acl):
    first = made(acl.rt.get_context())
    (mine,) = streams(acl, 1)
    ops = [work("explicit", 10, mine), work("default", 20, 0)]
    second = made(acl.rt.create_context(0))
    other = work("other", 1_000, made(acl.rt.create_stream()))
    done(acl.rt.set_context(first), acl.rt.synchronize_device())
    assert ([op.done for op in ops], other.done) == ([True, True], False)
    done(acl.rt.set_context(second), acl.rt.synchronize_device())
    assert other.done


# --- time-outs


def with_timeout(acl, what):
    """synchronize_*_with_timeout(ms) of what never ends, and of nothing."""
    stream, event = made(acl.rt.create_stream()), made(acl.rt.create_event())
    op = work("long", 10_000_000, stream)
    done(acl.rt.record_event(event, stream))
    if what == "stream":
        return lambda ms: acl.rt.synchronize_stream_with_timeout(stream, ms), op
    if what == "event":
        return lambda ms: acl.rt.synchronize_event_with_timeout(event, ms), op
    return acl.rt.synchronize_device_with_timeout, op


@pytest.mark.parametrize(("what", "code"), [("stream", 507046), ("device", 507046), ("event", 507047)])
def test_time_outs_of_synchronisations(acl, what, code):
    wait, op = with_timeout(acl, what)
    begin = now()
    assert wait(5) == code
    assert now() - begin == pytest.approx(5_000_000, abs=10_000)
    assert op.done is False  # the work is not cancelled
    for ms in (0, -2, -100):
        assert wait(ms) == 107000
    done(wait(-1))
    assert op.done


# --- flags and priorities


@pytest.mark.parametrize("flag", [0, 1, 2, 3])
def test_flags_that_matter_for_performance_only(acl, flag):
    stream = made(acl.rt.create_stream_with_config(0, flag))
    begin = now()
    op = work("A", 10, stream)
    done(acl.rt.synchronize_stream(stream))
    assert times(begin, op) == [("A", 1_000, 11_000)]


def test_the_range_of_priorities_is_that_of_the_rules(acl):
    begin = now()
    assert acl.rt.device_get_stream_priority_range() == (7, 0, 0)
    assert now() - begin == 1_000  # a call as any other
    for priority in (0, 3, 7, 99):  # clamped
        made(acl.rt.create_stream_with_config(priority, 0))


def test_the_range_of_priorities_under_the_rules_of_another_vendor():
    with module(rules="cuda") as acl:
        assert acl.rt.device_get_stream_priority_range() == (0, -5, 0)


# --- limits


@pytest.mark.parametrize(("card", "stream_limit", "event_limit"), [
    ("ascend910b3", 1984, 65536), ("ascend910c", 1984, 65536), ("ascend310p3", 1024, 1023),
])  # fmt: skip
def test_limits_of_the_cards(card, stream_limit, event_limit):
    with module(card) as acl:
        assert acl.rt.get_stream_available_num() == (stream_limit - 1, 0)  # less the default stream
        assert acl.rt.get_event_avail_num() == (event_limit, 0)


def test_no_stream_left():
    with module(limits={"streams": 4}) as acl:
        handles = list(streams(acl, 3))
        assert acl.rt.get_stream_available_num() == (0, 0)
        assert acl.rt.create_stream() == (0, 207008)
        assert acl.rt.create_stream_with_config(0, 0) == (0, 207008)
        done(acl.rt.destroy_stream(handles[0]))
        made(acl.rt.create_stream())


@pytest.mark.slow
def test_no_stream_left_on_a_real_card():
    with module("ascend310p3") as acl:
        handles = list(streams(acl, 1023))
        assert acl.rt.create_stream() == (0, 207008)
        done(*map(acl.rt.destroy_stream, handles))


def test_no_event_left():
    with module(limits={"events": 2}) as acl:
        events = [made(acl.rt.create_event_with_flag(1)) for _ in range(2)]
        assert acl.rt.create_event_with_flag(1) == (0, 207007)
        done(acl.rt.destroy_event(events[0]))
        made(acl.rt.create_event_with_flag(1))


def test_no_notify_left():
    with module(limits={"notifies": 2}) as acl:
        notifies = [made(acl.rt.create_notify(0)) for _ in range(2)]
        assert acl.rt.create_notify(0) == (0, 207009)
        done(acl.rt.destroy_notify(notifies[0]))
        made(acl.rt.create_notify(0))


def test_a_full_stream_blocks_the_host(acl):
    stream, n = made(acl.rt.create_stream()), 64
    device, pinned = made(acl.rt.malloc(n, 0)), made(acl.rt.malloc_host(n))
    begin = now()
    work("long", 1_000, stream)
    done(*(acl.rt.memcpy_async(device, n, pinned, n, 1, stream) for _ in range(16)))
    assert now() - begin < 100_000
    done(acl.rt.memcpy_async(device, n, pinned, n, 1, stream))
    assert now() - begin > 1_000_000


@pytest.mark.parametrize("class_", ["create_event", "create_event_ex_with_flag"])
def test_a_record_blocks_while_no_event_id_is_free(class_):
    with module(limits={"events": 2}) as acl:
        stream = made(acl.rt.create_stream())
        flags = () if class_ == "create_event" else (1,)
        events = [made(getattr(acl.rt, class_)(*flags)) for _ in range(3)]  # making them takes no id
        begin = now()
        for event in events[:2]:
            work("A", 10, stream)
            done(acl.rt.record_event(event, stream))
        assert now() - begin == 4_000
        done(acl.rt.record_event(events[2], stream))
        assert now() - begin == 12_000  # the first kernel is over, and so the first record


# --- contexts and devices


def test_a_stream_used_while_another_context_is_current(acl):
    (stream,) = streams(acl, 1)
    event, first = made(acl.rt.create_event()), made(acl.rt.get_context())
    made(acl.rt.create_context(0))
    n = 64
    device, pinned = made(acl.rt.malloc(n, 0)), made(acl.rt.malloc_host(n))
    assert acl.rt.record_event(event, stream) == 107003
    assert acl.rt.stream_wait_event(stream, event) == 107003
    assert acl.rt.synchronize_stream(stream) == 107003
    assert acl.rt.stream_query(stream)[1] == 107003
    assert acl.rt.memcpy_async(device, n, pinned, n, 1, stream) == 107003
    assert acl.rt.memset_async(device, n, 0, n, stream) == 107003
    done(acl.rt.set_context(first), acl.rt.synchronize_stream(stream))


def test_set_context_to_one_of_another_device_switches_the_device(acl):
    first = made(acl.rt.get_context())
    done(acl.rt.set_device(1))
    assert acl.rt.get_device() == (1, 0)
    done(acl.rt.set_context(first))
    assert acl.rt.get_device() == (0, 0)


def test_create_context_makes_it_current_and_destroying_it_leaves_none(acl):
    context = made(acl.rt.create_context(1))
    assert (acl.rt.get_context(), acl.rt.get_device()) == ((context, 0), (1, 0))
    done(acl.rt.destroy_context(context))
    assert acl.rt.get_context() == (0, 107002)
    assert acl.rt.create_stream() == (0, 107002)
    assert acl.rt.set_context(context) == 107017
    done(acl.rt.set_device(0))
    made(acl.rt.create_stream())


def test_each_context_has_its_own_default_stream(acl):
    first, one = made(acl.rt.get_context()), made(acl.rt.ctx_get_current_default_stream())
    made(acl.rt.create_context(0))
    long = work("long", 100, 0)
    assert made(acl.rt.ctx_get_current_default_stream()) != one
    done(acl.rt.set_context(first), acl.rt.synchronize_stream(0))
    assert not long.done


def test_set_device_is_counted_and_the_last_reset_waits_and_ends_its_streams(acl):
    done(acl.rt.set_device(0))  # the second time
    (stream,) = streams(acl, 1)
    op = work("long", 100, 0)
    done(acl.rt.reset_device(0))
    assert not op.done
    done(acl.rt.synchronize_stream(stream), acl.rt.reset_device(0))
    assert (op.done, op.error) == (True, None)
    assert acl.rt.get_device() == (0, 107002)
    assert acl.rt.reset_device(0) != 0  # nothing left to take back
    done(acl.rt.set_device(0))
    assert acl.rt.synchronize_stream(stream) == 107017  # it went with its context


def test_reset_device_force_ignores_the_count_and_reset_device_after_it_errors(acl):
    done(acl.rt.set_device(0), acl.rt.set_device(0), acl.rt.reset_device_force(0))
    assert acl.rt.get_device() == (0, 107002)
    assert acl.rt.reset_device(0) != 0
    done(acl.rt.set_device(0))


def test_init_and_finalize_count_once(acl):
    assert (acl.init(), acl.init("acl.json")) == (100002, 100002)
    done(acl.finalize())
    assert acl.finalize() == 100037
    done(acl.init())
