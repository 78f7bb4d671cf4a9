"""ldmatrix, mma and products of whole tiles, on registers."""

from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from device_model.cta.block import Block, running
from device_model.cta.language.memories import Shared
from device_model.cta.language.places import Places, check_places
from device_model.cta.language.registers import Register, ids_of, register
from device_model.kernel.findings import KernelError
from device_model.kernel.sites import site
from device_model.sm import banks, fragments, traffic
from device_model.sm.instructions import Op
from device_model.sm.names import MATRIX_ROW, WARP, Ints
from device_model.sm.tensor_core import check_types


def ldmatrix(rows: Places, count: int = 4, *, transposed: bool = False) -> Register:
    """Return the fragments of *count* 8 x 8 matrices of 16-bit elements (ldmatrix.xN, .trans).

    Args:
        rows: `s.at[...]`: where each lane's row of 16 bytes begins. Lanes 0 to 7 give the rows of the first matrix.
        count: 1, 2 or 4.
        transposed: Whether each matrix is transposed on the way.

    Returns:
        2 * *count* elements for each thread and place, of the type of the array. Several places for each thread are
        several instructions.

    Raises:
        KernelError: The rows are not in shared memory, elements do not have 16 bits, or a row is misaligned.
    """
    block = running()
    check_places("ldmatrix", rows)
    memory = rows.tensor.memory
    if not isinstance(memory, Shared) or rows.tensor.dtype.itemsize != 2:
        raise KernelError(f"ldmatrix of {rows.tensor!r} at {site()}", "it loads 16-bit elements from shared memory")
    if count not in (1, 2, 4):
        raise KernelError(f"ldmatrix of {count} matrices at {site()}", "it loads 1, 2 or 4")
    _check_whole(block, "ldmatrix")
    addresses = rows.offsets.reshape(block.threads, -1)
    base, pattern = traffic.relative(addresses)
    done = _rows(pattern.tobytes(), rows.offsets.shape, count, transposed)
    if not done.is_aligned:
        rows.check_aligned(addresses, MATRIX_ROW)
    if base + done.end > memory.shadow.end:
        raise KernelError(
            f"ldmatrix at {site()} reads a row of {MATRIX_ROW} bytes that ends "
            f"{base + done.end - memory.shadow.end} bytes beyond {rows.tensor!r}",
            "make the array as long as its last row",
        )
    values = block.shared[base:].view(np.uint16).take(done.elements)
    writes = (block.register(),)
    block.issue(
        Op.LDMATRIX,
        f"ldmatrix.x{count}{'.trans' if transposed else ''}",
        count=addresses.shape[1],
        phases=done.phases,
        conflicts=done.conflicts,
        writes=writes,
    )
    if block.hazards:
        used = ... if count == 4 else block.tids % WARP < 8 * count  # nobody looks at the rows of other lanes
        memory.shadow.read(block.tids[used], addresses[used], MATRIX_ROW)
    return register(values.view(rows.tensor.dtype), writes)


class _Rows(NamedTuple):
    """What ldmatrix does with one pattern of addresses.

    Attributes:
        elements: The 16-bit elements that each thread gets.
        phases: The phases that it takes, by warp: the mean of several instructions.
        conflicts: How many of these it takes because banks conflict.
        end: The byte behind the last row.
        is_aligned: Whether all rows begin at multiples of 16.
    """

    elements: Ints
    phases: tuple[int, ...]
    conflicts: tuple[int, ...]
    end: int
    is_aligned: bool


@lru_cache(64)
def _rows(pattern: bytes, shape: tuple[int, ...], count: int, transposed: bool) -> _Rows:
    threads = shape[0]
    addresses = np.frombuffer(pattern, np.int64).reshape(threads, -1)
    lanes = addresses.T.reshape(-1, threads // WARP, WARP)  # [instruction, warp, lane]
    elements = fragments.elements_of_rows(lanes, count, transposed=transposed)
    by_thread = np.moveaxis(elements.reshape(len(lanes), threads, -1), 0, 1).reshape(*shape, -1)
    rows = lanes[..., : 8 * count]
    return _Rows(
        np.ascontiguousarray(by_thread),
        *traffic.means(banks.load_matrices(lanes, count), len(lanes)),
        int(rows.max()) + MATRIX_ROW,
        not (rows % MATRIX_ROW).any(),
    )


def mma(a: Any, b: Any, c: Any) -> Register:
    """Return the fragment of a product: a (16 x 16) times b (16 x 8) plus c, for each warp (mma.m16n8k16).

    Args:
        a: Fragments of float16 or bfloat16, 8 elements for each thread.
        b: Fragments of the same type, 4 elements for each thread.
        c: Fragments of float32, 4 elements for each thread.

    Raises:
        KernelError: A warp has inactive threads.
        TypeError, ValueError: The types or shapes are none that the tensor core multiplies.
    """
    block = running()
    _check_whole(block, "mma")
    plain = [each.view(np.ndarray).reshape(block.warps, WARP, -1) for each in (a, b, c)]
    result = fragments.mma_m16n8k16(*plain)  # also without values, because it checks types and shapes
    writes = (block.register(),)
    block.issue(Op.MMA, "mma.m16n8k16", reads=ids_of(a, b, c), writes=writes)
    return register(result.reshape(block.threads, -1), writes)


def tile_mma(a: Any, b: Any, c: Any, *, exact: bool = False) -> Register:
    """Return the fragments of a product of tiles, in place of the mma instructions that each warp issues for it.

    Args:
        a: Fragments of shape (threads, m, k, 8): m times k matrices of 16 x 16 for each warp.
        b: Fragments of shape (threads, k, n, 4): k times n matrices of 16 x 8.
        c: Fragments of shape (threads, m, n, 4), of float32.
        exact: Whether the result has every bit of the tensor core's; otherwise it is one float32 product, which takes a
            small part of the time.

    Returns:
        Fragments of shape (threads, m, n, 4); m * n * k instructions of each warp.

    Raises:
        KernelError: The shapes do not fit, or a warp has inactive threads.
        TypeError, ValueError: The types are none that the tensor core multiplies.
    """
    block = running()
    _check_whole(block, "tile_mma")
    plain = [each.view(np.ndarray) for each in (a, b, c)]
    (_, m, k, _), (_, depth, n, _) = (each.shape for each in plain[:2])
    wanted = (block.threads, m, k, 8), (block.threads, k, n, 4), (block.threads, m, n, 4)
    if depth != k or tuple(each.shape for each in plain) != wanted:
        raise KernelError(
            f"tile_mma of fragments {', '.join(str(each.shape) for each in plain)} at {site()}",
            "give (threads, m, k, 8), (threads, k, n, 4) and (threads, m, n, 4)",
        )
    if not block.has_values:
        check_types(*plain)
        writes = (block.register(),)
        block.issue(Op.MMA, "mma.m16n8k16", count=m * n * k, reads=ids_of(a, b, c), writes=writes)
        return register(np.zeros(wanted[2], np.float32), writes)
    left, right = _joined(block, fragments.A, plain[0]), _joined(block, fragments.B, plain[1])
    if exact:
        total = _joined(block, fragments.C, plain[2])
        values = _split(fragments.tile_mma(left, right, total, exact=True).value).reshape(wanted[2])
    else:
        check_types(*plain)
        values = _split(fragments.product(left, right)).reshape(wanted[2]) + plain[2]
    writes = (block.register(),)
    block.issue(Op.MMA, "mma.m16n8k16", count=m * n * k, reads=ids_of(a, b, c), writes=writes)
    return register(values, writes)


def _joined(block: Block, layout: fragments.Layout, values: Any) -> Any:
    """Return fragments of shape (threads, rows, columns, n) as one matrix for each warp."""
    _, rows, columns, _ = values.shape
    matrices = values.reshape(block.warps, -1).take(_orders(layout, rows, columns)[0], axis=1)
    return matrices.reshape(block.warps, rows * layout.shape[0], columns * layout.shape[1])


def _split(matrices: Any) -> Any:
    """Return results, a matrix for each warp, as their fragments."""
    warps, rows, columns = matrices.shape
    orders = _orders(fragments.C, rows // fragments.ROWS, columns // fragments.COLUMNS)
    return matrices.reshape(warps, -1).take(orders[1], axis=1)


@cache
def _orders(layout: fragments.Layout, rows: int, columns: int) -> tuple[Ints, Ints]:
    """Return where the elements of the matrix of a warp are in its fragments, and where those are in the matrix."""
    places = np.arange(WARP * rows * columns * layout.places).reshape(WARP, rows, columns, -1)
    matrices = layout.join(np.moveaxis(places, 0, 2))  # [row, column, row in a matrix, column in a matrix]
    order = np.swapaxes(matrices, 1, 2).reshape(-1)
    return order, np.argsort(order)


def _check_whole(block: Block, what: str) -> None:
    if block.threads % WARP or not block.is_whole:
        raise KernelError(
            f"{what} at {site()} with inactive threads: {len(block.active)} of {block.warps * WARP} take part",
            "all lanes of a warp take part: call it outside of where(), in blocks of whole warps",
        )
