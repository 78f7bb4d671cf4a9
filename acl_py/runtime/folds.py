"""What a runtime knows of folded ranks: which of them run, and what each of those stands for.

A program folds its ranks with `ranks(count, main, fold=True, alike=key)`: those with equal keys are a class, and only
the first one of each class runs. Nothing looks at the others, so they must not have anything that the first one has
not: what ranks would do to each other's devices, memory and events is refused. A fold begins and ends in folding.py,
which few programs import.
"""

from contextvars import ContextVar
from typing import TYPE_CHECKING

from acl_py.errors import AclError, Kind
from acl_py.runtime.runtime import Runtime

if TYPE_CHECKING:
    from device_model.collectives.folds import Fold

own_device: ContextVar[int | None] = ContextVar("acl_py_own_device", default=None)  # of a rank that may be folded


class Folds:
    """The fold in force, and lines about all folds for the report."""

    __slots__ = ("lines", "now")

    def __init__(self) -> None:
        self.now: Fold | None = None
        self.lines: list[str] = []


def refuse_shared(runtime: Runtime, name: str, what: str, device: int) -> None:
    """Refuse a call, *name*, that a folded rank makes with *what*, which is on *device* of another rank."""
    mine = own_device.get()
    if runtime.state(Folds).now is not None and mine is not None and device != mine:
        raise shared(runtime, f"{name} of rank {mine} with {what}, which is on device {device}")


def shared(runtime: Runtime, what: str) -> AclError:
    """Return the error of a call that does *what* to another rank, in a fold."""
    remedy = "with fold=, let ranks reach each other by collectives, Send and Recv alone"
    return runtime.error(Kind.NOT_PERMITTED, what, remedy)
