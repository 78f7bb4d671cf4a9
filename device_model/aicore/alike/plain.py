"""Whether a kernel does the same whenever it is called: one call of it may then stand for several blocks.

A kernel is plain if it, and each function and class that it names, reads only values that cannot change, and changes
nothing outside. That is read off the code. What is not known to be harmless makes a kernel not plain; it is then called
for each block, and nothing is lost but time.
"""

import builtins
import dis
import math
from collections.abc import Iterator, Mapping
from dataclasses import fields
from enum import Enum, EnumType, IntEnum
from functools import lru_cache, partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from device_model.aicore.core.blocks import CoreTypeTest
from device_model.aicore.core.tensors import GlobalBuffer

_BUILTINS = (
    "abs", "all", "any", "bool", "bytes", "callable", "classmethod", "complex", "dict", "divmod", "enumerate", "filter",
    "float", "frozenset", "int", "isinstance", "issubclass", "iter", "len", "list", "map", "max", "min", "next",
    "property", "range", "repr", "reversed", "round", "set", "slice", "sorted", "staticmethod", "str", "sum", "super",
    "tuple", "zip",
)  # fmt: skip
# They change what others see, or read it where it may have changed.
_FORBIDDEN = (
    "STORE_GLOBAL", "DELETE_GLOBAL", "IMPORT_NAME", "IMPORT_FROM", "IMPORT_STAR", "LOAD_BUILD_CLASS", "LOAD_NAME",
    "STORE_NAME", "DELETE_NAME", "DELETE_DEREF", "LOAD_LOCALS", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_FROM_DICT_OR_DEREF",
    "LOAD_CLASSDEREF", "GET_AWAITABLE",
)  # fmt: skip
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_ATOMS = (type(None), bool, int, float, complex, str, bytes)
_OF_NUMPY = (np.generic, np.dtype, np.ufunc)
_CONSTRUCTORS = ("__init__", "__new__")
_NOTHING = object()
_RUNTIME = "acl_py.runtime.scopes"  # has the method that refuses verbs in a kernel


class _Use(NamedTuple):
    """A name from outside that code reads, with the attributes that follow it at once."""

    name: str
    is_global: bool
    attributes: tuple[str, ...]


class Judge:
    """Judges objects. An object under judgement counts as harmless, so that functions may call each other.

    Attributes:
        loops: The global names of the modules whose functions call `range`, by the id() of each.
    """

    def __init__(self) -> None:
        self.loops: dict[int, dict[str, Any]] = {}
        self._seen: dict[int, object] = {}
        self._attributes: list[tuple[Any, dict[str, Any]]] = []  # of objects whose attributes code can set

    def is_plain(self, kernel: Any) -> bool:
        """Return whether *kernel* does the same at each call, except for what the language tells it.

        It may be wrapped by a method that gets it as its first argument, as the runtime does to refuse verbs in it.
        """
        if (
            isinstance(kernel, partial)
            and isinstance(kernel.func, MethodType)
            and _module(kernel.func.__func__) == _RUNTIME
        ):
            function, *args = kernel.args
            kernel = partial(function, *args, **kernel.keywords)
        return self.is_harmless(kernel)

    def was_wrong(self) -> bool:
        """Return whether a call of the kernel has set attributes of what it uses; undo that."""
        changes = list(self._changes())
        for owner, name, old in changes:
            if old is _NOTHING:
                delattr(owner, name)
            else:
                setattr(owner, name, old)
        return bool(changes)

    def has_changed(self) -> bool:
        """Return whether an attribute of what the kernel uses has changed since the kernel was judged."""
        return any(True for _ in self._changes())

    def _changes(self) -> Iterator[tuple[Any, str, Any]]:
        """Yield each attribute that has changed: its owner, its name, and its old value."""
        for owner, old in self._attributes:
            new = _attributes_of(owner)
            for name in dict.fromkeys((*old, *new)):
                before = old.get(name, _NOTHING)
                if new.get(name, _NOTHING) is not before:
                    yield owner, name, before

    def is_harmless(self, value: Any) -> bool:
        """Whether *value* cannot change, and running it, if it can be run, changes nothing outside."""
        if isinstance(value, type):
            return self._class(value)
        if type(value) in _ATOMS or id(value) in self._seen:
            return True
        self._seen[id(value)] = value  # kept alive, as its id is remembered
        if isinstance(value, GlobalBuffer):
            self._attributes.append((value, _attributes_of(value)))
            return True
        if isinstance(value, (*_ATOMS, *_OF_NUMPY, tuple, frozenset, Enum, CoreTypeTest)):
            return self._value(value)
        if isinstance(value, FunctionType):
            return _is_of_language(value) or self._function(value)
        if isinstance(value, MethodType):
            return self.is_harmless(value.__self__) and self.is_harmless(value.__func__)
        if isinstance(value, partial):
            return all(map(self.is_harmless, (value.func, *value.args, *value.keywords.values())))
        if isinstance(value, staticmethod | classmethod):
            return self.is_harmless(value.__func__)
        if isinstance(value, property):
            return all(self.is_harmless(each) for each in (value.fget, value.fset, value.fdel))
        if isinstance(value, BuiltinFunctionType):
            return getattr(math, value.__name__, None) is value or (
                value.__name__ in _BUILTINS and getattr(builtins, value.__name__, None) is value
            )
        if _is_of_language(type(value)) and _is_frozen(type(value)):
            return all(self.is_harmless(getattr(value, each.name)) for each in fields(value))
        return False

    def _value(self, value: Any) -> bool:
        """Whether a value is harmless with its parts. It cannot change, except for attributes that were added to it."""
        parts = list(value) if isinstance(value, tuple | frozenset) else []
        if hasattr(value, "__dict__"):
            self._attributes.append((value, _attributes_of(value)))
            parts += vars(value).values()
        return not isinstance(value, np.void) and self._class(type(value)) and all(map(self.is_harmless, parts))

    def _class(self, cls: type) -> bool:
        if id(cls) in self._seen:
            return True
        self._seen[id(cls)] = cls
        if _is_of_language(cls) or cls in (object, Enum, IntEnum) or issubclass(cls, _OF_NUMPY):
            return True
        if cls.__module__ == "builtins":
            return cls.__name__ in _BUILTINS or issubclass(cls, BaseException)
        if type(cls) not in (type, EnumType):  # it may do anything where objects are made
            return False
        self._attributes.append((cls, _attributes_of(cls)))
        return all(map(self._class, cls.__bases__)) and all(self._member(cls, *each) for each in vars(cls).items())

    def _member(self, cls: type, name: str, value: Any) -> bool:
        if isinstance(value, FunctionType | property | staticmethod | classmethod):
            maker = _module(getattr(value, "__func__", value))
            return maker in ("collections", "enum") or maker.startswith("namedtuple_") or self.is_harmless(value)
        is_field = type(value).__name__ in ("member_descriptor", "_tuplegetter")
        hidden = "_" if issubclass(cls, Enum) else "__"
        is_of_python = name in ("_fields", "_field_defaults") or (name.startswith(hidden) and name.endswith(hidden))
        return is_field or is_of_python or self.is_harmless(value)

    def _function(self, function: FunctionType) -> bool:
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        try:
            outside = {name: cell.cell_contents for name, cell in cells.items() if name != "__class__"}
        except ValueError:  # not set yet
            return False
        self._attributes.append((function, _attributes_of(function)))
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        return (
            type(function) is FunctionType
            and not vars(function)
            and all(map(self.is_harmless, defaults))
            and self._code(function.__code__, outside, function.__globals__)
        )

    def _code(self, code: CodeType, outside: Mapping[str, Any], names: dict[str, Any]) -> bool:
        uses = _uses_of(code, frozenset(outside))
        if uses is None:
            return False
        for name, is_global, attributes in uses:
            if not is_global:
                value = outside[name]
            elif name in names:
                value = names[name]
            elif name in _BUILTINS or _is_error(name):
                if name == "range":
                    self.loops[id(names)] = names
                continue
            else:
                return False
            if not self._use(value, attributes):
                return False
        return all(self._code(each, outside, names) for each in code.co_consts if isinstance(each, CodeType))

    def _use(self, value: Any, attributes: tuple[str, ...]) -> bool:
        for name in attributes:
            if not isinstance(value, ModuleType):
                break
            value = getattr(value, name, self)  # this judge is not harmless
        return not isinstance(value, ModuleType) and self.is_harmless(value)


@lru_cache(maxsize=1024)
def _uses_of(code: CodeType, outside: frozenset[str]) -> tuple[_Use, ...] | None:
    """Return the names from outside that *code* uses; None if it changes what lies outside, or might."""
    uses: list[_Use] = []
    steps = [each for each in dis.get_instructions(code) if each.opname not in ("CACHE", "PRECALL", "NOP")]
    before = ""
    for place, step in enumerate(steps):
        name = step.opname
        if (before, name) == ("PUSH_EXC_INFO", "POP_TOP") or step.argval == "BaseException":
            return None  # it may catch what ends a record, and go on
        before = name
        if name in _FORBIDDEN or (name == "STORE_DEREF" and step.argval in outside):
            return None
        if name in _ATTRIBUTES and str(step.argval).startswith("__") and step.argval not in _CONSTRUCTORS:
            return None
        if _is_from_outside(step, outside):
            uses.append(_Use(step.argval, name == "LOAD_GLOBAL", tuple(_attributes(steps, place + 1))))
    return tuple(uses)


def _is_from_outside(step: dis.Instruction, outside: frozenset[str]) -> bool:
    return step.opname == "LOAD_GLOBAL" or (step.opname == "LOAD_DEREF" and step.argval in outside)


def _attributes(steps: list[dis.Instruction], place: int) -> Iterator[str]:
    while place < len(steps) and steps[place].opname in _ATTRIBUTES:
        yield steps[place].argval
        place += 1


def _is_error(name: str) -> bool:
    value = getattr(builtins, name, None)
    return isinstance(value, type) and issubclass(value, BaseException)


def _is_of_language(value: Any) -> bool:
    """Whether a class or function belongs to this package: it asks and tells its core only."""
    return _module(value).startswith("device_model.")


def _attributes_of(owner: Any) -> dict[str, Any]:
    """Return the attributes of a buffer in GM, or of an object that has a dict of them."""
    if isinstance(owner, GlobalBuffer):
        return {name: getattr(owner, name) for name in GlobalBuffer.__slots__}
    return dict(vars(owner))


def _module(value: Any) -> str:
    """Return the module of a class or function by name: of a function that of its code, as `functools.wraps` lies."""
    if isinstance(value, FunctionType):
        return str(value.__globals__.get("__name__", ""))
    return str(getattr(value, "__module__", ""))


def _is_frozen(cls: type) -> bool:
    """Whether the fields of objects of a class cannot be set."""
    parameters = getattr(cls, "__dataclass_params__", None)
    return parameters is not None and parameters.frozen
