"""A group of blocks: its registers, its memories, and which of its lanes are active.

A register is an array with an axis for blocks and one for threads. Where a value is the same along an axis, that axis
has the length 1, so the arithmetic of addresses costs little. If only some lanes are active, values are arrays of one
row, with a column for each active lane.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from device_model.ptx.lanes.launch import Launch

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.intp]
WARP = 32


class Group:
    """Blocks that run together.

    Attributes:
        launch: What all groups share.
        first: The number of the first block in its grid.
        blocks: How many blocks.
        threads: The threads of a block.
        registers: Their values; None for one that was never written.
        shared: The shared memory of all blocks, one after the other, of *shared_bytes* each.
        local: The local memory of all lanes, one after the other, of *local_bytes* each.
        left: How many lanes have not ended.
        changes: How often lanes have changed memory.
    """

    __slots__ = (
        "_is_owned", "blocks", "changes", "everybody", "first", "launch", "left", "local", "local_bytes", "registers",
        "shared", "shared_bytes", "threads", "width",
    )  # fmt: skip

    def __init__(
        self, launch: "Launch", first: int, blocks: int, registers: int, shared_bytes: int, local_bytes: int
    ) -> None:
        self.launch = launch
        self.first = first
        self.blocks = blocks
        self.threads = threads = launch.threads
        self.width = blocks * threads
        self.registers: list[Array | None] = [None] * registers
        self._is_owned = bytearray(registers)  # whether no other register can be the same array
        self.shared_bytes = shared_bytes
        self.local_bytes = local_bytes
        self.shared = np.zeros(blocks * shared_bytes, np.uint8)
        self.local = np.zeros(self.width * local_bytes, np.uint8)
        self.left = self.width
        self.changes = 0
        self.everybody = Lanes(self, None)

    def get(self, number: int) -> Array:
        """Return the register of all lanes."""
        value = self.registers[number]
        self._is_owned[number] = False
        assert value is not None, "a register is written before it is read, or filled"
        return value

    def put(self, number: int, value: Array) -> None:
        """Set the register of all lanes."""
        self.registers[number] = value
        self._is_owned[number] = False

    def share(self) -> None:
        """Let each register be copied before it is changed next: another one can be the same array."""
        self._is_owned = bytearray(len(self.registers))

    def put_some(self, number: int, index: Ints, value: Array) -> None:
        """Set the register of the lanes *index* to the columns of *value*."""
        old = self.registers[number]
        if not self._is_owned[number]:
            new = np.empty((self.blocks, self.threads), value.dtype)
            if old is None:
                new.fill(0)
            else:
                new[...] = old
            self.registers[number] = old = new
            self._is_owned[number] = True
        assert old is not None, "a register that is owned is there"
        old.reshape(-1)[index] = value.reshape(-1)


class Lanes:
    """The lanes of a group that run a block of code: all of them, or those at *index*, in their order."""

    __slots__ = ("_block", "_thread", "count", "group", "index")

    def __init__(self, group: Group, index: Ints | None) -> None:
        self.group = group
        self.index = index
        self.count = group.width if index is None else len(index)
        self._block: Ints | None = None
        self._thread: Ints | None = None

    @property
    def block(self) -> Ints:
        """The block of each lane, from 0 in the group."""
        if self._block is None:
            self._find_places()
        assert self._block is not None
        return self._block

    @property
    def thread(self) -> Ints:
        """The thread of each lane in its block."""
        if self._thread is None:
            self._find_places()
        assert self._thread is not None
        return self._thread

    def _find_places(self) -> None:
        group = self.group
        if self.index is None:
            self._block = np.arange(group.blocks, dtype=np.intp)[:, None]
            self._thread = np.arange(group.threads, dtype=np.intp)[None, :]
        else:
            block, thread = np.divmod(self.index, group.threads)
            self._block, self._thread = block[None, :], thread[None, :]

    @property
    def flat(self) -> Ints:
        """The place of each lane in the group, in the shape of a value."""
        if self.index is not None:
            return self.index[None, :]
        return np.arange(self.group.width, dtype=np.intp).reshape(self.group.blocks, self.group.threads)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of a value that differs from lane to lane."""
        return (self.group.blocks, self.group.threads) if self.index is None else (1, self.count)

    def get(self, number: int) -> Array:
        """Return a register."""
        group, index = self.group, self.index
        if index is None:
            return group.get(number)
        value = group.registers[number]
        assert value is not None, "a register is written before it is read, or filled"
        rows, columns = value.shape
        if columns == 1:
            return value if rows == 1 else value[self.block[0], 0][None, :]
        return value[0, self.thread[0]][None, :] if rows == 1 else value.reshape(-1)[index][None, :]

    def put(self, number: int, value: Array) -> None:
        """Set a register."""
        if self.index is None:
            self.group.put(number, value)
        else:
            self.group.put_some(number, self.index, value)

    def some(self, mask: Array) -> Ints:
        """Return the places in the group of the active lanes for which *mask* is true."""
        mask = np.broadcast_to(mask, self.shape).reshape(-1)
        return np.flatnonzero(mask) if self.index is None else self.index[mask]
