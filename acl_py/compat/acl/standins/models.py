"""Models: what a model file computes, described in a sidecar beside it or registered in Python.

A model has named inputs and outputs, and a Python function that computes the outputs from the inputs. Dims may be
dynamic. A *gear* is one set of values for them, of a list that is known beforehand: the vendor's compiler makes models
for such a list. In a model without gears each execution gives its own values, in the tensor descriptions of its
dataset.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from acl_py.compat.acl.aipp import files as aipp_files
from acl_py.compat.acl.aipp.inputs import DynamicInput, Inputs, inputs_of, own_inputs
from acl_py.compat.acl.face.dtypes import DATA_TYPES
from acl_py.compat.acl.standins.arithmetic import evaluate
from device_model.dtypes import as_dtype
from device_model.library.products import BYTES
from device_model.scheduler import nanoseconds

# aclFormat by name.
FORMATS: Mapping[str, int] = {
    "NCHW": 0, "NHWC": 1, "ND": 2, "NC1HWC0": 3, "FRACTAL_Z": 4, "NC1HWC0_C04": 12, "HWCN": 16, "NDHWC": 27,
    "FRACTAL_NZ": 29, "NCDHW": 30, "NDC1HWC0": 32, "FRACTAL_Z_3D": 33, "NC": 35, "NCL": 47,
}  # fmt: skip
GEAR_INPUT = "ascend_mbatch_shape_data"  # the vendor's name for the input that says which gear
AIPP_INPUT = "ascend_dynamic_aipp_data"  # and for the one with the parameters of dynamic AIPP

Dim = int | str
Shape = tuple[int, ...]
Gear = tuple[int, ...]


def nbytes_of(dtype: npt.DTypeLike, shape: Iterable[int]) -> int:
    """How many bytes an array of that kind has."""
    return prod(shape) * as_dtype(dtype).itemsize


def doubled(names: Iterable[str]) -> str:
    """Return those of *names* that are there more than once, for a message."""
    return " and ".join(name for name, count in Counter(names).items() if count > 1)


@dataclass(frozen=True)
class Tensor:
    """One input or output of a model.

        Tensor("data", "float32", (-1, 3, 224, 224), "NCHW")

    Args:
        name: Its name; inputs and outputs of a model have different names.
        dtype: The type of its elements, as in "float32", "bfloat16" or "int64".
        dims: Its shape. A dynamic dim is -1. In an output it may also be a string with arithmetic (+ - * //): of
            "batch", of "height" and "width", or of "d0", "d1", ..., the dynamic dims of all inputs in their order.
        format: The vendor's name for the layout, as in "NCHW"; "ND" for none in particular.
        ranges: For models without gears, the least and the largest value of each dim; -1 as the largest is no limit.

    Raises:
        ValueError: A field does not fit; the message names it.
    """

    name: str
    dtype: str
    dims: tuple[Dim, ...]
    format: str = "ND"
    ranges: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise ValueError(f"name must be a string, not {self.name!r}")
        if self.dtype not in DATA_TYPES:
            raise ValueError(f"{self.name}: dtype must be one of {', '.join(DATA_TYPES)}, not {self.dtype!r}")
        if self.format not in FORMATS:
            raise ValueError(f"{self.name}: format must be one of {', '.join(FORMATS)}, not {self.format!r}")
        object.__setattr__(self, "dims", tuple(self.dims))
        object.__setattr__(self, "ranges", tuple(tuple(each) for each in self.ranges))
        for dim in self.dims:
            if not isinstance(dim, str) and (type(dim) is not int or dim < -1):
                raise ValueError(
                    f"{self.name}: each of dims must be 0 or more, -1, or arithmetic in a string, not {dim!r}"
                )
        if self.ranges and len(self.ranges) != len(self.dims):
            raise ValueError(f"{self.name}: {len(self.ranges)} ranges for {len(self.dims)} dims")

    @property
    def data_type(self) -> int:
        """Its aclDataType."""
        return DATA_TYPES[self.dtype]

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of its elements."""
        return as_dtype(self.dtype)

    @cached_property
    def shown(self) -> Shape:
        """The dims as a description has them: -1 where they are dynamic."""
        return tuple(dim if isinstance(dim, int) else -1 for dim in self.dims)

    @cached_property
    def is_dynamic(self) -> bool:
        """Whether a dim is not known beforehand."""
        return -1 in self.shown

    def takes(self, shape: Sequence[int]) -> bool:
        """Return whether it can have this shape."""
        if len(shape) != len(self.dims) or any(-1 < dim != given for dim, given in zip(self.shown, shape, strict=True)):
            return False
        return not self.ranges or all(
            low <= given and (high == -1 or given <= high)
            for (low, high), given in zip(self.ranges, shape, strict=True)
        )


@dataclass(frozen=True)
class Gears:
    """The values that the dynamic dims of a model can take: *names*, and one tuple of values per gear."""

    kind: str  # "batch", "hw" or "dims"
    values: tuple[Gear, ...]

    def __post_init__(self) -> None:
        if not self.values or any(len(gear) != len(self.names) or min(gear) < 1 for gear in self.values):
            wanted = {"batch": "numbers", "hw": "pairs of height and width", "dims": "lists of as many numbers"}
            raise ValueError(f"dynamic_{self.kind} must be a list of {wanted[self.kind]}, each 1 or more")

    @property
    def names(self) -> tuple[str, ...]:
        """What outputs may call the values."""
        if self.kind == "dims":
            return tuple(f"d{place}" for place in range(len(self.values[0])))
        return ("batch",) if self.kind == "batch" else ("height", "width")

    def inputs(self, tensors: Sequence[Tensor], gear: Gear) -> list[Shape]:
        """The shapes of the inputs in *gear*: its values stand for -1 in their order, under "dims" over all inputs,
        else within each.
        """
        shapes = []
        values = iter(gear)
        for tensor in tensors:
            if self.kind != "dims":
                values = iter(gear * len(tensor.dims))
            shapes.append(tuple(next(values) if dim == -1 else self._number(tensor, dim, gear) for dim in tensor.dims))
        return shapes

    def output(self, tensor: Tensor, gear: Gear) -> Shape:
        """The shape of one output in *gear*."""
        values = iter(gear * len(tensor.dims))
        return tuple(next(values) if dim == -1 else self._number(tensor, dim, gear) for dim in tensor.dims)

    def _number(self, tensor: Tensor, dim: Dim, gear: Gear) -> int:
        if isinstance(dim, int):
            return dim
        names = dict(zip(self.names, gear, strict=True))
        try:
            number = evaluate(dim, names)
        except ValueError as error:
            raise ValueError(f"{tensor.name}: the dim {error}") from error
        if number < 0:
            raise ValueError(f"{tensor.name}: the dim {dim!r} is {number} where {names}")
        return number


def check_precision(name: str) -> None:
    """Raise ValueError if *name* is not that of a type in which models compute."""
    if name not in BYTES:
        raise ValueError(f"precision must be one of {', '.join(BYTES)}, not {name!r}")


@dataclass(frozen=True)
class Amounts:
    """What one execution takes: the operations of its products, and the bytes that it moves. *outputs* are the shapes
    of its outputs; a dim that depends on values is -1.
    """

    flops: float
    nbytes: int
    outputs: tuple[Shape, ...]


@dataclass(frozen=True)
class Model:
    """A model: its tensors, the function that computes the outputs from the inputs, and what an execution costs.

    The fields are as in `register_model`. *cost_us* and *flops* have one number, or one for each gear. The vendor's
    converter makes models that compute in float16, also of those with inputs of float32 or uint8. *aipp* says for each
    input what AIPP makes of it, if any has AIPP; then *inputs* are what a program passes, and *compute* includes AIPP.
    A model with a graph has *counted*, which says what an execution with inputs of given shapes takes.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    compute: Callable[..., Any]
    cost_us: tuple[float, ...] = ()
    flops: tuple[float, ...] = ()
    gears: Gears | None = None
    work_size: int | None = None
    weight_size: int = 0
    content: bytes | None = None
    precision: str = "float16"
    aipp: Inputs = ()
    counted: Callable[[Sequence[Shape]], Amounts] | None = None

    def __post_init__(self) -> None:
        check_precision(self.precision)
        if not self.inputs or not self.outputs:
            raise ValueError("a model has at least one input and one output")
        names = [tensor.name for tensor in self.everything]
        if several := doubled(names):
            raise ValueError(f"inputs and outputs must have different names; more than one is named {several}")
        for name, amounts in (("cost_us", self.cost_us), ("flops", self.flops)):
            if len(amounts) > 1 and len(amounts) != len(self.gears.values if self.gears else ()):
                raise ValueError(f"{name} must be one number, or one for each gear")
            if not all(0 <= amount < inf for amount in amounts):
                raise ValueError(f"{name} must be 0 or more, and finite")
        for us in self.cost_us:
            nanoseconds("cost_us", us, 1000)
        for name, nbytes in (("work_size", self.work_size), ("weight_size", self.weight_size)):
            if nbytes is not None and (type(nbytes) is not int or nbytes < 0):
                raise ValueError(f"{name} must be a number of bytes, 0 or more, not {nbytes!r}")
        if self.cost_us and self.flops:
            raise ValueError("cost_us and flops exclude each other: give one of them")
        if self.gears is not None:
            self._check_gears(self.gears)
        elif any(isinstance(dim, str) for tensor in self.everything for dim in tensor.dims):
            raise ValueError(
                "dims may be arithmetic only in outputs, and with dynamic_batch, dynamic_hw or dynamic_dims"
            )

    def _check_gears(self, gears: Gears) -> None:
        dynamic = sum(dim == -1 for tensor in self.inputs for dim in tensor.dims)
        if not dynamic:
            raise ValueError(f"dynamic_{gears.kind} needs an input with -1 among its dims")
        if gears.kind == "dims" and dynamic != len(gears.names):
            raise ValueError(
                f"dynamic_dims has {len(gears.names)} values per gear, and the inputs have {dynamic} of -1"
            )
        if any(isinstance(dim, str) for tensor in self.inputs for dim in tensor.dims):
            raise ValueError("the dims of inputs must be numbers or -1; only those of outputs may be arithmetic")
        for gear in gears.values:
            self.output_shapes(gear)

    @cached_property
    def everything(self) -> tuple[Tensor, ...]:
        """Inputs and outputs, without the input that says the gear and those with parameters of AIPP."""
        return (*self.inputs, *self.outputs)

    @cached_property
    def described(self) -> tuple[Tensor, ...]:
        """The inputs as a description has them: with gears, one says which; parameters of dynamic AIPP come last."""
        gear = () if self.gears is None else (Tensor(GEAR_INPUT, "int64", (len(self.gears.names),)),)
        return (*self.inputs, *gear, *self.parameters)

    @cached_property
    def parameters(self) -> tuple[Tensor, ...]:
        """The inputs with the parameters of dynamic AIPP, in the order of the inputs that they belong to."""
        sizes = [each.parameter_bytes for each in self.aipp if isinstance(each, DynamicInput)]
        names = [AIPP_INPUT, *(f"{AIPP_INPUT}_{number}" for number in range(1, len(sizes)))]
        return tuple(Tensor(name, "uint8", (size,)) for name, size in zip(names, sizes, strict=False))

    def parameters_of(self, index: int) -> int | None:
        """Return which of the described inputs has the parameters of AIPP for input *index*; None if it needs none."""
        if index >= len(self.aipp) or not isinstance(self.aipp[index], DynamicInput):
            return None
        before = sum(isinstance(each, DynamicInput) for each in self.aipp[:index])
        return len(self.described) - len(self.parameters) + before

    @cached_property
    def is_free(self) -> bool:
        """Whether each execution gives its shapes: an input has a dynamic dim, and the model no gears."""
        return self.gears is None and any(tensor.is_dynamic for tensor in self.inputs)

    @cached_property
    def largest(self) -> Gear | None:
        """The gear with the largest inputs."""
        if self.gears is None:
            return None
        return max(self.gears.values, key=lambda gear: sum(map(prod, self.input_shapes(gear))))

    def with_aipp(self, operators: Sequence[aipp_files.Operator]) -> "Model":
        """Return this model with the *operators* of an AIPP file before its inputs, which are images in uint8 then.

        Raises:
            AippError: An operator does not go with an input; the message has its file and line.
        """
        aipp = inputs_of(operators, [(each.name, each.dtype, each.shown, each.format) for each in self.inputs])
        passed = tuple(
            tensor if each is None else Tensor(tensor.name, "uint8", each.dims, each.layout)
            for tensor, each in zip(self.inputs, aipp, strict=True)
        )

        def compute(*arrays: Any) -> Any:
            return self.compute(*own_inputs(aipp, arrays))

        own = self.counted

        def counted(shapes: Sequence[Shape]) -> Amounts:
            assert own is not None, "it is called if the model has a graph"
            pairs = zip(shapes, aipp, strict=True)
            return own([shape if each is None else each.wanted.dims(shape[0]) for shape, each in pairs])

        return replace(self, inputs=passed, compute=compute, aipp=aipp, counted=None if own is None else counted)

    def input_shapes(self, gear: Gear | None) -> list[Shape]:
        """The shapes of the inputs in *gear*; -1 stays where there are none."""
        return [each.shown for each in self.inputs] if gear is None else self._gears.inputs(self.inputs, gear)

    def output_shapes(self, gear: Gear | None) -> list[Shape]:
        """The shapes of the outputs in *gear*; -1 stays where there are none."""
        if gear is None:
            return [each.shown for each in self.outputs]
        if self.counted is not None:
            return list(self.counted(self.input_shapes(gear)).outputs)
        return [self._gears.output(tensor, gear) for tensor in self.outputs]

    @property
    def _gears(self) -> Gears:
        assert self.gears is not None, f"{self.name} has no gears"
        return self.gears

    def input_size(self, index: int) -> int:
        """The most bytes that an input takes; 0 if that is not known beforehand."""
        if index >= len(self.inputs):
            return nbytes_of(self.described[index].numpy, self.described[index].shown)
        return self._largest_size(self.inputs[index], [self.input_shapes(gear)[index] for gear in self._settings])

    def output_size(self, index: int) -> int:
        """The most bytes that an output takes; 0 if that is not known beforehand."""
        return self._largest_size(self.outputs[index], [self.output_shapes(gear)[index] for gear in self._settings])

    @property
    def _settings(self) -> Sequence[Gear | None]:
        return (None,) if self.gears is None else self.gears.values

    def _largest_size(self, tensor: Tensor, shapes: Sequence[Shape]) -> int:
        return max(0 if -1 in shape else nbytes_of(tensor.numpy, shape) for shape in shapes)

    @property
    def work_bytes(self) -> int:
        """Bytes of device memory between inputs and outputs."""
        if self.work_size is not None:
            return self.work_size
        inputs = sum(self.input_size(index) for index in range(len(self.inputs)))
        return inputs + sum(self.output_size(index) for index in range(len(self.outputs)))

    def amount(self, amounts: Sequence[float], gear: Gear | None) -> float:
        """Return the one of *amounts* that holds in *gear*."""
        return amounts[self._gears.values.index(gear)] if gear is not None and len(amounts) > 1 else amounts[0]


_registered: dict[str, Model] = {}  # by path or file name


def register_model(
    file_name: str | Path,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    *,
    cost_us: float | Sequence[float] | None = None,
    flops: float | Sequence[float] | None = None,
    dynamic_batch: Sequence[int] = (),
    dynamic_hw: Sequence[Sequence[int]] = (),
    dynamic_dims: Sequence[Sequence[int]] = (),
    work_size: int | None = None,
    weight_size: int = 0,
    content: bytes | None = None,
    precision: str = "float16",
    aipp: str | Path | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Say in Python what a model file computes; it needs no sidecar then.

        @register_model("net.om", [Tensor("data", "float32", (1, 3))], [Tensor("sum", "float32", (1,))], cost_us=20)
        def net(data):
            return data.sum(axis=1)

    The function gets a read-only NumPy array for each input. It returns an array for each output: one by itself,
    several as a tuple. A second registration of a file replaces the first.

    Args:
        file_name: A path, or a bare name, which stands for a file of that name in any folder.
        inputs: The inputs, in their order.
        outputs: The outputs, in their order.
        cost_us: The time of an execution in microseconds; with gears it may be a list of one number for each.
        flops: The number of operations of an execution, as an alternative to *cost_us*: the time is that of the card's
            cubes at the rate of large products (`library.products` of the profile). Without either, an execution takes
            the time to move its bytes.
        dynamic_batch: The batch sizes that -1 in the dims stands for.
        dynamic_hw: The pairs of height and width that -1 in the dims stands for.
        dynamic_dims: Lists of values for all -1 of the inputs, in their order. At most one of these three is given.
        work_size: Bytes of device memory between inputs and outputs; by default as many as both take.
        weight_size: Bytes of device memory for the weights.
        content: The bytes of the model file, for scripts that load it from memory.
        precision: The type that the model computes in, for *flops*: "float16", "bfloat16", "float32", "tf32" or "int8".
        aipp: A file of AIPP, as `atc --insert_op_conf` takes it. Programs then pass images in uint8 for the inputs that
            it is about; *inputs* stay those of the function.

    Returns:
        A decorator, which returns the function unchanged.

    Raises:
        ValueError: The arguments do not fit together; the message names the one that does not.
    """

    def register(compute: Callable[..., Any]) -> Callable[..., Any]:
        model = Model(
            Path(file_name).stem,
            tuple(inputs),
            tuple(outputs),
            compute,
            amounts(cost_us),
            amounts(flops),
            gears(dynamic_batch, dynamic_hw, dynamic_dims),
            work_size,
            weight_size,
            content,
            precision,
        )
        _registered[str(file_name)] = model if aipp is None else model.with_aipp(aipp_files.read(aipp))
        return compute

    return register


def unregister_model(file_name: str | Path) -> None:
    """Undo `register_model` for *file_name*, which must be written as it was there.

    Raises:
        KeyError: Nothing was registered under this name.
    """
    del _registered[str(file_name)]


def registered(path: str) -> Model | None:
    """The model that was registered for *path*, or for a file of its name."""
    model = _registered.get(path)
    return _registered.get(Path(path).name) if model is None else model


def registered_with(content: bytes) -> Model | None:
    """The model that was registered with this content of its file."""
    return next((model for model in _registered.values() if model.content == content), None)


def amounts(given: float | Sequence[float] | None) -> tuple[float, ...]:
    """Return the numbers as a tuple, which is empty for None."""
    if given is None:
        return ()
    try:
        return (float(given),) if isinstance(given, int | float) else tuple(float(each) for each in given)
    except OverflowError as error:
        raise ValueError(f"an amount is too large: {error}") from error


def gears(batch: Sequence[int], hw: Sequence[Sequence[int]], dims: Sequence[Sequence[int]]) -> Gears | None:
    """Return the gears of a model, or None; only one of the three kinds may be given."""
    given: dict[str, tuple[Gear, ...]] = {
        "batch": tuple((each,) for each in batch),
        "hw": tuple(tuple(each) for each in hw),
        "dims": tuple(tuple(each) for each in dims),
    }
    kinds = [kind for kind, values in given.items() if values]
    if len(kinds) > 1:
        raise ValueError(f"a model can have only one of {', '.join(f'dynamic_{kind}' for kind in kinds)}")
    return Gears(kinds[0], given[kinds[0]]) if kinds else None


def with_weights(model: Model, nbytes: int) -> Model:
    """Return *model* with *nbytes* bytes of weights, unless it already has a size of weights."""
    return model if model.weight_size else replace(model, weight_size=nbytes)
