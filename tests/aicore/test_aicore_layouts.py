"""TransData: images and weights to blocks of 16 channels and back."""

import numpy as np
import pytest
from convolutions import in_fractals, in_planes
from cores import found, names
from instructions import bfloat16, half, in_ub, on_core

from device_model.aicore.core.names import TPosition
from device_model.aicore.core.tensors import DataFormat, LocalTensor, uint8
from device_model.aicore.functions.layouts import TransData, TransDataConfig, TransDataParams
from device_model.kernel.findings import KernelError

INT16 = np.dtype(np.int16)
PLAIN, PLANES, FRACTALS = DataFormat.NCDHW, DataFormat.NDC1HWC0, DataFormat.FRACTAL_Z_3D
SHAPES = [(1, 16, 1, 4, 4), (2, 16, 3, 4, 8), (2, 20, 2, 3, 7), (17, 5, 1, 1, 1), (1, 33, 1, 2, 16)]


def filled_up(x, number=99):
    """NCDHW with planes of whole blocks; *number* fills them up."""
    n, c, d, h, w = x.shape
    planes = np.full((n, c, d, -(-h * w // 16) * 16), number, x.dtype)
    planes[..., : h * w] = x.reshape(n, c, d, h * w)
    return planes


def layouts_of(shape, packed):
    n, c, d, h, w = shape
    c1, n1 = -(-c // 16), -(-n // 16)
    return shape, (n, d, c1, h, w, 16) if packed is PLANES else (d, c1, h, w, n1, 16, 16)


def moved(src, elements, config, layouts, nbytes=4_096):
    """What TransData writes to *elements* elements, and the launch."""
    seen = []

    def kernel():
        dst, source = in_ub(np.full(elements, 77, src.dtype), 0), in_ub(src, 65_536)
        tmp = LocalTensor(uint8, TPosition.VECCALC, 131_072, nbytes)
        TransData(dst, source, tmp, TransDataParams(*layouts), config=config)
        seen.append(dst.view.copy())

    return seen, on_core(kernel)


@pytest.mark.parametrize("packed", [PLANES, FRACTALS], ids=lambda packed: packed.name)
@pytest.mark.parametrize(
    ("shape", "dtype"), [*((shape, half) for shape in SHAPES), (SHAPES[2], bfloat16), (SHAPES[2], INT16)], ids=str
)
def test_there_and_back(shape, packed, dtype):
    x = np.random.default_rng(1).integers(-99, 99, shape).astype(dtype)
    plain, expected = filled_up(x), (in_planes if packed is PLANES else in_fractals)(x)
    there, back = layouts_of(shape, packed), layouts_of(shape, packed)[::-1]
    (result,), launched = moved(plain, expected.size + 16, TransDataConfig(PLAIN, packed), there)
    assert np.array_equal(result[: expected.size].reshape(expected.shape), expected)
    assert (result[expected.size :] == 77).all()
    assert found(launched) == []
    (result,), launched = moved(expected, plain.size + 16, TransDataConfig(packed, PLAIN), back)
    pixels = shape[3] * shape[4]
    assert np.array_equal(result[: plain.size].reshape(plain.shape)[..., :pixels], plain[..., :pixels])
    assert (result[plain.size :] == 77).all()
    assert found(launched) == []


def test_one_instruction_brings_all_pixels_of_sixteen_channels():
    x = np.zeros((1, 32, 1, 8, 16), half)
    _, launched = moved(filled_up(x), x.size, TransDataConfig(PLAIN, PLANES), layouts_of(x.shape, PLANES))
    assert names(launched) == ["TransDataTo5HD"] * 2
    x = np.zeros((1, 32, 1, 5, 5), half)  # 25 pixels: 16, and 9 in one of their own
    _, launched = moved(filled_up(x), x.size, TransDataConfig(PLAIN, PLANES), layouts_of(x.shape, PLANES))
    assert names(launched) == ["TransDataTo5HD"] * 4


@pytest.mark.parametrize(
    ("config", "layouts", "message"),
    [
        ((PLANES, FRACTALS), ((1, 16, 1, 1, 1), (1, 1, 1, 1, 1, 16)), "it goes from NCDHW to NDC1HWC0 or FRACTAL_Z_3D"),
        ((PLAIN, DataFormat.NZ), ((1, 16, 1, 1, 1), (1,)), "it goes from NCDHW to"),
        ((PLAIN, PLANES), ((1, 16, 1, 1), (1, 1, 1, 1, 1, 16)), r"in NCDHW is \(n, c, d, h, w\)"),
        ((PLAIN, PLANES), ((1, 17, 1, 1, 1), (1, 1, 1, 1, 1, 16)), r"is \(1, 1, 2, 1, 1, 16\) in NDC1HWC0"),
        ((PLAIN, PLANES), ((9, 16, 1, 1, 1), (9, 1, 1, 1, 1, 16)), "has 256 elements, and .* needs 2304"),
        ((PLAIN, PLANES), ((1, 16, 1, 1, 1), (1, 1, 1, 1, 1, 16)), "dst is float32"),
    ],
)
def test_what_it_refuses(config, layouts, message):
    dtype = np.dtype(np.float32) if "float32" in message else half
    with pytest.raises(KernelError, match=f"(?s){message}"):
        moved(np.zeros(256, dtype), 256, TransDataConfig(*config), layouts)


def test_the_temporary_buffer_holds_a_plane():
    config, layouts = TransDataConfig(PLAIN, PLANES), layouts_of((1, 5, 1, 8, 8), PLANES)
    with pytest.raises(KernelError, match="a temporary buffer of 96 bytes"):
        moved(np.zeros(320, half), 1_024, config, layouts, nbytes=96)
