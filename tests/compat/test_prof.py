"""acl.prof: stamps make the rows of a trace that `acl_py.mark` and `acl_py.annotate` make."""

import pytest
from card import done, launch, made, now
from script_threads import in_thread

import acl_py
from acl_py.compat.acl.face.session import session
from acl_py.compat.acl.report import leaks


@pytest.fixture
def marks(acl):
    """The rows: name, begin and end after the beginning of the test, and caller; all of them have a line here."""
    begin = now()

    def rows():
        marks = session().trace.marks
        assert all(mark.site.startswith("test_prof.py:") for mark in marks)
        return [(mark.name, mark.begin_ns - begin, mark.end_ns - begin, mark.caller) for mark in marks]

    return rows


def stamp(acl, message):
    """A stamp with a message."""
    handle = acl.prof.create_stamp()
    done(acl.prof.set_stamp_trace_message(handle, message, len(message.encode())))
    return handle


def work(acl):
    """A call of 1000 ns."""
    made(acl.rt.create_stream())


def test_a_mark_is_an_instant(acl, marks):
    begin = stamp(acl, "begin")
    work(acl)
    done(acl.prof.mark(begin), acl.prof.mark(begin))
    assert marks() == [("begin", 1000, 1000, "the program")] * 2


def test_pushed_stamps_lie_in_one_another(acl, marks):
    outer, inner = stamp(acl, "outer"), stamp(acl, "inner")
    done(acl.prof.push(outer))
    work(acl)
    done(acl.prof.push(inner))
    work(acl)
    done(acl.prof.pop())
    work(acl)
    done(acl.prof.pop(outer))  # scripts give it the stamp, and functions without parameters ignore it
    assert marks() == [("inner", 1000, 2000, "the program"), ("outer", 0, 3000, "the program")]
    assert acl.prof.pop() == 500005
    assert "this thread has pushed no stamp" in acl.get_recent_err_msg()


def test_the_stamps_that_a_thread_pushes_are_its_own(acl, marks):
    done(acl.prof.push(stamp(acl, "main")))
    assert in_thread(acl.prof.pop) == 500005
    done(acl.prof.pop())
    assert marks() == [("main", 0, 0, "the program")]


def test_a_range_may_end_in_another_thread_and_overlap_others(acl, marks):
    first, second = stamp(acl, "first"), stamp(acl, "second")
    one = made(acl.prof.range_start(first))
    work(acl)
    two = made(acl.prof.range_start(second))
    work(acl)
    done(acl.prof.range_stop(one))
    work(acl)
    done(in_thread(acl.prof.range_stop, two))
    (ended, *where), (other, *there) = marks()
    assert (ended, where[:2], other, there[:2]) == ("first", [0, 2000], "second", [1000, 3000])
    assert where[2] != there[2]
    assert acl.prof.range_stop(one) == 500005
    assert "no range" in acl.get_recent_err_msg()


def test_the_rows_are_those_of_the_native_calls(acl, marks):
    done(acl.prof.push(stamp(acl, "part")))
    with acl_py.annotate("part"):
        work(acl)
    done(acl.prof.pop())
    ours, native = marks()
    assert ours == native == ("part", 0, 1000, "the program")


@pytest.mark.parametrize(
    ("message", "length", "name"),
    [
        ("QKV", 3, "QKV"), ("QKV", 2, "QK"), ("QKV", 100, "QKV"), ("QKV", 0, "stamp"), ("ü", 2, "ü"),
        ("a\tb", 3, "a\\tb"), ("x" * 127, 127, "x" * 127),
    ],
)  # fmt: skip
def test_the_name_is_the_message_as_far_as_its_length_says(acl, marks, message, length, name):
    handle = acl.prof.create_stamp()
    done(acl.prof.set_stamp_trace_message(handle, message, length), acl.prof.mark(handle))
    assert [row[0] for row in marks()] == [name]


def test_a_message_that_is_too_long_is_refused_and_the_old_one_stays(acl, marks):
    handle = stamp(acl, "old")
    assert acl.prof.set_stamp_trace_message(handle, "x" * 128, 128) == 500005
    assert "the message has 128 bytes, and a stamp holds 127" in acl.get_recent_err_msg()
    done(acl.prof.mark(handle))
    assert [row[0] for row in marks()] == ["old"]


def test_a_stamp_without_a_message_has_a_name_all_the_same(acl, marks):
    done(acl.prof.mark(acl.prof.create_stamp()))
    assert [row[0] for row in marks()] == ["stamp"]


def test_what_is_no_stamp_is_refused(acl, marks):
    stream = made(acl.rt.create_stream())
    gone = acl.prof.create_stamp()
    assert acl.prof.destroy_stamp(gone) is None
    for handle in (0, stream, gone):
        answers = [acl.prof.mark(handle), acl.prof.push(handle), acl.prof.set_stamp_trace_message(handle, "x", 1)]
        assert answers == [500005] * 3
        assert acl.prof.range_start(handle) == (0, 500005)
        assert acl.prof.destroy_stamp(handle) is None
    assert acl.prof.range_stop(stream) == acl.prof.range_stop(0) == 500005
    done(acl.rt.synchronize_stream(stream))
    assert marks() == []


def test_a_stamp_that_was_never_destroyed_is_a_leak(acl):
    acl.prof.create_stamp()
    assert leaks(session()) == ["1 stamp never destroyed"]


def test_an_operator_must_not_mark(acl, marks):
    """It runs in the middle of a call, perhaps in a worker thread: the order of the rows would be up to the system."""
    handle, answers = stamp(acl, "inside"), []

    @acl_py.kernel(cost=acl_py.Cost(us=1))
    def kernel():
        answers.extend((acl.prof.mark(handle), acl.prof.push(handle), acl.prof.range_start(handle), acl.prof.pop()))

    launch(kernel)
    done(acl.rt.synchronize_device())
    assert (answers, marks()) == ([207006, 207006, (0, 207006), 207006], [])


async def test_inside_a_simulation_of_the_native_api_the_rows_are_its_own(acl):
    async with acl_py.simulate(device="tiny", rules="acl") as sim:
        handle = stamp(acl, "inside")
        done(acl.prof.push(handle))
        await acl_py.CreateStream()
        done(acl.prof.pop())
    assert [mark[:3] for mark in sim.trace.marks] == [("inside", 0, 1000)]
