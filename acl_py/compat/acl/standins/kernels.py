"""Kernels of binaries: what their arguments are, and the Python functions that run in their place.

A script hands a kernel its arguments as bytes: one after the other, each at a multiple of 8 bytes, memory by its
address. What they mean stands in no binary that could be read here, so each kernel says it, in the sidecar of its
binary (kernel_files.py) or in Python:

    @register_kernel(
        "add_custom.o",
        [
            Parameter("x", "float16", "in", ("length",)),
            Parameter("y", "float16", "in", ("length",)),
            Parameter("z", "float16", "out", ("length",)),
            Parameter("length", "uint32"),
        ],
        cost_us=12,
    )
    def add_custom(x, y, z, length):
        z[...] = x + y

The function gets arrays and numbers and writes to its outputs. It may be a kernel of acl_py.asc as well, or of acl_py.
"""

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter as Argument
from inspect import signature
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from acl_py.compat.acl.face.dtypes import DTYPES
from acl_py.compat.acl.standins.arithmetic import evaluate
from acl_py.compat.acl.standins.computations import warn
from acl_py.compat.acl.standins.models import DATA_TYPES, Dim, Shape
from acl_py.errors import Kind
from acl_py.runtime.runtime import Runtime
from acl_py.verbs.arrays import Access, Array
from acl_py.verbs.kernels import Cost, KernelFunction, Launchable
from device_model.errors import INTERRUPTS, DeviceError
from device_model.memory import Buffer
from device_model.work import Kernel, Label, Lane

ALIGNMENT = 8  # of each argument on an AI core
POINTER = np.dtype("<u8")
_ACCESSES: Mapping[str, Access] = {"in": Access.IN, "out": Access.OUT, "inout": Access.IN_OUT}

Amount = float | str


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel: a pointer to memory if it has an *access* ("in", "out" or "inout"), else a value.

    *dims* are the shape of the memory, numbers or arithmetic (+ - * //) with the names of parameters that are whole
    numbers; without them the memory is one-dimensional and goes up to the end of its allocation. "out" memory with dims
    is fully overwritten: what the kernel leaves out holds poison. A value with dims is as many numbers, and the kernel
    gets a tuple.
    """

    name: str
    dtype: str
    access: str | None = None
    dims: tuple[Dim, ...] | None = None

    def __post_init__(self) -> None:
        if self.dtype not in DATA_TYPES:
            raise ValueError(f"{self.name}: dtype must be one of {', '.join(DATA_TYPES)}, not {self.dtype!r}")
        if self.access is not None and self.access not in _ACCESSES:
            raise ValueError(f'{self.name}: access is "in", "out" or "inout", or is left out, not {self.access!r}')
        if self.dims is None:
            return
        object.__setattr__(self, "dims", tuple(self.dims))
        for dim in self.dims:
            if not (isinstance(dim, str) and self.access) and (type(dim) is not int or dim < 0):
                what = "numbers or texts" if self.access else "numbers"
                raise ValueError(f"{self.name}: dims are {what}, not {dim!r}")

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of its elements."""
        return DTYPES[DATA_TYPES[self.dtype]]

    @property
    def count(self) -> int:
        """How many numbers a value is."""
        return prod(dim for dim in self.dims or () if isinstance(dim, int))

    @property
    def nbytes(self) -> int:
        """How much of the arguments it takes."""
        return POINTER.itemsize if self.access else self.numpy.itemsize * self.count

    @property
    def is_whole_number(self) -> bool:
        """May dims and costs name it?"""
        return self.access is None and self.dims is None and self.numpy.kind in "iu"

    def shape(self, numbers: Mapping[str, int]) -> Shape | None:
        """The shape of its memory, where the whole numbers among the arguments are these; None: what there is."""
        if self.dims is None:
            return None
        shape = tuple(dim if isinstance(dim, int) else evaluate(dim, numbers) for dim in self.dims)
        if any(length < 0 for length in shape):
            raise ValueError(f"shape {shape}")
        return shape


class ArrayKernel(KernelFunction):
    """Any callable as a kernel: once per launch, on an AI core per block; *parameters* say what annotations would."""

    def __init__(self, name: str, function: Callable[..., object], parameters: Sequence[Parameter], cost: Cost) -> None:
        # Not super().__init__(), which reads the annotations, and takes plain functions only.
        self.name = name
        self.label = Label("kernel", Lane.COMPUTE, name)
        self.function = self._compute
        self.cost = cost
        self.per_block, self.exclusive, self.serial = False, True, True
        self._called = function
        self._names = tuple(each.name for each in parameters)
        self._accesses = tuple(_ACCESSES[each.access] if each.access else Access.IN for each in parameters)

    def work(self, runtime: Runtime, blocks: int, args: tuple[Any, ...]) -> Kernel:
        """What a launch with these arguments does; never remembered, for its arrays are made for the one launch."""
        try:
            return self._prepare(runtime, blocks, args)[0]
        except ValueError as error:  # of arithmetic with these very numbers
            what = f"{self!r} has a cost that cannot be: {error}"
            raise runtime.error(Kind.INVALID_VALUE, what, "mend the cost, or check the arguments") from error

    def _as_array(self, runtime: Runtime, name: str, arg: Any) -> Array | None:  # noqa: ARG002 - of the base class
        return arg if isinstance(arg, Array) else None  # a number that looks like an address is a number

    def _compute(self, *args: Any) -> None:
        try:
            if self._called(*args) is not None:
                raise TypeError(f"{self.name} returns something; it writes to its outputs: z[...] = x + y")
        except (DeviceError, *INTERRUPTS):
            raise
        except BaseException as error:
            warn(f"kernel {self.name} failed: {error}", traceback.format_exc().rstrip())
            raise


@dataclass(frozen=True, eq=False)
class BinaryKernel:
    """One kernel of a binary: what runs in its place, and where its arguments lie.

    *in_place* is the same where outputs lie over inputs, as they may on a card: nothing is lost before it is read.
    """

    name: str
    parameters: tuple[Parameter, ...]
    launchable: Launchable
    in_place: Launchable

    def launchable_for(self, values: Sequence[Any]) -> Launchable:
        """What is launched with these arguments."""
        arrays = [
            (each.access, value)
            for each, value in zip(self.parameters, values, strict=True)
            if isinstance(value, Array)
        ]
        read = [array for access, array in arrays if access != "out"]
        written = [array for access, array in arrays if access == "out"]
        return self.in_place if any(_overlap(one, other) for one in written for other in read) else self.launchable

    @cached_property
    def offsets(self) -> list[int]:
        """Where each argument begins, and where the last one ends."""
        offsets = [0]
        for parameter in self.parameters:
            start = offsets[-1] = -(-offsets[-1] // ALIGNMENT) * ALIGNMENT
            offsets.append(start + parameter.nbytes)
        return offsets

    @property
    def nbytes(self) -> int:
        """How many bytes the arguments take."""
        return self.offsets[-1]

    def arguments(self, runtime: Runtime, block: bytes, held: Mapping[int, Buffer]) -> tuple[Any, ...]:
        """The arguments in *block* as a launch takes them: an Array for memory, None for a null pointer, numbers.

        Instead of the address at a place that *held* names there is that memory, which came with the arguments.

        Raises:
            AclError: there are too few bytes, or no such memory.
        """
        *offsets, _ = self.offsets
        if len(block) < self.nbytes:
            raise runtime.error(
                Kind.INVALID_VALUE,
                f"{self.name} takes {self.nbytes} bytes of arguments, and got {len(block)}",
                f"pass {', '.join(each.name for each in self.parameters)}, each at a multiple of {ALIGNMENT} bytes",
            )
        numbers: dict[str, int] = {}
        values: list[Any] = []
        for parameter, offset in zip(self.parameters, offsets, strict=True):
            if parameter.access:
                values.append(int(np.frombuffer(block, POINTER, 1, offset)[0]))
                continue
            read = np.frombuffer(block, parameter.numpy, parameter.count, offset).tolist()
            values.append(read[0] if parameter.dims is None else tuple(read))
            if parameter.is_whole_number:
                numbers[parameter.name] = read[0]
        return tuple(
            self._memory(runtime, parameter, value, held.get(offset), numbers) if parameter.access else value
            for parameter, offset, value in zip(self.parameters, offsets, values, strict=True)
        )

    def _memory(
        self, runtime: Runtime, parameter: Parameter, address: int, held: Buffer | None, numbers: Mapping[str, int]
    ) -> Array | None:
        if not address and held is None:
            return None
        role = f"argument {parameter.name} of kernel {self.name}"
        try:
            shape = parameter.shape(numbers)
        except ValueError as error:
            given = ", ".join(f"{name} = {number}" for name, number in numbers.items())
            what = f"{role} has dims {list(parameter.dims or ())}: {error}"
            raise runtime.error(Kind.INVALID_VALUE, what, f"check {given or 'them'}") from error
        itemsize = parameter.numpy.itemsize
        nbytes = 0 if shape is None else prod(shape) * itemsize
        if held is None:
            allocation, offset = runtime.memory.locate(address, nbytes, role)
            held = Buffer(allocation, offset, allocation.nbytes - offset)
        elif held.nbytes < nbytes:
            what = f"{role} takes {nbytes} bytes, and its placeholder has {held.nbytes}"
            raise runtime.error(Kind.INVALID_VALUE, what, "ask kernel_args_get_place_holder_buffer() for as many")
        return Array(held, parameter.numpy, held.nbytes // itemsize if shape is None else shape)


def _overlap(one: Array, other: Array) -> bool:
    mine, theirs = one.buffer, other.buffer
    return (
        mine.allocation is theirs.allocation
        and mine.offset < theirs.offset + other.nbytes
        and theirs.offset < mine.offset + one.nbytes
    )


def _keeping(kernel: Launchable, parameters: Sequence[Parameter], keeps: Callable[[Parameter], bool]) -> Launchable:
    """*kernel*, but those outputs that it *keeps* it does not promise to overwrite."""
    accesses = tuple(
        Access.IN_OUT if access is Access.OUT and keeps(each) else access
        for each, access in zip(parameters, kernel._accesses, strict=True)
    )
    if accesses == kernel._accesses:
        return kernel
    twin = object.__new__(type(kernel))
    vars(twin).update(vars(kernel), _accesses=accesses)
    return twin


def binary_kernel(
    name: str,
    parameters: Iterable[Parameter],
    compute: Callable[..., object],
    cost_us: Amount | None = None,
    flops: Amount | None = None,
) -> BinaryKernel:
    """Make *compute* the kernel *name*; ValueError if it does not fit *parameters*.

    A launch costs *cost_us* microseconds for each of its blocks, or as long as *flops* operations take on the cores
    that it has, or without either as long as it takes to move its bytes. Both may be arithmetic, as dims are. Kernels
    of acl_py.asc and acl_py have costs of their own.
    """
    parameters = tuple(parameters)
    names = [each.name for each in parameters]
    if len(set(names)) < len(names):
        raise ValueError(f"{name}: parameters must have names of their own, not {', '.join(names)}")
    ones = {each.name: 1 for each in parameters if each.is_whole_number}
    for each in parameters:
        for dim in each.dims or ():
            if isinstance(dim, str):
                _check(f"{name}: {each.name}: the dim", dim, ones)
    if isinstance(compute, Launchable):
        _check_annotations(name, compute, parameters)
        if cost_us is not None or flops is not None:
            raise ValueError(f"{name}: {compute!r} has a cost of its own")
        kernel: Launchable = compute
    else:
        _check_arguments(name, compute, names)
        amounts = {
            kind: _amount(f"{name}: {kind}", amount, names, ones)
            for kind, amount in (("us", cost_us), ("flops", flops))
            if amount is not None
        }
        kernel = ArrayKernel(name, compute, parameters, Cost(**amounts))
    kernel = _keeping(kernel, parameters, lambda each: each.dims is None)  # what lies behind may be somebody else's
    return BinaryKernel(name, parameters, kernel, _keeping(kernel, parameters, lambda _: True))


def _check(what: str, text: str, names: Mapping[str, int]) -> None:
    """Refuse arithmetic that can never be done; with numbers that are not known yet it may still divide by 0."""
    try:
        evaluate(text, names)
    except ValueError as error:
        if not isinstance(error.__cause__, ZeroDivisionError):
            raise ValueError(f"{what} {error}") from error


def _check_annotations(name: str, kernel: Launchable, parameters: Sequence[Parameter]) -> None:
    if len(kernel._names) != len(parameters):
        raise ValueError(f"{name}: {kernel!r} takes {len(kernel._names)} arguments, and {len(parameters)} are declared")
    for parameter, theirs in zip(parameters, kernel._accesses, strict=True):
        if _ACCESSES[parameter.access or "inout"] is not theirs:  # which is what no annotation stands for
            known = next(word for word, access in _ACCESSES.items() if access is theirs)
            mine = f'access "{parameter.access}"' if parameter.access else "no access"
            raise ValueError(f'{name}: {parameter.name} has {mine}, and {kernel!r} declares it "{known}"')


def _check_arguments(name: str, function: Callable[..., object], names: Sequence[str]) -> None:
    try:
        taken = signature(function)
    except (TypeError, ValueError):  # of a builtin, which says nothing
        return
    try:
        taken.bind(*names)
    except TypeError as error:
        kinds = (Argument.POSITIONAL_ONLY, Argument.POSITIONAL_OR_KEYWORD)
        takes = ", ".join(each.name for each in taken.parameters.values() if each.kind in kinds)
        raise ValueError(f"{name}: the function takes ({takes}), and is called with ({', '.join(names)})") from error


def _amount(what: str, amount: Amount, names: Sequence[str], ones: Mapping[str, int]) -> Any:
    """A cost as `Cost` takes it."""
    if isinstance(amount, int | float):
        return amount
    text = amount
    _check(what, text, ones)

    def of(*args: Any) -> int:
        return evaluate(text, dict(zip(names, args, strict=True)))

    return of


# --- in Python


@dataclass
class _Registered:
    kernels: dict[str, BinaryKernel]
    content: bytes | None = None


_registered: dict[str, _Registered] = {}  # by path or file name


def register_kernel(
    file_name: str | Path,
    parameters: Iterable[Parameter],
    *,
    name: str | None = None,
    cost_us: Amount | None = None,
    flops: Amount | None = None,
    content: bytes | None = None,
) -> Callable[[Any], Any]:
    """Let the decorated function, or kernel, be one of the binary of this file name; no sidecar is needed then.

    *file_name* is a path, or a bare name, which stands for a file of that name wherever it lies. The kernel is asked
    for as *name*, by default that of the function. A second registration of a name takes the place of the first.
    *content* is what the file holds, for those who load it from memory. Costs are as in `binary_kernel`. ValueError if
    anything does not fit together.
    """

    def register(compute: Any) -> Any:
        if not callable(compute):
            raise ValueError(f"{compute!r} cannot be called")
        called = name or (compute.name if isinstance(compute, Launchable) else getattr(compute, "__name__", None))
        if called is None:
            raise ValueError(f"{compute!r} has no name: say which one binary_get_function() is asked for")
        kernel = binary_kernel(called, parameters, compute, cost_us, flops)
        known = _registered.setdefault(str(file_name), _Registered({}))
        known.kernels[called] = kernel
        known.content = known.content if content is None else content
        return compute

    return register


def unregister_kernel(file_name: str | Path) -> None:
    """Take back what `register_kernel` did for all kernels of this file; KeyError if there was none."""
    del _registered[str(file_name)]


def registered(path: str) -> dict[str, BinaryKernel] | None:
    """The kernels that were registered for the file *path*, or for a file of its name."""
    known = _registered.get(path) or _registered.get(Path(path).name)
    return None if known is None else dict(known.kernels)


def registered_with(content: bytes) -> dict[str, BinaryKernel] | None:
    """The kernels that were registered with this content of their file."""
    return next((dict(each.kernels) for each in _registered.values() if each.content == content), None)
