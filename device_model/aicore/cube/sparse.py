"""Products with a B of which every 4 numbers along k hold 2 at most that are not 0: LoadDataWithSparse, MmadWithSparse.

B comes without the others, half as long, and beside it an index of 2 bits for each number that is left. The first index
of a pair is the place of the first number among the first three of the four, the second one that of the second number
among the last three. The cube takes these numbers of A, too, and multiplies half as many. Types are int8, and int32.
"""

import numpy as np

from device_model.aicore.core.names import Pipe, Space
from device_model.aicore.core.tensors import LocalTensor, int8, int32, uint8
from device_model.aicore.cube.loads import MAX_REPEATS, LoadData2DParams
from device_model.aicore.cube.mmad import (
    CELL,
    FRACTAL,
    MAX_SIDE,
    ROW,
    SIDE,
    Array,
    CubePlan,
    CubeUnit,
    MmadParams,
    cube_unit,
    fractals,
)
from device_model.kernel.findings import KernelError

INDEX_FRACTAL = 128  # bytes: 16 columns of B, 32 indices of 2 bits each
_PER_INDEX = FRACTAL // INDEX_FRACTAL
_MOST = 2  # an index is 0 to 2


def LoadDataWithSparse(dst: LocalTensor, src: LocalTensor, idx: LocalTensor, load_data_param: LoadData2DParams) -> None:
    """Load fractals of B to L0B, and those of its indices to a memory of the cube's own (Ascend C: LoadDataWithSparse).

    Runs on MTE1. The indices belong to the place in L0B, for MmadWithSparse.

    Args:
        dst: The tensor in L0B (B2), int8, starting at a multiple of 512 bytes.
        src: The tensor in L1 (B1), int8: fractals of 16 columns of B, 32 numbers each, in the order of L0B.
        idx: The tensor in L1 (B1), uint8: a fractal of 128 bytes for each of *src*. A byte has four indices, the first
            one in its lowest bits.
        load_data_param: *start_index* and *repeat_times*; fractals follow each other, and are not transposed.

    Raises:
        KernelError: The core is not a cube core, a type, place or parameter is impossible, or a tensor is too small.
    """
    unit = cube_unit()
    key = "LoadDataWithSparse", dst, src, idx, load_data_param
    unit.issue(key, lambda: _plan_load(unit, dst, src, idx, load_data_param))


def _plan_load(
    unit: CubeUnit, dst: LocalTensor, src: LocalTensor, idx: LocalTensor, params: LoadData2DParams
) -> CubePlan:
    name, count, first = "LoadDataWithSparse", params.repeat_times, params.start_index
    for role, tensor, space, dtype in (
        ("dst", dst, Space.L0B, int8),
        ("src", src, Space.L1, int8),
        ("idx", idx, Space.L1, uint8),
    ):
        if tensor.memory.space is not space or tensor.dtype != dtype:
            raise KernelError(f"{name}: {role} is {tensor!r}", f"it is a tensor of {dtype} in {space}")
    if not 0 < count <= MAX_REPEATS or first < 0 or params.if_transpose:
        raise KernelError(
            f"{name} with {params}",
            f"repeat_times is 1 to {MAX_REPEATS}, start_index 0 or more, and nothing is transposed",
        )
    needed = (("dst", dst, count * FRACTAL), ("src", src, (first + count) * FRACTAL))
    for role, tensor, nbytes in (*needed, ("idx", idx, (first + count) * INDEX_FRACTAL)):
        if tensor.nbytes < nbytes:
            raise KernelError(f"{name}: {role} has {tensor.nbytes} bytes", f"it needs {nbytes}")
    if dst.address % FRACTAL or src.address % ROW or idx.address % ROW:
        raise KernelError(
            f"{name} from bytes {src.address} and {idx.address} of L1 to byte {dst.address} of L0B",
            f"L1 is addressed in multiples of {ROW} bytes, L0B of {FRACTAL}",
        )
    into, out_of = dst.view[: count * FRACTAL], src.view[first * FRACTAL : (first + count) * FRACTAL]
    indices = idx.view[first * INDEX_FRACTAL : (first + count) * INDEX_FRACTAL]
    start = dst.address // _PER_INDEX
    kept = _indices_of(unit)[start : start + count * INDEX_FRACTAL]

    def compute() -> None:
        into[...] = out_of
        kept[...] = indices

    spec = unit.core.spec
    cycles = -(-count * (FRACTAL + INDEX_FRACTAL) // spec.local_copy_bytes_per_cycle[Space.L1, Space.L0B])
    reads = (
        (src.memory, src.address + first * FRACTAL, src.address + (first + count) * FRACTAL),
        (idx.memory, idx.address + first * INDEX_FRACTAL, idx.address + (first + count) * INDEX_FRACTAL),
    )
    write = (dst.memory, dst.address, dst.address + count * FRACTAL)
    return CubePlan(Pipe.MTE1, name, spec.load_issue, cycles, reads, (write,), compute)


def _indices_of(unit: CubeUnit) -> Array:
    """Return the memory of the indices, a quarter as large as L0B; in the beginning no place has indices."""
    if unit.sparse_indices is None:
        unit.sparse_indices = np.full(unit.core.spec.space_bytes[Space.L0B] // _PER_INDEX, 0xFF, np.uint8)
    return unit.sparse_indices


def MmadWithSparse(dst: LocalTensor, fm: LocalTensor, filter: LocalTensor, mmad_params: MmadParams) -> None:  # noqa: A002  # Ascend C's name
    """Multiply A with a B that LoadDataWithSparse has loaded (Ascend C: MmadWithSparse).

    Runs on the cube pipe (M), and takes as long as an Mmad of half the k.

    Args:
        dst: The result in L0C (CO1), m x n in Nz: int32, starting at a multiple of 1024 bytes.
        fm: A in L0A (A2), m x k in Zz: int8, starting at a multiple of 512 bytes.
        filter: B in L0B (B2), k / 2 x n in Zn: int8, starting at a multiple of 512 bytes.
        mmad_params: As for Mmad; *k* is that of A, a multiple of 4.

    Raises:
        KernelError: The core is not a cube core, a type, place or size is impossible, a tensor is too small, or an
            index is none of 0, 1 and 2, as where LoadDataWithSparse has loaded none.
    """
    unit = cube_unit()
    key = "MmadWithSparse", dst, fm, filter, mmad_params
    unit.issue_flagged(mmad_params.unit_flag, key, lambda: _plan_mmad(unit, dst, fm, filter, mmad_params))


def _plan_mmad(unit: CubeUnit, dst: LocalTensor, fm: LocalTensor, weights: LocalTensor, params: MmadParams) -> CubePlan:
    m, n, k, initial, _ = params
    name = f"MmadWithSparse of {m} x {k} x {n}"
    if not all(0 < size <= MAX_SIDE for size in (m, n, k)) or k % 4:
        raise KernelError(f"MmadWithSparse with {params}", f"m, n and k are 1 to {MAX_SIDE}, and k a multiple of 4")
    rows, columns, depth, half = fractals(m), fractals(n), fractals(k, ROW), fractals(k // 2, ROW)
    sizes = rows * depth * FRACTAL, half * columns * FRACTAL, rows * columns * CELL
    for (role, tensor, space, dtype, alignment), nbytes in zip(
        (
            ("fm", fm, Space.L0A, int8, FRACTAL),
            ("filter", weights, Space.L0B, int8, FRACTAL),
            ("dst", dst, Space.L0C, int32, CELL),
        ),
        sizes,
        strict=True,
    ):
        if tensor.memory.space is not space or tensor.dtype != dtype or tensor.address % alignment:
            raise KernelError(
                f"{name}: {role} is {tensor!r}", f"it is of {dtype} in {space}, from a multiple of {alignment} bytes on"
            )
        if tensor.nbytes < nbytes:
            raise KernelError(f"{name}: {role} has {tensor.nbytes} bytes", f"it needs {nbytes}")
    left = fm.view[: sizes[0]].reshape(rows, depth, SIDE, ROW)
    right = weights.view[: sizes[1]].reshape(half, columns, SIDE, ROW)
    start = weights.address // _PER_INDEX
    packed = _indices_of(unit)[start : start + sizes[1] // _PER_INDEX].reshape(half, columns, SIDE, ROW // 4)
    cells = dst.view[: rows * columns * SIDE * SIDE].reshape(columns, rows, SIDE, SIDE)

    def compute() -> None:
        a = left.transpose(0, 2, 1, 3).reshape(rows * SIDE, -1)[:, :k].astype(np.float64)
        indices = (packed[..., None] >> np.array([0, 2, 4, 6], np.uint8) & np.uint8(3)).reshape(right.shape)
        b, index = (x.transpose(0, 3, 1, 2).reshape(half * ROW, -1)[: k // 2, :n] for x in (right, indices))
        if (index > _MOST).any():
            raise KernelError(
                f"{name}: an index is 3", "it is 0 to 2: load B and its indices with LoadDataWithSparse()"
            )
        whole = np.zeros((k, columns * SIDE))
        first = np.arange(k // 2)[:, None] // 2 * 4 + np.arange(k // 2)[:, None] % 2
        np.add.at(whole, (first + index, np.arange(n)), b)  # two places may be one, if a number is 0
        product = (a @ whole).reshape(rows, SIDE, columns, SIDE).transpose(2, 0, 1, 3).astype(np.int32)
        if initial:
            cells[...] = product
        else:
            cells[...] += product

    reads = [
        (tensor.memory, tensor.address, tensor.address + size) for tensor, size in ((fm, sizes[0]), (weights, sizes[1]))
    ]
    target = (dst.memory, dst.address, dst.address + sizes[2])
    if not initial:
        reads.append(target)
    spec = unit.core.spec
    cycles = rows * columns * half * spec.mmad_cycles[int8.name]
    return CubePlan(Pipe.M, "MmadWithSparse", spec.mmad_startup, cycles, tuple(reads), (target,), compute)
