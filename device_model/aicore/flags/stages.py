"""Pipelines of stages: load, compute, store, each on its own pipe, with several tiles in flight.

Between two stages lies a link with *depth* slots. The stage before acquires a slot, fills it and commits it; the one
after waits for it, uses it and releases it. Two kinds do the same: `QueueLink` is a queue (AllocTensor, EnQue, DeQue,
FreeTensor), `FlagLink` says it with raw events, an id for each slot. So a pipeline that runs with queues shows, with
one word changed, which flags those set.

The scalar pipe issues the stages of a tile one after the other, and tile after tile. The pipes are in-order queues of
their own, so what lets tile n + 1 be loaded while tile n is computed is a free slot and not the order of issue.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from device_model.aicore.core.findings import KernelError
from device_model.aicore.core.machine import EVENT_IDS
from device_model.aicore.core.memories import BLOCK
from device_model.aicore.core.names import EVENT_OF, Pipe, TPosition
from device_model.aicore.core.tensors import LocalTensor, dtype_of
from device_model.aicore.flags.queues import TBuf, TPipe, TQueBind
from device_model.aicore.flags.sync import AllocEventID, ReleaseEventID, SetFlag, WaitFlag

Tensors = tuple[LocalTensor, ...]
Shapes = Sequence[tuple[npt.DTypeLike, int]]  # type and number of elements of each tensor
Stage = Callable[..., object]  # of the tile, the tensors of the stage before it, and those that it fills

_BYTES = np.dtype(np.uint8)
# By pipe of the stage before and after: as what a queue between them is filled, and used.
_POSITIONS = {
    (Pipe.MTE2, Pipe.V): (TPosition.VECIN, TPosition.VECIN),
    (Pipe.MTE2, Pipe.MTE3): (TPosition.VECIN, TPosition.VECOUT),
    (Pipe.V, Pipe.V): (TPosition.VECCALC, TPosition.VECCALC),
    (Pipe.V, Pipe.MTE3): (TPosition.VECOUT, TPosition.VECOUT),
}


class Link(Protocol):
    """The connection of two stages: *depth* slots, each with tensors of *shapes*."""

    def __init__(self, tpipe: TPipe, source: Pipe, destination: Pipe, depth: int, shapes: Shapes) -> None: ...

    def acquire(self) -> Tensors:
        """Return the tensors of a free slot, for the stage before."""

    def commit(self) -> None:
        """Mark the slot as full once the instructions issued so far have finished."""

    def wait(self) -> Tensors:
        """Return the tensors of the slot that was committed first, for the stage after."""

    def release(self) -> None:
        """Mark the slot as free once the instructions issued so far have finished."""

    def close(self) -> None:
        """End the link after the last tile."""


class QueueLink:
    """A link that is a queue with *depth* buffers."""

    def __init__(self, tpipe: TPipe, source: Pipe, destination: Pipe, depth: int, shapes: Shapes) -> None:
        self._queue = TQueBind(*_POSITIONS[source, destination], 1)
        self._shapes = shapes
        self._tensors: dict[LocalTensor, Tensors] = {}  # by buffer
        self._filling: LocalTensor
        self._using: LocalTensor
        tpipe.InitBuffer(self._queue, depth, _size_of(shapes))

    def acquire(self) -> Tensors:
        """AllocTensor."""
        self._filling = buffer = self._queue.AllocTensor(_BYTES)
        if buffer not in self._tensors:
            self._tensors[buffer] = _cut(buffer, self._shapes)
        return self._tensors[buffer]

    def commit(self) -> None:
        """EnQue."""
        self._queue.EnQue(self._filling)

    def wait(self) -> Tensors:
        """DeQue."""
        self._using = self._queue.DeQue()
        return self._tensors[self._using]

    def release(self) -> None:
        """FreeTensor."""
        self._queue.FreeTensor(self._using)

    def close(self) -> None:
        """Nothing: TPipe.Destroy waits for the flags of freed buffers."""


class FlagLink:
    """A link that is a buffer of *depth* parts, with two flags for each: it is full, it is free.

    All free flags are set before the first tile, and waited for after the last, or the next kernel would find them.
    """

    def __init__(self, tpipe: TPipe, source: Pipe, destination: Pipe, depth: int, shapes: Shapes) -> None:
        self._depth = depth
        self._filled = self._used = 0  # slots so far
        buffer, nbytes = TBuf(_POSITIONS[source, destination][0]), _size_of(shapes)
        tpipe.InitBuffer(buffer, depth * nbytes)
        self._slots = [_cut(buffer.GetWithOffset(nbytes, slot * nbytes, _BYTES), shapes) for slot in range(depth)]
        # None within the vector pipe, which keeps its order by itself.
        self._full, self._free = (
            EVENT_OF[ends] if source is not destination else None
            for ends in ((source, destination), (destination, source))
        )
        if self._full is None or self._free is None:
            return
        self._full_ids = [AllocEventID(self._full) for _ in range(depth)]
        self._free_ids = [AllocEventID(self._free) for _ in range(depth)]
        for event_id in self._free_ids:
            SetFlag(self._free, event_id)

    def acquire(self) -> Tensors:
        """Wait until the slot is free."""
        slot = self._filled % self._depth
        if self._free is not None:
            WaitFlag(self._free, self._free_ids[slot])
        return self._slots[slot]

    def commit(self) -> None:
        """Say that the slot is full."""
        if self._full is not None:
            SetFlag(self._full, self._full_ids[self._filled % self._depth])
        self._filled += 1

    def wait(self) -> Tensors:
        """Wait until the slot is full."""
        slot = self._used % self._depth
        if self._full is not None:
            WaitFlag(self._full, self._full_ids[slot])
        return self._slots[slot]

    def release(self) -> None:
        """Say that the slot is free."""
        if self._free is not None:
            SetFlag(self._free, self._free_ids[self._used % self._depth])
        self._used += 1

    def close(self) -> None:
        """Take the free flags back, and give the ids back."""
        if self._full is None or self._free is None:
            return
        for full_id, free_id in zip(self._full_ids, self._free_ids, strict=True):
            WaitFlag(self._free, free_id)
            ReleaseEventID(self._free, free_id)
            ReleaseEventID(self._full, full_id)


@dataclass(slots=True)
class _Step:
    """A stage between its links."""

    pipe: Pipe
    stage: Stage
    fills: Shapes
    before: Link | None
    after: Link | None = None


class Pipeline:
    """A chain of stages of a vector kernel: one that loads (MTE2), any number that compute (V), one that stores (MTE3).

        pipeline = Pipeline(pipe, depth=2)
        pipeline.AddStage(Pipe.MTE2, load, [(half, TILE), (half, TILE)])
        pipeline.AddStage(Pipe.V, add, [(half, TILE)])
        pipeline.AddStage(Pipe.MTE3, store)
        pipeline.Run(range(tiles))

    *depth* is how many tiles may be between two stages: with 1 they take turns, with 2 one is filled while the other is
    used. UB is taken from *tpipe*, depth times what the stages fill. *link* is QueueLink or FlagLink.
    """

    def __init__(self, tpipe: TPipe, depth: int = 2, link: type[Link] = QueueLink) -> None:
        if not 1 <= depth <= EVENT_IDS:
            raise KernelError(
                f"a pipeline of depth {depth}", f"a depth is 1 to {EVENT_IDS}: each slot takes an event id"
            )
        self.depth = depth
        self._tpipe = tpipe
        self._link = link
        self._steps: list[_Step] = []
        self._has_run = False

    def __repr__(self) -> str:
        stages = " -> ".join(f"{getattr(each.stage, '__name__', each.stage)} ({each.pipe})" for each in self._steps)
        return f"<Pipeline of depth {self.depth}: {stages or 'no stages'}>"

    def AddStage(self, pipe: Pipe, stage: Stage, fills: Shapes = ()) -> None:
        """Add `stage(tile, *used, *filled)`, whose instructions go to *pipe*, behind the stages there are.

        It uses the tensors that the stage before it fills, and fills some of its own: *fills* has their (dtype, number
        of elements). The last stage fills none. In a stage, only the pipe that is named may touch them.
        """
        if self._has_run:
            raise KernelError(f"{self!r} has run", "add all stages first")
        before: Link | None = None
        if self._steps:
            last = self._steps[-1]
            if (last.pipe, pipe) not in _POSITIONS:
                raise KernelError(
                    f"a stage on {pipe} behind one on {last.pipe}", "load on MTE2, compute on V, store on MTE3"
                )
            if not last.fills:
                raise KernelError(
                    f"a stage behind one that fills nothing in {self!r}", "give that stage the tensors that it fills"
                )
            before = last.after = self._link(self._tpipe, last.pipe, pipe, self.depth, last.fills)
        self._steps.append(_Step(pipe, stage, fills, before))

    def Run(self, tiles: Iterable[Any]) -> None:
        """Send each of *tiles* through all stages; once. A tile is any value, such as a number."""
        if self._has_run or len(self._steps) < 2 or self._steps[-1].fills:
            raise KernelError(
                f"Run() of {self!r}", "it takes two stages or more, of which the last fills nothing, and runs once"
            )
        self._has_run = True
        for tile in tiles:
            for each in self._steps:
                used = each.before.wait() if each.before else ()
                filled = each.after.acquire() if each.after else ()
                each.stage(tile, *used, *filled)
                if each.after:
                    each.after.commit()
                if each.before:
                    each.before.release()
        for each in self._steps:
            if each.after:
                each.after.close()


def _size_of(shapes: Shapes) -> int:
    """Bytes of a slot: each tensor takes whole blocks of 32."""
    for dtype, size in shapes:
        if size < 1:
            raise KernelError(f"a stage that fills {size} x {dtype_of(dtype)}", "a tensor has 1 element or more")
    return sum(-(-size * dtype_of(dtype).itemsize // BLOCK) * BLOCK for dtype, size in shapes)


def _cut(buffer: LocalTensor, shapes: Shapes) -> Tensors:
    """The tensors of a slot, behind each other in *buffer*."""
    tensors = []
    start = 0
    for dtype, size in shapes:
        tensors.append(buffer[start:].ReinterpretCast(dtype)[:size])
        start += _size_of([(dtype, size)])
    return tuple(tensors)
