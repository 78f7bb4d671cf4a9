"""Kernels written in Python: array kernels over whole arrays, block kernels called once per block.

A kernel computes with NumPy and says what it costs; the device knows when its blocks run. Arguments made with `Array`
arrive as arrays, annotations say what the kernel does with them:

    @kernel(cost=Cost(us=5))
    def add(x: In, y: In, out: Out) -> None:
        np.add(x, y, out=out)

    await add[8, stream](Array(x, np.float32), Array(y, np.float32), Array(out, np.float32))

`In` arrives read-only, `Out` will be fully overwritten (what the kernel leaves out holds poison), `InOut` is both, and
so is what has no annotation. A buffer or a bare address arrives as bytes, up to the end of it, and is `InOut` unless
annotated.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cached_property, partial
from inspect import Signature, iscoroutinefunction, isgeneratorfunction, signature
from sys import _getframe
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import numpy as np

from acl_py.calls.table import verb
from acl_py.errors import Kind
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import Barred, Scope, current_scope, present_scope
from acl_py.sites import site_of
from acl_py.verbs.arrays import Access as Access
from acl_py.verbs.arrays import Array as Array
from acl_py.verbs.arrays import In as In
from acl_py.verbs.arrays import InOut as InOut
from acl_py.verbs.arrays import Out as Out
from acl_py.verbs.bodies import Body
from acl_py.verbs.card_code import CardCode, CardWork, card_code
from acl_py.verbs.card_code import CudaKernel as CudaKernel
from acl_py.verbs.costs import Cost as Cost
from acl_py.verbs.costs import CostLike, checked, cost_of
from acl_py.verbs.hot import queue_launch
from acl_py.verbs.launches import Launches as Launches
from acl_py.verbs.streams import StreamLike, resolve
from device_model import memory as model
from device_model.compiled import IS_COMPILED
from device_model.errors import DeviceError, listed, shown
from device_model.integers import Integer, integer
from device_model.memory import Buffer, Space
from device_model.ops import Op
from device_model.streams import Stream
from device_model.work import Extent, Kernel, Label, Lane, Work, nothing

if TYPE_CHECKING:
    from device_model.aicore.core.names import KernelType

MAX_BLOCKS = 2**31 - 1
_MAX_LAUNCHES = 1 << 16  # launches that a simulation remembers


P = ParamSpec("P")  # the parameters of a kernel, without the index of the block


class Launchable(Generic[P]):
    """A kernel as LaunchKernel takes it: a Python function, and how it accesses its arguments.

    To a type checker its type has the parameters *P* of the function, so that it finds a launch with too few arguments.
    """

    kernel_type: "KernelType | None" = None  # which cores it runs on, if it is a core kernel
    has_values = True  # whether its launches compute

    def __init__(self, function: Callable[..., object], *, skip: int = 0) -> None:
        self.function = function
        self.name = function.__name__
        self.label = Label("kernel", Lane.COMPUTE, self.name)
        self.__doc__ = function.__doc__
        self.__module__, self.__qualname__ = function.__module__, function.__qualname__
        self.__wrapped__ = function
        self._names, self._accesses = _accesses(function, skip)

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"

    def __reduce__(self) -> str:
        return self.__qualname__  # pickled by name, as functions are

    def __getitem__(self, where: "Integer | tuple[Integer, StreamLike]") -> Callable[P, Coroutine[Any, Any, Op]]:
        """`k[blocks]` or `k[blocks, stream]`: call it with the arguments of the function, and await that."""
        block_dim, stream = where if isinstance(where, tuple) else (where, None)
        return partial(self._launch, block_dim, stream)  # a function here would evaluate its annotations each time

    def _launch(self, block_dim: Integer, stream: StreamLike, *args: Any, **named: Any) -> Coroutine[Any, Any, Op]:
        plain = not named and len(args) == len(self._names)
        return LaunchKernel(self, block_dim, args if plain else self._in_order(args, named), stream)

    @cached_property
    def without_values(self) -> Self:
        """The kernel for launches whose results nobody needs: they take the time that they take, and write nothing.

        What they would have written is not known from their ends on, until other work overwrites it. A copy, a kernel
        or a view that reads it is refused with the name of the kernel. On a card the kernel computes as usual.
        """
        return self._twin()

    def _twin(self) -> Self:
        """Return a copy of this kernel whose launches compute nothing."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.has_values = False
        return twin

    def _in_order(self, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return all arguments of a call of the function in their order, with the defaults of those left out."""
        parameters = list(signature(self.function, follow_wrapped=False).parameters.values())
        try:
            call = Signature(parameters[len(parameters) - len(self._names) :]).bind(*args, **named)
        except TypeError as error:
            given, names = len(args) + len(named), listed(self._names)
            takes = self._takes_not(given) if given != len(self._names) else f"{self!r} takes the arguments {names}"
            raise TypeError(f"{takes}: {error}") from None
        call.apply_defaults()
        return call.args

    def _takes_not(self, given: int) -> str:
        """Say how many arguments the kernel takes, and that *given* is another number."""
        count = len(self._names)
        return f"{self!r} takes {count} argument{'' if count == 1 else 's'}, not {given}"

    def __call__(self, *_: Any) -> None:
        """Refuse: a kernel is launched, not called."""
        raise TypeError(f"{self!r} is launched, not called: await {self.name}[blocks, stream](...)")

    def work(self, runtime: Runtime, blocks: int, args: tuple[Any, ...]) -> Work:
        """Return the work of a launch with these arguments."""
        raise NotImplementedError  # pragma: no cover - each kind of kernel has its own

    def arguments(self, runtime: Runtime, args: Sequence[Any]) -> tuple[list[Any], list[tuple[Extent, Access]]]:
        """Return *args* with an Array in place of each that is memory, and the extents of these in their order."""
        if len(args) != len(self._accesses):
            raise TypeError(self._takes_not(len(args)))
        values: list[Any] = []
        extents: list[tuple[Extent, Access]] = []
        for arg, name, access in zip(args, self._names, self._accesses, strict=True):
            array = self._as_array(runtime, name, arg)
            if array is None:
                values.append(arg)
                continue
            values.append(array)
            buffer = array.buffer
            runtime.memory.locate(buffer, array.nbytes, name)  # alive?
            extents.append(((buffer.allocation, buffer.offset, buffer.offset + array.nbytes), access))
        return values, extents

    def _as_array(self, runtime: Runtime, name: str, arg: Any) -> Array | None:
        if isinstance(arg, Array):
            return arg
        if isinstance(arg, np.ndarray):
            raise runtime.error(
                Kind.INVALID_ADDRESS,
                f"argument {name} of {self!r} is a NumPy array, which is host memory that the device cannot reach",
                "copy it to a buffer of Malloc() and pass Array(buffer, dtype, shape)",
            )
        if isinstance(arg, Buffer):
            if arg.allocation.space is Space.PAGEABLE:
                raise runtime.error(
                    Kind.INVALID_ADDRESS,
                    f"argument {name} is {arg!r}",
                    "the device reaches device and pinned memory only",
                )
            return Array(arg)
        if isinstance(arg, Coroutine):
            raise TypeError(f"argument {name} of {self!r} must be memory or a value, not {shown(arg)}")
        # Other large integers are values: seeds, hashes.
        if type(arg) is int and _is_device_address(runtime, arg):
            allocation, offset = runtime.memory.locate(arg, 0, name)
            return Array(Buffer(allocation, offset, allocation.nbytes - offset))
        return None


def _is_device_address(runtime: Runtime, value: int) -> bool:
    if 0 <= value - model.DEVICE_BASE < runtime.profile.devices * model.DEVICE_SPAN:
        return True
    holder = runtime.memory.holder(value) if runtime.memory.has_real_addresses else None
    return holder is not None and holder.space is Space.DEVICE


class KernelFunction(Launchable[P]):
    """A Python function made a kernel; launch it with LaunchKernel, or `await k[blocks, stream](*args)`."""

    def __init__(
        self,
        function: Callable[..., object],
        *,
        cost: CostLike | None,
        per_block: bool,
        exclusive: bool | None,
        serial: bool,
        card: CardCode | None = None,
    ) -> None:
        super().__init__(function, skip=1 if per_block else 0)
        self.cost = checked(cost)
        self.per_block = per_block
        self.exclusive = exclusive
        self.serial = serial
        self.card = card_code(card, self.name, self._names)

    def __repr__(self) -> str:
        return f"<{'block ' if self.per_block else ''}kernel {self.name}>"

    def work(self, runtime: Runtime, blocks: int, args: tuple[Any, ...]) -> Kernel | CardWork:
        """Return the work of a launch with these arguments; it is kept for the next such launch."""
        key = (self, blocks, args)
        prepared = (runtime.states.get(Launches) or runtime.state(Launches)).prepared  # this is the hot path
        try:
            work = prepared.get(key)
        except TypeError:  # an argument that cannot be hashed
            return self._prepare(runtime, blocks, args)[0]
        if work is None:
            work, repeats = self._prepare(runtime, blocks, args)
            if repeats:
                if len(prepared) >= _MAX_LAUNCHES:
                    prepared.clear()
                prepared[key] = work
            return work
        for allocation in work.touched:
            if allocation.freed is not None:
                return self._prepare(runtime, blocks, args)[0]  # refuses the dead memory
        return work

    def _prepare(self, runtime: Runtime, blocks: int, args: Sequence[Any]) -> tuple[Kernel | CardWork, bool]:
        """Return the work, and whether it can be kept: not with plain values, for which 1, 1.0 and True are one key."""
        if self.card is None or not runtime.runs_ptx:
            return self.prepare_body(runtime, blocks, args)
        values, extents = self.arguments(runtime, args)
        work = CardWork(self.label, self.card, (blocks, 1, 1), None, self._names, values, extents)
        return work, len(extents) == len(args)

    def prepare_body(self, runtime: Runtime, blocks: int, args: Sequence[Any]) -> tuple[Kernel, bool]:
        """Return the work that calls the function, and whether it can be kept."""
        values, extents = self.arguments(runtime, args)
        nbytes = sum(stop - start for (_, start, stop), _ in extents)
        read = tuple(extent for extent, access in extents if access is not Access.OUT)
        written = tuple(extent for extent, access in extents if access is not Access.IN)
        outs = tuple(extent for extent, access in extents if access is Access.OUT)
        cost = cost_of(self, self.cost, values)
        # A kernel whose cost is its work occupies the cores that do it. Two such kernels would have the device twice.
        exclusive = cost.us is None if self.exclusive is None else self.exclusive
        held, block_ns = cost.share(self, runtime, blocks, values, nbytes, exclusive=exclusive)
        body: Callable[[], None] = nothing
        if runtime.values and self.has_values:
            count = blocks if self.per_block else None
            body = Body(Barred(runtime, self), self.function, count, values, self._accesses, outs)
        elif runtime.values:
            body = partial(_forget, written, f"kernel {self.label}")
        limit_ns = runtime.state(Launches).limit_ns
        if 0 < limit_ns < block_ns:
            block_ns, body = limit_ns, partial(run_out_of_time, self, block_ns)
        work = Kernel(
            self.label,
            held,
            block_ns,
            body,
            read,
            written,
            nbytes,
            exclusive=exclusive,
            serial=self.serial,
        )
        return work, cost is self.cost and cost.is_constant and len(extents) == len(args)


def _forget(written: Sequence[Extent], writer: str) -> None:
    """The body of a launch without values: what it would have written is not known."""
    for allocation, start, stop in written:
        model.forget(allocation, start, stop, writer)


def run_out_of_time(kernel: Launchable[...], block_ns: int) -> None:
    """The body of a launch that SetOpExecuteTimeOut() ends."""
    raise DeviceError(
        Kind.OP_EXECUTE_TIMEOUT,
        f"{kernel!r} would have run {block_ns / 1e9:g} s, longer than SetOpExecuteTimeOut() allows",
        "split its work, or allow more",
    )


class _KernelMaker(Protocol):
    """The decorator that `kernel(cost=...)` returns."""

    def __call__(self, function: Callable[P, object], /) -> KernelFunction[P]: ...


class _BlockKernelMaker(Protocol):
    """The decorator that `block_kernel(cost=...)` returns: the launch does not pass the index of the block."""

    def __call__(self, function: Callable[Concatenate[int, P], object], /) -> KernelFunction[P]: ...


@overload
def kernel(function: Callable[P, object]) -> KernelFunction[P]: ...
@overload
def kernel(
    *,
    cost: CostLike | None = None,
    exclusive: bool | None = None,
    serial: bool = False,
    card: CardCode | None = None,
) -> _KernelMaker: ...
def kernel(
    function: Callable[P, object] | None = None,
    *,
    cost: CostLike | None = None,
    exclusive: bool | None = None,
    serial: bool = False,
    card: CardCode | None = None,
) -> KernelFunction[P] | _KernelMaker:
    """Make a function over whole arrays a kernel.

    *cost* is a Cost, or a function of the arguments of a launch that gives one. An *exclusive* block has an AI core
    (SM) to itself; by default that is so where the cost is not given in *us*. A *serial* kernel touches Python state
    besides its arguments, so it runs beside no other.

    *card* is what a real card computes in place of the function: CUDA C as text or as a CudaKernel, or a function. It
    gets the stream and the arguments, with memory as an Array, and calls a library on that stream that takes arrays of
    the card, such as torch, CuPy or numba. The model checks it and does not use it.
    """
    make = partial(KernelFunction, cost=cost, per_block=False, exclusive=exclusive, serial=serial, card=card)
    return make if function is None else make(function)


@overload
def block_kernel(function: Callable[Concatenate[int, P], object]) -> KernelFunction[P]: ...
@overload
def block_kernel(
    *,
    cost: CostLike | None = None,
    exclusive: bool | None = None,
    serial: bool = False,
    card: CardCode | None = None,
) -> _BlockKernelMaker: ...
def block_kernel(
    function: Callable[Concatenate[int, P], object] | None = None,
    *,
    cost: CostLike | None = None,
    exclusive: bool | None = None,
    serial: bool = False,
    card: CardCode | None = None,
) -> KernelFunction[P] | _BlockKernelMaker:
    """Make a function a kernel that is called once per block, with the index of the block before the arguments.

    What a card computes in its place, *card* as for `kernel`, computes all blocks, and gets no index.
    """
    make = partial(KernelFunction, cost=cost, per_block=True, exclusive=exclusive, serial=serial, card=card)
    return make if function is None else make(function)


@verb(acl="aclrtLaunchKernel", cuda="cudaLaunchKernel", step="launch")
async def LaunchKernel(
    kernel: Launchable[...], block_dim: Integer, args: Sequence[Any] = (), stream: StreamLike = None
) -> Op:
    """Queue *kernel* with *block_dim* blocks in *stream*.

    Stands for aclrtLaunchKernel and cudaLaunchKernel. The bytes that the kernel writes are there at its simulated end.
    An exception in it is a failure of the launch, and a later call raises it: see the rules of errors in acl_py.errors.

    Args:
        kernel: A function made a kernel with @kernel, @block_kernel, @asc.kernel or @cta.kernel.
        block_dim: The number of blocks, from 1 to 2**31 - 1.
        args: The arguments of the function; memory as a buffer, an Array or an address.
        stream: The stream, of the current device; None is the default one.

    Waits:
        all rules: For nothing, except for room if the hardware queue is full.

    Returns:
        The completion of the launch.

    Raises:
        AclError: INVALID_LAUNCH for a wrong number of blocks; INVALID_ADDRESS, NULL_POINTER or INVALID_VALUE for an
            argument that is not memory of the device, or was freed; INVALID_HANDLE if *stream* is of another device;
            NOT_SUPPORTED for a core kernel on a device without AI cores, a thread-block kernel on one without SMs, or a
            cost that is a library call which the card does not have;
            INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be used here.
        DeadlockError: The stream can never make room.
        TypeError: *kernel* is not a kernel, *block_dim* is not an int, *stream* is not a stream, the number of *args*
            is wrong, or the function that gives the cost gives something else.
        ValueError: The cost of the kernel, computed from *args*, is not a finite number, 0 or more.

    Example:
        await LaunchKernel(double, 8, (buffer,), stream)
        await double[8, stream](buffer)  # the same, shorter
    """
    if IS_COMPILED and type(kernel) is KernelFunction and type(block_dim) is int and 0 < block_dim <= MAX_BLOCKS:
        queued = queue_launch(_getframe(1), kernel, block_dim, args, stream)
        if queued is not None:
            return queued
    scope = present_scope() or current_scope()  # begin(), written out: this is the hot path
    runtime, context = scope.runtime, scope.context
    if context.alert:
        runtime.check_call(context, LaunchKernel.__name__)
    enter = runtime.host_ns
    site = site_of(_getframe(1))
    if type(stream) is not context.stream_type or stream.home is not context:
        stream = _resolve(scope, kernel, stream)
    if not isinstance(kernel, Launchable) or type(block_dim) is not int or not 1 <= block_dim <= MAX_BLOCKS:
        block_dim = _check_launch(scope, kernel, block_dim)
    work = kernel.work(runtime, block_dim, tuple(args))
    op = Op(work, 0, work.nbytes, site, enter)
    queue = stream.queues[0]
    if len(queue.fifo) + queue.reserved >= queue.depth:
        await runtime.wait_for_place(op, stream, site)
    if not runtime.has_launched:
        runtime.has_launched = True
        runtime.pay(runtime.costs.launch_first)
    cost = runtime.launch_cost if not runtime.cold else runtime.cost_of("launch")
    runtime.submit(stream, op, cost, runtime.kernel_latency)
    return op


def _resolve(scope: Scope, kernel: object, stream: StreamLike) -> Stream:
    stream = resolve(scope, stream, LaunchKernel.__name__, captures=True, is_kernel=True)
    if stream.context.device is not scope.context.device:
        raise scope.runtime.error(
            Kind.INVALID_HANDLE,
            f"{kernel!r} on {stream!r} while device {scope.context.device.ordinal} is current",
            "SetDevice() to the device of the stream before launching",
        )
    return stream


def _check_launch(scope: Scope, kernel: object, block_dim: Integer) -> int:
    """Return *block_dim* as an int; refuse what is not a kernel, and a number of blocks that cannot be."""
    if not isinstance(kernel, Launchable):
        raise TypeError(
            f"a kernel must be made with @kernel, @block_kernel, @asc.kernel or @cta.kernel, not {shown(kernel)}"
        )
    block_dim = integer("block_dim", block_dim, "an int, as in kernel[blocks, stream](...)")
    if not 1 <= block_dim <= MAX_BLOCKS:
        raise scope.runtime.error(
            Kind.INVALID_LAUNCH, f"{kernel!r} with {block_dim} blocks", f"launch 1 to {MAX_BLOCKS} blocks"
        )
    return block_dim


def _accesses(function: Callable[..., object], skip: int) -> tuple[tuple[str, ...], tuple[Access, ...]]:
    """Names and accesses of the parameters; one without an annotation of ours is read and written."""
    code = function.__code__
    if code.co_flags & 0x0C or code.co_kwonlyargcount:
        raise TypeError(f"kernel {function.__name__} must have plain positional parameters")
    if iscoroutinefunction(function):
        raise TypeError(f"kernel {function.__name__} is a coroutine function, and on a device there is no loop")
    if isgeneratorfunction(function):
        raise TypeError(f"kernel {function.__name__} has a yield, so that calling it runs nothing of it; take it out")
    names = code.co_varnames[: code.co_argcount][skip:]
    hints = get_type_hints(function, include_extras=True)
    return names, tuple(_access(hints.get(name)) for name in names)


def _access(hint: Any) -> Access:
    if get_origin(hint) is Annotated:
        for extra in get_args(hint)[1:]:
            if isinstance(extra, Access):
                return extra
    return Access.IN_OUT
