"""What programs may call before cuInit(): its version, functions by name, the names of codes, and cuInit() itself.

All other functions get their place in the library's table by cuInit(). Until then the library answers for them that the
driver is not initialized, and none of their modules is imported.
"""

from importlib import import_module
from pathlib import Path

from acl_py.compat.cuda.face import exports
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_VALUE, NAMES, NO_DEVICE, NOT_FOUND, RefusedError
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.face.texts import c_text
from acl_py.compat.cuda.face.versions import version_of
from acl_py.compat.cuda.face.visible import visible
from acl_py.compat.cuda.library import signatures

_FOUND, _NO_SUCH_FUNCTION, _TOO_NEW = range(3)  # CUdriverProcAddressQueryResult
_PER_THREAD = 2  # the flag for functions whose stream 0 is the default stream of the thread


@answers("cuInit")
async def init(driver: Driver, flags: int) -> None:
    """Begin; a program may do so more than once."""
    if flags:
        raise RefusedError(INVALID_VALUE, f"the flags are {flags}, and there are none")
    if driver.visible is None:
        driver.visible = visible(driver.runtime.profile.devices)
    if not driver.visible:
        raise RefusedError(NO_DEVICE, "the variable CUDA_VISIBLE_DEVICES names no device that is there")
    load()
    exports.put(name for name, *_ in signatures.exported())


def load() -> None:
    """Import the modules of all functions, which makes them known."""
    for file in sorted(Path(__file__).parent.glob("*.py")):
        import_module(f"{__package__}.{file.stem}")


@answers("cuDriverGetVersion")
async def driver_version(driver: Driver) -> int:
    """The version of CUDA that this driver has."""
    return version_of(driver)


@answers("cuGetErrorName", reads=True)
async def error_name(_: Driver, code: int) -> int:
    """The name of a code."""
    return c_text(f"CUDA_{_known(code)}")


@answers("cuGetErrorString", reads=True)
async def error_string(_: Driver, code: int) -> int:
    """A code in words."""
    name = _known(code)
    return c_text(_WORDS.get(code) or name.removeprefix("ERROR_").replace("_", " ").lower())


# Words of codes that programs compare or print most (measured); those of the others are their names.
_WORDS = {
    0: "no error", 1: "invalid argument", 3: "initialization error", 4: "driver shutting down",
    100: "no CUDA-capable device is detected", 101: "invalid device ordinal", 200: "device kernel image is invalid",
    201: "invalid device context", 209: "no kernel image is available for execution on the device",
    400: "invalid resource handle", 500: "named symbol not found", 600: "device not ready",
    700: "an illegal memory access was encountered", 701: "too many resources requested for launch",
    710: "device-side assert triggered", 719: "unspecified launch failure",
    720: "too many blocks in cooperative launch", 800: "operation not permitted", 801: "operation not supported",
    900: "operation not permitted when stream is capturing",
}  # fmt: skip


def _known(code: int) -> str:
    if code not in NAMES:
        raise RefusedError(INVALID_VALUE, f"there is no code {code}")
    return NAMES[code]


@answers("cuGetProcAddress_v2")
async def proc_address_v2(driver: Driver, symbol: str, version: int, flags: int) -> tuple[int, int]:
    """The address of a function, and whether it was found: `symbol` has no ending of a version."""
    address = _address(symbol, min(version, version_of(driver)), flags)
    if address:
        return address, _FOUND
    return 0, _TOO_NEW if signatures.newest(symbol, version_of(driver)) else _NO_SUCH_FUNCTION


@answers("cuGetProcAddress")
async def proc_address(driver: Driver, symbol: str, version: int, flags: int) -> int:
    """The address of a function."""
    address = _address(symbol, min(version, version_of(driver)), flags)
    if not address:
        raise RefusedError(NOT_FOUND, f"there is no function {symbol} in version {version}")
    return address


def _address(symbol: str, version: int, flags: int) -> int:
    signature = signatures.newest(symbol, version)
    if signature is None:
        return 0
    return exports.address(signature.name + signature.twin * (flags == _PER_THREAD))
