"""Interpolations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from acl_py.compat.acl.functions.media.vpc import INTERPOLATIONS, resize


def image_of(width, height, seed=5):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def row(*values):
    return np.array([[[value] * 3 for value in values]], np.uint8)


def values(image):
    return image[0, :, 0].tolist()


def test_bilinear_enlarges_as_pillow_does():
    image = image_of(16, 12)
    theirs = np.asarray(Image.fromarray(image).resize((40, 30), Image.Resampling.BILINEAR)).astype(int)
    assert np.abs(resize(image, 40, 30, 0) - theirs).max() <= 1


def test_bilinear_shrinks_without_smoothing_as_pillow_transforms():
    """Pillow's resize would take the mean of all pixels; its transform looks at four, as the hardware does."""
    image = image_of(40, 30)
    scale = 40 / 13, 0, 0, 0, 30 / 11, 0
    theirs = Image.fromarray(image).transform((13, 11), Image.Transform.AFFINE, scale, Image.Resampling.BILINEAR)
    assert np.abs(resize(image, 13, 11, 1) - np.asarray(theirs).astype(int)).max() <= 1


@pytest.mark.parametrize(
    ("interpolation", "result"),
    [
        (0, [0, 25, 75, 125, 175, 200]),  # between the middles of pixels
        (1, [0, 25, 75, 125, 175, 200]),
        (2, [0, 0, 100, 100, 200, 200]),
        (3, [0, 50, 100, 150, 200, 200]),  # between their corners
        (4, [0, 0, 100, 100, 200, 200]),
    ],
)
def test_each_interpolation_has_its_positions(interpolation, result):
    assert values(resize(row(0, 100, 200), 6, 1, interpolation)) == result


def test_nearest_takes_the_floor():
    """As OpenCV: pixel i of 3 out of 7 is pixel floor(i * 7 / 3)."""
    assert values(resize(row(0, 1, 2, 3, 4, 5, 6), 3, 1, 2)) == [0, 2, 4]


@given(st.sampled_from(INTERPOLATIONS), st.integers(1, 30), st.integers(1, 30), st.integers(0, 255))
def test_a_plain_image_stays_plain(interpolation, width, height, value):
    image = np.full((7, 9, 3), value, np.uint8)
    assert (resize(image, width, height, interpolation) == value).all()


@given(st.sampled_from(INTERPOLATIONS), st.integers(1, 30), st.integers(1, 30))
def test_rows_and_columns_do_not_mix(interpolation, width, height):
    image = image_of(9, 7)
    turned = resize(image.transpose(1, 0, 2), height, width, interpolation).transpose(1, 0, 2)
    assert np.abs(turned.astype(int) - resize(image, width, height, interpolation)).max() <= 1  # rounding


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_the_same_size_is_the_same_image(interpolation):
    image = image_of(9, 7)
    assert (resize(image, 9, 7, interpolation) == image).all()
