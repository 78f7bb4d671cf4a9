"""Computations: a Python function over device memory, queued in a stream as an ordinary kernel launch.

What models and operators do runs this way, so that traces, errors, fault rules and times are those of any kernel. It
takes all AI cores for as long as its cost says, and the function runs at its simulated end.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import numpy as np

from acl_py import log
from acl_py.compat.acl.face.host_objects import objects
from acl_py.compat.acl.face.session import session
from acl_py.compat.acl.face.tracebacks import traceback_text
from acl_py.errors import Kind
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import Barred
from acl_py.verbs.arrays import Access, Array
from acl_py.verbs.kernels import Cost, Launchable, Launches, run_out_of_time
from device_model.errors import INTERRUPTS, CodedError, DeviceError, text_of
from device_model.memory import Buffer
from device_model.work import Extent, Kernel, Label, Lane, nothing

_ORDER = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2, "c": 3}  # kinds of dtypes; the small floats of ml_dtypes are "V"


def warn(what: str, detail: str) -> None:
    """Print what a code cannot say: to the log if it is on, otherwise to the standard error."""
    if not log.warn(what, detail=detail):
        print(f"acl: {what}\n{detail}", file=sys.stderr)


@dataclass(slots=True)
class Output:
    """Where a result goes: *buffer*, as *dtype* in *shape*; a shape of None is that of the result.

    One that *converts* takes any numbers. *came* is the shape of the result, and *spare* the result itself if there is
    no buffer for it.
    """

    name: str
    buffer: Buffer | None
    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None
    converts: bool = False
    came: tuple[int, ...] = field(default=())
    spare: np.ndarray[Any, Any] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the buffer that may be written."""
        if self.buffer is None:
            return 0
        return self.buffer.nbytes if self.shape is None else prod(self.shape) * self.dtype.itemsize

    def take(self, result: object) -> None:
        """Take a result; raise ValueError if it does not fit."""
        array = np.asarray(result)
        if not self.converts and _ORDER.get(array.dtype.kind, 4) > _ORDER[self.dtype.kind]:
            what = f"output {self.name} is {self.dtype}, and {array.dtype} is not converted to it"
            raise ValueError(f"{what}; return result.astype({str(self.dtype)!r})")
        shape = array.shape if self.shape is None else self.shape
        if array.size != prod(shape):
            raise ValueError(f"output {self.name} has shape {shape}, but the result has {array.shape}")
        self.came = shape
        if array.dtype != self.dtype:
            with np.errstate(over="ignore", invalid="ignore"):  # what does not fit is infinite, as on a card
                array = array.astype(self.dtype)
        if self.buffer is None:
            self.spare = array
        elif array.nbytes > self.buffer.nbytes:
            raise ValueError(f"output {self.name} has {array.nbytes} bytes, but its buffer only {self.buffer.nbytes}")
        else:
            Array(self.buffer, self.dtype, shape).view(Access.OUT)[...] = array.reshape(shape)


class Computation(Launchable[...]):
    """One call of *function* on *inputs*, whose results go to *outputs*; *reads* and *writes* are what else it uses.

    *then* is called when the results are there. A failure of the function has *code*, if that is not None, and is told
    with its traceback. A *serial* function touches more than its arguments. *of* is the loaded model that it executes,
    if it does.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        inputs: Sequence[Array],
        outputs: Sequence[Output],
        cost: Cost,
        *,
        reads: Sequence[Buffer] = (),
        writes: Sequence[Buffer] = (),
        then: Callable[[], None] | None = None,
        code: int | None = None,
        serial: bool,
        of: object = None,
    ) -> None:
        # Not super().__init__(), which looks at the parameters of a kernel's function: here they are any number.
        self.name = name
        self.label = Label("kernel", Lane.COMPUTE, name)
        self.function = function
        self.inputs = inputs
        self.outputs = outputs
        self._cost = cost
        self._reads = reads
        self._writes = writes
        self._then = then
        self.of = of
        self._code = code
        self._serial = serial

    def work(self, runtime: Runtime, blocks: int, args: tuple[Any, ...]) -> Kernel:
        """What the launch does."""
        assert not args, f"{self!r} has its arguments"
        read = [_extent(each.buffer, each.nbytes) for each in self.inputs]
        read += [_extent(each, each.nbytes) for each in self._reads]
        written = [_extent(each.buffer, each.nbytes) for each in self.outputs if each.buffer is not None]
        written += [_extent(each, each.nbytes) for each in self._writes]
        nbytes = sum(stop - start for _, start, stop in (*read, *written))
        try:
            block_ns = self._cost.block_ns(runtime.profile, blocks, [], nbytes, exclusive=True)
        except ValueError as error:  # the flops of an operator depend on its inputs
            what = f"{self!r} has an impossible cost: {error}"
            raise runtime.error(Kind.INVALID_VALUE, what, "correct the cost, or check the inputs") from error
        self._barred = Barred(runtime, self)
        body: Callable[[], None] = self._run if runtime.values else self._then or nothing
        limit_ns = runtime.state(Launches).limit_ns
        if 0 < limit_ns < block_ns:
            block_ns, body = limit_ns, partial(run_out_of_time, self, block_ns)
        return Kernel(self.label, blocks, block_ns, body, read, written, nbytes, exclusive=True, serial=self._serial)

    def _run(self) -> None:
        self._barred.run(self._compute)

    def _compute(self) -> None:
        try:
            results = self.function(*(each.view(Access.IN) for each in self.inputs))
            if not isinstance(results, tuple) and not (isinstance(results, list) and len(self.outputs) > 1):
                results = (results,)
            if len(results) != len(self.outputs):
                raise ValueError(f"there are {len(self.outputs)} outputs, but the function returned {len(results)}")
            for output, result in zip(self.outputs, results, strict=True):
                output.take(result)
        except (DeviceError, *INTERRUPTS):
            raise
        except BaseException as error:
            warn(f"{self.name} failed: {error}", traceback_text(error))
            raise CodedError(
                Kind.LAUNCH_FAILURE,
                f"{self.name} raised {text_of(error)}",
                "fix the function; its traceback was printed when it failed",
                self._code,
            ) from None  # a cause would stand in the place of this error, and of its code
        if self._then is not None:
            self._then()


def _extent(buffer: Buffer, nbytes: int) -> Extent:
    return buffer.allocation, buffer.offset, buffer.offset + nbytes


def reachable(runtime: Runtime, address: int, nbytes: int, role: str, *, is_written: bool = False) -> Buffer:
    """The *nbytes* at *address*, which the device can reach; *role* is what the caller calls them.

    On a board without a host, the program's own memory is the device's too, so any address of it is accepted. What
    acl.util was given there is kept for as long as the work may use it.

    Raises:
        AclError: there is no such memory, or it is pageable memory of a host, or it cannot be written.
    """
    memory = runtime.memory
    if not runtime.profile.is_board or memory.holder(address) is not None:
        return Buffer(*memory.locate(address, nbytes, role), nbytes)
    session().check_extent(address, nbytes, "dst" if is_written else "src")
    allocation = memory.pageable(address, nbytes, role, write=is_written)
    known = objects.holder(address)
    allocation.owner = None if known is None else known[0].held()
    return Buffer(allocation, 0, nbytes)
