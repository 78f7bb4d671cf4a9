"""Shows: one matrix product in raw cube instructions, from a quarter of the cube to nine tenths in six steps.

Scenario: C = A * B for matrices of 1024 x 1024 halves, on one cube core. A tile of C is a sum along k: MTE2
brings tiles of A and B from GM to L1, MTE1 brings pieces of them to L0, M multiplies, and FIX stores C from L0C. Each
step changes one thing, and the table says what binds before and after it: the pipe that is busy longest, or none, if
the pipes take turns. On 24 cores and 8192 cubed, a published kernel with the last step's tiles has its cube busy for
3,083 of 4,228 us, 73 %: there the memory that all cores share is what binds.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import acl_py as acl
from acl_py import Array, MemcpyKind, asc

M, N, K = 1024, 1024, 1024
SIDE, CELLS = 16, 256  # of a fractal: rows, and elements
E = asc.HardEvent
KEPT = 4  # the first id of the flags of tiles of A that stay in L1


class Step(NamedTuple):
    """How the product is computed: tiles in L1 (rows, columns, depth), the depth of pieces in L0, and buffers."""

    what: str
    tile: tuple[int, int, int]
    depth: int
    l1_buffers: int = 1
    l0_buffers: int = 1
    keeps_a: bool = False  # the rows of A that a row of tiles needs stay in L1
    has_unit_flags: bool = False  # C leaves L0C block by block


STEPS = (
    Step("one buffer in each memory", (128, 128, 64), 64),
    Step("longer rows in L1", (128, 128, 256), 64),
    Step("two buffers in L1", (128, 128, 256), 64, 2),
    Step("two buffers in L0", (128, 128, 256), 64, 2, 2),
    Step("wider tiles of C", (128, 256, 256), 64, 2, 2),
    Step("A stays in L1", (128, 256, 256), 64, 2, 2, True),
    Step("C leaves block by block", (128, 256, 256), 64, 2, 2, True, True),
)


class Buffers:
    """Buffers that one pipe fills and the next one reads, in turn, with a flag for full and one for empty each."""

    def __init__(self, full: asc.HardEvent, empty: asc.HardEvent, tensors: list[tuple[Any, Any]]) -> None:
        self.full, self.empty, self.tensors, self.turn = full, empty, tensors, 0
        for number in range(len(tensors)):
            asc.SetFlag(empty, number)

    def fill(self) -> tuple[Any, Any]:
        asc.WaitFlag(self.empty, self.turn)
        return self.tensors[self.turn]

    def read(self) -> None:
        asc.SetFlag(self.full, self.turn)
        asc.WaitFlag(self.full, self.turn)

    def release(self) -> None:
        asc.SetFlag(self.empty, self.turn)
        self.turn = (self.turn + 1) % len(self.tensors)

    def close(self) -> None:
        for number in range(len(self.tensors)):
            asc.WaitFlag(self.empty, number)


def buffers(step: Step) -> tuple[Buffers, Buffers]:
    """The buffers of L1 and of L0A and L0B."""
    rows, columns, long = step.tile
    a1 = 0 if step.keeps_a else rows * long  # A that stays lies behind the others
    sizes = [(a1, columns * long, asc.TPosition.A1, asc.TPosition.B1, step.l1_buffers)]
    sizes.append((rows * step.depth, columns * step.depth, asc.TPosition.A2, asc.TPosition.B2, step.l0_buffers))
    made = []
    for a, b, of_a, of_b, count in sizes:
        behind = count * a * 2 if of_a is asc.TPosition.A1 else 0  # A and B share L1
        made.append(
            [
                (
                    asc.LocalTensor(asc.half, of_a, number * a * 2, a),
                    asc.LocalTensor(asc.half, of_b, behind + number * b * 2, b),
                )
                for number in range(count)
            ]
        )
    return Buffers(E.MTE2_MTE1, E.MTE1_MTE2, made[0]), Buffers(E.MTE1_M, E.M_MTE1, made[1])


def kept_tiles(step: Step) -> list[Any]:
    """Room in L1, behind that of B, for all tiles of A that a row of tiles of C needs."""
    rows, columns, long = step.tile
    first = step.l1_buffers * columns * long * 2
    return [
        asc.LocalTensor(asc.half, asc.TPosition.A1, first + number * rows * long * 2, rows * long)
        for number in range(K // long if step.keeps_a else 0)
    ]


def load(a1: Any, b1: Any, a2: Any, b2: Any, at: int, step: Step) -> None:
    """Bring a piece from L1 to L0: rows of fractals of A, and of B, which lies row by row and is transposed."""
    rows, columns, long = (size // SIDE for size in step.tile)
    deep = step.depth // SIDE
    for row in range(rows):
        asc.LoadData(a2[row * deep * CELLS :], a1, asc.LoadData2DParams(at // SIDE * rows + row, deep, rows))
    for row in range(deep):
        asc.LoadData(
            b2[row * columns * CELLS :], b1, asc.LoadData2DParams(at // SIDE + row, columns, long, 0, if_transpose=True)
        )


def tiles(step: Step) -> Iterator[tuple[int, int]]:
    for row in range(0, M, step.tile[0]):
        for column in range(0, N, step.tile[1]):
            yield row, column


@asc.kernel(kind=asc.KernelType.AIC_ONLY)
def product(a: asc.In, b: asc.In, c: asc.Out, step: Step) -> None:
    a_gm, b_gm, c_gm = (asc.GlobalTensor(asc.half).SetGlobalBuffer(each) for each in (a, b, c))
    rows, columns, long = step.tile
    l1, l0 = buffers(step)
    total = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, rows * columns)
    kept = kept_tiles(step)
    for number in range(len(kept)):
        asc.SetFlag(E.MTE1_MTE2, KEPT + number)
    if not step.has_unit_flags:
        asc.SetFlag(E.FIX_M, 0)
    for row, column in tiles(step):
        if not step.has_unit_flags:
            asc.WaitFlag(E.FIX_M, 0)
        for k in range(0, K, long):
            a1, b1 = l1.fill()
            flag_of_a = KEPT + k // long
            if kept:
                a1 = kept[k // long]
            if kept and column == 0:
                asc.WaitFlag(E.MTE1_MTE2, flag_of_a)
            if not kept or column == 0:
                asc.DataCopy(a1, a_gm[row * K + k :], asc.Nd2NzParams(1, rows, long, 0, K, rows, 1, 0))
            asc.DataCopy(b1, b_gm[k * N + column :], asc.Nd2NzParams(1, long, columns, 0, N, long, 1, 0))
            l1.read()
            for at in range(0, long, step.depth):
                a2, b2 = l0.fill()
                load(a1, b1, a2, b2, at, step)
                l0.read()
                is_last = k + long == K and at + step.depth == long
                flag = (3 if is_last else 2) if step.has_unit_flags else 0
                asc.Mmad(total, a2, b2, asc.MmadParams(rows, columns, step.depth, k + at == 0, flag))
                l0.release()
            if kept and column + columns == N:
                asc.SetFlag(E.MTE1_MTE2, flag_of_a)
            l1.release()
        to_half = asc.FixpipeParams(
            columns, rows, 0, N, asc.QuantMode.F322F16, unit_flag=3 if step.has_unit_flags else 0
        )
        if not step.has_unit_flags:
            asc.SetFlag(E.M_FIX, 0)
            asc.WaitFlag(E.M_FIX, 0)
        asc.Fixpipe(c_gm[row * N + column :], total, to_half)
        if not step.has_unit_flags:
            asc.SetFlag(E.FIX_M, 0)
    if not step.has_unit_flags:
        asc.WaitFlag(E.FIX_M, 0)
    for number in range(len(kept)):
        asc.WaitFlag(E.MTE1_MTE2, KEPT + number)
    l1.close()
    l0.close()


async def main() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=shape).astype(np.float16) for shape in ((M, K), (K, N)))
    exact = a.astype(np.float32) @ b.astype(np.float32)
    arrays = []
    for numbers in (a, b):
        arrays.append(Array(await acl.Malloc(numbers.nbytes), np.float16, numbers.shape))
        await acl.Memcpy(arrays[-1], numbers.nbytes, numbers, numbers.nbytes, MemcpyKind.HOST_TO_DEVICE)
    c, result = Array(await acl.Malloc(2 * M * N), np.float16, (M, N)), np.empty((M, N), np.float16)
    print(f"{'':26}{'us':>8}{'cube':>7}{'mte2':>7}{'mte1':>7}{'fixpipe':>9}  what binds")
    for step in STEPS:
        launched = await product[1](*arrays, c, step)
        await acl.SynchronizeDevice()
        await acl.Memcpy(result, result.nbytes, c, c.nbytes, MemcpyKind.DEVICE_TO_HOST)
        assert np.allclose(result, exact, rtol=1e-2, atol=0.2)
        assert not launched.work.result.findings
        busy = launched.work.result.timeline.busy_us
        whole = busy["aic_time"]
        shares = {name: busy[name] / whole for name in ("mac", "mte2", "mte1", "fixpipe")}
        most = max(shares, key=lambda name: shares[name])
        binds = most if shares[most] > 0.85 else f"none: the pipes take turns ({most} has most)"
        cells = "".join(f"{share:{width}.0%}" for share, width in zip(shares.values(), (7, 7, 7, 9), strict=True))
        print(f"{step.what:26}{whole:8.1f}{cells}  {binds}")


acl.run(main, device="ascend910b1")
