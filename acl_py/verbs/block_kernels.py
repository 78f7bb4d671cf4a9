"""Thread-block kernels: functions that run on simulated SMs, launched like every other kernel.

`cta.kernel` makes them, and `cta` is the language they are written in. The function runs once for each block. It gets
arrays in device memory as tensors, and all other arguments unchanged.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from math import prod
from typing import Annotated, Any, NoReturn, ParamSpec, Protocol, overload

from acl_py.errors import Kind
from acl_py.many.crew import Crew
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import Barred
from acl_py.verbs.arguments import arguments_of, profiles_with
from acl_py.verbs.arrays import Access, Array, document
from acl_py.verbs.card_code import CardCode, CardWork, card_code
from acl_py.verbs.kernels import Launchable, Launches, LaunchKernel
from device_model import profile as profiles
from device_model.cta.language.tensors import Tensor, dtype_of
from device_model.cta.launch import Launch, Machine, Options, Parameter, run_on_arrays
from device_model.integers import integer
from device_model.kernel import tune as tuner
from device_model.kernel.findings import KernelError
from device_model.ops import Op
from device_model.profile import DeviceProfile
from device_model.sm.names import Dim3
from device_model.sm.occupancy import resident_blocks
from device_model.sm.spec import SmSpec

# How the arguments of a thread-block kernel are annotated; acl_py's own In, Out and InOut say the same.
In = Annotated[Tensor | Any, Access.IN]
Out = Annotated[Tensor | Any, Access.OUT]
InOut = Annotated[Tensor | Any, Access.IN_OUT]
document(
    (In, Out, InOut),
    "The kernel gets a tensor in global memory, indexed with arrays over the threads.\n\n"
    "    @cta.kernel(threads=128)\n"
    "    def double(x: cta.In, y: cta.Out) -> None:\n"
    "        y[cta.tid] = x[cta.tid] * 2",
)

MOST_BLOCKS: Dim3 = (2**31 - 1, 65535, 65535)  # of a grid, in each direction

P = ParamSpec("P")


class BlockKernelFunction(Launchable[P]):
    """A kernel for blocks of threads; launch it with LaunchKernel or `await k[grid, stream](*args)`.

    The grid is a number of blocks, or up to three of them: `k[(8, 4), stream]`. When the launch has ended, the
    completion's `work.result` holds its `findings` and `timeline`.
    """

    def __init__(self, function: Callable[P, object], options: Options, card: CardCode | None = None) -> None:
        super().__init__(function)
        self.options = options
        self.card = card_code(card, self.name, self._names, options.threads)
        self.shared_limit: int | None = None  # set by `allow_shared`

    def __repr__(self) -> str:
        return f"<thread-block kernel {self.name}>"

    def __getitem__(self, where: Any) -> Callable[P, Coroutine[Any, Any, Op]]:
        """`k[grid]` or `k[grid, stream]`: call it with the arguments of the function, and await that."""
        is_pair = isinstance(where, tuple) and len(where) == 2 and not hasattr(where[1], "__index__")
        grid, stream = where if is_pair else (where, None)

        def launch(*args: P.args, **named: P.kwargs) -> Coroutine[Any, Any, Op]:
            dims = _dims(grid)
            return LaunchKernel(_OnGrid(self, dims), prod(dims), self._in_order(args, named), stream)

        return launch

    def allow_shared(self, nbytes: int) -> None:
        """Let blocks have up to *nbytes* bytes of dynamic shared memory.

        Stands for cudaFuncSetAttribute with cudaFuncAttributeMaxDynamicSharedMemorySize. A kernel with more than the
        card gives without asking (48 KB) cannot be launched before this.

        Raises:
            ValueError: *nbytes* is below 0.
        """
        nbytes = integer("nbytes", nbytes)
        if nbytes < 0:
            raise ValueError(f"allow_shared({nbytes}): give a number of bytes, 0 or more")
        self.shared_limit = nbytes

    def parameters(self) -> list[Parameter]:
        """Return how the kernel declares its arguments."""
        return [
            Parameter(name, access is not Access.OUT, access is not Access.IN)
            for name, access in zip(self._names, self._accesses, strict=True)
        ]

    def work(self, runtime: Runtime, blocks: int, args: tuple[Any, ...]) -> Launch | CardWork:
        """Return the work of one launch on *blocks* blocks with *args*."""
        return self.work_on(runtime, (blocks, 1, 1), args)

    def work_on(self, runtime: Runtime, grid: Dim3, args: tuple[Any, ...]) -> Launch | CardWork:
        """Return the work of one launch on *grid* with *args*."""
        profile = runtime.profile
        if profile.sm is None:
            raise runtime.error(
                Kind.NOT_SUPPORTED,
                f"{self!r} needs SMs, and profile {profile.name} does not describe any",
                f"run it on one that does: {profiles_with('sm')}",
            )
        self._check(runtime, profile.sm, grid)
        values, extents = self.arguments(runtime, args)
        for name, value in zip(self._names, values, strict=True):
            if isinstance(value, Array):
                self._check_type(name, value)
        if self.card is not None and runtime.runs_ptx:
            return CardWork(self.label, self.card, grid, self.options.threads, self._names, values, extents)
        arguments = arguments_of(self._names, values, self._accesses)
        return Launch(
            self.label,
            partial(Barred(runtime, self).run, self.function),
            grid,
            arguments,
            _machine(profile, profile.sm),
            self.options,
            runtime.state(Launches).limit_ns,
            values=runtime.values,
        )

    def _check_type(self, name: str, array: Array) -> None:
        """Refuse an array whose elements no thread can hold."""
        try:
            dtype_of(array.dtype)
        except TypeError as error:
            raise TypeError(f"argument {name} of {self!r}: {error}") from None

    def _check(self, runtime: Runtime, spec: SmSpec, grid: Dim3) -> None:
        """Refuse grids and blocks that the card cannot hold."""
        if any(not 1 <= length <= most for length, most in zip(grid, MOST_BLOCKS, strict=True)):
            raise runtime.error(
                Kind.INVALID_LAUNCH,
                f"{self!r} with a grid of {grid}",
                f"launch 1 block or more in each direction, up to {MOST_BLOCKS}",
            )
        if problem := self.problem(spec):
            raise runtime.error(*problem)

    def problem(self, spec: SmSpec) -> tuple[Kind, str, str] | None:
        """Return why the card cannot hold a block: the kind of error, what is wrong, and what to do; None if it can."""
        threads, shared, registers, _ = self.options
        if threads > spec.block_threads or registers > spec.thread_registers:
            return (
                Kind.INVALID_LAUNCH,
                f"{self!r} has blocks of {threads} threads with {registers} registers each",
                f"a block has at most {spec.block_threads} threads, and a thread {spec.thread_registers} registers",
            )
        limit = max(spec.block_shared_static, min(self.shared_limit or 0, spec.block_shared))
        if shared is not None and shared > limit:
            remedy = (
                f"call {self.name}.allow_shared({shared}) before the launch"
                if shared <= spec.block_shared
                else f"a block has at most {spec.block_shared} bytes"
            )
            return (
                Kind.INVALID_VALUE,
                f"{self!r} has {shared} bytes of dynamic shared memory, and {limit} are allowed",
                remedy,
            )
        if not resident_blocks(threads, registers, shared or 0, spec):
            wrong = f"{threads} threads with {registers} registers each, {threads * registers} in all"
            return (
                Kind.INVALID_LAUNCH,
                f"{self!r} needs more than an SM has: {wrong}",
                f"an SM has {spec.registers} registers and {spec.warps * 32} threads; make blocks smaller",
            )
        return None


class _OnGrid(Launchable[P]):
    """A kernel with its grid, for one launch."""

    def __init__(self, kernel: BlockKernelFunction[P], grid: Dim3) -> None:
        self.__dict__.update(kernel.__dict__)
        self._kernel = kernel
        self._grid = grid

    def __repr__(self) -> str:
        return repr(self._kernel)

    def work(self, runtime: Runtime, blocks: int, args: tuple[Any, ...]) -> Launch | CardWork:  # noqa: ARG002 - the grid says it
        """Return the work of the launch."""
        return self._kernel.work_on(runtime, self._grid, args)


def _dims(grid: Any) -> Dim3:
    """Return *grid* as three numbers of blocks."""
    lengths = tuple(grid) if isinstance(grid, tuple | list) else (grid,)
    if not 1 <= len(lengths) <= 3:
        raise TypeError(f"a grid has one to three numbers of blocks, not {len(lengths)}")
    x, y, z = (*(integer("the grid", length) for length in lengths), *[1] * (3 - len(lengths)))
    return x, y, z


def _machine(profile: DeviceProfile, spec: SmSpec) -> Machine:
    return Machine(spec, profile.cores.count, profile.latency.block + profile.latency.kernel_drain)


class _KernelMaker(Protocol):
    """The decorator that `kernel(threads=...)` returns."""

    def __call__(self, function: Callable[P, object], /) -> BlockKernelFunction[P]: ...


@overload
def kernel(function: Callable[P, object]) -> BlockKernelFunction[P]: ...
@overload
def kernel(
    *,
    threads: int = 128,
    shared: int | None = None,
    registers: int = 32,
    hazards: bool = True,
    card: CardCode | None = None,
) -> _KernelMaker: ...
def kernel(
    function: Callable[P, object] | None = None,
    *,
    threads: int = 128,
    shared: int | None = None,
    registers: int = 32,
    hazards: bool = True,
    card: CardCode | None = None,
) -> BlockKernelFunction[P] | _KernelMaker:
    """Make a function a thread-block kernel (CUDA: `__global__`).

        @cta.kernel(threads=128)
        def double(x: cta.In, y: cta.Out) -> None:
            y[cta.tid] = x[cta.tid] * 2

        await double[1, stream](Array(x, np.float32), Array(y, np.float32))

    Args:
        function: The kernel. Arguments annotated In, Out or InOut are arrays in device memory.
        threads: The threads of a block.
        shared: The bytes of dynamic shared memory of a block; `cta.shared` takes its arrays from these. By default they
            are static, up to 48 KB.
        registers: The registers of each thread, which limit how many blocks an SM holds.
        hazards: Whether accesses without order, and reads and Out arguments without a write, are found; a run without
            is faster.
        card: What a real card computes in its place: CUDA C as text or as a CudaKernel, or a function, as for
            `acl_py.kernel`.

    Returns:
        The kernel, or without *function* a decorator that makes it.

    Raises:
        ValueError: *threads*, *shared* or *registers* is too small for any card.
    """
    if isinstance(threads, tuple):
        raise TypeError(
            f"@cta.kernel(threads={threads}): give their number, {prod(threads)}; in the kernel, "
            f"`y, x = divmod(cta.tid, {threads[0]})` is where a thread is"
        )
    for name, number, least in (("threads", threads, 1), ("shared", shared or 0, 0), ("registers", registers, 1)):
        if integer(name, number) < least:
            raise ValueError(f"@cta.kernel({name}={number}): give {least} or more")
    make = partial(BlockKernelFunction, options=Options(threads, shared, registers, hazards), card=card)
    return make if function is None else make(function)


def tune(
    kernel: BlockKernelFunction[...],
    grid: int | Dim3,
    args: Sequence[Any],
    choices: Mapping[str, Sequence[Any]],
    *,
    device: str,
    check: Callable[..., object] | None = None,
    executor: Executor | None = None,
) -> tuner.Tuning:
    """Run *kernel* with every combination of *choices* on the SMs of *device*, and compare the times.

        cta.tune(scale, 132, (x, y), {"tile": (64, 128), "stages": (1, 2, 3)}, device="h200")

    It needs no running simulation.

    Args:
        kernel: The kernel to tune.
        grid: The number of blocks, or three of them, unless *choices* has "block_dim".
        args: The arguments that are not in *choices*, in their order, with NumPy arrays in place of device memory. Each
            run gets its own copies.
        choices: Maps names of the kernel's parameters, or "block_dim", to the values to try.
        device: The profile whose SMs are simulated.
        check: Called with *args* as the run left them; returns False if the results are wrong.
        executor: Runs the trials at the same time, with the same result. An executor of processes needs a kernel that
            is defined in a module under its own name, and arguments and a check that can be pickled.

    Returns:
        A row for each combination. A run that raises, has findings or fails the check has no time; its row says why. A
        kernel that cannot be launched, such as one with too much shared memory, has none in any row.

    Raises:
        ValueError: The profile has no SMs, or *choices* has a name without values.
        TypeError: *choices* has a name that is no parameter, or the number of *args* is wrong.
    """
    profile = profiles.load(device)
    if profile.sm is None:
        raise ValueError(f"profile {device} describes no SMs; tune on one that does: {profiles_with('sm')}")
    machine = _machine(profile, profile.sm)
    problem = kernel.problem(profile.sm)
    on_card = (
        partial(_refuse, problem)
        if problem
        else partial(run_on_arrays, machine=machine, options=kernel.options, parameters=kernel.parameters())
    )
    with Crew(executor, None if executor else 1) as crew:
        return tuner.tune(kernel, grid, args, choices, on_card, check=check, each=crew.in_order)


def _refuse(problem: tuple[Kind, str, str], *_: object) -> NoReturn:
    """Fail in place of a run, as a launch does with this *problem*."""
    wrong, remedy = problem[1:]
    raise KernelError(wrong, remedy)
