"""The bodies of kernels written in Python: what the device calls at the simulated end of a launch."""

from collections.abc import Callable, Sequence
from typing import Any

from acl_py.runtime.scopes import Barred, present_scope
from acl_py.verbs.arrays import Access, Array
from device_model import memory as model
from device_model.work import Extent


class Body:
    """One call of a kernel's function, or one for each block, with the same arguments."""

    __slots__ = ("_accesses", "_args", "_barred", "_blocks", "_function", "_outs")

    def __init__(
        self,
        barred: Barred,
        function: Callable[..., object],
        blocks: int | None,
        args: Sequence[Any],
        accesses: Sequence[Access],
        outs: Sequence[Extent],
    ) -> None:
        self._barred = barred
        self._function = function
        self._blocks = blocks  # None: one call for all
        self._args = tuple(args)
        self._accesses: Sequence[Access] | None = accesses  # None: the views are made
        self._outs = tuple(outs)

    def __call__(self) -> None:
        """Call the function; no verb may be called in it."""
        scope = present_scope()
        if scope is None:
            self._barred.run(self)
            return
        # From here on Barred.run(), written out: this is the hot path.
        for allocation, start, stop in self._outs:
            model.poison(allocation, start, stop - start)
        if self._accesses is not None:  # the first run: not earlier, for a view warms the memory, and
            # behind the poison, which leaves cold memory as it is
            self._args = tuple(
                arg.view(access) if isinstance(arg, Array) else arg
                for arg, access in zip(self._args, self._accesses, strict=True)
            )
            self._accesses = None
        context, scope.context = scope.context, self._barred  # type: ignore[assignment]
        try:
            if self._blocks is None:
                self._function(*self._args)
            else:
                for block in range(self._blocks):
                    self._function(block, *self._args)
        finally:
            scope.context = context
