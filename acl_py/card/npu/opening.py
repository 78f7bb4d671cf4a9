"""From the options of a run to a runtime on an Ascend card."""

from dataclasses import replace

from acl_py.card.npu.driver import AclDriver
from acl_py.card.npu.runtime import NpuRuntime
from acl_py.errors import AclError, Kind
from acl_py.options import Card, Options
from device_model.error_codes import Code
from device_model.errors import code_of
from device_model.profile import DeviceProfile, ProfileError, load
from device_model.rules import ACL, RULES, SyncRules

_ANY_CARD = "ascend910b3"  # its limits are those of a card of which there is no profile
_MODEL = "run the program on the model, with device='ascend910b3'"
_REPEATED = 100002  # a code of acl.init(): another user of the process was first


def build(options: Options, card: Card) -> NpuRuntime:
    """Return a runtime on *card*, without a bridge.

    Raises:
        ImportError: There is no module acl.
        AclError: There is no such card.
        ValueError: The rules are not ACL's, or the bodies of kernels cannot be what they are asked to be.
    """
    rules, bodies = _rules(options.rules), options.bodies or "refuse"
    if bodies == "time":
        raise ValueError(f"bodies='time' with device={options.device!r}: pyACL has no kernel for it; use 'host'")
    driver, count = begun(card)
    return NpuRuntime(
        _profile(driver, card, count), rules, card.number, bodies=bodies, seed=options.seed,
        hang_after=options.hang_after, is_recorded=options.trace,
    )  # fmt: skip


def begun(card: Card) -> tuple[AclDriver, int]:
    """Return the driver, which is ready for calls about *card*, and how many cards there are.

    Raises:
        ImportError: There is no module acl.
        AclError: There is no such card, or it is lost to this process.
    """
    if (lost := AclDriver.standing.lost) is not None:
        raise _fail(lost.kind, lost.what, lost.remedy, code=code_of(lost))
    driver = AclDriver(_fail)
    code = driver.code_of(driver.acl.init)
    if code not in (0, _REPEATED):
        raise driver.error(code, "init")
    AclDriver.standing.has_begun = True
    count = driver(driver.rt.get_device_count)
    if card.number >= count:
        what = f"there is no 'npu:{card.number}': this machine has {count} cards"
        raise _fail(Kind.INVALID_DEVICE, what, f"use npu:0, or {_MODEL}")
    return driver, count


def _rules(rules: str | SyncRules | None) -> SyncRules:
    chosen = ACL if rules is None else RULES.get(rules) if isinstance(rules, str) else rules
    if chosen is None or chosen.name != ACL.name:
        raise ValueError(f"rules={rules!r} on an Ascend card: it has those of ACL, {ACL.name!r}")
    return chosen


def _fail(kind: Kind, what: str, remedy: str, *, code: int | None = None) -> AclError:
    """Return an error of a call that no run makes."""
    named = ACL.codes[kind]
    return AclError(kind, named if code is None else Code(code, named.name), what, remedy)


def _profile(driver: AclDriver, card: Card, count: int) -> DeviceProfile:
    """Return a profile with what the card says of itself; verbs look into it for limits. Its times are not asked."""
    name = driver.acl.get_soc_name() or _ANY_CARD
    try:
        base = load(name.lower())
    except ProfileError:
        base = load(_ANY_CARD)
    driver(driver.rt.set_device, card.number)
    _, nbytes = driver.memory_info()
    return replace(
        base,
        name=name,
        description=f"{name}, device {card.number} of this machine",
        devices=count,
        memory=replace(base.memory, bytes=nbytes),
        sources={},
    )
