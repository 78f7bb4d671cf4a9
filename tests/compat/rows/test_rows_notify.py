"""Notifies through the module: binary semaphores, one record for one wait."""

import pytest
from card import done, each, made, now, times, work

from acl_py import DeadlockError


@pytest.fixture
def notify(acl):
    return made(acl.rt.create_notify(0))


def streams(acl, count):
    return each(*(acl.rt.create_stream() for _ in range(count)))


def test_the_vendors_example_issues_the_wait_before_the_record(acl, notify):
    a, b = streams(acl, 2)
    begin = now()
    done(acl.rt.wait_and_reset_notify(notify, b, 0))
    later, first = work("later", 10, b), work("first", 10, a)
    done(acl.rt.record_notify(notify, a), acl.rt.synchronize_device())
    assert times(begin, first, later) == [("first", 3_000, 13_000), ("later", 13_000, 23_000)]


def test_a_wait_clears_so_one_record_lets_one_wait_pass(acl, notify):
    a, b, c = streams(acl, 3)
    done(acl.rt.record_notify(notify, a))
    done(acl.rt.wait_and_reset_notify(notify, b, 0), acl.rt.synchronize_stream(b))
    done(acl.rt.wait_and_reset_notify(notify, c, 0))
    with pytest.raises(DeadlockError):
        acl.rt.synchronize_stream(c)
    done(acl.rt.record_notify(notify, a), acl.rt.synchronize_stream(c))


def test_two_records_before_a_wait_collapse_into_one(acl, notify):
    a, b = streams(acl, 2)
    done(acl.rt.record_notify(notify, a), acl.rt.record_notify(notify, a))
    done(acl.rt.wait_and_reset_notify(notify, b, 0), acl.rt.synchronize_stream(b))
    done(acl.rt.wait_and_reset_notify(notify, b, 0))
    with pytest.raises(DeadlockError):
        acl.rt.synchronize_stream(b)


def test_it_works_across_devices(acl, notify):
    (mine,) = streams(acl, 1)
    begin = now()
    first = work("first", 10, mine)
    done(acl.rt.record_notify(notify, mine), acl.rt.set_device(1))
    (theirs,) = streams(acl, 1)
    done(acl.rt.wait_and_reset_notify(notify, theirs, 0))
    second = work("second", 10, theirs)
    done(acl.rt.synchronize_stream(theirs))
    assert times(begin, first, second) == [("first", 1_000, 11_000), ("second", 11_000, 21_000)]


def test_a_timed_out_wait_surfaces_at_the_next_sync(acl, notify):
    (stream,) = streams(acl, 1)
    begin = now()
    done(acl.rt.wait_and_reset_notify(notify, stream, 3))
    assert acl.rt.synchronize_stream(stream) == 107020
    assert now() - begin == pytest.approx(3e9, abs=20_000)
    done(acl.rt.synchronize_stream(stream))


@pytest.mark.parametrize("timeout", [-1, 1 << 32, 1 << 40])
def test_a_time_out_out_of_range_is_a_type_error(acl, notify, timeout):
    with pytest.raises(TypeError):
        acl.rt.wait_and_reset_notify(notify, 0, timeout)


def test_a_wait_without_a_limit_is_for_ever(acl, notify):
    (stream,) = streams(acl, 1)
    done(acl.rt.wait_and_reset_notify(notify, stream, 0))
    with pytest.raises(DeadlockError, match="notify"):
        acl.rt.synchronize_stream(stream)


def test_notify_batch_reset_clears_several(acl, notify):
    other, (stream,) = made(acl.rt.create_notify(0)), streams(acl, 1)
    done(acl.rt.record_notify(notify, stream), acl.rt.record_notify(other, stream))
    done(acl.rt.synchronize_stream(stream), acl.rt.notify_batch_reset([notify, other]))
    done(acl.rt.wait_and_reset_notify(notify, stream, 0))
    with pytest.raises(DeadlockError):
        acl.rt.synchronize_stream(stream)


def test_ids_and_destruction(acl, notify):
    other = made(acl.rt.create_notify())
    ids = list(each(acl.rt.get_notify_id(notify), acl.rt.get_notify_id(other)))
    assert len(set(ids)) == 2
    done(acl.rt.destroy_notify(notify))
    for name, args in (("record_notify", (0,)), ("wait_and_reset_notify", (0, 1)), ("destroy_notify", ())):
        assert getattr(acl.rt, name)(notify, *args) == 107017
    assert acl.rt.get_notify_id(notify) == (0, 107017)
