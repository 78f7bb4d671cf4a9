"""The language of core kernels: the names and shapes of Ascend C, in Python.

    from acl_py import Array, asc

    @asc.kernel
    def double(x: asc.In, y: asc.Out, length: int) -> None:
        x_gm = asc.GlobalTensor(asc.half).SetGlobalBuffer(x)
        ...

    await double[8, stream](Array(x, np.float16), Array(y, np.float16), length)

A kernel runs once for each block. Its Python code is the core's scalar pipe: it computes addresses, and issues
instructions to the other pipes. Each pipe executes its instructions in order, independently of the other pipes.

    pipe    instructions
    S       GetValue, SetValue, and the kernel's own code
    V       Add, Cast, ReduceSum and all other vector instructions; DataCopy within UB
    M       Mmad
    MTE1    LoadData, LoadDataWithTranspose; DataCopy from L1 to BT or FB
    MTE2    DataCopy and DataCopyPad from GM
    MTE3    DataCopy and DataCopyPad to GM
    FIX     Fixpipe

An instruction waits for the earlier ones of its own pipe and for nothing else, so flags (SetFlag, WaitFlag) or queues
(TQue) put pipes in order. Results are computed when an instruction is issued, and times are worked out afterwards. A
forgotten flag therefore does not change the results, unless the kernel is made with `weak=True`. It is reported as a
finding, and so is a read of memory that nothing was written to. With `auto_sync=True` flags between the scalar pipe and
the others are inserted, as the vendor's compiler does by default. A mistake that would stop a card raises KernelError,
with the kernel's line in its traceback.

Each name is documented where it is defined, in `acl_py.verbs.core_kernels` and `device_model.aicore`.
"""

import typing as _typing

from acl_py import kernel_names as _kernel_names
from acl_py.verbs.core_kernels import GM_ADDR as GM_ADDR
from acl_py.verbs.core_kernels import CoreKernelFunction as CoreKernelFunction
from acl_py.verbs.core_kernels import In as In
from acl_py.verbs.core_kernels import InOut as InOut
from acl_py.verbs.core_kernels import Out as Out
from acl_py.verbs.core_kernels import kernel as kernel
from acl_py.verbs.core_kernels import reset_l2 as reset_l2
from acl_py.verbs.core_kernels import tune as tune
from device_model.aicore.core.blocks import ASCEND_IS_AIC as ASCEND_IS_AIC
from device_model.aicore.core.blocks import ASCEND_IS_AIV as ASCEND_IS_AIV
from device_model.aicore.core.blocks import GetBlockIdx as GetBlockIdx
from device_model.aicore.core.blocks import GetBlockNum as GetBlockNum
from device_model.aicore.core.blocks import GetSubBlockIdx as GetSubBlockIdx
from device_model.aicore.core.blocks import GetSubBlockNum as GetSubBlockNum
from device_model.aicore.core.blocks import GetTaskRatio as GetTaskRatio
from device_model.aicore.core.blocks import GetTaskRation as GetTaskRation
from device_model.aicore.core.debug import DumpTensor as DumpTensor
from device_model.aicore.core.debug import Trap as Trap
from device_model.aicore.core.debug import assert_ as assert_
from device_model.aicore.core.debug import printf as printf
from device_model.aicore.core.findings import KernelAssertionError as KernelAssertionError
from device_model.aicore.core.findings import Rule as Rule
from device_model.aicore.core.lists import ListTensorDesc as ListTensorDesc
from device_model.aicore.core.lists import TensorDesc as TensorDesc
from device_model.aicore.core.names import CMPMODE as CMPMODE
from device_model.aicore.core.names import EVENT_ID0 as EVENT_ID0
from device_model.aicore.core.names import EVENT_ID1 as EVENT_ID1
from device_model.aicore.core.names import EVENT_ID2 as EVENT_ID2
from device_model.aicore.core.names import EVENT_ID3 as EVENT_ID3
from device_model.aicore.core.names import EVENT_ID4 as EVENT_ID4
from device_model.aicore.core.names import EVENT_ID5 as EVENT_ID5
from device_model.aicore.core.names import EVENT_ID6 as EVENT_ID6
from device_model.aicore.core.names import EVENT_ID7 as EVENT_ID7
from device_model.aicore.core.names import PIPE_ALL as PIPE_ALL
from device_model.aicore.core.names import PIPE_FIX as PIPE_FIX
from device_model.aicore.core.names import PIPE_M as PIPE_M
from device_model.aicore.core.names import PIPE_MTE1 as PIPE_MTE1
from device_model.aicore.core.names import PIPE_MTE2 as PIPE_MTE2
from device_model.aicore.core.names import PIPE_MTE3 as PIPE_MTE3
from device_model.aicore.core.names import PIPE_S as PIPE_S
from device_model.aicore.core.names import PIPE_V as PIPE_V
from device_model.aicore.core.names import SELMODE as SELMODE
from device_model.aicore.core.names import CacheMode as CacheMode
from device_model.aicore.core.names import CoreType as CoreType
from device_model.aicore.core.names import HardEvent as HardEvent
from device_model.aicore.core.names import KernelType as KernelType
from device_model.aicore.core.names import Pipe as Pipe
from device_model.aicore.core.names import QuePosition as QuePosition
from device_model.aicore.core.names import RoundMode as RoundMode
from device_model.aicore.core.names import TPosition as TPosition
from device_model.aicore.core.packed import int4b_t as int4b_t
from device_model.aicore.core.registers import GetCtrlSpr as GetCtrlSpr
from device_model.aicore.core.registers import GetDataBlockSizeInBytes as GetDataBlockSizeInBytes
from device_model.aicore.core.registers import GetSaturationFlag as GetSaturationFlag
from device_model.aicore.core.registers import GetSystemCycle as GetSystemCycle
from device_model.aicore.core.registers import ICachePreLoad as ICachePreLoad
from device_model.aicore.core.registers import SetCtrlSpr as SetCtrlSpr
from device_model.aicore.core.registers import SetNextTaskStart as SetNextTaskStart
from device_model.aicore.core.registers import SetSaturationFlag as SetSaturationFlag
from device_model.aicore.core.registers import WaitPreTaskEnd as WaitPreTaskEnd
from device_model.aicore.core.tensors import DataFormat as DataFormat
from device_model.aicore.core.tensors import GetShapeSize as GetShapeSize
from device_model.aicore.core.tensors import GlobalTensor as GlobalTensor
from device_model.aicore.core.tensors import LocalTensor as LocalTensor
from device_model.aicore.core.tensors import ShapeInfo as ShapeInfo
from device_model.aicore.core.tensors import bfloat16 as bfloat16
from device_model.aicore.core.tensors import float16 as float16
from device_model.aicore.core.tensors import float32 as float32
from device_model.aicore.core.tensors import half as half
from device_model.aicore.core.tensors import int8 as int8
from device_model.aicore.core.tensors import int16 as int16
from device_model.aicore.core.tensors import int32 as int32
from device_model.aicore.core.tensors import int64 as int64
from device_model.aicore.core.tensors import uint8 as uint8
from device_model.aicore.core.tensors import uint16 as uint16
from device_model.aicore.core.tensors import uint32 as uint32
from device_model.aicore.core.tensors import uint64 as uint64
from device_model.aicore.core.traits import MakeTensorTrait as MakeTensorTrait
from device_model.aicore.core.traits import TensorTrait as TensorTrait
from device_model.aicore.core.traits import is_tensorTrait as is_tensorTrait
from device_model.aicore.cube.conv3d import Conv3D as Conv3D
from device_model.aicore.cube.conv3d import ConvFormat as ConvFormat
from device_model.aicore.cube.conv3d import ConvType as ConvType
from device_model.aicore.cube.conv3d_tiling import TConv3DApiTiling as TConv3DApiTiling
from device_model.aicore.cube.conv3d_tiling import conv3d_tiling as conv3d_tiling
from device_model.aicore.cube.copy_out import DataCopyCO12DstParams as DataCopyCO12DstParams
from device_model.aicore.cube.copy_out import SetFixpipeNz2ndFlag as SetFixpipeNz2ndFlag
from device_model.aicore.cube.copy_out import SetFixpipePreQuantFlag as SetFixpipePreQuantFlag
from device_model.aicore.cube.fixpipe import CO2Layout as CO2Layout
from device_model.aicore.cube.fixpipe import Fixpipe as Fixpipe
from device_model.aicore.cube.fixpipe import FixpipeParams as FixpipeParams
from device_model.aicore.cube.fixpipe import QuantMode as QuantMode
from device_model.aicore.cube.fixpipe import SetFixPipeConfig as SetFixPipeConfig
from device_model.aicore.cube.fixpipe import trans_quant_param as trans_quant_param
from device_model.aicore.cube.im2col import LoadData3DParamsV2 as LoadData3DParamsV2
from device_model.aicore.cube.loads import FmatrixMode as FmatrixMode
from device_model.aicore.cube.loads import LoadData as LoadData
from device_model.aicore.cube.loads import LoadData2DParams as LoadData2DParams
from device_model.aicore.cube.loads import LoadData2dTransposeParams as LoadData2dTransposeParams
from device_model.aicore.cube.loads import LoadDataWithTranspose as LoadDataWithTranspose
from device_model.aicore.cube.loads import SetFmatrix as SetFmatrix
from device_model.aicore.cube.loads import SetLoadDataPaddingValue as SetLoadDataPaddingValue
from device_model.aicore.cube.matmul import REGIST_MATMUL_OBJ as REGIST_MATMUL_OBJ
from device_model.aicore.cube.matmul import Matmul as Matmul
from device_model.aicore.cube.matmul_cube import DataCopyOutParams as DataCopyOutParams
from device_model.aicore.cube.matmul_cube import MatmulCallBackFunc as MatmulCallBackFunc
from device_model.aicore.cube.matmul_cube import MatmulPolicy as MatmulPolicy
from device_model.aicore.cube.matmul_operands import CubeFormat as CubeFormat
from device_model.aicore.cube.matmul_operands import MatmulType as MatmulType
from device_model.aicore.cube.matmul_tiling import TCubeTiling as TCubeTiling
from device_model.aicore.cube.matmul_tiling import multi_core_matmul_tiling as multi_core_matmul_tiling
from device_model.aicore.cube.mmad import HF32Mode as HF32Mode
from device_model.aicore.cube.mmad import HF32TransMode as HF32TransMode
from device_model.aicore.cube.mmad import Mmad as Mmad
from device_model.aicore.cube.mmad import MmadParams as MmadParams
from device_model.aicore.cube.mmad import SetHF32Mode as SetHF32Mode
from device_model.aicore.cube.mmad import SetHF32TransMode as SetHF32TransMode
from device_model.aicore.cube.sparse import LoadDataWithSparse as LoadDataWithSparse
from device_model.aicore.cube.sparse import MmadWithSparse as MmadWithSparse
from device_model.aicore.flags.allocator import Hardware as Hardware
from device_model.aicore.flags.allocator import LocalMemAllocator as LocalMemAllocator
from device_model.aicore.flags.bufpool import TBufPool as TBufPool
from device_model.aicore.flags.bypass import DataSyncBarrier as DataSyncBarrier
from device_model.aicore.flags.bypass import MemDsbT as MemDsbT
from device_model.aicore.flags.bypass import ReadGmByPassDCache as ReadGmByPassDCache
from device_model.aicore.flags.bypass import WriteGmByPassDCache as WriteGmByPassDCache
from device_model.aicore.flags.crossing import CrossCoreSetFlag as CrossCoreSetFlag
from device_model.aicore.flags.crossing import CrossCoreWaitFlag as CrossCoreWaitFlag
from device_model.aicore.flags.crossing import SyncAll as SyncAll
from device_model.aicore.flags.groups import GroupBarrier as GroupBarrier
from device_model.aicore.flags.groups import InitDetermineComputeWorkspace as InitDetermineComputeWorkspace
from device_model.aicore.flags.groups import NotifyNextBlock as NotifyNextBlock
from device_model.aicore.flags.groups import PipeMode as PipeMode
from device_model.aicore.flags.groups import WaitPreBlock as WaitPreBlock
from device_model.aicore.flags.pool import ResourcePool as ResourcePool
from device_model.aicore.flags.posting import IBSet as IBSet
from device_model.aicore.flags.posting import IBWait as IBWait
from device_model.aicore.flags.queues import TBuf as TBuf
from device_model.aicore.flags.queues import TQue as TQue
from device_model.aicore.flags.queues import TQueBind as TQueBind
from device_model.aicore.flags.stages import FlagLink as FlagLink
from device_model.aicore.flags.stages import Pipeline as Pipeline
from device_model.aicore.flags.stages import QueueLink as QueueLink
from device_model.aicore.flags.sync import AllocEventID as AllocEventID
from device_model.aicore.flags.sync import FetchEventID as FetchEventID
from device_model.aicore.flags.sync import PipeBarrier as PipeBarrier
from device_model.aicore.flags.sync import ReleaseEventID as ReleaseEventID
from device_model.aicore.flags.sync import SetFlag as SetFlag
from device_model.aicore.flags.sync import WaitFlag as WaitFlag
from device_model.aicore.flags.tpipe import GetTPipePtr as GetTPipePtr
from device_model.aicore.flags.tpipe import PopStackBuffer as PopStackBuffer
from device_model.aicore.flags.tpipe import TPipe as TPipe
from device_model.aicore.functions.activations import FasterGelu as FasterGelu
from device_model.aicore.functions.activations import GeGLU as GeGLU
from device_model.aicore.functions.activations import Gelu as Gelu
from device_model.aicore.functions.activations import ReGlu as ReGlu
from device_model.aicore.functions.activations import Sigmoid as Sigmoid
from device_model.aicore.functions.activations import Silu as Silu
from device_model.aicore.functions.activations import SwiGLU as SwiGLU
from device_model.aicore.functions.activations import Swish as Swish
from device_model.aicore.functions.activations import Tanh as Tanh
from device_model.aicore.functions.cumsum import CumSum as CumSum
from device_model.aicore.functions.cumsum import CumSumInfo as CumSumInfo
from device_model.aicore.functions.filtering import DropOut as DropOut
from device_model.aicore.functions.filtering import DropOutShapeInfo as DropOutShapeInfo
from device_model.aicore.functions.filtering import SelectWithBytesMask as SelectWithBytesMask
from device_model.aicore.functions.filtering import SelectWithBytesMaskShapeInfo as SelectWithBytesMaskShapeInfo
from device_model.aicore.functions.layouts import TransData as TransData
from device_model.aicore.functions.layouts import TransDataConfig as TransDataConfig
from device_model.aicore.functions.layouts import TransDataParams as TransDataParams
from device_model.aicore.functions.means import ClampMax as ClampMax
from device_model.aicore.functions.means import ClampMin as ClampMin
from device_model.aicore.functions.means import Fmod as Fmod
from device_model.aicore.functions.means import ReduceMean as ReduceMean
from device_model.aicore.functions.means import ReducePattern as ReducePattern
from device_model.aicore.functions.norm_gradients import LayerNormGrad as LayerNormGrad
from device_model.aicore.functions.norm_gradients import LayerNormGradBeta as LayerNormGradBeta
from device_model.aicore.functions.norms import DeepNorm as DeepNorm
from device_model.aicore.functions.norms import GroupNorm as GroupNorm
from device_model.aicore.functions.norms import GroupNormShape as GroupNormShape
from device_model.aicore.functions.norms import LayerNorm as LayerNorm
from device_model.aicore.functions.norms import Normalize as Normalize
from device_model.aicore.functions.norms import NormalizePara as NormalizePara
from device_model.aicore.functions.norms import RmsNorm as RmsNorm
from device_model.aicore.functions.padding import Pad as Pad
from device_model.aicore.functions.padding import PadParams as PadParams
from device_model.aicore.functions.padding import UnPad as UnPad
from device_model.aicore.functions.padding import UnPadParams as UnPadParams
from device_model.aicore.functions.powers import Acos as Acos
from device_model.aicore.functions.powers import Acosh as Acosh
from device_model.aicore.functions.powers import Asin as Asin
from device_model.aicore.functions.powers import Asinh as Asinh
from device_model.aicore.functions.powers import Atan as Atan
from device_model.aicore.functions.powers import Atanh as Atanh
from device_model.aicore.functions.powers import Cos as Cos
from device_model.aicore.functions.powers import Cosh as Cosh
from device_model.aicore.functions.powers import Erf as Erf
from device_model.aicore.functions.powers import Erfc as Erfc
from device_model.aicore.functions.powers import Power as Power
from device_model.aicore.functions.powers import Sin as Sin
from device_model.aicore.functions.powers import Sinh as Sinh
from device_model.aicore.functions.powers import Tan as Tan
from device_model.aicore.functions.powers import Xor as Xor
from device_model.aicore.functions.quantised import AscendDequant as AscendDequant
from device_model.aicore.functions.quantised import DeQuantMode as DeQuantMode
from device_model.aicore.functions.quantised import DequantParams as DequantParams
from device_model.aicore.functions.quantising import AntiQuantShapeInfo as AntiQuantShapeInfo
from device_model.aicore.functions.quantising import AscendAntiQuant as AscendAntiQuant
from device_model.aicore.functions.quantising import AscendQuant as AscendQuant
from device_model.aicore.functions.rounding import Ceil as Ceil
from device_model.aicore.functions.rounding import Floor as Floor
from device_model.aicore.functions.rounding import Frac as Frac
from device_model.aicore.functions.rounding import Log as Log
from device_model.aicore.functions.rounding import Log2 as Log2
from device_model.aicore.functions.rounding import Log10 as Log10
from device_model.aicore.functions.rounding import Round as Round
from device_model.aicore.functions.rounding import Sign as Sign
from device_model.aicore.functions.rounding import Trunc as Trunc
from device_model.aicore.functions.rows import Arange as Arange
from device_model.aicore.functions.rows import Broadcast as Broadcast
from device_model.aicore.functions.rows import Fill as Fill
from device_model.aicore.functions.rows import GetReduceRepeatSumSpr as GetReduceRepeatSumSpr
from device_model.aicore.functions.rows import InitConstValue as InitConstValue
from device_model.aicore.functions.rows import InitGlobalMemory as InitGlobalMemory
from device_model.aicore.functions.rows import Sum as Sum
from device_model.aicore.functions.rows import SumParams as SumParams
from device_model.aicore.functions.softmax import SimpleSoftMax as SimpleSoftMax
from device_model.aicore.functions.softmax import SoftMax as SoftMax
from device_model.aicore.functions.softmax import SoftmaxFlashV2 as SoftmaxFlashV2
from device_model.aicore.functions.softmax import SoftmaxGrad as SoftmaxGrad
from device_model.aicore.functions.softmax import SoftMaxShapeInfo as SoftMaxShapeInfo
from device_model.aicore.functions.softmax_results import AdjustSoftMaxRes as AdjustSoftMaxRes
from device_model.aicore.functions.softmax_results import LogSoftMax as LogSoftMax
from device_model.aicore.functions.softmax_results import SoftmaxFlash as SoftmaxFlash
from device_model.aicore.functions.softmax_results import SoftmaxGradFront as SoftmaxGradFront
from device_model.aicore.functions.softmax_shifted import SoftmaxFlashV3 as SoftmaxFlashV3
from device_model.aicore.functions.softmax_shifted import SoftMaxParams as SoftMaxParams
from device_model.aicore.functions.sorting import Concat as Concat
from device_model.aicore.functions.sorting import Extract as Extract
from device_model.aicore.functions.sorting import GetSortLen as GetSortLen
from device_model.aicore.functions.sorting import GetSortOffset as GetSortOffset
from device_model.aicore.functions.sorting import Sort as Sort
from device_model.aicore.functions.topk import TopK as TopK
from device_model.aicore.functions.topk import TopKInfo as TopKInfo
from device_model.aicore.functions.topk import TopKMode as TopKMode
from device_model.aicore.functions.welford import WelfordFinalize as WelfordFinalize
from device_model.aicore.functions.welford import WelfordFinalizePara as WelfordFinalizePara
from device_model.aicore.functions.welford import WelfordUpdate as WelfordUpdate
from device_model.aicore.functions.welford import WelfordUpdateParam as WelfordUpdateParam
from device_model.aicore.hccl.client import GetHcclContext as GetHcclContext
from device_model.aicore.hccl.client import Hccl as Hccl
from device_model.aicore.hccl.client import HcclContext as HcclContext
from device_model.aicore.hccl.names import HCCL_FAILED as HCCL_FAILED
from device_model.aicore.hccl.names import HCCL_SUCCESS as HCCL_SUCCESS
from device_model.aicore.hccl.names import INVALID_HANDLE_ID as INVALID_HANDLE_ID
from device_model.aicore.hccl.names import HcclDataType as HcclDataType
from device_model.aicore.hccl.names import HcclReduceOp as HcclReduceOp
from device_model.aicore.hccl.names import HcclServerType as HcclServerType
from device_model.aicore.moving.atomics import DisableDmaAtomic as DisableDmaAtomic
from device_model.aicore.moving.atomics import SetAtomicAdd as SetAtomicAdd
from device_model.aicore.moving.atomics import SetAtomicMax as SetAtomicMax
from device_model.aicore.moving.atomics import SetAtomicMin as SetAtomicMin
from device_model.aicore.moving.atomics import SetAtomicNone as SetAtomicNone
from device_model.aicore.moving.atomics import SetAtomicType as SetAtomicType
from device_model.aicore.moving.constants import InitConstValueParams as InitConstValueParams
from device_model.aicore.moving.copies import DataCacheCleanAndInvalid as DataCacheCleanAndInvalid
from device_model.aicore.moving.copies import DataCopy as DataCopy
from device_model.aicore.moving.copies import DataCopyExtParams as DataCopyExtParams
from device_model.aicore.moving.copies import DataCopyPad as DataCopyPad
from device_model.aicore.moving.copies import DataCopyPadExtParams as DataCopyPadExtParams
from device_model.aicore.moving.copies import DataCopyPadParams as DataCopyPadParams
from device_model.aicore.moving.copies import DataCopyParams as DataCopyParams
from device_model.aicore.moving.copies import Nd2NzParams as Nd2NzParams
from device_model.aicore.moving.copies import SetPadValue as SetPadValue
from device_model.aicore.runner import Result as Result
from device_model.aicore.shaping.advice import Guideline as Guideline
from device_model.aicore.shaping.advice import advise as advise
from device_model.aicore.shaping.balance import Assignment as Assignment
from device_model.aicore.shaping.balance import Balancer as Balancer
from device_model.aicore.shaping.balance import Moves as Moves
from device_model.aicore.shaping.balance import balance as balance
from device_model.aicore.shaping.balance import block_us as block_us
from device_model.aicore.shaping.selector import RowKind as RowKind
from device_model.aicore.shaping.selector import RowTiling as RowTiling
from device_model.aicore.shaping.selector import select_rows as select_rows
from device_model.aicore.shaping.tiling import BlockTiling as BlockTiling
from device_model.aicore.shaping.tiling import TilingKey as TilingKey
from device_model.aicore.shaping.tiling import block_tiling as block_tiling
from device_model.aicore.vector.elementwise import Abs as Abs
from device_model.aicore.vector.elementwise import Add as Add
from device_model.aicore.vector.elementwise import AddRelu as AddRelu
from device_model.aicore.vector.elementwise import Adds as Adds
from device_model.aicore.vector.elementwise import And as And
from device_model.aicore.vector.elementwise import Axpy as Axpy
from device_model.aicore.vector.elementwise import Cast as Cast
from device_model.aicore.vector.elementwise import Div as Div
from device_model.aicore.vector.elementwise import Exp as Exp
from device_model.aicore.vector.elementwise import FusedMulAdd as FusedMulAdd
from device_model.aicore.vector.elementwise import FusedMulAddRelu as FusedMulAddRelu
from device_model.aicore.vector.elementwise import LeakyRelu as LeakyRelu
from device_model.aicore.vector.elementwise import Ln as Ln
from device_model.aicore.vector.elementwise import Max as Max
from device_model.aicore.vector.elementwise import Maxs as Maxs
from device_model.aicore.vector.elementwise import Min as Min
from device_model.aicore.vector.elementwise import Mins as Mins
from device_model.aicore.vector.elementwise import Mul as Mul
from device_model.aicore.vector.elementwise import MulAddDst as MulAddDst
from device_model.aicore.vector.elementwise import Muls as Muls
from device_model.aicore.vector.elementwise import Not as Not
from device_model.aicore.vector.elementwise import Or as Or
from device_model.aicore.vector.elementwise import Reciprocal as Reciprocal
from device_model.aicore.vector.elementwise import Relu as Relu
from device_model.aicore.vector.elementwise import Rsqrt as Rsqrt
from device_model.aicore.vector.elementwise import SetDeqScale as SetDeqScale
from device_model.aicore.vector.elementwise import ShiftLeft as ShiftLeft
from device_model.aicore.vector.elementwise import ShiftRight as ShiftRight
from device_model.aicore.vector.elementwise import Sqrt as Sqrt
from device_model.aicore.vector.elementwise import Sub as Sub
from device_model.aicore.vector.elementwise import SubRelu as SubRelu
from device_model.aicore.vector.fill import ArithProgression as ArithProgression
from device_model.aicore.vector.fill import Copy as Copy
from device_model.aicore.vector.fill import CopyRepeatParams as CopyRepeatParams
from device_model.aicore.vector.fill import CreateVecIndex as CreateVecIndex
from device_model.aicore.vector.fill import Duplicate as Duplicate
from device_model.aicore.vector.gather import Brcb as Brcb
from device_model.aicore.vector.gather import BrcbRepeatParams as BrcbRepeatParams
from device_model.aicore.vector.gather import Gather as Gather
from device_model.aicore.vector.gather import Gatherb as Gatherb
from device_model.aicore.vector.gather import GatherMask as GatherMask
from device_model.aicore.vector.gather import GatherMaskParams as GatherMaskParams
from device_model.aicore.vector.gather import GatherRepeatParams as GatherRepeatParams
from device_model.aicore.vector.gather import Transpose as Transpose
from device_model.aicore.vector.masks import MASK_PLACEHOLDER as MASK_PLACEHOLDER
from device_model.aicore.vector.masks import BinaryRepeatParams as BinaryRepeatParams
from device_model.aicore.vector.masks import ResetMask as ResetMask
from device_model.aicore.vector.masks import SetMaskCount as SetMaskCount
from device_model.aicore.vector.masks import SetMaskNorm as SetMaskNorm
from device_model.aicore.vector.masks import SetVectorMask as SetVectorMask
from device_model.aicore.vector.masks import UnaryRepeatParams as UnaryRepeatParams
from device_model.aicore.vector.reduce import ReduceMax as ReduceMax
from device_model.aicore.vector.reduce import ReduceMin as ReduceMin
from device_model.aicore.vector.reduce import ReduceSum as ReduceSum
from device_model.aicore.vector.reduce_repeats import BlockReduceMax as BlockReduceMax
from device_model.aicore.vector.reduce_repeats import BlockReduceMin as BlockReduceMin
from device_model.aicore.vector.reduce_repeats import BlockReduceSum as BlockReduceSum
from device_model.aicore.vector.reduce_repeats import PairReduceSum as PairReduceSum
from device_model.aicore.vector.reduce_repeats import ReduceDataBlock as ReduceDataBlock
from device_model.aicore.vector.reduce_repeats import ReduceOrder as ReduceOrder
from device_model.aicore.vector.reduce_repeats import ReducePairElem as ReducePairElem
from device_model.aicore.vector.reduce_repeats import ReduceRepeat as ReduceRepeat
from device_model.aicore.vector.reduce_repeats import ReduceType as ReduceType
from device_model.aicore.vector.reduce_repeats import RepeatReduceSum as RepeatReduceSum
from device_model.aicore.vector.reduce_repeats import WholeReduceMax as WholeReduceMax
from device_model.aicore.vector.reduce_repeats import WholeReduceMin as WholeReduceMin
from device_model.aicore.vector.reduce_repeats import WholeReduceSum as WholeReduceSum
from device_model.aicore.vector.select import Compare as Compare
from device_model.aicore.vector.select import Compares as Compares
from device_model.aicore.vector.select import CompareScalar as CompareScalar
from device_model.aicore.vector.select import Select as Select
from device_model.aicore.vector.sort import GetMrgSortResult as GetMrgSortResult
from device_model.aicore.vector.sort import MrgSort as MrgSort
from device_model.aicore.vector.sort import MrgSort4Info as MrgSort4Info
from device_model.aicore.vector.sort import MrgSortSrcList as MrgSortSrcList
from device_model.aicore.vector.sort import Sort32 as Sort32
from device_model.aicore.vector.transdata import TransDataTo5HD as TransDataTo5HD
from device_model.aicore.vector.transdata import TransDataTo5HDParams as TransDataTo5HDParams
from device_model.kernel.advice import Advice as Advice
from device_model.kernel.findings import Finding as Finding
from device_model.kernel.findings import KernelError as KernelError
from device_model.kernel.findings import KernelHangError as KernelHangError
from device_model.kernel.tune import Trial as Trial
from device_model.kernel.tune import Tuning as Tuning

if not _typing.TYPE_CHECKING:  # type checkers would take it for any name

    def __getattr__(name: str) -> object:
        """Say why a name of Ascend C is not here, or what stands for it."""
        if name in _kernel_names.table():
            raise AttributeError(f"asc has no {name}: {_kernel_names.why_missing(name)} (docs/aicore.md)")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
