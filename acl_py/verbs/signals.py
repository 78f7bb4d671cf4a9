"""Notifies, and words of device memory that streams write and wait for. Only under ACL's rules."""

from collections.abc import Sequence
from sys import _getframe
from typing import Any

from acl_py.errors import Kind
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import Scope, current
from acl_py.sites import site_of
from acl_py.verbs.streams import StreamLike, resolve
from device_model.completions import Completion, Nanoseconds
from device_model.memory import Allocation, Space
from device_model.rules import EventClass
from device_model.signals import Compare as Compare
from device_model.signals import Notify as Notify
from device_model.streams import Stream


async def CreateNotify(flag: int = 0) -> Notify:
    """Create a notify, a binary semaphore, on the current device; *flag* must be 0."""
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    check_signals(runtime, "CreateNotify")
    if flag != 0:
        raise runtime.error(Kind.NOT_SUPPORTED, f"CreateNotify({flag!r})", "0 makes one for hosts and devices alike")
    device = scope.context.device
    if not device.notify_ids.free:
        raise runtime.error(
            Kind.NO_NOTIFY_LEFT,
            f"all {device.notify_ids.limit} notifies of {device!r} are in use",
            "destroy those that are not needed",
        )
    runtime.pay(runtime.costs.create_event)
    notify = device.create_notify(site)
    runtime.called("CreateNotify", enter, site)
    return notify


async def DestroyNotify(notify: Notify) -> None:
    """Destroy *notify*; who waits for it goes on waiting."""
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    check_notify(scope, notify)
    runtime.pay(runtime.costs.destroy_event)
    notify.destroyed = site
    notify.device.notify_ids.give(runtime.scheduler.now)
    runtime.called("DestroyNotify", enter, site)


async def RecordNotify(notify: Notify, stream: StreamLike = None) -> Completion:
    """Set *notify* when *stream* comes to it; two records before a wait count once."""
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    found = resolve(scope, stream)
    check_notify(scope, notify)
    runtime.pay(runtime.costs.record)
    completion = notify.record(found, site)
    runtime.scheduler.settle()
    runtime.called("RecordNotify", enter, site)
    return completion


async def WaitAndResetNotify(notify: Notify, stream: StreamLike = None, timeout: int = 0) -> Completion:
    """Let what is queued in *stream* from now on wait until *notify* is set, and clear it: one record lets one wait
    pass, also one made later.

    After *timeout* seconds, if that is not 0, the stream goes on, and its next synchronisation says so.
    """
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    found = resolve(scope, stream)
    check_notify(scope, notify)
    if type(timeout) is not int or not 0 <= timeout < 1 << 32:
        raise TypeError(f"timeout must be a whole number of seconds, 0 to 4294967295, not {timeout!r}")
    limit_ns = runtime.limit_ns("timeout", timeout, 10**9)
    runtime.pay(runtime.costs.wait)
    completion = notify.wait(found, site, _shorter(limit_ns, runtime.op_wait_ns))
    runtime.scheduler.settle()
    runtime.called("WaitAndResetNotify", enter, site)
    return completion


async def ResetNotifies(notifies: Sequence[Notify]) -> None:
    """Clear several notifies at once, outside all streams (aclrtNotifyBatchReset)."""
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    for notify in notifies:
        check_notify(scope, notify)
    runtime.pay(runtime.costs.other)
    for notify in notifies:
        notify.reset()
    runtime.called("ResetNotifies", enter, site)


async def ValueWrite(address: Any, value: int, flag: int = 0, stream: StreamLike = None) -> Completion:
    """Write the eight bytes of *value* to the device memory at *address* when *stream* comes to it."""
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    found, allocation, offset = _word(scope, "ValueWrite", address, value, stream)
    if flag != 0:
        raise runtime.error(Kind.INVALID_VALUE, f"flag {flag!r} of ValueWrite()", "it must be 0")
    runtime.pay(runtime.costs.record)
    completion = found.context.device.words.write(found, site, allocation, offset, value)
    runtime.scheduler.settle()
    runtime.called("ValueWrite", enter, site)
    return completion


async def ValueWait(address: Any, value: int, flag: int = Compare.GEQ, stream: StreamLike = None) -> Completion:
    """Let what is queued in *stream* from now on wait until the eight bytes of device memory at *address* compare with
    *value* as *flag* says.

    Whatever work writes them counts: ValueWrite, copies, kernels.
    """
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    found, allocation, offset = _word(scope, "ValueWait", address, value, stream)
    if flag not in tuple(Compare):
        raise runtime.error(Kind.INVALID_VALUE, f"flag {flag!r} of ValueWait()", f"it must be one of {list(Compare)}")
    runtime.pay(runtime.costs.wait)
    words = found.context.device.words
    completion = words.wait(found, site, allocation, offset, value, Compare(flag), runtime.op_wait_ns)
    runtime.scheduler.settle()
    runtime.called("ValueWait", enter, site)
    return completion


def check_signals(runtime: Runtime, name: str) -> None:
    """Refuse what CUDA's runtime has not."""
    if EventClass.FLAG not in runtime.rules.events:
        raise runtime.error(
            Kind.NOT_SUPPORTED, f"{name}() under rules {runtime.rules.name}", "use events, or rules='acl'"
        )


def check_notify(scope: Scope, notify: object) -> None:
    """Refuse what is no notify of this simulation, or none any more."""
    if not isinstance(notify, Notify):
        raise TypeError(f"a notify must be what CreateNotify() gave, not {notify!r}")
    if notify.device.scheduler is not scope.runtime.scheduler or notify.destroyed is not None:
        raise scope.runtime.error(
            Kind.INVALID_HANDLE, f"{notify!r} is not of this simulation or gone", "create one with CreateNotify()"
        )


def _word(scope: Scope, name: str, address: Any, value: int, stream: StreamLike) -> tuple[Stream, Allocation, int]:
    runtime = scope.runtime
    check_signals(runtime, name)
    found = resolve(scope, stream)
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise TypeError(f"the value of {name}() must be a whole number of 64 bits, not {value!r}")
    allocation, offset = runtime.memory.locate(address, 8, "address")
    if allocation.space is not Space.DEVICE or (allocation.address + offset) % 8:
        raise runtime.error(
            Kind.INVALID_ADDRESS, f"the word at {offset} of {allocation!r}", "use device memory, at a multiple of 8"
        )
    return found, allocation, offset


def _shorter(*limits: Nanoseconds) -> Nanoseconds:
    return min((limit for limit in limits if limit), default=0)
