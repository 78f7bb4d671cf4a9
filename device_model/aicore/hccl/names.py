"""The names of a kernel's collectives: types of elements, reductions, servers."""

from enum import IntEnum
from types import MappingProxyType
from typing import Any

import numpy as np

from device_model.aicore.core.tensors import bfloat16

HCCL_SUCCESS = 0
HCCL_FAILED = -1
INVALID_HANDLE_ID = -1


class HcclServerType(IntEnum):
    """Who carries out the tasks (Ascend C: HcclServerType). Atlas A2 and A3 have the AI CPU only."""

    HCCL_SERVER_TYPE_AICPU = 0
    HCCL_SERVER_TYPE_CCU = 1


class HcclDataType(IntEnum):
    """The type of the elements of a task (Ascend C: HcclDataType)."""

    HCCL_DATA_TYPE_INT8 = 0
    HCCL_DATA_TYPE_INT16 = 1
    HCCL_DATA_TYPE_INT32 = 2
    HCCL_DATA_TYPE_FP16 = 3
    HCCL_DATA_TYPE_FP32 = 4
    HCCL_DATA_TYPE_INT64 = 5
    HCCL_DATA_TYPE_UINT64 = 6
    HCCL_DATA_TYPE_UINT8 = 7
    HCCL_DATA_TYPE_UINT16 = 8
    HCCL_DATA_TYPE_UINT32 = 9
    HCCL_DATA_TYPE_FP64 = 10
    HCCL_DATA_TYPE_BFP16 = 11


class HcclReduceOp(IntEnum):
    """How a task combines elements (Ascend C: HcclReduceOp)."""

    HCCL_REDUCE_SUM = 0
    HCCL_REDUCE_PROD = 1
    HCCL_REDUCE_MAX = 2
    HCCL_REDUCE_MIN = 3


_T = HcclDataType
DTYPE_OF: MappingProxyType[HcclDataType, np.dtype[Any]] = MappingProxyType(
    {
        _T.HCCL_DATA_TYPE_INT8: np.dtype(np.int8),
        _T.HCCL_DATA_TYPE_INT16: np.dtype(np.int16),
        _T.HCCL_DATA_TYPE_INT32: np.dtype(np.int32),
        _T.HCCL_DATA_TYPE_FP16: np.dtype(np.float16),
        _T.HCCL_DATA_TYPE_FP32: np.dtype(np.float32),
        _T.HCCL_DATA_TYPE_INT64: np.dtype(np.int64),
        _T.HCCL_DATA_TYPE_UINT64: np.dtype(np.uint64),
        _T.HCCL_DATA_TYPE_UINT8: np.dtype(np.uint8),
        _T.HCCL_DATA_TYPE_UINT16: np.dtype(np.uint16),
        _T.HCCL_DATA_TYPE_UINT32: np.dtype(np.uint32),
        _T.HCCL_DATA_TYPE_FP64: np.dtype(np.float64),
        _T.HCCL_DATA_TYPE_BFP16: bfloat16,
    }
)
# The types that a card adds and compares; others it only moves.
REDUCED = (
    _T.HCCL_DATA_TYPE_FP32,
    _T.HCCL_DATA_TYPE_FP16,
    _T.HCCL_DATA_TYPE_INT8,
    _T.HCCL_DATA_TYPE_INT16,
    _T.HCCL_DATA_TYPE_INT32,
    _T.HCCL_DATA_TYPE_BFP16,
)
REDUCTIONS = (HcclReduceOp.HCCL_REDUCE_SUM, HcclReduceOp.HCCL_REDUCE_MAX, HcclReduceOp.HCCL_REDUCE_MIN)
