"""acl: init and finalize, versions, the last error message, sizes and conversions of numbers."""

import json

import numpy as np

from acl_py import log
from acl_py.compat.acl.face.binding import gives, runs, takes
from acl_py.compat.acl.face.dtypes import dtype_of
from acl_py.compat.acl.face.session import INVALID_FILE, INVALID_PARAM, PARSE_FILE, SUCCESS, Session, session

_REPEAT_INITIALIZE, _REPEAT_FINALIZE, _INVALID_DEVICE = 100002, 100037, 200002
_VERSION = 1, 17, 0
_LEVELS = ("debug", "info", "warning", "error")
_PACKAGE_VERSION = ("version", "major_version", "minor_version", "release_version", "patch_version", "reserved")
_INFINITY, _COMPILES = range(2)  # aclCannAttr
# Bytes of one element, where NumPy itself has no such dtype: bfloat16, complex32, hifloat8, and two 8-bit floats.
_SIZES = {27: 2, 33: 4, 34: 1, 35: 1, 36: 1}


# --- beginning and end


@takes("|s")
def init(path: str = "") -> int:
    """Begin. A second call returns a code, has no other effect, and counts. Only "err_msg_mode" of the file is read."""
    here = session()
    if here.inits:
        here.inits += 1
        return here.refuse(_REPEAT_INITIALIZE, "acl.init() was called before")
    code = _configure(here, path) if path else SUCCESS
    if not code:
        here.inits = 1
    return code


def _configure(here: Session, path: str) -> int:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        config = json.loads(text) if text.strip() else {}
    except OSError as error:
        return here.refuse(INVALID_FILE, f"{path}: {error.strerror}")
    except ValueError as error:
        return here.refuse(PARSE_FILE, f"{path}: {error}")
    if not isinstance(config, dict):
        return here.refuse(PARSE_FILE, f"{path} holds no object")
    here.shares_messages = str(config.get("err_msg_mode", "0")) == "1"
    return SUCCESS


def _check_begun(here: Session) -> None:
    if not here.inits:
        what = "there is nothing to end: acl.init() was not called, or acl.finalize() was called since"
        raise here.error(_REPEAT_FINALIZE, what)


@runs("")
async def finalize(here: Session) -> None:
    """End, however often init was called; a second time is refused."""
    _check_begun(here)
    here.inits = 0


@gives("")
def finalize_reference(here: Session) -> int:
    """Undo one init and return how many are left."""
    _check_begun(here)
    here.inits -= 1
    return here.inits


# --- what this is


@takes("")
def get_version() -> tuple[int, int, int, int]:
    """The version of the interface that this follows."""
    return *_VERSION, SUCCESS


@takes("")
def get_soc_name() -> str:
    """The card's name, as in "Ascend910B3"."""
    name: str = session().runtime.profile.name
    return "Ascend" + name.removeprefix("ascend").upper() if name.startswith("ascend") else name


@takes("u")
def get_cann_version(_: int) -> tuple[dict[str, str], int]:
    """The version of an installed package of the vendor's, of which there is none."""
    return dict.fromkeys(_PACKAGE_VERSION, ""), session().not_supported("get_cann_version")


@takes("")
def get_cann_attribute_list() -> tuple[list[int], int, int]:
    """Which attributes get_cann_attribute knows."""
    return [_INFINITY, _COMPILES], 2, SUCCESS


@gives("i")
def get_cann_attribute(here: Session, attribute: int) -> int:
    """Return an attribute: 0, whether large numbers become infinity (1); 1, whether use compiles operators (0)."""
    if attribute not in (_INFINITY, _COMPILES):
        raise here.error(INVALID_PARAM, f"there is no attribute {attribute}")
    return int(attribute == _INFINITY)


@gives("ui")
def get_device_capability(here: Session, device: int, info: int) -> int:
    """How many AI cores (0) or vector cores (1) a device has, and the bytes of its L2 (2)."""
    profile = here.runtime.profile
    if not device < profile.devices:
        raise here.error(_INVALID_DEVICE, f"there is no device {device}")
    numbers = {0: profile.cores.count}
    if profile.aicore is not None:
        numbers |= {1: profile.aicore.vector_cores, 2: profile.aicore.l2_bytes}
    if info not in numbers:
        raise here.error(INVALID_PARAM, f"capability {info} of a device is not known")
    return numbers[info]


@takes("")
def get_recent_err_msg() -> str | None:
    """Return the message of this thread's last failing call, once; then None."""
    return session().take_message()


@takes("is")
def app_log(level: int, text: str) -> None:
    """Write *text* to the log."""
    log.note(_LEVELS[level] if 0 <= level < len(_LEVELS) else "info", text)


# --- numbers


@takes("u")
def float16_to_float(bits: int) -> float:
    """The number that these 16 bits are."""
    return float(np.uint16(bits & 0xFFFF).view(np.float16))


@takes("f")
def float_to_float16(value: float) -> int:
    """The 16 bits of the nearest half-precision number."""
    with np.errstate(over="ignore"):
        return int(np.float16(value).view(np.uint16))


@takes("i")
def data_type_size(number: int) -> int:
    """Bytes of one element; 0 if it has no whole number of them."""
    return size_of(number)


def size_of(number: int) -> int:
    """Bytes of one element of the aclDataType *number*."""
    if number in _SIZES:
        return _SIZES[number]
    dtype = dtype_of(number)
    return 0 if dtype is None else dtype.itemsize
