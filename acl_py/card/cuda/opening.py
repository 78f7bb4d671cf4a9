"""From the options of a run to a runtime on a card of NVIDIA."""

from dataclasses import replace

from acl_py.card.cuda.driver import CudaDriver
from acl_py.card.cuda.runtime import CudaRuntime
from acl_py.errors import AclError, Kind
from acl_py.options import Card, Options
from device_model.error_codes import Code
from device_model.errors import code_of
from device_model.profile import DeviceProfile, load
from device_model.rules import CUDA, RULES, SyncRules

_MODEL = "run the program on the model, with device='h200'"
_NO_DEVICE = 100
_RULES = ("cuda", "cuda_per_thread")


def build(options: Options, card: Card) -> CudaRuntime:
    """Return a runtime on *card*, without a bridge.

    Raises:
        ImportError: The package cuda-bindings is not installed.
        AclError: There is no driver, or no such card.
        ValueError: The rules are not CUDA's.
    """
    rules, number = _rules(options.rules), card.number
    driver = begun(number)
    count = driver(driver.cu.cuDeviceGetCount)
    profile, bodies = _profile(driver, number, count), options.bodies or "refuse"
    return CudaRuntime(
        profile, rules, number, bodies=bodies, seed=options.seed, hang_after=options.hang_after,
        is_recorded=options.trace,
    )  # fmt: skip


def begun(number: int) -> CudaDriver:
    """Return the driver, which is ready for calls about the card with this *number*.

    Raises:
        ImportError: The package cuda-bindings is not installed.
        AclError: There is no driver, or no such card, or it is lost to this process.
    """
    if (lost := CudaDriver.standing.lost) is not None:
        raise _fail(lost.kind, lost.what, lost.remedy, code=code_of(lost))
    driver = CudaDriver(_fail)
    _begin(driver)
    count = driver(driver.cu.cuDeviceGetCount)
    if number >= count:
        what = f"there is no 'cuda:{number}': this machine has {count} cards"
        raise _fail(Kind.INVALID_DEVICE, what, "use cuda:0")
    return driver


def _begin(driver: CudaDriver) -> None:
    """Initialise the driver."""
    try:
        code = int(driver.cu.cuInit(0)[0])
    except Exception as error:  # cuda.bindings has several for a library that it does not find
        what = "this machine has no driver of CUDA"
        raise _fail(Kind.INVALID_DEVICE, what, f"install the vendor's, or {_MODEL}") from error
    if code == _NO_DEVICE:
        raise _fail(
            Kind.INVALID_DEVICE, "the driver of CUDA finds no card", f"see `nvidia-smi`, or {_MODEL}", code=code
        )
    if code:
        raise driver.error(code, "cuInit")
    CudaDriver.standing.has_begun = True


def _rules(rules: str | SyncRules | None) -> SyncRules:
    if rules is None:
        return CUDA
    chosen = RULES.get(rules) if isinstance(rules, str) else rules
    if chosen is None or chosen.name not in _RULES:
        raise ValueError(f"rules={rules!r} on a card: it has those of CUDA, {' or '.join(map(repr, _RULES))}")
    return chosen


def _fail(kind: Kind, what: str, remedy: str, *, code: int | None = None) -> AclError:
    """Return an error of a call that no run makes."""
    named = CUDA.codes[kind]
    return AclError(kind, named if code is None else Code(code, named.name), what, remedy)


def _profile(driver: CudaDriver, number: int, count: int) -> DeviceProfile:
    """Return a profile with what the card says of itself.

    Verbs look into it for sizes and limits. Its times are those of another card, and are not asked.
    """
    cu = driver.cu
    handle = driver(cu.cuDeviceGet, number)
    name = driver(cu.cuDeviceGetName, 256, handle).split(b"\0")[0].decode()
    nbytes = driver(cu.cuDeviceTotalMem, handle)
    attribute = cu.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
    cores = driver(cu.cuDeviceGetAttribute, attribute, handle)
    base = load("h200")
    return replace(
        base,
        name=name,
        description=f"{name}, {cores} SMs, device {number} of this machine",
        devices=count,
        memory=replace(base.memory, bytes=int(nbytes)),
        cores=replace(base.cores, count=int(cores)),
        sources={},
    )
