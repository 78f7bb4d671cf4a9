"""TQue, TQueBind and TBuf: buffers of local memory, handed between pipes with their flags.

A buffer of a queue passes through four states: FREE, OCCUPIED (allocated), ENQUE (enqueued), DEQUE (dequeued), and
FREE again. Two flags keep the pipes in order:

    x = queue.AllocTensor(half)   waits for the flag of the last FreeTensor of this buffer (V_MTE2 for VECIN)
    DataCopy(x, x_gm, n)          MTE2 fills the buffer
    queue.EnQue(x)                sets a flag (MTE2_V)
    x = queue.DeQue()             waits for it
    Add(z, x, y, n)               V uses the buffer
    queue.FreeTensor(x)           sets a flag (V_MTE2)

So the pipe that uses a tensor starts after the pipe that fills it, and a buffer is not filled again while it is still
in use. The two events follow from the queue's position: which pipe fills buffers there, and which one uses them. The
buffers are a TPipe's, which divides the memory (tpipe.py).
"""

from collections import deque
from collections.abc import Callable
from enum import Enum
from operator import index as integer
from sys import _getframe
from typing import TYPE_CHECKING

import numpy.typing as npt

from device_model.aicore.core.findings import Rule
from device_model.aicore.core.machine import Core, running
from device_model.aicore.core.memories import LocalMemory
from device_model.aicore.core.names import BLOCK, EVENT_OF, Pipe, TPosition
from device_model.aicore.core.packed import bytes_of, elements_in
from device_model.aicore.core.tensors import LocalTensor, dtype_of, place
from device_model.aicore.flags.sync import alloc_event, release_event, set_flag, wait_flag
from device_model.kernel.findings import KernelError, KernelHangError
from device_model.kernel.sites import Site, instruction_of

if TYPE_CHECKING:
    from device_model.aicore.flags.bufpool import TBufPool

# Adds to the number of tensors that are allocated at a position (TPipe.count_live).
CountLive = Callable[[TPosition, int], None]

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
        self._count_live: CountLive | None = None
        self._memory: LocalMemory | None = None
        self._length = 0
        self._buffers: list[_Buffer] = []
        self._by_address: dict[int, _Buffer] = {}
        self._cursor = 0
        self._fifo: deque[tuple[_Buffer, LocalTensor]] = deque()
        self._promised = 0, 0, 0  # a handle, buffers, and bytes of each, of InitStartBufHandle

    def __repr__(self) -> str:
        states = ", ".join(buffer.state.value for buffer in self._buffers) or "no buffers"
        return f"<{self._name()} depth={self.depth}: {states}>"

    def _name(self) -> str:
        return f"TQueBind {self.source} to {self.destination}"

    def take_buffers(
        self, count_live: CountLive, core: Core, memory: LocalMemory, start: int, count: int, length: int
    ) -> None:
        """Take *count* buffers of *length* bytes from byte *start* of *memory* on; for TPipe.InitBuffer."""
        self._count_live = count_live
        self._core = core
        self._memory = memory
        self._length = length
        self._buffers = [_Buffer(start + index * length) for index in range(count)]
        self._by_address = {buffer.address: buffer for buffer in self._buffers}
        self._cursor = 0
        self._fifo.clear()

    def InitStartBufHandle(self, start_bufhandle: int, num: int, length: int) -> None:
        """Say how many buffers a pool of the kernel's own gives to the queue (Ascend C: InitStartBufHandle).

        Args:
            start_bufhandle: The handle of the first one, of `TBufPool.GetBufHandle`.
            num: The number of buffers.
            length: The bytes of each, a multiple of 32.

        Raises:
            KernelError: A number is impossible.
        """
        self._promised = promised(self, start_bufhandle, num, length)

    def InitBufHandle(self, buf_pool: "TBufPool", index: int, bufhandle: int, cur_pool_addr: int, length: int) -> None:
        """Give a buffer of a pool to the queue (Ascend C: InitBufHandle), in the order of their numbers.

        Args:
            buf_pool: The pool.
            index: The number of the buffer in the queue, from 0 on.
            bufhandle: The handle that InitStartBufHandle got.
            cur_pool_addr: Where it begins, in bytes from the start of the memory.
            length: Its bytes, as InitStartBufHandle has said.

        Raises:
            KernelError: InitStartBufHandle has not said so, or the bytes are not of the pool, or of another buffer.
        """
        handle, count, nbytes = self._promised
        number, given = integer(index), 0 if index == 0 else len(self._buffers)
        if number != given or number >= count or (bufhandle, length) != (handle, nbytes):
            raise KernelError(
                f"InitBufHandle of buffer {index}, {length} bytes, for {self!r} with handle {bufhandle}",
                f"InitStartBufHandle has said {count} buffers of {nbytes} bytes with handle {handle}, and the next one "
                f"is {given}",
            )
        pipe = buf_pool.room(self, cur_pool_addr, nbytes)
        if number == 0:
            self.take_buffers(pipe.count_live, pipe.core, pipe.core.memory(self.source.space), cur_pool_addr, 1, nbytes)
            return
        if cur_pool_addr in self._by_address:
            raise KernelError(f"InitBufHandle at {cur_pool_addr} for {self!r}", "another of its buffers begins there")
        self._buffers.append(_Buffer(integer(cur_pool_addr)))
        self._by_address[self._buffers[-1].address] = self._buffers[-1]

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
        assert self._count_live is not None
        self._count_live(self.source, 1)
        core.scalar += core.spec.alloc_tensor
        if buffer.free_id >= 0:
            assert self.free_event is not None
            wait_flag(core, self.free_event, buffer.free_id)
            release_event(core, self.free_event, buffer.free_id)
            buffer.free_id = -1
        buffer.state = State.OCCUPIED
        buffer.site = Site(*instruction_of(_getframe(1)))
        tensor = buffer.tensors.get(dtype)
        if tensor is None:
            assert self._memory is not None
            resolved = dtype_of(dtype)
            tensor = place(self.source, self._memory, buffer.address, resolved, self._length)
            buffer.tensors[dtype] = tensor
            tensor.kept_in = buffer.tensors, dtype
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
        assert self._count_live is not None
        if buffer.state is State.ENQUE:
            raise KernelError(f"FreeTensor: {tensor!r} is still enqueued", "DeQue() it first")
        core.scalar += core.spec.free_tensor
        event = self.free_event
        if event is not None:
            buffer.free_id = alloc_event(core, event)
            set_flag(core, event, buffer.free_id)
        buffer.state = State.FREE
        self._count_live(self.source, -1)

    def HasTensorInQue(self) -> bool:
        """Return True if a tensor is enqueued."""
        return bool(self._fifo)

    def HasIdleBuffer(self) -> bool:
        """Return True if a buffer is free."""
        return any(buffer.state is State.FREE for buffer in self._buffers)

    def GetTensorCountInQue(self) -> int:
        """Return the number of enqueued tensors."""
        return len(self._fifo)

    def FreeAllEvent(self) -> None:
        """Wait until the buffers that were freed are free, and give back their event ids (Ascend C: FreeAllEvent).

        The pipe that fills the queue waits.
        """
        if self._core is not None:
            self._wait_for_freed(self._core)

    def _wait_for_freed(self, core: Core) -> None:
        for buffer in self._buffers:
            if buffer.free_id >= 0:
                assert self.free_event is not None
                wait_flag(core, self.free_event, buffer.free_id)
                release_event(core, self.free_event, buffer.free_id)
                buffer.free_id = -1

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
        self._wait_for_freed(core)
        self._core = self._count_live = self._memory = None
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
        self._promised = 0, 0, 0

    def __repr__(self) -> str:
        return f"<TBuf {self.position} {self._length} bytes>"

    def take_buffer(self, memory: LocalMemory, start: int, length: int) -> None:
        """Take *length* bytes of *memory* from byte *start* on; for TPipe.InitBuffer."""
        self._memory = memory
        self._address = start
        self._length = length
        self._tensors.clear()

    def InitStartBufHandle(self, start_bufhandle: int, num: int, length: int) -> None:
        """Say that a pool of the kernel's own gives the buffer (Ascend C: InitStartBufHandle); as that of a queue.

        Raises:
            KernelError: A number is impossible; *num* is 1.
        """
        self._promised = promised(self, start_bufhandle, num, length)
        if self._promised[1] != 1:
            raise KernelError(f"InitStartBufHandle of {num} buffers for {self!r}", "a TBuf has 1")

    def InitBufHandle(self, buf_pool: "TBufPool", index: int, bufhandle: int, cur_pool_addr: int, length: int) -> None:
        """Give a buffer of a pool to the TBuf (Ascend C: InitBufHandle); as that of a queue.

        Raises:
            KernelError: InitStartBufHandle has not said so, or the bytes are not of the pool.
        """
        handle, count, nbytes = self._promised
        if integer(index) or (bufhandle, 1, length) != self._promised:
            raise KernelError(
                f"InitBufHandle of buffer {index}, {length} bytes, for {self!r} with handle {bufhandle}",
                f"InitStartBufHandle has said {count} of {nbytes} bytes with handle {handle}, and it has number 0",
            )
        pipe = buf_pool.room(self, cur_pool_addr, length)
        self.take_buffer(pipe.core.memory(self.position.space), integer(cur_pool_addr), length)

    def Get(self, dtype: npt.DTypeLike, size: int | None = None) -> LocalTensor:
        """Return the buffer, or its first *size* elements, as a tensor of *dtype* (Ascend C: Get)."""
        resolved = dtype_of(dtype)
        return self.GetWithOffset(elements_in(resolved, self._length) if size is None else size, 0, resolved)

    def GetWithOffset(self, size: int, offset: int, dtype: npt.DTypeLike) -> LocalTensor:
        """Return *size* elements of *dtype* from byte *offset* of the buffer on (Ascend C: GetWithOffset)."""
        size, offset = integer(size), integer(offset)
        key = (dtype, size, offset)
        tensor = self._tensors.get(key)
        if tensor is None:
            if self._memory is None:
                raise KernelError(f"{self!r} has no memory", "give it some with TPipe.InitBuffer()")
            resolved = dtype_of(dtype)
            nbytes = bytes_of(resolved, size)
            if not 0 <= offset <= offset + nbytes <= self._length:
                raise KernelError(f"{size} x {resolved} at byte {offset} do not fit in {self!r}", "make it larger")
            tensor = place(self.position, self._memory, self._address + offset, resolved, nbytes)
            self._tensors[key] = tensor
            tensor.kept_in = self._tensors, key
        return tensor


def promised(target: TQueBind | TBuf, handle: int, num: int, length: int) -> tuple[int, int, int]:
    """Return what InitStartBufHandle says: a handle, the number of buffers, and the bytes of each."""
    count, nbytes = integer(num), integer(length)
    if count < 1 or nbytes < 1 or nbytes % BLOCK:
        raise KernelError(
            f"InitStartBufHandle of {count} x {nbytes} bytes for {target!r}",
            f"both are 1 or more, and the bytes a multiple of {BLOCK}",
        )
    core = running()
    core.scalar += core.spec.init_buffer
    return integer(handle), count, nbytes
