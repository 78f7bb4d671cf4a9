"""Several Matmul objects in one kernel, registered together: their requests alternate, and they share L0."""

import numpy as np
import pytest
from cores import SPEC, found, launch
from instructions import after, half, single

from device_model.aicore.core.blocks import GetBlockIdx
from device_model.aicore.core.names import HardEvent, KernelType, RoundMode, Space, TPosition
from device_model.aicore.core.tensors import GlobalTensor
from device_model.aicore.cube.matmul import REGIST_MATMUL_OBJ, Matmul
from device_model.aicore.cube.matmul_operands import CubeFormat, MatmulType
from device_model.aicore.cube.matmul_tiling import multi_core_matmul_tiling
from device_model.aicore.flags.queues import TBuf
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopy
from device_model.aicore.vector.elementwise import Cast, Muls
from device_model.kernel.findings import KernelError

AIC, MIX = KernelType.AIC_ONLY, KernelType.MIX_AIC_1_2
M, N, K, D = 32, 64, 32, 48


def of(dtype, position=TPosition.GM, **options):
    return MatmulType(position, CubeFormat.ND, dtype, **options)


def gm(array, dtype):
    return GlobalTensor(dtype).SetGlobalBuffer(array)


def tiled(m, n, k, **options):
    return multi_core_matmul_tiling(SPEC, m, n, k, half, cores=1, **options)


SCORES, SUMS = tiled(M, N, K, fix_split=(16, 32, 32)), tiled(M, D, N)


def attention(q, k, v, out, workspace, rounds):
    """Each vector core: scores to UB, piece by piece; half of them as weights in UB; and what these weigh."""
    pipe = TPipe()
    first = Matmul(of(half), of(half, is_trans=True), of(single, TPosition.VECIN))
    second = Matmul(of(half, TPosition.VECOUT), of(half), of(single))
    if REGIST_MATMUL_OBJ(pipe, workspace, first, SCORES, second, SUMS):
        return
    scores, weights = TBuf(TPosition.VECCALC), TBuf(TPosition.VECCALC)
    pipe.InitBuffer(scores, 16 * 32 * 4)
    pipe.InitBuffer(weights, M * N * 2)
    piece, matrix = scores.Get(single), weights.Get(half)
    for number in range(rounds):
        at = 2 * number + GetBlockIdx()
        first.SetTensorA(gm(q, half)[at * M * K :])
        first.SetTensorB(gm(k, half)[at * N * K :])
        index = 0
        while first.Iterate():
            first.GetTensorC(piece)
            Muls(piece, piece, 0.5, 16 * 32)
            for row in range(16):
                column, below = divmod(index, 2)
                Cast(matrix[(16 * below + row) * N + 32 * column :], piece[32 * row :], RoundMode.CAST_NONE, 32)
            index += 1
        second.SetTensorA(matrix)
        second.SetTensorB(gm(v, half)[at * N * D :])
        second.IterateAll(gm(out, single)[at * M * D :])
    first.End()
    second.End()


def test_requests_for_two_objects_alternate():
    rounds = 3
    rng = np.random.default_rng(7)
    q, k, v = (rng.integers(-2, 3, (2 * rounds, *size)).astype(half) for size in ((M, K), (N, K), (N, D)))
    out = np.zeros((2 * rounds, M, D), single)
    workspace = np.zeros(SCORES.workspace_bytes(2) + SUMS.workspace_bytes(2, a=half), np.uint8)
    result = launch(attention, q, k, v, out, workspace, rounds, kind=MIX)
    assert np.allclose(out, 0.5 * q.astype(single) @ k.astype(single).transpose(0, 2, 1) @ v.astype(single))
    assert found(result) == []
    with pytest.raises(KernelError, match=r"a workspace of \d+ bytes for a Matmul; give it \d+"):
        launch(attention, q, k, v, out, workspace[:-64], rounds, kind=MIX)


def products(a, b, bias, out, kinds, rounds):
    """Two objects on cube cores, or of one vector core; the second one has a bias."""
    first, second = (Matmul(*[of(each) for each in (half, half, single)], each) for each in (None, of(single)))
    tilings = tiled(M, N, K), tiled(M, D, K, is_bias=True)
    if REGIST_MATMUL_OBJ(TPipe(), None, first, tilings[0], second, tilings[1]):
        return
    for number in range(rounds):
        for mm, start in ((first, 0), (second, N)):
            mm.SetTensorA(gm(a, half)[number * M * K :])
            mm.SetTensorB(gm(b, half)[K * start :])
            if mm is second:
                mm.SetBias(gm(bias, single))
            mm.IterateAll(gm(out, single)[number * M * (N + D) + M * start :], sync=kinds == "together")
            mm.End()  # as public kernels do before another object's turn
        if kinds == "turned":  # the second one first
            second.WaitIterateAll()
            first.WaitIterateAll()
    first.End()
    second.End()


@pytest.mark.parametrize(
    ("kind", "how"),
    [(AIC, "together"), *((KernelType.MIX_AIC_1_1, each) for each in ("together", "turned", "late"))],
    ids=str,
)
def test_two_objects_share_l0(kind, how):
    rounds = 3
    rng = np.random.default_rng(8)
    a = rng.integers(-3, 4, (rounds, M, K)).astype(half)
    b = [rng.integers(-3, 4, (K, wide)).astype(half) for wide in (N, D)]
    bias, out = rng.integers(-3, 4, D).astype(single), np.zeros((rounds, M * (N + D)), single)
    given = np.concatenate([each.ravel() for each in b])
    result = launch(products, a, given, bias, out, how, rounds, kind=kind)
    for number in range(rounds):
        parts = out[number, : M * N].reshape(M, N), out[number, M * N :].reshape(M, D)
        assert np.array_equal(parts[0], a[number].astype(single) @ b[0].astype(single))
        assert np.array_equal(parts[1], a[number].astype(single) @ b[1].astype(single) + bias)
    assert found(result) == []
    cube = result.programs[0]
    assert {each.name for each in cube.instructions} >= {"Mmad", "Fixpipe"}


@pytest.mark.parametrize("by_pieces", [True, False])
def test_two_vector_cores_ask_for_different_objects(by_pieces):
    """The second vector core asks for them the other way round, so the cube core has both objects in one round."""
    tiling = tiled(M, N, K, fix_split=(16, 32, 32))
    rng = np.random.default_rng(9)
    a, b = rng.integers(-3, 4, (4, M, K)).astype(half), rng.integers(-3, 4, (4, K, N)).astype(half)
    out, workspace = np.zeros((4, 4, 16, 32), single), np.zeros(2 * tiling.workspace_bytes(2), np.uint8)

    def kernel(a, b, out, workspace):
        pipe = TPipe()
        both = [Matmul(of(half), of(half), of(single, TPosition.VECIN)) for _ in range(2)]
        if REGIST_MATMUL_OBJ(pipe, workspace, both[0], tiling, both[1], tiling):
            return
        core, turns = GetBlockIdx(), []
        for number, mm in enumerate(both):
            room = TBuf(TPosition.VECCALC)
            pipe.InitBuffer(room, 16 * 32 * 4)
            mm.SetTensorA(gm(a, half)[(2 * core + number) * M * K :])
            mm.SetTensorB(gm(b, half)[(2 * core + number) * K * N :])
            turns.append((2 * core + number, mm, room.Get(single)))
        order = [(piece, turn) for piece in range(4) for turn in turns[:: 1 - 2 * core]]
        if not by_pieces:
            order = [(piece, turn) for turn in turns[:: 1 - 2 * core] for piece in range(4)]
        for piece, (number, mm, tensor) in order:
            mm.Iterate()
            mm.GetTensorC(tensor)
            after(HardEvent.V_MTE3)
            DataCopy(gm(out, single)[(4 * number + piece) * 512 :], tensor, 512)
            after(HardEvent.MTE3_V)
        for mm in both:
            mm.End()

    result = launch(kernel, a, b, out, workspace, kind=MIX)
    whole = out.reshape(4, 2, 2, 16, 32).transpose(0, 2, 3, 1, 4).reshape(4, M, N)  # down each column first
    assert np.array_equal(whole, a.astype(single) @ b.astype(single))
    assert found(result) == []


def test_a_cube_core_leaves_when_nobody_asks_for_anything():
    def kernel():
        mm = Matmul(of(half), of(half), of(single))
        if not REGIST_MATMUL_OBJ(TPipe(), None, mm, tiled(M, N, K)) and GetBlockIdx() % 2:
            mm.End()

    result = launch(kernel, blocks=4, kind=MIX)
    assert found(result) == []
    assert not [each for program in result.programs for each in program.instructions if each.name == "Mmad"]


def test_a_second_registration_in_a_mixed_kernel_is_refused():
    def kernel():
        pipe = TPipe()
        for _ in range(2):
            if REGIST_MATMUL_OBJ(pipe, None, *objects(1)):
                return

    with pytest.raises(
        KernelError, match=r"REGIST_MATMUL_OBJ a second time in a mixed kernel; register all objects in"
    ):
        launch(kernel, kind=MIX)


def refused(arguments):
    def kernel():
        REGIST_MATMUL_OBJ(TPipe(), None, *arguments())

    launch(kernel, kind=AIC)


def objects(count):
    return [each for _ in range(count) for each in (Matmul(of(half), of(half), of(single)), tiled(M, N, K))]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            lambda: [*objects(1), *objects(1)[:1]],
            "of 3 arguments behind the workspace; give each Matmul and its tiling",
        ),
        (
            lambda: [*objects(1), *objects(1)[::-1]],
            "of 4 arguments behind the workspace; give each Matmul and its tiling",
        ),
        (lambda: objects(5), "of 10 arguments behind the workspace; .* in turn, 4 of both at most"),
    ],
)
def test_objects_without_their_tilings_are_refused(arguments, message):
    with pytest.raises(KernelError, match=message):
        refused(arguments)


def test_l1_is_divided_and_l0_is_not():
    def places(count):
        taken = []

        def kernel():
            pipe = TPipe()
            REGIST_MATMUL_OBJ(pipe, None, *objects(count))
            taken.extend(pipe.places((Space.L1, Space.L0A, Space.L0B, Space.L0C)).values())

        launch(kernel, kind=AIC)
        return taken

    one, two = places(1), places(2)
    assert two == [2 * one[0], *one[1:]]


def test_tilings_of_half_of_l1_fit_together():
    def kernel(tiling):
        both = [Matmul(of(half), of(half), of(single)) for _ in range(2)]
        REGIST_MATMUL_OBJ(TPipe(), None, both[0], tiling, both[1], tiling)

    whole = tiled(512, 1024, 1024)
    with pytest.raises(KernelError, match=r"do not fit in L1 .*; use smaller or fewer buffers"):
        launch(kernel, whole, kind=AIC)
    launch(kernel, tiled(512, 1024, 1024, l1_bytes=SPEC.l1_bytes // 2), kind=AIC)
    for wrong in (0, SPEC.l1_bytes + 1):
        with pytest.raises(ValueError, match=rf"l1_bytes {wrong}: it is 1 to {SPEC.l1_bytes}"):
            tiled(M, N, K, l1_bytes=wrong)
