"""What stops a kernel: each error names block, thread and line; what can never end says so."""

import numpy as np
import pytest
from lanes import HEAD, kernel, launch

from device_model.kernel.findings import KernelError, KernelHangError
from device_model.ptx.text.errors import PtxError

ADDRESS = ".reg .u64 %a; ld.param.u64 %a, [y];"
Y = ".param .u64 y"


def stopped(body, *args, error=KernelError, before="", **options):
    """The message of the error that the kernel with this body stops with."""
    with pytest.raises(error) as caught:
        launch(kernel(ADDRESS + body, Y, before), *(args or (np.zeros(4, np.uint32),)), **options)
    return str(caught.value)


def test_an_access_outside_of_memory():
    body = """
        .reg .u32 %t; .reg .u64 %o; mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; add.u64 %a, %a, %o;
        st.global.u32 [%a], 1; ret;"""
    text = stopped(body, block=(6, 1, 1))
    assert text == "block 0, thread 4: 4 bytes at 0x1000000000000010 are in no array, in PTX line 9"


def test_an_access_that_is_not_aligned():
    text = stopped("st.global.u32 [%a+2], 1; ret;")
    assert "an access of 4 bytes at the address 0x1000000000000002, which is no multiple of 4" in text
    assert text.endswith("in PTX line 7")


def test_an_access_behind_shared_memory_and_one_before_local_memory():
    text = stopped(".shared .b8 s[16]; st.shared.u32 [s+16], 1; ret;")
    assert "an access bytes 16:20 of 16 bytes of shared memory" in text
    assert "4 bytes before" in stopped(".local .b8 l[16]; .reg .u32 %r; ld.local.u32 %r, [l+-4]; ret;")


def test_indices_of_blocks_and_threads_have_as_many_numbers_as_the_launch():
    text = stopped("trap;", grid=(2, 2, 1), block=(4, 2, 1))
    assert text == "block (0, 0, 0), thread (0, 0, 0) and 31 more: trap, in PTX line 7"


def test_a_line_of_the_source_is_named_where_the_text_has_it():
    body = "\n.loc 1 42 7\nst.global.u32 [%a+2], 1; ret;"
    with pytest.raises(KernelError) as caught:
        launch(
            HEAD + f'.visible .entry k({Y}) {{ {ADDRESS} {body} }}\n.file 1 "/somewhere/my.cu"\n',
            np.zeros(4, np.uint32),
        )
    assert str(caught.value).endswith("in PTX line 6 (my.cu:42)")


def test_a_loop_that_nobody_ends():
    body = ".reg .pred %p; .reg .u32 %r; L: ld.volatile.global.u32 %r, [%a]; setp.eq.u32 %p, %r, 0; @%p bra L; ret;"
    text = stopped(body, error=KernelHangError)
    assert text.startswith("block 0, thread 0 and 31 more: the loop in PTX line 7 repeats without end")


def test_a_barrier_that_some_lanes_wait_at_and_others_never_reach():
    body = """
        .reg .pred %p; .reg .u32 %t; mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 8; @%p bra HERE;
        bar.sync 1; ret;
        HERE: bar.sync 0; ret;"""
    text = stopped(body)
    assert text == "block 0, thread 8 and 23 more: not all threads of the block reach barrier 1, in PTX line 9"


def test_an_exchange_that_names_lanes_which_wait_elsewhere():
    body = """
        .reg .pred %p; .reg .u32 %t, %r; mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 8; @%p bra HERE;
        bar.sync 0; ret;
        HERE: shfl.sync.idx.b32 %r, %t, 0, 31, -1; ret;"""
    assert stopped(body).endswith("waits for others of its warp that never come, in PTX line 10")


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (".reg .f32 %f; tex.2d.v4.f32.s32 {%f, %f, %f, %f}, [t, {%f, %f}]; ret;", "textures are not simulated"),
        ("wgmma.fence.sync.aligned; ret;", "instructions of warp groups are not simulated"),
        ("frobnicate.u32 1; ret;", "frobnicate.u32 is no instruction that is run here"),
        (".reg .u32 %r; ld.shared::cluster.u32 %r, [0]; ret;", "clusters are not simulated"),
        (".reg .u32 %r; mov.u32 %r, %nonsense; ret;", "there is no special register %nonsense"),
        (".reg .u32 %r; .reg .u64 %d; add.u64 %r, %d, 1; ret;", "holds no value of type .u64 (operand 1)"),
        ("bra NOWHERE;", "bra: NOWHERE is no label of this function"),
        (".reg .u32 %r; ld.global.u32 %r, [missing]; ret;", "missing is not declared in the module"),
        (".shared .b8 s[49153]; ret;", "s ends at byte 49153 of .shared memory, which has 49152; declare it .extern"),
        (".local .b8 l[524289]; ret;", "l ends at byte 524289 of .local memory, which has 524288"),
        ("call missing; ret;", "the function missing is not in the module"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_refused_with_its_line(body, what):
    text = stopped(body, error=PtxError)
    assert what in text
    assert text.startswith("PTX line 7: ")


def test_a_kernel_that_is_called_is_refused():
    text = stopped("call k, (y); ret;", error=PtxError)
    assert text == "PTX line 7: k is a kernel, and only functions are called; write a .func"
