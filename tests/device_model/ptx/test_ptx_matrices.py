"""Matrices of warps: products, loads and stores. Where elements lie in lanes is written here as the PTX ISA has it."""

import numpy as np
import pytest
from lanes import kernel, launch

from device_model.ptx.text.errors import PtxError

TID = """
    .reg .u32 %t; .reg .u64 %p<9>, %o; mov.u32 %t, %tid.x;"""


def lanes_of(rows, columns, where):
    """The row and the column of each element of each lane, by a function of lane and element."""
    found = np.array([[where(lane, i) for i in range(rows * columns // 32)] for lane in range(32)])
    assert len(np.unique(found.reshape(-1, 2), axis=0)) == rows * columns
    return found[..., 0], found[..., 1]


# For each type the rows and columns of A, B and C: functions of the lane and the number of its element.
def c_of_16_rows(lane, i):
    return lane // 4 + 8 * (i >= 2), lane % 4 * 2 + i % 2


def c_of_8_rows(lane, i):
    return lane // 4, lane % 4 * 2 + i


SHAPES = {
    "m16n8k16.f32.f16.f16.f32": (
        lambda n, i: (n // 4 + 8 * (i in (2, 3, 6, 7)), n % 4 * 2 + i % 2 + 8 * (i >= 4)),
        lambda n, i: (n % 4 * 2 + i % 2 + 8 * (i >= 2), n // 4),
    ),
    "m16n8k8.f32.f16.f16.f32": (
        lambda n, i: (n // 4 + 8 * (i >= 2), n % 4 * 2 + i % 2),
        lambda n, i: (n % 4 * 2 + i, n // 4),
    ),
    "m16n8k8.f32.tf32.tf32.f32": (
        lambda n, i: (n // 4 + 8 * (i in (1, 3)), n % 4 + 4 * (i >= 2)),
        lambda n, i: (n % 4 + 4 * i, n // 4),
    ),
    "m16n8k4.f32.tf32.tf32.f32": (lambda n, i: (n // 4 + 8 * i, n % 4), lambda n, _: (n % 4, n // 4)),
    "m16n8k16.s32.s8.u8.s32": (
        lambda n, i: (n // 4 + 8 * (i >= 4), n % 4 * 4 + i % 4),
        lambda n, i: (n % 4 * 4 + i, n // 4),
    ),
    "m16n8k32.s32.s8.s8.s32": (
        lambda n, i: (n // 4 + 8 * (i % 8 >= 4), n % 4 * 4 + i % 4 + 16 * (i >= 8)),
        lambda n, i: (n % 4 * 4 + i % 4 + 16 * (i >= 4), n // 4),
    ),
    "m8n8k16.s32.s8.s8.s32": (
        lambda n, i: (n // 4, n % 4 * 4 + i),
        lambda n, i: (n % 4 * 4 + i, n // 4),
    ),
    "m8n8k4.f64.f64.f64.f64": (lambda n, _: (n // 4, n % 4), lambda n, _: (n % 4, n // 4)),
    "m16n8k16.f64.f64.f64.f64": (
        lambda n, i: (n // 4 + 8 * (i % 2), i // 2 * 4 + n % 4),
        lambda n, i: (i * 4 + n % 4, n // 4),
    ),
}  # fmt: skip
DTYPES = {"f16": np.float16, "f32": np.float32, "tf32": np.float32, "s8": np.int8, "u8": np.uint8, "s32": np.int32,
          "f64": np.float64}  # fmt: skip


def registers(name, count, letter):
    names = ", ".join(f"%{letter}{i}" for i in range(count))
    type_ = name if name in ("f32", "s32", "f64") else "b32"
    move = f".reg .{type_} %{letter}<{count}>;"
    return type_, "{" + names + "}", move


def moved(kind, type_, letter, number, count):
    """Loads or stores of each register of the lane, of the array *number*."""
    size = 8 if type_ == "f64" else 4
    lines = [f"mad.wide.u32 %o, %t, {size * count}, %p{number};"]
    for i in range(count):
        at, register = f"[%o+{size * i}]", f"%{letter}{i}"
        lines.append(f"ld.global.{type_} {register}, {at};" if kind == "ld" else f"st.global.{type_} {at}, {register};")
    return " ".join(lines)


@pytest.mark.parametrize("name", SHAPES)
def test_a_product_of_matrices_whose_elements_lie_in_lanes_as_the_isa_says(name):
    shape, *types = name.split(".")
    m, n, k = (int(each) for each in shape.replace("m", "").replace("n", " ").replace("k", " ").split())
    d, a, b, c = types
    rng = np.random.default_rng(1)
    left, right = (
        rng.integers(0 if each == "u8" else -9, 9, size).astype(DTYPES[each])
        for each, size in ((a, (m, k)), (b, (k, n)))
    )
    added = rng.integers(-99, 99, (m, n)).astype(DTYPES[c])
    of_a, of_b = SHAPES[name]
    of_c = c_of_16_rows if m == 16 else c_of_8_rows
    arrays, body = [], TID
    for number, (matrix, where, each) in enumerate(((left, of_a, a), (right, of_b, b), (added, of_c, c))):
        held = np.ascontiguousarray(matrix[lanes_of(*matrix.shape, where)])
        count = held.shape[1] * held.itemsize // (8 if each == "f64" else 4)
        arrays.append(held)
        type_, vector, declared = registers(each, count, "abc"[number])
        body += declared + f"ld.param.u64 %p{number}, [p{number}];" + moved("ld", type_, "abc"[number], number, count)
        arrays[-1] = (vector, held)
    (va, _), (vb, _), (vc, held_c) = arrays
    type_, vd, declared = registers(d, held_c.shape[1], "d")
    body += f"{declared} mma.sync.aligned.{shape}.row.col.{d}.{a}.{b}.{c} {vd}, {va}, {vb}, {vc};"
    body += "ld.param.u64 %p3, [p3];" + moved("st", type_, "d", 3, held_c.shape[1]) + "ret;"
    result = np.zeros((2, *held_c.shape), held_c.dtype)[0]
    launch(
        kernel(body, ", ".join(f".param .u64 p{i}" for i in range(4))), *(each for _, each in arrays), result,
    )  # fmt: skip
    wide = left.astype(np.float64) @ right.astype(np.float64) + added
    assert result.tolist() == wide[lanes_of(m, n, of_c)].tolist()


def test_accumulators_of_16_bits_and_several_warps_of_several_blocks():
    """Each warp multiplies ones by its number: each sum is 16 times that."""
    body = (
        TID
        + """
        .reg .u32 %w, %c, %n; .reg .b32 %x, %d<2>; .reg .f32 %f; .reg .b16 %h;
        ld.param.u64 %p0, [y]; shr.u32 %w, %t, 5; mov.u32 %c, %ctaid.x; mad.lo.u32 %w, %c, 2, %w;
        cvt.rn.f32.u32 %f, %w; cvt.rn.f16.f32 %h, %f; mov.b32 %x, {%h, %h};
        mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%d0, %d1}, {0x3c003c00, 0x3c003c00, 0x3c003c00, 0x3c003c00},
            {%x, %x}, {0, 0x3c003c00};
        mad.lo.u32 %n, %c, 64, %t; mad.wide.u32 %o, %n, 8, %p0; st.global.v2.b32 [%o], {%d0, %d1}; ret;"""
    )
    y = np.zeros((3, 64, 4), np.float16)
    launch(kernel(body, ".param .u64 y"), y, grid=(3, 1, 1), block=(64, 1, 1))
    warp = np.arange(6).reshape(3, 2).repeat(32, 1)
    assert y[..., :2].tolist() == np.stack([warp * 16.0] * 2, -1).tolist()
    assert y[..., 2:].tolist() == np.stack([warp * 16.0 + 1] * 2, -1).tolist()


def test_matrices_go_from_rows_in_shared_memory_to_registers_and_back_transposed():
    """ldmatrix.x4 of rows that begin at 16 * lane; stmatrix.trans writes each matrix transposed."""
    body = (
        TID
        + """
        .shared .align 16 .b8 s[512]; .shared .align 16 .b8 u[512]; .reg .u32 %a, %b; .reg .b32 %r<4>, %v<4>, %m;
        ld.param.u64 %p0, [x]; ld.param.u64 %p1, [y]; mad.wide.u32 %o, %t, 16, %p0;
        ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%o]; mov.u32 %a, s; mad.lo.u32 %a, %t, 16, %a; st.shared.v4.b32 [%a],
        {%v0, %v1, %v2, %v3}; bar.sync 0;
        ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%a];
        movmatrix.sync.aligned.m8n8.trans.b16 %m, %r0;
        mov.u32 %b, u; mad.lo.u32 %b, %t, 16, %b;
        stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%b], {%r0, %r1, %r2, %r3}; bar.sync 0;
        ld.shared.v4.b32 {%v0, %v1, %v2, %v3}, [%b]; mad.wide.u32 %o, %t, 36, %p1;
        st.global.b32 [%o], %r0; st.global.b32 [%o+4], %r1; st.global.b32 [%o+8], %r2; st.global.b32 [%o+12], %r3;
        st.global.b32 [%o+16], %m;
        st.global.b32 [%o+20], %v0; st.global.b32 [%o+24], %v1; st.global.b32 [%o+28], %v2; st.global.b32 [%o+32], %v3;
        ret;"""
    )
    x = np.arange(256, dtype=np.uint16).reshape(4, 8, 8)
    y = np.zeros((32, 18), np.uint16)
    launch(kernel(body, ".param .u64 x, .param .u64 y"), x, y)
    lane = np.arange(32)
    for matrix in range(4):
        assert y[:, 2 * matrix].tolist() == x[matrix, lane // 4, lane % 4 * 2].tolist()
        assert y[:, 2 * matrix + 1].tolist() == x[matrix, lane // 4, lane % 4 * 2 + 1].tolist()
    assert y[:, 8:10].reshape(8, 8).tolist() == x[0].T.tolist()
    assert y[:, 10:].reshape(4, 8, 8).tolist() == x.transpose(0, 2, 1).tolist()


def test_two_matrices_take_their_addresses_from_16_lanes_only():
    body = (
        TID
        + """
        .shared .align 16 .b8 s[256]; .reg .u32 %a; .reg .b32 %r<2>, %v<4>; .reg .pred %p;
        ld.param.u64 %p0, [x]; ld.param.u64 %p1, [y]; mad.wide.u32 %o, %t, 16, %p0; mov.u32 %a, s;
        setp.lt.u32 %p, %t, 16; mad.lo.u32 %a, %t, 16, %a; @!%p mov.u32 %a, 0xffffffff; @!%p bra OVER;
        ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%o]; st.shared.v4.b32 [%a], {%v0, %v1, %v2, %v3};
        OVER: bar.sync 0; ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r0, %r1}, [%a];
        mad.wide.u32 %o, %t, 8, %p1; st.global.v2.b32 [%o], {%r0, %r1}; ret;"""
    )
    x = np.arange(128, dtype=np.uint16).reshape(2, 8, 8)
    y = np.zeros((32, 2, 2), np.uint16)
    launch(kernel(body, ".param .u64 x, .param .u64 y"), x, y)
    for matrix in range(2):
        assert y[:, matrix].reshape(8, 8).tolist() == x[matrix].T.tolist()


WMMA = (
    TID
    + """
    .reg .b32 %a<8>, %b<8>; .reg .f32 %c<8>;
    ld.param.u64 %p0, [a]; ld.param.u64 %p1, [b]; ld.param.u64 %p2, [c];
    wmma.load.a.sync.aligned.row.SHAPE.global.f16 {%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7}, [%p0], LDA;
    wmma.load.b.sync.aligned.col.SHAPE.global.f16 {%b0, %b1, %b2, %b3, %b4, %b5, %b6, %b7}, [%p1], 16;
    wmma.load.c.sync.aligned.row.SHAPE.global.f32 {%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7}, [%p2], LDC;
    wmma.mma.sync.aligned.row.col.SHAPE.f32.f32 {%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7},
        {%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7}, {%b0, %b1, %b2, %b3, %b4, %b5, %b6, %b7},
        {%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7};
    wmma.store.d.sync.aligned.col.SHAPE.global.f32 [%p2], {%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7}, LDD; ret;"""
)


@pytest.mark.parametrize(("m", "n"), [(16, 16), (32, 8), (8, 32)])
def test_wmma_loads_multiplies_and_stores_in_rows_or_columns_of_a_larger_matrix(m, n):
    rng = np.random.default_rng(2)
    a = rng.integers(-9, 9, (m, 24)).astype(np.float16)  # 16 columns of 24 are multiplied
    b = rng.integers(-9, 9, (n, 16)).astype(np.float16)
    c = rng.integers(-99, 99, (m, n)).astype(np.float32)
    expected = a[:, :16].astype(np.float32) @ b.T.astype(np.float32) + c
    text = WMMA.replace("SHAPE", f"m{m}n{n}k16").replace("LDA", "24").replace("LDC", str(n)).replace("LDD", str(m))
    launch(kernel(text, ".param .u64 a, .param .u64 b, .param .u64 c"), a, b, c)
    assert c.reshape(n, m).T.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "text",
    [
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%f,%f},{%r},{%r},{%f,%f};",
        "mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32 {%r,%r},{%r},{%r},{%r,%r};",
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r}, [%r];",
        "wmma.load.a.sync.aligned.row.m8n8k128.shared.b1 {%r}, [%r];",
    ],
)
def test_products_and_moves_that_are_not_run_are_refused_by_name(text):
    with pytest.raises(PtxError, match=text.split()[0].replace(".", r"\.")):
        launch(kernel(f".reg .b32 %r; .reg .f32 %f; {text} ret;"))
