"""How the vendor's binding reads arguments; the functions here behave exactly like it.

Arguments are positional. Each has a letter, that of CPython's argument parser where it has one:

    k  an unsigned long, for handles, addresses and sizes: a real int, of which the low 64 bits count
    i  an int of 32 bits: anything with __index__       u  unsigned: its low 32 bits count
    q  the same with 64 bits
    f  a number     s  a text without NUL     y  bytes     l  a list     d  a dict     O  anything

An argument of the wrong type is a TypeError, and so is a wrong number of arguments; functions without parameters ignore
them. The text is the binding's, "acl.rt.free args parse failed" or "argument 2 is not list"; a note, which a traceback
shows, says what was wrong. Failures of the runtime are never raised: if a function that `runs` a verb, `gives` a
value or `does` something else raises AclError, the caller gets the code.
"""

import inspect
import operator
from collections.abc import Callable, Coroutine, Iterator
from contextvars import copy_context
from math import ldexp
from types import GenericAlias
from typing import Any, TypeVar, get_args

from acl_py.compat.acl.face.session import Face, mine, session
from acl_py.errors import AclError
from acl_py.runtime.scopes import scope_var
from acl_py.waiting import interrupts

__tracebackhide__ = True  # pytest shows the call of the test, not the wrapper
_T = TypeVar("_T", bound=Callable[..., Any])
_LEFT_OUT = object()  # the default of an argument that may be left out

# Whether an argument is as it should be already, as source; the others go through a reader.
_QUICK = {
    "k": "type({0}) is int and 0 <= {0} <= 0xFFFFFFFFFFFFFFFF",
    "i": "type({0}) is int and -0x80000000 <= {0} <= 0x7FFFFFFF",
    "u": "type({0}) is int and 0 <= {0} <= 0xFFFFFFFF",
    "q": "type({0}) is int and -0x8000000000000000 <= {0} <= 0x7FFFFFFFFFFFFFFF",
    "f": "type({0}) is float",
    "s": "type({0}) is str and {0}.isascii() and '\\0' not in {0}",
    "y": "type({0}) is bytes",
    "l": "type({0}) is list",
    "d": "type({0}) is dict",
    "O": "{0} is not _LEFT_OUT",
}
_KINDS: dict[str, Any] = {"k": int, "s": str, "y": bytes, "l": list, "d": dict, "O": object}
_WORDS = {"k": "an int", "s": "str", "y": "bytes", "l": "list", "d": "dict"}
_BITS = {"i": 32, "q": 64}


class WrongContainerError(TypeError, ValueError):
    """An argument that should be bytes, a list or a dict. The binding raises TypeError or ValueError, by function."""


def check_ints(*lists: list[Any]) -> None:
    """Raise TypeError unless *lists* are lists of ints."""
    if not all(isinstance(each, int) for handles in lists for each in handles):
        raise TypeError("the list argument is not list of int")


def fits(number: int, bits: int) -> bool:
    """Return whether *number* fits into *bits*, one of them the sign."""
    return -(1 << (bits - 1)) <= number < 1 << (bits - 1)


def _apart(function: Callable[..., Any], *args: Any) -> Any:
    """Make a call in a run on a card: it goes to the session of the process, and the caller keeps scope and last error.

    The run makes such calls itself, if the card is this module's.
    """

    def call() -> Any:
        scope_var.set(None)
        return function(*args)

    return copy_context().run(call)


def takes(letters: str, *, bare: bool = False) -> Callable[[_T], _T]:
    """Make a function one of the module's: it takes positional arguments of these letters. The one behind a "|" may be
    left out, and the function has a default for it. The text of *bare* errors is that of CPython's parser, to which the
    binding leaves the words in places.

    In which module it belongs follows from the file: `rt/streams.py` is part of `acl.rt`, `base/setup.py` of `acl`
    itself. The wrapper is written for the one function, as source: these calls are many, and a loop over letters costs
    more than most of them do.
    """
    required, _, optional = letters.partition("|")
    if len(optional) > 1 or set(required + optional) - set(_QUICK):
        raise ValueError(f"{letters!r}: at most one argument may be left out, and the letters are {''.join(_QUICK)}")

    def make(function: _T) -> _T:
        wrapper: _T = _wrapper(
            function, inspect.signature(function), letters, _APART + "return _function({given})", bare=bare
        )
        return wrapper

    return make


_APART = """\
scope = _scope_var.get()
if scope is not None and not scope.runtime.takes_guests: return _apart(_this, {given})
"""
_RUN = """\
scope = _scope_var.get()
here = scope is not None and scope is _mine.scope and scope.runtime.state(_Face).session
if here: turn = here.turn
elif scope is not None and not scope.runtime.takes_guests: return _apart(_this, {given})
else:
    here = _session()
    turn = here.turn_here()
if turn._is_owned() and here.put_off(_this, {given}): return 0  # a finalizer calls in the middle of a call
turn.acquire()
try:
    for _ in _function(here, {given}).__await__(): raise AssertionError("a verb of a blocking runtime suspended")
    code = 0
except _AclError as error:
    code = here.failed(error)
finally:
    turn.release()
if here.pending: here.do_pending()
return code"""


def runs(letters: str) -> Callable[[Callable[..., Coroutine[Any, Any, object]]], Callable[..., int]]:
    """Make a function one of the module's as `takes` does. It gets the session besides, and gives the verb that it
    stands for: that is run to its end, and its code is what the caller gets.

    The hot path of most calls: every frame between a script and its verb costs a tenth of the verb. A loop over the
    awaited verb costs a third of send(), which raises at the end, and `with` twice the bare lock.
    """

    def make(function: Callable[..., Coroutine[Any, Any, object]]) -> Callable[..., int]:
        wrapper: Callable[..., int] = _wrapper(function, _shown(function, int), letters, _RUN)
        return wrapper

    return make


_DO = """\
here = _session()
try:
    _function(here, {given})
    code = 0
except _AclError as error:
    code = here.failed(error)
return %scode"""


def does(letters: str, *, echoes: bool = False) -> Callable[[Callable[..., None]], Callable[..., Any]]:
    """Make a function one of the module's as `takes` does. It gets the session besides, and the caller gets 0, or the
    code of the AclError that it raises; if it *echoes*, the handle before the code. It runs no verb, and needs no turn.
    """

    def make(function: Callable[..., None]) -> Callable[..., Any]:
        shown = _shown(function, tuple[int, int] if echoes else int)
        wrapper: Callable[..., Any] = _wrapper(function, shown, letters, _APART + _DO % ("a0, " if echoes else ""))
        return wrapper

    return make


_GIVE = """\
here = _session()
try:
    value, code = _function(here, {given}), 0
except _AclError as error:
    value, code = %s, here.failed(error)
if here.pending: here.do_pending()
return %svalue, code"""


def _admit_signals_at_end() -> None:
    """Let the call that is under way, if there is one, end with the handlers of the signals that are held."""
    scope = scope_var.get()
    here = None if scope is None else scope.runtime.state(Face).session
    if here is not None:
        here.make_due(interrupts.admit)


interrupts.when_held.append(_admit_signals_at_end)


def gives(letters: str, *, failure: Any = 0) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function one of the module's as `takes` does. It gets the session besides, and gives a value, to which the
    caller gets 0; if it raises an AclError, the caller gets *failure* and the code. If *failure* is a tuple, there are
    as many values, and the caller gets each. The function runs verbs with `Session.run`.
    """

    def make(function: Callable[..., Any]) -> Callable[..., Any]:
        value, several = inspect.signature(function).return_annotation, isinstance(failure, tuple)
        shown = GenericAlias(tuple, (*(get_args(value) if several else (value,)), int))
        body = _APART + _GIVE % (repr(failure), "*" if several else "")
        wrapper: Callable[..., Any] = _wrapper(function, _shown(function, shown), letters, body)
        return wrapper

    return make


def _shown(function: Callable[..., Any], gives: Any) -> inspect.Signature:
    """The signature without the session."""
    signature = inspect.signature(function)
    return signature.replace(parameters=list(signature.parameters.values())[1:], return_annotation=gives)


def _wrapper(
    function: Callable[..., Any], signature: inspect.Signature, letters: str, body: str, *, bare: bool = False
) -> Any:
    """A function that reads arguments of these *letters* and goes on with the source *body*: there they are {given}."""
    required, _, optional = letters.partition("|")
    name, module = function.__name__, _module_of(function)
    places = [f"a{place}" for place in range(len(required + optional))]
    given = "".join(f"{place}, " for place in places)
    head = "".join(f"{place}=_LEFT_OUT, " for place in places) + "/, " * bool(places)
    well = [_QUICK[letter].format(place) for place, letter in zip(places, required, strict=False)]
    well += [f"({places[-1]} is _LEFT_OUT or {_QUICK[optional].format(places[-1])})"] if optional else []
    source = [
        f"def {name}({head}*more, **named):",
        f"    if {' or '.join([*['more'] * bool(places), 'named', *(f'not ({fit})' for fit in well)])}:",
        f"        {given}{'=' * bool(places)} _read(({given}), more, named)",
        *[f"    if {places[-1]} is _LEFT_OUT: {places[-1]} = _default" for _ in optional],
        *(f"    {line}" for line in body.replace("{given}", given).split("\n")),
    ]
    reader = _Reader(f"{module}.{name}", required, optional, bare)
    scope: dict[str, Any] = {
        "_function": function, "_LEFT_OUT": _LEFT_OUT, "_read": reader.read, "_scope_var": scope_var,
        "_session": session, "_apart": _apart, "__tracebackhide__": True, "_Face": Face, "_mine": mine,
        "_AclError": AclError,
        "_default": [each.default for each in signature.parameters.values()][-1] if optional else None,
    }  # fmt: skip
    exec(compile("\n".join(source), f"{__file__}: {module}.{name}", "exec"), scope)
    wrapper = scope["_this"] = scope[name]
    wrapper.__doc__ = function.__doc__
    wrapper.__module__ = module
    wrapper.__signature__ = _positional(signature)
    wrapper.letters = letters
    return wrapper


def _module_of(function: Callable[..., Any]) -> str:
    """The module of the binding that *function* is in: the name of its folder in functions/."""
    folder, _, _ = function.__module__.removeprefix("acl_py.compat.acl.functions.").partition(".")
    return "acl" if folder == "base" else f"acl.{folder}"


def _positional(signature: inspect.Signature) -> inspect.Signature:
    """Return what help() shows: the names of the function, all positional-only."""
    only = inspect.Parameter.POSITIONAL_ONLY
    parameters = [
        each if each.kind is inspect.Parameter.VAR_POSITIONAL else each.replace(kind=only)
        for each in signature.parameters.values()
    ]
    return signature.replace(parameters=parameters)


def _advice(value: object) -> Iterator[str]:
    """Yield what to pass in place of *value* where an address belongs, if it has one or is a pair that has one."""
    if isinstance(value, tuple):
        yield "functions of acl return (value, ret): pass the value alone"
    elif isinstance(value, bytes):
        yield "pass its address: acl.util.bytes_to_ptr(data)"
    elif hasattr(value, "__array_interface__") and getattr(value, "ndim", False):  # numbers of NumPy have one, too
        yield "pass its address: acl.util.numpy_to_ptr(array)"


class _Reader:
    """Reads the arguments that are not as they should be already, or says what is wrong with them."""

    def __init__(self, name: str, required: str, optional: str, bare: bool) -> None:
        self._name = name
        self._bare = bare
        self._required = len(required)
        self._letters = required + optional

    def read(self, values: tuple[Any, ...], more: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        """*values* as the function wants them; TypeError if they do not fit, or if there are too few or *more*."""
        if named:
            raise TypeError(f"{self._name}() takes no keyword arguments")
        count = sum(value is not _LEFT_OUT for value in values) + len(more)
        if not self._required <= count <= len(self._letters):
            raise self._error(f"function takes {self._how_many(count)} ({count} given)")
        return [
            value if value is _LEFT_OUT else self._one(place, letter, value)
            for place, (letter, value) in enumerate(zip(self._letters, values, strict=True), 1)
        ]

    def _error(self, what: str) -> TypeError:
        if self._bare:
            return TypeError(what)
        error = TypeError(f"{self._name} args parse failed")
        error.add_note(what)
        return error

    def _how_many(self, count: int) -> str:
        least, most = self._required, len(self._letters)
        number = least if count < least else most
        word = "exactly" if least == most else "at least" if count < least else "at most"
        return f"{word} {number} argument{'s' * (number != 1)}"

    def _places(self, letter: str) -> str:
        """Return "2", "2 or 3", or "2, 3, or 4": the binding names all arguments of the same letter."""
        *others, last = (str(place) for place, each in enumerate(self._letters, 1) if each == letter)
        return f"{', '.join(others)}{',' * (len(others) > 1)} or {last}" if others else last

    def _one(self, place: int, letter: str, value: Any) -> Any:
        if letter == "f":
            return self._real(place, value)
        kind = _KINDS.get(letter)
        if kind is None:
            return self._whole(place, letter, value)
        if not isinstance(value, kind):
            if letter not in "yld":
                error = self._error(f"argument {place} is not {_WORDS[letter]} but of type {type(value).__name__}")
                for advice in _advice(value) if letter == "k" else ():
                    error.add_note(advice)
                raise error
            wrong = WrongContainerError(f"argument {self._places(letter)} is not {_WORDS[letter]}")
            wrong.add_note(f"{self._name}: argument {place} is of type {type(value).__name__}")
            raise wrong
        if letter == "s":
            self._check_text(place, value)
        return int(value) & 0xFFFFFFFFFFFFFFFF if letter == "k" else value

    def _check_text(self, place: int, value: str) -> None:
        """A C string is UTF-8 that ends with its NUL."""
        try:
            if b"\0" not in value.encode():
                return
            what = "has a NUL in it"
        except UnicodeEncodeError as error:
            what = f"cannot be written in UTF-8: {error.reason}"
        raise self._error(f"argument {place} {what}")

    def _real(self, place: int, value: Any) -> float:
        """What CPython's parser takes for a number: a float, or what has __float__ or __index__."""
        try:
            return ldexp(value, 0)
        except TypeError:
            raise self._error(f"argument {place} is not a number but of type {type(value).__name__}") from None

    def _whole(self, place: int, letter: str, value: Any) -> int:
        try:
            number = int(operator.index(value))
        except TypeError as error:
            raise self._error(f"argument {place}: {error}") from None
        if letter == "u":
            return number & 0xFFFFFFFF
        bits = _BITS[letter]
        if not fits(number, bits):
            raise self._error(f"argument {place}: {number} has more than {bits} bits")
        return number
