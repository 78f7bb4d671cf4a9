"""What the compiled core does in place of a constructor or of Python's slices gives the same."""

import pytest

from acl_py.verbs import hot
from device_model.completions import Completion, Why
from device_model.memory.allocation import AllocationCore
from device_model.ops import Op
from device_model.work import H2D, Copy

FIELDS = (*(name for name in Op.__slots__), "done", "end_ns", "waiters")


def fields(op):
    """All fields of an operation that are set; on the compiled core those that are not set are None or 0."""
    return {name: getattr(op, name) for name in FIELDS if getattr(op, name, None) is not None}


@pytest.mark.skipif(not hasattr(hot, "new_op"), reason="the compiled core shows no function that only it calls")
def test_an_operation_made_by_the_hot_path_has_the_fields_of_one_that_is_constructed():
    work = Copy(H2D, None, 0, None, 0, 7)
    made, constructed = hot.new_op(work, 1, 7, "a.py:1", 5), Op(work, 1, 7, "a.py:1", 5)
    assert fields(made) == fields(constructed)
    assert (made.why, made.row, made.done) == (Why.HOST, -1, False)
    assert isinstance(made, Completion)


def copied(into, start, out_of, offset, nbytes):
    """Let the device copy bytes between two warm allocations with these views."""
    target, source = AllocationCore(), AllocationCore()
    target.cold = source.cold = None
    target.view, source.view = into, out_of
    Copy(H2D, target, start, source, offset, nbytes).perform()


def test_a_copy_moves_bytes_between_views_and_within_one_as_if_through_a_buffer():
    row = bytearray(range(8))
    view = memoryview(row)
    copied(view, 2, view, 0, 4)
    assert list(row) == [0, 1, 0, 1, 2, 3, 6, 7]
    target = bytearray(8)
    copied(memoryview(target)[4:], 1, view, 6, 2)
    assert list(target) == [0, 0, 0, 0, 0, 6, 7, 0]


@pytest.mark.parametrize(
    ("into", "start", "error"),
    [
        (memoryview(b"read-only"), 0, TypeError),
        (memoryview(bytearray(4)), 2, ValueError),
        (memoryview(bytearray(4)).cast("i"), 0, ValueError),
        (memoryview(bytearray(8))[::2], 2, ValueError),
    ],
    ids=["read-only", "too short", "not bytes", "not in a row"],
)
def test_a_copy_into_a_view_that_cannot_take_it_fails_as_python_does(into, start, error):
    with pytest.raises(error):
        copied(into, start, memoryview(bytearray(4)), 0, 4)


def test_a_copy_into_a_view_with_gaps_leaves_the_gaps():
    row = bytearray(8)
    copied(memoryview(row)[::2], 1, memoryview(b"\x01\x02\x03"), 1, 2)
    assert list(row) == [0, 0, 2, 0, 3, 0, 0, 0]


def test_a_copy_into_a_view_that_was_released_fails():
    view = memoryview(bytearray(4))
    view.release()
    with pytest.raises(ValueError, match="released"):
        copied(view, 0, memoryview(bytearray(4)), 0, 4)
