"""Slots: the buffers of L1, L0 and BT that one pipe fills and another one reads, in turn.

Each slot has two flags. One, set by the pipe that fills the slot, says that it is full; the other, set by the pipe that
reads it, says that it may be filled again.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from device_model.aicore.core.names import HardEvent, TPosition
from device_model.aicore.core.packed import bytes_of
from device_model.aicore.core.tensors import LocalTensor
from device_model.aicore.flags.queues import TBuf
from device_model.aicore.flags.sync import AllocEventID, ReleaseEventID, SetFlag, WaitFlag
from device_model.aicore.flags.tpipe import TPipe


class Flag:
    """The two flags of a slot: *full*, set by the pipe that fills it, and *empty*, set by the pipe that reads it.

    `filled` issues the set and the wait together: the wait goes to the other pipe, after the instructions that were
    issued to that pipe so far.
    """

    __slots__ = ("empty", "empty_id", "full", "full_id", "is_empty_set")

    def __init__(self, full: HardEvent, empty: HardEvent) -> None:
        self.full, self.empty = full, empty
        self.is_empty_set = False
        self.open()

    def open(self) -> None:
        """Take ids for both flags."""
        self.full_id, self.empty_id = AllocEventID(self.full), AllocEventID(self.empty)

    def filled(self) -> None:
        """Set the full flag after the fills so far, and let the reading pipe wait for it."""
        SetFlag(self.full, self.full_id)
        WaitFlag(self.full, self.full_id)

    def wait_empty(self) -> None:
        """Let the filling pipe wait until the slot has been read."""
        if self.is_empty_set:
            WaitFlag(self.empty, self.empty_id)
            self.is_empty_set = False

    def emptied(self) -> None:
        """Set the empty flag after the reads so far."""
        self.wait_empty()
        SetFlag(self.empty, self.empty_id)
        self.is_empty_set = True

    def close(self) -> None:
        """Wait for the flag that is still set, if any, and release the ids."""
        self.wait_empty()
        ReleaseEventID(self.full, self.full_id)
        ReleaseEventID(self.empty, self.empty_id)


class Slot:
    """A buffer of a memory with its flags.

    *holds* names what is in it, in L1 *chunk* says how it lies there, and *used* is the number of its last look-up.
    """

    __slots__ = ("chunk", "flag", "holds", "tensor", "used")

    def __init__(self, tensor: LocalTensor, full: HardEvent, empty: HardEvent) -> None:
        self.tensor = tensor
        self.flag = Flag(full, empty)
        self.holds: Any = None
        self.chunk: Any = None
        self.used = 0


def slots(
    pipe: TPipe, position: TPosition, count: int, size: int, dtype: np.dtype[Any], full: HardEvent, empty: HardEvent
) -> list[Slot]:
    """Return *count* slots of *size* elements at *position*."""
    return [Slot(buffer(pipe, position, size, dtype), full, empty) for _ in range(count)]


def find(among: Sequence[Slot], holds: Any) -> tuple[Slot, bool]:
    """Return the slot that holds *holds*, and True; or the one used least recently, to be filled again, and False."""
    now = max(slot.used for slot in among) + 1
    for slot in among:
        if slot.holds == holds:
            slot.used = now
            return slot, True
    slot = min(among, key=lambda each: each.used)
    slot.flag.wait_empty()
    slot.holds, slot.used = holds, now
    return slot, False


def buffer(pipe: TPipe, position: TPosition, size: int, dtype: np.dtype[Any]) -> LocalTensor:
    """Return *size* elements at *position*."""
    made = TBuf(position)
    pipe.InitBuffer(made, bytes_of(dtype, size))
    return made.Get(dtype, size)
