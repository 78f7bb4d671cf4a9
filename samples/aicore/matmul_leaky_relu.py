"""Shows: a mixed kernel, cube and vector cores together, with the Matmul object.

Scenario: LeakyReLU(A * B + bias) for A of 512 x 128 halves and B of 128 x 128. A block has one cube core and two vector
cores. The vector cores run the kernel: each has a part of C and requests it piece by piece. The cube core of their
block serves both, and computes the next piece while the vector core works on the previous one. The pieces go through a
workspace in GM, because the cores share no other memory. The tiling says which part belongs to which core.
"""

import numpy as np

import acl_py as acl
from acl_py import Array, MemcpyKind, asc

M, N, K = 512, 128, 128
BLOCKS = 2
SLOPE = 0.001
GM, VECIN, VECOUT = asc.TPosition.GM, asc.TPosition.VECIN, asc.TPosition.VECOUT
ND = asc.CubeFormat.ND


@asc.kernel(kind=asc.KernelType.MIX_AIC_1_2)
def matmul_leaky_relu(a: asc.In, b: asc.In, bias: asc.In, c: asc.Out, workspace: asc.InOut, tiling: asc.TCubeTiling):
    pipe = asc.TPipe()
    matmul = asc.Matmul(
        asc.MatmulType(GM, ND, asc.half), asc.MatmulType(GM, ND, asc.half),
        asc.MatmulType(VECIN, ND, asc.float32), asc.MatmulType(GM, ND, asc.float32),
    )  # fmt: skip
    if asc.REGIST_MATMUL_OBJ(pipe, workspace, matmul, tiling):
        return  # the cube core has served
    queue = asc.TQue(VECOUT, 1)
    pipe.InitBuffer(queue, 2, tiling.base_m * tiling.base_n * 4)
    row, column, rows, columns = tiling.part(asc.GetBlockIdx())
    c_gm = asc.GlobalTensor(asc.float32).SetGlobalBuffer(c)
    matmul.SetSingleShape(rows, columns, K)
    matmul.SetTensorA(asc.GlobalTensor(asc.half).SetGlobalBuffer(a)[row * K :])
    matmul.SetTensorB(asc.GlobalTensor(asc.half).SetGlobalBuffer(b)[column:])
    matmul.SetBias(asc.GlobalTensor(asc.float32).SetGlobalBuffer(bias)[column:])
    piece = 0
    while matmul.Iterate():
        result = queue.AllocTensor(asc.float32)
        matmul.GetTensorC(result)
        asc.LeakyRelu(result, result, SLOPE, tiling.base_m * tiling.base_n)
        queue.EnQue(result)
        result = queue.DeQue(asc.float32)
        across, down = divmod(piece, rows // tiling.base_m)  # down the columns first
        first = (row + down * tiling.base_m) * N + column + across * tiling.base_n
        length = tiling.base_n * 4
        asc.DataCopyPad(c_gm[first:], result, asc.DataCopyExtParams(tiling.base_m, length, 0, N * 4 - length))
        queue.FreeTensor(result)
        piece += 1
    matmul.End()


async def main():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(M, K)).astype(np.float16), rng.normal(size=(K, N)).astype(np.float16)
    bias = rng.normal(size=N).astype(np.float32)
    result = np.empty((M, N), np.float32)
    sim = acl.current_simulation()
    spec = sim.runtime.profile.aicore
    vectors = 2 * BLOCKS
    tiling = asc.multi_core_matmul_tiling(
        spec, M, N, K, np.float16, cores=vectors, is_bias=True, fix_split=(64, 64, 128)
    )
    arrays = []
    for numbers in (a, b, bias):
        arrays.append(Array(await acl.Malloc(numbers.nbytes), numbers.dtype))
        await acl.Memcpy(arrays[-1], numbers.nbytes, numbers, numbers.nbytes, MemcpyKind.HOST_TO_DEVICE)
    c, workspace = await acl.Malloc(result.nbytes), await acl.Malloc(tiling.workspace_bytes(vectors))
    await matmul_leaky_relu[BLOCKS](*arrays, c, workspace, tiling)
    await acl.SynchronizeDevice()
    [launch] = [op for op in sim.trace.ops if op.cores is not None]
    await acl.Memcpy(result, result.nbytes, c, c.nbytes, MemcpyKind.DEVICE_TO_HOST)
    exact = a.astype(np.float64) @ b.astype(np.float64) + bias
    exact = np.where(exact >= 0, exact, exact * SLOPE)
    print(f"error below 0.0001: {np.max(np.abs(result - exact)) < 1e-4}, findings {sim.findings}")
    print(f"{BLOCKS} blocks took {(launch.end_ns - launch.start_ns) / 1000:.2f} us; busy on average:")
    print("  " + ", ".join(f"{name} {us:.2f} us" for name, us in launch.cores.busy_us.items()))


acl.run(main, device="ascend910b1")
