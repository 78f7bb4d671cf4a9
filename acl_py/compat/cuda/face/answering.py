"""Answers: the functions that C calls. Each is written for its signature, as source.

So are those of the module `acl`, because these calls are many: loops over arguments cost more than most verbs do. All
of an answer is one function, because the way to the line of the program leads over each frame.

An answer reads handles, and calls the function that is to answer. The coroutine that it gets runs with the variables of
the thread (`Thread.run`): the scope is the thread's there, and the caller keeps its own.
"""

import gc
from collections.abc import Iterable
from functools import cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from acl_py import log
from acl_py.compat.cuda.face import codes
from acl_py.compat.cuda.face.codes import RefusedError
from acl_py.compat.cuda.face.state import near, thread_here
from acl_py.compat.cuda.library import own_memory
from acl_py.compat.cuda.library.behind import MINUS_ONE, ZERO, SettingAgain, raising_behind
from acl_py.compat.cuda.library.callbacks import Answer
from acl_py.errors import AclError
from acl_py.runtime.scopes import opened, scope_var
from device_model.ptx.text.errors import PtxError

if TYPE_CHECKING:
    from acl_py.compat.cuda.face.calls import Entry

_SOURCE = """\
def answer({given}):
    try:
        ZERO % MINUS_ONE
    except BaseException as error:
        return SettingAgain.of(again({given}), error)
    try:
        scope = scope_var.get()
        thread = near.thread
        if thread is None or thread.outer is not scope or thread.runtime.closed is not None or opened:
            thread = thread_here(scope)
{place}        turn, run = thread.turn, thread.run
        if scope is not None or turn._is_owned() or log._logger is not None:
            turn, run = entry.turn_beside(thread, scope)
            if turn is None:
                return entry.put_off(thread.driver, ({given}))
        driver = thread.driver
        collects = isenabled()
        disable()  # a finalizer in the middle of a call could not get results
        try:
            turn.acquire()
{begin}            try:
{read}                if run(next, {verb}.__await__(), None) is not None:
                    raise AssertionError(f"{{entry.signature.name}} suspended, and its bridge is a blocking one")
                code = 0
            except FAILURES as error:
                code = run(entry.refused, driver, error)
            finally:
                turn.release()
{end}        finally:
            if collects:
                enable()
        if thread.pending:
            thread.session.do_pending()
        return code
    except BaseException as error:  # C cannot have it: it would go on with a random code
        kept = error
    for _ in raising_behind(kept):
        return UNKNOWN
    raise AssertionError("the iterator has one step")
"""
# Where no context is current, that of the first object which has one is so during the call.
_PLACE = """\
        own = thread.scope
        if own.context is thread.nowhere and (place := entry.place(thread.driver, ({given}))) is not None:
            own.context = place
            try:
                return again({given})
            finally:
                if own.context is place:
                    own.context = thread.nowhere
"""
# The twin of a function means the default stream of the thread. What a finalizer may call in the middle of it asks for
# none.
_BEGIN = """\
            outer, thread.scope.is_per_thread = thread.scope.is_per_thread, True
"""
_END = """\
                thread.scope.is_per_thread = outer
"""
# Most arguments that stand for an object are its handle; a reader knows what else there is, or what is wrong.
_READ = """\
                thing{place} = tables[{kind!r}].get(a{place})
                if thing{place} is None:
                    thing{place} = run(read{place}, driver, a{place})
"""
_SHARED: dict[str, Any] = {
    "ZERO": ZERO, "MINUS_ONE": MINUS_ONE, "SettingAgain": SettingAgain, "raising_behind": raising_behind,
    "scope_var": scope_var, "near": near, "thread_here": thread_here, "opened": opened, "log": log,
    "isenabled": gc.isenabled, "disable": gc.disable, "enable": gc.enable,
    "FAILURES": (RefusedError, own_memory.FaultError, PtxError, AclError), "UNKNOWN": codes.UNKNOWN,
    "__file__": __file__,
}  # fmt: skip


def written(entry: "Entry", *, is_per_thread: bool) -> Answer:
    """Return what answers calls of the function of *entry*."""
    name = entry.signature.name
    code = _code(_source(entry, is_per_thread=is_per_thread)).replace(co_filename=f"{__file__}: {name}", co_name=name)
    own = {"entry": entry, "verb": entry.verb}
    answer = FunctionType(code, _SHARED | own | {f"read{place}": read for place, _, read in entry.readers})
    answer.__globals__["again"] = answer
    return answer


def _source(entry: "Entry", *, is_per_thread: bool) -> str:
    names = [f"a{number}" for number in range(len(entry.signature.parameters))]
    given = _listed(names)
    read, verb = "", f"entry.act(driver, ({given}))"
    if entry.is_direct:
        read = "".join(_READ.format(kind=kind, place=place) for place, kind, _ in entry.readers)
        read = f"                tables = driver.tables\n{read}" if read else ""
        objects = {place for place, _, _ in entry.readers}
        verb = f"verb(driver, {_listed(f'thing{at}' if at in objects else name for at, name in enumerate(names))})"
    begin, end = (_BEGIN, _END) if is_per_thread else ("", "")
    place = _PLACE.format(given=given) if entry.placed else ""
    return _SOURCE.format(given=given, read=read, verb=verb, begin=begin, end=end, place=place)


def _listed(names: Iterable[str]) -> str:
    return "".join(f"{name}, " for name in names)


@cache  # most functions have the source of another one
def _code(source: str) -> CodeType:
    scope: dict[str, Any] = {}
    exec(source, scope)
    code: CodeType = scope["answer"].__code__
    return code
