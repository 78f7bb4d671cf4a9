"""Core kernels: functions that run on simulated AI cores, launched like every other kernel.

`asc.kernel` makes them, and `asc` has the language they are written in. The function is run once per block. Arguments
in memory arrive as buffers for `GlobalTensor.SetGlobalBuffer`, others as they are.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Annotated, Any, overload

from acl_py.arrays import Access, Array
from acl_py.errors import Kind
from acl_py.kernels import Launchable
from acl_py.runtime import Runtime
from acl_py.scopes import Barred
from device_model import profile as profiles
from device_model.aicore import tune as tuner
from device_model.aicore.launch import Argument, Launch, Options
from device_model.aicore.names import KernelType
from device_model.aicore.tensors import GlobalBuffer

# How a core kernel's arguments are annotated; acl_py's own In, Out and InOut say the same, with another type.
In = Annotated[GlobalBuffer, Access.IN]
Out = Annotated[GlobalBuffer, Access.OUT]
InOut = Annotated[GlobalBuffer, Access.IN_OUT]
GM_ADDR = InOut  # as kernels in Ascend C declare all of them

_Function = Callable[..., object]


class CoreKernelFunction(Launchable):
    """A function in the manner of Ascend C; launch it with LaunchKernel, or `await k[blocks, stream](*args)`.

    The completion's `work.result` tells what its cores did, once it has ended: `findings`, `timeline`, `output`; and
    `asc.advise` says of it how the kernel uses the memory.
    """

    def __init__(self, function: _Function, options: Options) -> None:
        super().__init__(function)
        self.options = options
        self.__module__, self.__qualname__ = function.__module__, function.__qualname__

    def __reduce__(self) -> str:
        return self.__qualname__  # pickled by name, as functions are

    def __repr__(self) -> str:
        return f"<core kernel {self.name}>"

    def work(self, runtime: Runtime, blocks: int, args: tuple[Any, ...]) -> Launch:
        """One launch with these arguments."""
        profile = runtime.profile
        if profile.aicore is None:
            raise runtime.fail(
                Kind.NOT_SUPPORTED,
                f"{self!r} needs AI cores, and profile {profile.name} does not describe any",
                f"run it on one that does: {', '.join(_able())}",
            )
        values, _ = self.arguments(runtime, args)
        arguments = [
            _argument(name, value, access) if isinstance(value, Array) else value
            for name, value, access in zip(self._names, values, self._accesses, strict=True)
        ]
        function = partial(Barred(runtime, self).run, self.function)
        return Launch(
            self.label,
            function,
            blocks,
            arguments,
            profile.aicore,
            profile.cores.count,
            self.options,
            runtime.op_execute_ns,
        )


def _able() -> list[str]:
    """The profiles with AI cores."""
    return [name for name in profiles.names() if profiles.load(name).aicore is not None]


def _argument(name: str, array: Array, access: Access) -> Argument:
    buffer = array.buffer
    return Argument(
        name,
        buffer.allocation,
        buffer.offset,
        buffer.offset + array.nbytes,
        array.dtype,
        is_read=access is not Access.OUT,
        is_written=access is not Access.IN,
    )


@overload
def kernel(function: _Function) -> CoreKernelFunction: ...
@overload
def kernel(
    *, kind: KernelType = KernelType.AIV_ONLY, hazards: bool = True, weak: bool = False
) -> Callable[[_Function], CoreKernelFunction]: ...
def kernel(
    function: _Function | None = None,
    *,
    kind: KernelType = KernelType.AIV_ONLY,
    hazards: bool = True,
    weak: bool = False,
) -> CoreKernelFunction | Callable[[_Function], CoreKernelFunction]:
    """Make a function a core kernel.

    *kind* says which cores a block runs on: vector cores, cube cores, or a cube core with one or two vector cores. With
    *hazards* off, missing flags are not looked for, which is faster. With *weak* on, a read that no flag holds back
    really sees the old bytes.
    """
    if weak and not hazards:
        raise ValueError("weak mode needs hazards: they say which bytes a reader sees old")
    make = partial(CoreKernelFunction, options=Options(kind, hazards, weak))
    return make if function is None else make(function)


def tune(
    kernel: CoreKernelFunction,
    block_dim: int,
    args: Sequence[Any],
    choices: Mapping[str, Sequence[Any]],
    *,
    device: str,
    check: Callable[..., object] | None = None,
    executor: Executor | None = None,
) -> tuner.Tuning:
    """Run *kernel* with every combination of *choices* on the AI cores of *device*, and compare the times.

        asc.tune(add, 8, (x, y, z), {"tile": (2048, 4096, 8192), "buffers": (1, 2)}, device="ascend910b1")

    *choices* maps names of parameters of the kernel to the values to try; `block_dim` among them stands for the number
    of blocks. *args* are the other arguments, in their order, memory as NumPy arrays; each run has copies of its own,
    and no simulation is needed. A run does not count that raises, has findings, or whose result *check* finds wrong:
    it is called with *args* as they are afterwards. The row says why.

    On an *executor* (of concurrent.futures) runs are made side by side, with the same result. One of processes needs a
    kernel of a module, by its own name, and arguments and a check that can be pickled.
    """
    spec = profiles.load(device).aicore
    if spec is None:
        raise ValueError(f"profile {device} describes no AI cores; tune on one that does: {', '.join(_able())}")
    kind, hazards, _ = kernel.options
    return tuner.tune(
        kernel, block_dim, args, choices, spec, kind=kind, hazards=hazards, check=check, executor=executor
    )
