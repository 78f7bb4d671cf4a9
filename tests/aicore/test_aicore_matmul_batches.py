"""IterateNBatch and GetBatchTensorC of a Matmul: several batches of products, of which the cube core computes ahead."""

import numpy as np
import pytest
from cores import SPEC, found, launch, names
from instructions import half, single

from device_model.aicore.core.names import HardEvent, KernelType, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor
from device_model.aicore.cube.matmul import REGIST_MATMUL_OBJ, Matmul
from device_model.aicore.cube.matmul_operands import CubeFormat, MatmulType
from device_model.aicore.cube.matmul_tiling import multi_core_matmul_tiling
from device_model.aicore.flags.sync import SetFlag, WaitFlag
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopy
from device_model.kernel.findings import KernelError

M, N, K = 16, 32, 32
IN_GM = [MatmulType(TPosition.GM, CubeFormat.ND, each) for each in (half, half, single)]
WITH_BIAS = [*IN_GM, MatmulType(TPosition.GM, CubeFormat.ND, single)]
TO_UB = [*IN_GM[:2], MatmulType(TPosition.VECIN, CubeFormat.ND, single)]
AIC, MIX = KernelType.AIC_ONLY, KernelType.MIX_AIC_1_1


def gm(array):
    return GlobalTensor(array.dtype).SetGlobalBuffer(array)


def tiled(**options):
    return multi_core_matmul_tiling(SPEC, M, N, K, half, cores=1, **options)


def matrices(seed, of_a, of_b):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(of_a, M, K)).astype(half), rng.normal(size=(of_b, K, N)).astype(half)


@pytest.mark.parametrize("kind", [AIC, MIX], ids=str)
@pytest.mark.parametrize("batches", [(2, 2), (2, 1), (1, 2)], ids=str)
def test_batches_follow_each_other_in_the_room_of_the_object(batches, kind):
    rounds, each = 3, max(batches)
    a, b = matrices(1, rounds * batches[0], rounds * batches[1])
    bias = np.random.default_rng(2).normal(size=(rounds * each, N)).astype(single)
    room = np.zeros((rounds, each, M, N), single)

    def kernel(a, b, bias, room):
        mm = Matmul(*WITH_BIAS)
        if REGIST_MATMUL_OBJ(TPipe(), None, mm, tiled(is_bias=True)):
            return
        mm.SetTensorA(gm(a))
        mm.SetTensorB(gm(b))
        mm.SetBias(gm(bias))
        mm.SetWorkspace(gm(room))
        mm.IterateNBatch(rounds, *batches)
        mm.End()

    result = launch(kernel, a, b, bias, room, kind=kind)
    factors = (array.reshape(rounds, -1, *array.shape[1:]).astype(single) for array in (a, b))
    expected = np.matmul(*factors) + bias.reshape(rounds, each, 1, N)
    assert np.allclose(room, expected, rtol=1e-4, atol=1e-4)
    assert found(result) == []
    if kind is MIX:
        asked = [name for name in names(result, 1) if name.startswith("CrossCore")]
        assert len(asked) == 2 * (rounds + 1)  # a flag there and back for each batch, and for the end


def test_a_vector_core_takes_batches_while_the_cube_computes_others():
    rounds = 12
    a, b = matrices(3, rounds, rounds)
    room, out = np.zeros((rounds, M, N), single), np.zeros((rounds, M, N), single)

    def kernel(a, b, room, out):
        mm = Matmul(*TO_UB)
        if REGIST_MATMUL_OBJ(TPipe(), None, mm, tiled()):
            return
        mm.SetTensorA(gm(a))
        mm.SetTensorB(gm(b))
        mm.SetWorkspace(gm(room))
        mm.IterateNBatch(rounds, 1, 1, sync=False)
        local = LocalTensor(single, TPosition.VECIN, 0, M * N)
        for number in range(rounds):
            mm.GetBatchTensorC(1, 1, local)
            SetFlag(HardEvent.MTE2_MTE3, 0)
            WaitFlag(HardEvent.MTE2_MTE3, 0)
            DataCopy(gm(out)[number * M * N :], local, M * N)
            SetFlag(HardEvent.MTE3_V, 0)
            WaitFlag(HardEvent.MTE3_V, 0)
        mm.End()

    result = launch(kernel, a, b, room, out, kind=MIX)
    assert np.allclose(out, a.astype(single) @ b.astype(single), rtol=1e-4, atol=1e-4)
    assert found(result) == []
    crossing = ["set" if "Set" in name else "wait" for name in names(result, 1) if name.startswith("CrossCore")]
    # Eight batches are requested ahead, and each that has arrived makes room for another one.
    assert crossing == ["set"] * 8 + ["wait", "set"] * 4 + ["wait"] * 8 + ["set", "wait"]
    cube, vector = (program.instructions for program in result.programs)
    last_product = [each.start for each in cube if each.name == "Mmad"][-1]
    assert next(each.start for each in vector if each.name == "DataCopy") < last_product


def test_a_batch_stays_in_gm_and_matrices_may_lie_side_by_side():
    rounds, each = 2, 3
    rng = np.random.default_rng(4)
    # Rows of all matrices side by side, as in the layout BSNGD.
    a, b = rng.normal(size=(M, 6, K)).astype(half), rng.normal(size=(K, 6, N)).astype(half)
    room, seen = np.zeros((M, 6, N), single), []

    def kernel(a, b, room):
        mm = Matmul(*IN_GM)
        if REGIST_MATMUL_OBJ(TPipe(), None, mm, tiled()):
            return
        mm.SetOrgShape(M, 6 * N, 6 * K, K)
        mm.SetTensorA(gm(a))
        mm.SetTensorB(gm(b))
        mm.SetWorkspace(room, room.nbytes // 4)
        mm.IterateNBatch(rounds, each, each, False, K, N, N, sync=False)
        seen.extend(mm.GetBatchTensorC(each, each).address for _ in range(rounds))
        mm.End()

    assert found(launch(kernel, a, b, room, kind=MIX)) == []
    expected = np.einsum("mbk,kbn->mbn", a.astype(single), b.astype(single))
    assert np.allclose(room, expected, rtol=1e-4, atol=1e-4)
    assert seen == [0, each * N * 4]


@pytest.mark.parametrize("kind", [AIC, MIX], ids=str)
def test_pieces_of_one_product_lie_one_behind_the_other(kind):
    a, b = matrices(6, 1, 1)
    tiling = tiled(fix_split=(16, 16, 32))
    out = np.zeros((2, M, 16), single)

    def kernel(a, b, out):
        mm = Matmul(*IN_GM)
        if REGIST_MATMUL_OBJ(TPipe(), None, mm, tiling):
            return
        mm.SetTensorA(gm(a))
        mm.SetTensorB(gm(b))
        mm.IterateAll(gm(out), 0, True, True, sync=False)
        mm.WaitIterateAll()
        mm.End()

    assert found(launch(kernel, a, b, out, kind=kind)) == []
    assert np.allclose(np.concatenate(out, axis=1), (a.astype(single) @ b.astype(single))[0], rtol=1e-4, atol=1e-4)


def refused(call, *, has_room=True):
    a, b = matrices(5, 8, 8)

    def kernel(a, b, room):
        mm = Matmul(*IN_GM)
        if REGIST_MATMUL_OBJ(TPipe(), None, mm, tiled()):
            return
        mm.SetTensorA(gm(a))
        mm.SetTensorB(gm(b))
        if has_room:
            mm.SetWorkspace(gm(room))
        call(mm)
        mm.End()

    launch(kernel, a, b, np.zeros(8 * M * N, single), kind=MIX)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda mm: mm.IterateNBatch(0, 1, 1), "IterateNBatch with batch_loop 0; it is 1 or more"),
        (lambda mm: mm.IterateNBatch(1, 2, 3), "a batch of 2 A and 3 B; as many of both"),
        (lambda mm: mm.IterateNBatch(1, 1, 1, True), "with sequential; C of each product lies row by row"),
        (lambda mm: mm.IterateNBatch(9, 1, 1), r"9 batches of 1 with the room .*; call SetWorkspace\(\) with 4608 el"),
        (
            lambda mm: mm.IterateBatch(None, 1, 1, True),
            "IterateBatch with sequential=True and en_partial_sum=False; C of",
        ),
        (lambda mm: mm.GetBatchTensorC(1, 1), r"without a batch; call IterateNBatch\(..., sync=False\) first"),
        (lambda mm: _after(mm, 2, 1), "GetBatchTensorC of 2 A and 1 B, .*; IterateNBatch had 1 and 1, and False"),
        (lambda mm: _after(mm, 1, 1, single, 64), "GetBatchTensorC to .* x 64>; it has 512 elements of float32 in UB"),
        (
            lambda mm: _after(mm, 1, 1, half, 512),
            "GetBatchTensorC to .* float16 x 512>; it has 512 elements",
        ),
    ],
)
def test_a_batch_that_cannot_be_is_refused(call, message):
    with pytest.raises(KernelError, match=message):
        refused(call)


def _after(mm, batch_a, batch_b, dtype=None, size=0):
    mm.IterateNBatch(2, 1, 1, sync=False)
    mm.GetBatchTensorC(batch_a, batch_b, LocalTensor(dtype, TPosition.VECIN, 0, size) if dtype else None)


def test_half_a_batch_is_refused():
    with pytest.raises(TypeError, match=r"IterateNBatch: batch_loop must be an int, not 2\.5: divide with //"):
        refused(lambda mm: mm.IterateNBatch(2.5, 1, 1))


def test_a_batch_without_room_and_one_that_is_not_dense_are_refused():
    with pytest.raises(KernelError, match=r"with the room None; call SetWorkspace\(\) with 512 elements of float32"):
        refused(lambda mm: mm.IterateNBatch(1, 1, 1), has_room=False)

    def apart(mm):
        mm.IterateNBatch(1, 1, 1, False, 0, 0, 2 * M * N, sync=False)
        mm.GetBatchTensorC(1, 1, LocalTensor(single, TPosition.VECIN, 0, 2 * M * N))

    with pytest.raises(KernelError, match=r"1 matrices of 16 x 32 to UB; they lie one behind the other"):
        refused(apart)


def test_a_room_has_the_size_that_is_given_with_it():
    a, b = matrices(9, 1, 1)

    def kernel(a, b, room):
        mm = Matmul(*IN_GM)
        REGIST_MATMUL_OBJ(TPipe(), None, mm, tiled())
        mm.SetTensorA(gm(a))
        mm.SetTensorB(gm(b))
        mm.SetWorkspace(gm(room), 100)
        mm.IterateNBatch(1, 1, 1)

    with pytest.raises(KernelError, match=r"the room .* float32 x 100>; call SetWorkspace\(\) with 512 elements"):
        launch(kernel, a, b, np.zeros(M * N, single), kind=AIC)
