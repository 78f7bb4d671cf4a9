"""The language of thread-block kernels: CUDA's blocks of threads, in Python.

    from acl_py import Array, cta

    @cta.kernel(threads=128)
    def double(x: cta.In, y: cta.Out) -> None:
        t = cta.tid
        y[t] = x[t] * 2

    await double[1, stream](Array(x, np.float32), Array(y, np.float32))

A kernel runs once for each block. `cta.tid`, `cta.warp` and `cta.lane` are arrays over the threads of the block, and so
is every register: one operation of NumPy is one instruction of all warps. `cta.block` and `cta.grid` are (x, y, z), and
`cta.threads` is a number. A branch is `with cta.where(condition):`.

Results are computed when an instruction is issued, and times are worked out afterwards. A forgotten wait or barrier
therefore does not change the results, and is reported as a finding, with both lines and the missing call. A mistake
that would stop a card raises KernelError, with the thread and the line.

Each name is documented where it is defined, in `acl_py.verbs.block_kernels` and `device_model.cta`.
"""

from typing import Any as _Any

from acl_py.verbs.block_kernels import BlockKernelFunction as BlockKernelFunction
from acl_py.verbs.block_kernels import In as In
from acl_py.verbs.block_kernels import InOut as InOut
from acl_py.verbs.block_kernels import Out as Out
from acl_py.verbs.block_kernels import kernel as kernel
from acl_py.verbs.block_kernels import tune as tune
from device_model.cta.advice import Guideline as Guideline
from device_model.cta.advice import advise as advise
from device_model.cta.checks.rules import Rule as Rule
from device_model.cta.language import indices as _indices
from device_model.cta.language.atomics import atomic_add as atomic_add
from device_model.cta.language.atomics import atomic_cas as atomic_cas
from device_model.cta.language.atomics import atomic_exch as atomic_exch
from device_model.cta.language.atomics import atomic_max as atomic_max
from device_model.cta.language.atomics import atomic_min as atomic_min
from device_model.cta.language.barriers import Mbarrier as Mbarrier
from device_model.cta.language.barriers import bar_arrive as bar_arrive
from device_model.cta.language.barriers import bar_sync as bar_sync
from device_model.cta.language.barriers import cp_async_mbarrier_arrive as cp_async_mbarrier_arrive
from device_model.cta.language.barriers import mbarrier as mbarrier
from device_model.cta.language.barriers import syncthreads as syncthreads
from device_model.cta.language.barriers import syncthreads_and as syncthreads_and
from device_model.cta.language.barriers import syncthreads_count as syncthreads_count
from device_model.cta.language.barriers import syncthreads_or as syncthreads_or
from device_model.cta.language.barriers import syncwarp as syncwarp
from device_model.cta.language.copies import commit_group as commit_group
from device_model.cta.language.copies import cp_async as cp_async
from device_model.cta.language.copies import memcpy_async as memcpy_async
from device_model.cta.language.copies import wait_all as wait_all
from device_model.cta.language.copies import wait_group as wait_group
from device_model.cta.language.indices import where as where
from device_model.cta.language.links import BarrierLink as BarrierLink
from device_model.cta.language.links import GroupLink as GroupLink
from device_model.cta.language.pipeline import Pipeline as Pipeline
from device_model.cta.language.pipeline import Scope as Scope
from device_model.cta.language.pipeline import Stages as Stages
from device_model.cta.language.pipeline import pipeline as pipeline
from device_model.cta.language.printing import printf as printf
from device_model.cta.language.products import ldmatrix as ldmatrix
from device_model.cta.language.products import mma as mma
from device_model.cta.language.products import tile_mma as tile_mma
from device_model.cta.language.registers import Register as Register
from device_model.cta.language.registers import fma as fma
from device_model.cta.language.registers import full as full
from device_model.cta.language.registers import select as select
from device_model.cta.language.registers import zeros as zeros
from device_model.cta.language.roles import roles as roles
from device_model.cta.language.tensors import Tensor as Tensor
from device_model.cta.language.tensors import shared as shared
from device_model.cta.language.warps import all_sync as all_sync
from device_model.cta.language.warps import any_sync as any_sync
from device_model.cta.language.warps import ballot as ballot
from device_model.cta.language.warps import shfl as shfl
from device_model.cta.language.warps import shfl_down as shfl_down
from device_model.cta.language.warps import shfl_up as shfl_up
from device_model.cta.language.warps import shfl_xor as shfl_xor
from device_model.cta.report import LaunchReport as LaunchReport
from device_model.cta.runner import Result as Result
from device_model.kernel.advice import Advice as Advice
from device_model.kernel.findings import Finding as Finding
from device_model.kernel.findings import KernelError as KernelError
from device_model.kernel.findings import KernelHangError as KernelHangError

_PLACES = ("tid", "warp", "lane", "block", "grid", "threads")
_CUDA = {
    "threadIdx": "tid", "blockIdx": "block", "blockDim": "threads", "gridDim": "grid", "atomicAdd": "atomic_add",
    "atomicCAS": "atomic_cas",
}  # fmt: skip


def __getattr__(name: str) -> _Any:
    """Return what differs from block to block: `cta.tid` is an attribute, as threadIdx is."""
    if name in _PLACES:
        return getattr(_indices, name)()
    hint = f"; CUDA's {name} is cta.{_CUDA[name]}" if name in _CUDA else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
