"""Which thread wrote which bytes of global memory, and when."""

from collections.abc import Hashable, Iterator, Sequence

from device_model.cta.block import Store
from device_model.kernel.results import Program, Write
from device_model.sm.card import CardTimeline
from device_model.sm.history import Instruction, Pipe
from device_model.sm.names import WARP, Ints


def writes_of(card: CardTimeline, program: Program, stores: Sequence[Store]) -> Iterator[Write]:
    """Yield the writes of a block, which made these *stores*: one for each regular row of threads of a warp."""
    rows = card.kinds[card.placings[program.block].kind]
    moves: dict[tuple[int, int], tuple[int, Instruction]] = {
        (id(each.row), each.warp): (number, each)
        for number, each in enumerate(card.instructions(program.block) if stores else ())
        if each.pipe is Pipe.MEM
    }
    for store in stores:
        for warp, first, last in _warps(store.threads):
            number, instruction = moves[id(rows[store.row]), warp]
            threads = store.threads[first:last]
            for addresses in store.addresses[first:last].T:
                for start, stop in _regular(addresses):
                    yield _write(instruction, program, number, store.key, addresses[start:stop], store.width,
                                 threads[start:stop])  # fmt: skip


def _warps(threads: Ints) -> Iterator[tuple[int, int, int]]:
    """Yield each warp of *threads*, which are in their order, and where its threads begin and end."""
    first = 0
    for at in range(1, len(threads) + 1):
        if at == len(threads) or threads[at] // WARP != threads[first] // WARP:
            yield int(threads[first]) // WARP, first, at
            first = at


def _regular(addresses: Ints) -> Iterator[tuple[int, int]]:
    """Yield where parts of *addresses* begin and end that are the same distance apart."""
    first, values = 0, addresses.tolist()
    for at in range(1, len(values) + 1):
        if at == len(values) or (at > first + 1 and values[at] - values[at - 1] != values[first + 1] - values[first]):
            yield first, at
            first = at


def _write(
    instruction: Instruction, program: Program, number: int, key: Hashable, addresses: Ints, width: int, threads: Ints
) -> Write:
    stride = int(addresses[1] - addresses[0]) if len(addresses) > 1 else 0
    return Write(
        instruction, program, number, key, int(addresses[0]), width, len(addresses), stride, tuple(threads.tolist())
    )
