"""Inputs with AIPP: what a program passes in place of an input of a model, and how that becomes the model's input.

A `StaticInput` has its settings from a file, a `DynamicInput` those of each execution. Both are made for the dims,
the layout and the type that the model itself has.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from acl_py.compat.acl.aipp import parameters
from acl_py.compat.acl.aipp.files import Operator
from acl_py.compat.acl.aipp.parameters import Parameters
from acl_py.compat.acl.aipp.pixels import AippError, Area, Bytes, Source, process

_TYPES = ("uint8", "int8", "float16", "float32")
_CHANNELS = (1, 3, 4)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The input that a model itself has: images by rows (NHWC) or by channels (NCHW), *count* of them or, if it is -1,
    any number.
    """

    name: str
    dtype: str
    by_rows: bool
    count: int
    channels: int
    height: int
    width: int

    @classmethod
    def of(cls, name: str, dtype: str, dims: Sequence[int], layout: str) -> "Wanted":
        """Return the input of these *dims*; *layout* is "NCHW", "NHWC" or, for none in particular, "ND". "ND" stands
        for the one in which the number of channels is 1, 3 or 4.

        Raises:
            AippError: They are no images.
        """
        if dtype not in _TYPES:
            raise AippError(f"input {name} is {dtype}; AIPP gives {', '.join(_TYPES)}")
        if len(dims) != 4 or layout not in ("NCHW", "NHWC", "ND"):
            raise AippError(f"input {name} has dims {list(dims)} in {layout}; AIPP is for images in NCHW or NHWC")
        by_rows = layout == "NHWC" or (layout == "ND" and dims[1] not in _CHANNELS and dims[3] in _CHANNELS)
        count, *rest = dims
        height, width, channels = rest if by_rows else (*rest[1:], rest[0])
        if channels not in _CHANNELS:
            raise AippError(f"input {name} has {channels} channels in {list(dims)}; AIPP gives 1, 3 or 4")
        return cls(name, dtype, by_rows, count, channels, height, width)

    def dims(self, count: int) -> tuple[int, ...]:
        """Return the dims that the model itself has; *count* is the number of images where it is not fixed."""
        count = count if self.count == -1 else self.count
        if self.by_rows:
            return count, self.height, self.width, self.channels
        return count, self.channels, self.height, self.width

    def laid_out(self, images: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return *images*, which are by rows, as the model wants them."""
        return images if self.by_rows else np.ascontiguousarray(images.transpose(0, 3, 1, 2))

    def check(self, width: int, height: int) -> None:
        """Raise AippError unless images of this size are those of the model."""
        if (width, height) != (self.width, self.height):
            what = f"AIPP makes images of {width}x{height} pixels, and input {self.name} takes {self.width}x"
            raise AippError(f"{what}{self.height}; change the source, the area to cut out or the border")


@dataclass(frozen=True, slots=True)
class StaticInput:
    """An input whose settings a file gives. The program passes the bytes of images of *source*."""

    wanted: Wanted
    source: Source
    area: Area

    @classmethod
    def of(cls, operator: Operator, wanted: Wanted) -> "StaticInput":
        """Return what *operator* makes of the input *wanted*.

        Raises:
            AippError: They do not go together; the message has the file and the line.
        """
        try:
            if min(wanted.height, wanted.width) < 1:
                what = f"input {wanted.name} has no fixed height and width, and static AIPP needs them here"
                raise AippError(f"{what}; use dynamic AIPP, or fixed dims")
            top, bottom, left, right = operator.border
            size = wanted.width - left - right, wanted.height - top - bottom
            source = operator.source(*size)
            area = operator.area(*size)
            source.check()
            area.check(source)
            wanted.check(*area.size(source))
            channels = 3 if source.colours else source.format.channels
            if channels < wanted.channels:
                what = f"input {wanted.name} takes {wanted.channels} channels"
                raise AippError(f"{what}, and {source.format.name} gives {channels}")
        except AippError as error:
            raise AippError(f"{operator.place}: {error}") from None
        return cls(wanted, source, area)

    @property
    def layout(self) -> str:
        """The layout of what the program passes."""
        return "NHWC"

    @property
    def dims(self) -> tuple[int, ...]:
        """The dims of what the program passes, in uint8; their product is its number of bytes."""
        return self.wanted.count, *self.source.format.dims(self.source.width, self.source.height)

    @property
    def image_dims(self) -> tuple[int, ...]:
        """The dims of the images that the program passes, by rows: with as many channels as pixels have."""
        return self.wanted.count, self.source.height, self.source.width, self.source.format.channels

    def __call__(self, data: Bytes) -> npt.NDArray[Any]:
        """Return the model's input of the bytes *data*."""
        count = data.size // self.source.nbytes if self.wanted.count == -1 else self.wanted.count
        dtype = np.dtype(self.wanted.dtype)
        return self.wanted.laid_out(process(data, self.source, [self.area] * count, self.wanted.channels, dtype))


@dataclass(frozen=True, slots=True)
class DynamicInput:
    """An input whose settings each execution gives. The program passes the bytes of images, *largest* at most, and the
    parameters as another input.
    """

    wanted: Wanted
    largest: int

    @classmethod
    def of(cls, operator: Operator, wanted: Wanted) -> "DynamicInput":
        """Return what *operator* makes of the input *wanted*.

        Raises:
            AippError: They do not go together; the message has the file and the line.
        """
        if not 1 <= wanted.count <= parameters.MOST_IMAGES:
            what = f"input {wanted.name} has {wanted.count} images"
            raise AippError(f"{operator.place}: {what}; dynamic AIPP takes 1 to {parameters.MOST_IMAGES}, and no gears")
        return cls(wanted, operator.largest)

    @property
    def layout(self) -> str:
        """The layout of what the program passes: each execution says it."""
        return "ND"

    @property
    def dims(self) -> tuple[int, ...]:
        """The dims of what the program passes, in uint8."""
        return (self.largest,)

    @property
    def parameter_bytes(self) -> int:
        """The bytes of the parameters."""
        return parameters.size(self.wanted.count)

    def check(self, settings: Parameters) -> None:
        """Raise AippError if *settings* are not for this input."""
        if len(settings.parts) != self.wanted.count:
            what = f"the parameters are for {len(settings.parts)} images, and input {self.wanted.name} takes"
            raise AippError(f"{what} {self.wanted.count}; pass that number to acl.mdl.create_aipp()")
        settings.check()
        source, areas = settings.source, settings.areas
        if source.nbytes * len(areas) > self.largest:
            what = f"{len(areas)} images of {source.width}x{source.height} in {source.format.name} have"
            raise AippError(f"{what} {source.nbytes * len(areas)} bytes; max_src_image_size is {self.largest}")
        self.wanted.check(*areas[0].size(source))

    def __call__(self, data: Bytes, settings: Bytes) -> npt.NDArray[Any]:
        """Return the model's input of the bytes *data*, as the parameters in *settings* say."""
        source, areas = parameters.read(settings)
        return self.wanted.laid_out(process(data, source, areas, self.wanted.channels, np.dtype(self.wanted.dtype)))


Input = StaticInput | DynamicInput
Inputs = tuple[Input | None, ...]  # of a model: None for an input without AIPP
Described = tuple[str, str, Sequence[int], str]  # an input of a model: its name, type, dims and layout


def inputs_of(operators: Sequence[Operator], described: Sequence[Described]) -> Inputs:
    """Return what the *operators* make of the inputs *described*.

    Raises:
        AippError: An operator does not go with an input; the message has its file and line.
    """
    made: list[Input | None] = [None] * len(described)
    for operator in operators:
        index = _index_of(operator, [name for name, *_ in described])
        if made[index] is not None:
            raise AippError(f"{operator.place}: input {described[index][0]} has AIPP already; leave one aipp_op for it")
        try:
            wanted = Wanted.of(*described[index])
        except AippError as error:
            raise AippError(f"{operator.place}: {error}") from None
        made[index] = (DynamicInput if operator.is_dynamic else StaticInput).of(operator, wanted)
    return tuple(made)


def _index_of(operator: Operator, names: Sequence[str]) -> int:
    if operator.name in names:
        return names.index(operator.name)
    if operator.name is not None or operator.rank >= len(names):
        which = f"input {operator.rank}" if operator.name is None else f"input {operator.name!r}"
        listed = ", ".join(f"{place} {name}" for place, name in enumerate(names))
        raise AippError(f"{operator.place}: the model has no {which}; its inputs are {listed}")
    return operator.rank


def own_inputs(inputs: Inputs, arrays: Sequence[Any]) -> Iterator[Any]:
    """Yield the inputs that the model itself has. *arrays* are those that were passed; parameters of AIPP come last."""
    parameters = iter(arrays[len(inputs) :])
    for each, array in zip(inputs, arrays, strict=False):
        if each is None:
            yield array
        elif isinstance(each, DynamicInput):
            yield each(array.reshape(-1), next(parameters))
        else:
            yield each(array.reshape(-1))
