"""A, B and the bias of a Matmul outside of GM, and matrices in NZ."""

import numpy as np
import pytest
from cores import SPEC, found, launch
from instructions import bfloat16, half, single

from device_model.aicore.core.blocks import GetBlockIdx
from device_model.aicore.core.names import CoreType, HardEvent, KernelType, Pipe, TPosition
from device_model.aicore.core.packed import int4b_t, pack
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor
from device_model.aicore.cube.fixpipe import Fixpipe, FixpipeParams
from device_model.aicore.cube.matmul import REGIST_MATMUL_OBJ, Matmul
from device_model.aicore.cube.matmul_operands import CubeFormat, MatmulType
from device_model.aicore.cube.matmul_tiling import multi_core_matmul_tiling
from device_model.aicore.cube.mmad import PRODUCTS
from device_model.aicore.flags.queues import TBuf, TQue
from device_model.aicore.flags.sync import pass_flag
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopy, DataCopyExtParams, DataCopyPad, Nd2NzParams
from device_model.aicore.vector.elementwise import Muls
from device_model.kernel.findings import KernelError

GM, ND, NZ = TPosition.GM, CubeFormat.ND, CubeFormat.NZ
AIC, MIX = KernelType.AIC_ONLY, KernelType.MIX_AIC_1_2
int8 = np.dtype(np.int8)


def elements(dtype, *shape, seed=0):
    rng = np.random.default_rng(seed)
    if dtype in (int8, int4b_t):
        return rng.integers(-8, 8, shape, np.int8)
    return rng.normal(size=shape).astype(dtype)


def width_of(dtype):
    return 64 if dtype is int4b_t else 32 // dtype.itemsize


def to_nz(x, width, tall=16):
    """A matrix as columns of fractals; the rest of the last ones is zeros."""
    down, across = -(-x.shape[0] // tall) * tall, -(-x.shape[1] // width) * width
    padded = np.zeros((down, across), x.dtype)
    padded[: x.shape[0], : x.shape[1]] = x
    return np.ascontiguousarray(padded.reshape(down, across // width, width).transpose(1, 0, 2))


def from_nz(x, m, n, width):
    """The matrix of m x n elements that lies in columns of fractals."""
    return x.reshape(-1, -(-m // 16) * 16, width).transpose(1, 0, 2).reshape(-(-m // 16) * 16, -1)[:m, :n]


def tiling_of(m, n, k, dtype, base, cores=1, **options):
    return multi_core_matmul_tiling(SPEC, m, n, k, dtype, cores=cores, fix_split=base, **options)


def product(a, b, c, tiling, kinds):
    mm = Matmul(*kinds)
    if not REGIST_MATMUL_OBJ(TPipe(), None, mm, tiling):
        mm.SetTensorA(GlobalTensor(kinds[0].dtype).SetGlobalBuffer(a))
        mm.SetTensorB(GlobalTensor(kinds[1].dtype).SetGlobalBuffer(b))
        mm.IterateAll(GlobalTensor(kinds[2].dtype).SetGlobalBuffer(c))
        mm.End()


LAYOUTS = [  # type, whether A and B are transposed, pieces
    (half, False, False, (32, 32, 64)),
    (half, True, True, (32, 48, 32)),
    (bfloat16, False, True, (16, 32, 32)),
    (single, False, False, (32, 32, 32)),
    (single, False, True, (32, 32, 16)),
    (int8, False, False, (32, 64, 64)),
    (int8, False, True, (48, 32, 32)),
    (int4b_t, False, False, (32, 64, 64)),
]


@pytest.mark.parametrize(("dtype", "a_trans", "b_trans", "base"), LAYOUTS, ids=str)
def test_factors_in_nz_equal_numpy(dtype, a_trans, b_trans, base):
    m, n, k = 50, 100, 130
    a, b = elements(dtype, m, k), elements(dtype, k, n, seed=1)
    stored = [to_nz(x.T if trans else x, width_of(dtype)) for x, trans in ((a, a_trans), (b, b_trans))]
    if dtype is int4b_t:
        stored = [pack(x) for x in stored]
    total = np.dtype(PRODUCTS[dtype.name])
    kinds = MatmulType(GM, NZ, dtype, a_trans), MatmulType(GM, NZ, dtype, b_trans), MatmulType(GM, ND, total)
    c = np.zeros((m, n), total)
    result = launch(product, *stored, c, tiling_of(m, n, k, dtype, base), kinds, kind=AIC)
    assert np.allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-4)
    assert found(result) == []


@pytest.mark.parametrize("formats", [(NZ, NZ, NZ), (ND, NZ, ND), (NZ, ND, NZ), (ND, ND, NZ)], ids=str)
@pytest.mark.parametrize(("dtype", "a_trans", "b_trans", "base"), [LAYOUTS[1], LAYOUTS[6]], ids=str)
def test_matrices_of_a_batch_follow_each_other_in_whole_fractals(dtype, a_trans, b_trans, base, formats):
    m, n, k, batches = 20, 35, 50, 3
    a, b = elements(dtype, batches, m, k), elements(dtype, batches, k, n, seed=1)
    stored = []
    for each, trans, form in ((a, a_trans, formats[0]), (b, b_trans, formats[1])):
        matrices = each.swapaxes(1, 2) if trans else each
        stored.append(np.array([to_nz(x, width_of(dtype)) if form is NZ else x for x in matrices], order="C"))
    total = np.dtype(PRODUCTS[dtype.name])
    kinds = [
        MatmulType(GM, form, each, trans)
        for form, each, trans in zip(formats, (dtype, dtype, total), (a_trans, b_trans, False), strict=True)
    ]
    c = np.zeros((batches, 32 * 48 if formats[2] is NZ else m * n), total)

    def kernel(a, b, c, tiling):
        mm = Matmul(*kinds)
        REGIST_MATMUL_OBJ(TPipe(), None, mm, tiling)
        mm.SetTensorA(GlobalTensor(dtype).SetGlobalBuffer(a))
        mm.SetTensorB(GlobalTensor(dtype).SetGlobalBuffer(b))
        mm.IterateBatch(GlobalTensor(total).SetGlobalBuffer(c), batches, batches)
        mm.End()

    result = launch(kernel, *stored, c, tiling_of(m, n, k, dtype, base), kind=AIC)
    products = [from_nz(each, m, n, 16) if formats[2] is NZ else each.reshape(m, n) for each in c]
    assert np.allclose(products, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-4, atol=1e-3)
    assert found(result) == []


def in_l1(a, b, c, tiling, kinds):
    """Brings A and B to L1 itself, with queues, and leaves them there for two products."""
    pipe = TPipe()
    queues = [TQue(TPosition.A1, 1), TQue(TPosition.B1, 1)]
    mm = Matmul(*kinds)
    assert not REGIST_MATMUL_OBJ(pipe, None, mm, tiling)
    local = []
    for queue, gm, kind, (down, across), is_b in zip(
        queues, (a, b), kinds, ((tiling.m, tiling.ka), (tiling.kb, tiling.n)), (False, True), strict=False
    ):
        width = width_of(kind.dtype)
        tall = max(width, 16) if is_b and not kind.is_trans else 16
        if kind.is_trans:
            down, across = across, down
        high, wide = -(-down // tall) * tall, -(-across // width) * width
        pipe.InitBuffer(queue, 1, high * wide * kind.dtype.itemsize)
        tensor = queue.AllocTensor(kind.dtype)
        source = GlobalTensor(kind.dtype).SetGlobalBuffer(gm)
        DataCopy(tensor, source, Nd2NzParams(1, down, across, 0, across, high, 1, 0))
        queue.EnQue(tensor)
        local.append(queue.DeQue(kind.dtype))
    out = GlobalTensor(kinds[2].dtype).SetGlobalBuffer(c)
    for number in range(2):
        mm.SetTensorA(local[0])
        mm.SetTensorB(local[1])
        mm.IterateAll(out[number * tiling.m * tiling.n])
    for queue, tensor in zip(queues, local, strict=True):
        queue.FreeTensor(tensor)
    mm.End()


@pytest.mark.parametrize(
    ("dtype", "a_trans", "b_trans", "base"), [each for each in LAYOUTS if each[0] not in (single, int4b_t) or each[2]],
    ids=str,
)  # fmt: skip
def test_factors_in_l1_are_read_where_they_are(dtype, a_trans, b_trans, base):
    m, n, k = 50, 100, 130
    a, b = elements(dtype, m, k), elements(dtype, k, n, seed=1)
    stored = [np.ascontiguousarray(x.T if trans else x) for x, trans in ((a, a_trans), (b, b_trans))]
    total = np.dtype(PRODUCTS[dtype.name])
    kinds = (
        MatmulType(TPosition.TSCM, NZ, dtype, a_trans),
        MatmulType(TPosition.B1, NZ, dtype, b_trans),
        MatmulType(GM, ND, total),
    )
    c = np.zeros((2, m, n), total)
    result = launch(in_l1, *stored, c, tiling_of(m, n, k, dtype, base), kinds, kind=AIC)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert all(np.allclose(each, expected, rtol=1e-5, atol=1e-4) for each in c)
    assert found(result) == []
    # Only the kernel's own two copies come from GM.
    assert [each.name for each in result.programs[0].instructions if each.pipe is Pipe.MTE2 and each.flow] == [
        "DataCopy"
    ] * 2


def scaled(a, b, bias, c, workspace, tiling, kinds):
    """Each vector core scales its rows of A in UB, multiplies them with B, and adds a bias that it has scaled, too."""
    pipe = TPipe()
    mm = Matmul(*kinds)
    if REGIST_MATMUL_OBJ(pipe, workspace, mm, tiling):
        return
    m, n, k = tiling.single_core_m, tiling.n, tiling.ka
    arriving, leaving, shift = TBuf(TPosition.VECIN), TQue(TPosition.VECOUT, 1), TBuf(TPosition.VECCALC)
    pipe.InitBuffer(arriving, m * k * 2)
    pipe.InitBuffer(leaving, 1, m * k * 2)
    pipe.InitBuffer(shift, n * 4)
    first = GetBlockIdx() * m
    DataCopy(arriving.Get(half), GlobalTensor(half).SetGlobalBuffer(a)[first * k :], m * k)
    DataCopy(shift.Get(single), GlobalTensor(single).SetGlobalBuffer(bias), n)
    pass_flag(HardEvent.MTE2_V)
    tensor = leaving.AllocTensor(half)
    Muls(tensor, arriving.Get(half), 2, m * k)
    leaving.EnQue(tensor)
    tensor = leaving.DeQue(half)
    mm.SetTensorA(tensor)
    leaving.FreeTensor(tensor)
    mm.SetTensorB(GlobalTensor(half).SetGlobalBuffer(b))
    Muls(shift.Get(single), shift.Get(single), 3, n)
    mm.SetBias(shift.Get(single))
    mm.IterateAll(GlobalTensor(single).SetGlobalBuffer(c)[first * n], sync=False)
    # The room is used again, after the cube core has read it.
    tensor = leaving.AllocTensor(half)
    Muls(tensor, arriving.Get(half), 4, m * k)
    leaving.EnQue(tensor)
    mm.SetTensorA(leaving.DeQue(half))
    leaving.FreeTensor(tensor)
    mm.DisableBias()
    mm.IterateAll(GlobalTensor(single).SetGlobalBuffer(c)[tiling.m * n + first * n], sync=False)
    mm.WaitIterateAll()
    mm.End()


def test_factors_in_ub_go_through_gm():
    m, n, k = 64, 48, 96
    a, b, bias = elements(half, m, k), elements(half, k, n, seed=1), elements(single, n, seed=2)
    tiling = tiling_of(m, n, k, half, (16, 48, 32), cores=4, is_bias=True)
    assert (tiling.single_core_m, tiling.single_core_n) == (16, 48)
    kinds = (
        MatmulType(TPosition.VECOUT, ND, half),
        MatmulType(GM, ND, half),
        MatmulType(GM, ND, single),
        MatmulType(TPosition.VECCALC, ND, single),
    )
    workspace = np.zeros(tiling.workspace_bytes(4, a=half, bias=single), np.uint8)
    c = np.zeros((2, m, n), single)
    result = launch(scaled, a, b, bias, c, workspace, tiling, kinds, blocks=2, kind=MIX)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert np.allclose(c[0], 2 * expected + 3 * bias, rtol=1e-3, atol=1e-2)
    assert np.allclose(c[1], 4 * expected, rtol=1e-3, atol=1e-2)
    assert found(result) == []
    vector = next(each for each in result.programs if each.core_type is CoreType.AIV)
    sent = [each.flow.nbytes for each in vector.instructions if each.pipe is Pipe.MTE3 and each.flow]
    assert sent == [16 * k * 2, n * 4, 16 * k * 2]


def pieces_in_nz(a, b, c, workspace, tiling, kinds):
    pipe = TPipe()
    mm = Matmul(*kinds)
    if REGIST_MATMUL_OBJ(pipe, workspace, mm, tiling):
        return
    queue = TQue(TPosition.VECOUT, 1)
    pipe.InitBuffer(queue, 1, tiling.base_m * tiling.base_n * 2)
    if GetBlockIdx() == 0:
        mm.SetTensorA(GlobalTensor(half).SetGlobalBuffer(a))
        mm.SetTensorB(GlobalTensor(half).SetGlobalBuffer(b))
        out = GlobalTensor(half).SetGlobalBuffer(c)
        at = 0
        while mm.Iterate():
            tensor = queue.AllocTensor(half)
            mm.GetTensorC(tensor)
            queue.EnQue(tensor)
            tensor = queue.DeQue(half)
            count = min(tiling.base_m * tiling.base_n, tiling.m * tiling.n - at)
            DataCopyPad(out[at:], tensor, DataCopyExtParams(1, count * 2))
            queue.FreeTensor(tensor)
            at += count
    mm.End()


def test_pieces_of_c_come_to_ub_in_nz():
    m, n, k = 32, 80, 64
    a, b = elements(half, m, k), elements(half, k, n, seed=1)
    tiling = tiling_of(m, n, k, half, (32, 48, 64))
    kinds = MatmulType(GM, ND, half), MatmulType(GM, ND, half), MatmulType(TPosition.VECIN, NZ, half)
    c = np.zeros(m * n, half)
    result = launch(pieces_in_nz, a, b, c, np.zeros(2 * tiling.workspace_bytes(2), np.uint8), tiling, kinds, kind=MIX)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    assert np.allclose(from_nz(c[: m * 48], m, 48, 16), expected[:, :48], rtol=1e-3, atol=1e-2)
    assert np.allclose(from_nz(c[m * 48 :], m, 32, 16), expected[:, 48:], rtol=1e-3, atol=1e-2)
    assert found(result) == []


def test_pieces_in_nz_for_ub_are_whole_fractals():
    a, b = elements(half, 24, 64), elements(half, 64, 48, seed=1)
    tiling = tiling_of(24, 48, 64, half, (32, 48, 64))
    kinds = MatmulType(GM, ND, half), MatmulType(GM, ND, half), MatmulType(TPosition.VECIN, NZ, half)
    workspace = np.zeros(2 * tiling.workspace_bytes(2), np.uint8)
    with pytest.raises(KernelError, match=r"a piece of 24 x 48 to UB in NZ; its sides are multiples of 16 and 16"):
        launch(pieces_in_nz, a, b, np.zeros(24 * 48, half), workspace, tiling, kinds, kind=MIX)


def kept_in_l0c(a, b, c, tiling, kinds):
    """Pieces of C stay in L0C until all of a row are there; then one Fixpipe for each. Twice, with End in between."""
    pipe, room = TPipe(), TQue(TPosition.CO1, 1)
    mm = Matmul(*kinds)
    assert not REGIST_MATMUL_OBJ(pipe, None, mm, tiling)
    size = tiling.base_m * tiling.base_n
    pipe.InitBuffer(room, 1, 2 * size * 4)
    left, right, out = (GlobalTensor(kind).SetGlobalBuffer(gm) for kind, gm in ((half, a), (half, b), (single, c)))
    for _ in range(2):
        mm.SetTensorA(left)
        mm.SetTensorB(right)
        tensor = room.AllocTensor(single)
        assert mm.Iterate(False, tensor)
        assert mm.Iterate(False, tensor[size:])
        assert not mm.Iterate(False, tensor)
        room.EnQue(tensor)
        tensor = room.DeQue(single)
        for piece in range(2):
            params = FixpipeParams(tiling.base_n, tiling.m, tiling.base_m, tiling.n)
            Fixpipe(out[piece * tiling.base_n :], tensor[piece * size :], params)
        room.FreeTensor(tensor)
        mm.End()


def test_pieces_of_c_stay_in_l0c():
    m, n, k = 32, 96, 160
    a, b = elements(half, m, k), elements(half, k, n, seed=1)
    kinds = MatmulType(GM, ND, half), MatmulType(GM, ND, half), MatmulType(TPosition.CO1, NZ, single)
    c = np.zeros((m, n), single)
    result = launch(kept_in_l0c, a, b, c, tiling_of(m, n, k, half, (32, 48, 64)), kinds, kind=AIC)
    assert np.allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-4, atol=1e-3)
    assert found(result) == []


def test_partial_sums_add_up_in_l0c():
    def kernel(a, b, c, tiling):
        pipe, room = TPipe(), TQue(TPosition.CO1, 1)
        mm = Matmul(of(GM, half, ND), of(GM, half, ND), of(TPosition.CO1, single))
        REGIST_MATMUL_OBJ(pipe, None, mm, tiling)
        pipe.InitBuffer(room, 1, 32 * 48 * 4)
        tensor = room.AllocTensor(single)
        mm.SetOrgShape(32, 48, 192)
        for part in range(3):
            mm.SetTensorA(GlobalTensor(half).SetGlobalBuffer(a)[part * 64])
            mm.SetTensorB(GlobalTensor(half).SetGlobalBuffer(b)[part * 64 * 48])
            assert mm.Iterate(part > 0, tensor)
        room.EnQue(tensor)
        tensor = room.DeQue(single)
        Fixpipe(GlobalTensor(single).SetGlobalBuffer(c), tensor, FixpipeParams(48, 32))
        room.FreeTensor(tensor)
        mm.End()

    a, b, c = elements(half, 32, 192), elements(half, 192, 48, seed=1), np.zeros((32, 48), single)
    result = launch(kernel, a, b, c, tiling_of(32, 48, 64, half, (32, 48, 64)), kind=AIC)
    assert np.allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-4, atol=1e-3)
    assert found(result) == []


@pytest.mark.parametrize(
    ("c", "arguments", "message"),
    [
        (("GM", single), (False, "room"), "C at GM and local_c_matrix <LocalTensor CO1"),
        (("CO1", single), (), "C at CO1 and local_c_matrix None"),
        (("GM", single), (True,), "en_partial_sum and 1 pieces of C"),
        (("CO1", half), (), "a Matmul of float16 with C .*at CO1 it is float32 in NZ"),
    ],
)
def test_pieces_in_l0c_that_cannot_be_are_refused(c, arguments, message):
    def kernel(a):
        position, dtype = c
        mm = Matmul(of(GM, half, ND), of(GM, half, ND), of(TPosition[position], dtype))
        REGIST_MATMUL_OBJ(TPipe(), None, mm, tiling_of(32, 32, 64, half, (32, 32, 64)))
        mm.SetTensorA(GlobalTensor(half).SetGlobalBuffer(a))
        mm.SetTensorB(GlobalTensor(half).SetGlobalBuffer(a))
        room = LocalTensor(single, TPosition.CO1, 65536, 1024)
        mm.Iterate(*(room if each == "room" else each for each in arguments))

    with pytest.raises(KernelError, match=message):
        launch(kernel, np.zeros(64 * 32, half), kind=AIC)


def of(position, dtype=half, format_=NZ, is_trans=False):
    return MatmulType(position, format_, dtype, is_trans)


MISTAKES = [
    (of(TPosition.A2), of(GM), AIC, "A and B are of one type, and in GM, L1 or UB"),
    (of(TPosition.TSCM), of(GM), MIX, "A in L1 in a mixed kernel.*AIC_ONLY"),
    (of(GM), of(TPosition.VECCALC), AIC, "B in UB on cube cores alone.*no UB"),
    (of(GM), of(TPosition.B1), AIC, r"SetTensorB with <GlobalTensor .*it is a LocalTensor of float16 in L1"),
    (of(GM), of(GM), AIC, "base_n 40 for B of float16 in NZ.*multiple of 16"),
]


@pytest.mark.parametrize(("a", "b", "kind", "message"), MISTAKES, ids=range(len(MISTAKES)))
def test_places_that_a_card_does_not_have_are_refused(a, b, kind, message):
    tiling = tiling_of(32, 80, 64, half, (32, 40, 64))
    gm = np.zeros(64 * 80, half)
    with pytest.raises(KernelError, match=message):
        launch(product, gm, gm.copy(), gm.copy(), tiling, (a, b, of(GM, half, ND)), kind=kind)


def test_a_part_in_l1_that_is_too_small_is_refused():
    def kernel(a, b, c):
        pipe, queue = TPipe(), TBuf(TPosition.A1)
        pipe.InitBuffer(queue, 32 * 64 * 2)
        mm = Matmul(of(TPosition.A1), of(GM, half, ND), of(GM, half, ND))
        REGIST_MATMUL_OBJ(pipe, None, mm, tiling_of(32, 80, 64, half, (32, 80, 64)))
        mm.SetTensorA(queue.Get(half)[16:])

    gm = np.zeros(64 * 80, half)
    with pytest.raises(KernelError, match=r"SetTensorA with .*this core's part of it has 2048 elements"):
        launch(kernel, gm, gm.copy(), gm.copy(), kind=AIC)


def test_float_that_must_be_transposed_is_not_read_from_l1():
    def kernel(a):
        pipe, queue = TPipe(), TBuf(TPosition.B1)
        pipe.InitBuffer(queue, 64 * 32 * 4)
        mm = Matmul(of(GM, single, ND), of(TPosition.B1, single), of(GM, single, ND))
        REGIST_MATMUL_OBJ(pipe, None, mm, tiling_of(32, 32, 64, single, (32, 32, 64)))
        mm.SetTensorB(queue.Get(single))

    with pytest.raises(KernelError, match="B of float32 in L1 is stored transposed"):
        launch(kernel, np.zeros(64 * 32, single), kind=AIC)


def test_ub_without_room_in_gm_is_refused():
    def kernel(a):
        mm = Matmul(of(TPosition.VECOUT, half, ND), of(GM, half, ND), of(GM, half, ND))
        pipe, queue = TPipe(), TBuf(TPosition.VECOUT)
        if not REGIST_MATMUL_OBJ(pipe, None, mm, tiling_of(32, 32, 64, half, (32, 32, 64))):
            pipe.InitBuffer(queue, 32 * 64 * 2)
            mm.SetTensorA(queue.Get(half))

    with pytest.raises(KernelError, match=r"without a workspace.*workspace_bytes\(..., a=float16\)"):
        launch(kernel, np.zeros(8, half), kind=MIX)


def test_a_batch_in_ub_is_refused():
    tiling = multi_core_matmul_tiling(SPEC, 16, 16, 16, half, cores=1)

    def kernel(b, c, workspace):
        mm = Matmul(MatmulType(TPosition.VECOUT, ND, half), MatmulType(GM, ND, half), MatmulType(GM, ND, single))
        if REGIST_MATMUL_OBJ(TPipe(), workspace, mm, tiling):
            return
        mm.SetTensorA(LocalTensor(half, TPosition.VECOUT, 0, 2 * 256))
        mm.SetTensorB(GlobalTensor(half).SetGlobalBuffer(b))
        mm.IterateBatch(GlobalTensor(single).SetGlobalBuffer(c), 2, 2)

    arrays = np.zeros((2, 16, 16), half), np.zeros((2, 16, 16), single)
    workspace = np.zeros(tiling.workspace_bytes(2, a=half), np.uint8)
    with pytest.raises(KernelError, match=r"IterateBatch of 2 A in UB; .*one matrix from UB: give a batch in GM"):
        launch(kernel, *arrays, workspace, kind=MIX)
