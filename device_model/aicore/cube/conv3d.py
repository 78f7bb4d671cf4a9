"""The Conv3D object: a convolution over depth, height and width, computed by a cube core as a matrix product.

The input lies in GM as planes of 16 channels (NDC1HWC0), and so does the output. The weights lie as fractals of 16
output and 16 input channels, ordered by plane of the filter, plane of channels, row and column of the filter, and
output channels (FRACTAL_Z_3D). `conv3d_pieces` computes.
"""

from operator import index as integer
from typing import Any

import numpy as np

from device_model.aicore.core.tensors import GlobalTensor, float32, half
from device_model.aicore.cube.conv3d_operands import ConvFormat, ConvType, Role
from device_model.aicore.cube.conv3d_part import Part
from device_model.aicore.cube.conv3d_pieces import Pieces
from device_model.aicore.cube.conv3d_tiling import TConv3DApiTiling
from device_model.aicore.cube.fixpipe import CO2Layout, Fixpipe, FixpipeParams, QuantMode
from device_model.aicore.cube.mmad import SIDE, fractals
from device_model.kernel.findings import KernelError


def _roles(dtype: np.dtype[Any]) -> dict[str, Role]:
    """Return what each operand is, of a convolution of *dtype*."""
    planes = Role(ConvFormat.NDC1HWC0, dtype)
    bias = Role(ConvFormat.ND, dtype if dtype == half else float32)
    return {"input": planes, "weight": Role(ConvFormat.FRACTAL_Z_3D, dtype), "output": planes, "bias": bias}


class Conv3D(Pieces):
    """A convolution over depth, height and width, on a cube core (Ascend C: Conv3D).

    Call Init, then SetWeight, SetBias if there is one, SetInputStartPosition and SetSingleOutputShape, and for each
    image SetInput, IterateAll and End. Each core gives the addresses at which its own part begins.

    Args:
        input_: The type of the input: in GM, NDC1HWC0, half or bfloat16.
        weight: The type of the weights: in GM, FRACTAL_Z_3D, of the same type.
        output: The type of the output: in GM, NDC1HWC0, of the same type.
        bias: The type of the bias, if there is one: in GM, ND, half for half and float for bfloat16.

    Raises:
        KernelError: A position, layout or type is impossible.
    """

    def __init__(self, input_: ConvType, weight: ConvType, output: ConvType, bias: ConvType | None = None) -> None:
        types = {"input": input_, "weight": weight, "output": output} | ({"bias": bias} if bias else {})
        super().__init__(types, "input", _roles)
        self._has_iterated = False

    def Init(self, tiling: TConv3DApiTiling) -> None:
        """Set the tiling and make the buffers (Ascend C: Init); no pipe waits.

        Args:
            tiling: What `conv3d_tiling` returned.

        Raises:
            KernelError: The core is not a cube core, it has no TPipe, Init was called before, or memories are full.
        """
        self._init(tiling)
        self._part = Part(tiling, 0, 0, tiling.single_core_co, tiling.single_core_do, tiling.single_core_m)

    def SetInput(self, input_: GlobalTensor) -> None:
        """Set the input (Ascend C: SetInput): its first plane and row that this core needs, of one image."""
        self._set("input", input_)

    def SetWeight(self, weight: GlobalTensor) -> None:
        """Set the weights (Ascend C: SetWeight), from the first output channel of this core on."""
        self._set("weight", weight)

    def SetBias(self, bias: GlobalTensor) -> None:
        """Set the bias (Ascend C: SetBias), from the first output channel of this core on."""
        self._set("bias", bias)

    def SetInputStartPosition(self, di_start_pos: int, m_start_pos: int) -> None:
        """Set where the part of this core begins (Ascend C: SetInputStartPosition); 0 and 0 before.

        Args:
            di_start_pos: The first plane that it needs, counted from the first plane of padding on: its first plane of
                the output times stride_d.
            m_start_pos: Its first place in each plane of the output.

        Raises:
            KernelError: The output has no such plane or place.
        """
        tiling = self._tiled
        at = integer(di_start_pos), integer(m_start_pos)
        most = (tiling.org_do - 1) * tiling.stride_d, tiling.org_ho * tiling.org_wo - 1
        for name, start, last in zip(("di_start_pos", "m_start_pos"), at, most, strict=True):
            if not 0 <= start <= last:
                raise KernelError(f"SetInputStartPosition with {name} {start}", f"it is 0 to {last}")
        if at[0] % tiling.stride_d:
            raise KernelError(
                f"SetInputStartPosition with di_start_pos {at[0]}", f"it is a multiple of stride_d, {tiling.stride_d}"
            )
        self._part = self._part._replace(depth=at[0], place=at[1])

    def SetSingleOutputShape(self, single_co: int, single_do: int, single_m: int) -> None:
        """Set how much this core computes (Ascend C: SetSingleOutputShape), where it is less than the tiling says.

        Args:
            single_co: Output channels.
            single_do: Planes of the output.
            single_m: Places of each plane.

        Raises:
            KernelError: One is below 1 or above what the tiling has.
        """
        tiling = self._tiled
        sizes = integer(single_co), integer(single_do), integer(single_m)
        most = tiling.single_core_co, tiling.single_core_do, tiling.single_core_m
        for name, size, limit in zip(("single_co", "single_do", "single_m"), sizes, most, strict=True):
            if not 1 <= size <= limit:
                raise KernelError(f"SetSingleOutputShape with {name} {size}", f"it is 1 to {limit}, as the tiling has")
        self._part = self._part._replace(co=sizes[0], do=sizes[1], m=sizes[2])

    def IterateAll(self, output: GlobalTensor) -> None:
        """Compute the part of this core for one image (Ascend C: IterateAll).

        No pipe waits: FIX stores the output. Order it before other pipes and cores that read it.

        Args:
            output: The output, from the first element of this core on.

        Raises:
            KernelError: An operand is not set, or too small, or the part reaches beyond the output.
        """
        tiling = self._tiled
        self._check("IterateAll", "output", output)
        self._check_given("IterateAll", ("input", "weight", "bias"))
        self._check_reach(output)
        self._begin()
        self._has_iterated = True
        part = self._part
        for plane in range(part.do):
            for first, left in self._order(part.m, part.co):
                rows, wide = min(tiling.m_l0, part.m - first), min(tiling.n_l0, part.co - left)
                result = self._compute(plane, first, left, rows, wide)
                at = (plane * fractals(tiling.org_co) + left // SIDE) * tiling.org_ho * tiling.org_wo + first
                mode = QuantMode.F322F16 if self.dtype == half else QuantMode.F322BF16
                params = FixpipeParams(wide, rows, 0, tiling.org_ho * tiling.org_wo, mode)
                Fixpipe(output[at * SIDE :], result.tensor, params, CO2Layout.NZ)
                result.flag.emptied()

    def End(self) -> None:
        """Wait for all flags, and give back their ids (Ascend C: End), after each IterateAll.

        Raises:
            KernelError: IterateAll was not called before.
        """
        if not self._has_iterated:
            raise KernelError(f"End of {self!r} without IterateAll()", "call it after IterateAll()")
        self._has_iterated = False
        self._close()

    def _check_reach(self, output: GlobalTensor) -> None:
        """Raise KernelError if the part reaches beyond the output, or an operand is too small for it."""
        tiling, part = self._tiled, self._part
        area = tiling.org_ho * tiling.org_wo
        if part.depth // tiling.stride_d + part.do > tiling.org_do or part.place + part.m > area:
            raise KernelError(
                f"IterateAll of {part.do} planes and {part.m} places from di_start_pos {part.depth} and m_start_pos "
                f"{part.place} on",
                f"the output has {tiling.org_do} planes of {area} places",
            )
        self._check_sizes("IterateAll", self._given | {"output": output}, part.elements())
