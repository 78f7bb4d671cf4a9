"""The errors of the package.

    Exception
    ├── DeviceError                raised by the device model; verbs raise AclError instead
    │   └── AclError               a call failed: kind, code, name, what, remedy
    ├── RuntimeError
    │   └── DeadlockError          a wait that can never end: has what it waits for, as a chain
    └── ValueError
        └── ProfileError           a device profile that cannot be used

A caller's mistake raises AclError (TypeError and ValueError where Python would) and changes nothing. A later call
reports work that failed on the device; the rules say which. A broken invariant of this package is an AssertionError:
please report it.
"""

from textwrap import indent
from typing import TYPE_CHECKING

from device_model.errors import DeviceError as DeviceError
from device_model.errors import Kind as Kind
from device_model.errors import ProfileError as ProfileError
from device_model.errors import text_of

if TYPE_CHECKING:
    from acl_py.trace.rows.timeline import Timeline
    from device_model.chains import Link
    from device_model.error_codes import Code


def full_text(error: BaseException) -> str:
    """Return what a traceback says of *error* below its lines: type, message and notes; of a group also its parts'."""
    lines = [text_of(error), *getattr(error, "__notes__", ())]
    if isinstance(error, BaseExceptionGroup):
        lines += [indent(full_text(part), "  ") for part in error.exceptions]
    return "\n".join(lines)


class AclError(DeviceError):
    """A call failed.

    Attributes: *kind*, the `Kind` of failure; *code* and *name*, its number and name under the rules in force; *what*
    was wrong; *remedy*, what to do about it.
    """

    def __init__(self, kind: Kind, code: "Code", what: str, remedy: str = "") -> None:
        super().__init__(kind, what, remedy)
        self.code = code.value
        self.name = code.name

    def __str__(self) -> str:
        return f"{self.name} ({self.code}): {super().__str__()}"


class DeadlockError(RuntimeError):
    """A wait can never end: no task or thread can run, nothing is scheduled on a device, and nothing outside the
    simulation can help.

    Attributes:
        chain: What this wait waits for, what that waits for in turn, and so on: a line for each. The message has the
            chains of all waits.
        links: The same as data: `device_model.chains.Link`, one for each line. They hold objects of the simulation, so
            a pickled error, as a pool of processes sends it, has none.
        timeline: The recording up to here, of a replay; else None.
    """

    def __init__(self, what: str, chain: tuple[str, ...] = ()) -> None:
        super().__init__(what)
        self.chain = chain
        self.links: tuple[Link, ...] = ()
        self.timeline: Timeline | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.args, self.__dict__ | {"links": ()}
