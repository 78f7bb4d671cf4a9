"""Colour spaces."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from acl_py.compat.acl.functions.media.formats import STANDARDS, Family, convert

YUV, RGB = Family.YUV, Family.RGB


def one(values, source, target, matrix=0):
    return convert(np.array([[values]], np.uint8), source, target, matrix)[0, 0].tolist()


def test_the_default_is_what_jpeg_uses():
    """Pillow's YCbCr is that of JFIF, which is BT.601 wide; it computes with integers."""
    image = np.random.default_rng(1).integers(0, 256, (64, 64, 3), np.uint8)
    theirs = np.asarray(Image.fromarray(image).convert("YCbCr")).astype(int)
    assert np.abs(convert(image, RGB, YUV, 0) - theirs).max() <= 1
    back = np.asarray(Image.frombytes("YCbCr", (64, 64), image.tobytes()).convert("RGB")).astype(int)
    assert np.abs(convert(image, YUV, RGB, 0) - back).max() <= 1


@pytest.mark.parametrize(
    ("matrix", "red", "white", "black"),
    [
        (0, [76, 85, 255], 255, 0),
        (1, [81, 90, 240], 235, 16),
        (2, [54, 99, 255], 255, 0),
        (3, [63, 102, 240], 235, 16),
        (4, [67, 92, 255], 255, 0),
        (5, [74, 97, 240], 235, 16),
    ],
)
def test_each_standard_has_its_red_white_and_black(matrix, red, white, black):
    """The values that the standards' tables give for 100 % red, white and black in eight bits."""
    assert one([255, 0, 0], RGB, YUV, matrix) == red
    assert one([255, 255, 255], RGB, YUV, matrix) == [white, 128, 128]
    assert one([0, 0, 0], RGB, YUV, matrix) == [black, 128, 128]
    assert one([white, 128, 128], YUV, RGB, matrix) == [255, 255, 255]
    assert one([black, 128, 128], YUV, RGB, matrix) == [0, 0, 0]


@given(st.sampled_from(range(len(STANDARDS))), st.tuples(*[st.integers(0, 255)] * 3))
def test_there_and_back_is_close(matrix, color):
    """Narrow ranges have fewer steps than RGB has."""
    back = one(one(color, RGB, YUV, matrix), YUV, RGB, matrix)
    assert max(abs(a - b) for a, b in zip(back, color, strict=True)) <= (3 if STANDARDS[matrix].narrow else 2)


def test_a_family_is_its_own():
    image = np.random.default_rng(1).integers(0, 256, (4, 4, 3), np.uint8)
    assert (convert(image, YUV, YUV, 0) == image).all()
