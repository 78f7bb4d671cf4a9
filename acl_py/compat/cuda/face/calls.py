"""Calls: what happens between C and a verb.

A function of the driver is a coroutine of this face, made known by `answers`. It gets the driver and those arguments
that are no results, each as its kind says: handles as objects, texts as `str`. What it returns is written to where the
caller wants the results, one value for each. Handles are made for objects among them. A failure becomes a code, and a
call that fails writes nothing.
"""

from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import cache, partial
from struct import Struct
from typing import Any, TypeVar

from acl_py import log
from acl_py.compat.acl.face.failed_calls import sentence
from acl_py.compat.acl.face.turns import NO_TURN, Turn
from acl_py.compat.cuda.face import answering, codes, images
from acl_py.compat.cuda.face.codes import NotSimulatedError, RefusedError, code_of
from acl_py.compat.cuda.face.state import Driver, Thread
from acl_py.compat.cuda.library import own_memory
from acl_py.compat.cuda.library.callbacks import STRUCTURES, Answer
from acl_py.compat.cuda.library.signatures import NUMBERS, Parameter, Signature, read
from acl_py.errors import AclError
from acl_py.runtime.scopes import Barred, Scope, scope_var
from acl_py.verbs.streams import PER_THREAD_STREAM, StreamLike
from device_model.contexts import Context
from device_model.ptx.text.errors import PtxError

Verb = Callable[..., Coroutine[Any, Any, Any]]
_V = TypeVar("_V", bound=Verb)
_Reader = Callable[[Driver, int], Any]
_NUMBER = {"u4": Struct("<I"), "u8": Struct("<Q"), "i4": Struct("<i"), "f4": Struct("<f")}
_HANDLE = _NUMBER["u8"]
_PLACED = frozenset(("stream", "event", "function", "module", "array"))  # kinds of objects that have a context
_answers: dict[str, Verb] = {}
_questions: dict[str, int] = {}  # by function, a code that answers a question and is no failure
_reading: set[str] = set()  # functions that finalizers may call in the middle of another call


def answers(*names: str, question: int = codes.SUCCESS, reads: bool = False) -> Callable[[_V], _V]:
    """Let calls of the functions *names* run the decorated coroutine. The code *question* is an answer, such as "not
    yet", which no report lists as a failure. A coroutine that *reads* only reads what no other call leaves half done.
    """

    def make(verb: _V) -> _V:
        _answers.update(dict.fromkeys(names, verb))
        _questions.update(dict.fromkeys(names, question))
        if reads:
            _reading.update(names)
        return verb

    return make


def answered() -> frozenset[str]:
    """Return the functions that are answered by a coroutine; calls of the others are refused as not simulated."""
    return frozenset(_answers)


def answer_of(name: str, *, is_twin: bool) -> Answer:
    """Return what answers the function *name*, or its twin."""
    return _entry(name, is_twin=is_twin).answer


async def call(driver: Driver, name: str, *raw: int) -> None:
    """Make the call of the driver's function *name* with what C would pass, inside of another call."""
    await _entry(name, is_twin=False).act(driver, raw)


@cache
def _entry(name: str, *, is_twin: bool) -> "Entry":
    return Entry(read()[name], *verb_of(name), is_twin=is_twin)


def verb_of(name: str) -> tuple[Verb, int]:
    """Return what runs for the driver's function *name*, and the code that answers a question and is no failure."""
    return _answers.get(name, not_simulated), _questions.get(name, codes.NOT_SUPPORTED)


class Entry:
    """One exported function: *verb* runs, and the code *question* is no failure."""

    def __init__(self, signature: Signature, verb: Verb, question: int, *, is_twin: bool) -> None:
        self.signature = signature
        self.verb = verb
        self._question = question
        self._reads = signature.name in _reading
        default = PER_THREAD_STREAM if is_twin else None
        parameters = list(enumerate(signature.parameters))
        self._given = [place for place, each in parameters if not each.is_out]
        given = [each for each in signature.parameters if not each.is_out]
        self.readers = [(place, *reader) for place, each in enumerate(given) if (reader := _reader(each, default))]
        self._wanted = [(place, each) for place, each in parameters if each.is_out]
        self.placed = [(place, each.kind) for place, each in parameters if not each.is_out and each.kind in _PLACED]
        self.answer = answering.written(self, is_per_thread=is_twin)

    @property
    def is_direct(self) -> bool:
        """Whether a call only reads arguments and runs the verb, which has no results."""
        return not self._wanted

    def turn_beside(self, thread: Thread, scope: Scope | None) -> tuple[Turn | None, Callable[..., Any]]:
        """Return the turn of a call that may be made in the middle of another one, in which *scope* is that of the
        thread, and what runs it. None if the call is put off: a finalizer makes it, and the state must not change.
        """
        session, turn = thread.session, thread.turn
        is_inside = turn._is_owned()
        if scope is not None and isinstance(scope.context, Barred):
            turn = NO_TURN
        elif is_inside and session.is_in_the_middle():
            if not self._reads:
                return None, thread.run
            turn = NO_TURN
        if not is_inside and log._logger is None:
            return turn, thread.run
        variables = copy_context()  # events have those of the program
        variables.run(scope_var.set, thread.scope)
        return turn, variables.run

    def put_off(self, driver: Driver, raw: tuple[Any, ...]) -> int:
        """Make the call later: a finalizer makes it in the middle of another one, whose state must not change."""
        if self._wanted:
            what = "a finalizer asks for a result in the middle of a call"
            return self.refused(driver, RefusedError(codes.NOT_PERMITTED, what))
        driver.session.make_due(partial(self.answer, *raw))
        return codes.SUCCESS

    def refused(self, driver: Driver, error: Exception) -> int:
        """Return the code of a call that *error* has ended."""
        match error:
            case NotSimulatedError():
                driver.session.warn_unsupported(self.signature.name, codes.NOT_SUPPORTED)
                return codes.NOT_SUPPORTED
            case RefusedError():
                return self._failed(driver, error.code, error.what)
            case own_memory.FaultError():
                return self._failed(driver, codes.INVALID_VALUE, f"there is no such memory: {error}")
            case PtxError():
                return self._failed(driver, images.refused(error).code, f"{error}")
            case AclError():
                return self._failed(driver, self.code_of(error), _sentence(driver, error))
        raise error

    def place(self, driver: Driver, raw: tuple[Any, ...]) -> Context | None:
        """Return the context in which a call is made where none is current: that of the first object which has one.
        Measured: all calls that name such an object work so.
        """
        for place, kind in self.placed:
            thing = driver.tables[kind].get(raw[place])
            if thing is not None:
                context: Context = thing.context
                return context
        return None

    def act(self, driver: Driver, raw: tuple[Any, ...]) -> Coroutine[Any, Any, Any]:
        """Return the verb's run with what C has passed."""
        if self._wanted:
            return self._answered(driver, raw)
        return self.verb(driver, *self._read(driver, [*raw]))

    def code_of(self, error: AclError) -> int:
        """Return the code of a failed verb."""
        return code_of(error)

    def named(self, code: int) -> str:
        """Return the name of a code."""
        return f"CUDA_{codes.NAMES[code]}"

    def _read(self, driver: Driver, arguments: list[Any]) -> list[Any]:
        """Put what they stand for in the place of the *arguments*, which C has passed."""
        tables = driver.tables
        for place, kind, otherwise in self.readers:
            thing = tables[kind].get(arguments[place])
            arguments[place] = otherwise(driver, arguments[place]) if thing is None else thing
        return arguments

    async def _answered(self, driver: Driver, raw: tuple[Any, ...]) -> None:
        """Run the verb, and write its results where the caller wants them, if all of that can be written."""
        for place, parameter in self._wanted:
            if raw[place] or not parameter.is_optional:
                own_memory.check(raw[place], _size(parameter))
        result = await self.verb(driver, *self._read(driver, [raw[place] for place in self._given]))
        results = result if len(self._wanted) > 1 else (result,)
        for (place, parameter), each in zip(self._wanted, results, strict=True):
            if raw[place]:
                own_memory.write(raw[place], _packed(driver, parameter, each))

    def _failed(self, driver: Driver, code: int, what: str) -> int:
        if code != self._question:
            driver.session.failures.add_call(code, f"{self.named(code)} ({code}): {what}")
            log.warn("failed", function=self.signature.name, ret=code)
        return code


async def not_simulated(*_: object) -> None:
    """Stand for the functions that no coroutine answers."""
    raise NotSimulatedError(codes.NOT_SUPPORTED, "the function is not simulated")


def _sentence(driver: Driver, error: AclError) -> str:
    """Return what was wrong, and what to do. No reset brings back a context that is lost (measured)."""
    context = driver.thread.scope.context
    is_lost = isinstance(context, Context) and context.failed_op is not None
    return f"{error.what}; only a new process gets another context" if is_lost else sentence(error)


def _reader(parameter: Parameter, default: StreamLike) -> tuple[str, _Reader] | None:
    """Return what makes an argument of what C has passed, unless it is the handle of an object of the kind that stands
    before it. None if an argument is what C has passed.
    """
    kind = parameter.kind
    if kind in NUMBERS or kind in STRUCTURES or kind == "pointer":
        return None
    if kind == "text":
        return "", lambda _, value: own_memory.text(value).decode(errors="replace")
    if kind == "stream":
        return kind, lambda driver, value: driver.stream(value, default)
    if kind == "context":
        return kind, lambda driver, value: driver.handles.find(kind, value) if value else None
    if kind == "function":
        return kind, function_of
    return kind, lambda driver, value: driver.find(kind, value)


def function_of(driver: Driver, value: int) -> Any:
    """Return a function; a kernel of a library stands for what it is in the current context."""
    if driver.handles.kind_of(value) == "kernel":
        return driver.handles.find("kernel", value).function(driver.thread.context)
    return driver.find("function", value)


def _size(parameter: Parameter) -> int:
    return NUMBERS.get(parameter.kind, 8)


def _packed(driver: Driver, parameter: Parameter, value: Any) -> bytes:
    if parameter.kind in _NUMBER:
        return _NUMBER[parameter.kind].pack(value)
    return _HANDLE.pack(driver.handle(parameter.kind, value) if value is not None else 0)
