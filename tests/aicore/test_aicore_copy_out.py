"""DataCopy from L0C, the older form of Fixpipe."""

import numpy as np
import pytest
from cores import found, prewritten
from instructions import half, on_core, single
from test_aicore_fixpipe import in_l0c

from device_model.aicore.core.names import KernelType, Pipe, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor
from device_model.aicore.cube.copy_out import DataCopyCO12DstParams, SetFixpipeNz2ndFlag, SetFixpipePreQuantFlag
from device_model.aicore.cube.fixpipe import QuantMode, trans_quant_param
from device_model.aicore.moving.copies import DataCopy
from device_model.kernel.findings import KernelError

AIC = KernelType.AIC_ONLY
QUANT = QuantMode.F322F16


def copied(values, out, params, *, settings=lambda: None):
    def kernel(gm):
        c1 = in_l0c(values)
        settings()
        DataCopy(GlobalTensor(out.dtype).SetGlobalBuffer(gm), c1, params)

    return on_core(kernel, out, kind=AIC)


def test_rows_go_to_gm_as_with_fixpipe():
    values = np.random.default_rng(0).normal(size=(30, 48)).astype(single)
    out = np.zeros((30, 64), half)
    params = DataCopyCO12DstParams(48, 30, 64, 32, QUANT, 1, nz2nd_en=True)
    result = copied(values, out, params, settings=lambda: SetFixpipeNz2ndFlag(1, 0, 1))
    assert np.array_equal(out[:, :48], np.maximum(values, 0).astype(half))
    assert not out[:, 48:].any()
    assert found(result) == []
    assert [each.name for each in result.programs[0].instructions if each.pipe is Pipe.FIX] == ["Fixpipe"]


def test_fractals_are_as_far_apart_as_blocks_say():
    values = np.arange(32 * 32).reshape(32, 32).astype(single)
    for dtype, blocks in ((half, 40), (single, 2 * 40)):
        out = np.full((2, 40, 16), -1, dtype)
        mode = QUANT if dtype == half else QuantMode.NoQuant
        copied(values, out, DataCopyCO12DstParams(32, 32, blocks, 32, mode))
        assert np.array_equal(out[:, :32], values.reshape(32, 2, 16).transpose(1, 0, 2))
        assert (out[0, 32:] == -1).all()


def test_several_matrices_leave_with_one_call():
    values = np.arange(32 * 48).reshape(32, 48).astype(single)
    out = np.zeros((3, 20, 16), single)
    params = DataCopyCO12DstParams(16, 20, 16, 32, nz2nd_en=True)
    copied(values, out, params, settings=lambda: SetFixpipeNz2ndFlag(3, 2, 320))
    assert np.array_equal(out, values[:20].reshape(20, 3, 16).transpose(1, 0, 2))


@pytest.mark.parametrize(
    ("mode", "source", "to"), [(QuantMode.DEQF16, np.int32, half), (QuantMode.REQ8, np.int32, np.int8)]
)
def test_a_factor_for_all_columns_is_a_setting(mode, source, to):
    values = np.random.default_rng(1).integers(-900, 900, (16, 32)).astype(source)
    out = np.zeros((16, 32), to)
    params = DataCopyCO12DstParams(32, 16, 32, 16, mode, nz2nd_en=True)

    def settings():
        SetFixpipeNz2ndFlag(1, 0, 1)
        SetFixpipePreQuantFlag(int(trans_quant_param(0.25)[0]))

    copied(values, out, params, settings=settings)
    expected = values * 0.25 if to == half else np.clip(np.rint(values * 0.25), -128, 127)
    assert np.array_equal(out, expected.astype(to))


def test_fractals_go_to_l1():
    values = np.arange(32 * 32).reshape(32, 32).astype(single)
    out = np.zeros((2, 32, 16), half)

    def kernel(gm):
        c1, l1 = in_l0c(values), LocalTensor(half, TPosition.A1, 0, 1024)
        DataCopy(l1, c1, DataCopyCO12DstParams(32, 32, 32, 32, QUANT))
        out[...] = prewritten(l1).view.reshape(2, 32, 16)

    on_core(kernel, np.zeros(8, half), kind=AIC)
    assert np.array_equal(out, values.astype(half).reshape(32, 2, 16).transpose(1, 0, 2))


MISTAKES = [
    (lambda: None, DataCopyCO12DstParams(16, 16, 16, 16, QUANT, nz2nd_en=True), r"call SetFixpipeNz2ndFlag\(\) first"),
    (lambda: SetFixpipeNz2ndFlag(2, 0, 1), None, "src_nd_stride is 0.*it is 1 to 512"),
    (lambda: SetFixpipeNz2ndFlag(0, 0, 1), None, "nd_num is 0.*it is 1 to 65535"),
    (lambda: SetFixpipePreQuantFlag(1 << 40), None, "0x10000000000.*bits of a float, and bit 46"),
    (lambda: None, DataCopyCO12DstParams(16, 16, 16, 16, channel_split=True), "channel_split is False"),
    (lambda: None, DataCopyCO12DstParams(16, 16, 33, 16, QuantMode.NoQuant), "dst_stride is a multiple of 2"),
    (lambda: None, DataCopyCO12DstParams(16, 16, 16, 8, QuantMode.NoQuant), "needs .* elements, and a stride of whole"),
]


@pytest.mark.parametrize(("settings", "params", "message"), MISTAKES, ids=range(len(MISTAKES)))
def test_copies_that_cannot_be_are_refused(settings, params, message):
    out = np.zeros((40, 40), half if params is None or params.quant_pre is QUANT else single)
    with pytest.raises(KernelError, match=message):
        copied(np.zeros((16, 16), single), out, params or DataCopyCO12DstParams(0, 0, 1, 0), settings=settings)


def test_a_scalar_mode_needs_its_factor():
    with pytest.raises(KernelError, match=r"DEQF16; call SetFixpipePreQuantFlag\(\) first"):
        copied(
            np.zeros((16, 16), np.int32),
            np.zeros((16, 16), half),
            DataCopyCO12DstParams(16, 16, 16, 16, QuantMode.DEQF16),
        )
