"""ldmatrix, mma and products of whole tiles, on registers."""

from typing import Any

import numpy as np

from device_model.cta import banks, fragments
from device_model.cta.block import Block, running
from device_model.cta.instructions import Op
from device_model.cta.memories import Shared
from device_model.cta.names import WARP
from device_model.cta.places import Places
from device_model.cta.registers import Register, ids_of, register
from device_model.kernel.findings import KernelError
from device_model.kernel.sites import site


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
    memory = rows.tensor.memory
    if not isinstance(memory, Shared) or rows.tensor.dtype.itemsize != 2:
        raise KernelError(f"ldmatrix of {rows.tensor!r} at {site()}", "it loads 16-bit elements from shared memory")
    if count not in (1, 2, 4):
        raise KernelError(f"ldmatrix of {count} matrices at {site()}", "it loads 1, 2 or 4")
    _check_whole(block, "ldmatrix")
    used = block.tids[block.tids % WARP < 8 * count]  # the other lanes give rows that nobody looks at
    addresses = np.full((block.threads, rows.offsets[0].size), rows.tensor.address // 16 * 16)
    addresses[used] = rows.offsets.reshape(block.threads, -1)[used]
    rows.check_aligned(addresses, fragments.MATRIX_ROW)
    lanes = np.moveaxis(addresses, -1, 0).reshape(-1, block.warps, WARP)  # [instruction, warp, lane]
    try:
        values = fragments.ldmatrix(block.shared, lanes, count, transposed=transposed)
    except ValueError as error:
        raise KernelError(f"{error}, at {site()}") from None
    phases = banks.load_matrices(lanes, count).phases.sum(axis=0)
    writes = (block.register(),)
    block.issue(
        Op.LDMATRIX,
        f"ldmatrix.x{count}{'.trans' if transposed else ''}",
        count=len(lanes),
        phases=tuple((-(-phases // len(lanes))).tolist()),
        writes=writes,
    )
    if block.hazards:
        memory.shadow.read(used, addresses[used], fragments.MATRIX_ROW)
    by_thread = np.moveaxis(values.reshape(len(lanes), block.threads, -1), 0, 1)
    return register(by_thread.reshape(*rows.offsets.shape, -1).view(rows.tensor.dtype), writes)


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
    result = fragments.mma_m16n8k16(*plain)
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
    layouts = fragments.A, fragments.B, fragments.C
    tiles = [_joined(block, layout, each) for layout, each in zip(layouts, plain, strict=True)]
    values = fragments.tile_mma(*tiles, exact=exact).value
    split = fragments.C.split(np.swapaxes(values.reshape(block.warps, m, fragments.ROWS, n, fragments.COLUMNS), 2, 3))
    writes = (block.register(),)
    block.issue(Op.MMA, "mma.m16n8k16", count=m * n * k, reads=ids_of(a, b, c), writes=writes)
    return register(np.moveaxis(split, 3, 1).reshape(block.threads, m, n, 4), writes)


def _joined(block: Block, layout: fragments.Layout, values: Any) -> Any:
    """Return fragments of shape (threads, rows, columns, n) as one matrix for each warp."""
    _, rows, columns, _ = values.shape
    by_lane = np.moveaxis(values.reshape(block.warps, WARP, rows, columns, -1), 1, 3)
    matrices = np.swapaxes(layout.join(by_lane), 2, 3)  # [warp, row, row in a matrix, column, column in a matrix]
    return matrices.reshape(block.warps, rows * layout.shape[0], columns * layout.shape[1])


def _check_whole(block: Block, what: str) -> None:
    if block.threads % WARP or not block.is_whole:
        raise KernelError(
            f"{what} at {site()} with inactive threads: {len(block.active)} of {block.warps * WARP} take part",
            "all lanes of a warp take part: call it outside of where(), in blocks of whole warps",
        )
