"""SelectWithBytesMask: a byte or word of a mask for each element chooses the source."""

import numpy as np
import pytest
from cores import found, names
from instructions import half, in_ub, on_core, single

from device_model.aicore.core.names import TPosition
from device_model.aicore.core.tensors import LocalTensor, uint8
from device_model.aicore.functions.filtering import SelectWithBytesMask, SelectWithBytesMaskShapeInfo
from device_model.kernel.findings import KernelError


def selected(source, mask, width, number, *, first, room=8_192):
    """The result, and the launch, for a mask whose rows are longer than *width*."""
    rows, wide = mask.shape
    result = np.zeros(source.size, source.dtype)

    def kernel():
        dst, src, bits = in_ub(result, 0), in_ub(source, 20_480), in_ub(mask, 40_960)
        operands = (src, number) if first else (number, src)
        tmp = LocalTensor(uint8, TPosition.VECCALC, 150_016, room)
        SelectWithBytesMask(dst, *operands, bits, tmp, SelectWithBytesMaskShapeInfo(rows, width, wide))
        result[:] = dst.view

    return result, on_core(kernel)


@pytest.mark.parametrize("first", [True, False], ids=["src0 is a tensor", "src1 is a tensor"])
@pytest.mark.parametrize("mask_type", [np.uint8, np.int8, np.int16, np.uint16, np.int32, np.uint32])
@pytest.mark.parametrize("dtype", [half, single], ids=str)
@pytest.mark.parametrize("wide", [96, 128])
def test_an_integer_for_each_element_selects_a_source(wide, dtype, mask_type, first):
    rng = np.random.default_rng(3)
    source = rng.normal(size=(7, 96)).astype(dtype)
    mask = rng.choice([0, 0, 1, 77], size=(7, wide)).astype(mask_type)
    mask[0, :2] = np.iinfo(mask_type).max, np.iinfo(mask_type).min
    zero = mask[:, :96] == 0
    expected = np.where(zero if first else ~zero, source, dtype.type(-10_000))
    for room in (8_192, 320):  # at once, and in pieces
        result, launched = selected(source, mask, 96, -10_000.0, first=first, room=room)
        assert result.tolist() == expected.ravel().tolist()
        assert found(launched) == []
        assert ("GatherMask" in names(launched)) == (wide != 96)


def test_a_bool_for_each_element_selects_a_source():
    rng = np.random.default_rng(4)
    source, mask = rng.normal(size=(5, 64)).astype(single), rng.random((5, 64)) < 0.5
    result, launched = selected(source, mask, 64, -1.0, first=True)
    assert result.tolist() == np.where(mask, single.type(-1), source).ravel().tolist()
    assert found(launched) == []


def test_impossible_shapes_types_and_buffers_are_refused():
    source, mask = np.zeros((2, 64), single), np.zeros((2, 64), np.uint8)
    with pytest.raises(KernelError, match=r"first_axis=2, src_last_axis=63.*whole blocks of 32 bytes"):
        selected(source, mask, 63, 0.0, first=True)
    with pytest.raises(KernelError, match=r"a row of the mask has 72 elements or more"):
        selected(np.zeros((2, 72), single), mask, 72, 0.0, first=True)
    with pytest.raises(KernelError, match=r"dst has 128 elements, and needs 192"):
        selected(source, np.zeros((3, 64), np.uint8), 64, 0.0, first=True)
    with pytest.raises(KernelError, match=r"a temporary buffer of 64 bytes; it takes 3 bytes an element, and 96"):
        selected(source, mask, 64, 0.0, first=True, room=64)
    with pytest.raises(KernelError, match=r"mask .* float32"):
        selected(source, source, 64, 0.0, first=True)
    with pytest.raises(TypeError, match=r"one of src0 0.0 and src1 1.0 is a tensor, and the other a number"):
        on_core(lambda: SelectWithBytesMask(in_ub(source, 0), 0.0, 1.0, in_ub(mask, 4_096), None, (2, 64, 64)))
