"""Kernels on a card: modules in PTX, which the driver compiles, and the kernel that stands for the time of a body."""

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from acl_py.card.cuda.driver import CudaDriver
from device_model.ops import Op
from device_model.ptx.arguments import Bytes
from device_model.ptx.launch import Shape
from device_model.ptx.text.syntax import Module, Space, Variable

if TYPE_CHECKING:
    from acl_py.card.cuda.contexts import CudaDevice
    from acl_py.card.streams import CardStream

_STATIC_SHARED = 48 << 10  # a kernel may have more dynamic shared memory if it asks
SPIN = b"""
.version 7.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 nanoseconds)
{
    .reg .u64 %end, %now, %left;
    .reg .pred %on;
    ld.param.u64 %left, [nanoseconds];
    mov.u64 %now, %globaltimer;
    add.u64 %end, %now, %left;
again:
    mov.u64 %now, %globaltimer;
    setp.lt.u64 %on, %now, %end;
    @%on bra again;
    ret;
}
"""


class Modules:
    """The modules that a card has, and their kernels."""

    def __init__(self, device: "CudaDevice") -> None:
        self._driver = device.driver
        self._cu = device.driver.cu
        self._loaded: dict[int, tuple[Module, Any]] = {}  # by the id of the module, which this keeps
        self.entries: dict[tuple[int, str], Entry] = {}
        self._device = device
        self._spin: Any = None
        self._most_shared = 0
        self._spin_module: Any = None

    def load(self, module: Module, text: str) -> dict[str, tuple[int, int]]:
        """Load *module*, whose *text* the driver compiles; return addresses and bytes of its variables."""
        handle = self._driver(self._cu.cuModuleLoadData, text.encode() + b"\0")
        self._loaded[id(module)] = module, handle
        found = {}
        for name, variable in module.variables.items():
            if variable.space in (Space.GLOBAL, Space.CONST):
                address, nbytes = self._driver(self._cu.cuModuleGetGlobal, handle, name.encode())
                found[name] = int(address), int(nbytes)
        return found

    def unload(self, module: Module) -> None:
        """Let the driver forget *module*."""
        _, handle = self._loaded.pop(id(module))
        self.entries = {key: each for key, each in self.entries.items() if key[0] != id(module)}
        self._driver(self._cu.cuModuleUnload, handle)

    def launch(self, stream: "CardStream", op: Op) -> None:
        """Launch a kernel in PTX."""
        work: Any = op.work
        setup = work.setup
        entry = self._entry(setup.module, work.entry)
        entry.launch(self._driver, stream, setup.shape, work.parameters, is_cooperative=setup.is_cooperative)

    def spin(self, stream: "CardStream", op: Op) -> None:
        """Hold as many cores as an array kernel has blocks, for as long as it would."""
        work: Any = op.work
        if self._spin is None:
            self._load_spin()
        values, shared = ((work.block_ns,), (ctypes.c_uint64,)), self._most_shared if work.exclusive else 0
        self._driver(self._cu.cuLaunchKernel, self._spin, work.blocks, 1, 1, 1, 1, 1, shared, stream.handle, values, 0)

    def _load_spin(self) -> None:
        """Load the kernel that holds a core. A block that has all of a core's shared memory has the core to itself."""
        cu, driver = self._cu, self._driver
        self._spin_module = driver(cu.cuModuleLoadData, SPIN + b"\0")
        self._spin = driver(cu.cuModuleGetFunction, self._spin_module, b"spin")
        most = cu.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        self._most_shared = int(driver(cu.cuDeviceGetAttribute, most, self._device.handle))
        dynamic = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        driver(cu.cuFuncSetAttribute, self._spin, dynamic, self._most_shared)

    def _entry(self, module: Module, name: str) -> "Entry":
        """Return the kernel *name* of *module*."""
        known = self.entries.get((id(module), name))
        if known is None:
            function = self._driver(self._cu.cuModuleGetFunction, self._loaded[id(module)][1], name.encode())
            known = self.entries[id(module), name] = Entry(function, module.functions[name].parameters)
        return known

    def close(self) -> None:
        """Unload everything."""
        for _, handle in self._loaded.values():
            self._cu.cuModuleUnload(handle)
        if self._spin_module is not None:
            self._cu.cuModuleUnload(self._spin_module)


class Entry:
    """A kernel of the driver: its *function*, which takes *parameters*, and blocks of memory for these."""

    def __init__(self, function: Any, parameters: Sequence[Variable]) -> None:
        self.function = function
        self.places = _places(parameters)  # where each is in parameter memory
        self._spare: list[_Parameters] = []

    def launch(
        self, driver: CudaDriver, stream: "CardStream", shape: Shape, values: Bytes, *, is_cooperative: bool = False
    ) -> None:
        """Launch it, with *values* as its parameter memory."""
        cu, handle = driver.cu, stream.handle
        (x, y, z), (across, down, deep), shared = shape
        if shared > _STATIC_SHARED:
            most = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            driver(cu.cuFuncSetAttribute, self.function, most, shared)
        taken = self._spare.pop() if self._spare else _Parameters(values.nbytes, self.places)
        taken.block[:] = values
        call = cu.cuLaunchCooperativeKernel if is_cooperative else cu.cuLaunchKernel
        more = () if is_cooperative else (0,)
        answer = call(self.function, x, y, z, across, down, deep, shared, handle, taken.address, *more)
        self._spare.append(taken)  # the driver has copied it
        if answer[0]:
            raise driver.error(int(answer[0]), call.__name__)


class _Parameters:
    """The parameters of a launch as the driver takes them: a block of *nbytes*, and an array of pointers into it, to
    the *places* where they begin.
    """

    def __init__(self, nbytes: int, places: list[int]) -> None:
        self.block = np.empty(nbytes, np.uint8)
        start = self.block.ctypes.data
        self._pointers = (ctypes.c_void_p * max(1, len(places)))(*[start + at for at in places])
        self.address = ctypes.addressof(self._pointers)


def _places(parameters: Sequence[Variable]) -> list[int]:
    places, at = [], 0
    for parameter in parameters:
        at += -at % parameter.align
        places.append(at)
        at += parameter.nbytes
    return places
