"""Five programs with AIPP in the form of public ones, from their start to their end, each with a model of its own."""

import re
from pathlib import Path

import numpy as np
import pytest

from tests import forks

PROGRAMS = Path(__file__).parent / "programs"
ONE = """
compute = "model:means"
cost_us = 10
aipp = "dynamic.cfg"
inputs = [{ name = "images", dtype = "float32", dims = [1, 3, 8, 8], format = "NCHW" }]
outputs = [{ name = "means", dtype = "float32", dims = [3] }]
"""
TWO = """
compute = "model:sums"
cost_us = 10
aipp = "two.cfg"
inputs = [
    { name = "left", dtype = "float16", dims = [1, 5, 6, 3], format = "NHWC" },
    { name = "number", dtype = "int32", dims = [1] },
    { name = "right", dtype = "float32", dims = [2, 1, 4, 4], format = "NCHW" },
]
outputs = [{ name = "sums", dtype = "float32", dims = [4] }]
"""
STILL = """
compute = "model:channels"
cost_us = 10
aipp = "still.cfg"
inputs = [{ name = "images", dtype = "float32", dims = [1, 3, 8, 10], format = "NCHW" }]
outputs = [{ name = "sums", dtype = "float32", dims = [3] }]
"""
BATCH = """
compute = "model:each"
cost_us = 10
aipp = "batch.cfg"
dynamic_batch = [1, 2, 4]
inputs = [{ name = "images", dtype = "float32", dims = [-1, 3, 4, 6], format = "NCHW" }]
outputs = [{ name = "means", dtype = "float32", dims = ["batch"] }]
"""
MODEL = """
import numpy as np

def means(images):
    assert images.shape == (1, 3, 8, 8)
    return images.mean((0, 2, 3))

def sums(left, number, right):
    assert (left.shape, left.dtype, right.shape) == ((1, 5, 6, 3), np.float16, (2, 1, 4, 4))
    return np.array([left[..., 0].sum(dtype=np.float32), left[..., 2].sum(dtype=np.float32), *right.sum((1, 2, 3))])

def channels(images):
    return images.sum((0, 2, 3))

def each(images):
    return images.mean((1, 2, 3))
"""
FILES = {
    "dynamic.cfg": "aipp_op { aipp_mode: dynamic max_src_image_size: 288 }",
    "two.cfg": """aipp_op { aipp_mode: dynamic related_input_rank: 2 max_src_image_size: 100 }
                  aipp_op { aipp_mode: dynamic related_input_name: "left" max_src_image_size: 64 }""",
    "still.cfg": """aipp_op {
        aipp_mode: static
        input_format: YUV420SP_U8
        src_image_size_w: 16
        src_image_size_h: 12
        crop: true
        load_start_pos_w: 4
        load_start_pos_h: 2
        crop_size_w: 10
        crop_size_h: 8
        csc_switch: true  # of JPEG
        matrix_r0c0: 256 matrix_r0c1: 0 matrix_r0c2: 359
        matrix_r1c0: 256 matrix_r1c1: -88 matrix_r1c2: -183
        matrix_r2c0: 256 matrix_r2c1: 454 matrix_r2c2: 0
        input_bias_0: 0 input_bias_1: 128 input_bias_2: 128
        var_reci_chn_0: 1.0 var_reci_chn_1: 0.5 var_reci_chn_2: 0.25
    }""",
    "batch.cfg": "aipp_op { aipp_mode: static input_format: RGB888_U8 mean_chn_0: 1 mean_chn_1: 1 mean_chn_2: 1 }",
}
SIDECARS = {"one": ONE, "two": TWO, "still": STILL, "batch": BATCH}


@pytest.fixture
def folder(tmp_path):
    """A folder with the models."""
    (tmp_path / "model.py").write_text(MODEL)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    for name, text in SIDECARS.items():
        (tmp_path / f"{name}.om.toml").write_text(text)
    return tmp_path


def output_of(folder, name, told=()):
    """What a program prints; it ends well, and its summary has nothing but *told*."""
    done = forks.run("-W", "ignore::DeprecationWarning", "-m", "acl_py", "run", "--device", "ascend310p3",
                     PROGRAMS / f"{name}.py", cwd=folder)  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if re.search("failed|leak|finding|Traceback", line)]
    assert len(lines) == len(told), lines
    assert all(each in line for each, line in zip(told, lines, strict=True)), lines
    return done.stdout.splitlines()


def test_dynamic_aipp_of_one_input(folder):
    assert output_of(folder, "dynamic_one_input") == [
        "buffer of 288 bytes",
        "buffer of 160 bytes",
        "buffer of 12 bytes",
        "means: [46.0, 33.0, 27.0]",
    ]


def test_dynamic_aipp_of_two_inputs(folder):
    left = np.arange(48).reshape(16, 3).sum(0)
    right = np.arange(72).reshape(2, 6, 6)
    sums = [left[2], left[0], right[0, 1:5, :4].sum() * 0.5, right[1, 2:6, 1:5].sum() * 1.5]
    assert output_of(folder, "dynamic_two_inputs") == [
        "kinds: [(2, 3), (0, 4294967295), (2, 4), (3, 4294967295), (3, 4294967295)]",
        f"sums: {[float(each) for each in sums]}",
    ]


def test_a_class_around_the_parameters(folder):
    assert output_of(folder, "aipp_class", ["acl.mdl.set_aipp_input_format() at aipp_class.py:"]) == [
        "names: ['images', 'ascend_dynamic_aipp_data'] bytes of parameters: 160",
        "set aipp format failed, return 100000.",
        "means: [5.0, 20.0, 60.0]",
        "means: [0.0, 10.0, 40.0]",
    ]


def test_static_aipp_of_a_picture_in_nv12(folder):
    total = float(np.arange(192).reshape(12, 16)[2:10, 4:14].sum())
    source, own = ({"name": "", "dimCount": 4, "dims": dims} for dims in ([1, 18, 16, 1], [1, 3, 8, 10]))
    dims = {"srcDims": source, "srcSize": 288, "aippOutdims": own, "aippOutSize": 480}
    assert output_of(folder, "static_yuv") == [
        "input: [1, 12, 16, 3] [1, 18, 16, 1] type 4 AIPP 1",
        f"source: 1 16 12 {dims}",
        f"sums: {[total, total / 2, total / 4]}",
        "the input has 192 bytes, and the model wants 288",
    ]


def test_static_aipp_with_dynamic_batch(folder):
    assert output_of(folder, "static_batch") == [
        "dims: [-1, 4, 6, 3] of 288 bytes",
        "means: [9.0]",
        "means: [9.0, 19.0, 29.0, 39.0]",
    ]
