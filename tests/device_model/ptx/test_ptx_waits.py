"""Loops that wait and loops that do not: what lanes do that repeat one, without a device."""

import numpy as np
import pytest
from lanes import kernel, launch

from device_model.kernel.findings import KernelHangError

Y = ".param .u64 y"
HEAD = """.reg .pred %p; .reg .u32 %r, %i, %s, %t; .reg .u64 %a; ld.param.u64 %a, [y]; mov.u32 %t, %tid.x;
    mov.u32 %i, 0; mov.u32 %s, 0;"""


def test_a_long_loop_that_makes_progress_is_no_hang():
    body = """L: ld.global.u32 %r, [%a]; add.u32 %s, %s, %r; add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 9000; @%p bra L;
        st.global.u32 [%a+4], %s; ret;"""
    y = np.ones(2, np.uint32)
    launch(kernel(HEAD + body, Y), y)
    assert y.tolist() == [1, 9000]


def test_a_loop_that_only_counts_how_often_it_looks_is_a_hang():
    body = """L: ld.volatile.global.u32 %r, [%a]; add.u32 %i, %i, 1; setp.eq.u32 %p, %r, 0; @%p bra L;
        st.global.u32 [%a], %i; ret;"""
    with pytest.raises(KernelHangError, match="the loop in PTX line 8 repeats without end"):
        launch(kernel(HEAD + body, Y), np.zeros(2, np.uint32))


def test_warps_that_come_to_one_loop_at_different_times_all_leave_it():
    body = """setp.lt.u32 %p, %t, 32; @%p bra L;
        setp.ge.u32 %p, %t, 64; @%p bra SET;
        K: add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 100; @%p bra K;
        L: ld.volatile.global.u32 %r, [%a]; setp.eq.u32 %p, %r, 0; @%p bra L; bra END;
        SET: bar.sync 1, 32; add.u32 %s, %s, 1; setp.lt.u32 %p, %s, 200; @%p bra SET;
        st.volatile.global.u32 [%a], 1;
        END: red.global.add.u32 [%a+4], 1; ret;"""
    y = np.zeros(2, np.uint32)
    launch(kernel(HEAD + body, Y), y, block=(96, 1, 1))
    assert y.tolist() == [1, 96]
