"""Calls: what happens between C and a verb.

A function of the driver is a coroutine of this face, made known by `answers`. It gets the driver and those arguments
that are no results, each as its kind says: handles as objects, texts as `str`. What it returns is written to where the
caller wants the results, one value for each. Handles are made for objects among them. A failure becomes a code, and a
call that fails writes nothing.
"""

import ctypes
from collections.abc import Callable, Coroutine
from struct import Struct
from types import FunctionType
from typing import Any, TypeVar

from acl_py import log
from acl_py.compat.acl.face.failed_calls import sentence
from acl_py.compat.cuda.face import codes
from acl_py.compat.cuda.face.codes import RefusedError, code_of
from acl_py.compat.cuda.face.state import Driver, driver_here
from acl_py.compat.cuda.library import own_memory
from acl_py.compat.cuda.library.behind import raising_behind
from acl_py.compat.cuda.library.signatures import NUMBERS, Parameter, Signature
from acl_py.errors import AclError
from acl_py.runtime.scopes import scope_var
from acl_py.verbs.streams import PER_THREAD_STREAM

Verb = Callable[..., Coroutine[Any, Any, Any]]
_V = TypeVar("_V", bound=Verb)
_NUMBER = {"u4": Struct("<I"), "u8": Struct("<Q"), "i4": Struct("<i"), "f4": Struct("<f")}
_HANDLE = _NUMBER["u8"]
_C_TYPES: dict[str, Any] = {
    "u1": ctypes.c_uint8, "u2": ctypes.c_uint16, "u4": ctypes.c_uint32, "i4": ctypes.c_int32, "f4": ctypes.c_float,
    "b64": ctypes.c_ubyte * 64,
}  # fmt: skip


_answers: dict[str, Verb] = {}
_questions: dict[str, int] = {}  # by function, a code that answers a question and is no failure


def answers(*names: str, question: int = codes.SUCCESS) -> Callable[[_V], _V]:
    """Let calls of the functions *names* run the decorated coroutine. The code *question* is an answer, such as "not
    yet", which no report lists as a failure.
    """

    def make(verb: _V) -> _V:
        _answers.update(dict.fromkeys(names, verb))
        _questions.update(dict.fromkeys(names, question))
        return verb

    return make


def answered() -> frozenset[str]:
    """Return the functions that are answered by a coroutine; calls of the others are refused as not simulated."""
    return frozenset(_answers)


def callback(signature: Signature, *, is_twin: bool) -> Any:
    """Return what C calls for the function of *signature*, or for its twin: it must be kept alive."""
    prototype = ctypes.CFUNCTYPE(ctypes.c_int, *map(_c_type, signature.parameters))
    entry = _Entry(signature, is_twin=is_twin)

    def call(*raw: Any) -> int:
        try:
            return entry.code(raw)
        except BaseException as error:  # C cannot have it: it would go on with a random code
            kept = error
        for _ in raising_behind(kept):
            return codes.UNKNOWN
        raise AssertionError("the iterator has one step")

    # The name of the file tells reports which function was called: see sites.py.
    code = call.__code__.replace(co_filename=f"{__file__}: {signature.name}")
    return prototype(FunctionType(code, globals(), signature.name, None, call.__closure__))


def _c_type(parameter: Parameter) -> Any:
    return ctypes.c_uint64 if parameter.is_out else _C_TYPES.get(parameter.kind, ctypes.c_uint64)


class _Entry:
    """One exported function."""

    def __init__(self, signature: Signature, *, is_twin: bool) -> None:
        self.signature = signature
        self._verb = _answers.get(signature.name)
        self._default_stream = PER_THREAD_STREAM if is_twin else None

    def code(self, raw: tuple[Any, ...]) -> int:
        """Make the call with the arguments *raw*, and return its code."""
        driver = driver_here()
        if self._verb is None:
            return driver.not_simulated(self.signature.name)
        # A finalizer may call in the middle of another call, which must not find its state changed.
        if not self._has_results and driver.session.put_off(self._run, driver, raw):
            return codes.SUCCESS
        code = self._run(driver, raw)
        if driver.session.pending:
            driver.session.do_pending()
        return code

    @property
    def _has_results(self) -> bool:
        return any(parameter.is_out for parameter in self.signature.parameters)

    def _run(self, driver: Driver, raw: tuple[Any, ...]) -> int:
        scope = scope_var.get()
        scope_var.set(driver.thread.scope)
        try:
            driver.session.run(self._answered(driver, raw))
        except RefusedError as refused:
            return self._failed(driver, refused.code, refused.what)
        except own_memory.FaultError as fault:
            return self._failed(driver, codes.INVALID_VALUE, f"there is no such memory: {fault}")
        except AclError as error:
            return self._failed(driver, code_of(error), sentence(error))
        finally:
            scope_var.set(scope)
        return codes.SUCCESS

    def _failed(self, driver: Driver, code: int, what: str) -> int:
        if code != _questions[self.signature.name]:
            driver.session.failures.add_call(code, f"CUDA_{codes.NAMES[code]} ({code}): {what}")
            log.warn("failed", function=self.signature.name, ret=code)
        return code

    async def _answered(self, driver: Driver, raw: tuple[Any, ...]) -> None:
        """Read the arguments, run the verb, and write its results."""
        pairs = list(zip(self.signature.parameters, raw, strict=True))
        for parameter, value in pairs:
            if parameter.is_out and (value or not parameter.is_optional):
                own_memory.check(value, _size(parameter))
        given = [self._read(driver, parameter, value) for parameter, value in pairs if not parameter.is_out]
        assert self._verb is not None
        result = await self._verb(driver, *given)
        places = [(parameter, value) for parameter, value in pairs if parameter.is_out]
        results = result if len(places) > 1 else (result,)
        for (parameter, address), each in zip(places, results, strict=False):
            if address:
                own_memory.write(address, _packed(driver, parameter, each))

    def _read(self, driver: Driver, parameter: Parameter, value: Any) -> Any:
        kind = parameter.kind
        if kind in NUMBERS or kind in ("pointer", "b64"):
            return value
        if kind == "text":
            return own_memory.text(value).decode(errors="replace")
        if kind == "stream":
            return driver.stream(value, self._default_stream)
        if kind in _NULLABLE and not value:
            return None
        if kind == "function" and driver.handles.kind_of(value) == "kernel":
            return driver.handles.find("kernel", value).function(driver.thread.context)
        return driver.handles.find(kind, value)


_NULLABLE = ("context",)  # handles that may be 0


def _size(parameter: Parameter) -> int:
    return NUMBERS.get(parameter.kind, 8)


def _packed(driver: Driver, parameter: Parameter, value: Any) -> bytes:
    if parameter.kind in _NUMBER:
        return _NUMBER[parameter.kind].pack(value)
    return _HANDLE.pack(driver.handle(parameter.kind, value) if value is not None else 0)
