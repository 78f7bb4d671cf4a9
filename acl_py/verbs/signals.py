"""Notifies, which only ACL's rules have, and words of device memory that streams write and wait for."""

from collections.abc import Iterable

from acl_py.calls.acts import Awaited, Destroyed, Made, Set, Word
from acl_py.calls.table import verb
from acl_py.errors import Kind
from acl_py.runtime.calls import begin
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import Scope
from acl_py.verbs.memory import Memory
from acl_py.verbs.records import WaitLimit
from acl_py.verbs.streams import StreamLike, resolve
from device_model.completions import Completion, Nanoseconds
from device_model.errors import shown
from device_model.integers import Integer, integer
from device_model.memory import Allocation, Space
from device_model.names import check_name
from device_model.rules import EventClass
from device_model.signals import Compare as Compare
from device_model.signals import Notify as Notify
from device_model.streams import Stream


@verb(acl="aclrtCreateNotify", step="create_notify")
async def CreateNotify(flag: int = 0, *, name: str | None = None) -> Notify:
    """Create a notify, a binary semaphore for streams, on the current device.

    Stands for aclrtCreateNotify; CUDA has no such call.

    Args:
        flag: 0, which makes a notify for hosts and devices alike.
        name: What messages, charts and traces call it instead of its number: 1 to 200 printable characters.

    Waits:
        cuda, cuda_per_thread: For nothing: the call is refused.
        acl: For nothing.

    Returns:
        The notify, which is clear.

    Raises:
        AclError: NOT_SUPPORTED under CUDA's rules, or for another *flag*; NO_NOTIFY_LEFT if all notifies of the device
            are in use.
        TypeError: *name* is not a str.
        ValueError: *name* is empty, too long or not printable.
    """
    scope, runtime, site, enter = begin()
    check_signals(runtime, CreateNotify.__name__)
    check_name(name)
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
    notify = device.create_notify(site, name)
    runtime.called(CreateNotify.__name__, enter, site, Made(None, notify))
    return notify


@verb(acl="aclrtDestroyNotify", step="destroy_notify")
async def DestroyNotify(notify: Notify) -> None:
    """Destroy *notify*; streams that wait for it keep waiting.

    Stands for aclrtDestroyNotify; CUDA has no such call.

    Args:
        notify: The notify.

    Waits:
        cuda, cuda_per_thread: For nothing: there are no notifies.
        acl: For nothing.

    Raises:
        AclError: INVALID_HANDLE if *notify* is destroyed or of another simulation.
        TypeError: *notify* is not a notify.
    """
    scope, runtime, site, enter = begin()
    check_notify(scope, notify)
    runtime.pay(runtime.costs.destroy_event)
    notify.destroy(site)
    runtime.called(DestroyNotify.__name__, enter, site, Destroyed(notify))


@verb(acl="aclrtRecordNotify", step="record_notify")
async def RecordNotify(notify: Notify, stream: StreamLike = None) -> Completion:
    """Set *notify* when *stream* comes to the record.

    Stands for aclrtRecordNotify; CUDA has no such call. Two records before a wait count as one. WaitAndResetNotify()
    has an example.

    Args:
        notify: The notify.
        stream: The stream; None is the default one, LEGACY_STREAM and PER_THREAD_STREAM name CUDA's.

    Waits:
        cuda, cuda_per_thread: For nothing: there are no notifies.
        acl: For nothing.

    Returns:
        The completion of the record.

    Raises:
        AclError: INVALID_HANDLE if *notify* is destroyed or of another simulation; INVALID_HANDLE, FOREIGN_STREAM or
            NOT_SUPPORTED if *stream* cannot be used here.
        TypeError: *notify* is not a notify, or *stream* is not a stream.
    """
    scope, runtime, site, enter = begin()
    stream = resolve(scope, stream, RecordNotify.__name__)
    check_notify(scope, notify)
    runtime.pay(runtime.costs.record)
    completion = notify.record(stream, site)
    runtime.scheduler.settle()
    runtime.called(RecordNotify.__name__, enter, site, Set(notify, None, stream))
    return completion


@verb(acl="aclrtWaitAndResetNotify", step="wait_notify")
async def WaitAndResetNotify(notify: Notify, stream: StreamLike = None, timeout: Integer = 0) -> Completion:
    """Let the work that is queued in *stream* from now on wait until *notify* is set, and clear it then.

    Stands for aclrtWaitAndResetNotify; CUDA has no such call. The host does not wait. One record lets one wait pass,
    also a record that is made after the wait.

    Args:
        notify: The notify.
        stream: The stream; None is the default one, LEGACY_STREAM and PER_THREAD_STREAM name CUDA's.
        timeout: Whole seconds of simulated time, below 2**32; 0 is no limit. After that the stream goes on, and its
            next synchronisation raises OP_WAIT_TIMEOUT. A shorter SetOpWaitTimeOut() counts instead.

    Waits:
        cuda, cuda_per_thread: For nothing: there are no notifies.
        acl: For nothing.

    Returns:
        The completion of the wait.

    Raises:
        AclError: INVALID_HANDLE if *notify* is destroyed or of another simulation; INVALID_VALUE if *timeout* is too
            long; INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be used here.
        TypeError: *notify* is not a notify, *stream* is not a stream, or *timeout* is not such a number.

    Example:
        notify = await CreateNotify()
        await WaitAndResetNotify(notify, stream)
        await LaunchKernel(work, 8, (), stream)  # begins when the other stream has come to its record
        await LaunchKernel(work, 8, (), other)
        await RecordNotify(notify, other)
    """
    scope, runtime, site, enter = begin()
    stream = resolve(scope, stream, WaitAndResetNotify.__name__)
    check_notify(scope, notify)
    timeout = integer("timeout", timeout, "a whole number of seconds, 0 to 4294967295", range(1 << 32))
    limit_ns = runtime.limit_ns("timeout", timeout, 10**9)
    runtime.pay(runtime.costs.wait)
    completion = notify.wait(stream, site, _shorter(limit_ns, runtime.state(WaitLimit).ns))
    runtime.scheduler.settle()
    runtime.called(WaitAndResetNotify.__name__, enter, site, Awaited(notify, None, None, stream, timeout))
    return completion


@verb(acl="aclrtNotifyBatchReset")
async def ResetNotifies(notifies: Iterable[Notify]) -> None:
    """Clear several notifies at once, outside all streams.

    Stands for aclrtNotifyBatchReset; CUDA has no such call.

    Args:
        notifies: The notifies.

    Waits:
        cuda, cuda_per_thread: For nothing: there are no notifies.
        acl: For nothing.

    Raises:
        AclError: INVALID_HANDLE if one is destroyed or of another simulation.
        TypeError: One is not a notify.
    """
    scope, runtime, site, enter = begin()
    if not isinstance(notifies, Iterable):
        raise TypeError(f"notifies must be a list of what CreateNotify() gave, not {shown(notifies)}")
    notifies = tuple(notifies)
    for notify in notifies:
        check_notify(scope, notify)
    runtime.pay(runtime.costs.other)
    for notify in notifies:
        notify.reset()
    runtime.called(ResetNotifies.__name__, enter, site)


@verb(acl="aclrtValueWrite", cuda="cuStreamWriteValue64", step="value_write")
async def ValueWrite(address: Memory, value: Integer, flag: int = 0, stream: StreamLike = None) -> Completion:
    """Write the eight bytes of *value* to the device memory at *address* when *stream* comes to the write.

    Stands for aclrtValueWrite and cuStreamWriteValue64. ValueWait() has an example.

    Args:
        address: Eight bytes of device memory, at a multiple of 8: a buffer, a part of one, or an address.
        value: A number from 0 to 2**64 - 1.
        flag: 0; there are no flags.
        stream: The stream; None is the default one, LEGACY_STREAM and PER_THREAD_STREAM name CUDA's.

    Waits:
        all rules: For nothing.

    Returns:
        The completion of the write.

    Raises:
        AclError: INVALID_ADDRESS, NULL_POINTER or INVALID_VALUE if *address* is no such memory; INVALID_VALUE for
            another *flag*; INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be used here.
        TypeError: *value* is not such a number, or *stream* is not a stream.
    """
    scope, runtime, site, enter = begin()
    stream, allocation, offset, value = _word(scope, ValueWrite.__name__, address, value, stream)
    if flag != 0:
        raise runtime.error(Kind.INVALID_VALUE, f"flag {flag!r} of ValueWrite()", "it must be 0")
    runtime.pay(runtime.costs.record)
    completion = stream.context.device.words.write(stream, site, allocation, offset, value)
    runtime.scheduler.settle()
    runtime.called(ValueWrite.__name__, enter, site, Set(Word(allocation, offset), value, stream))
    return completion


@verb(
    acl="aclrtValueWait",
    cuda="cuStreamWaitValue64",
    step="value_wait",
)
async def ValueWait(address: Memory, value: Integer, flag: int = Compare.GEQ, stream: StreamLike = None) -> Completion:
    """Let the work that is queued in *stream* from now on wait until the eight bytes at *address* compare with *value*
    as *flag* says.

    Stands for aclrtValueWait and cuStreamWaitValue64. The host does not wait. Work of any kind may write the bytes:
    ValueWrite(), copies, kernels.

    Args:
        address: Eight bytes of device memory, at a multiple of 8: a buffer, a part of one, or an address.
        value: A number from 0 to 2**64 - 1.
        flag: A member of Compare: how the bytes, as an unsigned number, must compare with *value*.
        stream: The stream; None is the default one, LEGACY_STREAM and PER_THREAD_STREAM name CUDA's.

    Waits:
        all rules: For nothing.

    Returns:
        The completion of the wait.

    Raises:
        AclError: INVALID_ADDRESS, NULL_POINTER or INVALID_VALUE if *address* is no such memory; INVALID_VALUE for
            another *flag*; INVALID_HANDLE, FOREIGN_STREAM or NOT_SUPPORTED if *stream* cannot be used here.
        TypeError: *value* is not such a number, or *stream* is not a stream.

    Example:
        await MemsetAsync(buffer, 8, 0, 8, stream)
        await SynchronizeStream(stream)
        await ValueWait(buffer, 3, Compare.GEQ, stream)
        await LaunchKernel(work, 8, (), stream)  # begins when the bytes are 3 or more
        await ValueWrite(buffer, 3, 0, other)
    """
    scope, runtime, site, enter = begin()
    stream, allocation, offset, value = _word(scope, ValueWait.__name__, address, value, stream)
    runtime.check_values("ValueWait()")
    if flag not in tuple(Compare):
        raise runtime.error(Kind.INVALID_VALUE, f"flag {flag!r} of ValueWait()", f"it must be one of {list(Compare)}")
    runtime.pay(runtime.costs.wait)
    words = stream.context.device.words
    completion = words.wait(stream, site, allocation, offset, value, Compare(flag), runtime.state(WaitLimit).ns)
    runtime.scheduler.settle()
    runtime.called(ValueWait.__name__, enter, site, Awaited(Word(allocation, offset), value, flag, stream))
    return completion


def check_signals(runtime: Runtime, name: str, remedy: str = "use events, or rules='acl'") -> None:
    """Refuse a call of *name* under rules that have no notifies, callbacks, or task groups."""
    if EventClass.FLAG not in runtime.rules.events:
        raise runtime.error(Kind.NOT_SUPPORTED, f"{name}() under rules {runtime.rules.name}", remedy)


def check_notify(scope: Scope, notify: object) -> None:
    """Refuse anything but a living notify of this simulation."""
    if not isinstance(notify, Notify):
        raise TypeError(f"a notify must be what CreateNotify() gave, not {shown(notify)}")
    if notify.device.scheduler is not scope.runtime.scheduler or notify.destroyed is not None:
        dead = notify if notify.destroyed is not None else None
        what = f"{notify!r} is not of this simulation or gone"
        raise scope.runtime.error(Kind.INVALID_HANDLE, what, "create one with CreateNotify()", dead=dead)


def _word(
    scope: Scope, name: str, address: Memory, value: Integer, stream: StreamLike
) -> tuple[Stream, Allocation, int, int]:
    runtime = scope.runtime
    stream = resolve(scope, stream, name)
    value = integer(f"the value of {name}()", value, "a whole number of 64 bits", range(1 << 64))
    allocation, offset = runtime.memory.locate(address, 8, "address")
    if allocation.space is not Space.DEVICE or (allocation.address + offset) % 8:
        raise runtime.error(
            Kind.INVALID_ADDRESS, f"the word at {offset} of {allocation!r}", "use device memory, at a multiple of 8"
        )
    return stream, allocation, offset, value


def _shorter(*limits: Nanoseconds) -> Nanoseconds:
    return min((limit for limit in limits if limit), default=0)
