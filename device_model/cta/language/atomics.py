"""Atomic operations on shared and global memory; those of several threads to one place happen one after the other."""

from collections.abc import Callable
from typing import Any

import numpy as np

from device_model.cta.block import running
from device_model.cta.language.memories import Shared
from device_model.cta.language.places import Places, check_places
from device_model.cta.language.registers import Register, check_set, ids_of, register, values_of
from device_model.kernel.findings import KernelError
from device_model.kernel.sites import site
from device_model.sm.instructions import Op


def atomic_add(places: Places, value: Any) -> Register:
    """Add *value* to each place, in the order of the threads; return what was there before (atomicAdd)."""
    return _atomic("add", places, (value,), np.add)


def atomic_max(places: Places, value: Any) -> Register:
    """Put the larger of the place and *value* there; return what was there before (atomicMax)."""
    return _atomic("max", places, (value,), np.maximum)


def atomic_min(places: Places, value: Any) -> Register:
    """Put the smaller of the place and *value* there; return what was there before (atomicMin)."""
    return _atomic("min", places, (value,), np.minimum)


def atomic_exch(places: Places, value: Any) -> Register:
    """Put *value* there; return what was there before (atomicExch)."""
    return _atomic("exch", places, (value,), lambda _, new: new)


def atomic_cas(places: Places, compare: Any, value: Any) -> Register:
    """Put *value* into each place that holds *compare*; return what was there before (atomicCAS). Integers only.

    Raises:
        KernelError: The places hold no integers of 2, 4 or 8 bytes.
    """
    check_places("atomic_cas", places)
    dtype = places.tensor.dtype
    if dtype.kind not in "iu" or dtype.itemsize == 1:
        raise KernelError(
            f"atomic_cas() at {site()} of {places.tensor.name}, which holds {dtype}",
            "it compares integers of 2, 4 or 8 bytes",
        )
    return _atomic("cas", places, (compare, value), lambda old, wanted, new: np.where(old == wanted, new, old))


def _atomic(name: str, places: Places, operands: tuple[Any, ...], combine: Callable[..., Any]) -> Register:
    """Put *combine*(what is there, *operands*) into each place; return what was there before."""
    block = running()
    check_places(f"atomic_{name}", places)
    tensor = places.tensor
    if not (tensor.is_readable and tensor.is_writable):
        raise KernelError(
            f"atomic_{name}() at {site()} reads and writes {tensor.name}, which the kernel declares otherwise",
            "declare it as InOut",
        )
    for each in operands:
        check_set(each)
    addresses, width = places.accesses()
    elements = places.elements()
    writes = (block.register(),)
    op = Op.ATOMS if tensor.is_shared else Op.ATOMG
    places.issue(
        block, f"atom.{name}", addresses, width, reads=ids_of(*operands), writes=writes, is_store=True, op=op
    )  # fmt: skip
    flat = places.flat()
    active = block.active
    before = np.zeros(elements.shape, tensor.dtype)
    taken = [np.broadcast_to(values_of(block, each), elements.shape).astype(tensor.dtype) for each in operands]
    if block.has_values:
        own = [each[active] for each in taken]
        before[active] = _combined(flat, elements[active], own, combine)
    if block.hazards and len(active):
        memory = tensor.memory
        if isinstance(memory, Shared):
            memory.shadow.update(active, addresses[active], width)
        else:
            places.note_read(block, addresses, width)
            places.note_write(block, addresses, width)
    return register(before, writes, ())


def _combined(flat: Any, elements: Any, operands: list[Any], combine: Callable[..., Any]) -> Any:
    """Put *combine*(what is there, *operands*) into *elements* of *flat*; return what was there before."""
    reached = elements.reshape(-1)
    if len(np.unique(reached)) == len(reached):
        before = flat[elements]
        flat[elements] = combine(before, *operands)
        return before
    old = np.empty(len(reached), flat.dtype)
    of_each = zip(*(each.reshape(-1) for each in operands), strict=True)
    for index, (at, values) in enumerate(zip(reached.tolist(), of_each, strict=True)):
        old[index] = flat[at]
        flat[at] = combine(old[index], *values)
    return old.reshape(elements.shape)
