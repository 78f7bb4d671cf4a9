"""Events and streams that are made without flags."""

from typing import Any

from acl_py.compat.cuda.driver import events, streams
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.runtime.entries import answers


@answers("cudaEventCreate")
async def create_event(driver: Driver) -> Any:
    """Create an event."""
    return await events.create(driver, 0)


@answers("cudaStreamCreate")
async def create_stream(driver: Driver) -> Any:
    """Create a stream."""
    return await streams.create(driver, 0)
