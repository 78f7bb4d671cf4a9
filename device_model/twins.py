"""Copies of work: for another operation that does the same, or with something changed."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from device_model.work import Work


def twin(work: "Work", kind: Any) -> Any:
    """Return a *kind* of work, the class of *work* or a subclass, with the same fields."""
    other = kind.__new__(kind)
    for each in type(work).__mro__:
        for name in getattr(each, "__slots__", ()):
            if hasattr(work, name):  # some are set when it runs
                setattr(other, name, getattr(work, name))
    return other
