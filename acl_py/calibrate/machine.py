"""The machine that is measured: a card, its driver, and the clock of its host."""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import perf_counter_ns
from typing import Any

import numpy as np

from acl_py.card.cuda.driver import CudaDriver
from acl_py.card.cuda.kernels import SPIN
from acl_py.card.cuda.opening import begun
from device_model.completions import Nanoseconds
from device_model.profile import DeviceProfile

_REST_NS = 10**6
_LITTLE = 256  # bytes
_CACHES, _PIECE, _LINE = 128 << 20, 1 << 20, 64  # bytes


@dataclass
class Machine:
    """A card and its host. *clock* gives the time of the host in nanoseconds.

    *trim_ns* is how much longer the measuring kernel lasts than the model's of the same time; it is told so much less.
    """

    driver: CudaDriver
    number: int
    clock: Callable[[], Nanoseconds] = perf_counter_ns
    trim_ns: Nanoseconds = 0
    context: Any = field(init=False)
    spin: Any = field(init=False)
    _module: Any = field(init=False)
    _device: Any = field(init=False)
    _pinned: Any = field(init=False)
    _event: Any = field(init=False)
    _memory: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        cu, call = self.driver.cu, self.driver
        self.context = call(cu.cuDevicePrimaryCtxRetain, self.number)
        call(cu.cuCtxSetCurrent, self.context)
        self._module = call(cu.cuModuleLoadData, SPIN + b"\0")
        self.spin = call(cu.cuModuleGetFunction, self._module, b"spin")
        self._device, self._pinned = call(cu.cuMemAlloc, _LITTLE), call(cu.cuMemAllocHost, _LITTLE)
        self._event = call(cu.cuEventCreate, 0)
        attribute = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        call(cu.cuFuncSetAttribute, self.spin, attribute, self.most_shared)

    def rest(self) -> None:
        """Let a millisecond pass with nothing to do, and then make a call of each common kind, which warms caches."""
        cu, call = self.driver.cu, self.driver
        self.launch(_REST_NS)
        call(cu.cuCtxSynchronize)
        for _ in range(2):
            call(cu.cuMemcpyAsync, self._device, self._pinned, _LITTLE, 0)
            call(cu.cuMemsetD8Async, self._device, 0, _LITTLE, 0)
            call(cu.cuEventRecord, self._event, 0)
            call(cu.cuStreamWaitEvent, 0, self._event, 0)
        call(cu.cuCtxSynchronize)

    def work(self, nanoseconds: Nanoseconds) -> None:
        """Let the host be busy."""
        end = self.clock() + nanoseconds
        while self.clock() < end:
            pass

    def read_memory(self, nanoseconds: Nanoseconds, nbytes: int = _CACHES) -> None:
        """Let the host read so many bytes, and be busy with memory for so long: nothing else is in as much of its
        caches then.
        """
        if self._memory is None:
            self._memory = np.ones(_CACHES, np.uint8)
        end, place = self.clock() + nanoseconds, 0
        while place < nbytes or self.clock() < end:
            self._memory[place % _CACHES :][:_PIECE:_LINE].sum()
            place += _PIECE

    def launch(self, nanoseconds: Nanoseconds) -> None:
        """Launch a kernel of this time in the legacy stream."""
        cu, values = self.driver.cu, ((nanoseconds,), (ctypes.c_uint64,))
        self.driver(cu.cuLaunchKernel, self.spin, 1, 1, 1, 1, 1, 1, 0, 0, values, 0)

    @property
    def most_shared(self) -> int:
        """The bytes of shared memory that one block can have: a block with all of it has an SM to itself."""
        attribute = self.driver.cu.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        return int(self.driver(self.driver.cu.cuDeviceGetAttribute, attribute, self.number))

    @property
    def name(self) -> str:
        """The name of the card."""
        name: bytes = self.driver(self.driver.cu.cuDeviceGetName, 256, self.number)
        return name.split(b"\0")[0].decode()

    def attribute(self, name: str) -> int:
        """Return a property of the card by the end of its name in the driver, such as "MULTIPROCESSOR_COUNT"."""
        attribute = getattr(self.driver.cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self.driver(self.driver.cu.cuDeviceGetAttribute, attribute, self.number))

    def close(self) -> None:
        """Give the card back; other libraries of the process may use its context."""
        cu = self.driver.cu
        self.driver(cu.cuCtxSynchronize)
        self.driver(cu.cuEventDestroy, self._event)
        self.driver(cu.cuMemFree, self._device)
        self.driver(cu.cuMemFreeHost, self._pinned)
        self.driver(cu.cuModuleUnload, self._module)
        self.driver(cu.cuDevicePrimaryCtxRelease, self.number)


def open_machine(number: int, clock: Callable[[], Nanoseconds] = perf_counter_ns) -> Machine:
    """Return the card with this *number*.

    Raises:
        ImportError: The package cuda-bindings is not installed.
        AclError: There is no driver, or no such card.
    """
    return Machine(begun(number), number, clock)


def described(machine: Machine, profile: DeviceProfile) -> DeviceProfile:
    """Return *profile* with what the card says of itself in place of its own."""
    driver, cu = machine.driver, machine.driver.cu
    cores, khz = machine.attribute("MULTIPROCESSOR_COUNT"), machine.attribute("CLOCK_RATE")
    numbers = {
        "devices": int(driver(cu.cuDeviceGetCount)),
        "cores.count": cores,
        "memory.bytes": int(driver(cu.cuDeviceTotalMem, machine.number)),
    }
    sm = profile.sm
    if sm is not None:
        numbers["sm.khz"], sm = khz, replace(sm, khz=khz)
    return replace(
        profile,
        description=f"{machine.name}, {cores} SMs, {numbers['memory.bytes'] / 1e9:.0f} GB",
        devices=numbers["devices"],
        cores=replace(profile.cores, count=cores),
        memory=replace(profile.memory, bytes=numbers["memory.bytes"]),
        sm=sm,
        sources={**profile.sources, **dict.fromkeys(numbers, "documented: what the card says of itself")},
    )


def no_function() -> int:
    """Return the address of a C function of one argument that does nothing: it needs no interpreter."""
    address = ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p).value
    assert address is not None, "every C library has labs()"
    return address
