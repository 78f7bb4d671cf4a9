"""Memories: a shared array of a block, and an allocation in global memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from device_model.cta.checks.shadows import GlobalShadow, SharedShadow


class Shared:
    """An array in shared memory: its bytes, its place in the memory of the block, and its last accesses."""

    __slots__ = ("bytes", "name", "shadow")

    def __init__(self, memory: npt.NDArray[np.uint8], name: str, shadow: SharedShadow) -> None:
        self.bytes = memory
        self.name = name
        self.shadow = shadow


class GlobalMemory:
    """One allocation: its bytes, a *key* that tells it from others, and a *name* for messages."""

    __slots__ = ("bytes", "key", "name", "shadow")

    def __init__(
        self, memory: npt.NDArray[np.uint8], key: Any, name: str, empty: Sequence[tuple[int, int]] = ()
    ) -> None:
        self.bytes = memory
        self.key = key
        self.name = name
        self.shadow = GlobalShadow(len(memory), name, empty)

    def __repr__(self) -> str:
        return f"<global memory {self.name}: {len(self.bytes)} bytes>"
