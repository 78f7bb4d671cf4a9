"""Memories: the local ones of a core, such as UB, and allocations in GM."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from device_model.aicore.core.hazards import GlobalShadow, Shadow
from device_model.aicore.core.names import Space
from device_model.aicore.core.program import Instruction

Bytes = npt.NDArray[np.uint8]
# (memory, start, stop), or (memory, start, stop, length, stride): rows of *length* bytes, *stride* apart.
Range = tuple[Any, ...]

# What local memory holds before its first write. On a card it holds what the kernel before left there. These bytes are
# NaN as half, float and bfloat16, and large numbers as integers, so a read of them shows in the results.
POISON = b"\xfb\x7f"
ZEROS = b"\0\0"  # what it holds in a second run, which tells whether results depend on it

# Local memories of which a read before the first write is reported. The others are read by whole fractals, and the
# rows of the last fractal that lie beyond a matrix need not be written.
_CHECKED = (Space.UB, Space.L0C, Space.CMP_MASK)


class LocalMemory:
    """One memory of a core, such as UB."""

    __slots__ = ("bytes", "key", "name", "shadow", "size", "space")

    def __init__(self, space: Space, size: int, fill: bytes = POISON) -> None:
        self.space = space
        self.key = self.name = space.value
        self.size = size
        self.bytes: Bytes = np.full(size // 2, np.frombuffer(fill, np.uint16)).view(np.uint8)
        self.shadow = Shadow(self.name, ((0, size),) if space in _CHECKED else ())

    def __repr__(self) -> str:
        return f"<{self.name}: {self.size} bytes>"


class GlobalMemory:
    """One allocation in GM: its bytes, a *key* that tells it from other allocations, and a *name* for messages.

    *empty* has the ranges of bytes, in their order, that hold nothing at the start of the launch. Make one for each
    launch, because its shadow records the accesses of that launch.
    """

    __slots__ = ("bytes", "flushed", "key", "lines", "name", "shadow", "size", "space")

    def __init__(self, memory: Bytes, key: Hashable, name: str = "", empty: Sequence[tuple[int, int]] = ()) -> None:
        self.space = Space.GM
        self.bytes = memory
        self.size = len(memory)
        self.key = key
        self.name = f"GM {name or key}"
        self.shadow = GlobalShadow(self.name, empty)
        self.lines: dict[int, Instruction] = {}  # 64-byte line -> the last scalar write in it
        # 64-byte line -> the last write-back of a scalar write in it, and the flags of the launch that did it.
        self.flushed: dict[int, tuple[Instruction, object]] = {}

    def __repr__(self) -> str:
        return f"<{self.name}: {self.size} bytes>"


Memory = LocalMemory | GlobalMemory
