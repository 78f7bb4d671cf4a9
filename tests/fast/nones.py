"""Read fields of None, where the compiled core has a type: `python -m tests.fast.nones` prints what each of them did.

That is AttributeError for each. A process of its own does it, because a core that does not look would end it.
"""

from types import SimpleNamespace

from acl_py.runtime.host import Host
from acl_py.verbs.bodies import Body
from device_model.aicore.core.hazards import Shadow
from device_model.aicore.timing.bandwidth import Bandwidth, Demand
from device_model.aicore.timing.l2 import Cache
from device_model.completions import NOTHING
from device_model.engines.dispatcher import Dispatcher
from device_model.engines.serial import CopyEngine
from device_model.finishing import Finisher
from device_model.memory.allocation import AllocationCore
from device_model.ops import Op
from device_model.queues import HardwareQueue
from device_model.scheduler import Engine, Scheduler
from device_model.streams import StreamCore
from device_model.work import H2D, Copy, Kernel


def bare(kind, **fields):
    """An object of *kind* that has only these *fields*."""
    made = kind.__new__(kind)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def op(**fields):
    """An operation with these *fields*."""
    made = Op(Copy(H2D, None, 0, None, 0, 7), 1, 7, None)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def stream(**fields):
    """A stream with these *fields*, and otherwise ready for an operation."""
    ready = {"order": None, "scheduler": Scheduler(), "tail": NOTHING, "pending": {}, "queues": (None, None)}
    return bare(StreamCore, **(ready | fields))


def queue(*ops):
    """A queue of *ops* that no engine serves."""
    made = HardwareQueue(None, 0, 8, (0, 0), (0, 0))
    made.fifo.extend(ops)
    return made


def head():
    """The head of a queue that no engine serves; it waits for one completion."""
    made = op(ready_ns=0, stream=None, blockers=1)
    made.queue = queue(made)
    return made


def wanted():
    """A queue that no engine serves, and in which a host wants a place."""
    made = queue()
    made.request_place()
    return made


def grant_none():
    """Let a scheduler grant something to None."""
    scheduler = Scheduler()
    scheduler.dirty.append(None)
    scheduler.at(1, id, None)
    scheduler.advance(1)


def share_none():
    """Let None have a share of a memory."""
    memory = Bandwidth((1.0,))
    memory.add(0.0, "a copy", Demand(0, 32, 1.0, 0))
    memory._active[0].append(None)
    memory.next_ended()


finisher = Finisher(Scheduler(), SimpleNamespace(flying=(), inline_bytes=8), None)
warm = bare(AllocationCore, cold=None, view=memoryview(bytearray(8)))
READS = {
    "a copy to None": lambda: Copy(H2D, None, 0, warm, 0, 7).perform(),
    "a copy from None": lambda: Copy(H2D, warm, 0, None, 0, 7).perform(),
    "a kernel that touches None": lambda: bare(Kernel, touched=(None,), body=None).perform(),
    "a kernel that no simulation barred": lambda: Body(None, print, None, (), (), ())(),
    "an operation that waits for None": lambda: head().release(None),
    "an operation in no queue": lambda: op(queue=None, stream=None).release(NOTHING),
    "an operation whose queue has no engine": lambda: head().release(NOTHING),
    "the end of None": lambda: finisher.finish(None, 0),
    "the end of an operation in no stream": lambda: finisher.finish(op(stream=None), 0),
    "None in a stream": lambda: stream().enqueue(None, 0),
    "a stream without a clock": lambda: stream(scheduler=None).enqueue(op(), 0),
    "a stream without a tail": lambda: stream(tail=None).enqueue(op(), 0),
    "a stream without a queue": lambda: stream().enqueue(op(), 0),
    "a stream that waits for None": lambda: stream().wait(None),
    "a queue without an engine": lambda: wanted().pass_on(),
    "an engine without a clock": lambda: bare(Engine, is_dirty=False, scheduler=None).request_grant(),
    "a copy engine without a queue": lambda: bare(CopyEngine, running=None, ready_heads=1, _latest=None).grant(),
    "a dispatcher without a queue": lambda: bare(Dispatcher).offer(None),
    "a dispatcher without a clock": lambda: bare(
        Dispatcher, _lead=None, list=[(0, 0, op())], _held=False, scheduler=None
    ).grant(),
    "a grant to None": grant_none,
    "a read by None": lambda: Shadow("UB").read(None, None, [0] * 8, 0, 32),
    "a write by None": lambda: Shadow("UB").write(None, None, [0] * 8, 0, 32),
    "a copy of no bytes through the L2": lambda: Cache(4096).touch(None),
    "a share for None": share_none,
    "a host without a clock": lambda: bare(Host, scheduler=None).pay(1),
    "a host without a stream": lambda: bare(Host).submit(None, op(), 1, 1),
}


def main():
    for name, read in READS.items():
        try:
            read()
        except BaseException as error:
            print(f"{name}: {type(error).__name__}", flush=True)
        else:
            print(f"{name}: nothing", flush=True)


if __name__ == "__main__":
    main()
