"""Pools of stream-ordered memory: what they have of their device, and what they give back to it."""

from typing import TYPE_CHECKING

from device_model.completions import Completion
from device_model.memory import Block, Pool
from device_model.streams import Stream

if TYPE_CHECKING:
    from acl_py.runtime.runtime import Runtime


def trim_pool(runtime: "Runtime", pool: Pool, keep_bytes: int | None = None, *, freed_in: Stream | None = None) -> None:
    """Give unused memory of *pool* back to its device, and let the host pay for that: all of it, or what a FreeAsync in
    the stream *freed_in* has freed.

    The pool keeps the whole chunks in *keep_bytes* (by default its release threshold), and what unfinished work may
    still use.
    """
    costs = runtime.costs
    reserved, mapped = pool.reserved_current, mapped_bytes(runtime, pool)
    keep_bytes = pool.release_threshold if keep_bytes is None else keep_bytes
    keep_bytes -= keep_bytes % runtime.profile.memory.pool_chunk
    given = pool.trim(keep_bytes, lambda block: _is_over(block) and freed_in in (None, block.stream))
    of_malloc = given - (reserved - pool.reserved_current)  # memory of Malloc that FreeAsync gave back
    if of_malloc:
        runtime.pay(costs.free[of_malloc])
    unmapped = mapped - mapped_bytes(runtime, pool)
    if unmapped > 0:
        runtime.pay(costs.pool_trim[unmapped])


def mapped_bytes(runtime: "Runtime", pool: Pool) -> int:
    """Return how many bytes *pool* has taken from its device, which are whole chunks."""
    chunk = runtime.profile.memory.pool_chunk
    return -(-pool.reserved_current // chunk) * chunk


def _is_over(block: Block) -> bool:
    return not isinstance(block.free_op, Completion) or block.free_op.done
