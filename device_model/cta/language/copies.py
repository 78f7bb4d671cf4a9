"""Asynchronous copies from global to shared memory (cp.async), and their groups.

A copy runs on its own: its thread goes on, and neither it nor another thread may read the bytes before

    cp_async(...)       each active thread starts a copy
    commit_group()      makes a group of the copies that a thread has started since its last group
    wait_group(n)       waits until at most n groups of the thread are not done
    syncthreads()       shows the bytes to the other threads
"""

from typing import Any

import numpy as np

from device_model.cta.block import Block, running
from device_model.cta.checks.rules import Rule
from device_model.cta.language.memories import Shared
from device_model.cta.language.places import WIDEST, Places, check_places
from device_model.cta.language.registers import check_known, values_of
from device_model.cta.language.tensors import Tensor
from device_model.cta.names import threads_text
from device_model.kernel.findings import KernelError
from device_model.kernel.sites import site
from device_model.sm import traffic
from device_model.sm.instructions import Op
from device_model.sm.names import Ints

_WIDTHS = {"ca": (4, 8, 16), "cg": (16,)}
_WORDS = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}  # types that are copied as they are


def cp_async(
    dst: Places,
    src: Places,
    nbytes: int,
    *,
    cache: str = "ca",
    src_size: Any = None,
    ignore: Any = None,
) -> None:
    """Start a copy of *nbytes* bytes for each active thread (PTX: cp.async).

    Args:
        dst: Where each thread writes: `s.at[...]` of a shared array.
        src: Where it reads: `x.at[...]` of an argument.
        nbytes: 4, 8 or 16.
        cache: "ca" keeps the bytes in the L1, "cg" does not, and copies 16 bytes only.
        src_size: How many bytes are read, for all, for each thread or for each of its places; the others are zeros.
        ignore: Threads, or places of threads, for which it is true read nothing and write zeros.

    Raises:
        KernelError: The width is not possible, a place is not in the right memory, or it is misaligned.
    """
    block = running()
    check_places("cp_async", dst, src)
    _check(dst.tensor, src.tensor, nbytes, cache)
    targets, sources = dst.offsets.reshape(block.threads, -1), src.offsets.reshape(block.threads, -1)
    if targets.shape != sources.shape:
        raise KernelError(
            f"cp_async at {site()} writes {targets.shape[1]} places for each thread, and reads {sources.shape[1]}"
        )
    sizes = None if src_size is None else _by_place(block, src_size, targets)
    if sizes is not None and ((sizes < 0) | (sizes > nbytes))[block.active].any():
        raise KernelError(f"cp_async at {site()} reads more bytes than it copies", f"src_size is from 0 to {nbytes}")
    if ignore is not None:
        sizes = np.where(_by_place(block, ignore, targets), 0, nbytes if sizes is None else sizes)
    _start(dst, src, targets, sources, nbytes, cache, sizes, is_loop=False)


def memcpy_async(dst: Tensor, src: Tensor, nbytes: int = 16) -> None:
    """Copy all of *src* to *dst*, *nbytes* bytes a thread at a time, spread over the active threads.

    This is cuda::memcpy_async of a group: piece i is copied by active thread i modulo their number.

    Raises:
        KernelError: The sizes differ, the tensors are not contiguous, or as cp_async.
    """
    block = running()
    if not (isinstance(dst, Tensor) and isinstance(src, Tensor)):
        raise KernelError(
            f"memcpy_async at {site()} from {type(src).__name__} to {type(dst).__name__}",
            "it copies whole tensors or parts of them, such as s[stage] and x[i] with integers",
        )
    cache = "cg" if nbytes == 16 else "ca"
    _check(dst, src, nbytes, cache)
    if dst.nbytes != src.nbytes or dst.nbytes % nbytes:
        raise KernelError(
            f"memcpy_async at {site()} copies {src!r} to {dst!r}",
            f"both need the same number of bytes, a multiple of {nbytes}",
        )
    if not (dst.is_contiguous and src.is_contiguous):
        raise KernelError(f"memcpy_async at {site()} from {src!r} to {dst!r}: both must be contiguous")
    pieces = dst.nbytes // nbytes
    active = block.active
    for first in range(0, pieces, max(len(active), 1)):
        with block.only(np.isin(block.tids, active[: pieces - first])):
            offsets = np.zeros(block.threads, np.int64)
            offsets[block.active] = (first + np.arange(len(block.active))) * nbytes
            to, of = Places(dst, dst.address + offsets), Places(src, src.address + offsets)
            _start(to, of, to.offsets[:, None], of.offsets[:, None], nbytes, cache, None, is_loop=True)


def commit_group() -> None:
    """Make a group of the copies that each active thread has started since its last group (cp.async.commit_group)."""
    block = running()
    block.issue(Op.COMMIT, "cp.async.commit_group")
    block.order.commit(block.active)


def wait_group(pending: int = 0) -> None:
    """Wait until at most *pending* groups of each active thread are not done (cp.async.wait_group).

    The bytes are then there for the thread that copied them. Others need a barrier after it.

    Raises:
        KernelError: *pending* is below 0.
    """
    if pending < 0:
        raise KernelError(
            f"wait_group({pending}) at {site()}", "give the number of groups that may be pending: 0 or more"
        )
    block = running()
    block.issue(Op.WAIT_GROUP, f"cp.async.wait_group {pending}", number=pending)
    block.order.wait_group(block.active, pending)


def wait_all() -> None:
    """Wait for all copies of each active thread, committed or not (cp.async.wait_all)."""
    block = running()
    block.issue(Op.COMMIT, "cp.async.wait_all")
    block.issue(Op.WAIT_GROUP, "cp.async.wait_all")
    block.order.wait_all(block.active)


def _check(dst: Tensor, src: Tensor, nbytes: int, cache: str) -> None:
    if not dst.is_shared or src.is_shared:
        raise KernelError(
            f"an asynchronous copy at {site()} from {src!r} to {dst!r}", "it copies from global to shared memory"
        )
    if nbytes not in _WIDTHS.get(cache, ()):
        raise KernelError(
            f"an asynchronous copy of {nbytes} bytes with cache={cache!r} at {site()}",
            "ca copies 4, 8 or 16 bytes, cg 16",
        )
    if not src.is_readable:
        raise KernelError(f"the kernel reads {src.name} at {site()}, which it declares as Out", "declare it as InOut")


def _start(
    dst: Places, src: Places, targets: Ints, sources: Ints, nbytes: int, cache: str, sizes: Ints | None, *,
    is_loop: bool,
) -> None:  # fmt: skip
    """Copy *nbytes* bytes from byte *sources* to byte *targets*, of which the first *sizes* are read; None: all.

    In a loop (*is_loop*), the address of a copy is computed from that of the one before.
    """
    block = running()
    dst.check_aligned(targets, nbytes)
    src.check_aligned(sources, nbytes)
    sectors, misses = src.sectors(block, sources)
    phases, conflicts = traffic.phases(block, targets, nbytes, is_store=True)
    active = block.active
    if not block.is_whole:
        targets, sources, sizes = targets[active], sources[active], None if sizes is None else sizes[active]
    _check_end(block, src, sources, nbytes if sizes is None else sizes, "give src_size, the bytes that there are")
    _check_end(block, dst, targets, nbytes, "check the place of the last copy")
    block.issue(
        Op.CP_ASYNC, f"cp.async.{cache}.{nbytes}", count=targets.shape[1], chains=int(is_loop), phases=phases,
        conflicts=conflicts, sectors=sectors, misses=misses,
    )  # fmt: skip
    into, of = dst.tensor.memory, src.tensor.memory
    assert isinstance(into, Shared), "checked before"
    if sizes is None:
        taken, words, unit = None, sources // nbytes, nbytes
        if block.has_values:
            _words(into.bytes, nbytes)[targets // nbytes] = _words(of.bytes, nbytes)[words]
    else:
        unit = int(np.gcd.reduce(sizes, axis=None, initial=nbytes))
        lanes = np.arange(0, nbytes, unit)
        taken, words = lanes < sizes[..., None], (sources[..., None] + lanes) // unit
        if block.has_values:
            values = np.zeros(words.shape, _WORDS[unit])
            values[taken] = _words(of.bytes, unit)[words[taken]]
            _words(into.bytes, unit)[(targets[..., None] + lanes) // unit] = values
    if not block.hazards or not len(active):
        return
    into.shadow.write(active, targets, nbytes, is_copy=True)
    src.note_contents(block, words, unit, taken)
    block.order.start_copies(active, block.site_number())


def _check_end(block: Block, places: Places, addresses: Ints, sizes: Ints | int, remedy: str) -> None:
    """Raise KernelError if the first *sizes* bytes of an address of the active threads are beyond the tensor."""
    end = places.tensor.end
    if addresses.max(initial=0) + WIDEST <= end:
        return
    beyond = (addresses + sizes > end) & (np.asarray(sizes) > 0)
    if beyond.any():
        raise KernelError(
            f"{threads_text(block.active[beyond.any(axis=1)])} of {block} copy bytes beyond the end of "
            f"{places.tensor!r} at {site()}",
            remedy,
        )


def _by_place(block: Block, value: Any, targets: Ints) -> Ints:
    """Return *value*, for all, for each thread or for each place, as numbers for each of *targets*."""
    check_known(value, "the size of a copy")
    values = values_of(block, value)
    return np.broadcast_to(values.reshape(block.threads, -1), targets.shape).astype(np.int64)


def _words(memory: Any, width: int) -> Any:
    """Return *memory* as words of *width* bytes."""
    return memory[: len(memory) // width * width].view(_WORDS[width])


def finish(block: Block) -> None:
    """Report the copies that their threads have not waited for when *block* ends."""
    order = block.order
    left = np.flatnonzero((order.last_copy > 0) & (order.last_copy >= order.completed))
    if not len(left):
        return
    line = block.site_of(int(order.last_copy_site[left[0]]))
    block.find(
        Rule.COPY_LEFT,
        f"{threads_text(left)} end while copies that they started at {line} may still run; missing wait_all()",
        (line,),
        "wait_all()",
    )
