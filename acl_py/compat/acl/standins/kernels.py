"""Kernels of binaries: what their arguments are, and the Python functions that run in their place.

A script gives a kernel its arguments as bytes: one after the other, each at a multiple of 8 bytes, memory by its
address. The binary cannot be read here, so the parameters are declared, in the sidecar of the binary (kernel_files.py)
or in Python:

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

The function gets arrays and numbers and writes to its outputs. A kernel of acl_py.asc or of acl_py works as well.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter as Argument
from inspect import signature
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from acl_py.compat.acl.face.dtypes import DATA_TYPES
from acl_py.compat.acl.face.tracebacks import traceback_text
from acl_py.compat.acl.standins.arithmetic import evaluate
from acl_py.compat.acl.standins.computations import warn
from acl_py.compat.acl.standins.models import Dim, Shape, doubled
from acl_py.errors import Kind
from acl_py.runtime.runtime import Runtime
from acl_py.verbs.arrays import Access, Array
from acl_py.verbs.kernels import Cost, KernelFunction, Launchable
from device_model.dtypes import as_dtype
from device_model.errors import INTERRUPTS, DeviceError
from device_model.memory import Buffer
from device_model.work import Kernel, Label, Lane

ALIGNMENT = 8  # of each argument on an AI core
POINTER = np.dtype("<u8")
_ACCESSES: Mapping[str, Access] = {"in": Access.IN, "out": Access.OUT, "inout": Access.IN_OUT}

Amount = float | str


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel: a pointer to memory if it has an access, otherwise a value.

        Parameter("x", "float16", "in", ("length",))  # memory
        Parameter("length", "uint32")  # a value

    Args:
        name: Its name, which dims and costs may use if it is a whole number.
        dtype: The type of its elements, as in "float16" or "int32".
        access: What the kernel does with the memory: "in", "out" or "inout"; None for a value. "out" memory with dims
            is fully overwritten: elements that the kernel does not write hold poison afterwards.
        dims: The shape of the memory: numbers, or arithmetic (+ - * //) in strings. Without dims the memory has one
            dimension and ends where its allocation ends. For a value: it is that many numbers, and the kernel gets a
            tuple.

    Raises:
        ValueError: A field does not fit; the message names it.
    """

    name: str
    dtype: str
    access: str | None = None
    dims: tuple[Dim, ...] | None = None

    def __post_init__(self) -> None:
        if self.dtype not in DATA_TYPES:
            raise ValueError(f"{self.name}: dtype must be one of {', '.join(DATA_TYPES)}, not {self.dtype!r}")
        if self.access is not None and self.access not in _ACCESSES:
            raise ValueError(f'{self.name}: access must be "in", "out" or "inout", or be left out, not {self.access!r}')
        if self.dims is None:
            return
        object.__setattr__(self, "dims", tuple(self.dims))
        for dim in self.dims:
            if not (isinstance(dim, str) and self.access) and (type(dim) is not int or dim < 0):
                what = "0 or more, or arithmetic in a string" if self.access else "a number, 0 or more"
                raise ValueError(f"{self.name}: each of dims must be {what}, not {dim!r}")

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of its elements."""
        return as_dtype(self.dtype)

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
        """Whether it is a whole number, so that dims and costs may name it."""
        return self.access is None and self.dims is None and self.numpy.kind in "iu"

    def shape(self, numbers: Mapping[str, int]) -> Shape | None:
        """The shape of its memory, where the whole numbers among the arguments are these; None: what there is."""
        if self.dims is None:
            return None
        shape = tuple(dim if isinstance(dim, int) else evaluate(dim, numbers) for dim in self.dims)
        if any(length < 0 for length in shape):
            raise ValueError(f"shape {shape}")
        return shape


class ArrayKernel(KernelFunction[...]):
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
            return self.prepare_body(runtime, blocks, args)[0]
        except ValueError as error:  # of arithmetic with these very numbers
            what = f"{self!r} has an impossible cost: {error}"
            raise runtime.error(Kind.INVALID_VALUE, what, "correct the cost, or check the arguments") from error

    def _as_array(self, runtime: Runtime, name: str, arg: Any) -> Array | None:  # noqa: ARG002 - of the base class
        return arg if isinstance(arg, Array) else None  # a number that looks like an address is a number

    def _compute(self, *args: Any) -> None:
        try:
            if self._called(*args) is not None:
                raise TypeError(f"{self.name} returned a value; a kernel writes to its outputs instead: z[...] = x + y")
        except (DeviceError, *INTERRUPTS):
            raise
        except BaseException as error:
            warn(f"kernel {self.name} failed: {error}", traceback_text(error))
            raise


@dataclass(frozen=True, eq=False)
class BinaryKernel:
    """One kernel of a binary: what runs in its place, and where its arguments lie.

    *in_place* is the same where outputs lie over inputs, as they may on a card: nothing is lost before it is read.
    """

    name: str
    parameters: tuple[Parameter, ...]
    launchable: Launchable[...]
    in_place: Launchable[...]

    def launchable_for(self, values: Sequence[Any]) -> Launchable[...]:
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


def _keeping(
    kernel: Launchable[...], parameters: Sequence[Parameter], keeps: Callable[[Parameter], bool]
) -> Launchable[...]:
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
    """Make *compute* the kernel *name*; the arguments are as in `register_kernel`.

    Raises:
        ValueError: *compute* does not fit *parameters*, or its costs.
    """
    parameters = tuple(parameters)
    names = [each.name for each in parameters]
    if several := doubled(names):
        raise ValueError(f"{name}: parameters must have different names; more than one is named {several}")
    ones = {each.name: 1 for each in parameters if each.is_whole_number}
    for each in parameters:
        for dim in each.dims or ():
            if isinstance(dim, str):
                _check(f"{name}: {each.name}: the dim", dim, ones)
    if isinstance(compute, Launchable):
        _check_annotations(name, compute, parameters)
        if cost_us is not None or flops is not None:
            raise ValueError(f"{name}: {compute!r} has its own cost; leave out cost_us and flops")
        kernel: Launchable[...] = compute
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


def _check_annotations(name: str, kernel: Launchable[...], parameters: Sequence[Parameter]) -> None:
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
    """Say in Python what a kernel of a binary computes; the binary needs no sidecar then.

        @register_kernel("add_custom.o", [Parameter("x", "float16", "inout"), Parameter("step", "float32")], cost_us=12)
        def add_custom(x, step):
            x += step

    The function gets a NumPy array for memory, None for a null pointer and a number for a value. It writes to its
    outputs and returns nothing. A kernel made with `acl_py.asc.kernel` or `acl_py.kernel` may be registered instead. A
    second registration of a kernel replaces the first.

    Args:
        file_name: A path, or a bare name, which stands for a file of that name in any folder.
        parameters: The parameters, in their order.
        name: The name that binary_get_function() asks for; by default that of the function.
        cost_us: The time of each block in microseconds, a number or arithmetic with the parameters that are whole
            numbers.
        flops: The number of operations of a launch, as an alternative to *cost_us*. Without either, a launch takes the
            time to move its bytes. Kernels of acl_py have their own costs, and take neither.
        content: The bytes of the binary, for scripts that load it from memory.

    Returns:
        A decorator, which returns the function unchanged.

    Raises:
        ValueError: The function, the parameters and the costs do not fit together.
    """

    def register(compute: Any) -> Any:
        if not callable(compute):
            raise ValueError(f"{compute!r} is not callable")
        called = name or (compute.name if isinstance(compute, Launchable) else getattr(compute, "__name__", None))
        if called is None:
            raise ValueError(f"{compute!r} has no name; pass the name that binary_get_function() asks for")
        kernel = binary_kernel(called, parameters, compute, cost_us, flops)
        known = _registered.setdefault(str(file_name), _Registered({}))
        known.kernels[called] = kernel
        known.content = known.content if content is None else content
        return compute

    return register


def unregister_kernel(file_name: str | Path) -> None:
    """Undo `register_kernel` for all kernels of *file_name*, which must be written as it was there.

    Raises:
        KeyError: No kernel was registered under this name.
    """
    del _registered[str(file_name)]


def registered(path: str) -> dict[str, BinaryKernel] | None:
    """The kernels that were registered for the file *path*, or for a file of its name."""
    known = _registered.get(path) or _registered.get(Path(path).name)
    return None if known is None else dict(known.kernels)


def registered_with(content: bytes) -> dict[str, BinaryKernel] | None:
    """The kernels that were registered with this content of their file."""
    return next((dict(each.kernels) for each in _registered.values() if each.content == content), None)
