"""Kernels after folders of asc-devkit's examples: cores that wait for each other, and products of int4 and from UB."""

import numpy as np

from acl_py import asc
from device_model.aicore.core.packed import pack
from public.asc_devkit_products import CUBE, EXAMPLES, HALF, MIXED, SPEC, factors, of
from public.cases import Data, buffer, follows, gm, queue

BASIC = f"{EXAMPLES}/03_basic_api"
PRODUCTS = f"{EXAMPLES}/04_advanced_api/00_matmul"
VECIN, VECOUT = asc.TPosition.VECIN, asc.TPosition.VECOUT
FLOAT, INT = np.float32, np.int32


def _data_sync_barrier_data(rng):
    x = rng.integers(-99, 99, 8).astype(INT)
    wanted = x.copy()
    wanted[:2] = 123, 7
    return Data({"x": x}, {"x": wanted, "y": np.array([14, *[0] * 7], INT)})


@follows(f"{BASIC}/05_sync_control/data_sync_barrier", _data_sync_barrier_data, blocks=2)
@asc.kernel
def data_sync_barrier(x: asc.InOut, y: asc.InOut):
    """A block writes a number and then a flag; the other one polls the flag, and then doubles the number."""
    if asc.GetBlockIdx() == 0:
        asc.WriteGmByPassDCache(x + 1, 7)
        asc.DataSyncBarrier(asc.MemDsbT.DDR)
        asc.WriteGmByPassDCache(x, 123)
    if asc.GetBlockIdx() == 1:
        while True:
            address = gm(x, asc.int32).GetPhyAddr()
            if asc.ReadGmByPassDCache(address) == 123:
                asc.WriteGmByPassDCache(y, 2 * asc.ReadGmByPassDCache(address + 1))
                return
    asc.PipeBarrier(asc.PIPE_ALL)


def _group_barrier_data(rng):
    given = {"workspace": np.zeros(6 * 512, np.uint8), "seen": np.zeros(6 * 16, INT)}
    seen = np.zeros((6, 16), INT)
    seen[:, 0] = 2 * 12
    return Data(given, {"y": np.array([24, *[0] * 7], INT), "seen": seen})


@follows(f"{BASIC}/05_sync_control/group_barrier", _group_barrier_data, blocks=8)
@asc.kernel(auto_sync=True)
def group_barrier(workspace: asc.InOut, y: asc.Out, seen: asc.InOut):
    """Two blocks add a number to GM; six blocks wait for both, and read the sum, which the folder prints."""
    arrive, wait, length = 2, 6, 8
    pipe = asc.TPipe()
    total, arriving = gm(y, asc.int32, 0, length), queue(pipe, VECIN, 1, length * 4)
    barrier = asc.GroupBarrier(workspace, arrive, wait, asc.PipeMode.MTE3_MODE)
    if asc.GetBlockIdx() == 0:
        asc.InitGlobalMemory(total, length, 0)
    asc.SyncAll()
    number = asc.GetBlockIdx()
    if number < arrive:
        local = arriving.AllocTensor(asc.int32)
        asc.DisableDmaAtomic()
        asc.Duplicate(local, 0, length)
        local.SetValue(0, arrive * wait)
        asc.SetAtomicAdd(asc.int32)
        asc.DataCopy(total, local, length)
        asc.DisableDmaAtomic()
        arriving.FreeTensor(local)
        barrier.Arrive(number)
    elif number < arrive + wait:
        barrier.Wait(number - arrive)
        value = total.GetValue(0)
        asc.printf("[Block (%d/%d)]: OUTPUT = %d\n", number - arrive, wait, value)
        own = gm(seen, asc.int32, (number - arrive) * 16)
        own.SetValue(0, value)
        asc.DataCacheCleanAndInvalid(own)


def _turns_data(rng):
    x = rng.normal(size=512).astype(FLOAT)
    total = np.zeros(512, FLOAT)
    for _ in range(8):
        total += x
    return Data({"x": x, "z": np.zeros(512, FLOAT), "workspace": np.full(64, 5, INT)}, {"z": total})


@follows(f"{BASIC}/05_sync_control/sequential_block_sync", _turns_data, blocks=8)
@asc.kernel
def sequential_block_sync(x: asc.In, z: asc.InOut, workspace: asc.InOut):
    """Blocks add the same tiles to one place, in the order of their numbers."""
    pipe, tiles, size = asc.TPipe(), 4, 512
    shared, count = gm(workspace, asc.int32), size // tiles
    own_queue = queue(pipe, VECIN, 1, 8 * 32 + 32)
    own = own_queue.AllocTensor(asc.int32)
    asc.InitDetermineComputeWorkspace(shared, own)
    arriving = queue(pipe, VECIN, 1, size * 4)
    for tile in range(tiles):
        local = arriving.AllocTensor(asc.float32)
        asc.DataCopy(local, gm(x, asc.float32, tile * count), count)
        asc.PipeBarrier(asc.PIPE_ALL)
        asc.WaitPreBlock(shared, own)
        asc.SetAtomicAdd(asc.float32)
        asc.DataCopy(gm(z, asc.float32, tile * count), local, count)
        asc.DisableDmaAtomic()
        asc.NotifyNextBlock(shared, own)
        arriving.FreeTensor(local)
    own_queue.FreeTensor(own)


def _int4_data(rng):
    a, b = rng.integers(-8, 8, (32, 192), np.int8), rng.integers(-8, 8, (192, 128), np.int8)
    bias = rng.integers(-99, 99, 128).astype(INT)
    tiling = asc.multi_core_matmul_tiling(SPEC, 32, 128, 192, asc.int4b_t, cores=2, is_bias=True)
    given = {"a": pack(a), "b": pack(b), "bias": bias, "tiling": tiling}
    return Data(given, {"c": (a.astype(INT) @ b.astype(INT) + bias).astype(INT)})


@follows(f"{PRODUCTS}/matmul_int4", _int4_data, blocks=2)
@asc.kernel(kind=CUBE)
def matmul_int4(a: asc.In, b: asc.In, bias: asc.In, c: asc.Out, tiling: asc.TCubeTiling):
    """Numbers of 4 bits, two to a byte, and sums in int32."""
    mm = asc.Matmul(of(asc.int4b_t), of(asc.int4b_t), of(asc.int32), of(asc.int32))
    asc.REGIST_MATMUL_OBJ(asc.TPipe(), None, mm, tiling)
    if asc.GetBlockIdx() < tiling.used_core_num:
        row, column, rows, columns = tiling.part(asc.GetBlockIdx())
        mm.SetTail(rows, columns)
        mm.SetTensorA(_int4(a, row * tiling.ka), False)
        mm.SetTensorB(_int4(b, column), False)
        mm.SetBias(gm(bias, asc.int32, column))
        mm.IterateAll(gm(c, asc.int32, row * tiling.n + column))
    mm.End()


def _int4(argument, first):
    return asc.GlobalTensor(asc.int4b_t).SetGlobalBuffer(argument)[first:]


def _vecout_data(rng):
    m, n, k = 64, 32, 96
    a, b, c = factors(rng, m, n, k)
    bias = rng.normal(size=n).astype(FLOAT)
    tiling = asc.multi_core_matmul_tiling(SPEC, m, n, k, HALF, cores=2, is_bias=True)
    workspace = np.zeros(tiling.workspace_bytes(2, a=HALF), np.uint8)
    return Data({"a": a, "b": b, "bias": bias, "workspace": workspace, "tiling": tiling}, {"c": c + bias})


@follows(f"{PRODUCTS}/matmul_vecout", _vecout_data, tolerance=1e-3)
@asc.kernel(kind=MIXED)
def matmul_vecout(a: asc.In, b: asc.In, bias: asc.In, c: asc.Out, workspace: asc.InOut, tiling: asc.TCubeTiling):
    """A comes from the UB of vector cores."""
    pipe = asc.TPipe()
    kind = asc.MatmulType(VECOUT, asc.CubeFormat.ND, asc.half)
    mm = asc.Matmul(kind, of(asc.half), of(asc.float32), of(asc.float32))
    if asc.REGIST_MATMUL_OBJ(pipe, workspace, mm, tiling):
        return
    if asc.GetBlockIdx() < tiling.used_core_num:
        row, column, rows, columns = tiling.part(asc.GetBlockIdx())
        size = tiling.single_core_m * tiling.single_core_k
        arriving, leaving = queue(pipe, VECIN, 1, size * 2), queue(pipe, VECOUT, 1, size * 2)
        calc = buffer(pipe, size * 2)
        mm.SetTail(rows, columns)
        tensor = arriving.AllocTensor(asc.half)
        whole = asc.DataCopyExtParams(rows, tiling.single_core_k * 2, (tiling.ka - tiling.single_core_k) * 2, 0, 0)
        padding = asc.DataCopyPadExtParams(False, 0, 0, 0)
        asc.DataCopyPad(tensor, gm(a, asc.half, row * tiling.ka), whole, padding)
        arriving.EnQue(tensor)
        local, tensor = arriving.DeQue(asc.half), leaving.AllocTensor(asc.half)
        asc.DataCopy(tensor, local, size)
        leaving.EnQue(tensor)
        tensor = leaving.DeQue(asc.half)
        arriving.FreeTensor(local)
        mm.SetTensorA(tensor, False)
        mm.SetTensorB(gm(b, asc.half, column), False)
        mm.SetBias(gm(bias, asc.float32, column))
        mm.SetLocalWorkspace(calc.Get(asc.uint8))
        mm.IterateAll(gm(c, asc.float32, row * tiling.n + column))
        leaving.FreeTensor(tensor)
    mm.End()
