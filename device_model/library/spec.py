"""The numbers of a card for kernels of a library, from the `[library]` table of a profile."""

from dataclasses import dataclass, fields

from device_model.kernel.ranges import Count


@dataclass(frozen=True)
class Products:
    """Operations per second of matrix products on all cores, by the type of the operands; None if the card has none."""

    float32: Count | None
    tf32: Count | None
    float16: Count | None
    bfloat16: Count | None
    int8: Count | None

    @property
    def types(self) -> list[str]:
        """The types that the card multiplies."""
        return [each.name for each in fields(self) if getattr(self, each.name) is not None]


@dataclass(frozen=True)
class LibrarySpec:
    """What kernels of a library get from the card."""

    products: Products
    l2_bytes: Count
    l2_bytes_per_second: Count  # of a kernel whose bytes fit into the L2
    memory_bytes_per_second: Count  # of one whose bytes do not
    ramp: int  # nanoseconds from the first block to full speed, and from there to the last
