"""Recordings written by hand: rows with what a test is about, and round numbers for the rest."""

from acl_py.trace.rows import Call, Operation, StreamStep, Timeline
from device_model.completions import Why

ENGINES = {"h2d": "H2D", "d2h": "D2H", "kernel": "cores"}


def op(name, start, end, *, queued=0, stream="stream 1", kind="kernel", why=Why.HOST, after=None, line=1, **more):
    more = {"caller": "task 1"} | more
    place = stream, ENGINES[kind], queued, start, end
    return Operation(name, kind, *place, 0, f"a.py:{line}", 0, None, why, after, **more)


def call(name, enter, exit_, *, line=9, caller="task 1", **more):
    return Call(name, enter, exit_, "a.py", line, caller, **more)


def wait(stream, queued, end, *, kind="wait", **more):
    return StreamStep(kind, "event 1", stream, 0, queued, end, "a.py:5", "task 1", **more)


def recording(ops=(), calls=(), end=0, steps=(), **more):
    """A recording that ends with its last row, or at *end*."""
    end = max([end, *(each.exit_ns for each in calls)])
    return Timeline(ops=list(ops), calls=list(calls), steps=list(steps), end_ns=end, **more)
