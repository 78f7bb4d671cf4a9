"""DataCopy from L0C to GM and L1, the older form of Fixpipe: settings are registers of the core."""

from operator import index as integer
from typing import NamedTuple

import numpy as np

from device_model.aicore.core.names import BLOCK
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, float32
from device_model.aicore.cube.fixpipe import CO2Layout, Fixpipe, FixpipeParams, QuantMode
from device_model.aicore.cube.mmad import CELL, SIDE, cube_unit, k0
from device_model.aicore.moving.copies import FORMS
from device_model.kernel.findings import KernelError

_MOST_16 = 65535
_FACTOR_BITS = 0xFFFFFFFF
_SIGN_BIT = 1 << 46


class DataCopyCO12DstParams(NamedTuple):
    """A copy of a result from L0C to GM or L1 (Ascend C: DataCopyCO12DstParams).

    Attributes:
        n_size: Columns of the result, 0 to 4095; 0 copies nothing.
        m_size: Rows of the result; 0 copies nothing.
        dst_stride: By rows, elements from one row to the next. In NZ, from one column of fractals to the next, in
            blocks of 32 bytes.
        src_stride: Rows of a column of fractals in L0C.
        quant_pre: The conversion from the type in L0C to that of the result; NoQuant keeps the type. Factors are those
            of SetFixpipePreQuantFlag and SetFixPipeConfig.
        relu_pre: 1 if negative results become 0, else 0.
        channel_split: False: results of float in NZ are not divided into columns of 8 here.
        nz2nd_en: Whether rows are written; otherwise fractals (NZ). SetFixpipeNz2ndFlag says how many matrices.
        unit_flag: As for FixpipeParams.
    """

    n_size: int
    m_size: int
    dst_stride: int
    src_stride: int
    quant_pre: QuantMode = QuantMode.NoQuant
    relu_pre: int = 0
    channel_split: bool = False
    nz2nd_en: bool = False
    unit_flag: int = 0


def SetFixpipeNz2ndFlag(nd_num: int, src_nd_stride: int, dst_nd_stride: int) -> None:
    """Set what a DataCopy from L0C with nz2nd_en copies (Ascend C: SetFixpipeNz2ndFlag); no pipe waits.

    Args:
        nd_num: The number of matrices, 1 to 65535.
        src_nd_stride: From one matrix to the next in L0C, in fractals of 1,024 bytes, 1 to 512; 0 too for one matrix.
        dst_nd_stride: From one matrix to the next in the destination, in elements, 1 to 65535.

    Raises:
        KernelError: The core is not a cube core, or a number is out of range.
    """
    numbers = integer(nd_num), integer(src_nd_stride), integer(dst_nd_stride)
    for name, number, least, most in (
        ("nd_num", numbers[0], 1, _MOST_16),
        ("src_nd_stride", numbers[1], 1 if numbers[0] > 1 else 0, 512),
        ("dst_nd_stride", numbers[2], 1, _MOST_16),
    ):
        if not least <= number <= most:
            raise KernelError(f"SetFixpipeNz2ndFlag: {name} is {number}", f"it is {least} to {most}")
    cube_unit().nz2nd = numbers


def SetFixpipePreQuantFlag(config: int) -> None:
    """Set the factor of DataCopy from L0C in scalar modes (Ascend C: SetFixpipePreQuantFlag); no pipe waits.

    Args:
        config: A word whose low 32 bits are those of a float; bit 46 says that 8-bit results are signed, which here
            follows from the type of the destination. `trans_quant_param` makes such words, without an offset.

    Raises:
        KernelError: The core is not a cube core, or another bit is set.
    """
    word = integer(config)
    if not 0 <= word < 1 << 64 or word & ~(_FACTOR_BITS | _SIGN_BIT):
        raise KernelError(
            f"SetFixpipePreQuantFlag({word:#x})", "it takes the bits of a float, and bit 46: an offset is not here"
        )
    cube_unit().pre_quant = float(np.uint32(word & _FACTOR_BITS).view(np.float32))


def _copy_out(dst: GlobalTensor | LocalTensor, src: LocalTensor, params: DataCopyCO12DstParams) -> None:
    unit = cube_unit()
    if params.channel_split:
        raise KernelError(f"DataCopy with {params}", "channel_split is False: results of float have columns of 16")
    if not params.n_size or not params.m_size:
        return
    factor = 1.0
    if params.quant_pre.value[2] == "scalar":
        if unit.pre_quant is None:
            raise KernelError(f"DataCopy with {params.quant_pre.name}", "call SetFixpipePreQuantFlag() first")
        factor = unit.pre_quant
    stride, layout, matrices = params.dst_stride, CO2Layout.ROW_MAJOR, (1, 0, 0)
    if params.nz2nd_en:
        if unit.nz2nd is None:
            raise KernelError("DataCopy from L0C with nz2nd_en", "call SetFixpipeNz2ndFlag() first")
        matrices = unit.nz2nd
    else:
        layout = CO2Layout.NZ
        row = (SIDE if dst.dtype.itemsize == float32.itemsize else k0(dst.dtype)) * dst.dtype.itemsize
        if stride * BLOCK % row:
            raise KernelError(f"DataCopy of {dst.dtype} with {params}", f"dst_stride is a multiple of {row // BLOCK}")
        stride = stride * BLOCK // row
    fixpipe = FixpipeParams(
        params.n_size, params.m_size, params.src_stride, stride, params.quant_pre, factor,
        bool(params.relu_pre), params.unit_flag,
    )  # fmt: skip
    number, step, distance = matrices
    for matrix in range(number):
        source = src[matrix * step * (CELL // src.dtype.itemsize) :] if matrix else src
        Fixpipe(dst[matrix * distance :] if matrix else dst, source, fixpipe, layout)


FORMS[DataCopyCO12DstParams] = _copy_out
