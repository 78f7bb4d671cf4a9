"""The language of core kernels, in the manner of Ascend C: names and shapes as there.

    from acl_py import Array, asc

    @asc.kernel
    def double(x: asc.In, y: asc.Out, length: int) -> None:
        x_gm = asc.GlobalTensor(asc.half).SetGlobalBuffer(x)
        ...

    await double[8, stream](Array(x, np.float16), Array(y, np.float16), length)

`kernel` is explained in core_kernels.py, the instructions in device_model/aicore.
"""

from acl_py.core_kernels import CoreKernelFunction as CoreKernelFunction
from acl_py.core_kernels import In as In
from acl_py.core_kernels import InOut as InOut
from acl_py.core_kernels import Out as Out
from acl_py.core_kernels import kernel as kernel
from device_model.aicore.blocks import ASCEND_IS_AIC as ASCEND_IS_AIC
from device_model.aicore.blocks import ASCEND_IS_AIV as ASCEND_IS_AIV
from device_model.aicore.blocks import GetBlockIdx as GetBlockIdx
from device_model.aicore.blocks import GetBlockNum as GetBlockNum
from device_model.aicore.blocks import GetSubBlockIdx as GetSubBlockIdx
from device_model.aicore.blocks import GetTaskRatio as GetTaskRatio
from device_model.aicore.copies import DataCacheCleanAndInvalid as DataCacheCleanAndInvalid
from device_model.aicore.copies import DataCopy as DataCopy
from device_model.aicore.copies import DataCopyExtParams as DataCopyExtParams
from device_model.aicore.copies import DataCopyPad as DataCopyPad
from device_model.aicore.copies import DataCopyPadExtParams as DataCopyPadExtParams
from device_model.aicore.copies import DataCopyParams as DataCopyParams
from device_model.aicore.copies import Nd2NzParams as Nd2NzParams
from device_model.aicore.crossing import CrossCoreSetFlag as CrossCoreSetFlag
from device_model.aicore.crossing import CrossCoreWaitFlag as CrossCoreWaitFlag
from device_model.aicore.crossing import SyncAll as SyncAll
from device_model.aicore.cube import CO2Layout as CO2Layout
from device_model.aicore.cube import Fixpipe as Fixpipe
from device_model.aicore.cube import FixpipeParams as FixpipeParams
from device_model.aicore.cube import LoadData as LoadData
from device_model.aicore.cube import LoadData2DParams as LoadData2DParams
from device_model.aicore.cube import LoadData2dTransposeParams as LoadData2dTransposeParams
from device_model.aicore.cube import LoadDataWithTranspose as LoadDataWithTranspose
from device_model.aicore.cube import Mmad as Mmad
from device_model.aicore.cube import MmadParams as MmadParams
from device_model.aicore.cube import QuantMode as QuantMode
from device_model.aicore.debug import DumpTensor as DumpTensor
from device_model.aicore.debug import assert_ as assert_
from device_model.aicore.debug import printf as printf
from device_model.aicore.findings import Finding as Finding
from device_model.aicore.findings import KernelAssertionError as KernelAssertionError
from device_model.aicore.findings import KernelError as KernelError
from device_model.aicore.findings import KernelHangError as KernelHangError
from device_model.aicore.findings import Rule as Rule
from device_model.aicore.masks import BinaryRepeatParams as BinaryRepeatParams
from device_model.aicore.masks import UnaryRepeatParams as UnaryRepeatParams
from device_model.aicore.matmul import REGIST_MATMUL_OBJ as REGIST_MATMUL_OBJ
from device_model.aicore.matmul import CubeFormat as CubeFormat
from device_model.aicore.matmul import Matmul as Matmul
from device_model.aicore.matmul import MatmulType as MatmulType
from device_model.aicore.matmul_tiling import TCubeTiling as TCubeTiling
from device_model.aicore.matmul_tiling import multi_core_matmul_tiling as multi_core_matmul_tiling
from device_model.aicore.names import CMPMODE as CMPMODE
from device_model.aicore.names import SELMODE as SELMODE
from device_model.aicore.names import CoreType as CoreType
from device_model.aicore.names import HardEvent as HardEvent
from device_model.aicore.names import KernelType as KernelType
from device_model.aicore.names import Pipe as Pipe
from device_model.aicore.names import RoundMode as RoundMode
from device_model.aicore.names import TPosition as TPosition
from device_model.aicore.queues import GetTPipePtr as GetTPipePtr
from device_model.aicore.queues import TBuf as TBuf
from device_model.aicore.queues import TPipe as TPipe
from device_model.aicore.queues import TQue as TQue
from device_model.aicore.queues import TQueBind as TQueBind
from device_model.aicore.runner import Result as Result
from device_model.aicore.sync import AllocEventID as AllocEventID
from device_model.aicore.sync import FetchEventID as FetchEventID
from device_model.aicore.sync import PipeBarrier as PipeBarrier
from device_model.aicore.sync import ReleaseEventID as ReleaseEventID
from device_model.aicore.sync import SetFlag as SetFlag
from device_model.aicore.sync import WaitFlag as WaitFlag
from device_model.aicore.tensors import GlobalTensor as GlobalTensor
from device_model.aicore.tensors import LocalTensor as LocalTensor
from device_model.aicore.tensors import bfloat16 as bfloat16
from device_model.aicore.tensors import float32 as float32
from device_model.aicore.tensors import half as half
from device_model.aicore.vector import Abs as Abs
from device_model.aicore.vector import Add as Add
from device_model.aicore.vector import Adds as Adds
from device_model.aicore.vector import And as And
from device_model.aicore.vector import Axpy as Axpy
from device_model.aicore.vector import Cast as Cast
from device_model.aicore.vector import Div as Div
from device_model.aicore.vector import Duplicate as Duplicate
from device_model.aicore.vector import Exp as Exp
from device_model.aicore.vector import FusedMulAdd as FusedMulAdd
from device_model.aicore.vector import FusedMulAddRelu as FusedMulAddRelu
from device_model.aicore.vector import LeakyRelu as LeakyRelu
from device_model.aicore.vector import Ln as Ln
from device_model.aicore.vector import Max as Max
from device_model.aicore.vector import Maxs as Maxs
from device_model.aicore.vector import Min as Min
from device_model.aicore.vector import Mins as Mins
from device_model.aicore.vector import Mul as Mul
from device_model.aicore.vector import MulAddDst as MulAddDst
from device_model.aicore.vector import Muls as Muls
from device_model.aicore.vector import Not as Not
from device_model.aicore.vector import Or as Or
from device_model.aicore.vector import Reciprocal as Reciprocal
from device_model.aicore.vector import Relu as Relu
from device_model.aicore.vector import Rsqrt as Rsqrt
from device_model.aicore.vector import Sqrt as Sqrt
from device_model.aicore.vector import Sub as Sub
from device_model.aicore.vector_gather import Brcb as Brcb
from device_model.aicore.vector_gather import BrcbRepeatParams as BrcbRepeatParams
from device_model.aicore.vector_gather import Gather as Gather
from device_model.aicore.vector_gather import GatherMask as GatherMask
from device_model.aicore.vector_gather import GatherMaskParams as GatherMaskParams
from device_model.aicore.vector_gather import Transpose as Transpose
from device_model.aicore.vector_reduce import BlockReduceMax as BlockReduceMax
from device_model.aicore.vector_reduce import BlockReduceMin as BlockReduceMin
from device_model.aicore.vector_reduce import BlockReduceSum as BlockReduceSum
from device_model.aicore.vector_reduce import PairReduceSum as PairReduceSum
from device_model.aicore.vector_reduce import ReduceMax as ReduceMax
from device_model.aicore.vector_reduce import ReduceMin as ReduceMin
from device_model.aicore.vector_reduce import ReduceOrder as ReduceOrder
from device_model.aicore.vector_reduce import ReduceSum as ReduceSum
from device_model.aicore.vector_reduce import RepeatReduceSum as RepeatReduceSum
from device_model.aicore.vector_reduce import WholeReduceMax as WholeReduceMax
from device_model.aicore.vector_reduce import WholeReduceMin as WholeReduceMin
from device_model.aicore.vector_reduce import WholeReduceSum as WholeReduceSum
from device_model.aicore.vector_select import Compare as Compare
from device_model.aicore.vector_select import Compares as Compares
from device_model.aicore.vector_select import CompareScalar as CompareScalar
from device_model.aicore.vector_select import Select as Select
from device_model.aicore.vector_sort import MrgSort as MrgSort
from device_model.aicore.vector_sort import MrgSort4Info as MrgSort4Info
from device_model.aicore.vector_sort import Sort32 as Sort32
