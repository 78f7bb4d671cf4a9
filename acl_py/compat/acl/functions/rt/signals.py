"""acl.rt: notifies, and words of device memory that streams write and wait for."""

import acl_py as native
from acl_py.compat.acl.face.binding import WrongContainerError, gives, runs
from acl_py.compat.acl.face.lookups import Running, end
from acl_py.compat.acl.face.session import Session

_ENDLESS = 1 << 32  # more seconds than fit


@gives("|k")
def create_notify(here: Session, flag: int = 0) -> int:
    """Create a notify."""
    return here.handle(here.run(native.CreateNotify(flag)))


@runs("k")
def destroy_notify(here: Session, handle: int) -> Running:
    """Destroy a notify."""
    return end(here, native.DestroyNotify, here.notifies, handle)


@runs("kk")
def record_notify(here: Session, notify: int, stream: int) -> Running:
    """Set a notify in a stream."""
    return native.RecordNotify(here.notifies[notify], here.streams[stream])


@runs("kkq")
def wait_and_reset_notify(here: Session, notify: int, stream: int, seconds: int) -> Running:
    """Let a stream wait for a notify and clear it, for at most *seconds*; 0 is no limit."""
    if not 0 <= seconds < _ENDLESS:
        raise TypeError(
            f"acl.rt.wait_and_reset_notify: the time-out must be 0 or more and less than 2**32, not {seconds}"
        )
    return native.WaitAndResetNotify(here.notifies[notify], here.streams[stream], seconds)


@gives("k")
def get_notify_id(here: Session, handle: int) -> int:
    """The number of a notify."""
    return here.notifies[handle].id


@runs("l")
def notify_batch_reset(here: Session, handles: list[int]) -> Running:
    """Clear several notifies at once."""
    if not all(isinstance(handle, int) for handle in handles):
        raise WrongContainerError("acl.rt.notify_batch_reset args parse failed: all elements must be integers")
    return native.ResetNotifies([here.notifies[handle] for handle in handles])


@runs("kkuk")
def value_write(here: Session, address: int, value: int, flag: int, stream: int) -> Running:
    """Write a word of device memory in a stream."""
    return native.ValueWrite(address, value, flag, here.streams[stream])


@runs("kkuk")
def value_wait(here: Session, address: int, value: int, flag: int, stream: int) -> Running:
    """Let a stream wait until a word of device memory compares with *value*."""
    return native.ValueWait(address, value, flag, here.streams[stream])
