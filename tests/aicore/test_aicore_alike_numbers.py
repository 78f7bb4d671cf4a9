"""What a kernel can do with the number of its block, and what it may not touch: blocks that are run once for all have
the history of blocks that run one by one.
"""

from enum import Enum, IntEnum
from functools import wraps

import numpy as np
import pytest
from alike import TILE, check_same, numbers, ub
from cores import work

from device_model.aicore.alike.groups import own_range
from device_model.aicore.alike.plain import Judge
from device_model.aicore.core.blocks import ASCEND_IS_AIV, GetBlockIdx
from device_model.aicore.core.each import range_of_blocks
from device_model.aicore.core.names import HardEvent, Pipe
from device_model.aicore.core.tensors import GlobalTensor, float32, half
from device_model.aicore.flags.sync import SetFlag, WaitFlag
from device_model.aicore.moving.atomics import SetAtomicAdd, SetAtomicNone
from device_model.aicore.moving.copies import DataCopy, DataCopyExtParams, DataCopyPad, DataCopyPadExtParams
from device_model.aicore.vector.elementwise import Adds
from device_model.aicore.vector.fill import Duplicate
from device_model.kernel.findings import KernelError


def store(y, place=0):
    """The block's tile of y is that of UB."""
    for event in (HardEvent.V_MTE3, HardEvent.S_MTE3, HardEvent.MTE2_MTE3):
        SetFlag(event, 0)
        WaitFlag(event, 0)
    DataCopy(GlobalTensor(float32).SetGlobalBuffer(y)[GetBlockIdx() * TILE], ub(place), TILE)


def load(x, tile):
    DataCopy(ub(0), GlobalTensor(float32).SetGlobalBuffer(x)[tile * TILE :], TILE)


def asks_for_its_type(x, y):
    Duplicate(ub(0), 1.0 if isinstance(GetBlockIdx(), int) else 2.0, TILE)
    store(y)


def matches_its_type(x, y):
    match GetBlockIdx():
        case int():
            Duplicate(ub(0), 1.0, TILE)
        case _:
            Duplicate(ub(0), 2.0, TILE)
    store(y)


def has_bits(x, y):
    try:
        bits = GetBlockIdx().bit_length()
    except AttributeError:
        bits = 99
    Duplicate(ub(0), float(bits), TILE)
    store(y)


def wraps_around(x, y):
    """As a uint8, 250 + 6 is 0; the sum is a NumPy integer in each block."""
    number = np.uint8(250) + GetBlockIdx()
    load(x, number % 10 + 3 * isinstance(number, np.integer))
    store(y)


def turns_negative(x, y):
    """As an int8, 16 * 8 is -128."""
    load(x, GetBlockIdx() * np.int8(16) // 16 + 8)
    store(y)


def pads_with_its_number(x, y):
    params = DataCopyPadExtParams(is_pad=True, left_padding=0, right_padding=3, padding_value=GetBlockIdx())
    DataCopyPad(ub(0), GlobalTensor(float32).SetGlobalBuffer(x), DataCopyExtParams(1, 20, 0, 0), params)
    store(y)


def sets_its_number(x, y):
    Duplicate(ub(0), 1.0, TILE)
    SetFlag(HardEvent.V_S, 0)
    WaitFlag(HardEvent.V_S, 0)
    ub(0).SetValue(5, GetBlockIdx())
    store(y)


def adds_to_half_a_number(x, y):
    """Block 1 adds floats to bytes that begin within one, which is an error."""
    Duplicate(ub(0), 1.0, TILE)
    SetFlag(HardEvent.V_MTE3, 0)
    WaitFlag(HardEvent.V_MTE3, 0)
    SetAtomicAdd(float32)
    DataCopy(GlobalTensor(half).SetGlobalBuffer(y)[GetBlockIdx()], ub(0).ReinterpretCast(half), TILE)
    SetAtomicNone()


def moves_its_argument(x, y):
    """Each block begins a tile behind the one before: what one leaves, the next one finds."""
    load(x, 0)
    x.address += 4 * TILE
    x.nbytes -= 4 * TILE
    store(y)


@pytest.mark.parametrize(
    "kernel",
    [
        asks_for_its_type, matches_its_type, has_bits, wraps_around, turns_negative, pads_with_its_number,
        sets_its_number, adds_to_half_a_number, moves_its_argument,
    ],
)  # fmt: skip
def test_a_kernel_has_the_history_of_its_blocks(kernel):
    check_same(kernel, numbers(2), blocks=12)


def test_a_number_that_a_numpy_integer_made_still_stands_for_all_blocks():
    assert check_same(wraps_around, numbers(2), blocks=8) <= 2 < check_same(has_bits, numbers(2), blocks=8)


def refuse_large(found):
    if found.max() > 90:
        raise KernelError(f"{found.max():g} is too large", "take smaller ones")
    return found


def goes_on(x, y):
    """A block that meets a large number goes on without the rest, which forgets a flag."""
    load(x, GetBlockIdx())
    SetFlag(HardEvent.MTE2_V, 0)
    WaitFlag(HardEvent.MTE2_V, 0)
    try:
        work(Pipe.V, "Check", ub(1), ub(0), how=refuse_large)
    except KernelError:
        return
    Adds(ub(1), ub(0), 1.0, TILE)
    DataCopy(GlobalTensor(float32).SetGlobalBuffer(y)[GetBlockIdx() * TILE], ub(1), TILE)


@pytest.mark.parametrize("block", [0, 3])
def test_a_block_that_catches_an_error_leaves_findings_to_those_that_make_them(block):
    x, y = numbers(2)
    x[block * TILE] = 91
    check_same(goes_on, [x, y], blocks=8)


# What a kernel may use.

SEEN = []


class Plain(IntEnum):
    ONE = 1
    TWO = 2

    def doubled(self):
        return 2 * self


class Notes(IntEnum):
    ONE = 1

    def note(self):
        SEEN.append(self)


class HasList(Enum):
    ALL = []  # noqa: RUF012 - a value that can change, as it is meant


class Meta(type):
    def __call__(cls):
        SEEN.append(cls)
        return super().__call__()


class Made(metaclass=Meta):
    pass


class NotingNumber(int):
    def note(self):
        SEEN.append(self)


class NotingError(Exception):
    def __init__(self):
        SEEN.append(self)


class PlainError(Exception):
    pass


class HiddenList:
    _all_ = []  # noqa: RUF012 - a value that can change, as it is meant

    def __init__(self):
        self._all_.append(self)


TWO, NOTES, NUMBER = Plain.TWO, Notes.ONE, NotingNumber(3)
RECORD = np.zeros((), [("calls", int)])[()]
FACTOR = np.float32(3)


@wraps(Duplicate)
def counted_duplicate(*args):
    SEEN.append(args)
    Duplicate(*args)


def uses_values(x):
    return TWO.doubled(), Plain.ONE, FACTOR, half, np.add, ASCEND_IS_AIV


def handles_errors(x):
    try:
        raise PlainError
    except PlainError as error:
        return error
    finally:
        GetBlockIdx()


def calls_what_looks_like_the_language(x):
    counted_duplicate(ub(0), 1.0, TILE)


def calls_a_member(x):
    NOTES.note()


def changes_the_value_of_a_member(x):
    HasList.ALL.value.append(x)


def makes_what_its_metaclass_notes(x):
    Made()


def calls_a_number(x):
    NUMBER.note()


def raises_what_notes(x):
    raise NotingError


def changes_a_record(x):
    RECORD["calls"] += 1


def makes_what_notes_itself(x):
    HiddenList()


def tries_until_it_works(x):
    while True:
        try:
            return (1, 2, 3)[GetBlockIdx()]
        except:  # noqa: E722 - it would catch the end of a record, too, and never end
            continue


def catches_whatever_comes(x):
    while True:
        try:
            return (1, 2, 3)[GetBlockIdx()]
        except BaseException:
            continue


def test_values_that_cannot_change_are_plain():
    for kernel in (uses_values, handles_errors):
        assert Judge().is_plain(kernel), kernel


def test_what_notes_or_can_change_is_not_plain():
    for kernel in (
        calls_a_member, changes_the_value_of_a_member, makes_what_its_metaclass_notes, calls_a_number,
        raises_what_notes, changes_a_record, calls_what_looks_like_the_language, makes_what_notes_itself,
        tries_until_it_works, catches_whatever_comes,
    ):  # fmt: skip
        assert not Judge().is_plain(kernel), kernel


def test_launches_that_overlap_in_two_threads_leave_range_alone():
    names = {}
    first, second = own_range([names]), own_range([names])
    first.__enter__()
    second.__enter__()
    assert names["range"] is range_of_blocks
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert names == {}
