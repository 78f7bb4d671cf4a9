"""What `import aclruntime` finds where `import acl` finds the simulated module: sessions of model files."""

# ruff: noqa: E402 - what is imported behind take_over() must find its options

from acl_py.compat.acl.processes import take_over

take_over()  # in a process that a script has started, the options are those of the script's run

from acl_py.compat.acl.inference.sessions import InferenceSession as InferenceSession
from acl_py.compat.acl.inference.sessions import session_options as session_options
from acl_py.compat.acl.inference.sessions import sumary as sumary
from acl_py.compat.acl.inference.sessions import tensor_desc as tensor_desc
from acl_py.compat.acl.inference.tensors import BaseTensor as BaseTensor
from acl_py.compat.acl.inference.tensors import MemorySummary as MemorySummary
from acl_py.compat.acl.inference.tensors import Tensor as Tensor
from acl_py.compat.acl.inference.tensors import dtype as dtype
from acl_py.compat.acl.inference.tensors import type_ as type_

type = type_  # noqa: A001 - the vendor's name


def model(modelPath: str, deviceId: int = 0, options: session_options | None = None) -> InferenceSession:  # noqa: N803
    """Return a session for a model file."""
    return InferenceSession(modelPath, deviceId, options)
