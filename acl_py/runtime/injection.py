"""Injection: which fault rules are in force, and where they are looked at.

Rules cost next to nothing where none is in force:

* A call tests `context.alert` already, for failures. A fault rule sets it too, and the slow path behind it, which ends
  in `Runtime.check_call`, asks the rules.
* `Runtime.submit` asks the rules about an operation if there are any: one test for each operation.
* Parts of a staged copy are queued inside the device, which knows no runtime. So its `Staging` gets the function that
  asks the rules, as long as there are any.
"""

from typing import TYPE_CHECKING, Protocol

from device_model.device import Device
from device_model.faults import Faults, Rule

if TYPE_CHECKING:
    from acl_py.runtime.captures import Captures


class Injected(Protocol):
    """What is needed of a runtime to put rules in force."""

    @property
    def faults(self) -> Faults:
        """Its fault rules."""

    @property
    def captures(self) -> "Captures":
        """Its captures."""

    @property
    def devices(self) -> list[Device]:
        """Its devices in use so far."""


def install(runtime: Injected, rule: Rule) -> None:
    """Put *rule* in force, behind the rules that are in force already."""
    runtime.faults.rules.append(rule)
    for device in runtime.devices:
        update_alerts(runtime, device)


def uninstall(runtime: Injected, rule: Rule) -> None:
    """Take *rule* out of force. An operation that it has struck still fails or hangs."""
    rules = runtime.faults.rules
    assert rule in rules, f"{rule!r} is not in force"
    rules.remove(rule)
    for device in runtime.devices:
        update_alerts(runtime, device)


def update_alerts(runtime: Injected, device: Device) -> None:
    """Let calls, staged copies and nodes on *device* ask the fault rules of *runtime*, and calls its captures,
    if there are any; else let them ask nothing.
    """
    faults = runtime.faults
    device.check_calls(on=bool(faults.rules or runtime.captures.running))
    device.strike = device.staging.strike = faults.strike if faults.rules else None
