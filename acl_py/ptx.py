"""Kernels in PTX, the text that compilers for CUDA write.

    from acl_py import ptx

    module = await ptx.load(text)
    await module["add"][4096, 256, stream](x, y, z, n)

`load` reads PTX of any compiler. `compile` makes it of CUDA C with NVRTC, if the wheels of the extra "cuda" are
installed; no GPU is needed. What runs, what is refused and how times are made is in docs/ptx.md.
"""

from acl_py.verbs.ptx_compiler import CompileError as CompileError
from acl_py.verbs.ptx_compiler import compile as compile  # noqa: A004 - ptx.compile is the name
from acl_py.verbs.ptx_kernels import PtxKernel as PtxKernel
from acl_py.verbs.ptx_modules import PtxModule as PtxModule
from acl_py.verbs.ptx_modules import load as load
from device_model.kernel.advice import Advice as Advice
from device_model.kernel.findings import Finding as Finding
from device_model.kernel.findings import KernelError as KernelError
from device_model.kernel.findings import KernelHangError as KernelHangError
from device_model.ptx.advice import Guideline as Guideline
from device_model.ptx.advice import advise as advise
from device_model.ptx.results import Result as Result
from device_model.ptx.text.errors import PtxError as PtxError
from device_model.ptx.text.errors import Refusal as Refusal
