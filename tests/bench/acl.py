"""What a call through the module `acl` costs, beside the same call of the native API: those that scripts make most.

Both run in one process, in turn, on the same profile and with a trace, as `acl-py run` and `acl_py.run` have it. The
native side awaits verbs in an event loop and passes buffers and arrays; the module passes addresses and handles, and
drives the device itself. Calls without a native counterpart are shown alone.
"""

from statistics import median
from time import perf_counter

import numpy as np

import acl_py
from acl_py import EventFlag, MemcpyKind
from acl_py.compat.acl import Tensor, install, register_model, uninstall
from tests.bench.measure import interleaved, ratio, say, show, spread, target

DEVICE = "ascend910b3"
CALLS = 2_000
RUNS = 9
SIZE = 4096
H2D, D2H, D2D = 1, 2, 3
LIMIT = 1.5
_NATIVE, _MODULE = "native", "module"


class Native:
    """The native API: what its calls need, and a loop over each."""

    async def prepare(self):
        self.device, self.other = await acl_py.Malloc(SIZE), await acl_py.Malloc(SIZE)
        self.pinned, self.array = await acl_py.MallocHost(SIZE), np.ones(SIZE, np.uint8)
        self.stream = await acl_py.CreateStream()
        self.event = await acl_py.CreateEventExWithFlag(EventFlag.SYNC)
        self.context = await acl_py.GetCurrentContext()
        return self

    async def memcpy_to_device(self):
        for _ in range(CALLS):
            await acl_py.Memcpy(self.device, SIZE, self.array, SIZE, MemcpyKind.HOST_TO_DEVICE)

    async def memcpy_to_host(self):
        for _ in range(CALLS):
            await acl_py.Memcpy(self.array, SIZE, self.device, SIZE, MemcpyKind.DEVICE_TO_HOST)

    async def memcpy_inside(self):
        for _ in range(CALLS):
            await acl_py.Memcpy(self.other, SIZE, self.device, SIZE, MemcpyKind.DEVICE_TO_DEVICE)

    async def malloc_free(self):
        for _ in range(CALLS):
            await acl_py.Free(await acl_py.Malloc(SIZE))

    async def malloc_host_free_host(self):
        for _ in range(CALLS):
            await acl_py.FreeHost(await acl_py.MallocHost(SIZE))

    async def memcpy_async_synchronize(self):
        for _ in range(CALLS):
            await acl_py.MemcpyAsync(self.device, SIZE, self.pinned, SIZE, MemcpyKind.HOST_TO_DEVICE, self.stream)
            await acl_py.SynchronizeStream(self.stream)

    async def memcpy_async(self):
        for _ in range(CALLS):
            await acl_py.MemcpyAsync(self.device, SIZE, self.pinned, SIZE, MemcpyKind.HOST_TO_DEVICE, self.stream)
        await acl_py.SynchronizeStream(self.stream)

    async def synchronize_stream(self):
        for _ in range(CALLS):
            await acl_py.SynchronizeStream(self.stream)

    async def record_wait(self):
        for _ in range(CALLS):
            await acl_py.RecordEvent(self.event, self.stream)
            await acl_py.StreamWaitEvent(self.stream, self.event)

    async def memset(self):
        for _ in range(CALLS):
            await acl_py.Memset(self.device, SIZE, 0, SIZE)

    async def set_context(self):
        for _ in range(CALLS):
            await acl_py.SetCurrentContext(self.context)

    async def create_destroy_stream(self):
        for _ in range(CALLS):
            await acl_py.DestroyStream(await acl_py.CreateStream())


class Module:
    """The module: the same."""

    def __init__(self, acl):
        rt = self.rt = acl.rt
        self.acl = acl
        rt.set_device(0)
        (self.device, _), (self.other, _) = rt.malloc(SIZE, 0), rt.malloc(SIZE, 0)
        self.pinned, _ = rt.malloc_host(SIZE)
        self.bytes = bytes(SIZE)
        self.array = np.ones(SIZE, np.uint8)
        self.host = acl.util.bytes_to_ptr(self.bytes)
        self.stream, _ = rt.create_stream()
        self.event, _ = rt.create_event_ex_with_flag(1)
        self.context, _ = rt.get_context()
        tensors = [Tensor("x", "float32", (SIZE // 4,))], [Tensor("y", "float32", (SIZE // 4,))]
        register_model("double.om", *tensors, cost_us=10)(lambda x: x + x)
        self.model, _ = acl.mdl.load_from_file("double.om")
        self.datasets = acl.mdl.create_dataset(), acl.mdl.create_dataset()
        for dataset, memory in zip(self.datasets, (self.device, self.other), strict=True):
            acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(memory, SIZE))

    def execute(self):
        for _ in range(CALLS):
            self.acl.mdl.execute(self.model, *self.datasets)

    def memcpy_to_device(self):
        for _ in range(CALLS):
            self.rt.memcpy(self.device, SIZE, self.host, SIZE, H2D)

    def memcpy_to_host(self):
        for _ in range(CALLS):
            self.rt.memcpy(self.host, SIZE, self.device, SIZE, D2H)

    def memcpy_inside(self):
        for _ in range(CALLS):
            self.rt.memcpy(self.other, SIZE, self.device, SIZE, D2D)

    def malloc_free(self):
        for _ in range(CALLS):
            pointer, _ret = self.rt.malloc(SIZE, 0)
            self.rt.free(pointer)

    def malloc_host_free_host(self):
        for _ in range(CALLS):
            pointer, _ret = self.rt.malloc_host(SIZE)
            self.rt.free_host(pointer)

    def memcpy_async_synchronize(self):
        for _ in range(CALLS):
            self.rt.memcpy_async(self.device, SIZE, self.pinned, SIZE, H2D, self.stream)
            self.rt.synchronize_stream(self.stream)

    def memcpy_async(self):
        for _ in range(CALLS):
            self.rt.memcpy_async(self.device, SIZE, self.pinned, SIZE, H2D, self.stream)
        self.rt.synchronize_stream(self.stream)

    def synchronize_stream(self):
        for _ in range(CALLS):
            self.rt.synchronize_stream(self.stream)

    def record_wait(self):
        for _ in range(CALLS):
            self.rt.record_event(self.event, self.stream)
            self.rt.stream_wait_event(self.stream, self.event)

    def memset(self):
        for _ in range(CALLS):
            self.rt.memset(self.device, SIZE, 0, SIZE)

    def set_context(self):
        for _ in range(CALLS):
            self.rt.set_context(self.context)

    def create_destroy_stream(self):
        for _ in range(CALLS):
            stream, _ret = self.rt.create_stream()
            self.rt.destroy_stream(stream)

    def data_buffer(self):
        for _ in range(CALLS):
            self.acl.destroy_data_buffer(self.acl.create_data_buffer(self.device, SIZE))

    def data_buffer_contents(self):
        buffer = self.acl.create_data_buffer(self.device, SIZE)
        for _ in range(CALLS):
            self.acl.get_data_buffer_addr(buffer)
            self.acl.get_data_buffer_size(buffer)
        self.acl.destroy_data_buffer(buffer)

    def dataset(self):
        mdl = self.acl.mdl
        buffer = self.acl.create_data_buffer(self.device, SIZE)
        for _ in range(CALLS):
            dataset = mdl.create_dataset()
            mdl.add_dataset_buffer(dataset, buffer)
            mdl.get_dataset_num_buffers(dataset)
            mdl.get_dataset_buffer(dataset, 0)
            mdl.destroy_dataset(dataset)
        self.acl.destroy_data_buffer(buffer)

    def bytes_to_ptr(self):
        for _ in range(CALLS):
            self.acl.util.bytes_to_ptr(self.bytes)

    def numpy_contiguous_to_ptr(self):
        for _ in range(CALLS):
            self.acl.util.numpy_contiguous_to_ptr(self.array)

    def ptr_to_bytes(self):
        for _ in range(CALLS):
            self.acl.util.ptr_to_bytes(self.host, SIZE)


# What a row times, how many calls one turn of its loop makes, and how often real scripts have them: the calls that a
# count over 234 files of public projects found. Events and memcpy_async are rare there, and are what this is about.
BOTH = {
    "memcpy_to_device": ("memcpy, 4 KB from bytes to the device", 1, 92),
    "memcpy_to_host": ("memcpy, 4 KB from the device into bytes", 1, 91),
    "memcpy_inside": ("memcpy, 4 KB inside the device", 1, 0),
    "malloc_free": ("malloc, free", 2, 191),
    "malloc_host_free_host": ("malloc_host, free_host", 2, 100),
    "synchronize_stream": ("synchronize_stream, nothing to wait for", 1, 0),
    "memcpy_async_synchronize": ("memcpy_async of pinned memory, synchronize_stream", 2, 70),
    "memcpy_async": ("memcpy_async of pinned memory", 1, 6),
    "create_destroy_stream": ("create_stream, destroy_stream", 2, 70),
    "set_context": ("set_context", 1, 26),
    "memset": ("memset", 1, 7),
    "record_wait": ("record_event, stream_wait_event", 2, 0),
}
ALONE = {
    "execute": ("mdl.execute of x + x, 4 KB in and out", 1),
    "data_buffer": ("create_data_buffer, destroy_data_buffer", 2),
    "data_buffer_contents": ("get_data_buffer_addr, get_data_buffer_size", 2),
    "dataset": ("create_dataset, add, num, get, destroy", 5),
    "bytes_to_ptr": ("bytes_to_ptr", 1),
    "numpy_contiguous_to_ptr": ("numpy_contiguous_to_ptr", 1),
    "ptr_to_bytes": ("ptr_to_bytes, 4 KB", 1),
}


def main():
    results = interleaved({_NATIVE: (_native,), _MODULE: (_module,)}, RUNS, lambda side: side())
    native, module = ({name: [run[name] for run in results[side]] for name in results[side][0]} for side in results)
    rows, ratios = [], {}
    for name, (what, *_) in BOTH.items():
        ratios[name] = ratio(module[name], native[name])
        rows.append((what, spread(module[name]), spread(native[name]), f"{ratios[name]:.2f}"))
    rows += [(what, spread(module[name]), "", "") for name, (what, _) in ALONE.items()]
    show(
        f"acl: us per call through the module and natively, {CALLS:,} of each, {RUNS} runs in turn",
        ("calls", "module", "native", "ratio"),
        rows,
    )
    mix = [[sum(BOTH[name][2] * run[name] for name in BOTH) for run in results[side]] for side in (_MODULE, _NATIVE)]
    worst = max(ratios, key=ratios.__getitem__)
    say(f"  module : native, as often as real scripts call them  {target(ratio(*mix), LIMIT)}")
    say(f"  module : native, the middle of the rows              {target(median(ratios.values()), LIMIT)}")
    say(f"  module : native, worst                               {target(ratios[worst], LIMIT)}: {BOTH[worst][0]}\n")


def _native():
    async def program():
        side = await Native().prepare()
        times = {}
        for name, (_, calls, _) in BOTH.items():
            begin = perf_counter()
            await getattr(side, name)()
            times[name] = (perf_counter() - begin) / (CALLS * calls) * 1e6
        return times

    return acl_py.run(program, device=DEVICE, workers=1)


def _module():
    side = Module(install(replace=True, device=DEVICE, workers=1))
    try:
        times = {}
        for name, (_, calls, *_) in (BOTH | ALONE).items():
            begin = perf_counter()
            getattr(side, name)()
            times[name] = (perf_counter() - begin) / (CALLS * calls) * 1e6
        return times
    finally:
        uninstall()
