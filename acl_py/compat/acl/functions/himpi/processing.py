"""acl.himpi: the image processor (VPC): resize, crop, and convert colours, by tasks whose results are asked for."""

from acl_py.compat.acl.face.binding import does, gives, runs
from acl_py.compat.acl.face.session import Session
from acl_py.compat.acl.functions.himpi.channels import (
    EMPTY,
    ILLEGAL,
    MISSING,
    VPC,
    Fields,
    Processor,
    check_new,
    elements,
    end_line,
    new_line,
    submit,
    system,
)
from acl_py.compat.acl.functions.media.descriptions import Area, Picture, ResizeConfig
from acl_py.compat.acl.functions.media.vpc import CONVERT, CROP, CROP_RESIZE, RESIZE, Areas, process

_FIELDS = {
    "data": "picture_address", "size": "picture_buffer_size", "format": "picture_format", "width": "picture_width",
    "height": "picture_height", "width_stride": "picture_width_stride", "height_stride": "picture_height_stride",
}  # fmt: skip
_MOST = 256  # areas of a call


def _processor(here: Session, number: int) -> Processor:
    found = system(here).processors.get(number)
    if found is None:
        raise here.error(VPC | MISSING, f"there is no channel {number}; call acl.himpi.vpc_create_chn() first")
    return found


def _picture(fields: Fields) -> Picture:
    return Picture(**{name: fields.number(key) for name, key in _FIELDS.items()})


def _area(fields: Fields) -> Area:
    left, top = fields.number("left_offset"), fields.number("top_offset")
    return Area(left, left + fields.number("crop_width") - 1, top, top + fields.number("crop_height") - 1)


# --- channels


@does("iO")
def vpc_create_chn(here: Session, number: int, attributes: object) -> None:
    """Make a channel on the current device."""
    Fields(attributes, "hi_vpc_chn_attr")
    processors = system(here).processors
    check_new(here, VPC, number, processors)
    processors[number] = Processor(new_line(here))


@gives("O")
def vpc_sys_create_chn(here: Session, attributes: object) -> int:
    """Make a channel with the first number that is free."""
    Fields(attributes, "hi_vpc_chn_attr")
    processors = system(here).processors
    number = next(each for each in range(len(processors) + 1) if each not in processors)
    check_new(here, VPC, number, processors)
    processors[number] = Processor(new_line(here))
    return number


@runs("i")
async def vpc_destroy_chn(here: Session, number: int) -> None:
    """End a channel, after its work."""
    processor = _processor(here, number)
    await end_line(here, processor.line)
    system(here).processors.pop(number, None)


# --- tasks


def _task(
    here: Session, number: int, kernel: object, source: Fields, parts: list[tuple[Picture, Area | None, int | None]]
) -> int:
    """Queue one task: of *source* several pictures, each of an area, with an interpolation."""
    processor = _processor(here, number)
    line = processor.line
    original, targets = _picture(source), [target for target, _, _ in parts]
    for target, area, interpolation in parts:
        things = [None if area is None else here.handle(area)]
        things += [None if interpolation is None else here.handle(ResizeConfig(interpolation))]
        work = process(here, kernel, line.way, original, target, line.stream_handle, Areas(things[0]), things[1])  # type: ignore[arg-type]
        try:
            submit(here, VPC, work)
        finally:
            for thing in filter(None, things):
                here.forget(thing)
    task = next(processor.numbers)
    processor.tasks[task] = targets
    return task


@gives("iOOffui")
def vpc_resize(
    here: Session, number: int, source: object, target: object, _: float, __: float, interpolation: int, ___: int
) -> int:
    """Resize an image to the size of *target*, which says it all: scales make no difference."""
    wanted = _picture(Fields(target, "hi_vpc_pic_info"))
    return _task(here, number, RESIZE, Fields(source, "hi_vpc_pic_info"), [(wanted, None, interpolation)])


@gives("iOOi")
def vpc_convert_color(here: Session, number: int, source: object, target: object, _: int) -> int:
    """Change the format of an image."""
    wanted = _picture(Fields(target, "hi_vpc_pic_info"))
    return _task(here, number, CONVERT, Fields(source, "hi_vpc_pic_info"), [(wanted, None, None)])


def _regions(here: Session, given: object, name: str, many: int) -> list[tuple[Fields, Picture, Area]]:
    """What to cut out of an image, and where each part goes."""
    regions = elements(given, name, many)
    if not 0 < many <= _MOST:
        raise here.error(VPC | ILLEGAL, f"{many} areas to crop; keep between 1 and {_MOST}")
    found = []
    for each in regions:
        area = _area(each.part("crop_region", "hi_vpc_crop_region"))
        found.append((each, _picture(each.part("dest_pic_info", "hi_vpc_pic_info")), area))
    return found


@gives("iOOui")
def vpc_crop(here: Session, number: int, source: object, areas: object, many: int, _: int) -> int:
    """Cut areas out of an image."""
    regions = _regions(here, areas, "hi_vpc_crop_region_info", many)
    parts: list[tuple[Picture, Area | None, int | None]] = [(target, area, None) for _, target, area in regions]
    return _task(here, number, CROP, Fields(source, "hi_vpc_pic_info"), parts)


@gives("iOOui")
def vpc_crop_resize(here: Session, number: int, source: object, areas: object, many: int, _: int) -> int:
    """Cut areas out of an image and resize each to the size that it asks for, which is that of its picture."""
    parts: list[tuple[Picture, Area | None, int | None]] = []
    for region, target, area in _regions(here, areas, "hi_vpc_crop_resize_region", many):
        wanted = region.part("resize_info", "hi_vpc_resize_info")
        size = wanted.number("resize_width"), wanted.number("resize_height")
        if size != (target.width, target.height):
            what = f"an area becomes {size[0]}x{size[1]}, and its picture has {target.width}x{target.height} pixels"
            raise here.error(VPC | ILLEGAL, f"{what}; make both the same")
        parts.append((target, area, wanted.number("interpolation")))
    return _task(here, number, CROP_RESIZE, Fields(source, "hi_vpc_pic_info"), parts)


@runs("iui")
async def vpc_get_process_result(here: Session, number: int, task: int, timeout: int) -> None:
    """Wait for a task, so many milliseconds at most; once for each task."""
    processor = _processor(here, number)
    if task not in processor.tasks:
        raise here.error(VPC | ILLEGAL, f"channel {number} has no task {task} whose result was not asked for")
    if not await processor.line.wait(timeout):
        raise here.error(VPC | EMPTY, f"task {task} of channel {number} is not ready")
    pictures = processor.tasks.pop(task)
    if any(picture.ret_code for picture in pictures):
        raise here.error(VPC | ILLEGAL, f"task {task} of channel {number} failed; what was wrong was printed")
