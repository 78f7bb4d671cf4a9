"""What call each kind of work makes."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from acl_py.card.codes import Codes
from acl_py.card.host_functions import HostFunctions
from acl_py.card.kernels import Modules
from acl_py.errors import Kind
from acl_py.verbs.card_code import CardWork
from device_model.memory import HOST, Space
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

_FILLS = {1: "cuMemsetD8Async", 2: "cuMemsetD16Async", 4: "cuMemsetD32Async"}
_ON_HOST = (Space.PINNED, Space.PAGEABLE)


class Maker(NamedTuple):
    """How work is done on a card: the *call* that queues it. It *may last* without end, as a host function may."""

    call: "Callable[[CardStream, Op], None]"
    may_last: bool = False


class Works:
    """The makers of each kind of work, for one card."""

    def __init__(self, device: "CardDevice") -> None:
        self._device = device
        self._cu = device.driver.cu
        self.modules = Modules(device)
        self.codes = Codes(device)
        self.functions = functions = HostFunctions(device)
        copy, rows, fill = Maker(self._copy), Maker(self._rows), Maker(self._fill)
        self._makers: Mapping[type[Work], Maker] = {
            Copy: copy,
            PagedCopy: copy,
            PitchedCopy: rows,
            PagedRows: rows,
            Fill: fill,
            PagedFill: fill,
            Prefetch: Maker(self._prefetch),
            HostFunction: Maker(functions.queue, may_last=True),
            DriverLaunch: Maker(self.modules.launch),
            CardWork: Maker(self.codes.launch),
            Kernel: Maker(functions.queue_body, may_last=True)
            if device.runtime.bodies == "host"
            else Maker(self.modules.spin if device.runtime.bodies == "time" else self._refuse_body),
        }

    def of(self, work: Work) -> Maker:
        """Return how *work* is done.

        Raises:
            AclError: A card cannot do it.
        """
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
        self._device.driver(self._cu.cuMemcpyAsync, dst, src, work.nbytes, stream.handle)

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
        address, value = work.dst.address + work.offset, work.value & ((1 << 8 * work.unit) - 1)
        call = getattr(self._cu, _FILLS[work.unit])
        self._device.driver(call, address, value, work.nbytes // work.unit, stream.handle)

    def _prefetch(self, stream: "CardStream", op: Op) -> None:
        work: Any = op.work
        place = self._cu.CUmemLocation()
        kinds = self._cu.CUmemLocationType
        is_host = work.location == HOST
        place.type = kinds.CU_MEM_LOCATION_TYPE_HOST if is_host else kinds.CU_MEM_LOCATION_TYPE_DEVICE
        place.id = 0 if is_host else work.location
        address = work.allocation.address + work.start
        self._device.driver(self._cu.cuMemPrefetchAsync, address, work.nbytes, place, 0, stream.handle)

    def _refuse_body(self, stream: "CardStream", op: Op) -> None:  # noqa: ARG002 - it makes no call
        raise self._device.runtime.error(
            Kind.NOT_SUPPORTED,
            f"kernel {op.work.label} has a body in Python, which no card runs",
            "give it card=, which is CUDA C or a function, or choose bodies='host' (right bytes, slow) or "
            "bodies='time' (its time, no bytes)",
        )
