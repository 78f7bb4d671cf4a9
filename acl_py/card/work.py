"""What call each kind of work makes."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from acl_py.card.codes import Codes
from acl_py.card.graphs import GraphLaunch
from acl_py.card.host_functions import HostFunctions
from acl_py.card.kernels import Modules
from acl_py.card.pages import place_of
from acl_py.errors import Kind
from acl_py.verbs.card_code import CardWork
from device_model.memory import Space
from device_model.ops import Op
from device_model.ptx.launch import DriverLaunch
from device_model.work import (
    Copy,
    Fill,
    HostFunction,
    Kernel,
    PagedCopy,
    PagedFill,
    PagedRows,
    PitchedCopy,
    Prefetch,
    Work,
)

if TYPE_CHECKING:
    from acl_py.card.contexts import CardDevice
    from acl_py.card.streams import CardStream
    from device_model.memory import Allocation

_ON_HOST = (Space.PINNED, Space.PAGEABLE)


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
    """The makers of each kind of work, for one card."""

    def __init__(self, device: "CardDevice") -> None:
        self._device = device
        self._cu = device.driver.cu
        self._fills = {1: self._cu.cuMemsetD8Async, 2: self._cu.cuMemsetD16Async, 4: self._cu.cuMemsetD32Async}
        self.modules = Modules(device)
        self.codes = Codes(device)
        self.functions = functions = HostFunctions(device)
        copy, rows = (Maker(call, mark=lambda work: ("copy", work.nbytes)) for call in (self._copy, self._rows))
        fill = Maker(self._fill, mark=lambda work: ("fill", work.nbytes))
        self._makers: Mapping[type[Work], Maker] = {
            Copy: copy,
            PagedCopy: copy,
            PitchedCopy: rows,
            PagedRows: rows,
            Fill: fill,
            PagedFill: fill,
            Prefetch: Maker(self._prefetch),
            HostFunction: Maker(functions.queue, may_last=True),
            DriverLaunch: Maker(self.modules.launch, mark=lambda work: ("kernel", work.entry)),
            CardWork: Maker(self.codes.launch, mark=lambda work: ("kernel", work.entry) if work.entry else None),
            Kernel: Maker(functions.queue_body, may_last=True)
            if device.runtime.bodies == "host"
            else Maker(self.modules.spin, mark=lambda _: ("kernel", "spin"))
            if device.runtime.bodies == "time"
            else Maker(self._refuse_body),
        }

    def of(self, work: Work) -> Maker:
        """Return how *work* is done.

        Raises:
            AclError: A card cannot do it.
        """
        if isinstance(work, GraphLaunch):
            return Maker(self._launch, work.executable.may_last, lambda _: ("graph", None))
        maker = self._makers.get(type(work))
        if maker is None:
            raise self._device.runtime.error(
                Kind.NOT_SUPPORTED,
                f"{work.label} on a card",
                "give a kernel of cta its card=, in CUDA C, or run the program on the model",
            )
        return maker

    def _copy(self, stream: "CardStream", op: Op) -> None:
        work: Any = op.work
        dst, src = work.dst.address + work.dst_offset, work.src.address + work.src_offset
        answer = self._cu.cuMemcpyAsync(dst, src, work.nbytes, stream.handle)
        if answer[0]:
            raise self._device.driver.error(int(answer[0]), "cuMemcpyAsync")

    def _rows(self, stream: "CardStream", op: Op) -> None:
        work: Any = op.work
        rows = self._cu.CUDA_MEMCPY2D()
        self._end(rows, "src", work.src, work.src_offset, work.src_pitch)
        self._end(rows, "dst", work.dst, work.dst_offset, work.dst_pitch)
        rows.WidthInBytes, rows.Height = work.width, work.height
        self._device.driver(self._cu.cuMemcpy2DAsync, rows, stream.handle)

    def _end(self, rows: Any, role: str, allocation: "Allocation", offset: int, pitch: int) -> None:
        types, is_on_host = self._cu.CUmemorytype, allocation.space in _ON_HOST
        kind = types.CU_MEMORYTYPE_HOST if is_on_host else types.CU_MEMORYTYPE_DEVICE
        if allocation.space is Space.MANAGED:
            kind = types.CU_MEMORYTYPE_UNIFIED
        setattr(rows, f"{role}MemoryType", kind)
        setattr(rows, f"{role}Host" if is_on_host else f"{role}Device", allocation.address + offset)
        setattr(rows, f"{role}Pitch", pitch)

    def _fill(self, stream: "CardStream", op: Op) -> None:
        work: Any = op.work
        call = self._fills[work.unit]
        self._device.driver(call, work.dst.address + work.offset, work.value, work.nbytes // work.unit, stream.handle)

    def _prefetch(self, stream: "CardStream", op: Op) -> None:
        work: Any = op.work
        place = place_of(self._cu, work.location)
        address = work.allocation.address + work.start
        self._device.driver(self._cu.cuMemPrefetchAsync, address, work.nbytes, place, 0, stream.handle)

    def _launch(self, stream: "CardStream", op: Op) -> None:
        work: Any = op.work
        self._device.driver(self._cu.cuGraphLaunch, work.executable.handle, stream.handle)

    def _refuse_body(self, stream: "CardStream", op: Op) -> None:  # noqa: ARG002 - it makes no call
        raise self._device.runtime.error(
            Kind.NOT_SUPPORTED,
            f"kernel {op.work.label} has a body in Python, which no card runs",
            "give it card=, which is CUDA C or a function, or choose bodies='host' (right bytes, slow) or "
            "bodies='time' (its time, no bytes)",
        )
