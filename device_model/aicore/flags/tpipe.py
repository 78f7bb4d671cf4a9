"""TPipe: divides the local memories of a core among queues and buffers.

A core has one TPipe at a time, from Init() to Destroy(). It gives out each memory from its first byte on, and takes
nothing back before Destroy(), which also waits for the flags that the queues have set.
"""

from collections.abc import Iterable, Mapping

import numpy.typing as npt

from device_model.aicore.core.machine import Core, running
from device_model.aicore.core.memories import LocalMemory
from device_model.aicore.core.names import BLOCK, HardEvent, Space, TPosition
from device_model.aicore.core.packed import elements_in
from device_model.aicore.core.tensors import LocalTensor, dtype_of, whole
from device_model.aicore.flags import sync
from device_model.aicore.flags.bufpool import TBufPool, rounded, share_of
from device_model.aicore.flags.queues import TBuf, TQueBind
from device_model.aicore.flags.sync import barrier_all, preset_events, release_event, set_flag, wait_flag
from device_model.kernel.findings import KernelError

MAX_BUFFERS = 64  # per TPipe
MAX_LIVE = 8  # allocated tensors per TPosition, because each takes an event id


class TPipe:
    """Divides the local memories of a core among queues and buffers (Ascend C: TPipe).

    A core has one TPipe at a time. At the end of the block it is destroyed, if the kernel has not done so.

    Raises:
        KernelError: The core has a TPipe already.
    """

    def __init__(self) -> None:
        self._core = running()
        self._used: dict[Space, int] = {}
        self._queues: list[TQueBind] = []
        self._live: dict[TPosition, int] = {}
        self.Init()

    def Init(self) -> None:
        """Start again with all memory free, after Destroy() (Ascend C: Init)."""
        core = self._core
        if core.tpipe is not None:
            raise KernelError(
                f"{core.program} has a TPipe already, and a second one would give out the same memory",
                "make one TPipe per kernel, or Destroy() it before the next phase",
            )
        core.tpipe = self
        self._count = 0
        self._used.clear()
        self._live.clear()
        self._preset = preset_events(core)
        for event, event_id in self._preset:
            core.allocated[event] |= 1 << event_id
            set_flag(core, event, event_id)

    def __repr__(self) -> str:
        used = ", ".join(f"{space} {count} bytes" for space, count in self._used.items()) or "nothing"
        return f"<TPipe of {self._core.program}: {used} given out>"

    def InitBuffer(self, target: TQueBind | TBuf, first: int, length: int | None = None) -> None:
        """Give buffers to a queue, or one buffer to a TBuf (Ascend C: InitBuffer); no pipe waits.

        `InitBuffer(queue, count, bytes)` or `InitBuffer(tbuf, bytes)`. Lengths are rounded up to 32 bytes.

        Args:
            target: The queue or TBuf. Its position decides which memory is used.
            first: For a queue the number of buffers, of which 2 make a double buffer; for a TBuf its length in bytes.
            length: For a queue, the length of each buffer in bytes.

        Raises:
            KernelError: The memory has too few free bytes, the TPipe has 64 buffers or was destroyed, or a number
                is below 1.
        """
        self.give(target, first, length)
        if not isinstance(target, TBuf):
            self._queues.append(target)

    def InitBufPool(self, pool: TBufPool, length: int, share: TBufPool | None = None) -> None:
        """Give a part of a memory to a pool, which divides it further (Ascend C: InitBufPool); no pipe waits.

        Args:
            pool: The pool; its position decides which memory is used.
            length: Its bytes, which are rounded up to 32.
            share: Another pool whose bytes it gets, too: they begin at the same byte.

        Raises:
            KernelError: The memory has too few free bytes, the length is below 1, or *share* is smaller or in another
                memory.
        """
        nbytes = rounded(length)
        if share is not None:
            pool.take(self, share_of(pool, share, nbytes), nbytes)
            return
        memory = self._core.memory(pool.position.space)
        pool.take(self, self._next_bytes(memory, nbytes, f"{nbytes} bytes for {pool!r}"), nbytes)

    @property
    def core(self) -> Core:
        """The core that it is of."""
        return self._core

    def places(self, spaces: Iterable[Space]) -> dict[Space, int]:
        """Return where the bytes of each of *spaces* begin that were not given out."""
        return {space: self._used.get(space, 0) for space in spaces}

    def begin_at(self, places: Mapping[Space, int]) -> None:
        """Give out the bytes of each memory from these *places* on; the caller orders who uses the same bytes."""
        self._used.update(places)

    def _next_bytes(self, memory: LocalMemory, nbytes: int, what: str) -> int:
        """Return where the next *nbytes* of *memory* begin, and give them out; messages call them *what*."""
        start = self._used.get(memory.space, 0)
        if start + nbytes > memory.size:
            raise KernelError(
                f"{what} do not fit in {memory.name} of {self._core.program}: "
                f"{start} of {memory.size} bytes are given out",
                "use smaller or fewer buffers",
            )
        self._used[memory.space] = start + nbytes
        return start

    def give(self, target: TQueBind | TBuf, first: int, length: int | None, pool: TBufPool | None = None) -> None:
        """Do what InitBuffer does, with bytes of *pool* if there is one; the caller drains the queue."""
        core = self._core
        if core.tpipe is not self:
            raise KernelError(f"{self!r} was destroyed", "make a new TPipe")
        if length is None:
            count, nbytes = 1, whole("InitBuffer: the length", first)
        else:
            count, nbytes = whole("InitBuffer: the number of buffers", first), whole("InitBuffer: the length", length)
        if (length is None) != isinstance(target, TBuf):
            raise TypeError("InitBuffer takes (queue, count, bytes) or (tbuf, bytes)")
        if count < 1 or nbytes < 1:
            raise KernelError(f"InitBuffer of {count} x {nbytes} bytes", "both must be 1 or more")
        core.scalar += core.spec.init_buffer
        nbytes = -(-nbytes // BLOCK) * BLOCK
        self._count += count
        if self._count > MAX_BUFFERS:
            raise KernelError(f"{self._count} buffers on {core.program}", f"a TPipe has at most {MAX_BUFFERS}")
        position = target.position if isinstance(target, TBuf) else target.source
        memory = core.memory(position.space)
        what = f"{count} x {nbytes} bytes for {target!r}"
        start = self._next_bytes(memory, count * nbytes, what) if pool is None else pool.next_bytes(count * nbytes)
        if isinstance(target, TBuf):
            target.take_buffer(memory, start, nbytes)
        else:
            target.take_buffers(self.count_live, core, memory, start, count, nbytes)

    def Destroy(self) -> None:
        """Wait for all buffers and all pipes, and free all memory (Ascend C: Destroy).

        The scalar pipe waits. A tensor that was not freed is the finding TENSOR_NOT_FREED.
        """
        core = self._core
        if core.tpipe is not self:
            return
        for queue in self._queues:
            queue.drain(core)
        self._queues.clear()  # breaks reference cycles: the collector is off during a launch
        for event, event_id in self._preset:
            wait_flag(core, event, event_id)
            release_event(core, event, event_id)
        barrier_all(core)
        core.tpipe = None

    def Reset(self) -> None:
        """Call Destroy() and Init(): the next phase of a kernel can divide the memory again (Ascend C: Reset)."""
        self.Destroy()
        self.Init()

    def AllocEventID(self, event: HardEvent) -> int:
        """Reserve the lowest free id of *event*; see `sync.AllocEventID`."""
        return sync.AllocEventID(event)

    def FetchEventID(self, event: HardEvent) -> int:
        """Return the lowest free id of *event* without reserving it; see `sync.FetchEventID`."""
        return sync.FetchEventID(event)

    def ReleaseEventID(self, event: HardEvent, event_id: int) -> None:
        """Give back an id that AllocEventID reserved; see `sync.ReleaseEventID`."""
        sync.ReleaseEventID(event, event_id)

    def rest(self, space: Space) -> tuple[int, int]:
        """Return the first byte of a memory that no buffer has, and the number of bytes from there on."""
        start = self._used.get(space, 0)
        return start, self._core.memory(space).size - start

    def count_live(self, position: TPosition, change: int) -> None:
        """Add *change* to the number of tensors allocated at *position*; for queues."""
        live = self._live.get(position, 0) + change
        if live > MAX_LIVE:
            raise KernelError(
                f"{live} tensors are allocated at {position} on {self._core.program}",
                f"a position has at most {MAX_LIVE} at a time, because each takes an event id; free some first",
            )
        self._live[position] = live


def PopStackBuffer(dtype: npt.DTypeLike, pos: TPosition = TPosition.VECCALC) -> LocalTensor:
    """Return all bytes of a memory that no buffer of the TPipe has, as a tensor (Ascend C: PopStackBuffer).

    Functions without a temporary buffer take the same bytes.

    Args:
        dtype: The type of the elements.
        pos: A position in that memory.

    Raises:
        KernelError: The kernel has no TPipe, the core no such memory, or no bytes are left.
    """
    pipe, resolved = GetTPipePtr(), dtype_of(dtype)
    start, nbytes = pipe.rest(pos.space)
    if nbytes < resolved.itemsize:
        raise KernelError(f"PopStackBuffer at {pos} of {pipe!r}", f"no bytes of {pos.space} are left")
    return LocalTensor(resolved, pos, start, elements_in(resolved, nbytes))


def GetTPipePtr() -> TPipe:
    """Return the TPipe of this core (Ascend C: GetTPipePtr); no pipe waits.

    Raises:
        KernelError: The kernel has made no TPipe yet, or destroyed it.
    """
    core = running()
    if not isinstance(core.tpipe, TPipe):
        raise KernelError(f"{core.program} has no TPipe", "make one first: pipe = TPipe()")
    return core.tpipe
