"""What a vector core asks of the cube core of its block for a Matmul object, and how the cube core serves it.

A request is a message and a cross-core flag. A flag back says that it is done. While a vector core works on a piece of
C, the cube core computes the next one.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from device_model.aicore.core.machine import Core
from device_model.aicore.core.names import CoreType, Pipe
from device_model.aicore.core.tensors import GlobalTensor
from device_model.aicore.cube.matmul_cube import Cube, Job
from device_model.aicore.cube.matmul_tiling import TCubeTiling
from device_model.aicore.flags.crossing import CrossCoreSetFlag, CrossCoreWaitFlag
from device_model.aicore.moving.atomics import SetAtomicAdd, SetAtomicMax, SetAtomicMin, SetAtomicNone
from device_model.kernel.findings import KernelError

ASK, ANSWER = 0, 1  # cross-core flags
MESSAGE_WORDS = 8  # words of 8 bytes, one cache line, written and read by the scalar pipes


class Message(NamedTuple):
    """A request of a vector core: a piece of *job* to *dst*, all pieces (*piece* None), or the end (*job* None).

    *cube* is the number of the object among those that were registered together.
    """

    job: Job | None
    piece: int | None = None
    dst: GlobalTensor | None = None
    row: int = 0  # elements from one row of dst to the next
    atomic: int = 0  # how C is combined with the contents of dst
    others: "tuple[Message, ...]" = ()  # whole products that follow, of a batch
    cube: int = 0
    sequential: bool = False  # whether pieces lie one behind the other


# What enAtomic means: 0 overwrites.
_ATOMICS = {1: SetAtomicAdd, 2: SetAtomicMax, 3: SetAtomicMin}


def place_of(tiling: TCubeTiling, index: int, down: int, row: int, width: int) -> int:
    """Return the first element of piece *index* of C, of which there are *down* below each other.

    *row* is from one row of C to the next in elements; in NZ, with fractals of *width* columns, the rows of a column.
    """
    across, below = divmod(index, down)
    if width:
        return across * tiling.base_n * row + below * tiling.base_m * width
    return below * tiling.base_m * row + across * tiling.base_n


def vectors_of(core: Core) -> list[Core]:
    """Return the vector cores of the block of *core*."""
    block = core.program.block
    return [each for each in core.crossing.cores if each.core_type is CoreType.AIV and each.program.block == block]


def serve(core: Core, cubes: Sequence[Cube], vectors: int, begin: Callable[[], None]) -> None:
    """Serve the requests of the vector cores of the block, for one of *cubes* each, until all of them have ended.

    If there are no cubes at the first request, *begin* makes one.
    """
    mail = core.crossing.mail
    block = core.program.block
    ahead: dict[int, _Ahead] = {}  # for each vector core, the piece computed before it asked
    has_ended = False
    while not has_ended:
        CrossCoreWaitFlag(ASK)
        core.scalar += MESSAGE_WORDS * core.spec.get_value
        messages = [mail["ask", block, sub].popleft() for sub in range(vectors)]
        has_ended = all(message.job is None for message in messages)
        numbers = {message.cube for message in messages if message.job is not None}
        if numbers and not cubes:
            begin()
        # Pieces that are there leave L0C before others are computed.
        for sub, message in enumerate(messages):
            if sub in ahead:
                known = ahead.pop(sub)
                if (*message[:2], message.cube) == (*known[:2], known.cube):
                    _store(cubes[message.cube], message, known.result)
                    messages[sub] = message._replace(dst=None)
        for message in messages:
            if message.dst is not None:
                compute(cubes[message.cube], message)
        for sub in range(vectors):
            mail.setdefault(("answer", block, sub), deque()).append(has_ended)
        CrossCoreSetFlag(2, Pipe.FIX, ANSWER)
        for sub, message in enumerate(messages):
            # Objects use the same bytes of L0C: those of two of them cannot be there at one time.
            if message.piece is None or len(numbers) > 1:
                continue
            cube = cubes[message.cube]
            if len(ahead) < cube.results:
                down, across = cube.pieces(message.job)
                following = message.piece + 1
                column, row = divmod(following, down)
                if following < down * across and message.job.has(row, column):
                    result = cube.compute(message.job, row, column)
                    ahead[sub] = _Ahead(message.job, following, result, message.cube)
    for cube in cubes:
        cube.close()


class _Ahead(NamedTuple):
    """A piece that was computed before its request."""

    job: Job
    piece: int
    result: Any
    cube: int


def compute(cube: Cube, message: Message) -> None:
    """Compute and store the piece that *message* requests, or all pieces."""
    assert message.job is not None
    assert message.dst is not None
    down, across = cube.pieces(message.job)
    if message.piece is not None:
        column, row = divmod(message.piece, down)
        if message.job.has(row, column):
            _store(cube, message, cube.compute(message.job, row, column))
        return
    for index in range(down * across):
        at = place_of(cube.tiling, index, down, message.row, message.job.width)
        if message.sequential:
            at = index * cube.tiling.base_m * cube.tiling.base_n
        compute(cube, message._replace(piece=index, dst=message.dst[at:]))
    for other in message.others:
        compute(cube, other)


def checked_atomic(en_atomic: int) -> int:
    """Return *en_atomic*; raise KernelError if it is no such number."""
    if en_atomic not in (0, *_ATOMICS):
        raise KernelError(
            f"en_atomic {en_atomic!r}", "0 overwrites, 1 adds, 2 keeps the larger and 3 the smaller number"
        )
    return en_atomic


def _store(cube: Cube, message: Message, result: Any) -> None:
    job, index, dst, row, atomic = message[:5]
    assert job is not None
    assert index is not None
    assert dst is not None
    down, _ = cube.pieces(job)
    column = index // down
    m = min(cube.tiling.base_m, job.m - index % down * cube.tiling.base_m)
    n = min(cube.tiling.base_n, job.n - column * cube.tiling.base_n)
    if atomic:
        _ATOMICS[atomic](dst.dtype)
    cube.store(result, job, column, dst, m, n, row)
    if atomic:
        SetAtomicNone()
