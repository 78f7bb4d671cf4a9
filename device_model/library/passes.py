"""How long kernels take that go through their elements once or a few times.

A row takes a while however idle the card is (its chain of reads, reductions and writes), a core gets through so many
rows in a time, and the bytes take theirs. A call takes the longest of these, and a part of the shorter ones, because
the rows that a core works on read, reduce and write more or less together.
"""

from device_model.library.spec import LibrarySpec, Pass

_WARP_COLUMNS = 2048  # torch: a warp holds rows of up to so many elements, for longer ones a block works on each
_WARP_ROWS = 4  # rows of a block of warps
_GATHER_BYTES = 4096  # torch: a block copies so much of a row
_BLOCK_BYTES = 4096  # torch: a block writes so much, element by element
_TRANSPOSE_ELEMENTS = 256  # torch: a block writes so many of them


class Share:
    """The part of a card that a kernel may use: *cores* of *all_cores*."""

    def __init__(self, spec: LibrarySpec, cores: int, all_cores: int) -> None:
        self.spec = spec
        self.cores = cores
        self._slower = all_cores / cores

    def traffic_ns(self, reads: float, writes: float, footprint: float) -> float:
        """Return the time of so many bytes, at the part of the rates that belongs to the cores."""
        return self.spec.traffic.ns(reads, writes, footprint) * self._slower


def elementwise(share: Share, reads: int, writes: int) -> tuple[int, float]:
    """Return the blocks and the nanoseconds of a call that computes one result for each element."""
    return -(-writes // _BLOCK_BYTES), share.spec.elementwise + share.traffic_ns(reads, writes, reads + writes)


def reduction(share: Share, elements: int, item: int) -> tuple[int, float]:
    """Return the blocks and the nanoseconds of a sum."""
    numbers, nbytes = share.spec.reduction, elements * item
    if elements <= numbers.one_block_elements:
        return 1, numbers.one_block + 1e9 * nbytes / numbers.core_read
    working_ns = 1e9 * nbytes / numbers.core_read / share.cores
    return share.cores, numbers.many_blocks + max(working_ns, share.traffic_ns(nbytes, 0, nbytes))


def softmax(share: Share, rows: int, columns: int, item: int) -> tuple[int, float]:
    """Return the blocks and the nanoseconds of a softmax along rows."""
    if columns <= _WARP_COLUMNS:
        return -(-rows // _WARP_ROWS), _pass_ns(share, share.spec.softmax, rows, columns, item)
    return rows, _pass_ns(share, share.spec.softmax_long, rows, columns, item)


def layernorm(share: Share, rows: int, columns: int, item: int) -> tuple[int, float]:
    """Return the blocks and the nanoseconds of the normalisation of rows."""
    return rows, _pass_ns(share, share.spec.layernorm, rows, columns, item)


def transpose(share: Share, rows: int, columns: int, item: int) -> tuple[int, float]:
    """Return the blocks and the nanoseconds of a copy into the other order."""
    return -(-(rows * columns) // _TRANSPOSE_ELEMENTS), _pass_ns(share, share.spec.transpose, rows, columns, item)


def permute(share: Share, elements: int, columns: int, item: int) -> tuple[int, float]:
    """Return the blocks and the nanoseconds of a copy into another order that keeps runs of elements together."""
    count = elements * columns
    return -(-count // _TRANSPOSE_ELEMENTS), _pass_ns(share, share.spec.permute, count, 1, item)


def gather(share: Share, rows: int, columns: int, item: int) -> tuple[int, float]:
    """Return the blocks and the nanoseconds of a copy of rows from places that an index names."""
    pieces = -(-(columns * item) // _GATHER_BYTES)
    return rows * pieces, _pass_ns(share, share.spec.gather, rows, columns, item, pieces)


def _pass_ns(share: Share, numbers: Pass, rows: int, columns: int, item: int, pieces: int = 1) -> float:
    """Return the nanoseconds of a pass over rows, each of which is worked on in so many pieces."""
    nbytes = rows * columns * item
    memory_ns = share.traffic_ns(nbytes, nbytes, 2 * nbytes)
    if columns * item > numbers.held_bytes:
        at_work = min(rows, numbers.rows_at_once * share.cores) * columns * item
        fits = at_work <= share.spec.traffic.kept_bytes
        memory_ns += share.traffic_ns(numbers.reads_again * nbytes, 0, 0 if fits else share.spec.traffic.lost_bytes)
    chain_ns = numbers.chain + numbers.column_ps * columns / 1000
    work_ns = rows * (numbers.row_ps * pieces + numbers.element_ps * columns) / 1000 / share.cores
    long, short = sorted((max(chain_ns, work_ns), memory_ns), reverse=True)
    return numbers.fixed + long + short * numbers.overlap_permille / 1000
