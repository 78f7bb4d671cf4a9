"""The arena of a device, and the pool of the stream-ordered allocator on top of it.

The arena gives out addresses and counts bytes. It gives no address out twice, so a use after free is always found.

The pool gives its addresses out again, as the documented allocator does, each time as a new allocation. The pool does
not know streams. It asks the caller of `take` to rank its free blocks, because the verb knows which block was freed
before its own stream's work.
"""

from collections.abc import Callable
from math import lcm
from typing import TYPE_CHECKING, NamedTuple

from device_model.errors import Kind
from device_model.memory.allocation import DEVICE_BASE, Buffer, Origin, size_text

if TYPE_CHECKING:
    from device_model.memory.registry import Memory

DEVICE_SPAN = 1 << 52  # the addresses of one device

_GRANULE = 512


class Limit(NamedTuple):
    """A device gives out at most *nbytes*, because a fault rule says so.

    *refused* is called with the name of each call that is refused for it, and returns the reason for the message.
    """

    nbytes: int
    refused: Callable[[str], str]


class Arena:
    """The memory of one device: how many bytes are taken, and the next address."""

    __slots__ = ("_end", "_next", "alignment", "capacity", "device", "limits", "used")

    def __init__(self, device: int, capacity: int, alignment: int) -> None:
        self.device = device
        self.capacity = capacity
        self.used = 0
        self.limits: list[Limit] = []  # those of fault rules
        self.alignment = alignment
        self._next = DEVICE_BASE + device * DEVICE_SPAN
        self._end = self._next + DEVICE_SPAN

    @property
    def free(self) -> int:
        """The bytes that are not taken."""
        return self.capacity - self.used

    def size(self, nbytes: int) -> int:
        """Return how many bytes *nbytes* take: the next multiple of the alignment."""
        return -(-nbytes // self.alignment) * self.alignment

    def has_room(self, nbytes: int) -> bool:
        """Whether there are *nbytes*, and addresses for them."""
        if self.limits and self.limit_for(nbytes) is not None:
            return False
        return self.size(nbytes) <= self.free and self._next + self.size(nbytes) + self.alignment <= self._end

    def limit_for(self, nbytes: int) -> "Limit | None":
        """Return the limit that *nbytes* more would exceed, or None."""
        return next((limit for limit in self.limits if self.used + self.size(nbytes) > limit.nbytes), None)

    def take(self, nbytes: int) -> int:
        """Take *nbytes* and return their address."""
        assert self.has_room(nbytes), f"device {self.device} has no room for {nbytes} bytes"
        address = self._next
        # A gap of addresses, without memory: the address right behind an allocation must not be the start of the next.
        self._next += self.size(nbytes) + self.alignment
        self.used += self.size(nbytes)
        return address

    def give(self, nbytes: int) -> None:
        """Give back what *nbytes* took."""
        self.used -= self.size(nbytes)
        assert self.used >= 0, f"device {self.device} got back more than it gave"


class Block:
    """A free part of the pool. *stream* and *free_op* say which FreeAsync freed it.

    *free_op* is the operation after which it is free on the device, None if that is so already.
    """

    __slots__ = ("address", "free_op", "nbytes", "stream")

    def __init__(self, address: int, nbytes: int, stream: object, free_op: object) -> None:
        self.address = address
        self.nbytes = nbytes
        self.stream = stream
        self.free_op = free_op

    def __repr__(self) -> str:
        return f"<Block 0x{self.address:x} of {self.nbytes} bytes, free_op={self.free_op!r}>"


class Pool:
    """Blocks of the stream-ordered allocator: each device has a pool, and a program may make others.

    Blocks are multiples of 512 bytes. A block that is larger than needed is split, and the rest stays free under the
    same FreeAsync. Free blocks stay in the pool until `trim`, which the runtime calls at synchronisations with the
    pool's `release_threshold`. A pool of *max_bytes* takes no more from its device; 0 is no limit.
    """

    def __init__(self, memory: "Memory", arena: Arena, max_bytes: int = 0) -> None:
        self._memory = memory
        self._arena = arena
        self._max_bytes = max_bytes
        self.is_destroyed = False
        self._granule = lcm(_GRANULE, arena.alignment)
        self._unused: list[Block] = []  # free blocks, the longest unused first
        self._leaving: list[Block] = []  # Malloc's memory that FreeAsync freed: goes back to the device
        self.release_threshold = 0
        self.reserved_current = 0
        self.reserved_high = 0
        self.used_current = 0
        self.used_high = 0

    def __repr__(self) -> str:
        return f"<Pool device {self._arena.device}: {self.used_current} bytes of {self.reserved_current} used>"

    @property
    def device(self) -> int:
        """The number of the device that the memory is on; -1 for memory of the host."""
        return self._arena.device

    @property
    def unused(self) -> tuple[Block, ...]:
        """The free blocks, the longest unused first."""
        return tuple(self._unused)

    @property
    def is_holding(self) -> bool:
        """Whether `trim` could give bytes back to the device, now or later."""
        return bool(self._unused or self._leaving)

    def has_room(self, nbytes: int, order: Callable[[Block], int | None]) -> bool:
        """Whether `take` would find a free block or make a new one."""
        size = self._size(nbytes)
        return self._choose(size, order) is not None or (self._may_grow(size) and self._arena.has_room(size))

    def _may_grow(self, size: int) -> bool:
        return not self._max_bytes or self.reserved_current + size <= self._max_bytes

    def take(
        self,
        nbytes: int,
        order: Callable[[Block], int | None],
        made: object = None,
        stream: object = None,  # noqa: ARG002 - a card needs the stream
    ) -> tuple[Buffer, object | None]:
        """Take *nbytes*: a free block that *order* allows, or otherwise a new one.

        *order* ranks a block, or returns None if it must not be reused here. The smallest rank wins, then the best fit,
        then the longest unused. *stream* is the one that asks. Returns the buffer, and the
        `free_op` of a block that was reused.
        """
        nbytes = self._memory.check_size(nbytes, Origin.POOL)
        size = self._size(nbytes)
        block = self._choose(size, order)
        if block is None:
            self._check_limit(size)
            self._memory.check_room(self._arena, size, nbytes, Origin.POOL)
            view, cold = self._memory.create_backing(nbytes, Origin.POOL)
            address, free_op = self._arena.take(size), None
            self._count_reserved(size)
        else:
            # New bytes, because work that was queued before the FreeAsync may still run on the old ones.
            view, cold = self._memory.create_backing(nbytes, Origin.POOL)
            address, free_op = block.address, block.free_op
            self._cut(block, size)
        self._count_used(size)
        buffer = self._memory.begin_on_device(address, nbytes, self._arena.device, Origin.POOL, view, cold, made)
        buffer.allocation.pool = self
        return buffer, free_op

    def _check_limit(self, size: int) -> None:
        if not self._may_grow(size):
            what = f"a pool of at most {size_text(self._max_bytes)} has no room for {size_text(size)} more"
            raise self._memory.fail(Kind.OUT_OF_MEMORY, what, "free memory of the pool, or make it larger")

    def _count_reserved(self, size: int) -> None:
        self.reserved_current += size
        self.reserved_high = max(self.reserved_high, self.reserved_current)

    def _count_used(self, size: int) -> None:
        self.used_current += size
        self.used_high = max(self.used_high, self.used_current)

    def _size(self, nbytes: int) -> int:
        return -(-nbytes // self._granule) * self._granule

    def _choose(self, size: int, order: Callable[[Block], int | None]) -> Block | None:
        best: Block | None = None
        best_key = (0, 0)
        for block in self._unused:
            if block.nbytes < size or (rank := order(block)) is None:
                continue
            if best is None or (rank, block.nbytes) < best_key:
                best, best_key = block, (rank, block.nbytes)
        return best

    def _cut(self, block: Block, size: int) -> None:
        index = self._unused.index(block)
        if block.nbytes == size:
            del self._unused[index]
        else:
            self._unused[index] = Block(block.address + size, block.nbytes - size, block.stream, block.free_op)

    def give(self, thing: object, stream: object, free_op: object, site: object) -> None:
        """Free an allocation in stream order.

        Memory of MallocAsync becomes a free block, memory of Malloc goes back to the device at a synchronisation. The
        host may no longer name the allocation. Its bytes stay for work that was queued earlier, until `Allocation.drop`
        is called at the end of *free_op*; without a *free_op* they are dropped at once.
        """
        allocation = self._memory.root(thing, "FreeAsync", Origin.POOL, Origin.MALLOC)
        home = self._memory.pool_of(allocation)
        if allocation.origin is Origin.MALLOC:
            home._leaving.append(Block(allocation.address, allocation.nbytes, stream, free_op))
        else:
            size = home._size(allocation.nbytes)
            home._unused.append(Block(allocation.address, size, stream, free_op))
            home.used_current -= size
        self._memory.end_life(allocation, site, drop=free_op is None)
        if home.is_destroyed:
            home.trim(0)

    def trim(self, keep_bytes: int, is_done: Callable[[Block], bool] | None = None) -> int:
        """Give free blocks back to the device, the longest unused first, but keep *keep_bytes* reserved.

        Only blocks whose FreeAsync has completed go back: *is_done* says so of a block. Without it all have, after a
        synchronisation of the device. Returns the number of bytes given back.
        """
        before = self._arena.used
        leaving, self._leaving = self._leaving, []
        for block in leaving:
            if is_done is None or is_done(block):
                self._arena.give(block.nbytes)
            else:
                self._leaving.append(block)
        unused, self._unused = self._unused, []
        for block in unused:
            if self.reserved_current - block.nbytes >= keep_bytes and (is_done is None or is_done(block)):
                self._arena.give(block.nbytes)
                self.reserved_current -= block.nbytes
            else:
                self._unused.append(block)
        return before - self._arena.used

    def reset_high(self) -> None:
        """Set the high-water marks to the current use."""
        self.reserved_high = self.reserved_current
        self.used_high = self.used_current

    def destroy(self) -> None:
        """Give all blocks back; those in use go back when they are freed."""
        self.is_destroyed = True
        self.trim(0)


class AddressedPool(Pool):
    """Stream-ordered memory that the host reaches too: pinned, or managed.

    Its addresses are those of the host, so no block is used again: it goes back when it is freed.
    """

    def __init__(self, memory: "Memory", arena: Arena, max_bytes: int = 0, *, is_managed: bool) -> None:
        super().__init__(memory, arena, max_bytes)
        self.is_managed = is_managed

    @property
    def device(self) -> int:
        """The number of the device whose reset frees the memory; -1 for memory of the host."""
        return self._arena.device if self.is_managed else -1

    def has_room(self, nbytes: int, order: Callable[[Block], int | None]) -> bool:  # noqa: ARG002 - it has no blocks
        """Whether `take` would find room."""
        return self._may_grow(self._size(nbytes))

    def take(
        self,
        nbytes: int,
        order: Callable[[Block], int | None],  # noqa: ARG002 - it has no blocks
        made: object = None,
        stream: object = None,  # noqa: ARG002 - nor an order
    ) -> tuple[Buffer, object | None]:
        """Take *nbytes*, which are new memory."""
        nbytes = self._memory.check_size(nbytes, Origin.POOL)
        size = self._size(nbytes)
        self._check_limit(size)
        buffer = self._memory.create_addressed(self.device, nbytes, Origin.POOL, made, is_managed=self.is_managed)
        buffer.allocation.pool = self
        self._count_reserved(size)
        self._count_used(size)
        return buffer, None

    def give(self, thing: object, stream: object, free_op: object, site: object) -> None:  # noqa: ARG002
        """Free an allocation in stream order; its bytes stay until *free_op* is done."""
        allocation = self._memory.root(thing, "FreeAsync", Origin.POOL)
        self._memory.end_addressed(allocation, site, drop=free_op is None)
        self.reserved_current -= self._size(allocation.nbytes)
        self.used_current -= self._size(allocation.nbytes)
