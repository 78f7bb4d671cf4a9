"""Changes: the functions of NumPy that write one of their arguments, and those that read none."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from acl_py.sanitizer.host_view import NumpyCall

LOOKS_AT_SHAPES = frozenset(
    getattr(np, name)
    for name in (
        *("can_cast", "common_type", "empty_like", "full_like", "iscomplexobj", "isrealobj", "may_share_memory"),
        *("min_scalar_type", "ndim", "ones_like", "result_type", "shape", "shares_memory", "size", "zeros_like"),
    )
)

AS_METHODS = frozenset((np.put, np.take))  # whose exact items the methods know

Change = Callable[["NumpyCall", tuple[Any, ...], dict[str, Any], Any], None]


def _overwrites(use: "NumpyCall", args: tuple[Any, ...], kwargs: dict[str, Any], where: Any) -> None:
    """The first argument is written, the others are read."""
    target, *others = (*args, *kwargs.values())
    for other in others:
        use.read(other)
    use.write(target, where)


def _overwrites_masked(use: "NumpyCall", args: tuple[Any, ...], kwargs: dict[str, Any], where: Any) -> None:  # noqa: ARG001
    """The first argument is written where the second, a mask of its shape, is true."""
    target, mask, *others = (*args, *kwargs.values())
    for other in (mask, *others):
        use.read(other)
    use.write(target, np.reshape(mask, np.shape(target)).astype(bool))


def _mends(use: "NumpyCall", args: tuple[Any, ...], kwargs: dict[str, Any], where: Any) -> None:  # noqa: ARG001
    """The first argument is read, and written too if the second, `copy`, is false."""
    target, *_ = (*args, *kwargs.values())
    use.read(target)
    if not (args[1] if len(args) > 1 else kwargs.get("copy", True)):
        use.write(target)


def _reorders(use: "NumpyCall", args: tuple[Any, ...], kwargs: dict[str, Any], where: Any) -> None:  # noqa: ARG001
    """The first argument is read and written."""
    use.read(args[0])
    use.write(args[0])


CHANGES: dict[Callable[..., Any], Change] = {
    np.copyto: _overwrites,
    np.fill_diagonal: _overwrites,
    np.nan_to_num: _mends,
    np.place: _overwrites_masked,
    np.put: _overwrites,
    np.put_along_axis: _overwrites,
    np.putmask: _overwrites_masked,
    np.ndarray.fill: _overwrites,
    np.ndarray.setfield: _overwrites,
    np.ndarray.sort: _reorders,
    np.ndarray.partition: _reorders,
}
