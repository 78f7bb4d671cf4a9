"""Files of AIPP: `aipp_op { input_format : YUV420SP_U8 ... }`, in the text form of protocol buffers, as
`atc --insert_op_conf` takes them.

A file has an operator for each input that it is about. What is left out has the default of the vendor's template.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from acl_py.compat.acl.aipp.pixels import (
    BIASES,
    BORDERS,
    FORMATS,
    LARGEST_HALF,
    MEANS,
    SIDES,
    STARTS,
    WEIGHTS,
    AippError,
    Area,
    Colours,
    Format,
    Source,
)

_TO_RGB = (298, 516, 0, 298, -100, -208, 298, 0, 409)  # the weights that a file may leave out: to BGR
_TO_YUV = (66, 129, 25, -38, -74, 112, 112, -94, -18)
_BIASES = (16, 128, 128)
_OTHER_FORMATS = (
    "NC1HWC0DI_FP16", "NC1HWC0DI_S8", "ARGB8888_U8", "YUYV_U8", "YUV422SP_U8", "AYUV444_U8", "RAW10", "RAW12", "RAW16",
    "RAW24", "RGB16", "RGB20", "RGB24", "RGB8_IR", "RGB16_IR", "RGB24_IR",
)  # fmt: skip


class Word(NamedTuple):
    """A word of a file, and its line."""

    text: str
    line: int


@dataclass(frozen=True)
class Operator:
    """One `aipp_op` of a file: its *values* by field, and *place*, the file and the line where it begins."""

    place: str
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def is_dynamic(self) -> bool:
        """Whether each execution gives the settings."""
        return bool(self.values["aipp_mode"] == "dynamic")

    @property
    def rank(self) -> int:
        """Which input it is about, unless it has a *name*."""
        return int(self.values.get("related_input_rank", 0))

    @property
    def name(self) -> str | None:
        """The name of the input that it is about, or None."""
        name: str | None = self.values.get("related_input_name")
        return name

    @property
    def largest(self) -> int:
        """The bytes of the input, if it is dynamic."""
        return int(self.values["max_src_image_size"])

    @property
    def format(self) -> Format:
        """How the images of the source lie in memory."""
        return FORMATS[self.values["input_format"]]

    def source(self, width: int, height: int) -> Source:
        """Return the images that it reads; *width* and *height* are those that it leaves out."""
        get = self.values.get
        return Source(
            self.format,
            get("src_image_size_w") or width,
            get("src_image_size_h") or height,
            self._colours() if get("csc_switch") else None,
            bool(get("rbuv_swap_switch")),
            bool(get("ax_swap_switch")),
        )

    def _colours(self) -> Colours:
        defaults = _TO_RGB if self.format.has_chroma_plane else _TO_YUV
        names = [f"matrix_r{row}c{column}" for row in range(3) for column in range(3)]
        weights = tuple(self.values.get(name, default) for name, default in zip(names, defaults, strict=True))
        before, after = (
            tuple(self.values.get(f"{which}_bias_{each}", default) for each, default in enumerate(_BIASES))
            for which in ("input", "output")
        )
        return Colours(weights, before, after)

    @property
    def border(self) -> tuple[int, int, int, int]:
        """The rows and columns to add: top, bottom, left, right."""
        if not self.values.get("padding"):
            return 0, 0, 0, 0
        top, bottom, left, right = (
            self.values.get(f"{side}_padding_size", 0) for side in ("top", "bottom", "left", "right")
        )
        return top, bottom, left, right

    def area(self, width: int, height: int) -> Area:
        """Return what it makes of each image; *width* and *height* are those to cut out if it leaves them out."""
        get = self.values.get
        cut = None
        if get("crop"):
            size = get("crop_size_w") or width, get("crop_size_h") or height
            cut = (get("load_start_pos_w", 0), get("load_start_pos_h", 0), *size)
        return Area(
            cut,
            self.border,
            get("padding_value", 0.0),
            tuple(get(f"mean_chn_{each}", 0) for each in range(4)),
            tuple(get(f"min_chn_{each}", 0.0) for each in range(4)),
            tuple(get(f"var_reci_chn_{each}", 1.0) for each in range(4)),
        )


def read(path: str | Path) -> tuple[Operator, ...]:
    """Return the operators of the file *path*.

    Raises:
        AippError: There is no such file, or it is wrong; the message has the file and the line.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise AippError(f"{path}: {error}") from error
    return parse(text, str(path))


def parse(text: str, file: str) -> tuple[Operator, ...]:
    """Return the operators of *text*; messages call it *file*.

    Raises:
        AippError: It is wrong; the message has the line.
    """
    words = _Words(text, file)
    operators = []
    while words.left:
        word = words.take("aipp_op")
        if word.text != "aipp_op":
            raise words.error(word, f"expected aipp_op, not {word.text!r}")
        operators.append(_operator(words, word.line))
    if not operators:
        raise AippError(f"{file}: there is no aipp_op in it; write aipp_op {{ aipp_mode : static ... }}")
    return tuple(operators)


class _Words:
    """The words of a file, one after the other."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.left = list(_split(text))[::-1]
        self.last = Word("", text.count("\n") + 1)

    def take(self, wanted: str) -> Word:
        """Take the next word; *wanted* is for the message if there is none."""
        if not self.left:
            raise self.error(self.last, f"the file ends where {wanted} should be")
        return self.left.pop()

    def skip(self, text: str) -> None:
        """Leave out the next word if it is *text*."""
        if self.left and self.left[-1].text == text:
            self.left.pop()

    def error(self, word: Word, what: str) -> AippError:
        """Return an error at *word*."""
        return AippError(f"{self.file}, line {word.line}: {what}")


_WORD = re.compile(r"""[{}<>:;,]|"[^"\n]*"|'[^'\n]*'|[^\s{}<>:;,#"']+|["']""")


def _split(text: str) -> Iterator[Word]:
    for number, line in enumerate(text.splitlines(), 1):
        for found in _WORD.finditer(_without_comment(line)):
            yield Word(found.group(), number)


def _without_comment(line: str) -> str:
    quote = ""
    for place, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter == "#":
            return line[:place]
    return line


_ENDS = {"{": "}", "<": ">"}


def _operator(words: _Words, line: int) -> Operator:
    words.skip(":")
    opening = words.take("{")
    if opening.text not in _ENDS:
        raise words.error(opening, f"expected {{ behind aipp_op, not {opening.text!r}")
    values: dict[str, Any] = {}
    while (name := words.take(_ENDS[opening.text])).text != _ENDS[opening.text]:
        if name.text not in _FIELDS:
            raise words.error(name, f"there is no field {name.text!r}; the fields are {', '.join(_FIELDS)}")
        if name.text in values:
            raise words.error(name, f"{name.text} is there twice; leave one")
        colon = words.take(":")
        if colon.text != ":":
            raise words.error(colon, f"expected a colon behind {name.text}, not {colon.text!r}")
        value = words.take(f"the value of {name.text}")
        try:
            values[name.text] = _FIELDS[name.text](value.text)
        except ValueError as error:
            raise words.error(value, f"{name.text} must be {error}, not {value.text}") from None
        words.skip(",")
        words.skip(";")
    operator = Operator(f"{words.file}, line {line}", values)
    _check(operator)
    return operator


def _check(operator: Operator) -> None:
    """Raise AippError if a field is missing, or is none of these cards'."""
    place, values = operator.place, operator.values
    if "aipp_mode" not in values:
        raise AippError(f"{place}: there is no aipp_mode; write aipp_mode : static, or dynamic")
    if operator.is_dynamic:
        if not values.get("max_src_image_size"):
            raise AippError(f"{place}: dynamic AIPP needs max_src_image_size, the bytes of the largest input")
        return
    if "input_format" not in values:
        raise AippError(f"{place}: there is no input_format; write one of {', '.join(FORMATS)}")
    if values.get("resize"):
        raise AippError(f"{place}: the AIPP of these cards does not resize; take out resize, and resize before it")
    if values.get("single_line_mode"):
        raise AippError(f"{place}: single_line_mode is not simulated; take it out")


# --- values


def _one_of(*names: str) -> Callable[[str], str]:
    def value(text: str) -> str:
        if text not in names:
            raise ValueError(f"one of {', '.join(names)}")
        return text

    return value


def _format(text: str) -> str:
    by_number = {str(each.number): name for name, each in FORMATS.items()}
    name = by_number.get(text, text)
    if name not in FORMATS:
        hint = " (others are for other chips)" if name in _OTHER_FORMATS else ""
        raise ValueError(f"one of {', '.join(FORMATS)}{hint}")
    return name


def _switch(text: str) -> bool:
    known = {"true": True, "false": False, "True": True, "False": False, "t": True, "f": False, "1": True, "0": False}
    if text not in known:
        raise ValueError("true or false")
    return known[text]


def _whole(limits: range) -> Callable[[str], int]:
    def value(text: str) -> int:
        try:
            number = int(text, 0)
        except ValueError:
            number = limits.start - 1
        if number not in limits:
            raise ValueError(f"a whole number from {limits.start} to {limits.stop - 1}")
        return number

    return value


def _real(low: float, high: float) -> Callable[[str], float]:
    def value(text: str) -> float:
        try:
            number = float(text.removesuffix("f"))
        except ValueError:
            number = low - 1
        if not isfinite(number) or not low <= number <= high:
            raise ValueError(f"a number from {low:g} to {high:g}")
        return number

    return value


def _text(text: str) -> str:
    if len(text) < 2 or text[0] not in "\"'" or text[-1] != text[0]:
        raise ValueError("a text in quotes")
    return text[1:-1]


_BYTES = range(1, 1 << 32)
_SIDES_OR_NONE = range(SIDES.stop)
_FIELDS: dict[str, Callable[[str], Any]] = {
    "aipp_mode": _one_of("static", "dynamic"),
    "related_input_rank": _whole(range(1 << 31)),
    "related_input_name": _text,
    "input_edge_idx": _whole(range(1 << 31)),
    "max_src_image_size": _whole(_BYTES),
    "support_rotation": _switch,
    "input_format": _format,
    "src_image_size_w": _whole(_SIDES_OR_NONE),
    "src_image_size_h": _whole(_SIDES_OR_NONE),
    "crop": _switch,
    "load_start_pos_w": _whole(STARTS),
    "load_start_pos_h": _whole(STARTS),
    "crop_size_w": _whole(_SIDES_OR_NONE),
    "crop_size_h": _whole(_SIDES_OR_NONE),
    "resize": _switch,
    "resize_output_w": _whole(_SIDES_OR_NONE),
    "resize_output_h": _whole(_SIDES_OR_NONE),
    "padding": _switch,
    **{f"{side}_padding_size": _whole(BORDERS) for side in ("left", "right", "top", "bottom")},
    "padding_value": _real(-LARGEST_HALF, LARGEST_HALF),
    "csc_switch": _switch,
    "rbuv_swap_switch": _switch,
    "ax_swap_switch": _switch,
    "single_line_mode": _switch,
    **{f"mean_chn_{each}": _whole(MEANS) for each in range(4)},
    **{f"min_chn_{each}": _real(0, 255) for each in range(4)},
    **{f"var_reci_chn_{each}": _real(-LARGEST_HALF, LARGEST_HALF) for each in range(4)},
    **{f"matrix_r{row}c{column}": _whole(WEIGHTS) for row in range(3) for column in range(3)},
    **{f"{which}_bias_{each}": _whole(BIASES) for which in ("output", "input") for each in range(3)},
}
