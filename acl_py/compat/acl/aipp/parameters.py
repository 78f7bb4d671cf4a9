"""Parameters: the bytes in which a program passes the settings of dynamic AIPP, laid out as the vendor documents it.

A head for all images is followed by a part for each of them.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from acl_py.compat.acl.aipp.pixels import FORMATS, AippError, Area, Bytes, Colours, Source

_HEAD = np.dtype(
    [
        ("format", "u1"), ("converts", "i1"), ("swaps_ends", "i1"), ("turns_first", "i1"), ("count", "i1"),
        ("left_out_1", "V3"), ("width", "<i4"), ("height", "<i4"), ("weights", "<i2", 9), ("left_out_2", "V6"),
        ("after", "u1", 3), ("before", "u1", 3), ("left_out_3", "V18"),
    ]
)  # fmt: skip
_PART = np.dtype(
    [
        ("cuts", "i1"), ("resizes", "i1"), ("pads", "i1"), ("turns", "i1"), ("left_out_1", "V4"), ("cut", "<i4", 4),
        ("resized", "<i4", 4), ("border", "<i4", 4), ("mean", "<i2", 4), ("least", "<f2", 4), ("scale", "<f2", 4),
        ("left_out_2", "V16"),
    ]
)  # fmt: skip
MOST_IMAGES = 127  # the count is a byte with a sign
_BY_CODE = {each.code: each for each in FORMATS.values()}


def size(count: int) -> int:
    """Return the bytes of the parameters of *count* images."""
    return int(_HEAD.itemsize) + count * int(_PART.itemsize)


class Parameters:
    """The parameters of some images, to be filled in: *head* is that of all, *parts* has a row for each."""

    def __init__(self, count: int) -> None:
        self.head: npt.NDArray[Any] = np.zeros((), _HEAD)
        self.parts: npt.NDArray[Any] = np.zeros(count, _PART)
        self.head["count"] = np.array(count).astype(np.int8)  # wrong beyond 127, for which no input takes them
        self.parts["scale"] = 1

    @classmethod
    def of(cls, source: Source, area: Area) -> "Parameters":
        """Return the parameters of one image."""
        made = cls(1)
        head, part = made.head, made.parts[0]
        head["format"], head["width"], head["height"] = source.format.code, source.width, source.height
        head["swaps_ends"], head["turns_first"] = source.swaps_ends, source.turns_first
        if (colours := source.colours) is not None:
            head["converts"], head["weights"] = 1, colours.weights
            head["after"], head["before"] = colours.after, colours.before
        if area.cut is not None:
            part["cuts"], part["cut"] = 1, area.cut
        part["pads"], part["border"] = any(area.border), area.border
        part["mean"], part["least"], part["scale"] = area.mean, area.least, area.scale
        return made

    @property
    def data(self) -> Bytes:
        """The bytes."""
        return np.frombuffer(self.head.tobytes() + self.parts.tobytes(), np.uint8)

    @property
    def source(self) -> Source:
        """The images that the program passes.

        Raises:
            AippError: Their format or their size was not set.
        """
        return _source(self.head)

    @property
    def areas(self) -> list[Area]:
        """What is made of each image."""
        return [_area(part) for part in self.parts]

    def check(self) -> None:
        """Raise AippError if the hardware does not do what they say."""
        source, areas = self.source, self.areas
        source.check()
        for area in areas:
            area.check(source)
        if self.parts["resizes"].any():
            raise AippError("the AIPP of these cards does not resize; leave out set_aipp_scf_params()")
        sizes = [area.size(source) for area in areas]
        if len(set(sizes)) > 1:
            other = next(place for place, each in enumerate(sizes) if each != sizes[0])
            what = f"image 0 becomes {sizes[0][0]}x{sizes[0][1]} pixels, and image {other} {sizes[other][0]}x"
            raise AippError(f"{what}{sizes[other][1]}; all must become as large")


def read(data: Bytes) -> tuple[Source, list[Area]]:
    """Return what the bytes *data* say.

    Raises:
        AippError: They say nothing: the parameters were not set.
    """
    head = data[: _HEAD.itemsize].view(_HEAD)[0]
    count = int(head["count"])
    if int(head["format"]) not in _BY_CODE or count < 1 or data.size < size(count):
        raise AippError("the parameters of AIPP were not set; call acl.mdl.set_input_aipp() before the execution")
    parts = data[_HEAD.itemsize : size(count)].view(_PART)
    return _source(head), [_area(part) for part in parts]


def _source(head: Any) -> Source:
    form = _BY_CODE.get(int(head["format"]))
    if form is None:
        raise AippError("the format of the source was not set; call acl.mdl.set_aipp_input_format()")
    width, height = int(head["width"]), int(head["height"])
    if not width or not height:
        raise AippError("the size of the source was not set; call acl.mdl.set_aipp_src_image_size()")
    colours = None
    if head["converts"]:
        colours = Colours(*(tuple(head[name].tolist()) for name in ("weights", "before", "after")))
    return Source(form, width, height, colours, bool(head["swaps_ends"]), bool(head["turns_first"]))


def _area(part: Any) -> Area:
    left, top, width, height = part["cut"].tolist()
    border = tuple(part["border"].tolist()) if part["pads"] else (0, 0, 0, 0)
    return Area(
        (left, top, width, height) if part["cuts"] else None,
        border,
        0.0,
        *(tuple(part[name].tolist()) for name in ("mean", "least", "scale")),
    )
