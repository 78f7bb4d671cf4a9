"""Core kernels with a mistake that a card gets through: each makes one finding."""

from dataclasses import dataclass

import numpy as np

import acl_py as acl
from acl_py import asc
from tests.acl_py.misuse.run import code_of

DEVICE = "ascend910b1"
COUNT = 64  # elements of float32 in each argument


@dataclass(frozen=True)
class Accused:
    title: str
    code: str
    rule: str
    parts: tuple[str, ...]
    blocks: int = 1


ACCUSED: list[Accused] = []


def accused(title, code, rule, *parts, blocks=1):
    ACCUSED.append(Accused(title, code.strip(), rule, parts, blocks))


def finding_of(case):
    """Launch the kernel of *case*, whose first argument holds ones; return the one finding that it makes.

    An argument `comm` is the communicator of one rank.
    """

    async def main():
        names = {"asc": asc}
        exec(code_of(case.code), names)
        kernel = names["kernel"]
        code = kernel.function.__code__
        named = code.co_varnames[: code.co_argcount]
        arguments = [
            (await acl.CommInitAll(1))[0] if name == "comm" else acl.Array(await acl.Malloc(4 * COUNT), np.float32)
            for name in named
        ]
        ones = np.ones(COUNT, np.float32)
        await acl.Memcpy(arguments[0], ones.nbytes, ones, ones.nbytes, acl.MemcpyKind.HOST_TO_DEVICE)
        await kernel[case.blocks](*arguments)
        await acl.SynchronizeDevice()
        (finding,) = acl.current_simulation().findings
        return finding

    return acl.run(main, device=DEVICE, workers=1)


UB = "asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 0, 64)"

accused(
    "More is computed than was copied in",
    f"""
@asc.kernel
def kernel(x: asc.In, y: asc.Out):
    x_gm, y_gm = [asc.GlobalTensor(asc.float32).SetGlobalBuffer(buffer) for buffer in (x, y)]
    tile = {UB}
    asc.DataCopy(tile, x_gm, 48)
    asc.PipeBarrier(asc.PIPE_ALL)
    asc.Relu(tile, tile, 64)
    asc.PipeBarrier(asc.PIPE_ALL)
    asc.DataCopy(y_gm, tile, 64)
""",
    "UNWRITTEN_READ",
    "Relu (V) at example.py:7 reads UB[192:256]",
)
accused(
    "The first product is added to a result that is not there",
    """
@asc.kernel(kind=asc.KernelType.AIC_ONLY)
def kernel(x: asc.In):
    a, b = [asc.LocalTensor(asc.half, position, 0, 256) for position in (asc.TPosition.A2, asc.TPosition.B2)]
    c = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, 256)
    for _ in range(4):
        asc.Mmad(c, a, b, asc.MmadParams(16, 16, 16, cmatrix_init_val=False))
""",
    "UNWRITTEN_READ",
    "Mmad (M) at example.py:6 reads L0C[0:1024]",
)
accused(
    "A workspace is read before it is written",
    f"""
@asc.kernel
def kernel(x: asc.In, workspace: asc.InOut):
    tile = {UB}
    asc.DataCopy(tile, asc.GlobalTensor(asc.float32).SetGlobalBuffer(workspace), 64)
""",
    "UNWRITTEN_READ",
    "DataCopy (MTE2) at example.py:4 reads GM workspace[0:256]",
)
accused(
    "The tail of an Out argument is left out",
    f"""
@asc.kernel
def kernel(x: asc.In, y: asc.Out):
    x_gm, y_gm = [asc.GlobalTensor(asc.float32).SetGlobalBuffer(buffer) for buffer in (x, y)]
    tile = {UB}
    asc.DataCopy(tile, x_gm, 64)
    asc.PipeBarrier(asc.PIPE_ALL)
    asc.DataCopy(y_gm, tile, 56)
""",
    "UNWRITTEN_OUT",
    "GM y[224:256]",
    "DataCopy (MTE3) at example.py:7",
)
accused(
    "Two flags of one fetched id are set at once",
    """
@asc.kernel
def kernel(x: asc.In):
    first, second = asc.FetchEventID(asc.HardEvent.MTE2_V), asc.FetchEventID(asc.HardEvent.MTE2_V)
    asc.SetFlag(asc.HardEvent.MTE2_V, first)
    asc.SetFlag(asc.HardEvent.MTE2_V, second)
    asc.WaitFlag(asc.HardEvent.MTE2_V, first)
""",
    "FETCHED_TWICE",
    "AllocEventID()",
)
accused(
    "Several cores write one range",
    f"""
@asc.kernel
def kernel(x: asc.In, total: asc.InOut):
    x_gm, total_gm = [asc.GlobalTensor(asc.float32).SetGlobalBuffer(buffer) for buffer in (x, total)]
    tile = {UB}
    asc.DataCopy(tile, x_gm[8 * asc.GetBlockIdx() :], 8)
    asc.PipeBarrier(asc.PIPE_ALL)
    asc.DataCopy(total_gm, tile, 8)
""",
    "WAW",
    "example.py:7",
    "missing SetAtomicAdd",
    blocks=2,
)
accused(
    "The scalar pipe reads what is not there yet",
    f"""
@asc.kernel  # with auto_sync=True the flag is inserted
def kernel(x: asc.In):
    tile = {UB}
    asc.DataCopy(tile, asc.GlobalTensor(asc.float32).SetGlobalBuffer(x), 64)
    tile.GetValue(0)
""",
    "RAW",
    "GetValue (S) at example.py:5",
    "missing MTE2_S",
)
accused(
    "What a collective brings is read before the wait for it",
    f"""
@asc.kernel
def kernel(x: asc.In, y: asc.InOut, comm: object):
    tile, hccl = {UB}, asc.Hccl()
    hccl.Init(comm)
    handle = hccl.AllGather(x, y, 64, asc.HcclDataType.HCCL_DATA_TYPE_FP32, 0, commit=True)
    asc.DataCopy(tile, asc.GlobalTensor(asc.float32).SetGlobalBuffer(y), 64)
    hccl.Wait(handle)
    hccl.Finalize()
""",
    "RAW",
    "DataCopy (MTE2) at example.py:6",
    "missing Hccl.Wait",
)
