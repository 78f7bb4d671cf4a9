"""Planted mistakes, in kernels that are right without them: each is reported once, at the line that is marked.

A mistake of which a card would know nothing until its results are wrong is a finding. All others end the launch.
"""

import inspect
import re
import traceback
from pathlib import Path

import numpy as np
import pytest
from core_kernels import on_device, simulation

import acl_py as acl
from acl_py import asc
from device_model.profile import load

HERE = "# here"
SPEC = load("ascend910b1").aicore
CUBE, MIXED = asc.KernelType.AIC_ONLY, asc.KernelType.MIX_AIC_1_2
PLANES = asc.ConvFormat.NDC1HWC0, asc.ConvFormat.FRACTAL_Z_3D, asc.ConvFormat.NDC1HWC0
PLANTED = []


def planted(message, **data):
    """Add the kernel below: the *message* that it gets, a pattern, and what it is given beside x, y and z."""

    def add(kernel):
        PLANTED.append(pytest.param(kernel, message, data, id=kernel.name))
        return kernel

    return add


def ub(dtype, at=0, size=256):
    return asc.LocalTensor(dtype, asc.TPosition.VECCALC, at, size)


def gm(argument, dtype=asc.float32, size=None):
    return asc.GlobalTensor(dtype).SetGlobalBuffer(argument, size)


def handed(event):
    asc.SetFlag(event, 0)
    asc.WaitFlag(event, 0)


def filled(dtype=asc.float32, at=0, size=256, number=1):
    tensor = ub(dtype, at, size)
    asc.Duplicate(tensor, number, size)
    return tensor


def matmul(c=asc.float32, inputs=asc.half):
    kinds = [asc.MatmulType(asc.TPosition.GM, asc.CubeFormat.ND, dtype) for dtype in (inputs, inputs, c)]
    return asc.Matmul(*kinds)


def product(m=32, n=32, k=32, dtype=np.float16):
    return asc.multi_core_matmul_tiling(SPEC, m, n, k, dtype, cores=1)


def line_of(kernel):
    lines, first = inspect.getsourcelines(kernel.function)
    (number,) = [first + place for place, line in enumerate(lines) if HERE in line]
    return number


# What a compiler or a flag would have put in order


@planted(r"RAW in block 0 \(AIV\): GetValue \(S\) .*ReduceSum \(V\).*missing V_S")
@asc.kernel
def reads_a_sum_without_the_flag_that_a_compiler_inserts(x: asc.In, y: asc.Out, z: asc.InOut):
    tensor, total, work = filled(), ub(asc.float32, 4_096, 8), ub(asc.float32, 8_192, 64)
    asc.ReduceSum(total, tensor, work, 256)
    number = total.GetValue(0)  # here
    asc.Adds(tensor, tensor, float(number), 256)
    handed(asc.HardEvent.V_MTE3)
    asc.DataCopy(gm(y), tensor, 256)


@planted(r"RAW in block 0 \(AIV\): Adds \(V\) .*SetValue \(S\).*missing S_V")
@asc.kernel
def writes_a_number_without_the_flag_that_a_compiler_inserts(x: asc.In, y: asc.Out, z: asc.InOut):
    tensor = filled()
    handed(asc.HardEvent.V_S)
    tensor.SetValue(0, 3.0)
    asc.Adds(tensor, tensor, 1.0, 256)  # here
    handed(asc.HardEvent.V_MTE3)
    asc.DataCopy(gm(y), tensor, 256)


@planted(r"RAW in block 0 \(AIV\): DataCopy \(MTE3\) .*Adds \(V\).*missing V_MTE3")
@asc.kernel
def copies_out_too_early(x: asc.In, y: asc.Out, z: asc.InOut):
    tensor = filled()
    asc.Adds(tensor, tensor, 1.0, 256)
    asc.DataCopy(gm(y), tensor, 256)  # here


# Bytes that nobody wrote


@planted(r"UNWRITTEN_READ in block 0 \(AIV\): Adds \(V\) .* reads UB\[512:1024\], where nothing was written")
@asc.kernel
def adds_to_what_nobody_wrote(x: asc.In, y: asc.Out, z: asc.InOut):
    tensor = ub(asc.float32)
    asc.Duplicate(tensor, 1.0, 128)
    asc.Adds(tensor, tensor, 1.0, 256)  # here
    handed(asc.HardEvent.V_MTE3)
    asc.DataCopy(gm(y), tensor, 256)


# Sizes that do not fit


@planted(r"Alloc of 32769 x float32 from <LocalMemAllocator L0C: 0 of 131072 bytes given out>")
@asc.kernel(kind=CUBE)
def makes_a_result_larger_than_l0c(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.LocalMemAllocator(asc.Hardware.L0C).Alloc(asc.float32, 32 * 1024 + 1)  # here


@planted(r"event id 8 of V_MTE3; ids are 0 to 7")
@asc.kernel
def uses_a_ninth_event(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.SetFlag(asc.HardEvent.V_MTE3, 8)  # here


@planted(r"Erf: a temporary buffer of 100 bytes; it takes \d+ bytes an element, and \d+ at least")
@asc.kernel
def gives_erf_a_buffer_that_is_too_small(x: asc.In, y: asc.InOut, z: asc.InOut):
    tensor = filled(asc.half)
    asc.Erf(tensor, tensor, ub(asc.uint8, 8_192, 100), 256)  # here


@planted(r"Sort of 64 scores with a temporary buffer of 64 elements; it needs 128")
@asc.kernel
def gives_sort_a_buffer_that_is_too_small(x: asc.In, y: asc.InOut, z: asc.InOut):
    scores, index = filled(size=64), filled(asc.uint32, 1_024, 64)
    records, tmp = ub(asc.float32, 2_048, 128), ub(asc.float32, 4_096, 64)
    asc.Sort(records, scores, index, tmp, 2, is_full_sort=True)  # here


@planted(
    r"Gelu: the temporary buffer .* overlaps <LocalTensor VECCALC UB\[0\] float32 x 256>; give it bytes of its own"
)
@asc.kernel
def gives_gelu_a_buffer_that_overlaps_its_tensor(x: asc.In, y: asc.InOut, z: asc.InOut):
    tensor = filled()
    asc.Gelu(tensor, tensor, ub(asc.uint8, 1_000, 4_096), 256)  # here


@planted(r"SetSize\(49153\) of .*; 49152 elements fit in UB")
@asc.kernel
def sets_a_size_beyond_ub(x: asc.In, y: asc.InOut, z: asc.InOut):
    ub(asc.float32).SetSize(49_153)  # here


@planted(r"a second LocalMemAllocator of UB on block 0 \(AIV\); make one for each memory")
@asc.kernel
def makes_two_allocators_of_ub(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.LocalMemAllocator()
    asc.LocalMemAllocator()  # here


@planted(r"SelectWithBytesMask with .*mask_last_axis=32\); a row of the mask has 64 elements or more")
@asc.kernel
def gives_a_mask_with_short_rows(x: asc.In, y: asc.InOut, z: asc.InOut):
    tensor, mask = filled(), filled(asc.uint16, 4_096, 128).ReinterpretCast(asc.uint8)
    shape = asc.SelectWithBytesMaskShapeInfo(4, 64, 32)
    asc.SelectWithBytesMask(tensor, tensor, 0.0, mask, ub(asc.uint8, 8_192, 4_096), shape)  # here


@planted(r"Fill of 1000 elements; <GlobalTensor .* float32 x 256> has 256")
@asc.kernel
def fills_beyond_the_end(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.TPipe()
    asc.Fill(gm(y), 1_000, 0.0)  # here


# Types that an instruction does not have


@planted(r"Add: dst is int8; it takes float16, float32, int16, int32")
@asc.kernel
def adds_bytes(x: asc.In, y: asc.InOut, z: asc.InOut):
    tensor = filled(asc.int16).ReinterpretCast(asc.int8)
    asc.Add(tensor, tensor, tensor, 256)  # here


@planted(r"Exp: dst is int32; it takes float16, float32")
@asc.kernel
def takes_an_exponential_of_integers(x: asc.In, y: asc.InOut, z: asc.InOut):
    tensor = filled(asc.int32)
    asc.Exp(tensor, tensor, 256)  # here


@planted(r"Compares: src0 is int32; it takes float16, float32")
@asc.kernel
def compares_the_size_of_integers(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.Compares(ub(asc.uint8, 4_096), filled(asc.int32), 3, asc.CMPMODE.LT, 256)  # here


@planted(r"Cast from int32 to float16 without a factor; call SetDeqScale\(factor\) first")
@asc.kernel
def casts_integers_to_half_without_a_factor(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.Cast(ub(asc.half, 4_096), filled(asc.int32), asc.RoundMode.CAST_NONE, 256)  # here


@planted(r"Sort32: src0 is int32; it takes float16, float32")
@asc.kernel
def sorts_integers(x: asc.In, y: asc.InOut, z: asc.InOut):
    scores, index = filled(asc.int32, 0, 32), filled(asc.uint32, 1_024, 32)
    asc.Sort32(ub(asc.int32, 2_048, 64), scores, index, 1)  # here


@planted(r"Duplicate: the scalar 70000 does not fit the type int16")
@asc.kernel
def fills_with_a_number_that_is_too_large(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.Duplicate(ub(asc.int16), 70_000, 256)  # here


@planted(r"Fixpipe from float32 to float16 with NoQuant; take quant_pre=F322F16")
@asc.kernel(kind=CUBE)
def stores_floats_as_halves_without_a_mode(x: asc.In, y: asc.InOut, z: asc.InOut):
    total = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, 256)
    asc.Fixpipe(gm(y, asc.half), total, asc.FixpipeParams(16, 16))  # here


# Shapes of Matmul


@planted(r"SetOrgShape with org_n 16, and this core's part of it is 32; a part is no larger than the whole", tiling=1)
@asc.kernel(kind=CUBE)
def sets_a_whole_smaller_than_its_part(x: asc.In, y: asc.InOut, z: asc.InOut, tiling: asc.TCubeTiling):
    mm = matmul()
    asc.REGIST_MATMUL_OBJ(asc.TPipe(), None, mm, tiling)
    mm.SetOrgShape(32, 16, 32)
    mm.SetTensorA(gm(x, asc.half))
    mm.SetTensorB(gm(x, asc.half))
    mm.IterateAll(gm(y))  # here


@planted(r"en_atomic 4; 0 overwrites, 1 adds, 2 keeps the larger and 3 the smaller number", tiling=1)
@asc.kernel(kind=CUBE)
def combines_c_with_gm_in_an_unknown_way(x: asc.In, y: asc.InOut, z: asc.InOut, tiling: asc.TCubeTiling):
    mm = matmul()
    asc.REGIST_MATMUL_OBJ(asc.TPipe(), None, mm, tiling)
    mm.SetTensorA(gm(x, asc.half))
    mm.SetTensorB(gm(x, asc.half))
    mm.IterateAll(gm(y), 4)  # here


@planted(r"GetTensorC without a piece; call Iterate\(\) first", tiling=1)
@asc.kernel(kind=CUBE)
def takes_a_piece_that_was_not_computed(x: asc.In, y: asc.InOut, z: asc.InOut, tiling: asc.TCubeTiling):
    mm = matmul()
    asc.REGIST_MATMUL_OBJ(asc.TPipe(), None, mm, tiling)
    mm.SetTensorA(gm(x, asc.half))
    mm.SetTensorB(gm(x, asc.half))
    mm.GetTensorC(gm(y))  # here


@planted(r"a Matmul on vector cores alone; launch the kernel as MIX_AIC_1_2, or on cube cores", tiling=1)
@asc.kernel
def multiplies_on_vector_cores(x: asc.In, y: asc.InOut, z: asc.InOut, tiling: asc.TCubeTiling):
    asc.REGIST_MATMUL_OBJ(asc.TPipe(), None, matmul(), tiling)  # here


# Counts


@planted(r"Adds: a count of -8; it must be a number of elements above 0")
@asc.kernel
def adds_to_fewer_than_no_elements(x: asc.In, y: asc.InOut, z: asc.InOut):
    tensor = filled()
    asc.Adds(tensor, tensor, 1.0, -8)  # here


@planted(r"a count or a mask must be an int, not 12.5: divide with //")
@asc.kernel
def multiplies_half_an_element(x: asc.In, y: asc.InOut, z: asc.InOut):
    tensor = filled()
    asc.Muls(tensor, tensor, 1.0, 100 / 8)  # here


@planted(r"DataCopy of -16 elements .*; the count must fit in both tensors")
@asc.kernel
def copies_fewer_than_no_elements(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.DataCopy(ub(asc.float32), gm(x), -16)  # here


@planted(r"DataCopy: the count must be an int, not 12.5: divide with //")
@asc.kernel
def copies_half_an_element(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.DataCopy(ub(asc.float32), gm(x), 100 / 8)  # here


@planted(r"Relu: .*300 repeats.*0 to 255")
@asc.kernel
def repeats_too_often(x: asc.In, y: asc.InOut, z: asc.InOut):
    tensor = ub(asc.half, 0, 65_536)
    asc.Relu(tensor, tensor, 128, 300, asc.UnaryRepeatParams(1, 1, 1, 1))  # here


@planted(r"WholeReduceSum: .*mask.*65.*64 lanes")
@asc.kernel
def masks_more_lanes_than_there_are(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.WholeReduceSum(ub(asc.float32, 4_096, 8), filled(), 65, 1, 1, 1, 8)  # here


# Names of other cards


@planted(r"asc has no RegTensor: only Ascend 950 has it \(docs/aicore.md\)")
@asc.kernel
def uses_registers(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.RegTensor(asc.float32)  # here


@planted(r"asc has no Mutex: Atlas A2 and A3 do not have it \(docs/aicore.md\)")
@asc.kernel
def uses_a_mutex(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.Mutex(0)  # here


# Names that came later


@planted(r"element 33 of <LocalTensor VECCALC UB\[4096\] int4 x 512> begins within a byte; .*begin at an even one")
@asc.kernel
def begins_within_a_byte(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.Cast(ub(asc.half), ub(asc.int4b_t, 4_096, 512)[33:], asc.RoundMode.CAST_NONE, 64)  # here


@planted(r"Adds: dst is int4; it takes float16")
@asc.kernel
def adds_to_numbers_of_four_bits(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.Adds(ub(asc.int4b_t), ub(asc.int4b_t), 1, 256)  # here


@planted(r"a Matmul with A in L1 in a mixed kernel; .*AIC_ONLY", tiling=True)
@asc.kernel(kind=MIXED)
def gives_a_vector_core_a_matrix_in_l1(x: asc.In, y: asc.InOut, z: asc.InOut, tiling: asc.TCubeTiling):
    here = asc.MatmulType(asc.TPosition.TSCM, asc.CubeFormat.NZ, asc.half)
    there = asc.MatmulType(asc.TPosition.GM, asc.CubeFormat.ND, asc.half)
    mm = asc.Matmul(here, there, there)
    asc.REGIST_MATMUL_OBJ(asc.TPipe(), None, mm, tiling)  # here


@planted(
    r"SetTensorA with <LocalTensor A1 L1\[0\] float16 x 1008>; this core's part of it has 1024 elements", tiling=True
)
@asc.kernel(kind=CUBE)
def multiplies_a_part_that_is_too_small(x: asc.In, y: asc.InOut, z: asc.InOut, tiling: asc.TCubeTiling):
    here = asc.MatmulType(asc.TPosition.A1, asc.CubeFormat.NZ, asc.half)
    there = asc.MatmulType(asc.TPosition.GM, asc.CubeFormat.ND, asc.half)
    mm = asc.Matmul(here, there, there)
    asc.REGIST_MATMUL_OBJ(asc.TPipe(), None, mm, tiling)
    mm.SetTensorA(asc.LocalTensor(asc.half, asc.TPosition.A1, 0, 1_008))  # here


@planted(r"InitBufHandle of 64 bytes at 64 for <TBuf VECCALC .*> has bytes 0 to 96, and a buffer begins at a multiple")
@asc.kernel
def gives_a_buffer_more_than_its_pool_has(x: asc.In, y: asc.InOut, z: asc.InOut):
    pipe, pool, room = asc.TPipe(), asc.TBufPool(), asc.TBuf()
    pipe.InitBufPool(pool, 96)
    room.InitStartBufHandle(pool.GetBufHandle(0), 1, 64)
    room.InitBufHandle(pool, 0, pool.GetBufHandle(0), pool.GetCurAddr() + 64, 64)  # here


@planted(r"SetTensorTrait\(<TensorTrait float16 GM .*; give it a TensorTrait of float32")
@asc.kernel
def gives_floats_a_trait_of_halves(x: asc.In, y: asc.InOut, z: asc.InOut):
    gm(y).SetTensorTrait(asc.TensorTrait(asc.half))  # here


@planted(r"TransData with TransDataParams.*; \(1, 17, 1, 1, 4\) in NCDHW is \(1, 1, 2, 1, 4, 16\) in NDC1HWC0")
@asc.kernel
def forgets_the_last_channel(x: asc.In, y: asc.InOut, z: asc.InOut):
    config = asc.TransDataConfig(asc.DataFormat.NCDHW, asc.DataFormat.NDC1HWC0)
    params = asc.TransDataParams((1, 17, 1, 1, 4), (1, 1, 1, 1, 4, 16))
    asc.TransData(ub(asc.half, 4_096), ub(asc.half), ub(asc.uint8, 8_192), params, config=config)  # here


@planted(r"GroupBarrier with a workspace .* that is not zero; fill it with zeros before the launch")
@asc.kernel
def meets_in_a_workspace_that_is_not_zero(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.GroupBarrier(x, 1, 1)  # here


@planted(r"GroupBarrier of 1 and 2 cores .*a group has 1 to 1 vector cores of this launch")
@asc.kernel
def meets_more_cores_than_there_are(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.GroupBarrier(z, 1, 2)  # here


@planted(r"NotifyNextBlock on .*; call InitDetermineComputeWorkspace\(\) first")
@asc.kernel
def tells_the_next_block_without_turns(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.NotifyNextBlock(gm(z, asc.int32), ub(asc.int32))  # here


@planted(r"ReadGmByPassDCache of .* waits for a write that does not come; .*WriteGmByPassDCache\(\)")
@asc.kernel
def polls_a_flag_that_nobody_writes(x: asc.In, y: asc.InOut, z: asc.InOut):
    flag = gm(y, asc.int32).GetPhyAddr()
    while asc.ReadGmByPassDCache(flag) != 1:  # here
        pass


@planted(r"DataCopy from L0C with nz2nd_en; call SetFixpipeNz2ndFlag\(\) first")
@asc.kernel(kind=CUBE)
def forgets_how_many_matrices_leave(x: asc.In, y: asc.InOut, z: asc.InOut):
    result = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, 256)
    asc.DataCopy(gm(y), result, asc.DataCopyCO12DstParams(16, 16, 16, 16, nz2nd_en=True))  # here


@planted(r"GetReduceRepeatSumSpr without a ReduceSum; call ReduceSum\(dst, src, tmp, count\) first")
@asc.kernel
def reads_a_sum_that_was_not_made(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.GetReduceRepeatSumSpr()  # here


@planted(r"UNWRITTEN_OUT in block 0 \(AIC\): .*the argument y is Out.*; Fixpipe .* writes beside it, and 512 of 1024")
@asc.kernel(kind=CUBE)
def leaves_out_the_upper_half(x: asc.In, y: asc.Out, z: asc.InOut):
    kinds = [asc.MatmulType(asc.TPosition.GM, asc.CubeFormat.ND, asc.half) for _ in range(3)]
    mm = asc.Matmul(*kinds, policy=asc.MatmulPolicy.TRIAN_LOWER)
    tiling = asc.multi_core_matmul_tiling(SPEC, 16, 32, 16, np.float16, cores=1, fix_split=(16, 16, 16))
    asc.REGIST_MATMUL_OBJ(asc.TPipe(), None, mm, tiling)
    mm.SetTensorA(gm(x, asc.half))
    mm.SetTensorB(gm(x, asc.half))
    mm.IterateAll(gm(y, asc.half))  # here
    mm.End()


@planted(r"SoftmaxFlashV3 of 8 rows of 256 elements; .*src_k a multiple of 64, 512 or more")
@asc.kernel
def cuts_short_rows_into_eight_pieces(x: asc.In, y: asc.InOut, z: asc.InOut):
    rows, state, factor = ub(asc.half, 0, 2_048), ub(asc.float32, 4_096, 64), ub(asc.half, 8_192, 128)
    params = asc.SoftMaxParams(8, 256)
    asc.SoftmaxFlashV3(rows, *[state] * 3, rows, factor, *[state] * 3, params, is_update=False)  # here


@planted(r"Normalize with NormalizePara.*; input_mean has 8 elements, and needs 16")
@asc.kernel
def normalizes_more_rows_than_it_has_means_of(x: asc.In, y: asc.InOut, z: asc.InOut):
    matrix, mean, row = filled(), filled(at=4_096, size=8), filled(at=8_192, size=16)
    para = asc.NormalizePara(16, 16, 16)
    asc.Normalize(ub(asc.float32, 16_384), row, mean, row, matrix, row, row, 1e-5, para)  # here


@planted(r"GroupBarrier with a workspace .*, which the one at .* has, too; the messages of the first one are there")
@asc.kernel
def makes_a_barrier_in_each_round(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.TPipe()
    asc.Fill(gm(y), 256, 0.0)
    workspace = gm(y).GetPhyAddr()
    for _ in range(2):
        barrier = asc.GroupBarrier(workspace, 1, 1)  # here
        barrier.Arrive(0)
        barrier.Wait(0)


@planted(r"IterateAll of 1 planes and 4 places from di_start_pos 0 and m_start_pos 13 on; the output has .* 16 places")
@asc.kernel(kind=CUBE)
def convolves_beyond_the_end(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.TPipe()
    conv = asc.Conv3D(*(asc.ConvType(asc.TPosition.GM, layout, asc.half) for layout in PLANES))
    conv.Init(asc.conv3d_tiling(SPEC, (16, 1, 4, 4), (16, 1, 1, 1), np.float16, single_output_shape=(16, 1, 4)))
    conv.SetInputStartPosition(0, 13)  # the last four places begin at 12
    conv.SetWeight(gm(x, asc.half))
    conv.SetInput(gm(y, asc.half))
    conv.IterateAll(gm(z, asc.half))  # here
    conv.End()


@planted(r"RAW in block 0 \(AIC\): LoadData \(MTE1\) .*Fill \(MTE2\).*missing MTE2_MTE1")
@asc.kernel(kind=CUBE)
def loads_zeros_that_may_not_be_there(x: asc.In, y: asc.InOut, z: asc.InOut):
    a1, a2 = (asc.LocalTensor(asc.half, place, 0, 256) for place in (asc.TPosition.A1, asc.TPosition.A2))
    asc.Fill(a1, asc.InitConstValueParams(1, 16))
    asc.LoadData(a2, a1, asc.LoadData2DParams())  # here


# Names that came last


@planted(r"UNWRITTEN_READ in block 0 \(AIV\): GetCmpMask \(V\) .* reads CmpMask\[0:16\], where nothing was written")
@asc.kernel
def reads_a_register_that_nothing_was_compared_into(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.GetCmpMask(ub(asc.uint8))  # here


@planted(r"Compare without dst and with repeat_params in the place of repeat_time; write repeat_params=")
@asc.kernel
def compares_to_the_register_with_parameters_by_place(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.Compare(None, filled(), filled(at=4_096), asc.CMPMODE.LT, 64, asc.BinaryRepeatParams())  # here


@planted(r"Compare with cmp_mode 'LT'; give a CMPMODE")
@asc.kernel
def compares_in_words(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.Compare(ub(asc.uint8, 8_192), filled(), filled(at=4_096), "LT", 64)  # here


@planted(r"Compare of 4 repeats without dst; CmpMask has the bits of one repeat")
@asc.kernel
def compares_four_repeats_into_the_register(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.Compare(None, filled(), filled(at=4_096), asc.CMPMODE.LT, 64, 4)  # here


@planted(r"Select with .*VSEL_TENSOR_TENSOR_MODE and no sel_mask; CmpMask has bits for VSEL_CMPMASK_SPR only")
@asc.kernel
def selects_repeat_by_repeat_with_the_register(x: asc.In, y: asc.InOut, z: asc.InOut):
    tensor = filled()
    asc.Select(tensor, None, tensor, tensor, asc.SELMODE.VSEL_TENSOR_TENSOR_MODE, 256)  # here


@planted(
    r"IterateNBatch of 2 batches of 1 with the room .*; call SetWorkspace\(\) with 512 elements of", tiling=(16, 16, 16)
)
@asc.kernel(kind=CUBE)
def gives_two_batches_room_for_one(x: asc.In, y: asc.InOut, z: asc.InOut, tiling: asc.TCubeTiling):
    mm = matmul()
    asc.REGIST_MATMUL_OBJ(asc.TPipe(), None, mm, tiling)
    mm.SetTensorA(gm(x, asc.half))
    mm.SetTensorB(gm(x, asc.half))
    mm.SetWorkspace(gm(y))
    mm.IterateNBatch(2, 1, 1)  # here


@planted(
    r"GetBatchTensorC without a batch; call IterateNBatch\(..., sync=False\) first, and then once", tiling=(16, 16, 16)
)
@asc.kernel(kind=CUBE)
def takes_a_second_batch_of_one(x: asc.In, y: asc.InOut, z: asc.InOut, tiling: asc.TCubeTiling):
    mm = matmul()
    asc.REGIST_MATMUL_OBJ(asc.TPipe(), None, mm, tiling)
    mm.SetTensorA(gm(x, asc.half))
    mm.SetTensorB(gm(x, asc.half))
    mm.SetWorkspace(gm(y))
    mm.IterateNBatch(1, 1, 1, sync=False)
    mm.GetBatchTensorC(1, 1)
    mm.GetBatchTensorC(1, 1)  # here


@planted(r"a Matmul with MatmulPolicy.N_BUFFER_33 and .*; depth_a1 must be 1, not 2", tiling=(16, 16, 16))
@asc.kernel(kind=CUBE)
def keeps_a_with_a_tiling_for_another_policy(x: asc.In, y: asc.InOut, z: asc.InOut, tiling: asc.TCubeTiling):
    kinds = [asc.MatmulType(asc.TPosition.GM, asc.CubeFormat.ND, asc.half) for _ in range(3)]
    mm = asc.Matmul(*kinds, policy=asc.MatmulPolicy.N_BUFFER_33)
    asc.REGIST_MATMUL_OBJ(asc.TPipe(), None, mm, tiling)  # here


@planted(r"Iterate of <Conv3DBackpropInput of float16> a second time; store the piece before it: call GetTensorC\(\)")
@asc.kernel(kind=CUBE)
def forgets_to_store_a_piece(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.TPipe()
    kinds = [asc.ConvType(asc.TPosition.GM, layout, asc.half) for layout in PLANES]
    size = asc.ConvType(asc.TPosition.GM, asc.ConvFormat.ND, asc.int32)
    gradient = asc.Conv3DBackpropInput(kinds[1], size, kinds[0], kinds[2])
    gradient.Init(asc.conv3d_backprop_input_tiling(SPEC, (16, 1, 4, 4), (16, 1, 1, 1), np.float16))
    gradient.SetGradOutput(gm(x, asc.half))
    gradient.SetWeight(gm(y, asc.half))
    while gradient.Iterate():  # here
        pass


@planted(r"Iterate of 3 rows from row 2 on; the output has 4 rows")
@asc.kernel(kind=CUBE)
def sums_over_rows_beyond_the_end(x: asc.In, y: asc.InOut, z: asc.InOut):
    asc.TPipe()
    planes, _, _ = PLANES
    layouts = (planes, asc.half), (asc.ConvFormat.ND, asc.int32), (planes, asc.half)
    kinds = [asc.ConvType(asc.TPosition.GM, *each) for each in layouts]
    weights = asc.ConvType(asc.TPosition.GM, asc.ConvFormat.FRACTAL_Z_3D, asc.float32)
    gradient = asc.Conv3DBackpropFilter(*kinds, weights)
    sizes = (16, 1, 4, 4), (16, 1, 1, 1)
    gradient.Init(asc.conv3d_backprop_filter_tiling(SPEC, *sizes, np.float16, single_shape=(16, 1, 3)))
    gradient.SetInput(gm(x, asc.half))
    gradient.SetGradOutput(gm(y, asc.half))
    gradient.SetStartPosition(2)  # the second of two cores has one row
    gradient.IterateAll(gm(z))  # here


@pytest.mark.parametrize(("kernel", "message", "data"), PLANTED)
async def test_a_planted_mistake_is_reported_at_its_line(kernel, message, data):
    error = None
    async with simulation() as sim:
        arguments = [await on_device(np.ones(256, np.float32)) for _ in range(3)]
        if "tiling" in data:
            sizes = data["tiling"]
            arguments.append(product(*sizes) if isinstance(sizes, tuple) else product())
        try:
            await kernel[1](*arguments)
            await acl.SynchronizeDevice()
        except acl.AclError as raised:
            error = raised.__cause__
        if error is None:
            (found,) = sim.findings
            text = str(found)
            where = [int(number) for number in re.findall(rf"{Path(__file__).name}:(\d+)", text)]
        else:
            assert sim.findings == []
            text = str(error)
            where = [entry.lineno for entry in traceback.extract_tb(error.__traceback__) if entry.filename == __file__]
    assert re.search(message, text), text
    assert line_of(kernel) in where


async def test_too_few_blocks_leave_bytes_of_an_output_unwritten():
    @asc.kernel
    def quarter(x: asc.In, y: asc.Out):
        tensor = ub(asc.float32, 0, 64)
        at = asc.GetBlockIdx() * 64
        asc.DataCopy(tensor, gm(x)[at:], 64)
        handed(asc.HardEvent.MTE2_MTE3)
        asc.DataCopy(gm(y)[at:], tensor, 64)

    async with simulation() as sim:
        x, y = [await on_device(np.ones(256, np.float32)) for _ in range(2)]
        await quarter[4](x, y)
        await acl.SynchronizeDevice()
        assert sim.findings == []
        await quarter[3](x, y)
        await acl.SynchronizeDevice()
        (found,) = sim.findings
        assert "UNWRITTEN_OUT" in str(found)
        assert "768:1024" in str(found)
