"""The table of the three event classes, a test for each row, and what else is said about events.

A is what create_event makes, B what create_event_with_flag makes, C what create_event_ex_with_flag makes.
"""

import pytest
from card import SYNC, TIME_LINE, broken, done, each, launch, made, module, now, times, work

from acl_py import DeadlockError

ABC = pytest.mark.parametrize("class_", "ABC")


def create(acl, class_, flag=SYNC | TIME_LINE):
    if class_ == "A":
        return made(acl.rt.create_event())
    return made((acl.rt.create_event_with_flag if class_ == "B" else acl.rt.create_event_ex_with_flag)(flag))


def streams(acl, count):
    return each(*(acl.rt.create_stream() for _ in range(count)))


# --- the table, row by row


@pytest.mark.parametrize(("class_", "left"), [("A", [3, 3, 2, 3]), ("B", [3, 2, 2, 2]), ("C", [3, 3, 2, 3])])
def test_row_mechanism(class_, left):
    """When the hardware id is taken: A and C at the record, until it is over; B as long as the event lives."""
    with module(limits={"events": 3}) as acl:
        stream = made(acl.rt.create_stream())
        work("long", 100, stream)
        counts = [made(acl.rt.get_event_avail_num())]
        event = create(acl, class_)
        counts.append(made(acl.rt.get_event_avail_num()))
        done(acl.rt.record_event(event, stream))
        counts.append(made(acl.rt.get_event_avail_num()))
        done(acl.rt.synchronize_stream(stream))
        counts.append(made(acl.rt.get_event_avail_num()))
        assert counts == left
        done(acl.rt.destroy_event(event))
        assert acl.rt.get_event_avail_num() == (3, 0)


def test_row_wait_before_any_record_class_a_is_an_error(acl):
    stream, event = made(acl.rt.create_stream()), create(acl, "A")
    assert acl.rt.stream_wait_event(stream, event) == 107000
    assert "record it first" in acl.get_recent_err_msg()
    done(acl.rt.synchronize_stream(stream))


def test_row_wait_before_any_record_class_b_waits_for_a_future_record(acl):
    (a, b), event = streams(acl, 2), create(acl, "B")
    begin = now()
    done(acl.rt.stream_wait_event(b, event))
    later, first = work("later", 10, b), work("first", 10, a)
    done(acl.rt.record_event(event, a), acl.rt.synchronize_device())
    assert times(begin, first, later) == [("first", 3_000, 13_000), ("later", 13_000, 23_000)]


def test_row_wait_before_any_record_class_b_is_a_deadlock_if_there_is_none(acl):
    stream, event = made(acl.rt.create_stream()), create(acl, "B")
    done(acl.rt.stream_wait_event(stream, event))
    work("never", 10, stream)
    with pytest.raises(DeadlockError, match="never"):
        acl.rt.synchronize_stream(stream)


def test_row_wait_before_any_record_class_c_has_no_effect(acl):
    stream, event = made(acl.rt.create_stream()), create(acl, "C")
    begin = now()
    done(acl.rt.stream_wait_event(stream, event))
    op = work("at once", 10, stream)
    done(acl.rt.synchronize_stream(stream))
    assert times(begin, op) == [("at once", 2_000, 12_000)]


@ABC
def test_row_wait_after_record_complete(acl, class_):
    (a, b), event = streams(acl, 2), create(acl, class_)
    done(acl.rt.record_event(event, a), acl.rt.synchronize_stream(a))
    begin = now()
    done(acl.rt.stream_wait_event(b, event))
    op = work("at once", 10, b)
    done(acl.rt.synchronize_stream(b))
    assert times(begin, op) == [("at once", 2_000, 12_000)]


def test_row_wait_after_record_complete_class_b_until_the_reset(acl):
    (a, b), event = streams(acl, 2), create(acl, "B")
    done(acl.rt.record_event(event, a), acl.rt.reset_event(event, a), acl.rt.stream_wait_event(b, event))
    work("never", 10, b)
    done(acl.rt.synchronize_stream(a))
    with pytest.raises(DeadlockError):
        acl.rt.synchronize_stream(b)


@ABC
def test_row_wait_on_the_stream_that_recorded_it(acl, class_):
    stream, event = made(acl.rt.create_stream()), create(acl, class_)
    begin = now()
    first = work("first", 10, stream)
    done(acl.rt.record_event(event, stream), acl.rt.stream_wait_event(stream, event))
    second = work("second", 10, stream)
    done(acl.rt.synchronize_stream(stream))
    assert times(begin, first, second) == [("first", 1_000, 11_000), ("second", 11_000, 21_000)]


@pytest.mark.parametrize("class_", "AC")
def test_row_record_again_overwrites_and_earlier_waits_keep_theirs(acl, class_):
    (a, b, c), event = streams(acl, 3), create(acl, class_)
    begin = now()
    ops = [work("first", 10, a)]
    done(acl.rt.record_event(event, a), acl.rt.stream_wait_event(b, event))
    ops.append(work("second", 10, a))
    done(acl.rt.record_event(event, a), acl.rt.stream_wait_event(c, event))
    ops += [work("behind first", 10, b), work("behind second", 10, c)]
    done(acl.rt.synchronize_device())
    assert times(begin, *ops) == [
        ("first", 1_000, 11_000),
        ("behind first", 11_000, 21_000),
        ("second", 11_000, 21_000),
        ("behind second", 21_000, 31_000),
    ]


def test_row_record_again_class_b_without_reset_a_wait_passes_on_the_stale_set(acl):
    (a, b), event = streams(acl, 2), create(acl, "B")
    done(acl.rt.record_event(event, a), acl.rt.synchronize_stream(a))
    begin = now()
    slow = work("slow", 10, a)
    done(acl.rt.record_event(event, a), acl.rt.stream_wait_event(b, event))
    early = work("too early", 10, b)
    done(acl.rt.synchronize_device())
    assert times(begin, slow, early) == [("slow", 1_000, 11_000), ("too early", 4_000, 14_000)]


def test_row_reset_event_class_a_is_accepted_as_the_vendors_example_expects(acl):
    (a, b), event = streams(acl, 2), create(acl, "A")
    done(acl.rt.record_event(event, a), acl.rt.stream_wait_event(b, event), acl.rt.reset_event(event, b))
    done(acl.rt.synchronize_stream(b), acl.rt.destroy_event(event))


def test_row_reset_event_class_b_behind_the_wait_makes_it_good_for_another_round(acl):
    (a, b), event = streams(acl, 2), create(acl, "B")
    begin, ops = now(), []
    for _ in range(2):
        ops.append(work("write", 10, a))
        done(acl.rt.record_event(event, a), acl.rt.stream_wait_event(b, event), acl.rt.reset_event(event, b))
        ops.append(work("read", 10, b))
    done(acl.rt.synchronize_device())
    assert times(begin, *ops) == [
        ("write", 1_000, 11_000), ("read", 11_000, 21_000), ("write", 11_000, 21_000), ("read", 21_000, 31_000),
    ]  # fmt: skip


def test_row_reset_event_class_b_too_early_with_two_waiters_makes_the_other_wait_for_ever(acl):
    (a, b, c), event = streams(acl, 3), create(acl, "B")
    done(acl.rt.record_event(event, a), acl.rt.stream_wait_event(b, event), acl.rt.reset_event(event, b))
    done(acl.rt.stream_wait_event(c, event), acl.rt.synchronize_stream(b))
    with pytest.raises(DeadlockError):
        acl.rt.synchronize_stream(c)


def test_row_reset_event_class_c_is_not_supported(acl):
    stream, event = made(acl.rt.create_stream()), create(acl, "C")
    done(acl.rt.record_event(event, stream))
    assert acl.rt.reset_event(event, stream) == 207000


@ABC
def test_row_query_event(acl, class_):
    stream, event = made(acl.rt.create_stream()), create(acl, class_)
    if class_ == "C":
        assert acl.rt.query_event(event) == (0, 207000)
        return
    assert acl.rt.query_event(event) == (0, 0)  # never recorded: complete
    work("long", 100, stream)
    done(acl.rt.record_event(event, stream))
    assert acl.rt.query_event(event) == (1, 0)
    done(acl.rt.synchronize_stream(stream))
    assert acl.rt.query_event(event) == (0, 0)


@ABC
def test_row_query_event_wait_status(acl, class_):
    (a, b), event = streams(acl, 2), create(acl, class_)
    if class_ == "C":
        assert acl.rt.query_event_wait_status(event) == (0, 207000)
        return
    assert acl.rt.query_event_wait_status(event) == (0, 0)  # nobody waits
    work("long", 100, a)
    done(acl.rt.record_event(event, a), acl.rt.stream_wait_event(b, event))
    assert acl.rt.query_event_wait_status(event) == (1, 0)
    done(acl.rt.synchronize_stream(b))
    assert acl.rt.query_event_wait_status(event) == (0, 0)


@pytest.mark.parametrize(("class_", "status"), [("A", 0), ("B", 0), ("C", 1)])
def test_row_query_event_status_never_recorded(acl, class_, status):
    assert acl.rt.query_event_status(create(acl, class_)) == (status, 0)


@ABC
def test_row_on_a_model_bound_stream(acl, class_):
    stream = made(acl.rt.create_stream_with_config(0, 4))  # persistent
    event = create(acl, class_)
    rets = [acl.rt.record_event(event, stream), acl.rt.stream_wait_event(stream, event)]
    rets.append(acl.rt.reset_event(event, stream))
    assert rets == ([0, 0, 0] if class_ == "B" else [207000, 207000, 207000])


@ABC
def test_row_elapsed_time(acl, class_):
    stream, start, end = made(acl.rt.create_stream()), create(acl, class_), create(acl, class_)
    done(acl.rt.record_event(start, stream))
    work("long", 2_000, stream)
    done(acl.rt.record_event(end, stream), acl.rt.synchronize_stream(stream))
    elapsed = made(acl.rt.event_elapsed_time(start, end))
    assert (type(elapsed), elapsed) == (float, pytest.approx(2.001))
    assert made(acl.rt.event_elapsed_time(end, start)) == pytest.approx(-2.001)


@pytest.mark.parametrize("class_", "BC")
def test_row_elapsed_time_only_with_time_line(acl, class_):
    event = create(acl, class_, SYNC)
    done(acl.rt.record_event(event, 0), acl.rt.synchronize_event(event))
    assert acl.rt.event_elapsed_time(event, event) == (0.0, 107006)


# --- what else is said about events


@pytest.mark.parametrize("class_", "BC")
@pytest.mark.parametrize("flag", [TIME_LINE, 0x2, TIME_LINE | 0x2])
def test_a_flag_without_sync_can_be_neither_waited_for_nor_reset(acl, class_, flag):
    event = create(acl, class_, flag)
    done(acl.rt.record_event(event, 0))
    assert acl.rt.stream_wait_event(0, event) == 207000
    assert acl.rt.reset_event(event, 0) == 207000
    done(acl.rt.synchronize_event(event))


@pytest.mark.parametrize("maker", ["create_event_with_flag", "create_event_ex_with_flag"])
def test_device_use_only_is_no_flag_for_a_host(acl, maker):
    assert getattr(acl.rt, maker)(0x10) == (0, 107000)


def test_external_events_are_those_of_create_event_with_flag_and_the_flag_stands_alone(acl):
    assert [acl.rt.create_event_ex_with_flag(flag) for flag in (0x20, 0x21, 0x28)] == [(0, 107000)] * 3
    assert [acl.rt.create_event_with_flag(flag) for flag in (0x21, 0x28)] == [(0, 107000)] * 2


def test_an_external_event_can_be_neither_synchronised_with_nor_queried(acl):
    stream, event = made(acl.rt.create_stream()), create(acl, "B", 0x20)
    done(acl.rt.record_event(event, stream), acl.rt.stream_wait_event(stream, event))
    assert acl.rt.synchronize_event(event) == 207000
    assert acl.rt.query_event(event) == (0, 207000)
    assert acl.rt.query_event_status(event) == (0, 207000)
    done(acl.rt.synchronize_stream(stream))


@ABC
def test_a_record_captures_what_was_issued_at_the_time_of_the_call(acl, class_):
    (a, b), event = streams(acl, 2), create(acl, class_)
    begin = now()
    before = work("before", 10, a)
    done(acl.rt.record_event(event, a), acl.rt.stream_wait_event(b, event))
    after, waits = work("after", 100, a), work("waits", 10, b)
    done(acl.rt.synchronize_device())
    assert times(begin, before, after, waits) == [
        ("before", 1_000, 11_000), ("waits", 11_000, 21_000), ("after", 11_000, 111_000),
    ]  # fmt: skip


@ABC
def test_one_wait_stalls_all_later_work_of_its_stream_and_several_streams_may_wait(acl, class_):
    (a, b, c), event = streams(acl, 3), create(acl, class_)
    begin, ops = now(), [work("first", 10, a)]
    done(acl.rt.record_event(event, a))
    for stream in (b, c):
        done(acl.rt.stream_wait_event(stream, event))
        ops.append(work("second", 10, stream))
    ops.append(work("third", 10, b))
    done(acl.rt.synchronize_device())
    assert times(begin, *ops) == [
        ("first", 1_000, 11_000), ("second", 11_000, 21_000), ("second", 11_000, 21_000), ("third", 21_000, 31_000),
    ]  # fmt: skip


@ABC
def test_synchronize_event_never_recorded_returns_at_once(acl, class_):
    event, begin = create(acl, class_), now()
    done(acl.rt.synchronize_event(event), acl.rt.synchronize_event_with_timeout(event, 1))
    assert now() - begin == 600


@ABC
def test_synchronize_event_blocks_for_the_latest_record(acl, class_):
    stream, event = made(acl.rt.create_stream()), create(acl, class_)
    first = work("first", 10, stream)
    done(acl.rt.record_event(event, stream))
    second = work("second", 10, stream)
    done(acl.rt.record_event(event, stream))
    third = work("third", 10, stream)
    done(acl.rt.synchronize_event(event))
    assert (first.done, second.done, third.done) == (True, True, False)


@pytest.mark.parametrize("class_", "AC")
def test_an_event_remembers_its_context_and_tells_of_its_failure_first(acl, class_):
    event, stream = create(acl, class_), made(acl.rt.create_stream())
    done(acl.rt.set_stream_failure_mode(stream, 1), acl.rt.record_event(event, stream))
    launch(broken, stream)
    assert acl.rt.synchronize_stream(stream) == 507035
    made(acl.rt.create_context(0))
    assert acl.rt.synchronize_event(event) == 507035
    assert acl.rt.query_event_status(event) == (0, 507035)


@ABC
def test_elapsed_time_of_what_was_never_recorded_and_of_what_is_pending(acl, class_):
    event = create(acl, class_)
    assert acl.rt.event_elapsed_time(event, event) == (0.0, 507000)
    work("long", 100)
    done(acl.rt.record_event(event, 0))
    assert acl.rt.event_elapsed_time(event, event) == (0.0, 107006)


def test_the_documented_order_of_taking_times(acl):
    stream, start, end = made(acl.rt.create_stream()), create(acl, "A"), create(acl, "A")
    done(acl.rt.record_event(start, stream))
    work("some", 1_500, stream)
    done(acl.rt.record_event(end, stream), acl.rt.synchronize_stream(stream))
    assert made(acl.rt.event_elapsed_time(start, end)) == pytest.approx(1.501)
    stamps = list(each(acl.rt.event_get_timestamp(start), acl.rt.event_get_timestamp(end)))
    assert (stamps[1] - stamps[0], {type(stamp) for stamp in stamps}) == (1_501, {int})


@ABC
def test_destroying_an_event_before_its_record_is_over_does_not_wait(acl, class_):
    (a, b), event = streams(acl, 2), create(acl, class_)
    begin = now()
    first = work("first", 10, a)
    done(acl.rt.record_event(event, a), acl.rt.stream_wait_event(b, event), acl.rt.destroy_event(event))
    assert now() - begin == 4_000
    second = work("second", 10, b)
    done(acl.rt.synchronize_device())
    assert times(begin, first, second) == [("first", 1_000, 11_000), ("second", 11_000, 21_000)]


@ABC
def test_a_wait_across_devices(acl, class_):
    """An event of device 0, for which a stream of device 1 waits."""
    mine, event = made(acl.rt.create_stream()), create(acl, class_)
    begin = now()
    first = work("first", 10, mine)
    done(acl.rt.record_event(event, mine), acl.rt.set_device(1))
    theirs = made(acl.rt.create_stream())
    done(acl.rt.stream_wait_event(theirs, event))
    second = work("second", 10, theirs)
    done(acl.rt.synchronize_stream(theirs))
    assert times(begin, first, second) == [("first", 1_000, 11_000), ("second", 11_000, 21_000)]


def test_the_vendors_example_of_event_status_0_0_1(acl):
    """Asked before the record, while its stream works, and after the synchronisation."""
    stream, event = made(acl.rt.create_stream()), create(acl, "A")
    work("long", 1_000, stream)
    answers = [acl.rt.query_event_status(event)]
    done(acl.rt.record_event(event, stream))
    answers.append(acl.rt.query_event_status(event))
    done(acl.rt.synchronize_stream(stream))
    answers.append(acl.rt.query_event_status(event))
    assert answers == [(0, 0), (0, 0), (1, 0)]
