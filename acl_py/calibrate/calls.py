"""The steps of a stream program as bare calls of the driver, prepared before the first of them is made."""

import ctypes
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from acl_py.calibrate.machine import Machine, no_function
from acl_py.card.cuda.driver import launch_host_func
from acl_py.programs.format import Program, Step
from device_model.memory.pages import PAGE

Answer = tuple[Any, ...]  # the code, and what the call gives
Call = Callable[[], Answer]
Function = Callable[[float], tuple[int, int]]  # for a time in us: a C function that takes it, and its argument

# The names of host work that leaves all caches cold, and of work that leaves those cold that a processor has alone.
READS, READS_LITTLE = "reads memory", "reads a little memory"
_OWN_CACHES = 4 << 20

_NON_BLOCKING = 1  # a flag of cuStreamCreate
_NO_TIMING, _BLOCKING = 2, 1  # flags of cuEventCreate
_STREAMS = {"legacy": 1, "per_thread": 2}  # handles of the default streams
_SPACES = ("device", "pinned", "pageable", "managed")


class StepError(ValueError):
    """A step that is not played on a card."""


def no_time(us: float) -> tuple[int, int]:
    """Return a function of the host that takes no time.

    Raises:
        StepError: It is to take some.
    """
    if us:
        raise StepError(f"a function of the host that takes {us} us")
    return no_function(), 0


class Calls:
    """The objects of a program on a card, and the call of each step."""

    def __init__(self, machine: Machine, program: Program, function: Function = no_time) -> None:
        self._machine, self._cu, self._call = machine, machine.driver.cu, machine.driver
        self._function = function
        self._kept: list[Any] = []  # what calls read while they run
        self._memory: dict[str, tuple[str, int]] = {}  # by name: the space, and the address
        self._made: dict[str, Any] = {}  # graphs and executables by name
        self.streams: dict[str, Any] = dict(_STREAMS)
        self.events: dict[str, Any] = {}
        for name, options in program.buffers.items():
            self._memory[name] = options["space"], self._allocate(options["space"], options["bytes"])
        for name, options in program.streams.items():
            self.streams[name] = self._stream(options)
        for name, options in program.events.items():
            self.events[name] = self._call(self._cu.cuEventCreate, _flags(options))
        self.steps = [self._of(step) for step in program.steps]

    def close(self) -> None:
        """Give back what the program had before its first call; what its calls made they give back themselves."""
        cu = self._cu
        for event in self.events.values():
            self._call(cu.cuEventDestroy, event)
        for name, stream in self.streams.items():
            if name not in _STREAMS:
                self._call(cu.cuStreamDestroy, stream)
        for space, address in self._memory.values():
            if space in ("device", "managed"):
                self._call(cu.cuMemFree, address)
            elif space == "pinned":
                self._call(cu.cuMemFreeHost, address)

    def _allocate(self, space: str, nbytes: int) -> int:
        cu = self._cu
        if space == "device":
            return int(self._call(cu.cuMemAlloc, nbytes))
        if space == "pinned":
            address = int(self._call(cu.cuMemAllocHost, nbytes))
            ctypes.memset(address, 0, nbytes)  # its pages are there
            return address
        if space == "managed":
            return int(self._call(cu.cuMemAllocManaged, nbytes, 1))
        self._kept.append(np.ones(nbytes, np.uint8))
        return int(self._kept[-1].ctypes.data)

    def _stream(self, options: Mapping[str, Any]) -> Any:
        flags = _NON_BLOCKING if options["flags"] == "nonblocking" else 0
        return self._call(self._cu.cuStreamCreateWithPriority, flags, options["priority"])

    def _of(self, step: Step) -> Call:
        make = getattr(self, f"_{step.op}", None)
        if make is None or step.thread is not None or step.task is not None:
            raise StepError(f"step {step.index} ({step.op}) is none that is played on a card")
        call: Call = make(step.fields)
        return call

    def _at(self, name: str, offset: int = 0) -> int:
        """Return an address in a buffer that is there before the first call."""
        return self._memory[name][1] + offset

    # --- work

    def _launch(self, f: Mapping[str, Any]) -> Call:
        nanoseconds = max(0, round(1000 * f["us"]) - self._machine.trim_ns)
        value = ctypes.c_uint64(nanoseconds)
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(value))
        self._kept += [value, pointers]
        shared = self._machine.most_shared if f["exclusive"] else 0
        shape = (f["blocks"], 1, 1, 1, 1, 1, shared)
        where, stream = ctypes.addressof(pointers), self.streams[f["stream"]]
        return partial(self._cu.cuLaunchKernel, self._machine.spin, *shape, stream, where, 0)

    def _ends(self, f: Mapping[str, Any]) -> tuple[int, int, int]:
        return self._at(f["dst"], f["dst_off"]), self._at(f["src"], f["src_off"]), f["bytes"]

    def _memcpy_async(self, f: Mapping[str, Any]) -> Call:
        return partial(self._cu.cuMemcpyAsync, *self._ends(f), self.streams[f["stream"]])

    def _memcpy(self, f: Mapping[str, Any]) -> Call:
        return partial(self._cu.cuMemcpy, *self._ends(f))

    def _memcpy2d_async(self, f: Mapping[str, Any]) -> Call:
        cu, types = self._cu, self._cu.CUmemorytype
        copy = cu.CUDA_MEMCPY2D()
        for end in ("dst", "src"):
            address = self._at(f[end], f[f"{end}_off"])
            if self._memory[f[end]][0] == "device":
                setattr(copy, f"{end}MemoryType", types.CU_MEMORYTYPE_DEVICE)
                setattr(copy, f"{end}Device", address)
            else:
                setattr(copy, f"{end}MemoryType", types.CU_MEMORYTYPE_HOST)
                setattr(copy, f"{end}Host", address)
            setattr(copy, f"{end}Pitch", f["dpitch" if end == "dst" else "spitch"])
        copy.WidthInBytes, copy.Height = f["width"], f["height"]
        return partial(cu.cuMemcpy2DAsync, copy, self.streams[f["stream"]])

    def _fill(self, f: Mapping[str, Any]) -> tuple[Any, ...]:
        return self._at(f["dst"], f["dst_off"]), f["value"], f["bytes"]

    def _memset_async(self, f: Mapping[str, Any]) -> Call:
        return partial(self._cu.cuMemsetD8Async, *self._fill(f), self.streams[f["stream"]])

    def _memset(self, f: Mapping[str, Any]) -> Call:
        return partial(self._cu.cuMemsetD8, *self._fill(f))

    def _host_func(self, f: Mapping[str, Any]) -> Call:
        address, data = self._function(f["us"])
        launch, stream = launch_host_func(), int(self.streams[f["stream"]])
        return lambda: (launch(stream, address, data),)

    def _host_work(self, f: Mapping[str, Any]) -> Call:
        machine, nanoseconds = self._machine, round(1000 * f["us"])
        work = machine.work
        if f["name"] == READS:
            work = machine.read_memory
        elif f["name"] == READS_LITTLE:
            work = partial(machine.read_memory, nbytes=_OWN_CACHES)

        def call() -> Answer:
            work(nanoseconds)
            return (0,)

        return call

    # --- events and waits

    def _record(self, f: Mapping[str, Any]) -> Call:
        return partial(self._cu.cuEventRecord, self.events[f["event"]], self.streams[f["stream"]])

    def _wait(self, f: Mapping[str, Any]) -> Call:
        return partial(self._cu.cuStreamWaitEvent, self.streams[f["stream"]], self.events[f["event"]], 0)

    def _sync_stream(self, f: Mapping[str, Any]) -> Call:
        return partial(self._cu.cuStreamSynchronize, self.streams[f["stream"]])

    def _sync_event(self, f: Mapping[str, Any]) -> Call:
        return partial(self._cu.cuEventSynchronize, self.events[f["event"]])

    def _sync_device(self, _: Mapping[str, Any]) -> Call:
        call: Call = self._cu.cuCtxSynchronize
        return call

    def _query_stream(self, f: Mapping[str, Any]) -> Call:
        return partial(self._cu.cuStreamQuery, self.streams[f["stream"]])

    def _query_event(self, f: Mapping[str, Any]) -> Call:
        return partial(self._cu.cuEventQuery, self.events[f["event"]])

    def _elapsed(self, f: Mapping[str, Any]) -> Call:
        return partial(self._cu.cuEventElapsedTime, self.events[f["start"]], self.events[f["end"]])

    def _create_stream(self, f: Mapping[str, Any]) -> Call:
        flags = _NON_BLOCKING if f["flags"] == "nonblocking" else 0
        return self._making(f["name"], self._cu.cuStreamCreateWithPriority, flags, f["priority"])

    def _destroy_stream(self, f: Mapping[str, Any]) -> Call:
        return self._ending(f["name"], self._cu.cuStreamDestroy)

    def _create_event(self, f: Mapping[str, Any]) -> Call:
        return self._making(f["event"], self._cu.cuEventCreate, _flags(f))

    def _destroy_event(self, f: Mapping[str, Any]) -> Call:
        return self._ending(f["event"], self._cu.cuEventDestroy)

    def _set_device(self, _: Mapping[str, Any]) -> Call:
        return partial(self._cu.cuCtxSetCurrent, self._machine.context)

    def _mem_get_info(self, _: Mapping[str, Any]) -> Call:
        call: Call = self._cu.cuMemGetInfo
        return call

    def _get_priority(self, f: Mapping[str, Any]) -> Call:
        return partial(self._cu.cuStreamGetPriority, self.streams[f["stream"]])

    # --- memory that calls make

    def _malloc(self, f: Mapping[str, Any]) -> Call:
        return self._making(f["name"], self._cu.cuMemAlloc, f["bytes"])

    def _free(self, f: Mapping[str, Any]) -> Call:
        return self._ending(f["name"], self._cu.cuMemFree)

    def _malloc_managed(self, f: Mapping[str, Any]) -> Call:
        return self._making(f["name"], self._cu.cuMemAllocManaged, f["bytes"], 1)

    def _malloc_host(self, f: Mapping[str, Any]) -> Call:
        return self._making(f["name"], self._cu.cuMemAllocHost, f["bytes"])

    def _free_host(self, f: Mapping[str, Any]) -> Call:
        return self._ending(f["name"], self._cu.cuMemFreeHost)

    def _host_register(self, f: Mapping[str, Any]) -> Call:
        if f["again"] is None:
            memory = np.ones(f["bytes"] + PAGE, np.uint8)
            self._kept.append(memory)
            address = -(-memory.ctypes.data // PAGE) * PAGE
        else:
            address = self._made[f["again"]]
        self._made[f["name"]] = address
        return partial(self._cu.cuMemHostRegister, address, f["bytes"], 0)

    def _host_unregister(self, f: Mapping[str, Any]) -> Call:
        return partial(self._cu.cuMemHostUnregister, self._made[f["name"]])

    def _malloc_async(self, f: Mapping[str, Any]) -> Call:
        return self._making(f["name"], self._cu.cuMemAllocAsync, f["bytes"], self.streams[f["stream"]])

    def _free_async(self, f: Mapping[str, Any]) -> Call:
        return self._ending(f["name"], self._cu.cuMemFreeAsync, self.streams[f["stream"]])

    # --- graphs

    def _begin_capture(self, f: Mapping[str, Any]) -> Call:
        mode = self._cu.CUstreamCaptureMode(f["mode"])
        return partial(self._cu.cuStreamBeginCapture, self.streams[f["stream"]], mode)

    def _end_capture(self, f: Mapping[str, Any]) -> Call:
        return self._making(f["graph"], self._cu.cuStreamEndCapture, self.streams[f["stream"]])

    def _instantiate(self, f: Mapping[str, Any]) -> Call:
        return self._naming(f["exec"], lambda: self._cu.cuGraphInstantiate(self._made[f["graph"]], 0))

    def _upload(self, f: Mapping[str, Any]) -> Call:
        return lambda: self._cu.cuGraphUpload(self._made[f["exec"]], self.streams[f["stream"]])

    def _graph_launch(self, f: Mapping[str, Any]) -> Call:
        return lambda: self._cu.cuGraphLaunch(self._made[f["exec"]], self.streams[f["stream"]])

    def _exec_update(self, f: Mapping[str, Any]) -> Call:
        return lambda: self._cu.cuGraphExecUpdate(self._made[f["exec"]], self._made[f["graph"]])

    def _exec_destroy(self, f: Mapping[str, Any]) -> Call:
        return self._ending(f["exec"], self._cu.cuGraphExecDestroy)

    def _graph_destroy(self, f: Mapping[str, Any]) -> Call:
        return self._ending(f["graph"], self._cu.cuGraphDestroy)

    def _making(self, name: str, function: Callable[..., Answer], *args: Any) -> Call:
        return self._naming(name, lambda: function(*args))

    def _naming(self, name: str, make: Call) -> Call:
        made = self._made

        def call() -> Answer:
            answer = make()
            made[name] = answer[1]
            return answer

        return call

    def _ending(self, name: str, function: Callable[..., Answer], *args: Any) -> Call:
        return lambda: function(self._made[name], *args)


def _flags(options: Mapping[str, Any]) -> int:
    return (0 if options["timing"] else _NO_TIMING) | (_BLOCKING if options["blocking"] else 0)
