"""The driver of CUDA: its functions, called through cuda.bindings, and what their codes mean.

A process keeps the driver that it has loaded, a card's or the simulated one of acl_py.compat.cuda.
"""

import ctypes
import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from acl_py.card.driver import Standing
from acl_py.errors import AclError, Kind
from acl_py.late_imports import import_late
from device_model.errors import CodedError
from device_model.memory import Space
from device_model.rules import CUDA
from device_model.signals import Compare
from device_model.work import Label

if TYPE_CHECKING:
    from acl_py.card.streams import CardStream
    from device_model.memory import Allocation
    from device_model.ops import Op

LEGACY, PER_THREAD = 1, 2  # handles of the default streams
_NO_TIMING = 2  # a flag of cuEventCreate
_NON_BLOCKING = 1  # a flag of cuStreamCreate
_ON_HOST = (Space.PINNED, Space.PAGEABLE)
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


class CudaDriver:
    """The functions of the driver; `cu` is the module that has them."""

    standing = Standing()
    new_process = NEW_PROCESS

    def __init__(self, fail: Callable[..., AclError]) -> None:
        self.cu = cu = bindings()
        self.fail = fail
        self._fills = {1: cu.cuMemsetD8Async, 2: cu.cuMemsetD16Async, 4: cu.cuMemsetD32Async}

    def __call__(self, function: Callable[..., tuple[Any, ...]], *args: Any) -> Any:
        """Call *function* and return what it gives beside its code: nothing, a value, or a tuple.

        Raises:
            AclError: The driver has refused the call, or work has failed before it.
        """
        try:
            answer = function(*args)
        except RuntimeError as error:  # of cuda.bindings, which looks for a function when it is called first
            if not str(error).endswith("not found"):
                raise
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
            self.standing.lost = CodedError(kind, f"the card has failed: {what}", NEW_PROCESS, code)
        known = _REMEDIES_OF_CODES.get(code) or _REMEDIES.get(kind)
        remedy = NEW_PROCESS if code in _STICKY else known or f"see {call}() in the manual of the driver"
        return self.fail(kind, what, remedy, code=code)

    # --- what a run needs of every vendor

    def make_current(self, context: Any) -> None:
        """Let calls of this thread be about the card of *context*."""
        self(self.cu.cuCtxSetCurrent, context)

    def synchronize(self) -> None:
        """Wait for all work of the current card, without an error: for a thread of its own."""
        self.cu.cuCtxSynchronize()

    def memory_info(self) -> tuple[int, int]:
        """Return the free bytes and all bytes of the current card."""
        free, total = self(self.cu.cuMemGetInfo)
        return int(free), int(total)

    def create_stream(self, *, nonblocking: bool, priority: int) -> Any:
        """Return a new stream; a *nonblocking* one is outside the default-stream rule."""
        return self(self.cu.cuStreamCreateWithPriority, _NON_BLOCKING if nonblocking else 0, priority)

    def destroy_stream(self, stream: Any) -> None:
        """Destroy a stream; its work completes."""
        self(self.cu.cuStreamDestroy, stream)

    def is_idle(self, stream: Any) -> bool:
        """Return whether all work of *stream* is done."""
        return self.is_done(self.cu.cuStreamQuery, stream)

    def create_event(self, *, timing: bool) -> Any:
        """Return a new event of the current card."""
        return self(self.cu.cuEventCreate, 0 if timing else _NO_TIMING)

    def destroy_event(self, event: Any) -> None:
        """Destroy an event; a record that is pending counts."""
        self(self.cu.cuEventDestroy, event)

    def record(self, event: Any, stream: Any) -> None:
        """Let *event* stand for all work of *stream* so far."""
        code = self.cu.cuEventRecord(event, stream)[0]
        if code:
            raise self.error(int(code), "cuEventRecord")

    def is_reached(self, event: Any) -> bool:
        """Return whether the work that *event* stands for is done."""
        return self.is_done(self.cu.cuEventQuery, event)

    def synchronize_event(self, event: Any) -> None:
        """Wait for the work that *event* stands for."""
        self(self.cu.cuEventSynchronize, event)

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """Return the milliseconds between two events that are reached."""
        return float(self(self.cu.cuEventElapsedTime, start, end))

    def wait(self, stream: Any, event: Any) -> None:
        """Let later work of *stream* wait for what *event* stands for."""
        code = self.cu.cuStreamWaitEvent(stream, event, 0)[0]
        if code:
            raise self.error(int(code), "cuStreamWaitEvent")

    def allocate(self, nbytes: int) -> int:
        """Return the address of new memory on the current card."""
        return int(self(self.cu.cuMemAlloc, nbytes))

    def free(self, address: int) -> None:
        """Free memory of a card."""
        self(self.cu.cuMemFree, address)

    def allocate_host(self, nbytes: int) -> tuple[int, Callable[[], None]]:
        """Return the address of new pinned memory, and what frees it: in any thread, also after the run.

        The driver unmaps the memory with the context, so it keeps the context.
        """
        address, device = int(self(self.cu.cuMemAllocHost, nbytes)), self(self.cu.cuCtxGetDevice)
        context = self(self.cu.cuDevicePrimaryCtxRetain, device)
        return address, partial(_free_host, self.cu, device, context, address)

    def register_host(self, address: int, nbytes: int) -> None:
        """Pin memory of the host."""
        self(self.cu.cuMemHostRegister, address, nbytes, 0)

    def unregister_host(self, address: int) -> None:
        """Unpin it."""
        self(self.cu.cuMemHostUnregister, address)

    def copy_bytes(self, dst: int, src: int, nbytes: int, way: Label, stream: Any) -> None:  # noqa: ARG002 - addresses tell
        """Queue a copy between two addresses."""
        code = self.cu.cuMemcpyAsync(dst, src, nbytes, stream)[0]
        if code:
            raise self.error(int(code), "cuMemcpyAsync")

    def copy(self, stream: "CardStream", op: "Op") -> None:
        """Queue a copy."""
        work: Any = op.work
        dst, src = work.dst.address + work.dst_offset, work.src.address + work.src_offset
        code = self.cu.cuMemcpyAsync(dst, src, op.nbytes, stream.handle)[0]  # copy_bytes(), written out
        if code:
            raise self.error(int(code), "cuMemcpyAsync")

    def copy_rows(self, stream: "CardStream", op: "Op") -> None:
        """Queue a copy of rows."""
        work: Any = op.work
        rows = self.cu.CUDA_MEMCPY2D()
        self._end(rows, "src", work.src, work.src_offset, work.src_pitch)
        self._end(rows, "dst", work.dst, work.dst_offset, work.dst_pitch)
        rows.WidthInBytes, rows.Height = work.width, work.height
        self(self.cu.cuMemcpy2DAsync, rows, stream.handle)

    def _end(self, rows: Any, role: str, allocation: "Allocation", offset: int, pitch: int) -> None:
        types, is_on_host = self.cu.CUmemorytype, allocation.space in _ON_HOST
        kind = types.CU_MEMORYTYPE_HOST if is_on_host else types.CU_MEMORYTYPE_DEVICE
        if allocation.space is Space.MANAGED:
            kind = types.CU_MEMORYTYPE_UNIFIED
        setattr(rows, f"{role}MemoryType", kind)
        setattr(rows, f"{role}Host" if is_on_host else f"{role}Device", allocation.address + offset)
        setattr(rows, f"{role}Pitch", pitch)

    def fill(self, stream: "CardStream", op: "Op") -> None:
        """Queue a fill."""
        work: Any = op.work
        call, count = self._fills[work.unit], op.nbytes // work.unit
        code = call(work.dst.address + work.offset, work.value, count, stream.handle)[0]
        if code:
            raise self.error(int(code), call.__name__)

    def write_word(self, stream: Any, address: int, value: int) -> None:
        """Queue a write of eight bytes."""
        self(self.cu.cuStreamWriteValue64, stream, address, self.cu.cuuint64_t(value), 0)

    def wait_for_word(self, stream: Any, address: int, value: int, how: Compare) -> None:
        """Let later work of *stream* wait until the eight bytes at *address* compare with *value* as *how* says."""
        self(self.cu.cuStreamWaitValue64, stream, address, self.cu.cuuint64_t(value), int(how))


def _free_host(cu: ModuleType, device: Any, context: Any, address: int) -> None:
    """Free pinned memory and let go of its *context*, in whichever thread; not beside work that does not end."""
    if CudaDriver.standing.lost is not None:
        return
    if cu.cuCtxPushCurrent(context)[0]:
        return  # the context is gone, and the memory with it
    cu.cuMemFreeHost(address)
    cu.cuCtxPopCurrent()
    cu.cuDevicePrimaryCtxRelease(device)
