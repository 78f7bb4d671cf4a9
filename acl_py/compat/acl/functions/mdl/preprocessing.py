"""acl.mdl: AIPP, the preprocessing of images inside a model.

The parameters of dynamic AIPP are bytes in an input of the model. What a program sets lies in an object of the host
until set_input_aipp writes it there.
"""

from collections.abc import Sequence
from typing import Any

import acl_py as native
from acl_py.compat.acl.aipp import parameters
from acl_py.compat.acl.aipp.inputs import DynamicInput, StaticInput
from acl_py.compat.acl.aipp.parameters import Parameters
from acl_py.compat.acl.aipp.pixels import (
    BIASES,
    BORDERS,
    FORMATS,
    LARGEST_HALF,
    LEAST_WIDTH,
    MEANS,
    SIDES,
    STARTS,
    WEIGHTS,
    AippError,
)
from acl_py.compat.acl.face.binding import does, gives, runs, takes
from acl_py.compat.acl.face.dtypes import DATA_TYPES
from acl_py.compat.acl.face.session import INVALID_PARAM, Session, session
from acl_py.compat.acl.functions.mdl.datasets import Dataset
from acl_py.compat.acl.functions.mdl.executions import INPUT_LENGTH_INVALID
from acl_py.compat.acl.standins.computations import reachable
from acl_py.compat.acl.standins.loading import GE_PARAM_INVALID, LoadedModel, loaded_model
from acl_py.compat.acl.standins.models import FORMATS as LAYOUTS

AIPP_NOT_EXIST, FAILURE = 145015, 500001
_HOST_TO_DEVICE = 1
_NO_INDEX = 0xFFFFFFFF
_WITHOUT, _WITH_STATIC, _WITH_DYNAMIC, _PARAMETERS = range(4)  # aclmdlInputAippType
_MOST_IMAGES = 1 << 20  # images that an object of parameters may be made for; a model takes fewer
_SCALED, _SCALED_WIDTHS = range(16, 4097), range(16, 1921)
_SWITCH = range(2)


@takes("k")
def create_aipp(count: int) -> int:
    """Make parameters for a batch of *count* images; 0 if *count* is 0."""
    here = session()
    if not 1 <= count <= _MOST_IMAGES:
        here.refuse(INVALID_PARAM, f"a batch has 1 image or more, not {count}")
        return 0
    return here.handle(Parameters(count))


@does("k")
def destroy_aipp(here: Session, handle: int) -> None:
    """End parameters; what was set with them stays set."""
    here.known(handle, Parameters)
    here.forget(handle)


def _check(here: Session, name: str, values: Sequence[float], low: float, high: float) -> None:
    """Raise AclError unless all *values* are between *low* and *high*."""
    if not all(low <= value <= high for value in values):
        raise here.error(INVALID_PARAM, f"{name} must be {low:g} to {high:g}, not {', '.join(map(str, values))}")


def _within(here: Session, name: str, values: Sequence[int], limits: range) -> None:
    _check(here, name, values, limits.start, limits.stop - 1)


def _part(here: Session, handle: int, image: int) -> Any:
    """The parameters of one image."""
    settings = here.known(handle, Parameters)
    if image >= len(settings.parts):
        what = f"there is no image {image}: the parameters were made for {len(settings.parts)}, counted from 0"
        raise here.error(INVALID_PARAM, what)
    return settings.parts[image]


# --- of all images


@does("ku")
def set_aipp_input_format(here: Session, handle: int, number: int) -> None:
    """Set the aclAippInputFormat of the images: 1 to 4 for YUV420SP_U8, XRGB8888_U8, RGB888_U8, YUV400_U8."""
    settings = here.known(handle, Parameters)
    form = next((each for each in FORMATS.values() if each.number == number), None)
    if form is None:
        known = ", ".join(f"{each.number} {name}" for name, each in FORMATS.items())
        raise here.error(INVALID_PARAM, f"these cards read the formats {known}, not {number}")
    settings.head["format"] = form.code


@does("kiiiiiiiiiiiiiiii")
def set_aipp_csc_params(here: Session, handle: int, switch: int, *numbers: int) -> None:
    """Convert colours, if *switch* is 1: nine weights in 1/256, row by row, three values to add to what is computed
    from RGB, and three that are taken from YUV before.
    """
    head = here.known(handle, Parameters).head
    _within(here, "the switch", [switch], _SWITCH)
    if switch:
        weights, after, before = numbers[:9], numbers[9:12], numbers[12:]
        _within(here, "weights", weights, WEIGHTS)
        _within(here, "biases", (*after, *before), BIASES)
        head["weights"], head["after"], head["before"] = weights, after, before
    head["converts"] = switch


@does("ki")
def set_aipp_rbuv_swap_switch(here: Session, handle: int, switch: int) -> None:
    """Exchange R and B, or U and V, if *switch* is 1."""
    settings = here.known(handle, Parameters)
    _within(here, "the switch", [switch], _SWITCH)
    settings.head["swaps_ends"] = switch


@does("ki")
def set_aipp_ax_swap_switch(here: Session, handle: int, switch: int) -> None:
    """Put the first of four channels last, if *switch* is 1."""
    settings = here.known(handle, Parameters)
    _within(here, "the switch", [switch], _SWITCH)
    settings.head["turns_first"] = switch


@does("kii")
def set_aipp_src_image_size(here: Session, handle: int, width: int, height: int) -> None:
    """Set width and height of the images."""
    settings = here.known(handle, Parameters)
    _within(here, "the width", [width], range(LEAST_WIDTH, SIDES.stop))
    _within(here, "the height", [height], SIDES)
    settings.head["width"], settings.head["height"] = width, height


# --- of one image


@does("kiiiiik")
def set_aipp_scf_params(
    here: Session, handle: int, switch: int, width: int, height: int, new_width: int, new_height: int, image: int
) -> None:
    """Resize, if *switch* is 1; set_input_aipp refuses that, as on these cards."""
    part = _part(here, handle, image)
    _within(here, "the switch", [switch], _SWITCH)
    if switch:
        _within(here, "sides", (width, height, new_height), _SCALED)
        _within(here, "the width to resize to", [new_width], _SCALED_WIDTHS)
        part["resized"] = width, height, new_width, new_height
    part["resizes"] = switch


@does("kiiiiik")
def set_aipp_crop_params(
    here: Session, handle: int, switch: int, left: int, top: int, width: int, height: int, image: int
) -> None:
    """Cut an area out, if *switch* is 1."""
    part = _part(here, handle, image)
    _within(here, "the switch", [switch], _SWITCH)
    if switch:
        _within(here, "the place to begin at", (left, top), STARTS)
        _within(here, "the sides to cut out", (width, height), SIDES)
        part["cut"] = left, top, width, height
    part["cuts"] = switch


@does("kiiiiik")
def set_aipp_padding_params(
    here: Session, handle: int, switch: int, top: int, bottom: int, left: int, right: int, image: int
) -> None:
    """Add a border of zeros, if *switch* is 1."""
    part = _part(here, handle, image)
    _within(here, "the switch", [switch], _SWITCH)
    if switch:
        _within(here, "borders", (top, bottom, left, right), BORDERS)
        part["border"] = top, bottom, left, right
    part["pads"] = switch


@does("kiiiik")
def set_aipp_dtc_pixel_mean(here: Session, handle: int, m0: int, m1: int, m2: int, m3: int, image: int) -> None:
    """Set the mean of each channel."""
    part = _part(here, handle, image)
    _within(here, "means", (m0, m1, m2, m3), MEANS)
    part["mean"] = m0, m1, m2, m3


@does("kffffk")
def set_aipp_dtc_pixel_min(here: Session, handle: int, m0: float, m1: float, m2: float, m3: float, image: int) -> None:
    """Set the least value of each channel."""
    part = _part(here, handle, image)
    _check(here, "least values", (m0, m1, m2, m3), 0, 255)
    part["least"] = m0, m1, m2, m3


@does("kffffk")
def set_aipp_pixel_var_reci(here: Session, handle: int, v0: float, v1: float, v2: float, v3: float, image: int) -> None:
    """Set what each channel is multiplied by."""
    part = _part(here, handle, image)
    _check(here, "factors", (v0, v1, v2, v3), -LARGEST_HALF, LARGEST_HALF)
    part["scale"] = v0, v1, v2, v3


# --- of a model


@gives("k")
def get_aipp_data_size(here: Session, count: int) -> int:
    """The bytes of the parameters for a batch of *count* images."""
    if not count:
        raise here.error(INVALID_PARAM, "a batch has 1 image or more, not 0")
    return parameters.size(count)


@runs("ukkk")
async def set_input_aipp(here: Session, model: int, handle: int, index: int, settings: int) -> None:
    """Execute the dataset with these parameters; *index* is that of the input "ascend_dynamic_aipp_data"."""
    dataset, given = here.known(handle, Dataset), here.known(settings, Parameters)
    loaded = loaded_model(here, model)
    found = (each for each in range(len(loaded.model.inputs)) if loaded.model.parameters_of(each) == index)
    own = next(found, None)
    if own is None:
        what = f"input {index} of {loaded.model.name} does not take parameters of dynamic AIPP"
        raise here.error(INVALID_PARAM, f"{what}; {_advice(loaded)}")
    await _set(here, dataset, index, loaded.model.aipp[own], given)


@runs("ukkk")
async def set_aipp_by_input_index(here: Session, model: int, handle: int, index: int, settings: int) -> None:
    """Execute the dataset with these parameters for the images of input *index*."""
    given, dataset = here.known(settings, Parameters), here.known(handle, Dataset)
    if index >= len(dataset.buffers):
        what = f"the dataset has {len(dataset.buffers)} data buffers, and the index is {index}"
        raise here.error(INVALID_PARAM, what)
    loaded = loaded_model(here, model)
    place = loaded.model.parameters_of(index)
    if place is None:
        what = f"input {index} of {loaded.model.name} has no dynamic AIPP; {_advice(loaded)}"
        raise here.error(FAILURE, what)
    await _set(here, dataset, place, loaded.model.aipp[index], given)


def _advice(loaded: LoadedModel) -> str:
    """Say which inputs have parameters."""
    of_images = [each for each in range(len(loaded.model.inputs)) if loaded.model.parameters_of(each) is not None]
    if not of_images:
        return "its AIPP file, if it has one, must say aipp_mode : dynamic"
    return ", ".join(f"input {loaded.model.parameters_of(each)} has those of input {each}" for each in of_images)


async def _set(here: Session, dataset: Dataset, index: int, aipp: object, settings: Parameters) -> None:
    """Write *settings* to the data buffer at *index*."""
    assert isinstance(aipp, DynamicInput), "it has parameters"
    try:
        aipp.check(settings)
    except AippError as error:
        raise here.error(INVALID_PARAM, str(error)) from error
    buffer, data = dataset.buffer(here, index), settings.data
    if buffer is None or not buffer.address:
        raise here.error(INVALID_PARAM, f"the dataset has no data buffer with memory at {index}")
    if buffer.size < data.nbytes:
        what = f"the data buffer at {index} has {buffer.size} bytes, and the parameters have {data.nbytes}"
        raise here.error(INPUT_LENGTH_INVALID, f"{what}; ask acl.mdl.get_input_size_by_index()")
    to = reachable(here.runtime, buffer.address, data.nbytes, "the parameters of AIPP", is_written=True)
    await native.Memcpy(to, data.nbytes, data, data.nbytes, _HOST_TO_DEVICE)


@gives("uk", failure=(0, _NO_INDEX))
def get_aipp_type(here: Session, model: int, index: int) -> tuple[int, int]:
    """Whether an input has AIPP: 0 none, 1 static, 2 dynamic, and which input has the parameters; 3 for that one."""
    described = loaded_model(here, model).model
    if index >= len(described.described):
        raise here.error(GE_PARAM_INVALID, f"{described.name} has no input {index}")
    if index >= len(described.described) - len(described.parameters):
        return _PARAMETERS, _NO_INDEX
    place = described.parameters_of(index)
    if place is not None:
        return _WITH_DYNAMIC, place
    return (_WITH_STATIC if index < len(described.aipp) and described.aipp[index] else _WITHOUT), _NO_INDEX


@gives("uk", failure=None)
def get_first_aipp_info(here: Session, model: int, index: int) -> dict[str, Any]:
    """The settings of an input with AIPP; of dynamic AIPP, only what the model takes."""
    described = loaded_model(here, model).model
    aipp = described.aipp[index] if index < len(described.aipp) else None
    if aipp is None:
        raise here.error(AIPP_NOT_EXIST, f"input {index} of {described.name} has no AIPP")
    return _info(aipp, described.input_size(index))


def _info(aipp: StaticInput | DynamicInput, nbytes: int) -> dict[str, Any]:
    wanted = aipp.wanted
    settings = Parameters.of(aipp.source, aipp.area) if isinstance(aipp, StaticInput) else Parameters(1)
    (area,) = settings.areas
    head, part = settings.head, settings.parts[0]
    left, top, width, height = area.cut or (0, 0, 0, 0)
    own, passed = wanted.dims(1), aipp.dims if isinstance(aipp, StaticInput) else (aipp.largest,)
    out_bytes = wanted.width * wanted.height * wanted.channels * abs(wanted.count) * 2  # AIPP gives float16
    weights, after, before = (head[name].tolist() for name in ("weights", "after", "before"))
    return {
        "inputFormat": next((each.number for each in FORMATS.values() if each.code == head["format"]), 0),
        "srcImageSizeW": int(head["width"]), "srcImageSizeH": int(head["height"]),
        "cropSwitch": int(part["cuts"]), "loadStartPosW": left, "loadStartPosH": top,
        "cropSizeW": width, "cropSizeH": height, "resizeSwitch": 0, "resizeOutputW": 0, "resizeOutputH": 0,
        "paddingSwitch": int(part["pads"]),
        **dict(zip(("topPaddingSize", "bottomPaddingSize", "leftPaddingSize", "rightPaddingSize"), area.border,
                   strict=True)),
        "cscSwitch": int(head["converts"]), "rbuvSwapSwitch": int(head["swaps_ends"]),
        "axSwapSwitch": int(head["turns_first"]), "singleLineMode": 0,
        # The binding leaves out R0C2, R2C0 and R2C1.
        **{f"matrixR{row}C{column}": weights[3 * row + column] for row, column in _WEIGHTS_SHOWN},
        **{f"outputBias{each}": after[each] for each in range(3)},
        **{f"inputBias{each}": before[each] for each in range(3)},
        **{f"meanChn{each}": area.mean[each] for each in range(4)},
        **{f"minChn{each}": area.least[each] for each in range(4)},
        **{f"varReciChn{each}": area.scale[each] for each in range(4)},
        "srcFormat": LAYOUTS["NHWC" if wanted.by_rows else "NCHW"], "srcDatatype": DATA_TYPES[wanted.dtype],
        "srcDimNum": len(own), "shapeCount": 1, "aippExtend": 0,
        "outDims": [{
            "srcDims": _dims(passed), "srcSize": nbytes,
            "aippOutdims": _dims((wanted.count, *own[1:])), "aippOutSize": out_bytes,
        }],
    }  # fmt: skip


_WEIGHTS_SHOWN = ((0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 2))


def _dims(dims: Sequence[int]) -> dict[str, Any]:
    return {"name": "", "dimCount": len(dims), "dims": list(dims)}
