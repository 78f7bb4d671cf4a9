"""What call each kind of work makes, whatever the vendor."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from acl_py.errors import Kind
from device_model.ops import Op, UnreachableCopy
from device_model.work import BlindCopy, Copy, Fill, HostFunction, Kernel, PitchedCopy, Work

if TYPE_CHECKING:
    from acl_py.card.contexts import CardDevice
    from acl_py.card.host_functions import HostFunctions
    from acl_py.card.streams import CardStream

# What a record of the vendor tells work by: its kind, and its bytes or the name of its kernel.
Mark: TypeAlias = tuple[str, int | str | None]


def _unmarked(work: Any) -> None:
    """Return None: no record tells it from other work."""


class Maker(NamedTuple):
    """How work is done on a card: the *call* that queues it, and the *mark* of the record that this makes. It *may
    last* without end, as a host function may.
    """

    call: "Callable[[CardStream, Op], None]"
    may_last: bool = False
    mark: Callable[[Any], Mark | None] = _unmarked


class Works:
    """The makers of each kind of work, for one card; its *functions* are queued in a way of the vendor's own."""

    makes_instead = "run the program on the model"  # for work that this card has no call for
    bodies_instead = "choose bodies='host' (right bytes, slow)"  # for kernels with a body in Python

    def __init__(self, device: "CardDevice", functions: "HostFunctions") -> None:
        self._device = device
        self.functions = functions
        driver = device.driver
        self.copy, self.rows = Maker(driver.copy, mark=_of_copy), Maker(driver.copy_rows, mark=_of_copy)
        self.fill = Maker(driver.fill, mark=_of_fill)
        self.makers: dict[type[Work], Maker] = {
            Copy: self.copy,
            BlindCopy: self.copy,
            UnreachableCopy: self.copy,
            PitchedCopy: self.rows,
            Fill: self.fill,
            HostFunction: Maker(functions.queue, may_last=True),
            Kernel: Maker(functions.queue_body, may_last=True)
            if device.runtime.bodies == "host"
            else Maker(self._refuse_body),
        }

    def of(self, work: Work) -> Maker:
        """Return how *work* is done.

        Raises:
            AclError: A card cannot do it.
        """
        maker = self.makers.get(type(work)) or self.made_for(work)
        if maker is None:
            raise self._device.runtime.error(Kind.NOT_SUPPORTED, f"{work.label} on a card", self.makes_instead)
        return maker

    def made_for(self, work: Work) -> Maker | None:  # noqa: ARG002 - some vendors have such work
        """Return how *work* is done, if a card can do it and its class alone does not say how."""
        return None

    def close(self) -> None:
        """Give back what was made for the work."""
        self.functions.close()

    def _refuse_body(self, stream: "CardStream", op: Op) -> None:  # noqa: ARG002 - it makes no call
        raise self._device.runtime.error(
            Kind.NOT_SUPPORTED, f"kernel {op.work.label} has a body in Python, which no card runs", self.bodies_instead
        )


def _of_copy(work: Any) -> Mark:
    return "copy", work.nbytes


def _of_fill(work: Any) -> Mark:
    return "fill", work.nbytes
