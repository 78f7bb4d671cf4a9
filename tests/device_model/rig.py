"""A device without a host: submit work at chosen instants, run it, and look at what happened when."""

from dataclasses import replace

from device_model.completions import Completion
from device_model.curves import Curve
from device_model.device import Device
from device_model.engines.workers import Workers
from device_model.errors import DeviceError
from device_model.links.fabric import Links
from device_model.memory import Memory
from device_model.observe import Hooks, Observer
from device_model.ops import Op
from device_model.profile import load
from device_model.rules import CUDA
from device_model.scheduler import Scheduler
from device_model.work import D2D, D2H, H2D, Copy, Fill, HostFunction, Kernel, Label, Lane

MIB = 1 << 20


def tiny(**parts):
    """The tiny profile with other values: `tiny(latency={"copy_gap": 10})`."""
    profile = load("tiny")
    changed = {part: replace(getattr(profile, part), **values) for part, values in parts.items()}
    return replace(profile, **changed)


def line(start, per_byte=1):
    """A curve that begins at *start* and takes *per_byte* ns for each byte."""
    return Curve([(0, start), (1000, start + 1000 * per_byte)])


class History(Observer):
    """What ended, as (what, number of the stream, start, end); and what failed."""

    def __init__(self):
        self.rows = []
        self.failures = []

    def op_ended(self, op):
        self.rows.append((op.work.label.name, op.stream.id, op.start_ns, op.end_ns))

    def failed(self, op, error):
        self.failures.append((op.work.label.name, op.stream.id, str(error)))


class Rig:
    """One device and what it needs. What is submitted can start at once; copies are of zeros unless said otherwise."""

    def __init__(self, profile=None, rules=CUDA, workers=1, *, beside=None):
        profile = profile or load("tiny")
        if beside is None:
            self.scheduler = Scheduler()
            self.workers = Workers(self.scheduler, workers)
            self.memory = Memory([profile.memory.bytes] * profile.devices, profile.memory.alignment, DeviceError)
            self.hooks = Hooks()
            self.links = Links(self.scheduler, profile.links)
            self.history = History()
            self.hooks.add(self.history)
        else:  # the second device of the same simulation
            self.scheduler, self.workers, self.memory = beside.scheduler, beside.workers, beside.memory
            self.hooks, self.history, self.links = beside.hooks, beside.history, beside.links
        ordinal = 0 if beside is None else 1
        self.device = Device(ordinal, profile, rules, self.scheduler, self.memory, self.workers, self.hooks, self.links)
        self.context = self.device.primary
        self.legacy = self.context.legacy
        self._scratch = {}

    @property
    def now(self):
        return self.scheduler.now

    def stream(self, *, nonblocking=False, priority=0, context=None):
        return (context or self.context).create_stream(nonblocking=nonblocking, priority=priority, made=None)

    def event(self):
        return self.context.create_event(timing=True, made=None)

    def on_device(self, nbytes):
        return self.memory.malloc(self.device.ordinal, nbytes, None).allocation

    def pinned(self, nbytes):
        return self.memory.malloc_host(nbytes, None).allocation

    def scratch(self, make, nbytes):
        found = self._scratch.get(make.__name__)
        if found is None or found.nbytes < nbytes:
            found = self._scratch[make.__name__] = make(max(nbytes, MIB))
        return found

    def submit(self, stream, work, *, at=None):
        """Queue *work*; no engine starts it before *at*."""
        op = Op(work, work.label.lane, work.nbytes, None)
        stream.enqueue(op, self.now if at is None else at)
        self.scheduler.settle()
        return op

    def h2d(self, stream, nbytes, dst=None, src=None, *, at=None):
        dst, src = dst or self.scratch(self.on_device, nbytes), src or self.scratch(self.pinned, nbytes)
        return self.submit(stream, Copy(H2D, dst, 0, src, 0, nbytes), at=at)

    def d2h(self, stream, nbytes, dst=None, src=None, *, at=None):
        dst, src = dst or self.scratch(self.pinned, nbytes), src or self.scratch(self.on_device, nbytes)
        return self.submit(stream, Copy(D2H, dst, 0, src, 0, nbytes), at=at)

    def d2d(self, stream, nbytes, dst=None, src=None):
        dst, src = dst or self.scratch(self.on_device, nbytes), src or self.scratch(self.on_device, nbytes)
        return self.submit(stream, Copy(D2D, dst, 0, src, 0, nbytes))

    def fill(self, stream, nbytes, value=0, dst=None):
        return self.submit(stream, Fill(dst or self.scratch(self.on_device, nbytes), 0, value, nbytes))

    def kernel(
        self, stream, block_ns, blocks=1, *, exclusive=False, body=lambda: None, name="kernel", read=(), written=(),
        nbytes=0, serial=False,
    ):  # fmt: skip
        label = Label("kernel", Lane.COMPUTE, name)
        return self.submit(
            stream, Kernel(label, blocks, block_ns, body, read, written, nbytes, exclusive=exclusive, serial=serial)
        )

    def host_function(self, stream, duration_ns, function=lambda: None):
        return self.submit(stream, HostFunction(function, (), duration_ns))

    def advance(self, until):
        self.scheduler.advance(until)

    def run(self):
        """Until nothing is scheduled; the rows of what ended."""
        self.scheduler.run_until(Completion(), 10**9)
        return self.history.rows


def whole(allocation):
    return (allocation, 0, allocation.nbytes)
