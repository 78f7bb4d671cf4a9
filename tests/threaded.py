"""A runtime for the threads of a test."""

from contextlib import contextmanager

from acl_py.running import build
from acl_py.runtime.blocking import BlockingBridge, take_part
from acl_py.runtime.scopes import scope_var


@contextmanager
def runtime_of(options):
    """A runtime with these `Options`, in which the calling thread takes part, and others can."""
    runtime, _ = build(options)
    runtime.bridge = BlockingBridge(runtime)
    before = scope_var.get()
    take_part(runtime)
    try:
        yield runtime
    finally:
        with runtime.bridge.lock:
            runtime.close("the program is over")
        scope_var.set(before)
