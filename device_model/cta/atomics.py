"""Atomic operations on shared and global memory; those of several threads to one place happen one after the other."""

from collections.abc import Callable
from typing import Any

import numpy as np

from device_model.cta.block import running
from device_model.cta.instructions import Op
from device_model.cta.memories import Shared
from device_model.cta.places import Places, check_places
from device_model.cta.registers import Register, check_set, ids_of, register, values_of
from device_model.kernel.findings import KernelError
from device_model.kernel.sites import site


def atomic_add(places: Places, value: Any) -> Register:
    """Add *value* to each place, in the order of the threads; return what was there before (atomicAdd)."""
    return _atomic(places, value, "add", np.add)


def atomic_max(places: Places, value: Any) -> Register:
    """Put the larger of the place and *value* there; return what was there before (atomicMax)."""
    return _atomic(places, value, "max", np.maximum)


def atomic_min(places: Places, value: Any) -> Register:
    """Put the smaller of the place and *value* there; return what was there before (atomicMin)."""
    return _atomic(places, value, "min", np.minimum)


def atomic_exch(places: Places, value: Any) -> Register:
    """Put *value* there; return what was there before (atomicExch)."""
    return _atomic(places, value, "exch", lambda _, new: new)


def _atomic(places: Places, value: Any, name: str, combine: Callable[[Any, Any], Any]) -> Register:
    block = running()
    check_places(f"atomic_{name}", places)
    tensor = places.tensor
    if not (tensor.is_readable and tensor.is_writable):
        raise KernelError(
            f"atomic_{name}() at {site()} reads and writes {tensor.name}, which the kernel declares otherwise",
            "declare it as InOut",
        )
    check_set(value)
    addresses, width = places.accesses()
    elements = places.elements()
    writes = (block.register(),)
    op = Op.ATOMS if tensor.is_shared else Op.ATOMG
    places.issue(
        block, f"atom.{name}", addresses, width, reads=ids_of(value), writes=writes, is_store=True, op=op
    )  # fmt: skip
    flat = places.flat()
    active = block.active
    before = np.zeros(elements.shape, tensor.dtype)
    new = np.broadcast_to(values_of(block, value), elements.shape).astype(tensor.dtype)
    reached = elements[active].reshape(-1)
    if len(np.unique(reached)) == len(reached):
        before[active] = flat[elements[active]]
        flat[elements[active]] = combine(before[active], new[active])
    else:
        old, changes = np.empty(len(reached), tensor.dtype), new[active].reshape(-1)
        for index, at in enumerate(reached.tolist()):
            old[index] = flat[at]
            flat[at] = combine(old[index], changes[index])
        before[active] = old.reshape(elements[active].shape)
    if block.hazards and len(active):
        memory = tensor.memory
        if isinstance(memory, Shared):
            memory.shadow.update(active, addresses[active], width)
        else:
            places.note_read(block, addresses, width)
            places.note_write(block, addresses, width)
    return register(before, writes, ())
