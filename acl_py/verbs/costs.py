"""What a launch costs: a time, a bound from its work, or the call of a library that does the same.

@kernel(cost=Cost(us=60))  # each block takes 60 us

@kernel(cost=Cost(flops=2 * 512**3))  # a bound: the work at the peak rate of the card

@kernel(cost=Cost.matmul(512, 512, 512, "bfloat16"))  # what the library of the card takes

@kernel(cost=lambda a, b, c: Cost.matmul(len(a), b.shape[1], len(b), a.dtype))  # by the arguments of each launch
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from sys import _getframe
from typing import TYPE_CHECKING, Any

from acl_py.errors import Kind
from acl_py.late_imports import import_late
from acl_py.runtime.runtime import Runtime
from acl_py.sites import Site, site_of
from acl_py.verbs.arguments import profiles_with
from device_model.errors import shown
from device_model.integers import Integer, number
from device_model.scheduler import nanoseconds

if TYPE_CHECKING:
    import numpy.typing as npt

    from device_model.library.calls import Call
    from device_model.profile import DeviceProfile

Amount = float | Callable[..., float]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a launch costs.

    *us* microseconds for each block; or *flops* and *bytes* for the launch, constants or functions of its arguments.
    That is a bound: the longer of computing and moving at the peak rates of the card, on the share of the cores that
    the blocks of the launch occupy. Without *us* and *bytes* it moves the bytes of its arguments.

    `Cost.matmul` and the other constructors say which call of the card's library (cuBLAS, torch) does the same work.
    The launch takes what that call takes when nothing else runs and its data is where a call before it left it. The
    library decides how many cores it uses; a launch of fewer blocks than that gives it as many cores as it has blocks.
    """

    us: Amount | None = None
    flops: Amount | None = None
    bytes: Amount | None = None
    call: "Call | None" = field(default=None, init=False)
    _site: Site | None = field(default=None, init=False, compare=False, repr=False)  # where the call was named

    def __post_init__(self) -> None:
        if self.us is not None and (self.flops is not None or self.bytes is not None):
            raise ValueError("a cost is either us per block, or flops and bytes per launch")
        for name in ("us", "flops", "bytes"):
            amount = getattr(self, name)
            if amount is None or callable(amount):
                continue
            if not _is_finite(number(name, amount, "a number, or a function of the arguments of a launch")):
                raise ValueError(f"{name} must be 0 or more, and finite, not {_shown(amount)}")
        if self.us is not None and not callable(self.us):
            nanoseconds("us", self.us, 1000)

    @staticmethod
    def matmul(m: Integer, n: Integer, k: Integer, dtype: "npt.DTypeLike" = "float16", batch: Integer = 1) -> "Cost":
        """What the library takes for C = A B, with A of *m* x *k* elements and B of *k* x *n*, *batch* times.

        Args:
            m: The rows of A and C.
            n: The columns of B and C.
            k: The columns of A and rows of B.
            dtype: The type of A and B: "float16", "bfloat16", "float32", "int8", or "tf32" for float32 that the card
                multiplies with the precision of its tensor cores. A dtype of NumPy works, too. Not every card has all.
            batch: The number of products in one call.

        Raises:
            TypeError: A size is not a whole number.
            ValueError: A size is less than 1, or no card has the *dtype*. A launch on a card that does not have it
                raises AclError (NOT_SUPPORTED).
        """
        return _library(_calls().matmul(m, n, k, dtype, batch))

    @staticmethod
    def elementwise(reads: Integer, writes: Integer) -> "Cost":
        """What the library takes to compute one result for each element (an addition, exp, a cast).

        Args:
            reads: The bytes of all inputs.
            writes: The bytes of the results.

        Raises:
            TypeError: A size is not a whole number.
            ValueError: A size is less than 1.
        """
        return _library(_calls().elementwise(reads, writes))

    @staticmethod
    def reduction(elements: Integer, dtype: "npt.DTypeLike" = "float32") -> "Cost":
        """What the library takes to reduce *elements* of *dtype* to one (a sum, a maximum).

        Raises:
            TypeError: *elements* is not a whole number, or *dtype* is not a dtype.
            ValueError: *elements* is less than 1.
        """
        return _library(_calls().reduction(elements, dtype))

    @staticmethod
    def softmax(rows: Integer, columns: Integer, dtype: "npt.DTypeLike" = "float32") -> "Cost":
        """What the library takes for the softmax of each of *rows* rows of *columns* elements.

        Raises:
            TypeError: A size is not a whole number, or *dtype* is not a dtype.
            ValueError: A size is less than 1.
        """
        return _library(_calls().rowwise("softmax", rows, columns, dtype))

    @staticmethod
    def layernorm(rows: Integer, columns: Integer, dtype: "npt.DTypeLike" = "float32") -> "Cost":
        """What the library takes to normalise each of *rows* rows of *columns* elements.

        Raises:
            TypeError: A size is not a whole number, or *dtype* is not a dtype.
            ValueError: A size is less than 1.
        """
        return _library(_calls().rowwise("layernorm", rows, columns, dtype))

    @staticmethod
    def transpose(rows: Integer, columns: Integer, dtype: "npt.DTypeLike" = "float32") -> "Cost":
        """What the library takes to copy *rows* x *columns* elements into a contiguous *columns* x *rows*.

        Raises:
            TypeError: A size is not a whole number, or *dtype* is not a dtype.
            ValueError: A size is less than 1.
        """
        return _library(_calls().rowwise("transpose", rows, columns, dtype))

    @staticmethod
    def permute(elements: Integer, dtype: "npt.DTypeLike" = "float32") -> "Cost":
        """What the library takes to copy *elements* into another order of their dimensions, the last one in its place.

        Attention copies (length, heads, width) to (heads, length, width) so. A run of neighbours, 8 or more, stays
        together, but each element is found by itself. Where the last dimension moves it is a transpose.

        Raises:
            TypeError: *elements* is not a whole number, or *dtype* is not a dtype.
            ValueError: *elements* is less than 1.
        """
        return _library(_calls().permute(elements, dtype))

    @staticmethod
    def gather(rows: Integer, columns: Integer, dtype: "npt.DTypeLike" = "float32") -> "Cost":
        """What the library takes to copy *rows* rows of *columns* elements, each from the place that an index names.

        Raises:
            TypeError: A size is not a whole number, or *dtype* is not a dtype.
            ValueError: A size is less than 1.
        """
        return _library(_calls().rowwise("gather", rows, columns, dtype))

    @property
    def is_constant(self) -> bool:
        """Whether every launch with the same arguments costs the same."""
        return not any(callable(amount) for amount in (self.us, self.flops, self.bytes))

    def share(
        self, kernel: object, runtime: Runtime, blocks: int, args: Sequence[Any], touched: int, *, exclusive: bool
    ) -> tuple[int, int]:
        """Return how many blocks *kernel* occupies the device with, and the nanoseconds of each.

        Args:
            kernel: For messages.
            runtime: The runtime of the launch.
            blocks: The blocks of the launch.
            args: Its arguments.
            touched: Their bytes.
            exclusive: Whether a block has a core to itself.
        """
        profile = runtime.profile
        if self.call is None:
            return blocks, self.block_ns(profile, blocks, args, touched, exclusive=exclusive)
        if profile.library is None:
            raise runtime.error(
                Kind.NOT_SUPPORTED,
                f"{kernel!r} costs {self.call} (at {self._site}), and {profile.name} has no table [library]",
                f"use a profile that has one: {profiles_with('library')}; or give us, or flops and bytes",
            )
        try:
            plan = self.call.plan(profile.library, min(blocks, profile.cores.count), profile.cores.count)
        except _calls().NoSuchTypeError as error:
            raise runtime.error(
                Kind.NOT_SUPPORTED,
                f"{kernel!r} costs {self.call} (at {self._site}), and {profile.name} multiplies no matrices of {error}",
                f"use a type that it has: {', '.join(profile.library.products.types)}",
            ) from None
        return plan.cores, nanoseconds("the time of a library call", plan.ns, 1)

    def block_ns(
        self, profile: "DeviceProfile", blocks: int, args: Sequence[Any], touched: int, *, exclusive: bool
    ) -> int:
        """Return the nanoseconds of each of *blocks* blocks, for arguments of *touched* bytes."""
        if self.us is not None:
            return nanoseconds("us of a cost", _amount("us", self.us, args), 1000)
        cores = profile.cores
        flops = 0 if self.flops is None else _amount("flops", self.flops, args)
        nbytes = touched if self.bytes is None else _amount("bytes", self.bytes, args)
        whole = max(flops / cores.flops, nbytes / cores.bytes_per_second)  # on all cores
        # Exclusive blocks come in waves, and each does its part; shared ones all run at once.
        seconds = whole * cores.count / (blocks if exclusive else min(blocks, cores.count))
        return nanoseconds("the time of a block, by its cost,", seconds, 10**9)


CostLike = Cost | Callable[..., Cost]  # a cost, or a function of the arguments of a launch that gives it


def checked(cost: CostLike | None) -> CostLike:
    """Return *cost*, or a bound by the bytes of the arguments if there is none.

    Raises:
        TypeError: It is neither a cost nor a function.
    """
    if cost is None:
        return Cost()
    if not isinstance(cost, Cost) and not callable(cost):
        raise TypeError(f"cost must be a Cost, or a function of the arguments of a launch, not {shown(cost)}")
    return cost


def cost_of(kernel: object, cost: CostLike, args: Sequence[Any]) -> Cost:
    """Return *cost*, or what it gives for the arguments of a launch of *kernel*."""
    if isinstance(cost, Cost):
        return cost
    given = cost(*args)
    if not isinstance(given, Cost):
        raise TypeError(f"the cost function of {kernel!r} gave {shown(given)}; it must give a Cost")
    return given


def _calls() -> Any:
    """Return the module of the library's calls, imported now: most programs name none of them."""
    return import_late("device_model.library.calls")


def _library(call: "Call") -> Cost:
    """Return the cost of *call*, made where the caller of this function was called."""
    cost = Cost()
    object.__setattr__(cost, "call", call)
    object.__setattr__(cost, "_site", site_of(_getframe(2)))
    return cost


def _amount(name: str, amount: Amount, args: Sequence[Any]) -> float:
    if not callable(amount):
        return amount
    value = number(f"what the cost function for {name} gives", amount(*args), "a number")
    if not _is_finite(value):
        raise ValueError(f"the cost function for {name} gave {_shown(value)}; it must give 0 or more, a finite number")
    return value


def _is_finite(amount: float) -> bool:
    """Whether it is 0 or more, and no larger than a float can be."""
    return 0 <= amount <= sys.float_info.max


def _shown(amount: float) -> str:
    """Return *amount* for a message; Python refuses to write numbers of thousands of digits."""
    return f"a number of {amount.bit_length()} bits" if isinstance(amount, int) and amount >= 0 else repr(amount)
