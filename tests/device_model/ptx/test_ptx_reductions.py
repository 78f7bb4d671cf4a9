"""Reductions at barriers."""

import numpy as np
from lanes import kernel, launch


def test_a_register_with_a_sign_can_hold_the_count_of_a_barrier():
    body = """
        .reg .pred %p; .reg .u32 %t; .reg .s32 %n; .reg .u64 %y; .reg .s64 %w;
        ld.param.u64 %y, [y]; mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 3;
        bar.red.popc.u32 %n, 0, %p; sub.s32 %n, %n, 5; mul.wide.s32 %w, %n, 7;
        mad.wide.u32 %y, %t, 8, %y; st.global.s64 [%y], %w; ret;"""
    y = np.zeros(32, np.int64)
    launch(kernel(body, ".param .u64 y"), y)
    assert y.tolist() == [-14] * 32


def test_two_reductions_in_one_line_have_a_result_each():
    body = """
        .reg .pred %p, %q; .reg .u32 %t, %n, %m; .reg .u64 %y; ld.param.u64 %y, [y];
        mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 3; bar.red.popc.u32 %n, 0, %p; barrier.red.or.pred %q, 1, %p;
        selp.u32 %m, 10, 20, %q; add.u32 %n, %n, %m; mad.wide.u32 %y, %t, 4, %y; st.global.u32 [%y], %n; ret;"""
    y = np.zeros(32, np.uint32)
    launch(kernel(body.replace("\n", ""), ".param .u64 y"), y)
    assert y.tolist() == [13] * 32
