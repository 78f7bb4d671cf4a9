"""How the gradients of a convolution are asked for: Iterate computes the next piece, and GetTensorC stores it."""

from collections.abc import Callable, Iterator

from device_model.aicore.core.tensors import GlobalTensor
from device_model.aicore.cube.conv3d_operands import Operands
from device_model.aicore.moving.atomics import SetAtomicAdd, SetAtomicNone
from device_model.kernel.findings import KernelError

Store = Callable[[GlobalTensor, bool], None]  # to the result as a whole, or to the piece alone


class Steps(Operands):
    """A gradient, piece by piece.

    A subclass computes the pieces in `_steps`, which yields what stores each, and closes its flags in `_close`.
    """

    _result: str  # the name of what is computed
    _left: Iterator[Store] | None = None  # the pieces that are left
    _store: Store | None = None  # what stores the piece that was computed last
    _is_open = False

    def _steps(self) -> Iterator[Store]:
        raise NotImplementedError

    def _close(self) -> None:
        raise NotImplementedError

    def Iterate(self, en_partial_sum: bool = False) -> bool:
        """Compute the next piece of this core's part (Ascend C: Iterate); no pipe waits.

        Args:
            en_partial_sum: False. (Ascend C reserves it.)

        Returns:
            True; False after the last piece. The next call then begins a new part.

        Raises:
            KernelError: An operand is not set or too small, the part is larger than the whole, the piece before was not
                stored, or *en_partial_sum*.
        """
        if en_partial_sum:
            raise KernelError(f"Iterate of {self!r} with en_partial_sum", "pieces are whole sums: give False")
        if self._store is not None:
            raise KernelError(f"Iterate of {self!r} a second time", "store the piece before it: call GetTensorC()")
        if self._left is None:
            self._left = self._steps()
        self._store = next(self._left, None)
        if self._store is None:
            self._left = None
        return self._store is not None

    def _get(self, output: GlobalTensor, en_atomic: int, *, sequential: bool) -> None:
        if self._store is None:
            raise KernelError(
                f"GetTensorC of {self!r} without a piece", "call Iterate() first, and go on while it is True"
            )
        self._check("GetTensorC", self._result, output)
        if en_atomic not in (0, 1):
            raise KernelError(f"GetTensorC with en_atomic {en_atomic!r}", "0 overwrites, and 1 adds")
        store, self._store = self._store, None
        if en_atomic:
            SetAtomicAdd(output.dtype)
        store(output, sequential)
        if en_atomic:
            SetAtomicNone()

    def End(self) -> None:
        """Wait for all flags, and give back their ids (Ascend C: End)."""
        if self._is_open:
            self._close()
