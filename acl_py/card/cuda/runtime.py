"""The runtime of a run on a card of NVIDIA."""

from collections.abc import Mapping
from functools import cache

from acl_py.calls.table import all_verbs
from acl_py.card.contexts import CardDevice
from acl_py.card.cuda.activities import activities
from acl_py.card.cuda.contexts import CudaContext, CudaDevice
from acl_py.card.cuda.driver import CudaDriver
from acl_py.card.cuda.memory import CudaMemory
from acl_py.card.runtime import ANYWHERE, ON_THE_MODEL, ONE_BY_ONE, USE_A_LIBRARY, CardRuntime
from acl_py.findings import Findings
from acl_py.runtime.scopes import current_scope
from acl_py.verbs import copy_batches, devices, graph_nodes, graphs
from device_model.memory import Buffer, Origin
from device_model.ptx.launch import DriverLaunch
from device_model.ptx.text.syntax import Module
from device_model.work import Work

_ONE_CONTEXT = "use SetDevice(): a run has the primary context of each card"
_CONDITIONS = "a condition is set by code that is linked with the vendor's device runtime: run the program on the model"
_ELSEWHERE = {
    devices.ResetDevice.__name__: "end the process: torch, CuPy and numba live in the same context",
    devices.CreateContext.__name__: _ONE_CONTEXT,
    devices.DestroyContext.__name__: _ONE_CONTEXT,
    copy_batches.MemcpyBatchAsync.__name__: ONE_BY_ONE,
    graphs.GraphAddIfNode.__name__: _CONDITIONS,
    graph_nodes.GraphAddConditionalNode.__name__: _CONDITIONS,
}
_UNSEEN = "what kernels in PTX read and write is not seen on a card: sanitize the program on the model, too"


@cache
def refused() -> dict[str, str]:
    """Return what to do in place of each verb that a card does not do."""
    here = {each.__name__ for each in ANYWHERE}
    remedies = {}
    for name, each in all_verbs().items():
        if name in _ELSEWHERE:
            remedies[name] = _ELSEWHERE[name]
        elif each.noun in ON_THE_MODEL:
            remedies[name] = USE_A_LIBRARY
        elif each.cuda is None and name not in here:
            remedies[name] = "CUDA has no such function: run the program on the model"
    return remedies


class CudaRuntime(CardRuntime):
    """A run on cards of NVIDIA."""

    memory: CudaMemory
    driver: CudaDriver
    runs_ptx = True
    stages = False  # the driver does

    def make_driver(self) -> CudaDriver:
        """Return the driver, whose errors are those of the run."""
        return CudaDriver(self.error)

    def refused(self) -> Mapping[str, str]:
        """Return what to do in place of each verb that the card does not do."""
        return refused()

    def begin(self) -> None:
        """Let the time of the run begin now."""
        if self.is_recorded:
            activities()  # its package takes long to import
        super().begin()

    def make_memory(self) -> CudaMemory:
        """Return the memory of the cards."""
        profile = self.profile
        capacities = [profile.memory.bytes] * profile.devices
        return CudaMemory(capacities, profile.memory.alignment, self.error, self.driver, self._hold_back)

    def make_card(self, number: int) -> CardDevice:
        """Return card *number*, which is current then."""
        return CudaDevice(self, number)

    def note_unseen(self, work: Work) -> None:
        """Note that the sanitizer sees nothing of *work*, if it is so."""
        if isinstance(work, DriverLaunch):
            self.state(Findings).note(_UNSEEN)

    def load_module(self, module: Module, text: str, made: object) -> dict[str, Buffer]:
        """Let the driver compile *text*, and return the variables of the module."""
        context = self._card()
        found = context.works.modules.load(module, text)
        begin, ordinal = self.memory.begin_on_card, context.device.ordinal
        return {name: begin(address, nbytes, ordinal, Origin.MODULE, made) for name, (address, nbytes) in found.items()}

    def unload_module(self, module: Module) -> None:
        """Let the driver forget *module*."""
        self._card().works.modules.unload(module)

    def _hold_back(self, number: int, handle: int) -> None:
        """Let work of a stream of the driver wait for all work that card *number* has been given."""
        card = self.device(number)
        assert isinstance(card, CudaDevice), f"{card!r} is no card"
        self._here = None  # the next call makes its own context current again
        card.make_current()  # this may be a thread that has made no call
        for stream in card.primary.all_streams():
            stream.lead(handle)

    def _card(self) -> CudaContext:
        """Return the current context."""
        context = current_scope().context
        assert isinstance(context, CudaContext), f"{context!r} is not of a card"
        return context
