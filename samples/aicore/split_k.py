"""Shows: a product whose C is too small for all cores, divided along k, with sums that are added in GM.

Scenario: C = A * B for A of 64 x 8192 halves and B of 8192 x 128. C is one tile, so one cube core would compute it, and
23 would have nothing to do. With k divided, each core multiplies a part of A's columns with a part of B's rows. The
copies of C to GM are atomic: each adds its sums to what is there, so C must be zero before. Each part more means a copy
of C more, so the last doubling gains least.
"""

import numpy as np

import acl_py as acl
from acl_py import Array, MemcpyKind, asc

M, N, K = 64, 128, 8192
PARTS = (1, 2, 4, 8, 16)
ADD = 1  # what en_atomic means: C is added to the contents of GM
GM, ND = asc.TPosition.GM, asc.CubeFormat.ND


@asc.kernel(kind=asc.KernelType.AIC_ONLY)
def product(a: asc.In, b: asc.In, c: asc.InOut, tiling: asc.TCubeTiling):
    narrow, wide = asc.MatmulType(GM, ND, asc.half), asc.MatmulType(GM, ND, asc.float32)
    matmul = asc.Matmul(narrow, narrow, wide)
    asc.REGIST_MATMUL_OBJ(asc.TPipe(), None, matmul, tiling)
    a_gm, b_gm = (asc.GlobalTensor(asc.half).SetGlobalBuffer(each) for each in (a, b))
    part = K // asc.GetBlockNum()
    first = part * asc.GetBlockIdx()
    matmul.SetSingleShape(M, N, part)
    matmul.SetTensorA(a_gm[first:])  # its columns from *first* on; rows stay K elements apart
    matmul.SetTensorB(b_gm[first * N :])
    matmul.IterateAll(asc.GlobalTensor(asc.float32).SetGlobalBuffer(c), ADD)
    matmul.End()


async def main():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(M, K)).astype(np.float16), rng.normal(size=(K, N)).astype(np.float16)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    sim = acl.current_simulation()
    tiling = asc.multi_core_matmul_tiling(sim.runtime.profile.aicore, M, N, K, np.float16, cores=1)
    arrays = []
    for numbers in (a, b):
        arrays.append(Array(await acl.Malloc(numbers.nbytes), np.float16))
        await acl.Memcpy(arrays[-1], numbers.nbytes, numbers, numbers.nbytes, MemcpyKind.HOST_TO_DEVICE)
    result = np.empty((M, N), np.float32)
    c = Array(await acl.Malloc(result.nbytes), np.float32)
    for parts in PARTS:
        await acl.Memset(c, c.nbytes, 0, c.nbytes)
        launched = await product[parts](*arrays, c, tiling)
        await acl.SynchronizeDevice()
        await acl.Memcpy(result, result.nbytes, c, c.nbytes, MemcpyKind.DEVICE_TO_HOST)
        busy = launched.work.result.timeline.busy_us
        print(
            f"{parts:2} parts: {(launched.end_ns - launched.start_ns) / 1000:6.2f} us, a core copies in for "
            f"{busy['mte2']:5.2f} us and multiplies for {busy['mac']:4.2f}; "
            f"right: {np.allclose(result, exact, atol=0.05)}, findings {len(launched.work.result.findings)}"
        )


acl.run(main, device="ascend910b1")
