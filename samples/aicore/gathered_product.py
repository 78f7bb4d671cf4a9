"""Shows: a product whose rows come from two ranks, tile by tile, while the cores multiply those that are there.

Scenario: each rank has 512 rows of A, and all of B; each wants the product of all 1,024 rows. The kernel asks for an
AllGather in so many turns, multiplies its own rows meanwhile, and then each tile of the other rank as it arrives. With
one turn the cores wait for all rows. With more turns they wait for the first tile only, but each turn takes 2 us beside
its bytes. So at some number of tiles the turns take longer than the product behind which they hide.
"""

import numpy as np

import acl_py as acl
from acl_py import Array, MemcpyKind, asc

RANKS, BLOCKS = 2, 2
M, N, K = 512, 512, 256  # rows of a rank, columns, and what is summed over
TILES = (1, 2, 4)
GM, ND = asc.TPosition.GM, asc.CubeFormat.ND
HALF = asc.HcclDataType.HCCL_DATA_TYPE_FP16


@asc.kernel(kind=asc.KernelType.AIC_ONLY)
def gathered_product(
    a: asc.In, b: asc.In, gathered: asc.Out, c: asc.Out, comm: object, tiles: int, tiling: asc.TCubeTiling
):
    hccl, rows = asc.Hccl(), M // tiles
    hccl.InitV2(comm, tiling)
    hccl.SetCcTilingV2(0)
    own = hccl.GetRankId()
    # Rank r begins at row M * r of what is gathered. All turns may begin at once: A is there.
    handle = hccl.AllGather(a, gathered, rows * K, HALF, M * K, tiles, commit=True)

    types = (asc.MatmulType(GM, ND, dtype) for dtype in (asc.half, asc.half, asc.float32))
    matmul = asc.Matmul(*types)
    asc.REGIST_MATMUL_OBJ(asc.TPipe(), None, matmul, tiling)
    top, left, own_rows, columns = tiling.part(asc.GetBlockIdx())  # of a tile, what this core multiplies

    def multiply(source, first):
        matmul.SetSingleShape(own_rows, columns, K)
        matmul.SetTensorA(asc.GlobalTensor(asc.half).SetGlobalBuffer(source + top * K))
        matmul.SetTensorB(asc.GlobalTensor(asc.half).SetGlobalBuffer(b + left))
        matmul.IterateAll(asc.GlobalTensor(asc.float32).SetGlobalBuffer(c + ((first + top) * N + left)))

    for tile in range(tiles):
        multiply(a + tile * rows * K, own * M + tile * rows)
    for tile in range(tiles):
        hccl.Wait(handle)
        first = (1 - own) * M + tile * rows
        multiply(gathered + first * K, first)
    matmul.End()
    asc.CrossCoreSetFlag(0, asc.PIPE_FIX, 6)  # no core may still wait when the server is told that all is over
    asc.CrossCoreWaitFlag(6)
    hccl.Finalize()


async def main():
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(M, K)).astype(np.float16) for _ in range(RANKS)]
    b = rng.normal(size=(K, N)).astype(np.float16)
    exact = np.concatenate(parts).astype(np.float64) @ b.astype(np.float64)
    spec = acl.current_simulation().runtime.profile.aicore
    comms = await acl.CommInitAll(RANKS)
    arguments = []
    for rank, part in enumerate(parts):
        await acl.SetDevice(rank)
        arrays = [Array(await acl.Malloc(nbytes), dtype) for nbytes, dtype in (
            (part.nbytes, np.float16), (b.nbytes, np.float16), (RANKS * part.nbytes, np.float16),
            (RANKS * M * N * 4, np.float32))]  # fmt: skip
        for array, numbers in zip(arrays, (part, b), strict=False):
            await acl.Memcpy(array, numbers.nbytes, numbers, numbers.nbytes, MemcpyKind.HOST_TO_DEVICE)
        arguments.append(arrays)
    result = np.empty((RANKS * M, N), np.float32)
    for tiles in TILES:
        tiling = asc.multi_core_matmul_tiling(spec, M // tiles, N, K, np.float16, cores=BLOCKS)
        launches = []
        for rank, (comm, arrays) in enumerate(zip(comms, arguments, strict=True)):
            await acl.SetDevice(rank)
            launches.append(await gathered_product[BLOCKS](*arrays, comm, tiles, tiling))
        await acl.SynchronizeDevice()  # the last rank to begin; the other one waits for it
        await acl.Memcpy(result, result.nbytes, arguments[-1][-1], result.nbytes, MemcpyKind.DEVICE_TO_HOST)
        launched = launches[-1]
        timeline, core = launched.work.result.timeline, launched.work.result.programs[0]
        there = [each.end * timeline.ns_per_cycle / 1000 for each in core.instructions if each.name == "Wait(0)"]
        print(
            f"{tiles} {'turn ' if tiles == 1 else 'turns'}: {(launched.end_ns - launched.start_ns) / 1000:5.2f} us; "
            f"rows of the other rank are there from {there[0]:5.2f} us on, all of them at {there[-1]:5.2f}; "
            f"right: {np.allclose(result, exact, atol=0.05)}, findings {len(launched.work.result.findings)}"
        )


acl.run(main, device="ascend910b1")
