"""Divisions by zero, and by what is the same in all lanes."""

import numpy as np
from lanes import kernel, launch

Y = ".param .u64 y"
OWN = """
    .reg .u32 %t; .reg .u64 %y; .reg .b32 %a, %b; .reg .f64 %f;
    ld.param.u64 %y, [y]; mov.u32 %t, %tid.x; mad.wide.u32 %y, %t, 8, %y;"""


def test_a_division_by_zero_leaves_all_ones_as_on_a_card():
    for name in ("div.u32", "div.s32", "rem.u32", "rem.s32"):
        y = np.array([7], np.uint64)
        body = f"ld.global.u32 %a, [%y]; mov.u32 %b, 0; {name} %a, %a, %b; st.global.u32 [%y], %a; ret;"
        launch(kernel(OWN + body, Y), y, block=(1, 1, 1))
        assert y.tolist() == [0xFFFFFFFF]


def test_a_quotient_rounded_down_by_a_constant():
    y = np.arange(1, 5, dtype=np.float64)
    body = "ld.global.f64 %f, [%y]; div.rm.f64 %f, %f, 0d4008000000000000; st.global.f64 [%y], %f; ret;"
    launch(kernel(OWN + body, Y), y, block=(4, 1, 1))
    assert y.tolist() == [1 / 3, 2 / 3, 1.0, 1.3333333333333333]
