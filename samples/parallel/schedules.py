"""The schedules of a pipeline as data: for each rank its tasks, in their order, and what each of them needs.

A micro-batch goes forwards (F) through the stages of its way, and backwards (B) again. What B does for the weights (W)
may be a task of its own; then what is left of B is its part for the inputs (b).

    F of a stage needs F of the stage before it
    B, or b, needs that of the stage behind it; at the last stage it needs F
    W needs b of its stage

DualPipe has two ways through the same ranks, in opposite directions, and does F of one and B of the other in one task.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple


class Part(NamedTuple):
    """What a task does with one micro-batch at one stage of a way."""

    kind: str  # "F", "B", "b" or "W"
    way: int
    stage: int
    micro: int


Task = tuple[Part, ...]  # one part, or F and B at the same time
Order = list[list[Task]]  # by rank


class Times(NamedTuple):
    """How long a rank takes for one micro-batch, in microseconds: F, the whole of B, what of that is W, and F&B."""

    forward: float
    backward: float
    weights: float
    fused: float


class Schedule(NamedTuple):
    """A schedule: the tasks of so many ranks and micro-batches, and in closed form how long a rank idles."""

    name: str
    order: Callable[[int, int], Order]
    idle: Callable[[int, Times], float]
    chunks: int = 1  # stages of a way that a rank has
    per: Callable[[int], int] = lambda ranks: 1  # noqa: ARG005 - micro-batches come in multiples of this
    least: Callable[[int], int] = lambda ranks: 1  # noqa: ARG005 - micro-batches

    def allows(self, ranks: int, micros: int) -> bool:
        """Whether it can have so many micro-batches."""
        return micros % self.per(ranks) == 0 and micros >= self.least(ranks)


def needs(part: Part, last: int) -> Iterator[Part]:
    """Yield what must be over before *part*, where *last* is the last stage of its way; "B" stands for "b", too."""
    kind, way, stage, micro = part
    if kind == "W":
        yield Part("B", way, stage, micro)
    elif kind == "F":
        if stage:
            yield Part("F", way, stage - 1, micro)
    elif stage == last:
        yield Part("F", way, stage, micro)
    else:
        yield Part("B", way, stage + 1, micro)


def gpipe(ranks: int, micros: int) -> Order:
    """All micro-batches forwards, then all of them backwards, the last one first."""
    forwards = [[Part("F", 0, rank, micro) for micro in range(micros)] for rank in range(ranks)]
    return [[(part,) for part in (*own, *(each._replace(kind="B") for each in reversed(own)))] for own in forwards]


def one_f_one_b(ranks: int, micros: int) -> Order:
    """A rank goes backwards with one micro-batch for each with which it goes forwards, as soon as it can."""
    return [
        _in_turn(
            ranks - rank - 1,
            [Part("F", 0, rank, micro) for micro in range(micros)],
            [Part("B", 0, rank, micro) for micro in range(micros)],
        )
        for rank in range(ranks)
    ]


def interleaved(ranks: int, micros: int) -> Order:
    """1F1B with two stages on each rank: micro-batches come in groups of as many as there are ranks."""
    chunks = 2
    places = [
        (k // ranks % chunks, k // (ranks * chunks) * ranks + k % ranks) for k in range(micros * chunks)
    ]  # chunk and micro-batch of the k-th task
    return [
        _in_turn(
            2 * (ranks - rank - 1) + (chunks - 1) * ranks,
            [Part("F", 0, chunk * ranks + rank, micro) for chunk, micro in places],
            [Part("B", 0, (chunks - 1 - chunk) * ranks + rank, micro) for chunk, micro in places],
        )
        for rank in range(ranks)
    ]


def _in_turn(first: int, forwards: Sequence[Part], backwards: Sequence[Part]) -> list[Task]:
    """Return the *first* forwards, then one of each in turn, then the rest."""
    first = min(first, len(forwards))
    turns = [part for pair in zip(forwards[first:], backwards, strict=False) for part in pair]
    return [(part,) for part in (*forwards[:first], *turns, *backwards[len(forwards) - first :])]


def zb_h1(ranks: int, micros: int) -> Order:
    """1F1B in which b goes first, then F, and W fills what is left; a rank holds no more micro-batches than in 1F1B."""
    times = {"F": 1, "b": 1, "W": 1}
    ends: dict[Part, int] = {}
    order: Order = [[] for _ in range(ranks)]
    free = [0] * ranks
    done = [{"F": 0, "b": 0, "W": 0} for _ in range(ranks)]
    while any(each["W"] < micros for each in done):
        begins = [_next(rank, ranks, micros, done[rank], ends, free[rank]) for rank in range(ranks)]
        (begin, rank, part) = min((at, rank, part) for rank, (at, part) in enumerate(begins) if part is not None)
        ends[part._replace(kind="B" if part.kind == "b" else part.kind)] = free[rank] = begin + times[part.kind]
        done[rank][part.kind] += 1
        order[rank].append((part,))
    return order


def _next(
    rank: int, ranks: int, micros: int, done: dict[str, int], ends: dict[Part, int], free: int
) -> tuple[int, Part | None]:
    """Return what *rank* does next, and when it can begin; None if nothing that it needs is over."""
    able = {
        "b": done["b"] < done["F"],
        "F": done["F"] < micros and done["F"] - done["b"] < ranks - rank,
        "W": done["W"] < done["b"],
    }
    found: list[tuple[int, Part]] = []
    for kind in ("b", "F", "W"):
        part = Part(kind, 0, rank, done[kind])
        before = list(needs(part, ranks - 1))
        if able[kind] and all(each in ends for each in before):
            found.append((max([free, *(ends[each] for each in before)]), part))
    if not found:
        return 0, None
    begin = min(at for at, _ in found)
    return begin, next(part for at, part in found if at == begin)


def dual_pipe(ranks: int, micros: int) -> Order:
    """Micro-batches enter at both ends; in the middle of the run F of one way and B of the other are one task."""
    return [_DualRank(rank, ranks, micros).tasks for rank in range(ranks)]


class _DualRank:
    """The tasks of one rank of DualPipe, in the eight phases of its authors (DeepSeek-V3)."""

    def __init__(self, rank: int, ranks: int, micros: int) -> None:
        self.tasks: list[Task] = []
        self._stages = rank, ranks - 1 - rank  # of each way
        self._is_far = rank >= ranks // 2  # then the ways change places
        self._counts = {"F": [0, 0], "B": [0, 0]}
        self._weights: list[Part] = []  # whose b is over and W is not
        half, from_end = ranks // 2, min(rank, ranks - 1 - rank)
        inner = half - from_end - 1
        for _ in range(2 * inner):
            self._do(self._part("F", 0))
        for _ in range(from_end + 1):
            self._do(self._part("F", 0))
            self._do(self._part("F", 1))
        for _ in range(inner):
            self._inputs(1)
            self._next_weights()
            self._do(self._part("F", 1))
        for i in range(micros // 2 - ranks + from_end + 1):
            if i == 0 and not inner:
                self._do(self._part("F", 0))
                self._do(self._part("B", 1))
            else:
                self._do(self._part("F", 0), self._part("B", 1))
            self._do(self._part("F", 1), self._part("B", 0))
        for _ in range(inner):
            self._do(self._part("B", 1))
            self._do(self._part("F", 1), self._part("B", 0))
        self._last_backwards(from_end)
        for _ in range(inner):
            if self._weights:
                self._next_weights()
            self._inputs(0)
        while self._weights:
            self._next_weights()

    def _last_backwards(self, from_end: int) -> None:
        """B of both ways in turn; from the middle of them on, W waits."""
        count = from_end + 1
        for i in range(count):
            waits = i > count // 2 or (i == count // 2 and from_end % 2 == 1)
            (self._inputs if waits else self._whole)(1)
            (self._inputs if i >= count // 2 else self._whole)(0)

    def _part(self, kind: str, way: int) -> Part:
        way ^= self._is_far
        micro = self._counts[kind][way]
        self._counts[kind][way] += 1
        return Part(kind, way, self._stages[way], micro)

    def _do(self, *parts: Part) -> None:
        self.tasks.append(parts)

    def _whole(self, way: int) -> None:
        self._do(self._part("B", way))

    def _inputs(self, way: int) -> None:
        part = self._part("B", way)
        self._do(part._replace(kind="b"))
        self._weights.append(part._replace(kind="W"))

    def _next_weights(self) -> None:
        self._do(self._weights.pop(0))


SCHEDULES = (
    Schedule("GPipe", gpipe, lambda p, t: (p - 1) * (t.forward + t.backward)),
    Schedule("1F1B", one_f_one_b, lambda p, t: (p - 1) * (t.forward + t.backward)),
    Schedule(
        "interleaved", interleaved, lambda p, t: (p - 1) * (t.forward + t.backward) / 2, chunks=2, per=lambda p: p
    ),
    Schedule("ZB-H1", zb_h1, lambda p, t: (p - 1) * (t.forward + t.backward - 2 * t.weights)),
    Schedule(
        "DualPipe",
        dual_pipe,
        lambda p, t: (p / 2 - 1) * (t.fused + t.backward - 3 * t.weights),
        per=lambda p: 2,  # noqa: ARG005
        least=lambda p: 2 * p,
    ),
)
