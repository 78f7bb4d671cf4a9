"""Places: the bytes that the threads of a block reach with one index, and what is done with them.

Accesses of 1, 2, 4, 8 or 16 bytes are one instruction of each warp, and longer ones several of 16. As on a card, an
address must be a multiple of the width.
"""

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from device_model.cta.block import Block, Store, running
from device_model.cta.checks.rules import Rule
from device_model.cta.language.memories import GlobalMemory, Shared
from device_model.cta.language.registers import Register, check_set, ids_of, register, values_of
from device_model.cta.names import threads_text
from device_model.kernel.findings import KernelError
from device_model.kernel.sites import site
from device_model.sm import traffic
from device_model.sm.instructions import Op
from device_model.sm.names import Bools, Ints

if TYPE_CHECKING:
    from device_model.cta.language.tensors import Tensor

WIDEST = 16  # bytes of one access of a thread
_LOADS = {1: Op.LDS_32, 2: Op.LDS_32, 4: Op.LDS_32, 8: Op.LDS_64, 16: Op.LDS_128}


@dataclass(eq=False, slots=True)
class Places:
    """Places in a tensor that the threads reach: *offsets*, bytes of its memory, one or several for each thread.

    From each place on, a thread reaches a vector of the elements that the index left: *tail* is their shape.
    """

    tensor: "Tensor"
    offsets: Ints
    tail: tuple[int, ...] = ()
    _tail_strides: tuple[int, ...] = ()

    def load(self) -> Register:
        """Load the elements: one instruction for each vector of up to 16 bytes."""
        block = running()
        tensor = self.tensor
        self._check_allowed(tensor.is_readable, "reads", "Out", "In or InOut")
        addresses, width = self.accesses()
        active = block.active
        writes = (block.register(),)
        name = f"ld.{'shared' if tensor.is_shared else 'global'}.{8 * width}"
        self.issue(block, name, addresses, width, reads=(), writes=writes, is_store=False)
        elements = self.elements()
        if not block.has_values:
            self.note_read(block, addresses, width)
            return register(np.zeros(elements.shape, tensor.dtype), writes, ())
        values = self.flat()[np.zeros_like(elements)] if len(active) < block.threads else None
        if values is None:
            values = self.flat()[elements]
        else:
            values.view(np.uint8)[...] = 0x7F
            values[active] = self.flat()[elements[active]]
        self.note_read(block, addresses, width)
        return register(values, writes, ())

    def store(self, value: Any) -> None:
        """Store *value*: one instruction for each vector of up to 16 bytes."""
        block = running()
        tensor = self.tensor
        self._check_allowed(tensor.is_writable, "writes", "In", "Out or InOut")
        check_set(value)
        addresses, width = self.accesses()
        elements = self.elements()
        try:
            values = np.broadcast_to(values_of(block, value), elements.shape)
        except ValueError:
            raise KernelError(
                f"a value of shape {np.shape(value)} does not fit {elements.shape} places of {tensor!r} at {site()}",
                "the first axis of both is the thread",
            ) from None
        name = f"st.{'shared' if tensor.is_shared else 'global'}.{8 * width}"
        self.issue(block, name, addresses, width, reads=ids_of(value), writes=(), is_store=True)
        if not block.has_values:
            self.note_write(block, addresses, width)
            return
        active = block.active
        new = values[active].astype(tensor.dtype)
        self.flat()[elements[active]] = new
        self.note_write(block, addresses, width)
        if block.hazards:
            self._check_stored(block, elements[active], new)

    def _check_stored(self, block: Block, elements: Ints, new: npt.NDArray[Any]) -> None:
        """Report threads whose values of one instruction are not there after it: others had the same places."""
        differs = self.flat()[elements].view(np.uint8) != new.view(np.uint8)
        if not differs.any():
            return
        line = site()
        first = block.active[differs.reshape(len(new), -1).any(axis=1)][:1]
        block.find(
            Rule.WAW,
            f"several threads write different values to the same bytes of {self.tensor.name} at {line}, "
            f"{threads_text(first)} among them; one of them wins, and nothing says which",
            (line,),
            "an atomic operation, or a place for each thread",
        )

    # For copies and atomics, too

    def accesses(self) -> tuple[Ints, int]:
        """Return the address of each access, [thread, number], and the bytes of each; check that they are aligned."""
        block = running()
        tensor = self.tensor
        nbytes = prod(self.tail) * tensor.dtype.itemsize
        per_thread = self.offsets.reshape(block.threads, -1)
        if self._tail_strides != strides_of(self.tail, tensor.dtype.itemsize) or nbytes & (nbytes - 1):
            per_thread = per_thread[..., None] + self._tail_offsets()
            per_thread, nbytes = per_thread.reshape(block.threads, -1), tensor.dtype.itemsize
        width = min(nbytes, WIDEST)
        if nbytes > WIDEST:
            pieces = np.arange(0, nbytes, WIDEST)
            per_thread = (per_thread[..., None] + pieces).reshape(block.threads, -1)
        self.check_aligned(per_thread, width)
        return per_thread, width

    def check_aligned(self, addresses: Ints, width: int) -> None:
        """Raise KernelError if one of *addresses* is no multiple of *width*."""
        block = running()
        if not np.bitwise_or.reduce(addresses, axis=None) & (width - 1):
            return
        crooked = (addresses[block.active] % width != 0).any(axis=1)
        if crooked.any():
            thread = block.active[crooked][:1]
            at = int(addresses[thread[0]][addresses[thread[0]] % width != 0][0])
            raise KernelError(
                f"{threads_text(thread)} of {block} at {site()}: byte {at} of {self.tensor!r} is misaligned for an "
                f"access of {width} bytes",
                f"make the address a multiple of {width}, or use narrower accesses",
            )

    def issue(
        self,
        block: Block,
        name: str,
        addresses: Ints,
        width: int,
        *,
        reads: tuple[int, ...],
        writes: tuple[int, ...],
        is_store: bool,
        op: Op | None = None,
    ) -> None:
        """Append the row of an access, with its bank conflicts or its sectors."""
        count = addresses.shape[1]
        if self.tensor.is_shared:
            op = op or (Op.STS if is_store else _LOADS[width])
            phases, conflicts = traffic.phases(block, addresses, width, is_store=is_store)
            block.issue(op, name, count=count, phases=phases, conflicts=conflicts, reads=reads, writes=writes)
            return
        op = op or (Op.STG if is_store else Op.LDG)
        sectors, misses = self.sectors(block, addresses)
        block.issue(op, name, count=count, sectors=sectors, misses=misses, reads=reads, writes=writes)

    def sectors(self, block: Block, addresses: Ints) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the sectors of 32 bytes that each warp moves, and those of them that are not in the L2 yet."""
        memory = self.tensor.memory
        assert isinstance(memory, GlobalMemory), "sectors are of global memory"
        return traffic.sectors(block, addresses, memory.shadow)

    def note_read(self, block: Block, addresses: Ints, width: int) -> None:
        """Record and check that the active threads read *width* bytes at each of their *addresses*."""
        active = block.active
        if not block.hazards or not len(active):
            return
        memory = self.tensor.memory
        if isinstance(memory, Shared):
            memory.shadow.read(active, addresses[active], width)
            return
        self.note_contents(block, addresses[active] // width, width)

    def note_contents(self, block: Block, words: Ints, width: int, taken: Bools | None = None) -> None:
        """Record that the active threads read *words* of *width* bytes of global memory; check that these hold values.

        Words are [thread, ...]. If *taken* is given, only those words are read.
        """
        memory = self.tensor.memory
        assert isinstance(memory, GlobalMemory), "shared memory has a shadow of its own"
        at = memory.shadow.read(words.reshape(-1) if taken is None else words[taken], width)
        if at >= 0:
            line = site()
            place = at if taken is None else int(np.flatnonzero(taken)[at])
            thread = block.active[place // (words.size // len(block.active))]
            block.find(
                Rule.UNWRITTEN_READ,
                f"thread {thread} reads {self.tensor.name} at {line}, where nothing was "
                "written; on a card there is what an earlier program left; write these bytes first",
                (line,),
                f"a write to {self.tensor.name}",
            )

    def note_write(self, block: Block, addresses: Ints, width: int) -> None:
        """Record and check that the active threads write these bytes."""
        active = block.active
        memory = self.tensor.memory
        if isinstance(memory, GlobalMemory) and len(active):
            block.stores.append(Store(len(block.rows) - 1, memory.key, addresses[active], width, active))
        if not block.hazards or not len(active):
            return
        if isinstance(memory, Shared):
            memory.shadow.write(active, addresses[active], width)
        else:
            memory.shadow.write(addresses[active].reshape(-1) // width, width)

    def elements(self) -> Ints:
        """Return the elements that each thread reaches, as indices of the memory seen as elements."""
        tail = self._tail_offsets().reshape(self.tail)
        places = self.offsets.reshape(*self.offsets.shape, *[1] * len(self.tail))
        return (places + tail) // self.tensor.dtype.itemsize

    def _tail_offsets(self) -> Ints:
        offsets = np.zeros((), np.int64)
        for length, stride in zip(self.tail, self._tail_strides, strict=True):
            offsets = offsets[..., None] + np.arange(length) * stride
        return offsets.reshape(-1)

    def flat(self) -> npt.NDArray[Any]:
        """Return the memory as elements of the tensor."""
        memory = self.tensor.memory.bytes
        itemsize = self.tensor.dtype.itemsize
        return memory[: len(memory) // itemsize * itemsize].view(self.tensor.dtype)

    def _check_allowed(self, is_allowed: bool, verb: str, declared: str, remedy: str) -> None:
        if not is_allowed:
            raise KernelError(
                f"the kernel {verb} {self.tensor.name} at {site()}, which it declares as {declared}",
                f"declare it as {remedy}",
            )


def check_places(call: str, *each: Any) -> None:
    """Refuse what is not `Places`: somebody has written x[t] for x.at[t], which loads."""
    for value in each:
        if not isinstance(value, Places):
            raise KernelError(
                f"{call}() at {site()} got {type(value).__name__} where it takes places", "write x.at[t], not x[t]"
            )


def strides_of(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the strides in bytes of a contiguous array."""
    strides = []
    for length in reversed(shape):
        strides.append(itemsize)
        itemsize *= length
    return tuple(reversed(strides))
