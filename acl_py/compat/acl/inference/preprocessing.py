"""Files of dynamic AIPP as `ais_bench` takes them: an INI file with a section [aipp_op], and the calls of acl.mdl."""

from collections.abc import Sequence
from configparser import ConfigParser, Error

from acl_py.compat.acl.aipp.pixels import FORMATS
from acl_py.compat.acl.functions.mdl import preprocessing
from acl_py.compat.acl.inference.answers import done

_SECTION = "aipp_op"
_MATRIX = [f"matrix_r{row}c{column}" for row in range(3) for column in range(3)]
_BIASES = [f"{which}_bias_{each}" for which in ("output", "input") for each in range(3)]
_CUT = ("load_start_pos_w", "load_start_pos_h", "crop_size_w", "crop_size_h")
_BORDER = ("padding_size_top", "padding_size_bottom", "padding_size_left", "padding_size_right")


class _File:
    """The numbers of a section; 0 for what is left out, as in the vendor's tool."""

    def __init__(self, path: str) -> None:
        self.path = path
        parser = ConfigParser()
        try:
            found = parser.read(path, "UTF-8")
        except (Error, ValueError) as error:
            raise RuntimeError(f"wrong aipp config file content! {path}: {error}") from error
        if not found:
            raise RuntimeError(f"wrong aipp config file content! {path} cannot be read")
        if parser.sections().count(_SECTION) != 1:
            raise self.error(f"it needs one section [{_SECTION}], and has {', '.join(parser.sections()) or 'none'}")
        self.values = dict(parser[_SECTION])

    def error(self, what: str) -> RuntimeError:
        return RuntimeError(f"wrong aipp config file content! {self.path}: {what}")

    def whole(self, name: str) -> int:
        return int(self.number(name, whole=True))

    def wholes(self, names: Sequence[str]) -> list[int]:
        return [self.whole(name) for name in names]

    def numbers(self, start: str) -> list[float]:
        return [self.number(f"{start}_chn_{channel}") for channel in range(4)]

    def number(self, name: str, *, whole: bool = False) -> float:
        text = self.values.get(name, "0")
        try:
            return int(text) if whole else float(text)
        except ValueError:
            raise self.error(f"{name} = {text} is no {'whole ' if whole else ''}number") from None


def parameters(path: str, count: int) -> int:
    """Return parameters of acl.mdl for *count* images, as the file *path* says.

    Raises:
        RuntimeError: There is no such file, or it is wrong.
    """
    file = _File(path)
    name = file.values.get("input_format", "nothing")
    if name not in FORMATS:
        raise file.error(f"input_format must be one of {', '.join(FORMATS)}, not {name}")
    handle = preprocessing.create_aipp(count)
    if not handle:
        raise file.error(f"a batch cannot have {count} images")
    try:
        _fill(file, handle, count, FORMATS[name].number)
    except BaseException:
        preprocessing.destroy_aipp(handle)
        raise
    return handle


def _fill(file: _File, handle: int, count: int, form: int) -> None:
    what = f"wrong aipp config file content! {file.path}"
    done(preprocessing.set_aipp_input_format(handle, form), what)
    done(preprocessing.set_aipp_src_image_size(handle, *file.wholes(("src_image_size_w", "src_image_size_h"))), what)
    done(preprocessing.set_aipp_rbuv_swap_switch(handle, file.whole("rbuv_swap_switch")), what)
    done(preprocessing.set_aipp_ax_swap_switch(handle, file.whole("ax_swap_switch")), what)
    colours = file.wholes([*_MATRIX, *_BIASES])
    done(preprocessing.set_aipp_csc_params(handle, file.whole("csc_switch"), *colours), what)
    mean = file.wholes([f"mean_chn_{channel}" for channel in range(4)])
    for image in range(count):
        done(preprocessing.set_aipp_crop_params(handle, file.whole("crop"), *file.wholes(_CUT), image), what)
        done(preprocessing.set_aipp_padding_params(handle, file.whole("padding"), *file.wholes(_BORDER), image), what)
        done(preprocessing.set_aipp_dtc_pixel_mean(handle, *mean, image), what)
        done(preprocessing.set_aipp_dtc_pixel_min(handle, *file.numbers("min"), image), what)
        done(preprocessing.set_aipp_pixel_var_reci(handle, *file.numbers("var_reci"), image), what)
