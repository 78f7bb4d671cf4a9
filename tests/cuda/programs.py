"""Random programs of streams, which run through the library in C and in verbs: both must come to the same.

A program is a list of steps: an operation, and its arguments. Objects have numbers; a number stays that of an object
that has ended, so calls with ended objects are among the steps. Nothing else is wrong by design, but much is wrong by
chance: copies that are too long, events that were never recorded, memory that is freed twice or as the wrong kind.
"""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

Step = tuple[Any, ...]
MOST = 1 << 16  # bytes of a piece of memory
WIDTHS = 1, 2, 4  # bytes of a word of a fill
NAMED = 0, 1, 2, "thread"  # streams by handle; the last one is handle 0 of a function for the stream of the thread


class Outcome(NamedTuple):
    """What a program has done: codes and ends of its calls, what was told, bytes in the end, and operations."""

    codes: list[int]
    ends_ns: list[int]
    told: list[Any]
    content: dict[int, bytes]
    operations: list[tuple[str, str, int, int]]


def write(seed: int) -> list[Step]:
    """Return the program of *seed*."""
    return _Writer(random.Random(seed)).program()


class _Writer:
    """Writes a program step by step, with what it has made so far."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._made: dict[str, list[int]] = {"stream": [], "event": []}
        self._memory: dict[int, tuple[str, int]] = {}  # by number: its kind and its bytes
        self._gone: set[int] = set()  # memory that was freed
        self._number = 0
        self._writers: dict[Callable[[], Step], int] = {
            self._copy: 8, self._rows: 3, self._peer: 2, self._fill: 5, self._launch: 4, self._host: 2,
            self._record: 6, self._wait: 6, self._question: 4, self._sync: 2, self._free: 2, self._allocate: 2,
            self._create: 2, self._destroy: 1, self._in_thread: 2,
        }  # fmt: skip

    def program(self) -> list[Step]:
        begin = [self._allocate(kind) for kind in ("device", "device", "pinned", "pageable", "managed", "pool")]
        begin += [self._create("stream"), self._create("stream"), self._create("event"), self._create("event")]
        writers, weights = list(self._writers), list(self._writers.values())
        return (
            begin
            + [write() for write in self._chance.choices(writers, weights, k=self._chance.randint(10, 40))]
            + [("sync",)]
        )

    def _new(self) -> int:
        self._number += 1
        return self._number

    # --- things

    def _create(self, kind: str = "") -> Step:
        kind = kind or self._chance.choice(("stream", "event"))
        number = self._new()
        self._made[kind].append(number)
        if kind == "event":
            return "event", number, self._chance.choice((0, 0, 1, 2))
        return "stream", number, self._chance.randint(0, 1), self._chance.choice((0, 0, -1, -5, 3))

    def _destroy(self) -> Step:
        kind = self._chance.choice(("stream", "event"))
        return f"end_{kind}", self._chance.choice(self._made[kind])

    def _allocate(self, kind: str = "") -> Step:
        kind = kind or self._chance.choice(("device", "pinned", "managed", "pool"))
        number, nbytes = self._new(), self._chance.choice((64, 1000, 4096, MOST))
        self._memory[number] = kind, nbytes
        return "allocate", number, kind, nbytes, self._stream()

    def _free(self) -> Step:
        living = [number for number, (kind, _) in self._memory.items() if kind != "pageable"]
        number = self._chance.choice(living)
        # Addresses of the host are the system's, so nobody knows what comes there next.
        while self._memory[number][0] == "pinned" and number in self._gone:
            number = self._chance.choice(living)
        way = "free_host" if self._memory[number][0] == "pinned" else self._chance.choice(("free", "free_async"))
        self._gone.add(number)
        return way, number, self._stream()

    def _stream(self) -> Any:
        known = [("stream", number) for number in self._made["stream"]]
        return self._chance.choice([*NAMED, *known * 3] if known else NAMED)

    def _event(self) -> int:
        return self._chance.choice(self._made["event"])

    def _place(self, *kinds: str) -> tuple[int, int, int]:
        """A place in memory of one of the *kinds*: its number, an offset, and the bytes behind it."""
        numbers = [
            number for number, (kind, _) in self._memory.items()
            if kind in kinds and not (kind == "pinned" and number in self._gone)
        ]  # fmt: skip
        number = self._chance.choice(numbers or [1])
        nbytes = self._memory[number][1]
        offset = self._chance.choice((0, 0, 4, nbytes // 2 // 4 * 4))
        return number, offset, nbytes - offset

    # --- steps

    def _copy(self) -> Step:
        (dst, to, room), (src, at, left) = self._place(*_ALL), self._place(*_ALL)
        nbytes = min(room, left) if self._chance.random() < 0.9 else self._chance.choice((0, MOST + 1))
        is_own = self._memory[dst][0] == self._memory[src][0] == "pageable"
        way = self._chance.choice(("copy", "copy_async"))
        return way, (dst, to), (src, at), 0 if is_own else nbytes, self._stream()

    def _rows(self) -> Step:
        (dst, to, room), (src, at, left) = self._place(*_ALL), self._place("device", "pinned")
        height = self._chance.choice((1, 2, 5))
        pitches = room // height, left // height
        width = self._chance.choice((min(pitches), max(1, min(pitches) // 2)))
        return self._chance.choice(("rows", "rows_async")), (dst, to), (src, at), pitches, width, height, self._stream()

    def _peer(self) -> Step:
        (dst, to, room), (src, at, left) = self._place("device"), self._place("device")
        return self._chance.choice(("peer", "peer_async")), (dst, to), (src, at), min(room, left), self._stream()

    def _fill(self) -> Step:
        number, offset, left = self._place("device", "pinned", "managed", "pool")
        unit = self._chance.choice(WIDTHS)
        count = left // unit if self._chance.random() < 0.9 else MOST
        way = self._chance.choice(("fill", "fill_async"))
        return way, (number, offset), self._chance.randrange(256), unit, count, self._stream()

    def _launch(self) -> Step:
        number, offset, left = self._place("device", "managed", "pool")
        threads = self._chance.choice((32, 128))
        return "launch", (number, offset), self._chance.randrange(100), left // 4, threads, self._stream()

    def _host(self) -> Step:
        return "host", self._chance.randrange(1000), self._stream()

    def _record(self) -> Step:
        return "record", self._event(), self._stream()

    def _wait(self) -> Step:
        return "wait", self._stream(), self._event()

    def _question(self) -> Step:
        way = self._chance.choice(("query_stream", "query_event", "elapsed", "memory_info"))
        if way == "elapsed":
            return way, self._event(), self._event()
        return (way,) if way == "memory_info" else (way, self._stream() if way == "query_stream" else self._event())

    def _sync(self) -> Step:
        way = self._chance.choice(("sync_stream", "sync_event", "sync"))
        return (way,) if way == "sync" else (way, self._stream() if way == "sync_stream" else self._event())

    def _in_thread(self) -> Step:
        write = self._chance.choice((self._copy, self._fill, self._record, self._wait, self._launch))
        return "in_thread", write()


_ALL = "device", "pinned", "pageable", "managed", "pool"
