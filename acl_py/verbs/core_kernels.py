"""Core kernels: functions that run on simulated AI cores, launched like every other kernel.

`asc.kernel` makes them, and `asc` is the language they are written in. The function runs once for each block; one
that changes nothing outside of it may run once for several blocks that take the same steps. It gets arrays in device
memory as buffers for `GlobalTensor.SetGlobalBuffer`, communicators as contexts for `Hccl`, and all other arguments
unchanged.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Annotated, Any, ParamSpec, Protocol, overload

from acl_py.errors import Kind
from acl_py.many.crew import Crew
from acl_py.runtime.collectives import check_rank
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import Barred, current_scope
from acl_py.verbs.arguments import arguments_of, profiles_with
from acl_py.verbs.arrays import Access, Array, document
from acl_py.verbs.kernels import Launchable, Launches
from device_model import profile as profiles
from device_model.aicore.caches import Caches
from device_model.aicore.core.names import KernelType
from device_model.aicore.core.tensors import GlobalBuffer
from device_model.aicore.launch import Launch, Options
from device_model.aicore.runner import run
from device_model.aicore.shaping.binding import least_us, what_binds
from device_model.collectives.cliques import Communicator
from device_model.collectives.kernels import Meetings, RankLaunch
from device_model.kernel import tune as tuner
from device_model.memory import Buffer

# How a core kernel's arguments are annotated; acl_py's own In, Out and InOut say the same, with another type.
In = Annotated[GlobalBuffer | Any, Access.IN]
Out = Annotated[GlobalBuffer | Any, Access.OUT]
InOut = Annotated[GlobalBuffer | Any, Access.IN_OUT]
GM_ADDR = InOut  # as kernels in Ascend C declare all of them
document(
    (In, Out, InOut),
    "The kernel gets a buffer in global memory, for GlobalTensor.SetGlobalBuffer().\n\n"
    "    @asc.kernel\n"
    "    def add(x: asc.In, y: asc.In, z: asc.Out, length: int) -> None: ...",
)

P = ParamSpec("P")


class CoreKernelFunction(Launchable[P]):
    """A kernel for AI cores; launch it with LaunchKernel or `await k[blocks, stream](*args)`.

    When the launch has ended, the completion's `work.result` holds its `findings`, `timeline` and `output`. Give it to
    `asc.advise` to learn how the kernel could use the memory better.
    """

    def __init__(self, function: Callable[P, object], options: Options) -> None:
        super().__init__(function)
        self.options = options
        self.kernel_type = options.kind

    def __repr__(self) -> str:
        return f"<core kernel {self.name}>"

    def work(self, runtime: Runtime, blocks: int, args: tuple[Any, ...]) -> Launch:
        """Return the work of one launch on *blocks* blocks with *args*."""
        profile = runtime.profile
        if profile.aicore is None:
            raise runtime.error(
                Kind.NOT_SUPPORTED,
                f"{self!r} needs AI cores, and profile {profile.name} does not describe any",
                f"run it on one that does: {profiles_with('aicore')}",
            )
        values, _ = self.arguments(runtime, args)
        lists = [self._as_list(runtime, name, value) for name, value in zip(self._names, values, strict=True)]
        arguments = arguments_of(self._names, lists, self._accesses)
        function = partial(Barred(runtime, self).run, self.function)
        ranks = [value for value in values if isinstance(value, Communicator)]
        make = partial(RankLaunch, self._ranks(runtime, ranks), runtime.state(Meetings)) if ranks else Launch
        return make(
            self.label,
            function,
            blocks,
            arguments,
            profile.aicore,
            profile.cores.count,
            _caches(runtime),
            self.options,
            runtime.state(Launches).limit_ns,
            values=runtime.values and self.has_values,
        )

    def _ranks(self, runtime: Runtime, given: Sequence[Communicator]) -> list[Communicator]:
        """Return the communicators that are arguments, each once; refuse those that cannot be used here."""
        device = current_scope().context.device
        for rank in given:
            check_rank(runtime, rank)
            if rank.device is not device:
                raise runtime.error(
                    Kind.INVALID_COLLECTIVE,
                    f"{self!r} on device {device.ordinal} with {rank!r}",
                    "pass the communicator of the rank on this device",
                )
            if rank.clique.fold is not None:
                raise runtime.error(
                    Kind.NOT_SUPPORTED,
                    f"{self!r} with {rank!r}, whose ranks are folded",
                    "run all ranks: a kernel meets the kernels of the others, and those of folded ranks do not run",
                )
        return list(dict.fromkeys(given))

    def _as_list(self, runtime: Runtime, name: str, value: Any) -> Any:
        """Return *value* with an Array in place of each buffer, if it is a list of memory, for ListTensorDesc."""
        if not isinstance(value, list | tuple) or not any(isinstance(each, Array | Buffer) for each in value):
            return value
        arrays = [self._as_array(runtime, f"{name}[{place}]", each) for place, each in enumerate(value)]
        for place, array in enumerate(arrays):
            if array is None:
                raise TypeError(f"argument {name}[{place}] of {self!r} must be memory, as others in the list are")
            runtime.memory.locate(array.buffer, array.nbytes, f"{name}[{place}]")  # alive?
        return arrays


class _L2s:
    """The L2 of each device of a runtime; it watches work from the first launch of a core kernel on."""

    caches: Caches | None = None


def _caches(runtime: Runtime) -> Caches:
    state = runtime.state(_L2s)
    if state.caches is None:
        state.caches = Caches()
        runtime.hooks.add(state.caches)
    return state.caches


def reset_l2() -> None:
    """Empty the L2 of the current device, so that the next core kernel that starts there finds nothing in it.

    Core kernels leave in the L2 what they read and write, and so does all other work from the first core kernel on.
    The first one finds an empty L2. Call it when the device is idle: the L2 is empty at once, and bytes in it that are
    not in HBM yet cost no time.
    """
    scope = current_scope()
    _caches(scope.runtime).clear(scope.context.device.ordinal)


class _KernelMaker(Protocol):
    """The decorator that `kernel(kind=...)` returns."""

    def __call__(self, function: Callable[P, object], /) -> CoreKernelFunction[P]: ...


@overload
def kernel(function: Callable[P, object]) -> CoreKernelFunction[P]: ...
@overload
def kernel(
    *, kind: KernelType = KernelType.AIV_ONLY, hazards: bool = True, weak: bool = False, auto_sync: bool = False
) -> _KernelMaker: ...
def kernel(
    function: Callable[P, object] | None = None,
    *,
    kind: KernelType = KernelType.AIV_ONLY,
    hazards: bool = True,
    weak: bool = False,
    auto_sync: bool = False,
) -> CoreKernelFunction[P] | _KernelMaker:
    """Make a function a core kernel (Ascend C: `__global__ __aicore__`).

        @asc.kernel
        def add(x: asc.In, y: asc.In, z: asc.Out, length: int) -> None: ...

        @asc.kernel(kind=asc.KernelType.MIX_AIC_1_2)
        def matmul_relu(a: asc.In, b: asc.In, c: asc.Out) -> None: ...

    Args:
        function: The kernel. Arguments annotated In, Out or InOut are arrays in device memory.
        kind: The cores of a block: a vector core, a cube core, or a cube core with one or two vector cores.
        hazards: Whether accesses without order, and reads and Out arguments without a write, are found; a run without
            is faster.
        weak: Whether a read that no flag or barrier puts after a write sees the old bytes, as it may on a card.
        auto_sync: Whether flags between the scalar pipe and MTE2, MTE3 and V are inserted where accesses to UB need
            them, as the vendor's compiler does by default. All other flags must be written.

    Returns:
        The kernel, or without *function* a decorator that makes it.

    Raises:
        ValueError: *weak* or *auto_sync* without *hazards*.
    """
    if weak and not hazards:
        raise ValueError("weak=True needs hazards=True: the checks tell which reads see old bytes")
    if auto_sync and not hazards:
        raise ValueError("auto_sync=True needs hazards=True: the checks tell which accesses need a flag")
    make = partial(CoreKernelFunction, options=Options(kind, hazards, weak, auto_sync))
    return make if function is None else make(function)


def tune(
    kernel: CoreKernelFunction[...],
    block_dim: int,
    args: Sequence[Any],
    choices: Mapping[str, Sequence[Any]],
    *,
    device: str,
    check: Callable[..., object] | None = None,
    executor: Executor | None = None,
    prune: bool = False,
) -> tuner.Tuning:
    """Run *kernel* with every combination of *choices* on the AI cores of *device*, and compare the times.

        asc.tune(add, 8, (x, y, z), {"tile": (2048, 4096, 8192), "buffers": (1, 2)}, device="ascend910b1")

    It needs no running simulation.

    Args:
        kernel: The kernel to tune.
        block_dim: The number of blocks, unless *choices* has "block_dim".
        args: The arguments that are not in *choices*, in their order, with NumPy arrays in place of device memory. Each
            run gets its own copies.
        choices: Maps names of the kernel's parameters, or "block_dim", to the values to try.
        device: The profile whose AI cores are simulated.
        check: Called with *args* as the run left them; returns False if the results are wrong.
        executor: Runs the trials at the same time, with the same result. An executor of processes needs a kernel that
            is defined in a module under its own name, and arguments and a check that can be pickled.
        prune: Whether choices are left out whose instructions alone take longer than another choice. The best row is
            that of all choices.

    Returns:
        A row for each combination, with the rate of its bytes, the part of HBM's rate that this is, and what binds it:
        a pipe, "turns" if no pipe is busy for most of the time, or "head", the start and end of the launch. A run that
        raises, has findings or fails the check has no time; its row says why.

    Raises:
        ValueError: The profile has no AI cores, or *choices* has a name without values.
        TypeError: *choices* has a name that is no parameter, or the number of *args* is wrong.
    """
    spec = profiles.load(device).aicore
    if spec is None:
        raise ValueError(f"profile {device} describes no AI cores; tune on one that does: {profiles_with('aicore')}")
    kind, hazards, _, auto_sync = kernel.options
    on_cores = partial(run, spec=spec, kind=kind, hazards=hazards, auto_sync=auto_sync)
    with Crew(executor, None if executor else 1) as crew:
        return tuner.tune(
            kernel, block_dim, args, choices, on_cores, check=check, each=crew.in_order, judge=what_binds,
            bound=partial(_least, spec=spec, kind=kind) if prune else None,
        )  # fmt: skip


def _least(function: Callable[..., object], blocks: int, args: Sequence[Any], *, spec: Any, kind: KernelType) -> float:
    """Return the least time of a launch, from a run without values and times."""
    return least_us(run(function, blocks, args, spec, kind=kind, hazards=False, timing=False, values=False), spec)
