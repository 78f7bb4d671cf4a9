"""The devices that sessions have opened: any thread may use a session, and finds its device current."""

from acl_py.compat.acl.face.session import Session, session
from acl_py.compat.acl.functions.base import setup
from acl_py.compat.acl.functions.rt import devices
from acl_py.compat.acl.inference.answers import done, made


class _Opened:
    """The default contexts of a runtime's devices that sessions use, as handles."""

    def __init__(self) -> None:
        self.contexts: dict[int, int] = {}


def _opened(here: Session) -> dict[int, int]:
    return here.runtime.state(_Opened).contexts


def enter(device: int, config: str = "") -> None:
    """Make *device* current in this thread. The first time acl.init() is called, unless the script has done so, with
    the file *config*.

    Raises:
        RuntimeError: There is no such device, or the file cannot be used.
    """
    here = session()
    if not here.inits:
        done(setup.init(config) if config else setup.init(), "acl.init()")
    contexts = _opened(here)
    if device in contexts and contexts[device] in here.objects:
        done(devices.set_context(contexts[device]), f"the choice of device {device}")
        return
    done(devices.set_device(device), f"the choice of device {device}")
    contexts[device] = made(devices.get_context(), f"the choice of device {device}")


def leave_all() -> None:
    """Reset the devices, and end acl.

    Raises:
        RuntimeError: Work on a device has failed.
    """
    here = session()
    contexts = _opened(here)
    for device in list(contexts):
        del contexts[device]
        done(devices.reset_device(device), f"the reset of device {device}")
    if here.inits:
        done(setup.finalize(), "acl.finalize()")
