"""The vendor's driver: its functions, called through cuda.bindings, and what their codes mean.

A process keeps the driver that it has loaded, a card's or the simulated one of acl_py.compat.cuda.
"""

import ctypes
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from acl_py.errors import AclError, DeviceError, Kind
from acl_py.late_imports import import_late
from device_model.errors import CodedError
from device_model.rules import CUDA

# After these the context is lost, and with it the process (measured: a reset answers 0, and the next retain 700 again).
_STICKY = frozenset((214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 999))
_KINDS = {code.value: kind for kind, code in reversed([*CUDA.codes.items()])}
_REMEDIES: Mapping[Kind, str] = {
    Kind.OUT_OF_MEMORY: "free memory that is no longer used, or ask for less",
    Kind.INVALID_LAUNCH: "launch fewer threads or blocks, or less shared memory",
    Kind.COOPERATIVE_TOO_LARGE: "launch no more blocks than the card holds at the same time",
    Kind.ILLEGAL_ADDRESS: "run the program on the model, with sanitize=True: it names the kernel and the line",
    Kind.INVALID_DEVICE: "`nvidia-smi` lists the devices; CUDA_VISIBLE_DEVICES hides some",
}
# More than a kind tells.
_REMEDIES_OF_CODES = {222: "update the driver, or take a compiler that is not newer than it: it reads no PTX so new"}
NEW_PROCESS = "the context is lost, and the card refuses it to this process: start a new one"
_INSTALL = "pip install 'acl_py[cuda]'"


def bindings() -> ModuleType:
    """Return cuda.bindings.driver.

    Raises:
        ImportError: The package is not installed.
    """
    try:
        return import_late("cuda.bindings.driver")
    except ImportError as error:
        raise ImportError(f"a card needs the package cuda-bindings: {_INSTALL}") from error


def launch_host_func() -> Any:
    """Return the driver's own cuLaunchHostFunc, which takes a stream, the address of a function, and its argument.

    What cuda.bindings puts around a function is freed when that has been called once, and a graph calls it at each
    launch (observed: the second one ends the process).
    """
    call = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1").cuLaunchHostFunc
    call.argtypes = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t
    return call


class Driver:
    """The functions of the driver; `cu` is the module that has them."""

    has_begun = False  # in this process
    lost: DeviceError | None = None  # what has lost the process its card

    def __init__(self, fail: Callable[..., AclError]) -> None:
        self.cu = bindings()
        self.fail = fail

    def __call__(self, function: Callable[..., tuple[Any, ...]], *args: Any) -> Any:
        """Call *function* and return what it gives beside its code: nothing, a value, or a tuple.

        Raises:
            AclError: The driver has refused the call, or work has failed before it.
        """
        try:
            answer = function(*args)
        except RuntimeError as error:  # of cuda.bindings, which looks for a function when it is called first
            what = f"this driver of CUDA has no {function.__name__}()"
            raise self.fail(Kind.NOT_SUPPORTED, what, "update the driver: `nvidia-smi` names its version") from error
        if answer[0]:
            raise self.error(int(answer[0]), function.__name__)
        return answer[1] if len(answer) == 2 else answer[1:]

    def is_done(self, function: Callable[..., tuple[Any, ...]], *args: Any) -> bool:
        """Return the answer of a query: whether it is "done" and not "not yet".

        Raises:
            AclError: The driver has refused the call, or work has failed before it.
        """
        code = function(*args)[0]
        if not code:
            return True
        if code == 600:
            return False
        raise self.error(int(code), function.__name__)

    def error(self, code: int, call: str) -> AclError:
        """Return the error for *code*, which *call* has answered."""
        kind = _KINDS.get(code, Kind.UNKNOWN)
        text = self.cu.cuGetErrorString(self.cu.CUresult(code))[1]
        what = f"{call}() answers {code}: {text.decode() if text else 'a code without a text'}"
        if code in _STICKY:
            Driver.lost = CodedError(kind, f"the card has failed: {what}", NEW_PROCESS, code)
        known = _REMEDIES_OF_CODES.get(code) or _REMEDIES.get(kind)
        remedy = NEW_PROCESS if code in _STICKY else known or f"see {call}() in the manual of the driver"
        return self.fail(kind, what, remedy, code=code)
