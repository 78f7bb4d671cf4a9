"""SIMD instructions of video, with what an H200 gave."""

import numpy as np
import pytest
from lanes import kernel, launch

ROWS = [
    ("vadd4.u32.u32.s32", 0x1FDA71CB, 0x96906389, 0xFFFFFFFF, 0xB56AD454),
    ("vadd4.s32.u32.u32.sat", 0x0000A8DF, 0xF54EA39B, 0x7, 0x7F4E7F7F),
    ("vsub2.s32.s32.s32.add", 0x00000041, 0x07FAEDC6, 0x10, 0xA91),
    ("vavrg2.u32.u32.s32", 0x0000003F, 0xE7498BC1, 0x41, 0xF3A4C600),
    ("vavrg4.s32.s32.s32", 0x8558B2A4, 0x3ED78F68, 0xA416D8E5, 0xE118A006),
    ("vabsdiff2.u32.s32.s32.sat", 0x367A9481, 0x00000021, 0x80000000, 0x367A6BA0),
    ("vabsdiff4.u32.u32.u32", 0x00401F69, 0x9374CF25, 0x49, 0x9334B044),
    ("vabsdiff4.u32.u32.u32.add", 0x29A78CDF, 0x00000005, 0xA26683AB, 0xA26685E1),
    ("vmin2.s32.s32.u32", 0x89ABCDEF, 0x04000000, 0x80000001, 0x89ABCDEF),
    ("vmax4.s32.u32.s32.sat", 0x45BCD3B8, 0x9E23F40A, 0xFF, 0x457F7F7F),
    ("vset2.u32.s32.ge.add", 0x1C6231F8, 0xE6FCE109, 0x800, 0x802),
    ("vset4.s32.u32.lt", 0x9C395206, 0xD08C88CF, 0x38, 0x1010101),
]


@pytest.mark.parametrize(("words", "a", "b", "c", "card"), ROWS)
def test_lanes_of_words_are_computed_as_by_a_card(words, a, b, c, card):
    body = f"""
        .reg .b32 %a, %b, %c; .reg .u64 %q; ld.param.u64 %q, [q];
        ld.global.v2.b32 {{%a, %b}}, [%q]; ld.global.b32 %c, [%q+8];
        {words} %a, %a, %b, %c; st.global.b32 [%q+12], %a; ret;"""
    q = np.array([a, b, c, 0], np.uint32)
    launch(kernel(body, ".param .u64 q"), q, block=(1, 1, 1))
    assert hex(q[3]) == hex(card)
