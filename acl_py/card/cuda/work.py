"""What call each kind of work makes on a card of NVIDIA."""

from typing import TYPE_CHECKING, Any

from acl_py.card.cuda.codes import Codes
from acl_py.card.cuda.graphs import GraphLaunch
from acl_py.card.cuda.host_functions import CudaFunctions
from acl_py.card.cuda.kernels import Modules
from acl_py.card.cuda.pages import place_of
from acl_py.card.work import Maker, Works
from acl_py.verbs.card_code import CardWork
from device_model.ops import Op
from device_model.ptx.launch import DriverLaunch
from device_model.work import Kernel, PagedCopy, PagedFill, PagedRows, Prefetch, Work

if TYPE_CHECKING:
    from acl_py.card.cuda.contexts import CudaDevice
    from acl_py.card.streams import CardStream


class CudaWorks(Works):
    """The makers of each kind of work, for one card of NVIDIA."""

    makes_instead = "give a kernel of cta its card=, in CUDA C, or run the program on the model"
    bodies_instead = (
        "give it card=, which is CUDA C or a function, or choose bodies='host' (right bytes, slow) or bodies='time' "
        "(its time, no bytes)"
    )
    functions: CudaFunctions

    def __init__(self, device: "CudaDevice") -> None:
        super().__init__(device, CudaFunctions(device))
        self._driver, self._cu = device.driver, device.driver.cu
        self.modules = Modules(device)
        self.codes = Codes(device)
        self.makers |= {
            PagedCopy: self.copy,
            PagedRows: self.rows,
            PagedFill: self.fill,
            Prefetch: Maker(self._prefetch),
            DriverLaunch: Maker(self.modules.launch, mark=_of_kernel),
            CardWork: Maker(self.codes.launch, mark=_of_kernel),
        }
        self._graph, self._lasting_graph = (
            Maker(self._launch, lasts, lambda _: ("graph", None)) for lasts in (False, True)
        )
        if device.runtime.bodies == "time":
            self.makers[Kernel] = Maker(self.modules.spin, mark=lambda _: ("kernel", "spin"))

    def made_for(self, work: Work) -> Maker | None:
        """Return how *work* is done, if a card can do it and its class alone does not say how."""
        if isinstance(work, GraphLaunch):
            return self._lasting_graph if work.executable.may_last else self._graph
        return None

    def close(self) -> None:
        """Unload modules, and forget functions."""
        self.modules.close()
        super().close()
        self.codes.close()

    def _prefetch(self, stream: "CardStream", op: Op) -> None:
        work: Any = op.work
        place = place_of(self._cu, work.location)
        address = work.allocation.address + work.start
        self._driver(self._cu.cuMemPrefetchAsync, address, work.nbytes, place, 0, stream.handle)

    def _launch(self, stream: "CardStream", op: Op) -> None:
        work: Any = op.work
        self._driver(self._cu.cuGraphLaunch, work.executable.handle, stream.handle)


def _of_kernel(work: Any) -> tuple[str, str] | None:
    return ("kernel", work.entry) if work.entry else None
