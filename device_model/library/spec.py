"""The numbers of a card for kernels of a library, from the `[library]` table of a profile.

Times are in nanoseconds, unless a name ends in `_ps` (picoseconds); rates are per second.
"""

from dataclasses import fields

from device_model.frozen import Frozen
from device_model.kernel.ranges import Count, Few


class Traffic(Frozen):
    """The memory as kernels see it that go through all of their bytes.

    Bytes that the call before has left in the L2 are read and written faster than others.
    """

    kept_bytes: Count  # calls of so many bytes in all find all of them in the L2
    lost_bytes: Count  # calls of so many find none
    l2_read: Count
    l2_write: Count
    memory_read: Count
    memory_write: Count

    def ns(self, reads: float, writes: float, footprint: float) -> float:
        """Return how long it takes to read and to write so many bytes, *footprint* different ones in all."""
        if footprint <= self.kept_bytes:
            lost = 0.0
        elif footprint >= self.lost_bytes:
            lost = 1.0
        else:
            lost = (footprint - self.kept_bytes) / (self.lost_bytes - self.kept_bytes)
        kept_ns = reads / self.l2_read + writes / self.l2_write
        lost_ns = reads / self.memory_read + writes / self.memory_write
        return 1e9 * ((1 - lost) * kept_ns + lost * lost_ns)


class Pass(Frozen):
    """A kernel that goes through rows of elements."""

    fixed: int  # of each call
    chain: int  # the shortest time of a row, in one block on an idle core
    column_ps: int  # in addition, for each of its elements
    row_ps: int  # what a core takes for a row while it works on many
    element_ps: int  # in addition, for each element
    overlap_permille: int  # how much of the shorter one of work and memory traffic adds to the longer one
    rows_at_once: Few  # that a core works on
    held_bytes: int  # rows of up to so many bytes stay in their block (registers, shared memory)
    reads_again: int  # how often longer ones are read after the first time, from the L2 if the rows at work fit


class Reduction(Frozen):
    """A kernel that reduces all elements to one."""

    one_block_elements: Count  # up to so many, one block does it
    one_block: int
    many_blocks: int  # the blocks meet at a counter, which is cleared by a node before
    core_read: Count  # bytes that a core reduces


class Product(Frozen):
    """Products of matrices of one type."""

    flops: Count  # of all cores
    step_ps: Count  # what one block takes at least for each element of k
    alone_permille: Count  # the part of a core's rate that one block reaches
    accumulators: Count  # results that the blocks on a core can hold
    blocks: Few  # at most, on a core
    core_read: Count  # bytes of operands that reach a core
    core_write: Count  # bytes of results that leave it
    vector_ps: int  # for each element of k if one operand is a vector; 0: there is no kernel for that


class Products(Frozen):
    """Products of matrices: what all types have in common, and the types; None if the card has none."""

    fixed: int  # of each call
    block: int  # of each block, before its first step and behind its last
    split: int  # in addition if the sum over k is split, because another kernel adds the parts
    split_bytes_per_second: Count  # that this kernel gets through
    counter: int  # in addition if a core computes more than two blocks one by one: a counter hands them out
    memory_permille: Count  # the part of the rates of the memory that products reach
    float32: Product | None
    tf32: Product | None
    float16: Product | None
    bfloat16: Product | None
    int8: Product | None

    @property
    def types(self) -> list[str]:
        """The types that the card multiplies."""
        return [each.name for each in fields(self) if isinstance(getattr(self, each.name), Product)]


class LibrarySpec(Frozen):
    """What kernels of a library get from the card."""

    elementwise: int  # what a call takes besides its traffic
    traffic: Traffic
    reduction: Reduction
    softmax: Pass
    softmax_long: Pass  # of rows that no warp holds
    layernorm: Pass
    transpose: Pass
    permute: Pass  # whose rows are elements
    gather: Pass
    products: Products
