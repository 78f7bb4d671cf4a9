"""LocalMemAllocator: tensors one behind the other in a memory of a core, without a TPipe."""

from enum import Enum

import numpy.typing as npt

from device_model.aicore.core.machine import running
from device_model.aicore.core.names import BLOCK, TPosition
from device_model.aicore.core.packed import bytes_of
from device_model.aicore.core.tensors import LocalTensor, dtype_of, whole
from device_model.kernel.findings import KernelError


class Hardware(Enum):
    """A memory of a core (Ascend C: Hardware); the value is the position of tensors in it by default."""

    UB = TPosition.VECCALC
    L1 = TPosition.A1
    L0A = TPosition.A2
    L0B = TPosition.B2
    L0C = TPosition.CO1
    BIAS = TPosition.C2
    FIXBUF = TPosition.C2PIPE2GM


class LocalMemAllocator:
    """Hands out one memory of a core from its start on (Ascend C: LocalMemAllocator).

    A kernel has one for each memory, and no TPipe beside it for the same memory. It sets no flags.

    Args:
        hard: The memory.

    Raises:
        KernelError: The core has an allocator of this memory already, or no such memory.
    """

    def __init__(self, hard: Hardware = Hardware.UB) -> None:
        core = running()
        self._hard = hard
        self._memory = core.memory(hard.value.space)
        self._next = 0
        if hard in core.allocators:
            raise KernelError(
                f"a second LocalMemAllocator of {hard.name} on {core.program}",
                "make one for each memory: two would give out the same bytes",
            )
        core.allocators.append(hard)

    def __repr__(self) -> str:
        return f"<LocalMemAllocator {self._hard.name}: {self._next} of {self._memory.size} bytes given out>"

    def Alloc(self, dtype: npt.DTypeLike, tile_size: int, pos: TPosition | None = None) -> LocalTensor:
        """Return a tensor in the next bytes, in whole blocks of 32 (Ascend C: Alloc).

        Args:
            dtype: The type of the elements.
            tile_size: The number of elements.
            pos: The position, which lies in this memory; by default the usual one.

        Raises:
            KernelError: The memory has too few bytes, or the position lies in another one.
        """
        position = self._hard.value if pos is None else pos
        if position.space is not self._memory.space:
            raise KernelError(
                f"Alloc at {position} of {self!r}", f"it lies in {position.space}: give one in this memory"
            )
        resolved, size = dtype_of(dtype), whole("Alloc: tile_size", tile_size)
        nbytes = bytes_of(resolved, size)
        if size < 1 or self._next + nbytes > self._memory.size:
            raise KernelError(f"Alloc of {size} x {resolved} from {self!r}", "give it 1 or more, and what is left")
        tensor = LocalTensor(resolved, position, self._next, size)
        self._next += -(-nbytes // BLOCK) * BLOCK
        return tensor

    def GetCurAddr(self) -> int:
        """Return the first byte that was not given out (Ascend C: GetCurAddr)."""
        return self._next
