"""Frozen dataclasses that share their methods, so that defining one takes little time.

`dataclass` writes the text of six methods for each class and compiles it. That is two milliseconds for a table of a
profile, and every process that uses the package pays for all tables. The methods here do the same for any class by its
fields. They are slower than those that `dataclass` makes, so a class of which a program makes thousands is a dataclass.
"""

from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field
from inspect import Parameter, Signature
from typing import Any, ClassVar, NoReturn, dataclass_transform


class _Constructor:
    """The signature of a constructor: made when it is asked for."""

    def __get__(self, _: object, cls: "type[Frozen]") -> Signature:
        defaults = {name: _default(each) for name, each in cls.__dataclass_fields__.items()}
        return Signature(
            [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=each) for name, each in defaults.items()]
        )


def _default(field: Field[Any]) -> Any:
    """Return what stands for the default of *field* in a signature."""
    if field.default_factory is not MISSING:
        return field.default_factory
    return Parameter.empty if field.default is MISSING else field.default


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Frozen:
    """A frozen dataclass: its subclasses are dataclasses by that alone, and they work with `fields` and `replace`."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    __signature__: ClassVar[Any] = _Constructor()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(init=False, repr=False, eq=False)(cls)

    def __init__(self, *args: Any, **values: Any) -> None:
        fields = self.__dataclass_fields__
        if args or values.keys() != fields.keys():
            values = _arguments(type(self), args, values)
        self.__dict__.update(values)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Check the values together: a subclass may have something to check."""

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name, each in self.__dataclass_fields__.items() if each.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash(self._compared())

    def _compared(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name, each in self.__dataclass_fields__.items() if each.compare)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")


def _arguments(cls: type[Frozen], args: tuple[Any, ...], values: dict[str, Any]) -> dict[str, Any]:
    """Return a value for each field, from the arguments of the constructor.

    Raises:
        TypeError: The arguments do not fit the fields.
    """
    fields = cls.__dataclass_fields__
    what = f"{cls.__qualname__}()"
    if len(args) > len(fields):
        raise TypeError(f"{what} takes {len(fields)} arguments, not {len(args)}")
    placed = dict(zip(fields, args, strict=False))
    for name in values:
        if name not in fields:
            raise TypeError(f"{what} has no argument {name!r}; it has {', '.join(fields)}")
        if name in placed:
            raise TypeError(f"{what} got two values for its argument {name!r}")
    given = placed | values
    for name, each in fields.items():
        if name in given:
            continue
        if each.default_factory is not MISSING:
            given[name] = each.default_factory()
        elif each.default is MISSING:
            raise TypeError(f"{what} lacks its argument {name!r}")
        else:
            given[name] = each.default
    return {name: given[name] for name in fields}
