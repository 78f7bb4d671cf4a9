"""Names that set or tell one thing: of atomic copies, padding, merged lists, queues, the rest of UB, and Trap."""

import numpy as np
import pytest
from cores import SPEC, found, launch, names
from instructions import half, in_ub, on_core, single

from device_model.aicore.core.debug import Trap
from device_model.aicore.core.names import HardEvent, KernelType, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor
from device_model.aicore.cube.matmul import REGIST_MATMUL_OBJ, Matmul
from device_model.aicore.cube.matmul_operands import CubeFormat, MatmulType
from device_model.aicore.cube.matmul_tiling import multi_core_matmul_tiling
from device_model.aicore.flags.queues import TBuf, TQue
from device_model.aicore.flags.sync import SetFlag, WaitFlag
from device_model.aicore.flags.tpipe import PopStackBuffer, TPipe
from device_model.aicore.moving.atomics import SetAtomicAdd, SetAtomicNone, SetAtomicType
from device_model.aicore.moving.copies import (
    DataCopy,
    DataCopyExtParams,
    DataCopyPad,
    DataCopyPadExtParams,
    SetPadValue,
)
from device_model.aicore.vector.fill import Duplicate
from device_model.aicore.vector.sort import GetMrgSortResult, MrgSort, MrgSort4Info
from device_model.kernel.findings import KernelError


def gm(array):
    return GlobalTensor(array.dtype).SetGlobalBuffer(array)


def test_trap_ends_the_kernel():
    with pytest.raises(
        KernelError, match=r"Trap\(\) on block 0 \(AIV\); the kernel calls it where it cannot go on"
    ) as end:
        on_core(lambda: Trap())
    assert end.traceback[-1].name == "Trap"


def test_the_type_of_atomic_copies_can_be_changed():
    def kernel(out, dtype):
        SetAtomicType(single)  # copies are not atomic yet
        SetAtomicAdd(half)
        SetAtomicType(dtype)
        tensor = in_ub(np.full(8, 2, single), 0)
        DataCopy(GlobalTensor(single).SetGlobalBuffer(out), tensor, 8)
        SetAtomicNone()

    out = np.ones(8, single)
    assert found(launch(kernel, out, single)) == []
    assert out.tolist() == [3] * 8
    with pytest.raises(KernelError, match=r"SetAtomicType of uint8; it takes"):
        launch(kernel, out, np.uint8)


def test_a_number_for_padding_serves_copies_that_name_none():
    seen = []

    def kernel(x):
        for at, (is_pad, number) in enumerate([(False, None), (False, 5), (True, 5)]):
            if number is not None:
                SetPadValue(number)
            tensor = LocalTensor(half, TPosition.VECCALC, at * 64, 16)
            DataCopyPad(
                tensor, GlobalTensor(half).SetGlobalBuffer(x), DataCopyExtParams(1, 12, 0, 0),
                DataCopyPadExtParams(is_pad, 2, 8, 9),
            )  # fmt: skip
            seen.append(tensor.view.copy())

    launch(kernel, np.arange(6, dtype=half))
    without, by_number, by_itself = (each.tolist() for each in seen)
    assert without[:6] == [0, 1, 2, 3, 4, 5]
    assert np.isnan(without[6:]).all()  # nothing is padded, and the rest of the block is undefined
    assert by_number == [5, 5, 0, 1, 2, 3, 4, 5] + [5] * 8
    assert by_itself == [9, 9, 0, 1, 2, 3, 4, 5] + [9] * 8
    with pytest.raises(TypeError, match=r"SetPadValue takes a number, not 'x'"):
        on_core(lambda: SetPadValue("x"))


def test_what_a_merge_has_taken_can_be_asked_for():
    def kernel():
        first, second = (
            in_ub(np.stack([scores, np.zeros(4)], axis=1).astype(single), at)
            for at, scores in ((0, [8, 6, 4, 2]), (64, [9, 7, 5, 3]))
        )
        dst = LocalTensor(single, TPosition.VECCALC, 128, 16)
        MrgSort(dst, [first, second], MrgSort4Info([4, 4, 0, 0], True, 0b11, 1))
        seen.append(GetMrgSortResult())

    seen = []
    assert found(on_core(kernel)) == []
    assert seen == [(3, 4, 0, 0)]  # the second list is used up after its 3
    with pytest.raises(KernelError, match=r"GetMrgSortResult on block 0 \(AIV\); it has no MrgSort before"):
        on_core(GetMrgSortResult)


def test_events_of_a_queue_are_waited_for_and_given_back():
    def kernel(x):
        pipe, queue = TPipe(), TQue(TPosition.VECIN, 1)
        pipe.InitBuffer(queue, 2, 32)
        for _ in range(2):
            tensor = queue.AllocTensor(single)
            DataCopy(tensor, gm(x), 8)
            queue.EnQue(tensor)
            queue.FreeTensor(queue.DeQue(single))
        queue.FreeAllEvent()
        queue.FreeAllEvent()  # there are none left
        seen.append(pipe.AllocEventID(HardEvent.V_MTE2))

    seen = []
    x = np.ones(8, single)
    result = launch(kernel, x)
    assert found(result) == []
    assert names(result).count("WaitFlag<V_MTE2>") == 2
    assert seen == [0]


def test_the_rest_of_ub_is_a_tensor():
    def kernel():
        pipe, buffer = TPipe(), TBuf()
        pipe.InitBuffer(buffer, 1_024)
        rest = PopStackBuffer(half)
        seen.append((rest.address, rest.size, rest.dtype))
        Duplicate(rest, 1, 128)
        pipe.InitBuffer(TBuf(), SPEC.ub_bytes - 1_024)
        with pytest.raises(KernelError, match=r"PopStackBuffer at VECCALC of .*; no bytes of UB are left"):
            PopStackBuffer(half)

    seen = []
    assert found(on_core(kernel)) == []
    assert seen == [(1_024, (SPEC.ub_bytes - 1_024) // 2, half)]
    with pytest.raises(KernelError, match=r"has no TPipe; make one first"):
        on_core(lambda: PopStackBuffer(half))


def test_a_product_may_leave_its_bias_out():
    of = [MatmulType(TPosition.GM, CubeFormat.ND, each) for each in (half, half, single, single)]
    tiling = multi_core_matmul_tiling(SPEC, 16, 16, 16, half, cores=1, is_bias=True)
    a, b = np.random.default_rng(2).normal(size=(2, 16, 16)).astype(half)
    bias, outs = np.arange(16, dtype=single), np.zeros((3, 16, 16), single)

    def kernel(a, b, bias, outs, tiling):
        mm = Matmul(*of)
        REGIST_MATMUL_OBJ(TPipe(), None, mm, tiling)
        for turn in range(3):
            mm.SetTensorA(GlobalTensor(half).SetGlobalBuffer(a))
            mm.SetTensorB(GlobalTensor(half).SetGlobalBuffer(b))
            if turn == 1:
                mm.DisableBias()
            else:
                mm.SetBias(GlobalTensor(single).SetGlobalBuffer(bias))
            mm.IterateAll(GlobalTensor(single).SetGlobalBuffer(outs)[turn * 256])
        mm.End()

    assert found(launch(kernel, a, b, bias, outs, tiling, kind=KernelType.AIC_ONLY)) == []
    product = a.astype(single) @ b.astype(single)
    for out, added in zip(outs, (bias, 0, bias), strict=True):
        assert np.allclose(out, product + added, rtol=1e-4, atol=1e-4)


def test_a_product_of_floats_may_be_of_hf32():
    of = [MatmulType(TPosition.GM, CubeFormat.ND, single)] * 3
    tiling = multi_core_matmul_tiling(SPEC, 32, 32, 32, single, cores=1)
    a, b = np.random.default_rng(2).normal(size=(2, 32, 32)).astype(single)
    outs = np.zeros((2, 32, 32), single)

    def kernel(a, b, outs, tiling):
        mm = Matmul(*of)
        REGIST_MATMUL_OBJ(TPipe(), None, mm, tiling)
        with pytest.raises(KernelError, match=r"SetHF32 with trans_mode 2; it is 0 or 1"):
            mm.SetHF32(True, 2)
        for turn in range(2):
            mm.SetHF32(turn == 1)
            mm.SetTensorA(gm(a))
            mm.SetTensorB(gm(b))
            mm.IterateAll(gm(outs)[turn * 1024])
        mm.End()

    assert found(launch(kernel, a, b, outs, tiling, kind=KernelType.AIC_ONLY)) == []
    assert np.allclose(outs[0], a @ b, rtol=1e-5, atol=1e-5)
    assert 1e-5 < np.abs(outs[1] - a @ b).max() < 1e-2

    def mixed(tiling):
        mm = Matmul(*of)
        if REGIST_MATMUL_OBJ(TPipe(), None, mm, tiling):
            return
        try:
            mm.SetHF32(True)
        finally:
            mm.End()

    with pytest.raises(KernelError, match=r"SetHF32 on a vector core; a Matmul has it in kernels on cube cores alone"):
        launch(mixed, tiling, kind=KernelType.MIX_AIC_1_1)


def test_a_product_may_get_its_room_in_gm_later():
    a_type, c_type = (
        MatmulType(at, CubeFormat.ND, each) for at, each in ((TPosition.GM, half), (TPosition.VECIN, single))
    )
    tiling = multi_core_matmul_tiling(SPEC, 32, 32, 32, half, cores=1)
    a, b = np.random.default_rng(2).normal(size=(2, 32, 32)).astype(half)
    room, out = np.zeros(tiling.workspace_bytes(1) // 4, single), np.zeros((32, 32), single)

    def kernel(a, b, room, out, tiling):
        mm = Matmul(a_type, a_type, c_type)
        if REGIST_MATMUL_OBJ(TPipe(), None, mm, tiling):
            return
        with pytest.raises(KernelError, match=r"SetWorkspace\(.*\); give it \d+ elements of float32, or more"):
            mm.SetWorkspace(gm(room)[:8])
        mm.SetWorkspace(room, room.nbytes // 4)
        mm.SetTensorA(gm(a))
        mm.SetTensorB(gm(b))
        tile = LocalTensor(single, TPosition.VECIN, 0, tiling.base_m * tiling.base_n)
        while mm.Iterate():
            mm.GetTensorC(tile)
            SetFlag(HardEvent.MTE2_MTE3, 0)
            WaitFlag(HardEvent.MTE2_MTE3, 0)
            DataCopy(gm(out), tile, 1024)
        mm.End()

    assert (tiling.base_m, tiling.base_n) == (32, 32)
    assert found(launch(kernel, a, b, room, out, tiling, kind=KernelType.MIX_AIC_1_1)) == []
    assert np.allclose(out, a.astype(single) @ b.astype(single), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", [KernelType.AIC_ONLY, KernelType.MIX_AIC_1_1], ids=str)
@pytest.mark.parametrize("dtype", [half, single], ids=str)
def test_a_product_may_be_stored_in_fractals(dtype, kind):
    m, n, k = 72, 160, 32
    narrow, wide = MatmulType(TPosition.GM, CubeFormat.ND, half), MatmulType(TPosition.GM, CubeFormat.NZ, dtype)
    tiling = multi_core_matmul_tiling(SPEC, m, n, k, half, cores=1, fix_split=(32, 64, 32))
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(m, k)).astype(half), rng.normal(size=(k, n)).astype(half)
    out = np.zeros((2, n // 16, 80, 16), dtype)  # 72 rows are five fractals

    def kernel(a, b, out, tiling):
        mm = Matmul(narrow, narrow, wide)
        if REGIST_MATMUL_OBJ(TPipe(), None, mm, tiling):
            return
        mm.SetTensorA(gm(a))
        mm.SetTensorB(gm(b))
        mm.IterateAll(gm(out))
        mm.SetTensorA(gm(a))
        while mm.Iterate():
            mm.GetTensorC(gm(out)[n * 80 :])
        mm.End()

    assert found(launch(kernel, a, b, out, tiling, kind=kind)) == []
    product = a.astype(single) @ b.astype(single)
    for each in out:
        assert np.allclose(each.transpose(1, 0, 2).reshape(80, n)[:m], product, rtol=2e-3, atol=2e-2)


def test_a_bias_lies_row_by_row():
    rows, fractals = (MatmulType(TPosition.GM, each, half) for each in (CubeFormat.ND, CubeFormat.NZ))
    with pytest.raises(KernelError, match=r"a Matmul with the bias .*; it is ND, and in GM or UB"):
        on_core(lambda: Matmul(rows, rows, rows, fractals))
