"""Operations: which bytes they touch, and what they do to them."""

import numpy as np
import pytest
from rig import whole

from device_model.memory import POISON, array
from device_model.work import D2D, H2D, Copy, Fill, HostFunction, Kernel, Label, Lane, PitchedCopy


def bytes_of(allocation):
    return array(allocation, 0, np.uint8, allocation.nbytes)


def test_each_kind_of_work_has_its_lane():
    assert [label.lane for label in (H2D, D2D, Fill.label)] == [Lane.H2D, Lane.COMPUTE, Lane.COMPUTE]
    assert HostFunction(print, (), 0).label.lane is Lane.HOST
    assert (repr(Label("kernel", Lane.COMPUTE, "scale")), repr(H2D)) == ("scale", "h2d")


def test_a_copy_reads_its_source_and_writes_its_destination(rig):
    dst, src = rig.on_device(100), rig.pinned(100)
    copy = Copy(H2D, dst, 10, src, 20, 30)
    assert (copy.reads(), copy.writes()) == (((src, 20, 50),), ((dst, 10, 40),))


def test_a_copy_of_rows_touches_everything_from_its_first_byte_to_its_last(rig):
    dst, src = rig.on_device(100), rig.on_device(100)
    copy = PitchedCopy(D2D, dst, 1, 10, src, 2, 20, width=3, height=4)
    assert (copy.reads(), copy.writes()) == (((src, 2, 2 + 63),), ((dst, 1, 1 + 33),))
    assert copy.read_rows() == tuple((src, start, start + 3) for start in (2, 22, 42, 62))
    assert copy.written_rows() == tuple((dst, start, start + 3) for start in (1, 11, 21, 31))
    bytes_of(src)[:] = np.arange(100)
    bytes_of(dst)[:] = 255
    rig.submit(rig.stream(), copy)
    assert rig.run() == [("d2d", 1, 0, 12)]
    expected = np.full(100, 255, np.uint8)
    for row in range(4):
        expected[1 + 10 * row : 4 + 10 * row] = np.arange(3) + 2 + 20 * row
    assert (bytes_of(dst) == expected).all()


def test_the_parts_of_a_copy_have_its_bytes_in_order(rig):
    dst, src = rig.on_device(300), rig.pinned(300)
    parts = [*Copy(H2D, dst, 48, src, 96, 160).parts(64)]
    assert [part.reads() for part in parts] == [((src, 96, 160),), ((src, 160, 224),), ((src, 224, 256),)]
    assert [part.writes() for part in parts] == [((dst, 48, 112),), ((dst, 112, 176),), ((dst, 176, 208),)]


def test_the_parts_of_rows_are_whole_rows(rig):
    dst, src = rig.on_device(200), rig.pinned(200)
    parts = [*PitchedCopy(H2D, dst, 1, 10, src, 2, 20, 3, 5).parts(8)]  # two rows of 3 bytes fit
    assert [part.nbytes for part in parts] == [6, 6, 3]
    assert [row for part in parts for row in part.read_rows()] == [
        (src, 2 + 20 * row, 5 + 20 * row) for row in range(5)
    ]
    assert [row for part in parts for row in part.written_rows()] == [
        (dst, 1 + 10 * row, 4 + 10 * row) for row in range(5)
    ]


def test_rows_that_are_longer_than_a_part_come_in_pieces(rig):
    dst, src = rig.on_device(200), rig.pinned(200)
    parts = [*PitchedCopy(H2D, dst, 0, 50, src, 0, 60, 20, 2).parts(8)]
    assert [part.reads() for part in parts] == [
        ((src, start, stop),) for start, stop in [(0, 8), (8, 16), (16, 20), (60, 68), (68, 76), (76, 80)]
    ]
    assert parts[-1].writes() == ((dst, 66, 70),)


def test_a_fill_writes_and_reads_nothing(rig):
    dst = rig.on_device(100)
    fill = Fill(dst, 10, 7, 20)
    assert (fill.reads(), fill.writes(), fill.pinned) == ((), ((dst, 10, 30),), False)
    rig.submit(rig.stream(), fill)
    rig.run()
    assert bytes(dst.view) == POISON * 5 + b"\7" * 20 + POISON * 35


def test_a_kernel_touches_what_it_declares(rig):
    one, two = rig.on_device(100), rig.on_device(100)
    label = Label("kernel", Lane.COMPUTE)
    read, written = [whole(one), whole(two)], [whole(one)]
    kernel = Kernel(label, 1, 10, lambda: None, read, written, 300, exclusive=False, serial=False)
    assert (kernel.reads(), kernel.writes(), kernel.touched) == (read, written, (one, two))
    with pytest.raises(AssertionError, match="kernel kernel has no blocks"):
        Kernel(label, 0, 10, lambda: None, (), (), 0, exclusive=True, serial=False)


def test_bytes_move_at_the_end(rig):
    dst, src = rig.on_device(100), rig.pinned(100)
    bytes_of(src)[:] = 1
    rig.h2d(rig.stream(), 100, dst=dst, src=src)
    rig.advance(99)
    bytes_of(src)[:50] = 2  # the copy is running
    assert bytes(dst.view) == POISON * 50
    rig.advance(100)
    assert bytes(dst.view) == b"\2" * 50 + b"\1" * 50
