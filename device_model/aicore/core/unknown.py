"""Numbers that nobody knows: what a core has read from memory in a run without values."""

from typing import Any, NoReturn

from device_model.kernel.findings import WITHOUT_VALUES, KernelError
from device_model.kernel.sites import site


class Unknown:
    """A number that *read* has read, such as "GetValue(0) of ...". A kernel may compute with it and give it to
    instructions; a look at it, such as a comparison, is refused.
    """

    __slots__ = ("_read",)

    def __init__(self, read: str) -> None:
        self._read = read

    def __repr__(self) -> str:
        return f"<the unknown result of {self._read}>"

    def _computed(self, *_: Any, **__: Any) -> "Unknown":
        """Return what is computed from it, which nobody knows either."""
        return self

    def _looked_at(self, *_: Any) -> NoReturn:
        """Refuse a look at it."""
        raise KernelError(f"{self._read}, looked at at {site()}, needs values, and values=False", WITHOUT_VALUES)

    __array_ufunc__ = _computed
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _computed
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __pos__ = __abs__ = _computed
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rlshift__ = _computed
    __rshift__ = __rrshift__ = __invert__ = _computed
    __bool__ = __int__ = __float__ = __index__ = __round__ = __hash__ = _looked_at
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _looked_at
