"""Changes of what nodes do: in a graph, or in one executable of it."""

from typing import Any

import acl_py as native
from acl_py.compat.cuda.driver import parameters
from acl_py.compat.cuda.driver.nodes import UNION, form_of, kind_at
from acl_py.compat.cuda.driver.parameters import Queue
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_VALUE, RefusedError
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import own_memory
from device_model.events import Event
from device_model.graphs.executable import Executable
from device_model.graphs.graph import Node


async def _set(driver: Driver, node: Node, queue: Queue, noted: bytes = b"") -> None:
    """Let *node* do what *queue* queues; *noted* is the structure that says so."""
    driver.handles.renew(node, await native.GraphNodeSetWork(node, queue))
    if noted:
        driver.notes["parameters", node.first] = noted


@answers("cuGraphKernelNodeSetParams")
async def set_old_kernel(driver: Driver, node: Node, address: int) -> None:
    """Let a node launch another kernel, or with other arguments."""
    await _set(driver, node, parameters.kernel_at(driver, address, parameters.OLD_KERNEL))


@answers("cuGraphKernelNodeSetParams_v2")
async def set_kernel(driver: Driver, node: Node, address: int) -> None:
    """The same; the structure may name a kernel of a library."""
    await _set(driver, node, parameters.kernel_at(driver, address))


@answers("cuGraphMemcpyNodeSetParams")
async def set_copy(driver: Driver, node: Node, address: int) -> None:
    """Let a node make another copy."""
    await _set(driver, node, parameters.copy_at(driver, address), own_memory.read(address, parameters.COPY_SIZE))


@answers("cuGraphMemsetNodeSetParams")
async def set_fill(driver: Driver, node: Node, address: int) -> None:
    """Let a node make another fill."""
    await _set(driver, node, parameters.fill_at(driver, address), own_memory.read(address, parameters.FILL.size))


@answers("cuGraphHostNodeSetParams")
async def set_host(driver: Driver, node: Node, address: int) -> None:
    """Let a node call another function."""
    await _set(driver, node, parameters.host_at(driver, address))


@answers("cuGraphEventRecordNodeSetEvent")
async def set_record(driver: Driver, node: Node, event: Event) -> None:
    """Let a node record another event."""
    await _set(driver, node, parameters.recording(event))


@answers("cuGraphEventWaitNodeSetEvent")
async def set_wait(driver: Driver, node: Node, event: Event) -> None:
    """Let a node wait for another event."""
    await _set(driver, node, parameters.waiting(event))


@answers("cuGraphNodeSetParams")
async def set_any(driver: Driver, node: Node, address: int) -> None:
    """Let a node of any kind do something else of this kind."""
    form = form_of(kind_at(address))
    place = address + UNION + form.offset
    await _set(driver, node, form.queue_at(driver, place), own_memory.read(place, form.nbytes))


# --- in an executable


@answers("cuGraphExecKernelNodeSetParams")
async def exec_set_old_kernel(driver: Driver, executable: Executable, node: Node, address: int) -> None:
    """Let an executable launch another kernel, or with other arguments."""
    queue = parameters.kernel_at(driver, address, parameters.OLD_KERNEL)
    await native.GraphExecNodeSetWork(executable, node, queue)


@answers("cuGraphExecKernelNodeSetParams_v2")
async def exec_set_kernel(driver: Driver, executable: Executable, node: Node, address: int) -> None:
    """The same; the structure may name a kernel of a library."""
    await native.GraphExecNodeSetWork(executable, node, parameters.kernel_at(driver, address))


@answers("cuGraphExecMemcpyNodeSetParams")
async def exec_set_copy(driver: Driver, executable: Executable, node: Node, address: int, *_: Any) -> None:
    """Let an executable make another copy."""
    await native.GraphExecNodeSetWork(executable, node, parameters.copy_at(driver, address))


@answers("cuGraphExecMemsetNodeSetParams")
async def exec_set_fill(driver: Driver, executable: Executable, node: Node, address: int, *_: Any) -> None:
    """Let an executable make another fill."""
    await native.GraphExecNodeSetWork(executable, node, parameters.fill_at(driver, address))


@answers("cuGraphExecHostNodeSetParams")
async def exec_set_host(driver: Driver, executable: Executable, node: Node, address: int) -> None:
    """Let an executable call another function."""
    await native.GraphExecNodeSetWork(executable, node, parameters.host_at(driver, address))


@answers("cuGraphExecEventRecordNodeSetEvent")
async def exec_set_record(_: Driver, executable: Executable, node: Node, event: Event) -> None:
    """Let an executable record another event."""
    await native.GraphExecNodeSetWork(executable, node, parameters.recording(event))


@answers("cuGraphExecEventWaitNodeSetEvent")
async def exec_set_wait(_: Driver, executable: Executable, node: Node, event: Event) -> None:
    """Let an executable wait for another event."""
    await native.GraphExecNodeSetWork(executable, node, parameters.waiting(event))


@answers("cuGraphExecNodeSetParams")
async def exec_set_any(driver: Driver, executable: Executable, node: Node, address: int) -> None:
    """Let an executable do something else of this kind in the place of a node."""
    form = form_of(kind_at(address))
    queue = form.queue_at(driver, address + UNION + form.offset)
    await native.GraphExecNodeSetWork(executable, node, queue)


@answers("cuGraphNodeSetEnabled")
async def set_enabled(_: Driver, executable: Executable, node: Node, enabled: int) -> None:
    """Let an executable do the work of a node, or nothing."""
    await native.GraphNodeSetEnabled(executable, node, enabled)


@answers("cuGraphNodeGetEnabled")
async def get_enabled(_: Driver, executable: Executable, node: Node) -> int:
    """Whether an executable does the work of a node."""
    if executable.node(node) is None:
        raise RefusedError(INVALID_VALUE, f"{executable!r} has no {node!r}")
    return int(executable.is_on(node))
