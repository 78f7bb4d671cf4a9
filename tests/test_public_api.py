"""The public names: what is exported is documented, verbs are coroutines, aliases are aliases."""

import inspect
import pydoc

import pytest

import acl_py
from acl_py import asc, cta

VERBS = [name for name, thing in vars(acl_py.public).items() if inspect.iscoroutinefunction(thing)]
EXPECTED = """
    Init Finalize SetDevice GetDevice GetDeviceCount GetRunMode ResetDevice SynchronizeDevice
    DeviceCanAccessPeer DeviceEnablePeerAccess DeviceDisablePeerAccess DevicePeerAccessStatus
    CreateContext DestroyContext SetCurrentContext GetCurrentContext
    CreateStream DestroyStream SynchronizeStream StreamQuery StreamWaitEvent
    CreateEvent DestroyEvent RecordEvent QueryEventStatus SynchronizeEvent EventElapsedTime
    EventRecord EventQuery EventSynchronize
    Malloc Free MallocHost FreeHost HostRegister HostUnregister MallocAsync FreeAsync GetMemInfo
    MallocManaged MemPrefetchAsync MemAdvise StreamAttachMemAsync PointerGetAttributes MemRangeGetAttribute
    Memcpy MemcpyAsync Memset MemsetAsync Memcpy2d Memcpy2dAsync MemcpyBatchAsync
    SynchronizeStreamWithTimeout SynchronizeEventWithTimeout SynchronizeDeviceWithTimeout
    FreeWithDevSync FreeHostWithDevSync GetEventAvailNum
    ResetDeviceForce CreateStreamWithConfig DestroyStreamForce GetStreamAvailableNum StreamAbort
    CreateEventWithFlag CreateEventExWithFlag ResetEvent QueryEventWaitStatus GetEventTimestamp
    MemcpyAsyncWithCondition SubscribeReport UnsubscribeReport LaunchCallback ProcessReport
    CreateNotify DestroyNotify RecordNotify WaitAndResetNotify ResetNotifies ValueWrite ValueWait
    DeviceGetStreamPriorityRange StreamGetPriority SetMemPoolThreshold
    SetStreamFailureMode SetOpWaitTimeOut SetOpExecuteTimeOut SetExceptionInfoCallback
    BeginCapture BeginCaptureToGraph EndCapture IsCapturing CaptureInfo ThreadExchangeStreamCaptureMode
    GraphCreate GraphAddEmptyNode GraphAddChildGraphNode GraphAddIfNode GraphClone GraphDestroy GraphInstantiate
    GraphUpload GraphLaunch GraphExecUpdate GraphExecDestroy UpdateCaptureDependencies
    GraphAddNode GraphAddConditionalNode GraphAddDependencies GraphRemoveDependencies GraphDestroyNode
    GraphNodeSetWork GraphExecNodeSetWork GraphNodeSetEnabled
    CaptureTaskGrpBegin CaptureTaskGrpEnd CaptureTaskUpdateBegin CaptureTaskUpdateEnd
    LaunchKernel LaunchHostFunc HostWork Sleep HostThread GetLastError PeekAtLastError
    GetRootInfo CommInitRootInfo CommInitAll CommSplit CommDestroy CommAbort GetRankSize GetRankId GetCommAsyncError
    GroupStart GroupEnd AllReduce Reduce Broadcast AllGather ReduceScatter Scatter AlltoAll AlltoAllV AlltoAllVC
    Barrier Send Recv BatchSendRecv
""".split()


def test_every_verb_is_there_and_no_other():
    assert sorted(VERBS) == sorted(EXPECTED), "a new verb? Add it to EXPECTED in tests/test_public_api.py"


def test_the_other_spellings_are_the_same_functions():
    assert acl_py.EventRecord is acl_py.RecordEvent
    assert acl_py.EventQuery is acl_py.QueryEventStatus
    assert acl_py.EventSynchronize is acl_py.SynchronizeEvent


@pytest.mark.parametrize("module", [acl_py, asc])
def test_help_says_what_the_annotation_of_an_argument_is(module):
    for name, use in (("In", "is read."), ("Out", "is fully overwritten."), ("InOut", "is read and written.")):
        text = pydoc.plain(pydoc.render_doc(getattr(module, name)))
        assert f"Annotates a parameter of a kernel: memory that {use}" in text
        assert "def add(x: " in text


def test_copy_kinds_have_aclrts_values():
    assert {kind.name: kind.value for kind in acl_py.MemcpyKind} == {
        "HOST_TO_HOST": 0,
        "HOST_TO_DEVICE": 1,
        "DEVICE_TO_HOST": 2,
        "DEVICE_TO_DEVICE": 3,
        "DEFAULT": 4,
        "HOST_TO_BUF_TO_DEVICE": 5,
        "INNER_DEVICE_TO_DEVICE": 6,
        "INTER_DEVICE_TO_DEVICE": 7,
    }


@pytest.mark.parametrize(
    ("verb", "parameters"),
    [
        ("MemcpyAsync", "dst dest_max src count kind stream"),
        ("Memcpy", "dst dest_max src count kind"),
        ("MemsetAsync", "dst dest_max value count stream unit"),
        ("Memset", "dst dest_max value count unit"),
        ("Memcpy2dAsync", "dst dst_pitch src src_pitch width height kind stream"),
        ("StreamWaitEvent", "stream event external"),
        ("RecordEvent", "event stream external"),
        ("EventElapsedTime", "start end"),
        ("LaunchKernel", "kernel block_dim args stream"),
    ],
)
def test_arguments_come_in_aclrts_order(verb, parameters):
    assert " ".join(inspect.signature(getattr(acl_py, verb)).parameters) == parameters


# The language of core kernels: the names that Ascend C and its Python binding have for what is modelled.
LANGUAGE = """
    kernel KernelType In Out InOut GetBlockIdx GetBlockNum GetSubBlockIdx GetTaskRatio GetSubBlockNum
    GlobalTensor LocalTensor TPosition QuePosition CacheMode half float32 bfloat16
    int8 int16 int32 int64 uint8 uint16 uint32 uint64 GetTaskRation ASCEND_IS_AIC ASCEND_IS_AIV
    GM_ADDR float16 EVENT_ID0 EVENT_ID1 EVENT_ID2 EVENT_ID3 EVENT_ID4 EVENT_ID5 EVENT_ID6 EVENT_ID7
    PIPE_S PIPE_V PIPE_M PIPE_MTE1 PIPE_MTE2 PIPE_MTE3 PIPE_FIX PIPE_ALL
    TPipe TQue TQueBind TBuf HardEvent Pipe SetFlag WaitFlag AllocEventID FetchEventID ReleaseEventID PipeBarrier
    SyncAll CrossCoreSetFlag CrossCoreWaitFlag
    DataCopy DataCopyParams DataCopyPad DataCopyExtParams DataCopyPadExtParams DataCopyPadParams Nd2NzParams
    DataCacheCleanAndInvalid SetAtomicAdd SetAtomicMax SetAtomicMin SetAtomicNone DisableDmaAtomic
    Add Sub Mul Div Max Min And Or Adds Muls Maxs Mins Axpy MulAddDst FusedMulAdd
    Abs Exp Ln Sqrt Rsqrt Reciprocal Relu LeakyRelu Not Cast RoundMode Duplicate
    AddRelu SubRelu ShiftLeft ShiftRight Copy CopyRepeatParams CreateVecIndex ArithProgression MrgSortSrcList
    Compare Compares CMPMODE Select SELMODE Gather GatherMask Transpose Brcb Sort32 MrgSort
    ReduceSum ReduceMax ReduceMin WholeReduceSum WholeReduceMax WholeReduceMin BlockReduceSum BlockReduceMax
    BlockReduceMin PairReduceSum UnaryRepeatParams BinaryRepeatParams
    MASK_PLACEHOLDER SetMaskCount SetMaskNorm SetVectorMask ResetMask
    LoadData LoadData2DParams LoadData3DParamsV2 Mmad MmadParams Fixpipe FixpipeParams SetFixPipeConfig
    trans_quant_param Matmul MatmulType REGIST_MATMUL_OBJ TCubeTiling
    TensorTrait MakeTensorTrait is_tensorTrait
    TransData TransDataConfig TransDataParams SoftmaxFlashV3 SoftMaxParams Normalize NormalizePara
    MatmulPolicy Conv3D ConvType ConvFormat conv3d_tiling TConv3DApiTiling InitConstValue InitConstValueParams
    printf DumpTensor assert_ Finding Rule KernelError KernelHangError KernelAssertionError
    BlockTiling block_tiling TilingKey RowKind RowTiling select_rows Assignment balance block_us ResourcePool
    SetDeqScale Ceil Floor Round Trunc Frac Log Log2 Log10 Sign Sigmoid Tanh Swish Silu SwiGLU Gelu FasterGelu ReGlu
    SelectWithBytesMask SelectWithBytesMaskShapeInfo InitGlobalMemory TopK TopKInfo TopKMode CumSum CumSumInfo Arange
    Trap PopStackBuffer SetAtomicType SetPadValue GetMrgSortResult
    GeGLU Power Sinh Cosh Atanh Acosh Sin Cos Erf Erfc Xor TransDataTo5HD TransDataTo5HDParams
    Broadcast Fill Sum SumParams Concat Extract GetSortLen GetSortOffset Sort Hardware LocalMemAllocator
    SimpleSoftMax SoftMax SoftmaxFlashV2 SoftmaxGrad SoftMaxShapeInfo LayerNorm RmsNorm
    DataCopyOutParams MatmulCallBackFunc Tan Atan Asin Acos Asinh
    ReduceRepeat ReduceDataBlock ReduceType AscendDequant DequantParams DeQuantMode
    Pipeline QueueLink FlagLink Advice Guideline advise Trial Tuning tune reset_l2
""".split()


def test_the_language_of_core_kernels_has_names_with_docstrings():
    things = {name: getattr(asc, name) for name in LANGUAGE}
    assert [name for name, thing in things.items() if callable(thing) and not inspect.getdoc(thing)] == []


def test_a_name_of_the_language_means_one_thing():
    """Each is defined in one module of the device model, and made here only what launches."""
    here = {name for name, thing in vars(asc).items() if getattr(thing, "__module__", "").startswith("acl_py")}
    here.discard("__getattr__")  # says why a name is not there
    assert here == {"CoreKernelFunction", "kernel", "reset_l2", "tune"}


def test_each_name_of_the_language_of_thread_blocks_has_a_docstring():
    things = {name: thing for name, thing in vars(cta).items() if not name.startswith("_")}
    assert [name for name, thing in things.items() if not inspect.getdoc(thing)] == []
