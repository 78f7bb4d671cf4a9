"""acl.media: the image processor (VPC): resize, crop, paste, convert colours.

The limits are those of the vendor's pages on VPC. They are images of 10x6 pixels and more, a change of size between
1/32 and 16, areas that begin at even and end at odd places, pasted areas that begin at a multiple of 16.
"""

from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from acl_py.compat.acl.face.binding import runs, takes
from acl_py.compat.acl.face.lookups import Running
from acl_py.compat.acl.face.session import INVALID_PARAM, Session, session
from acl_py.compat.acl.functions.media.descriptions import Area, Batch, Channel, Picture, ResizeConfig
from acl_py.compat.acl.functions.media.formats import FORMATS, Image, MediaError, convert
from acl_py.compat.acl.functions.media.tasks import FORMAT_NOT_MATCH, microseconds, queue, rate_of, reporting
from acl_py.runtime.runtime import Runtime
from acl_py.verbs.kernels import Cost, In, InOut, KernelFunction, Out
from device_model.work import Kernel

_FRAMES_PER_SECOND = 1440  # of a channel of a card whose profile does not say, at 1080p: as on A2
_LEAST = 10, 6  # pixels
_MOST_SOURCE, _MOST_TARGET = (8192, 8192), (4096, 8192)
_SHRINK, _GROW = 32, 16
_MOST_AREAS = 256  # of a batch


@dataclass(frozen=True, eq=False, slots=True)
class _Job:
    """One image to be made from a part of another: copies of both descriptions, and the host's *description* for the
    result.
    """

    task: str
    source: Picture
    target: Picture
    description: Picture
    crop: Area | None
    paste: Area | None
    interpolation: int
    matrix: int
    rate: float

    def __call__(self, source: Image, target: Image) -> None:
        """Do it."""
        with reporting(self.task, self.description):
            self._process(source, target)

    @property
    def pixels(self) -> int:
        """What the time depends on: the larger of both images."""
        return max(self.source.width * self.source.height, self.target.width * self.target.height)

    def _process(self, source: Image, target: Image) -> None:
        src, dst = self.source, self.target
        _check(src, "the source", _MOST_SOURCE)
        _check(dst, "the destination", _MOST_TARGET)
        crop = self.crop or Area(0, src.width - 1, 0, src.height - 1)
        paste = self.paste or Area(0, dst.width - 1, 0, dst.height - 1)
        if self.crop is not None:
            _check_area(crop, "the area to crop", src)
        if self.paste is not None:
            _check_area(paste, "the area to paste", dst)
            if paste.left % 16:
                raise MediaError(f"the area to paste begins at {paste.left}", "begin at a multiple of 16")
        _check_change("width", crop.width, paste.width)
        _check_change("height", crop.height, paste.height)
        form, into = FORMATS[src.format], FORMATS[dst.format]
        whole = form.read(source, src.width, src.height, src.width_stride, src.height_stride)
        part = whole[crop.top : crop.bottom + 1, crop.left : crop.right + 1]
        image = convert(
            resize(part, paste.width, paste.height, self.interpolation), form.family, into.family, self.matrix
        )
        if self.paste is None:
            into.write(target, image, dst.width_stride, dst.height_stride)
        else:
            self._put(target, paste, image)
        self.description.width, self.description.height = dst.width, dst.height
        self.description.width_stride, self.description.height_stride = dst.width_stride, dst.height_stride

    def _put(self, target: Image, paste: Area, image: Image) -> None:
        """Write *image* to the area *paste* of *target*; all other bytes stay, and are not looked at."""
        dst = self.target
        form, canvas = FORMATS[dst.format], np.zeros((dst.height, dst.width, image.shape[2]), np.uint8)
        canvas[paste.top : paste.bottom + 1, paste.left : paste.right + 1] = image
        whole = np.empty_like(target)
        form.write(whole, canvas, dst.width_stride, dst.height_stride)
        for start, stop in self.pasted():
            target[start:stop] = whole[start:stop]

    def pasted(self) -> list[tuple[int, int]]:
        """The ranges of the bytes that it writes to its destination; none if the hardware refuses the areas."""
        dst, paste = self.target, self.paste
        assert paste is not None, f"{self.task} pastes nothing"
        try:
            _check(dst, "the destination", _MOST_TARGET)
            _check_area(paste, "the area to paste", dst)
        except MediaError:
            return []
        sides = paste.left, paste.right, paste.top, paste.bottom
        return FORMATS[dst.format].rows(*sides, dst.width_stride, dst.height_stride)


class _Pasting(KernelFunction[...]):
    """A kernel that writes an area of its destination, reads nothing there, and leaves the rest as it is."""

    def work(self, runtime: Runtime, blocks: int, args: tuple[Any, ...]) -> Kernel:
        """Return the work of a launch with a source, a destination and a job. It is new: no jobs are equal."""
        work, job = self.prepare_body(runtime, blocks, args)[0], args[2]
        ((allocation, begin, _),) = work.written
        work.read = work.read[:1]
        work.rows = lambda: [(allocation, begin + start, begin + stop) for start, stop in job.pasted()]
        return work


def _check(picture: Picture, role: str, most: tuple[int, int]) -> None:
    form = FORMATS[picture.format]
    width, height = picture.width, picture.height
    if not _LEAST[0] <= width <= most[0] or not _LEAST[1] <= height <= most[1]:
        raise MediaError(
            f"{role} has {width}x{height} pixels",
            f"keep between {_LEAST[0]}x{_LEAST[1]} and {most[0]}x{most[1]}",
        )
    form.check(role, width, height, picture.width_stride, picture.height_stride)
    needed = form.nbytes(picture.width_stride, picture.height_stride)
    if picture.size < needed:
        raise MediaError(f"{role} has a size of {picture.size} bytes", f"its strides make {needed}")


def _check_area(area: Area, role: str, picture: Picture) -> None:
    sides = f"{area.left} to {area.right}, {area.top} to {area.bottom}"
    if area.left % 2 or area.top % 2 or not area.right % 2 or not area.bottom % 2:
        raise MediaError(f"{role} is {sides}", "begin at even and end at odd places")
    if not (area.left < area.right < picture.width and area.top < area.bottom < picture.height):
        raise MediaError(f"{role} is {sides}", f"stay within {picture.width}x{picture.height}")


def _check_change(side: str, source: int, target: int) -> None:
    if target * _SHRINK < source or target > source * _GROW:
        raise MediaError(f"{side} {source} would become {target}", f"stay between 1/{_SHRINK} and {_GROW} times")


def _cost(_: Any, __: Any, job: _Job) -> float:
    return microseconds(job.pixels, job.rate)


def _task(name: str, *, pastes: bool = False) -> KernelFunction[...]:
    """The kernel of a function: it overwrites its destination, or pastes into it."""

    def overwrite(source: In, target: Out, job: _Job) -> None:
        job(source, target)

    def paste(source: In, target: InOut, job: _Job) -> None:
        job(source, target)

    function, kind = (paste, _Pasting) if pastes else (overwrite, KernelFunction)
    function.__name__ = name
    return kind(function, cost=Cost(us=_cost), per_block=False, exclusive=None, serial=True)


RESIZE, CROP, CROP_RESIZE = _task("vpc_resize"), _task("vpc_crop"), _task("vpc_crop_resize")
CONVERT = _task("vpc_convert_color")
_CROP_PASTE = _task("vpc_crop_and_paste", pastes=True)
_CROP_RESIZE_PASTE = _task("vpc_crop_resize_paste", pastes=True)


@dataclass(frozen=True, slots=True)
class Areas:
    """The handles of what to cut out and where to put it; None where a function has no such thing."""

    crop: int | None = None
    paste: int | None = None


def _check_call(
    here: Session, source: Picture | None, target: Picture | None, areas: Areas, config: int | None
) -> None:
    """Raise AclError if the call itself refuses."""
    if source is None or target is None:
        raise here.error(INVALID_PARAM, "there is no such picture")
    for area in (areas.crop, areas.paste):
        if area is not None and here.find(area, Area) is None:
            raise here.error(INVALID_PARAM, "there is no such area")
    if config is not None:
        resize_config = here.find(config, ResizeConfig)
        if resize_config is None or resize_config.interpolation not in INTERPOLATIONS:
            raise here.error(INVALID_PARAM, "there is no such resize configuration, or its interpolation is unknown")
    for picture, role in ((source, "the source"), (target, "the destination")):
        if picture.format not in FORMATS:
            raise here.error(FORMAT_NOT_MATCH, f"{role} has pixel format {picture.format}, which there is not")
        if not picture.data or not picture.size:
            raise here.error(INVALID_PARAM, f"{role} has no data, or no size")


async def process(
    here: Session,
    task: KernelFunction[...],
    channel: int,
    source: Picture | None,
    target: Picture | None,
    stream: int,
    areas: Areas = Areas(),
    config: int | None = None,
) -> None:
    """Queue one image."""
    _check_call(here, source, target, areas, config)
    assert source is not None, "_check_call() refuses None"
    assert target is not None, "_check_call() refuses None"
    job = _Job(
        task.name,
        replace(source),
        _sized(target, source) if task is CONVERT else replace(target),
        target,
        None if areas.crop is None else replace(here.thing(areas.crop, Area)),
        None if areas.paste is None else replace(here.thing(areas.paste, Area)),
        0 if config is None else here.thing(config, ResizeConfig).interpolation,
        getattr(here.find(channel, Channel), "matrix", 0),
        rate_of(here, "vpc", channel, _FRAMES_PER_SECOND),
    )
    ends = (source.data, source.size, "the source"), (target.data, target.size, "the destination")
    await queue(here, task, channel, stream, *ends, job, "vpc")


def _sized(target: Picture, source: Picture) -> Picture:
    """*target* with the size of *source* where it has none of its own."""
    if target.width and target.height:
        return replace(target)
    width_stride, height_stride = FORMATS[target.format].strides(source.width, source.height)
    return replace(
        target, width=source.width, height=source.height, width_stride=width_stride, height_stride=height_stride
    )


def _picture(here: Session, handle: int) -> Picture | None:
    return here.find(handle, Picture)


# --- one image


@runs("kkkkk")
def dvpp_vpc_resize_async(here: Session, channel: int, source: int, target: int, config: int, stream: int) -> Running:
    """Resize an image to the size of *target*."""
    return process(here, RESIZE, channel, _picture(here, source), _picture(here, target), stream, config=config)


@runs("kkkkk")
def dvpp_vpc_crop_async(here: Session, channel: int, source: int, target: int, area: int, stream: int) -> Running:
    """Cut out an area; it is resized where *target* has another size."""
    return process(here, CROP, channel, _picture(here, source), _picture(here, target), stream, Areas(area))


@runs("kkkkkk")
def dvpp_vpc_crop_resize_async(
    here: Session, channel: int, source: int, target: int, area: int, config: int, stream: int
) -> Running:
    """Cut out an area and resize it as *config* says."""
    return process(
        here, CROP_RESIZE, channel, _picture(here, source), _picture(here, target), stream, Areas(area), config
    )


@runs("kkkkkk")
def dvpp_vpc_crop_and_paste_async(
    here: Session, channel: int, source: int, target: int, crop: int, paste: int, stream: int
) -> Running:
    """Cut out an area and paste it into *target*, resized where both areas differ; the rest of *target* stays."""
    return process(
        here, _CROP_PASTE, channel, _picture(here, source), _picture(here, target), stream, Areas(crop, paste)
    )


@runs("kkkkkkk")
def dvpp_vpc_crop_resize_paste_async(
    here: Session, channel: int, source: int, target: int, crop: int, paste: int, config: int, stream: int
) -> Running:
    """Cut out an area, resize it as *config* says and paste it into *target*."""
    areas = Areas(crop, paste)
    return process(
        here, _CROP_RESIZE_PASTE, channel, _picture(here, source), _picture(here, target), stream, areas, config
    )


@runs("kkkk")
def dvpp_vpc_convert_color_async(here: Session, channel: int, source: int, target: int, stream: int) -> Running:
    """Change the format of an image; a *target* without a size gets that of *source*."""
    src, dst = _picture(here, source), _picture(here, target)
    if src and dst and dst.width and dst.height and (src.width, src.height) != (dst.width, dst.height):
        raise here.error(INVALID_PARAM, "source and destination differ in size")
    return process(here, CONVERT, channel, src, dst, stream)


# --- batches: of the first source as many areas as the first count says, of the second ...


async def _batch(
    here: Session,
    task: KernelFunction[...],
    channel: int,
    sources: int,
    counts: list[int],
    targets: int,
    stream: int,
    crops: list[int],
    pastes: list[int] | None = None,
    config: int | None = None,
) -> None:
    srcs, dsts = here.find(sources, Batch), here.find(targets, Batch)
    if srcs is None or dsts is None:
        raise here.error(INVALID_PARAM, "there is no such batch")
    total = sum(counts)
    if not 0 < len(counts) <= len(srcs.pictures) or min(counts) < 1 or not total <= _MOST_AREAS:
        raise here.error(INVALID_PARAM, f"counts must be 1 and more for each source, {_MOST_AREAS} at most in all")
    if len(dsts.pictures) < total or len(crops) < total or (pastes is not None and len(pastes) < total):
        raise here.error(INVALID_PARAM, f"there must be {total} destinations and areas")
    every = [picture for picture, count in zip(srcs.pictures, counts, strict=False) for _ in range(count)]
    jobs = [
        (src, dst, Areas(crop, paste))
        for src, dst, crop, paste in zip(every, dsts.pictures, crops, pastes or repeat(None), strict=False)
    ]
    for src, dst, areas in jobs:  # all or nothing
        _check_call(here, src, dst, areas, config)
    for src, dst, areas in jobs:
        await process(here, task, channel, src, dst, stream, areas, config)


def _ints(value: object, place: int) -> list[int]:
    """*value*, which must be a list of ints."""
    if not isinstance(value, list):
        raise TypeError(f"argument {place} is not list")
    if not all(isinstance(each, int) for each in value):
        raise TypeError(f"argument {place} must be a list of ints")
    return value


def _limited(counts: object, *areas: object) -> list[list[int]]:
    """Lists of 1 to 256 ints, with areas in pairs; none of *counts* is larger than that."""
    lists = [_ints(value, place) for place, value in zip((3, 5, 6), (counts, *areas), strict=False)]
    within = all(0 < len(each) <= _MOST_AREAS for each in lists) and max(lists[0]) <= _MOST_AREAS
    if not within or any(len(each) != len(lists[1]) for each in lists[2:]):
        raise ValueError(f"number of crop areas must be between 1 and {_MOST_AREAS}")
    return lists


@takes("kkOkOk")
def dvpp_vpc_batch_crop_async(
    channel: int, sources: int, counts: object, targets: int, areas: object, stream: int
) -> tuple[int, int]:
    """Cut areas out of several images."""
    numbers, crops = _limited(counts, areas)
    here = session()
    return targets, here.ret(_batch(here, CROP, channel, sources, numbers, targets, stream, crops))


@takes("kkOkOOk")
def dvpp_vpc_batch_crop_and_paste_async(
    channel: int, sources: int, counts: object, targets: int, crops: object, pastes: object, stream: int
) -> tuple[int, int]:
    """Cut areas out of several images and paste each into a destination."""
    numbers, cut, put = _limited(counts, crops, pastes)
    here = session()
    return targets, here.ret(_batch(here, _CROP_PASTE, channel, sources, numbers, targets, stream, cut, put))


@runs("kkOkOkk")
def dvpp_vpc_batch_crop_resize_async(
    here: Session, channel: int, sources: int, counts: object, targets: int, areas: object, config: int, stream: int
) -> Running:
    """Cut areas out of several images and resize them as *config* says."""
    numbers, crops = _ints(counts, 3), _ints(areas, 5)
    return _batch(here, CROP_RESIZE, channel, sources, numbers, targets, stream, crops, config=config)


@runs("kkOkOOkk")
def dvpp_vpc_batch_crop_resize_paste_async(
    here: Session,
    channel: int,
    sources: int,
    counts: object,
    targets: int,
    crops: object,
    pastes: object,
    config: int,
    stream: int,
) -> Running:
    """Cut areas out of several images, resize them as *config* says and paste each into a destination."""
    numbers, areas = _ints(counts, 3), (_ints(crops, 5), _ints(pastes, 6))
    return _batch(here, _CROP_RESIZE_PASTE, channel, sources, numbers, targets, stream, *areas, config)


# Resizing: the interpolations that a resize configuration can name.
#
# As the vendor documents them for cards of the A2 generation: 0, the default, and 1 are the common bilinear
# interpolation with OpenCV's pixel centres, 2 nearest neighbour as OpenCV does it, 3 and 4 the same two with the
# positions of TensorFlow 1. None of them smooths when it shrinks.


INTERPOLATIONS = range(5)
_NEAREST = (2, 4)
_CORNERED = 3  # positions count from the corner of a pixel, not from its middle


def resize(image: Image, width: int, height: int, interpolation: int) -> Image:
    """*image* with *width* by *height* pixels."""
    if image.shape[:2] == (height, width):
        return image
    if interpolation in _NEAREST:
        return image[_nearest(height, image.shape[0])[:, None], _nearest(width, image.shape[1])]
    values = _blend(image.astype(np.float32), 0, height, interpolation)
    values = _blend(values, 1, width, interpolation)
    values += 0.5
    return values.astype(np.uint8)  # which takes the floor: nothing is negative


def _blend(values: npt.NDArray[np.float32], axis: int, target: int, interpolation: int) -> npt.NDArray[np.float32]:
    """*values* with *target* places along *axis*: each lies between two of the old ones."""
    first, second, weight = _neighbours(target, values.shape[axis], interpolation)
    weight = weight.reshape([-1 if axis == each else 1 for each in range(values.ndim)])
    blended = values.take(first, axis)
    blended *= 1 - weight
    other = values.take(second, axis)
    other *= weight
    blended += other
    return blended


def _nearest(target: int, source: int) -> npt.NDArray[np.intp]:
    return np.arange(target) * source // target


def _neighbours(
    target: int, source: int, interpolation: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.float32]]:
    """For each of *target* places, two of *source* and the weight of the second."""
    scale = source / target
    middle = 0.0 if interpolation == _CORNERED else 0.5
    places = np.maximum((np.arange(target) + middle) * scale - middle, 0)
    first = places.astype(np.intp)
    return first, np.minimum(first + 1, source - 1), (places - first).astype(np.float32)
