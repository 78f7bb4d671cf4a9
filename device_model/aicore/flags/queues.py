"""TPipe, TQue, TQueBind and TBuf: buffers of local memory, handed between pipes with their flags.

A buffer of a queue passes through four states: FREE, OCCUPIED (allocated), ENQUE (enqueued), DEQUE (dequeued), and
FREE again. Two flags keep the pipes in order:

    x = queue.AllocTensor(half)   waits for the flag of the last FreeTensor of this buffer (V_MTE2 for VECIN)
    DataCopy(x, x_gm, n)          MTE2 fills the buffer
    queue.EnQue(x)                sets a flag (MTE2_V)
    x = queue.DeQue()             waits for it
    Add(z, x, y, n)               V uses the buffer
    queue.FreeTensor(x)           sets a flag (V_MTE2)

So the pipe that uses a tensor starts after the pipe that fills it, and a buffer is not filled again while it is still
in use. The two events follow from the queue's position: which pipe fills buffers there, and which one uses them.
"""

from collections import deque
from enum import Enum
from operator import index as integer
from sys import _getframe

import numpy.typing as npt

from device_model.aicore.core.findings import KernelError, KernelHangError, Rule
from device_model.aicore.core.machine import Core, running
from device_model.aicore.core.memories import BLOCK, LocalMemory
from device_model.aicore.core.names import EVENT_OF, HardEvent, Pipe, Space, TPosition
from device_model.aicore.core.program import Site
from device_model.aicore.core.tensors import LocalTensor, dtype_of, place
from device_model.aicore.flags import sync
from device_model.aicore.flags.sync import (
    alloc_event,
    barrier_all,
    preset_events,
    release_event,
    set_flag,
    wait_flag,
)

MAX_BUFFERS = 64  # per TPipe
MAX_LIVE = 8  # allocated tensors per TPosition, because each takes an event id

_P = TPosition
# For each position, the pipe that fills a buffer there, and below, the pipe that uses it.
_FILLS = {
    _P.VECIN: Pipe.MTE2,
    _P.VECOUT: Pipe.V,
    _P.VECCALC: Pipe.V,
    _P.A1: Pipe.MTE2,
    _P.B1: Pipe.MTE2,
    _P.C1: Pipe.MTE2,
    _P.TSCM: Pipe.MTE3,
    _P.A2: Pipe.MTE1,
    _P.B2: Pipe.MTE1,
    _P.C2: Pipe.MTE1,
    _P.C2PIPE2GM: Pipe.MTE1,
    _P.CO1: Pipe.M,
}
_USES = {
    _P.VECIN: Pipe.V,
    _P.VECOUT: Pipe.MTE3,
    _P.VECCALC: Pipe.V,
    _P.A1: Pipe.MTE1,
    _P.B1: Pipe.MTE1,
    _P.C1: Pipe.MTE1,
    _P.TSCM: Pipe.MTE1,
    _P.A2: Pipe.M,
    _P.B2: Pipe.M,
    _P.C2: Pipe.M,
    _P.C2PIPE2GM: Pipe.FIX,
    _P.CO1: Pipe.FIX,
}


class State(Enum):
    """The state of a buffer."""

    FREE = "free"
    OCCUPIED = "allocated"
    ENQUE = "enqueued"
    DEQUE = "dequeued"


class _Buffer:
    """One buffer of a queue."""

    __slots__ = ("address", "enque_id", "free_id", "site", "state", "tensors")

    def __init__(self, address: int) -> None:
        self.address = address
        self.state = State.FREE
        self.enque_id = -1
        self.free_id = -1  # of the flag that the next AllocTensor waits for
        self.site: Site | None = None  # of its AllocTensor
        self.tensors: dict[object, LocalTensor] = {}


class TQueBind:
    """A queue of tensors that one pipe fills and another one uses (Ascend C: TQueBind).

    Give it buffers with `TPipe.InitBuffer` before its first use.

    Args:
        source: The position that tells which pipe fills the tensors, such as VECIN for MTE2.
        destination: The position that tells which pipe uses them, such as VECOUT for MTE3.
        depth: How many tensors may be enqueued and not yet dequeued. 1 is usual, and 0 means 1.

    Raises:
        KernelError: No queue can lie at one of the positions, or *depth* is below 0.
    """

    def __init__(self, source: TPosition, destination: TPosition, depth: int = 1) -> None:
        for position in (source, destination):
            if position not in _FILLS:
                raise KernelError(f"a queue at {position}", f"queues are at {', '.join(map(str, _FILLS))}")
        if depth < 0:
            raise KernelError(f"a queue of depth {depth}", "a depth is 0 or more; 1 is usual")
        self.source = source
        self.destination = destination
        self.depth = depth
        fills, uses = _FILLS[source], _USES[destination]
        # Within the vector pipe order needs no flag.
        self.full_event = None if fills is uses else EVENT_OF[fills, uses]
        self.free_event = None if fills is uses else EVENT_OF[uses, fills]
        self._core: Core | None = None
        self._tpipe: TPipe | None = None
        self._memory: LocalMemory | None = None
        self._length = 0
        self._buffers: list[_Buffer] = []
        self._by_address: dict[int, _Buffer] = {}
        self._cursor = 0
        self._fifo: deque[tuple[_Buffer, LocalTensor]] = deque()

    def __repr__(self) -> str:
        states = ", ".join(buffer.state.value for buffer in self._buffers) or "no buffers"
        return f"<{self._name()} depth={self.depth}: {states}>"

    def _name(self) -> str:
        return f"TQueBind {self.source} to {self.destination}"

    def take_buffers(
        self, tpipe: "TPipe", core: Core, memory: LocalMemory, start: int, count: int, length: int
    ) -> None:
        """Take *count* buffers of *length* bytes from byte *start* of *memory* on; for TPipe.InitBuffer."""
        self._tpipe = tpipe
        self._core = core
        self._memory = memory
        self._length = length
        self._buffers = [_Buffer(start + index * length) for index in range(count)]
        self._by_address = {buffer.address: buffer for buffer in self._buffers}
        self._cursor = 0
        self._fifo.clear()

    def AllocTensor(self, dtype: npt.DTypeLike) -> LocalTensor:
        """Allocate the next free buffer as a tensor (Ascend C: AllocTensor).

        The pipe that fills the tensor waits until the last use of the buffer before FreeTensor has finished.

        Args:
            dtype: The type of the elements; the tensor spans the whole buffer.

        Returns:
            The tensor. Its contents are whatever the buffer held.

        Raises:
            KernelError: The queue has no buffers, or 8 tensors of this position are allocated.
            KernelHangError: No buffer is free; a card would wait without end.
        """
        core = self._core
        if core is None:
            raise KernelError(f"{self!r} has no buffers", "give it some with TPipe.InitBuffer()")
        buffers = self._buffers
        cursor = self._cursor
        for _ in buffers:
            buffer = buffers[cursor]
            cursor += 1
            if cursor == len(buffers):
                cursor = 0
            if buffer.state is State.FREE:
                break
        else:
            raise KernelHangError(
                f"AllocTensor of {self!r} on {core.program} never ends: no buffer is free",
                f"FreeTensor() a tensor that was allocated at {', '.join(sorted({str(b.site) for b in buffers}))}",
            )
        self._cursor = cursor
        assert self._tpipe is not None
        self._tpipe.count_live(self.source, 1)
        core.scalar += core.spec.alloc_tensor
        if buffer.free_id >= 0:
            assert self.free_event is not None
            wait_flag(core, self.free_event, buffer.free_id)
            release_event(core, self.free_event, buffer.free_id)
            buffer.free_id = -1
        buffer.state = State.OCCUPIED
        frame = _getframe(1)
        buffer.site = Site(frame.f_code, frame.f_lasti)
        tensor = buffer.tensors.get(dtype)
        if tensor is None:
            assert self._memory is not None
            resolved = dtype_of(dtype)
            tensor = place(self.source, self._memory, buffer.address, resolved, self._length)
            buffer.tensors[dtype] = tensor
        return tensor

    def EnQue(self, tensor: LocalTensor) -> None:
        """Hand a filled tensor to the pipe that uses it (Ascend C: EnQue); no pipe waits.

        Sets the flag that DeQue waits for, once the filling pipe has finished all instructions issued so far.

        Args:
            tensor: A tensor that this queue allocated.

        Raises:
            KernelError: *tensor* is not allocated from this queue or is enqueued already, or *depth* tensors are.
        """
        buffer = self._buffer(tensor, "EnQue")
        core = self._core
        assert core is not None
        if buffer.state is State.ENQUE:
            raise KernelError(f"EnQue: {tensor!r} is enqueued already", "DeQue() it first")
        fifo = self._fifo
        if len(fifo) >= (self.depth or 1):
            raise KernelError(
                f"EnQue: {self!r} holds {len(fifo)} tensors", "DeQue() one first, or make the queue with a larger depth"
            )
        core.scalar += core.spec.enque
        event = self.full_event
        if event is not None:
            buffer.enque_id = alloc_event(core, event)
            set_flag(core, event, buffer.enque_id)
        buffer.state = State.ENQUE
        fifo.append((buffer, tensor))

    def DeQue(self, dtype: npt.DTypeLike | None = None) -> LocalTensor:
        """Take the tensor that was enqueued first (Ascend C: DeQue).

        The pipe that uses the tensor waits for the flag that EnQue set.

        Args:
            dtype: The type of the elements; by default the type that the tensor was enqueued with.

        Returns:
            The tensor.

        Raises:
            KernelError: The queue is empty.
        """
        core = self._core
        fifo = self._fifo
        if core is None or not fifo:
            raise KernelError(f"DeQue: {self!r} is empty", "EnQue() a tensor first")
        buffer, tensor = fifo.popleft()
        core.scalar += core.spec.deque
        event = self.full_event
        if event is not None:
            wait_flag(core, event, buffer.enque_id)
            release_event(core, event, buffer.enque_id)
        buffer.state = State.DEQUE
        if dtype is not None and tensor.dtype is not dtype:
            resolved = dtype_of(dtype)
            if tensor.dtype != resolved:
                tensor = tensor.ReinterpretCast(resolved)
        return tensor

    def FreeTensor(self, tensor: LocalTensor) -> None:
        """Free the buffer of a tensor (Ascend C: FreeTensor); no pipe waits.

        The next AllocTensor of this buffer waits until the using pipe has finished all instructions issued so far.

        Args:
            tensor: A tensor that this queue allocated and that is not enqueued.

        Raises:
            KernelError: *tensor* is not allocated from this queue, or is still enqueued.
        """
        buffer = self._buffer(tensor, "FreeTensor")
        core = self._core
        assert core is not None
        assert self._tpipe is not None
        if buffer.state is State.ENQUE:
            raise KernelError(f"FreeTensor: {tensor!r} is still enqueued", "DeQue() it first")
        core.scalar += core.spec.free_tensor
        event = self.free_event
        if event is not None:
            buffer.free_id = alloc_event(core, event)
            set_flag(core, event, buffer.free_id)
        buffer.state = State.FREE
        self._tpipe.count_live(self.source, -1)

    def HasTensorInQue(self) -> bool:
        """Return True if a tensor is enqueued."""
        return bool(self._fifo)

    def HasIdleBuffer(self) -> bool:
        """Return True if a buffer is free."""
        return any(buffer.state is State.FREE for buffer in self._buffers)

    def GetTensorCountInQue(self) -> int:
        """Return the number of enqueued tensors."""
        return len(self._fifo)

    def drain(self, core: Core) -> None:
        """Wait for the flags of freed buffers, and report tensors that were not freed; for TPipe.Destroy."""
        for buffer in self._buffers:
            if buffer.state is not State.FREE:
                remedy = "DeQue() and FreeTensor() it" if buffer.state is State.ENQUE else "FreeTensor() it"
                core.find(
                    Rule.TENSOR_NOT_FREED,
                    f"a tensor of {self._name()} allocated at {buffer.site} is still {buffer.state.value} at the end; "
                    f"{remedy}",
                    site=buffer.site,
                )
                if buffer.state is State.ENQUE and self.full_event is not None:
                    wait_flag(core, self.full_event, buffer.enque_id)
            if buffer.free_id >= 0:
                assert self.free_event is not None
                wait_flag(core, self.free_event, buffer.free_id)
                release_event(core, self.free_event, buffer.free_id)
                buffer.free_id = -1
        self._core = self._tpipe = self._memory = None
        self._buffers.clear()
        self._by_address.clear()

    def _buffer(self, tensor: LocalTensor, verb: str) -> _Buffer:
        buffer = self._by_address.get(tensor.address) if tensor.memory is self._memory else None
        if buffer is None:
            raise KernelError(
                f"{verb}: {tensor!r} is not a tensor of {self!r}", "give a queue a tensor that it allocated"
            )
        if buffer.state is State.FREE:
            raise KernelError(f"{verb}: {tensor!r} is not allocated", "AllocTensor() it first; a tensor is freed once")
        return buffer


class TQue(TQueBind):
    """A queue at one position, such as VECIN, VECOUT, A1, B1, A2, B2 or CO1 (Ascend C: TQue)."""

    def __init__(self, position: TPosition, depth: int = 1) -> None:
        super().__init__(position, position, depth)

    def _name(self) -> str:
        return f"TQue {self.source}"


class TBuf:
    """A buffer without a queue (Ascend C: TBuf). It sets no flags: the kernel orders its uses itself."""

    def __init__(self, position: TPosition = TPosition.VECCALC) -> None:
        self.position = position
        self._memory: LocalMemory | None = None
        self._address = 0
        self._length = 0
        self._tensors: dict[tuple[object, int, int], LocalTensor] = {}

    def __repr__(self) -> str:
        return f"<TBuf {self.position} {self._length} bytes>"

    def take_buffer(self, memory: LocalMemory, start: int, length: int) -> None:
        """Take *length* bytes of *memory* from byte *start* on; for TPipe.InitBuffer."""
        self._memory = memory
        self._address = start
        self._length = length
        self._tensors.clear()

    def Get(self, dtype: npt.DTypeLike, size: int | None = None) -> LocalTensor:
        """Return the buffer, or its first *size* elements, as a tensor of *dtype* (Ascend C: Get)."""
        resolved = dtype_of(dtype)
        return self.GetWithOffset(self._length // resolved.itemsize if size is None else size, 0, resolved)

    def GetWithOffset(self, size: int, offset: int, dtype: npt.DTypeLike) -> LocalTensor:
        """Return *size* elements of *dtype* from byte *offset* of the buffer on (Ascend C: GetWithOffset)."""
        size, offset = integer(size), integer(offset)
        key = (dtype, size, offset)
        tensor = self._tensors.get(key)
        if tensor is None:
            if self._memory is None:
                raise KernelError(f"{self!r} has no memory", "give it some with TPipe.InitBuffer()")
            resolved = dtype_of(dtype)
            nbytes = size * resolved.itemsize
            if not 0 <= offset <= offset + nbytes <= self._length:
                raise KernelError(f"{size} x {resolved} at byte {offset} do not fit in {self!r}", "make it larger")
            tensor = place(self.position, self._memory, self._address + offset, resolved, nbytes)
            self._tensors[key] = tensor
        return tensor


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
        core = self._core
        if core.tpipe is not self:
            raise KernelError(f"{self!r} was destroyed", "make a new TPipe")
        count, nbytes = (1, integer(first)) if length is None else (integer(first), integer(length))
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
        start = self._used.get(position.space, 0)
        if start + count * nbytes > memory.size:
            raise KernelError(
                f"{count} x {nbytes} bytes for {target!r} do not fit in {memory.name} of {core.program}: "
                f"{start} of {memory.size} bytes are given out",
                "use smaller or fewer buffers",
            )
        self._used[position.space] = start + count * nbytes
        if isinstance(target, TBuf):
            target.take_buffer(memory, start, nbytes)
        else:
            target.take_buffers(self, core, memory, start, count, nbytes)
            self._queues.append(target)

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
        """Call Destroy() and Init(): the next phase of a kernel can divide the memory anew (Ascend C: Reset)."""
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

    def count_live(self, position: TPosition, change: int) -> None:
        """Add *change* to the number of tensors allocated at *position*; for queues."""
        live = self._live.get(position, 0) + change
        if live > MAX_LIVE:
            raise KernelError(
                f"{live} tensors are allocated at {position} on {self._core.program}",
                f"a position has at most {MAX_LIVE} at a time, because each takes an event id; free some first",
            )
        self._live[position] = live


def GetTPipePtr() -> TPipe:
    """Return the TPipe of this core (Ascend C: GetTPipePtr); no pipe waits.

    Raises:
        KernelError: The kernel has made no TPipe yet, or destroyed it.
    """
    core = running()
    if not isinstance(core.tpipe, TPipe):
        raise KernelError(f"{core.program} has no TPipe", "make one first: pipe = TPipe()")
    return core.tpipe
