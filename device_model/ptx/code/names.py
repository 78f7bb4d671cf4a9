"""The names that the code of a kernel has for constants and functions."""

from typing import Any

import numpy as np


class Names:
    """The constants and functions that the code of a kernel uses, by the names that it has for them."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self._constants: dict[tuple[str, bytes], str] = {}

    def constant(self, value: Any, dtype: np.dtype[Any]) -> str:
        """Return the name of *value* as an array that is the same for all lanes."""
        array = np.full((1, 1), value, dtype)
        array.flags.writeable = False
        key = dtype.str, array.tobytes()
        if key not in self._constants:
            self._constants[key] = name = f"k{len(self._constants)}"
            self.values[name] = array
        return self._constants[key]

    def of(self, value: Any) -> str:
        """Return the name of a function or a type."""
        if isinstance(value, np.dtype):
            name = f"t_{value.name}"
        else:
            name = f"{value.__module__.rpartition('.')[2]}_{value.__name__}"
        assert self.values.setdefault(name, value) is value or isinstance(value, np.dtype), (
            f"two things are named {name}"
        )
        return name
