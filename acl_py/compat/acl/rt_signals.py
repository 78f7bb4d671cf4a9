"""acl.rt: notifies, and words of device memory that streams write and wait for."""

import acl_py as native
from acl_py.compat.acl.binding import WrongContainerError, takes
from acl_py.compat.acl.lookups import end, made, missing, run, stream_of, thing_of
from acl_py.compat.acl.session import SUCCESS, session
from device_model.signals import Notify

_ENDLESS = 1 << 32  # more seconds than fit


@takes("|k")
def create_notify(flag: int = 0) -> tuple[int, int]:
    """Create a notify."""
    here = session()
    return made(here, native.CreateNotify(flag))


@takes("k")
def destroy_notify(handle: int) -> int:
    """Destroy a notify."""
    return end(session(), native.DestroyNotify, handle, Notify)


@takes("kk")
def record_notify(notify: int, stream: int) -> int:
    """Set a notify in a stream."""
    here = session()
    return run(here, native.RecordNotify, thing_of(here, notify, Notify), stream_of(here, stream))


@takes("kkq")
def wait_and_reset_notify(notify: int, stream: int, seconds: int) -> int:
    """Let a stream wait for a notify and clear it, for *seconds* at the longest; 0 is for ever."""
    if not 0 <= seconds < _ENDLESS:
        raise TypeError(
            f"acl.rt.wait_and_reset_notify: the time-out must be 0 or more and less than 2**32, not {seconds}"
        )
    here = session()
    return run(here, native.WaitAndResetNotify, thing_of(here, notify, Notify), stream_of(here, stream), seconds)


@takes("k")
def get_notify_id(handle: int) -> tuple[int, int]:
    """The number of a notify."""
    here = session()
    notify = thing_of(here, handle, Notify)
    code = missing(here, notify)
    return (0, code) if code else (notify.id, SUCCESS)


@takes("l")
def notify_batch_reset(handles: list[int]) -> int:
    """Clear several notifies at once."""
    if not all(isinstance(handle, int) for handle in handles):
        raise WrongContainerError("acl.rt.notify_batch_reset args parse failed: all elements must be integers")
    here = session()
    notifies = [thing_of(here, handle, Notify) for handle in handles]
    return missing(here, *notifies) or here.ret(native.ResetNotifies(notifies))


@takes("kkuk")
def value_write(address: int, value: int, flag: int, stream: int) -> int:
    """Write a word of device memory in a stream."""
    here = session()
    return run(here, native.ValueWrite, address, value, flag, stream_of(here, stream))


@takes("kkuk")
def value_wait(address: int, value: int, flag: int, stream: int) -> int:
    """Let a stream wait until a word of device memory compares with *value*."""
    here = session()
    return run(here, native.ValueWait, address, value, flag, stream_of(here, stream))
