"""Recordings written by hand: rows with what a test is about, and round numbers for the rest."""

from acl_py.calls.acts import PLAIN, Queued, Synchronised
from acl_py.trace.rows.timeline import Call, Handle, Operation, Ref, Sleep, StreamStep, Timeline
from device_model.completions import Why

# The places of handles: a context, and behind it the streams by their numbers.
HANDLES = [Handle("context", "primary", 0, "", {}), *(Handle("stream", f"stream {n}", 0, "", {}, n) for n in (1, 2, 3))]
ACTS = {"LaunchKernel": Queued(None, Ref(1)), "MemcpyAsync": Queued(None, Ref(1)),
        "SynchronizeDevice": Synchronised(Ref(0)), "SynchronizeStream": Synchronised(Ref(1))}  # fmt: skip
ENGINES = {"h2d": "H2D", "d2h": "D2H", "kernel": "cores"}


def op(name, start, end, *, queued=0, stream="stream 1", kind="kernel", why=Why.HOST, after=None, line=1, **more):
    more = {"caller": "task 1", "in_stream": int(stream.split()[-1])} | more
    place = stream, ENGINES[kind], queued, start, end
    return Operation(name, kind, *place, 0, f"a.py:{line}", 0, None, why, after, **more)


def call(name, enter, exit_, *sleeps, line=9, caller="task 1", **more):
    """A call, with its sleeps as (from, to, the operation that ended them)."""
    slept = tuple(Sleep(*sleep) for sleep in sleeps)
    waited = sum(sleep.waited_ns for sleep in slept)
    after = slept[-1].after if slept else None
    more = {"act": ACTS.get(name, PLAIN)} | more
    return Call(name, enter, exit_, "a.py", line, caller, waited_ns=waited, after=after, sleeps=slept, **more)


def wait(stream, queued, end, *, kind="wait", **more):
    return StreamStep(kind, "event 1", stream, 0, queued, end, "a.py:5", "task 1", int(stream.split()[-1]), **more)


def recording(ops=(), calls=(), end=0, steps=(), **more):
    """A recording that ends with its last row, or at *end*."""
    end = max([end, *(each.exit_ns for each in calls)])
    more = {"handles": HANDLES} | more
    return Timeline(ops=list(ops), calls=list(calls), steps=list(steps), end_ns=end, **more)
