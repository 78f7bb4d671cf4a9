"""AIPP: files of `atc --insert_op_conf`, as public repositories write them, and wrong ones."""

import pytest

from acl_py.compat.acl.aipp.files import parse, read
from acl_py.compat.acl.aipp.pixels import FORMATS, AippError, Area, Colours, Source

YOLO = """
# a comment
aipp_op{
    aipp_mode: static
    input_format : YUV420SP_U8   # NV12

    src_image_size_w : 640
    src_image_size_h : 640
    crop: false
    csc_switch : true
    rbuv_swap_switch : false
    matrix_r0c0 : 256
    matrix_r0c1 : 0
    matrix_r0c2 : 359
    matrix_r1c0 : 256
    matrix_r1c1 : -88
    matrix_r1c2 : -183
    matrix_r2c0 : 256
    matrix_r2c1 : 454
    matrix_r2c2 : 0
    input_bias_0 : 0
    input_bias_1 : 128
    input_bias_2 : 128
    min_chn_0 : 0.0
    var_reci_chn_0: 0.0039215686274509803921568627451
    var_reci_chn_1: 3.9215e-3
    var_reci_chn_2: .5
}
"""


def test_a_static_file():
    (operator,) = parse(YOLO, "yolo.cfg")
    assert not operator.is_dynamic
    assert (operator.rank, operator.name, operator.place) == (0, None, "yolo.cfg, line 3")
    colours = Colours((256, 0, 359, 256, -88, -183, 256, 454, 0), (0, 128, 128), (16, 128, 128))
    assert operator.source(1, 1) == Source(FORMATS["YUV420SP_U8"], 640, 640, colours)
    assert operator.area(1, 1) == Area(scale=(0.0039215686274509803, 3.9215e-3, 0.5, 1.0))


def test_a_file_for_two_inputs():
    text = """
    aipp_op { aipp_mode: dynamic related_input_rank: 0 max_src_image_size: 752640 }
    aipp_op: < aipp_mode: static; related_input_name: "a # b", input_format: 3, mean_chn_0: 0x7f >
    """
    first, second = parse(text, "two.cfg")
    assert (first.is_dynamic, first.rank, first.largest) == (True, 0, 752640)
    assert (second.is_dynamic, second.name, second.format.name) == (False, "a # b", "RGB888_U8")
    assert second.area(4, 4).mean == (127, 0, 0, 0)


def test_what_is_switched_off_counts_for_nothing():
    text = "aipp_op { aipp_mode: static input_format: RGB888_U8 crop: false crop_size_w: 8 left_padding_size: 4 }"
    (operator,) = parse(text, "off.cfg")
    assert operator.area(4, 4) == Area()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "a.cfg: there is no aipp_op in it"),
        ("# only a comment", "a.cfg: there is no aipp_op in it"),
        ("aipp { }", "line 1: expected aipp_op, not 'aipp'"),
        ("aipp_op", "line 1: the file ends where { should be"),
        ("aipp_op (", r"line 1: expected { behind aipp_op, not '\('"),
        ("aipp_op {\n aipp_mode: static\n", "line 3: the file ends where } should be"),
        ("aipp_op {\n aipp_mode static }", "line 2: expected a colon behind aipp_mode, not 'static'"),
        ("aipp_op {\n\n mode: static }", "line 3: there is no field 'mode'; the fields are aipp_mode, "),
        ("aipp_op { crop: true\n crop: true }", "line 2: crop is there twice"),
        ("aipp_op { aipp_mode: both }", "aipp_mode must be one of static, dynamic, not both"),
        ("aipp_op { crop: yes }", "crop must be true or false, not yes"),
        ("aipp_op { input_format: BGR888_U8 }", "input_format must be one of YUV420SP_U8, XRGB8888_U8, RGB888_U8, "),
        ("aipp_op { input_format: RAW16 }", "(others are for other chips), not RAW16"),
        ("aipp_op { mean_chn_0: 123.675 }", "mean_chn_0 must be a whole number from 0 to 255, not 123.675"),
        ("aipp_op { matrix_r1c2: 40000 }", "matrix_r1c2 must be a whole number from -32677 to 32676, not 40000"),
        ("aipp_op { left_padding_size: 33 }", "left_padding_size must be a whole number from 0 to 32, not 33"),
        ("aipp_op { var_reci_chn_0: 70000 }", "var_reci_chn_0 must be a number from -65504 to 65504, not 70000"),
        ("aipp_op { var_reci_chn_0: nan }", "var_reci_chn_0 must be a number from -65504 to 65504, not nan"),
        ("aipp_op { min_chn_0: -1 }", "min_chn_0 must be a number from 0 to 255, not -1"),
        ("aipp_op { related_input_name: data }", "related_input_name must be a text in quotes, not data"),
        ('aipp_op { related_input_name: "data }', 'related_input_name must be a text in quotes, not "'),
        ("aipp_op { input_format: RGB888_U8 }", "line 1: there is no aipp_mode; write aipp_mode : static"),
        ("aipp_op { aipp_mode: static }", "line 1: there is no input_format"),
        ("aipp_op { aipp_mode: dynamic }", "dynamic AIPP needs max_src_image_size"),
        ("aipp_op { aipp_mode: static input_format: RGB888_U8 resize: true }", "does not resize; take out resize"),
        ("aipp_op { aipp_mode: static input_format: RGB888_U8 single_line_mode: 1 }", "single_line_mode is not"),
        ("aipp_op { } }", "line 1: there is no aipp_mode"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_told_with_its_line(text, complaint):
    with pytest.raises(AippError) as caught:
        parse(text, "a.cfg")
    assert str(caught.value).startswith("a.cfg")
    assert complaint.replace("\\", "") in str(caught.value)


def test_a_file_that_is_missing_or_no_text(tmp_path):
    with pytest.raises(AippError, match=r"none\.cfg: .*No such file"):
        read(tmp_path / "none.cfg")
    (tmp_path / "bytes.cfg").write_bytes(b"\xff\xfe")
    with pytest.raises(AippError, match=r"bytes\.cfg: .*utf-8"):
        read(tmp_path / "bytes.cfg")
    (tmp_path / "yolo.cfg").write_text(YOLO)
    assert read(tmp_path / "yolo.cfg")[0].format.name == "YUV420SP_U8"
