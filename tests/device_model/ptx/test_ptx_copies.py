"""Copies that do not wait, and barriers in shared memory."""

import numpy as np
import pytest
from lanes import kernel, launch

from device_model.kernel.findings import KernelError, KernelHangError
from device_model.ptx.text.errors import PtxError

TID = """
    .reg .u32 %t; .reg .u64 %a, %b, %o; .reg .pred %p, %q;
    mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 16; ld.param.u64 %a, [x]; add.u64 %a, %a, %o;
    ld.param.u64 %b, [y]; add.u64 %b, %b, %o;"""
XY = ".param .u64 x, .param .u64 y"


def test_copies_of_few_bytes_reach_shared_memory_and_zeros_follow_a_short_source():
    body = (
        TID
        + """
        .shared .align 16 .b8 s[512]; .reg .u32 %s, %n; .reg .b32 %v<4>;
        mov.u32 %s, s; mad.lo.u32 %s, %t, 16, %s; and.b32 %n, %t, 15;
        cp.async.cg.shared.global.L2::128B [%s], [%a], 16, %n; cp.async.commit_group; cp.async.wait_group 0;
        ld.shared.v4.b32 {%v0, %v1, %v2, %v3}, [%s]; st.global.v4.b32 [%b], {%v0, %v1, %v2, %v3}; ret;"""
    )
    x = np.arange(1, 513).astype(np.uint8).reshape(32, 16)
    y = np.zeros((32, 16), np.uint8)
    launch(kernel(body, XY), x, y)
    assert y.tolist() == np.where(np.arange(16) < np.arange(32)[:, None] % 16, x, 0).tolist()


def test_a_copy_of_four_bytes_whose_source_a_predicate_ignores():
    body = (
        TID
        + """
        .shared .align 16 .b8 s[512]; .reg .u32 %s, %n; .reg .b64 %c;
        mov.u32 %s, s; mad.lo.u32 %s, %t, 4, %s; setp.ge.u32 %p, %t, 8; @%p mov.u64 %a, 0;
        st.shared.u32 [%s], 7; createpolicy.fractional.L2::evict_first.b64 %c, 1.0;
        cp.async.ca.shared::cta.global.L2::cache_hint [%s], [%a], 4, %p, %c; cp.async.wait_all;
        ld.shared.u32 %n, [%s]; st.global.u32 [%b], %n; ret;"""
    )
    x, y = np.arange(5, 133, dtype=np.uint32), np.zeros(128, np.uint32)
    launch(kernel(body, XY), x, y)
    assert y[::4].tolist() == [*x[:32:4], *[0] * 24]


def test_lanes_wait_for_the_phase_of_an_mbarrier_that_others_end():
    """Warp 1 writes and arrives; warp 0, whose code comes first, waits, and then arrives for the second phase."""
    body = (
        TID
        + """
        .shared .align 8 .b8 m[8]; .shared .align 16 .b8 s[128]; .reg .u32 %s, %n; .reg .b64 %c;
        setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared::cta.b64 [m], 64; bar.sync 0;
        mov.u32 %s, s; and.b32 %n, %t, 31; mad.lo.u32 %s, %n, 4, %s; setp.ge.u32 %p, %t, 32; @%p bra WRITE;
        mbarrier.arrive.shared.b64 %c, [m];
        L: mbarrier.test_wait.shared.b64 %q, [m], %c; @!%q bra L;
        bra READ;
        WRITE: mul.lo.u32 %n, %t, 3; st.shared.u32 [%s], %n; mbarrier.arrive.release.cta.shared::cta.b64 _, [m];
        P: mbarrier.try_wait.parity.shared.b64 %q, [m], 0; @!%q bra P;
        READ: ld.shared.u32 %n, [%s]; st.global.u32 [%b], %n;
        mbarrier.arrive_drop.shared.b64 %c, [m]; mbarrier.pending_count.b64 %n, %c; st.global.u32 [%b+4], %n; ret;"""
    )
    y = np.zeros((64, 4), np.uint32)
    launch(kernel(body, XY), np.zeros(256, np.uint32), y, block=(64, 1, 1))
    assert y[:, 0].tolist() == [3 * t for t in range(32, 64)] * 2
    assert sorted(y[:, 1].tolist()) == [*range(1, 65)]


def test_a_bulk_copy_ends_the_phase_that_expects_its_bytes():
    body = (
        TID
        + """
        .shared .align 8 .b8 m[8]; .shared .align 128 .b8 s[512]; .reg .u32 %s; .reg .b32 %v<4>; .reg .b64 %c;
        setp.eq.u32 %p, %t, 0; @!%p bra WAIT;
        mbarrier.init.shared.b64 [m], 1; mbarrier.arrive.expect_tx.shared::cta.b64 _, [m], 512;
        mbarrier.test_wait.parity.shared.b64 %q, [m], 0; @%q trap;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%a], 512, [m];
        WAIT: bar.sync 0;
        L: mbarrier.try_wait.parity.shared::cta.b64 %q, [m], 0, 1000; @!%q bra L;
        mov.u32 %s, s; mad.lo.u32 %s, %t, 16, %s; ld.shared.v4.b32 {%v0, %v1, %v2, %v3}, [%s];
        st.global.v4.b32 [%b], {%v0, %v1, %v2, %v3}; bar.sync 0; @!%p exit;
        cp.async.bulk.global.shared::cta.bulk_group [%a], [s+16], 32; cp.async.bulk.commit_group;
        cp.async.bulk.wait_group.read 0; ret;"""
    )
    x = np.arange(128, dtype=np.uint32)
    y = np.zeros(128, np.uint32)
    launch(kernel(body, XY), x, y)
    assert y.tolist() == [*range(128)]
    assert x[:9].tolist() == [*range(4, 12), 8]


def test_a_phase_that_nobody_ends_is_a_hang():
    body = (
        TID
        + """
        .shared .align 8 .b8 m[8]; mbarrier.init.shared.b64 [m], 1;
        L: mbarrier.try_wait.parity.shared.b64 %q, [m], 0; @!%q bra L; ret;"""
    )
    with pytest.raises(KernelHangError):
        launch(kernel(body, XY), np.zeros(4, np.uint32), np.zeros(4, np.uint32))


def test_more_arrivals_than_the_phase_has():
    body = (
        TID + ".shared .align 8 .b8 m[8]; mbarrier.init.shared.b64 [m], 5; mbarrier.arrive.shared.b64 _, [m], 6; ret;"
    )
    with pytest.raises(KernelError, match="more arrivals at an mbarrier than its phase has, in PTX line"):
        launch(kernel(body, XY), np.zeros(4, np.uint32), np.zeros(4, np.uint32), block=(1, 1, 1))


@pytest.mark.parametrize(
    "text",
    [
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%a], [%a, {%t, %t}], [%a];",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%a], [%a], 16;",
        "mbarrier.arrive.shared::cluster.b64 _, [%a];",
    ],
)
def test_what_needs_clusters_or_tensor_maps_is_refused_by_name(text):
    with pytest.raises(PtxError, match=text.split()[0].replace(".", r"\.")):
        launch(kernel(f".reg .u64 %a; .reg .u32 %t; {text} ret;"))
