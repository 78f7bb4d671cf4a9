"""Kernels in PTX: their shapes, their arguments and what they need of a card; they are launched like every other."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np

from acl_py.errors import Kind
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import current_scope, scope_var
from acl_py.verbs.arguments import profiles_with
from acl_py.verbs.arrays import Array
from acl_py.verbs.kernels import Launchable, Launches, LaunchKernel
from acl_py.wording import plain
from device_model.device import Device
from device_model.integers import integer
from device_model.memory import Buffer, Space
from device_model.ops import Op
from device_model.profile import DeviceProfile
from device_model.ptx.arguments import NOTHING, Bytes, layout, pack
from device_model.ptx.checks.unknown import needs_values
from device_model.ptx.lanes.launch import Dim3
from device_model.ptx.lanes.program import Program
from device_model.ptx.launch import DriverLaunch, Launch, Setup, Shape
from device_model.ptx.text.syntax import Module, Variable
from device_model.ptx.text.syntax import Space as StateSpace
from device_model.ptx.timing.plan import Card, Plan, occupancy
from device_model.sm.occupancy import resident_blocks
from device_model.sm.spec import SmSpec
from device_model.work import Extent, Label, Lane, Work

MOST_BLOCKS: Dim3 = (2**31 - 1, 65535, 65535)  # of a grid, in each direction
MOST_THREADS: Dim3 = (1024, 1024, 64)  # of a block, in each direction
_INTS = [int] * 3
_LOWEST = 1 << 12  # no memory is below it: nothing maps the first page of a process
_SHAPES = 256  # of launches of a kernel, whose plans are kept


class Needs(NamedTuple):
    """What a kernel needs of a card.

    Attributes:
        block_threads: The most threads that its blocks can have.
        registers: Of a thread.
        shared_bytes: Of a block, without dynamic shared memory.
        constant_bytes: Of its module.
        dynamic_shared: The most bytes of dynamic shared memory of a block.
        local_bytes: Of a thread.
        ptx_version: Of its text, as 90 for 9.0.
        spec: The SMs of the card.
    """

    block_threads: int
    registers: int
    shared_bytes: int
    constant_bytes: int
    dynamic_shared: int
    local_bytes: int
    ptx_version: int
    spec: SmSpec

    def resident(self, threads: int, shared: int) -> int:
        """Return how many blocks of *threads* with *shared* bytes of dynamic shared memory an SM holds."""
        return resident_blocks(threads, self.registers, self.shared_bytes + shared, self.spec)


class PtxKernel(Launchable[...]):
    """A kernel of a module: `await kernel[grid, block, stream](*args)` launches it.

    *grid* and *block* are numbers of blocks and of threads, or up to three of them; *stream* may be left out. A fourth
    item is the number of bytes of dynamic shared memory. When the launch has ended, the completion's `work.result` has
    its findings, its times and what it has printed.
    """

    def __init__(self, module: Module, program: Program, *, hazards: bool) -> None:
        function = module.functions[program.name]
        self.name = function.name
        self.hazards = hazards
        self._module = module
        self.label = Label("kernel", Lane.COMPUTE, plain(self.name))
        self.takes = len(function.parameters)
        self._function = function
        self._program = program
        self._layout = layout(function)
        self._short = frozenset(number for number, each in enumerate(function.parameters) if each.nbytes < 8)
        self._is_cooperative = False
        self._shared_limit = 0
        self._shaped: dict[tuple[int, ...], ShapedKernel] = {}  # by shape
        self._in_lines: dict[tuple[int, int, int], ShapedKernel] = {}  # by grid, block and shared bytes: the usual ones
        self._plans: dict[Shape, Plan] = {}  # of shapes that were checked
        self._profile: DeviceProfile | None = None  # the one of these plans

    def __repr__(self) -> str:
        return f"<PTX kernel {self.label}>"

    def __getitem__(self, where: Any) -> Callable[..., Coroutine[Any, Any, Op]]:
        """`k[grid, block]`, `k[grid, block, stream]` or `k[grid, block, stream, shared]`: call it with the
        arguments.
        """
        stream, shared = None, 0
        match where if type(where) is tuple else ():
            case grid, block:
                pass
            case grid, block, stream:
                pass
            case grid, block, stream, nbytes:
                shared = integer("shared", nbytes)
            case _:
                raise TypeError(
                    f"{self!r} is launched as kernel[grid, block, stream, shared]; the last two may be left out"
                )
        if type(grid) is int and type(block) is int:
            shaped = self._in_lines.get((grid, block, shared))
            if shaped is None:
                shaped = self._in_line(grid, block, shared)
        else:
            shaped = self.shaped(*_dims("the grid", grid), *_dims("the block", block), shared)

        # A lambda has no annotations, which would be made again for each launch.
        return lambda *args, **named: LaunchKernel(
            shaped, shaped.blocks, args if not named else _without_names(self, named), stream
        )

    def _in_line(self, grid: int, block: int, shared: int) -> "ShapedKernel":
        """Return `shaped` for a grid and blocks of one direction, and keep it."""
        if len(self._in_lines) == _SHAPES:
            self._in_lines.clear()
        shaped = self._in_lines[grid, block, shared] = self.shaped(grid, 1, 1, block, 1, 1, shared)
        return shaped

    def shaped(self, *shape: int) -> "ShapedKernel":
        """Return what `LaunchKernel` takes for launches of a *shape*: blocks in each of the three directions, threads
        of a block in each, and bytes of dynamic shared memory.
        """
        shaped = self._shaped.get(shape)
        if shaped is None:
            if len(self._shaped) == _SHAPES:
                self._shaped.clear()
            shaped = self._shaped[shape] = ShapedKernel(self, Shape(shape[:3], shape[3:6], shape[6]))  # type: ignore[arg-type]
        return shaped

    @cached_property
    def without_values(self) -> Self:
        """As that of other kernels."""
        twin = self._twin()
        twin._shaped, twin._in_lines, twin._plans = {}, {}, {}
        return twin

    def cooperative(self) -> "PtxKernel":
        """Return the kernel for launches whose blocks all run at the same time, and may wait for one another.

        Stands for cuLaunchCooperativeKernel.
        """
        kernel = PtxKernel(self._module, self._program, hazards=self.hazards)
        kernel._is_cooperative, kernel._shared_limit = True, self._shared_limit
        return kernel

    @property
    def program(self) -> Program:
        """What its launches run."""
        return self._program

    def allow_shared(self, nbytes: int) -> None:
        """Let blocks have up to *nbytes* bytes of dynamic shared memory.

        Stands for cuFuncSetAttribute with CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES. Without it a block has up to
        48 KB.

        Raises:
            AclError: INVALID_VALUE if no block can have so many.
        """
        nbytes = integer("nbytes", nbytes)
        runtime = current_scope().runtime
        most = sms_of(runtime, repr(self)).block_shared - self._program.shared_bytes
        if not 0 <= nbytes <= most:
            what = f"{self!r} with {nbytes} bytes of dynamic shared memory"
            raise runtime.error(Kind.INVALID_VALUE, what, f"a block of it has 0 to {most} bytes")
        self._shared_limit = nbytes
        self._plans = {}

    @property
    def parameters(self) -> Sequence[Variable]:
        """What it takes, in the order of its arguments."""
        return self._function.parameters

    def needs(self, runtime: Runtime) -> Needs:
        """Return what it needs of the card of *runtime*."""
        spec = sms_of(runtime, repr(self))
        program, (major, minor) = self._program, self._module.version
        registers = occupancy(program, 1, 0, spec).registers
        constant = sum(each.nbytes for each in self._module.variables.values() if each.space is StateSpace.CONST)
        return Needs(
            self._most_threads(spec), registers, program.shared_bytes, constant, self._allowed_shared(spec),
            program.local_bytes, 10 * major + minor, spec,
        )  # fmt: skip

    def _most_threads(self, spec: SmSpec) -> int:
        return min(spec.block_threads, prod(self._program.limits.get("maxntid", (spec.block_threads,))))

    def _allowed_shared(self, spec: SmSpec) -> int:
        return max(spec.block_shared_static, min(self._shared_limit, spec.block_shared)) - self._program.shared_bytes

    def pack(self, runtime: Runtime, args: Sequence[Any]) -> tuple[Bytes, Sequence[Extent]]:
        """Return the parameter memory of a launch with *args*, and the memory that they point to, up to its end."""
        given: list[Extent] = []
        values = [self._value(runtime, number, arg, given) for number, arg in enumerate(args)]
        return pack(self._function, values, self._layout), given

    def setup(self, runtime: Runtime, device: Device, shape: Shape) -> Setup:
        """Return what launches of *shape* on *device* share."""
        values = runtime.values and self.has_values
        if not values and self._need is not None:
            line, what = self._need
            place = self._program.places.get(line, f"line {line}")
            text = f"{self!r} with values=False: {what} what memory holds, in {place}"
            raise runtime.error(Kind.NOT_SUPPORTED, text, "launch it in a run with values")
        latency = runtime.profile.latency
        return Setup(
            self.label, self._module, self._plan(runtime, shape), shape, runtime.memory, device.ordinal,
            latency.block + latency.kernel_drain, runtime.captures.conditions,
            hazards=self.hazards, is_cooperative=self._is_cooperative, values=values,
        )  # fmt: skip

    @cached_property
    def _need(self) -> tuple[int, str] | None:
        """The first line that needs values from memory, and what it does by them."""
        return needs_values(self._module, self._function)

    def _plan(self, runtime: Runtime, shape: Shape) -> Plan:
        """Return how launches of *shape* use the card; check the shape, if it is new."""
        profile = runtime.profile
        plan = self._plans.get(shape) if profile is self._profile else None
        if plan is None:
            spec = sms_of(runtime, repr(self))
            self._check(runtime, spec, shape)
            assert profile.library is not None, "a card with SMs has the numbers of its library"
            traffic = profile.library.traffic
            card = Card(spec, profile.cores.count, traffic.kept_bytes, traffic.lost_bytes)
            if profile is not self._profile or len(self._plans) == _SHAPES:
                self._plans, self._profile = {}, profile
            plan = self._plans[shape] = Plan(self._program, card, prod(shape.grid), prod(shape.block), shape.shared)
        return plan

    def _value(self, runtime: Runtime, number: int, arg: Any, given: list[Extent]) -> Any:
        """Return *arg* as `pack` takes it; add the memory that it points to, up to its end, to *given*."""
        if isinstance(arg, Array):
            arg = arg.buffer
        kind = type(arg)
        if kind is float or (kind is int and (0 <= arg < _LOWEST or number in self._short)):
            return arg  # it is no address
        if kind is Buffer and (held := arg.allocation).home is runtime.memory and held.space is not Space.PAGEABLE:
            given.append((held, arg.offset, held.nbytes))  # what the lines below come to, sooner
            return held.address + arg.offset
        if kind is int:
            _add_memory_at(runtime, arg, given)
            return arg
        what = f"argument {number} of {self!r}"
        if isinstance(arg, Buffer):
            allocation, offset = runtime.memory.locate(arg, 0, what)
            if allocation.space is Space.PAGEABLE:
                raise runtime.error(
                    Kind.INVALID_ADDRESS, f"{what} is {arg!r}", "the device reaches device and pinned memory only"
                )
            given.append((allocation, offset, allocation.nbytes))
            return allocation.address + offset
        parameters = self._function.parameters
        if isinstance(arg, np.ndarray) and arg.ndim and number < len(parameters) and not parameters[number].shape:
            raise runtime.error(
                Kind.INVALID_ADDRESS,
                f"{what} is a NumPy array, which is host memory that the device cannot reach",
                "copy it to a buffer of Malloc() and pass that",
            )
        if isinstance(arg, Coroutine):
            raise TypeError(f"{what} must be memory or a value, not a coroutine: await it")
        for address in _addresses_in(arg):
            _add_memory_at(runtime, address, given)
        return arg

    def _check(self, runtime: Runtime, spec: SmSpec, shape: Shape) -> None:
        """Refuse grids and blocks that the card cannot hold."""
        threads = prod(shape.block)
        if not all(1 <= n <= most for n, most in zip(shape.grid, MOST_BLOCKS, strict=True)):
            raise _invalid(
                runtime, f"{self!r} with a grid of {shape.grid}", f"launch 1 block or more, up to {MOST_BLOCKS}"
            )
        limit = self._most_threads(spec)
        if not all(1 <= n <= most for n, most in zip(shape.block, MOST_THREADS, strict=True)) or threads > limit:
            raise _invalid(
                runtime,
                f"{self!r} with blocks of {shape.block} threads",
                f"a block of this kernel has up to {limit} threads",
            )
        required = self._program.limits.get("reqntid")
        if required is not None and tuple((*required, 1, 1)[:3]) != shape.block:
            raise _invalid(runtime, f"{self!r} with blocks of {shape.block} threads", f"it is compiled for {required}")
        self._check_shared(runtime, spec, shape)
        if self._is_cooperative:
            fits = occupancy(self._program, threads, shape.shared, spec).blocks * runtime.profile.cores.count
            if prod(shape.grid) > fits:
                what = f"{self!r} with {prod(shape.grid)} blocks that wait for one another, and the card holds {fits}"
                remedy = "launch no more blocks than the card holds at the same time"
                raise runtime.error(Kind.COOPERATIVE_TOO_LARGE, what, remedy)

    def _check_shared(self, runtime: Runtime, spec: SmSpec, shape: Shape) -> None:
        allowed = self._allowed_shared(spec)
        if shape.shared < 0 or shape.shared > allowed:
            could = spec.block_shared - self._program.shared_bytes
            remedy = (
                f"call allow_shared({shape.shared}) of the kernel before" if 0 <= shape.shared <= could
                else f"a block of it has 0 to {could} bytes"
            )  # fmt: skip
            what = f"{self!r} with {shape.shared} bytes of dynamic shared memory, and {allowed} are allowed"
            raise runtime.error(Kind.INVALID_VALUE, what, remedy)


class ShapedKernel(Launchable[...]):
    """A kernel with its grid, which has so many *blocks*, and its blocks."""

    def __init__(self, kernel: PtxKernel, shape: Shape) -> None:
        self.name = kernel.name
        self.label = kernel.label
        self._kernel = kernel
        self._shape = shape
        self.blocks = prod(shape.grid)
        self._plans: dict[Shape, Plan] = {}  # those of the kernel when `_setup` was made
        self._device: Device | None = None  # for which it was made
        self._setup: Any = None
        self._launches: Any = None

    def __repr__(self) -> str:
        return repr(self._kernel)

    def work(self, runtime: Runtime, blocks: int, args: tuple[Any, ...]) -> Work:  # noqa: ARG002 - the grid says it
        """Return the work of the launch."""
        kernel = self._kernel
        device = (scope_var.get() or current_scope()).context.device
        if self._device is not device or self._plans is not kernel._plans:
            self._setup = kernel.setup(runtime, device, self._shape)
            self._device, self._plans, self._launches = device, kernel._plans, runtime.state(Launches)
        parameters, given = kernel.pack(runtime, args) if args or kernel.takes else (NOTHING, ())
        if runtime.runs_ptx:
            return DriverLaunch(self._setup, kernel.program.name, parameters, given)
        reaches = device.reaches
        return Launch(self._setup, parameters, given, [*reaches] if reaches else (), self._launches.limit_ns)


def sms_of(runtime: Runtime, what: str) -> SmSpec:
    """Return the SMs of the card of *runtime*, which *what* needs; refuse it on a card without SMs."""
    spec = runtime.profile.sm
    if spec is None:
        raise runtime.error(
            Kind.NOT_SUPPORTED,
            f"{what} needs SMs, and profile {runtime.profile.name} does not describe any",
            f"run it on one that does: {profiles_with('sm')}",
        )
    return spec


def _without_names(kernel: PtxKernel, named: Mapping[str, Any]) -> NoReturn:
    raise TypeError(f"{kernel!r} takes its arguments in their order, without names such as {next(iter(named))}")


def _invalid(runtime: Runtime, what: str, remedy: str) -> Exception:
    return runtime.error(Kind.INVALID_LAUNCH, what, remedy)


def _dims(what: str, given: Any) -> Dim3:
    """Return *given* as three numbers."""
    if type(given) is int:
        return given, 1, 1
    if type(given) is tuple and [*map(type, given)] == _INTS:
        return given
    lengths = tuple(given) if isinstance(given, tuple | list) else (given,)
    if not 1 <= len(lengths) <= 3:
        raise TypeError(f"{what} has one to three numbers, not {len(lengths)}")
    x, y, z = (*(integer(what, length) for length in lengths), *[1] * (3 - len(lengths)))
    return x, y, z


def _add_memory_at(runtime: Runtime, address: int, given: list[Extent]) -> None:
    """Add the memory behind *address*, up to its end, to *given*, if there is any."""
    holder = runtime.memory.holder(address)
    if holder is not None:
        given.append((holder, address - holder.address, holder.nbytes))


def _addresses_in(arg: Any) -> list[int]:
    """Return the numbers in an argument that may be addresses: itself, or the words of a structure."""
    if isinstance(arg, int | np.integer):
        return [int(arg)]
    if isinstance(arg, bytes | bytearray | memoryview | np.ndarray | np.void):
        held = arg.tobytes() if not isinstance(arg, bytes | bytearray) else bytes(arg)
        return [int(each) for each in np.frombuffer(held[: len(held) // 8 * 8], np.uint64)]
    return []
