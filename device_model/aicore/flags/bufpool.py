"""TBufPool: a part of a memory that a kernel divides among queues and buffers, several times if it likes.

Two pools may have the same bytes. A kernel fills one of them, calls its Reset(), and then fills the other.

A subclass may divide its bytes in its own way, with gaps, or with bytes that several queues share (Ascend C:
EXTERN_IMPL_BUFPOOL). Its InitBuffer asks GetCurAddr for the next free byte, gives buffers to the queue with
InitStartBufHandle and InitBufHandle, and says with SetCurAddr and SetCurBufSize what is given out then.
"""

from typing import TYPE_CHECKING

from device_model.aicore.core.names import BLOCK, Space, TPosition
from device_model.aicore.core.tensors import whole
from device_model.aicore.flags.queues import TBuf, TQueBind
from device_model.kernel.findings import KernelError

if TYPE_CHECKING:
    from device_model.aicore.flags.tpipe import TPipe

MAX_BUFFERS = 16  # of a pool; the vendor's default is 4


class TBufPool:
    """A part of a memory, which TPipe.InitBufPool gives it (Ascend C: TBufPool).

    Args:
        position: A position in the memory, UB or L1.
        buffers: How many buffers it has at most, 1 to 16.

    Raises:
        KernelError: The position lies in another memory, or the number is impossible.
    """

    def __init__(self, position: TPosition = TPosition.VECCALC, buffers: int = 4) -> None:
        if position.space not in (Space.UB, Space.L1):
            raise KernelError(f"a TBufPool at {position}", "pools lie in UB (VECCALC and others) or L1 (A1, B1)")
        if not 1 <= whole("TBufPool: the number of buffers", buffers) <= MAX_BUFFERS:
            raise KernelError(f"a TBufPool of {buffers} buffers", f"it has 1 to {MAX_BUFFERS}")
        self.position = position
        self._most = buffers
        self._pipe: TPipe | None = None
        self._start = self._length = self._used = self._count = 0
        self._queues: list[TQueBind] = []

    def __repr__(self) -> str:
        if self._pipe is None:
            return f"<TBufPool {self.position} without memory>"
        return f"<TBufPool {self.position} {self._used} of {self._length} bytes given out>"

    @property
    def length(self) -> int:
        """Its bytes."""
        return self._length

    @property
    def start(self) -> int:
        """The address of its first byte."""
        return self._start

    def take(self, pipe: "TPipe", start: int, length: int) -> None:
        """Take *length* bytes from byte *start* on; for InitBufPool."""
        self._pipe, self._start, self._length = pipe, start, length
        self._used = self._count = 0

    def InitBufPool(self, pool: "TBufPool", length: int, share: "TBufPool | None" = None) -> None:
        """Give a part of this pool to another one (Ascend C: InitBufPool).

        Args:
            pool: The pool that gets it.
            length: Its bytes, which are rounded up to 32.
            share: A pool of this one whose bytes it gets, too: they begin at the same byte.

        Raises:
            KernelError: This pool has no memory, too few bytes, or *share* is smaller or in another memory.
        """
        pipe, nbytes = self._given(), rounded(length)
        pool.take(pipe, share_of(pool, share, nbytes) if share is not None else self.next_bytes(nbytes), nbytes)

    def InitBuffer(self, target: TQueBind | TBuf, first: int, length: int | None = None) -> None:
        """Give buffers to a queue, or one buffer to a TBuf (Ascend C: InitBuffer); see `TPipe.InitBuffer`.

        Raises:
            KernelError: As for TPipe.InitBuffer, or the pool has more buffers than it was made for.
        """
        pipe = self._given()
        self._count += 1 if length is None else whole("InitBuffer: the number of buffers", first)
        if self._count > self._most:
            raise KernelError(f"{self._count} buffers in {self!r}", f"it was made for {self._most}: TBufPool(..., 16)")
        pipe.give(target, first, length, self)
        if isinstance(target, TQueBind):
            self._queues.append(target)

    def GetBufHandle(self, offset: int) -> int:
        """Return the handle of buffer *offset* (Ascend C: GetBufHandle), for InitStartBufHandle and InitBufHandle.

        Raises:
            KernelError: The pool was made for fewer buffers.
        """
        number = whole("GetBufHandle: offset", offset)
        if not 0 <= number < self._most:
            raise KernelError(f"GetBufHandle({number}) of {self!r}", f"it was made for {self._most}: TBufPool(..., 16)")
        return number

    def GetCurAddr(self) -> int:
        """Return where the bytes begin that are not given out (Ascend C: GetCurAddr), from the start of the memory."""
        self._given()
        return self._start + self._used

    def SetCurAddr(self, cur_addr: int) -> None:
        """Set where the bytes begin that are not given out (Ascend C: SetCurAddr).

        Raises:
            KernelError: It is outside the pool, or not a multiple of 32.
        """
        self._given()
        used = whole("SetCurAddr: cur_addr", cur_addr) - self._start
        if not 0 <= used <= self._length or used % BLOCK:
            raise KernelError(
                f"SetCurAddr({cur_addr}) of {self!r}",
                f"it is a multiple of {BLOCK} from {self._start} to {self._start + self._length}",
            )
        self._used = used

    def GetCurBufSize(self) -> int:
        """Return how many buffers are given out (Ascend C: GetCurBufSize)."""
        return self._count

    def SetCurBufSize(self, cur_buf_size: int) -> None:
        """Set how many buffers are given out (Ascend C: SetCurBufSize).

        Raises:
            KernelError: The pool was made for fewer.
        """
        count = whole("SetCurBufSize: cur_buf_size", cur_buf_size)
        if not 0 <= count <= self._most:
            raise KernelError(f"SetCurBufSize({count}) of {self!r}", f"it was made for {self._most}: TBufPool(..., 16)")
        self._count = count

    def room(self, target: TQueBind | TBuf, address: int, length: int) -> "TPipe":
        """Return the TPipe, after a check of the bytes that InitBufHandle gives to *target*; they must be of this pool.

        A queue is drained by Reset().
        """
        pipe, start = self._given(), whole("InitBufHandle: cur_pool_addr", address)
        position = target.position if isinstance(target, TBuf) else target.source
        if not self._start <= start <= start + length <= self._start + self._length or start % BLOCK:
            raise KernelError(
                f"InitBufHandle of {length} bytes at {start} for {target!r}",
                f"{self!r} has bytes {self._start} to {self._start + self._length}, and a buffer begins at a multiple "
                f"of {BLOCK}",
            )
        if position.space is not self.position.space:
            raise KernelError(f"InitBufHandle for {target!r} from {self!r}", "both lie in one memory")
        if isinstance(target, TQueBind) and target not in self._queues:
            self._queues.append(target)
        return pipe

    def next_bytes(self, nbytes: int) -> int:
        """Return where the next *nbytes* begin, and give them out."""
        if self._used + nbytes > self._length:
            raise KernelError(f"{nbytes} bytes of {self!r}", "use smaller or fewer buffers")
        start = self._start + self._used
        self._used += nbytes
        return start

    def Reset(self) -> None:
        """Wait for all buffers of its queues, and give all bytes out again (Ascend C: Reset)."""
        core = self._given().core
        for queue in self._queues:
            queue.drain(core)
        self._queues.clear()
        self._used = self._count = 0

    def _given(self) -> "TPipe":
        if self._pipe is None:
            raise KernelError(f"{self!r}", "give it some with TPipe.InitBufPool(pool, bytes) first")
        return self._pipe


def rounded(length: int) -> int:
    """Return *length* in whole blocks; raise KernelError if it is below 1."""
    nbytes = whole("InitBufPool: the length", length)
    if nbytes < 1:
        raise KernelError(f"InitBufPool of {nbytes} bytes", "it must be 1 or more")
    return -(-nbytes // BLOCK) * BLOCK


def share_of(pool: TBufPool, share: TBufPool, nbytes: int) -> int:
    """Return where *share* begins, whose bytes *pool* gets, too."""
    if share.position.space is not pool.position.space or nbytes > share.length:
        raise KernelError(
            f"InitBufPool of {nbytes} bytes at {pool.position} that shares those of {share!r}",
            "both lie in one memory, and the shared one is as long or longer",
        )
    return share.start
