"""A Matmul that is registered without its tiling, and gets it from Init."""

import numpy as np
import pytest
from cores import SPEC, found, launch, names
from instructions import after, half, single

from device_model.aicore.core.blocks import GetBlockIdx
from device_model.aicore.core.names import HardEvent, KernelType, TPosition
from device_model.aicore.core.tensors import GlobalTensor
from device_model.aicore.cube.matmul import REGIST_MATMUL_OBJ, Matmul
from device_model.aicore.cube.matmul_operands import CubeFormat, MatmulType
from device_model.aicore.cube.matmul_tiling import multi_core_matmul_tiling
from device_model.aicore.flags.queues import TBuf
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopy
from device_model.aicore.vector.elementwise import Muls
from device_model.kernel.findings import KernelError

AIC, MIX = KernelType.AIC_ONLY, KernelType.MIX_AIC_1_2
M, N, K = 32, 64, 48
TILING = multi_core_matmul_tiling(SPEC, M, N, K, half, cores=1, fix_split=(16, 32, 48))
OTHER = multi_core_matmul_tiling(SPEC, M, N, K, half, cores=1, fix_split=(32, 32, 48))


def gm(array, dtype):
    return GlobalTensor(dtype).SetGlobalBuffer(array)


def matmul(position=TPosition.GM):
    a, b = (MatmulType(TPosition.GM, CubeFormat.ND, half) for _ in range(2))
    return Matmul(a, b, MatmulType(position, CubeFormat.ND, single))


def doubled(a, b, out, workspace, how):
    """Each vector core doubles the pieces of its product; the object gets its tiling from REGIST_MATMUL_OBJ or Init."""
    pipe, mm = TPipe(), matmul(TPosition.VECIN)
    if REGIST_MATMUL_OBJ(pipe, workspace, mm, *((TILING,) if how == "registered" else ())):
        return
    if how == "init":
        mm.Init(TILING)
    room = TBuf(TPosition.VECCALC)
    pipe.InitBuffer(room, 16 * 32 * 4)
    piece, core = room.Get(single), GetBlockIdx()
    mm.SetTensorA(gm(a, half)[core * M * K :])
    mm.SetTensorB(gm(b, half))
    index = 0
    while mm.Iterate():
        mm.GetTensorC(piece)
        Muls(piece, piece, 2.0, 16 * 32)
        pipe_out(gm(out, single)[(core * 4 + index) * 16 * 32 :], piece)
        index += 1
    mm.End()


def pipe_out(dst, piece):
    after(HardEvent.V_MTE3)
    DataCopy(dst, piece, 16 * 32)
    after(HardEvent.MTE3_V)


def data():
    rng = np.random.default_rng(5)
    return rng.integers(-3, 4, (2, M, K)).astype(half), rng.integers(-3, 4, (K, N)).astype(half)


def run_doubled(how):
    a, b = data()
    out, workspace = np.zeros((2, 2, 2, 16, 32), single), np.zeros(TILING.workspace_bytes(2), np.uint8)
    result = launch(doubled, a, b, out, workspace, how, kind=MIX)
    return out.transpose(0, 2, 3, 1, 4).reshape(2, M, N), result


def test_init_gives_what_a_registration_with_the_tiling_gives():
    (first, early), (second, late) = run_doubled("registered"), run_doubled("init")
    a, b = data()
    assert first.tolist() == second.tolist() == (2 * (a.astype(single) @ b.astype(single))).tolist()
    assert found(early) == found(late) == []
    # Buffers are made later, behind the first wait; all that follows is the same.
    for core in range(3):
        assert names(early, core)[-40:] == names(late, core)[-40:]
        assert sorted(names(early, core)) == sorted(names(late, core))


@pytest.mark.parametrize("is_registered", [True, False])
def test_on_cube_cores_alone_init_takes_the_pipe_or_finds_it(is_registered):
    a, b = data()

    def kernel(a, b, out):
        pipe, mm = TPipe(), matmul()
        if is_registered:
            REGIST_MATMUL_OBJ(pipe, None, mm)
            mm.Init(TILING)
        else:
            mm.Init(TILING, pipe)
        mm.SetTensorA(gm(a, half))
        mm.SetTensorB(gm(b, half))
        mm.IterateAll(gm(out, single))
        mm.End()

    out = np.zeros((M, N), single)
    result = launch(kernel, a[0], b, out, kind=AIC)
    assert out.tolist() == (a[0].astype(single) @ b.astype(single)).tolist()
    assert found(result) == []


def test_a_cube_core_leaves_when_no_vector_core_calls_init():
    def kernel(workspace):
        REGIST_MATMUL_OBJ(TPipe(), workspace, matmul(TPosition.VECIN))

    result = launch(kernel, np.zeros(64, np.uint8), kind=MIX)
    assert found(result) == []


def init_twice(mm, pipe):
    mm.Init(TILING)
    mm.Init(TILING)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda mm, pipe: mm.SetSingleShape(8, 8, 8), "not registered.* has no tiling; register"),
        (init_twice, "on a vector core; first register it without a tiling"),
        (lambda mm, pipe: matmul().Init(TILING, pipe), "on a vector core; first register it without a tiling"),
        (lambda mm, pipe: mm.Init((TILING, OTHER)[GetBlockIdx()]), "another vector core of the block has given"),
    ],
)
def test_what_is_refused_on_vector_cores(call, message):
    def kernel(workspace):
        pipe, mm = TPipe(), matmul(TPosition.VECIN)
        if not REGIST_MATMUL_OBJ(pipe, workspace, mm):
            call(mm, pipe)

    with pytest.raises(KernelError, match=f"(?s){message}"):
        launch(kernel, np.zeros(OTHER.workspace_bytes(2), np.uint8), kind=MIX)


def test_init_without_a_pipe_is_refused():
    with pytest.raises(KernelError, match=r"Init of a Matmul without a TPipe; make one first: TPipe\(\)"):
        launch(lambda: matmul().Init(TILING), kind=AIC)
