"""Pipelines of stages on AI cores: load, compute, store, each on its own pipe (kernel/stages.py has what is the same).

There are two kinds of links with the same effect: `QueueLink` is a queue (AllocTensor, EnQue, DeQue, FreeTensor),
`FlagLink` uses raw events, with an id for each slot. Replace one by the other to see which flags a queue sets.

The scalar pipe issues the stages of a tile one after the other, and tile after tile. Each pipe takes its instructions
in order and independently of the others. So tile n + 1 is loaded while tile n is computed as soon as a slot is free;
the order of issue does not prevent it.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from device_model.aicore.core.machine import EVENT_IDS
from device_model.aicore.core.names import BLOCK, EVENT_OF, Pipe, TPosition
from device_model.aicore.core.packed import bytes_of
from device_model.aicore.core.tensors import LocalTensor, dtype_of
from device_model.aicore.flags.queues import TBuf, TQueBind
from device_model.aicore.flags.sync import AllocEventID, ReleaseEventID, SetFlag, WaitFlag
from device_model.aicore.flags.tpipe import TPipe
from device_model.kernel import stages
from device_model.kernel.findings import KernelError

Tensors = tuple[LocalTensor, ...]
Shapes = Sequence[tuple[npt.DTypeLike, int]]  # type and number of elements of each tensor

_BYTES = np.dtype(np.uint8)
# (pipe of the first stage, pipe of the second) -> the positions as which a queue between them is filled and used.
_POSITIONS = {
    (Pipe.MTE2, Pipe.V): (TPosition.VECIN, TPosition.VECIN),
    (Pipe.MTE2, Pipe.MTE3): (TPosition.VECIN, TPosition.VECOUT),
    (Pipe.V, Pipe.V): (TPosition.VECCALC, TPosition.VECCALC),
    (Pipe.V, Pipe.MTE3): (TPosition.VECOUT, TPosition.VECOUT),
}


class CoreLink(stages.Link, Protocol):
    """The connection of two stages: *depth* slots, each with tensors of *shapes*."""

    def __init__(self, tpipe: TPipe, source: Pipe, destination: Pipe, depth: int, shapes: Shapes) -> None: ...


class QueueLink:
    """A link that is a queue with *depth* buffers."""

    ahead = 0  # pipes go on without each other

    def __init__(self, tpipe: TPipe, source: Pipe, destination: Pipe, depth: int, shapes: Shapes) -> None:
        self._queue = TQueBind(*_POSITIONS[source, destination], 1)
        self._shapes = shapes
        self._tensors: dict[LocalTensor, Tensors] = {}  # by buffer
        self._filling: LocalTensor
        self._using: LocalTensor
        tpipe.InitBuffer(self._queue, depth, _size_of(shapes))

    def acquire(self) -> Tensors:
        """Call AllocTensor."""
        self._filling = buffer = self._queue.AllocTensor(_BYTES)
        if buffer not in self._tensors:
            self._tensors[buffer] = _cut(buffer, self._shapes)
        return self._tensors[buffer]

    def commit(self) -> None:
        """Call EnQue."""
        self._queue.EnQue(self._filling)

    def wait(self) -> Tensors:
        """Call DeQue."""
        self._using = self._queue.DeQue()
        return self._tensors[self._using]

    def release(self) -> None:
        """Call FreeTensor."""
        self._queue.FreeTensor(self._using)

    def close(self) -> None:
        """Do nothing, because TPipe.Destroy waits for the flags of freed buffers."""


class FlagLink:
    """A link that is a buffer of *depth* slots, with two flags for each slot: one for full, one for free.

    All free flags are set before the first tile, and waited for after the last. Otherwise the next kernel would find
    them set.
    """

    ahead = 0

    def __init__(self, tpipe: TPipe, source: Pipe, destination: Pipe, depth: int, shapes: Shapes) -> None:
        self._depth = depth
        self._filled = self._used = 0  # slots so far
        buffer, nbytes = TBuf(_POSITIONS[source, destination][0]), _size_of(shapes)
        tpipe.InitBuffer(buffer, depth * nbytes)
        self._slots = [_cut(buffer.GetWithOffset(nbytes, slot * nbytes, _BYTES), shapes) for slot in range(depth)]
        # Two stages on the vector pipe need no flags, because a pipe executes its instructions in order.
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
        """Let the pipe of the first stage wait until the next slot is free; return its tensors."""
        slot = self._filled % self._depth
        if self._free is not None:
            WaitFlag(self._free, self._free_ids[slot])
        return self._slots[slot]

    def commit(self) -> None:
        """Set the flag that the slot is full."""
        if self._full is not None:
            SetFlag(self._full, self._full_ids[self._filled % self._depth])
        self._filled += 1

    def wait(self) -> Tensors:
        """Let the pipe of the second stage wait until the next slot is full; return its tensors."""
        slot = self._used % self._depth
        if self._full is not None:
            WaitFlag(self._full, self._full_ids[slot])
        return self._slots[slot]

    def release(self) -> None:
        """Set the flag that the slot is free."""
        if self._free is not None:
            SetFlag(self._free, self._free_ids[self._used % self._depth])
        self._used += 1

    def close(self) -> None:
        """Wait for the free flags, and release the ids."""
        if self._full is None or self._free is None:
            return
        for full_id, free_id in zip(self._full_ids, self._free_ids, strict=True):
            WaitFlag(self._free, free_id)
            ReleaseEventID(self._free, free_id)
            ReleaseEventID(self._full, full_id)


class Pipeline(stages.StagePipeline):
    """The stages of a vector kernel: one that loads (MTE2), any number that compute (V), and one that stores (MTE3).

        pipeline = Pipeline(pipe, depth=2)
        pipeline.AddStage(Pipe.MTE2, load, [(half, TILE), (half, TILE)])
        pipeline.AddStage(Pipe.V, add, [(half, TILE)])
        pipeline.AddStage(Pipe.MTE3, store)
        pipeline.Run(range(tiles))

    Args:
        tpipe: The TPipe of this core. The stages take *depth* times the bytes that they fill from its UB.
        depth: How many tiles may be between two stages. With 1 the stages take turns; with 2, one slot is filled while
            the other is used.
        link: QueueLink or FlagLink.

    Raises:
        KernelError: *depth* is below 1 or above the number of event ids.
    """

    def __init__(self, tpipe: TPipe, depth: int = 2, link: type[CoreLink] = QueueLink) -> None:
        if not 1 <= depth <= EVENT_IDS:
            raise KernelError(
                f"a pipeline of depth {depth}", f"a depth is 1 to {EVENT_IDS}: each slot takes an event id"
            )
        super().__init__(depth)
        self._tpipe = tpipe
        self._link = link
        self._pipes: list[Pipe] = []

    def AddStage(self, pipe: Pipe, stage: stages.Stage, fills: Shapes = ()) -> None:
        """Add a stage after the others.

        Args:
            pipe: The pipe of its instructions; no other pipe may use the tensors of the stage.
            stage: Called as `stage(tile, *used, *filled)`, where *used* are the tensors that the stage before it
                filled, and *filled* its own.
            fills: (dtype, number of elements) for each tensor that it fills. The last stage fills none.

        Raises:
            KernelError: The pipeline has run, the stage before it fills nothing, the pipes do not follow each other as
                MTE2, V, MTE3, or the UB has too few free bytes.
        """
        last = self._pipes[-1] if self._pipes else None
        if last is not None and not self._has_run and (last, pipe) not in _POSITIONS:
            raise KernelError(f"a stage on {pipe} behind one on {last}", "load on MTE2, compute on V, store on MTE3")
        label = f"{getattr(stage, '__name__', stage)} ({pipe})"
        self._add(
            label, stage, fills, lambda shapes: self._link(self._tpipe, self._pipes[-1], pipe, self.depth, shapes)
        )
        self._pipes.append(pipe)

    def Run(self, tiles: Iterable[Any]) -> None:
        """Send each tile through all stages. Call it once.

        Args:
            tiles: Any values, such as numbers; each is passed to the stages.

        Raises:
            KernelError: The pipeline has run, has fewer than two stages, or its last stage fills tensors.
        """
        self._run(tiles)


def _size_of(shapes: Shapes) -> int:
    """Return the bytes of a slot, in which each tensor takes a multiple of 32 bytes."""
    for dtype, size in shapes:
        if size < 1:
            raise KernelError(f"a stage that fills {size} x {dtype_of(dtype)}", "a tensor has 1 element or more")
    return sum(-(-bytes_of(dtype_of(dtype), size) // BLOCK) * BLOCK for dtype, size in shapes)


def _cut(buffer: LocalTensor, shapes: Shapes) -> Tensors:
    """Return the tensors of a slot, one after the other in *buffer*."""
    tensors = []
    start = 0
    for dtype, size in shapes:
        tensors.append(buffer[start:].ReinterpretCast(dtype)[:size])
        start += _size_of([(dtype, size)])
    return tuple(tensors)
