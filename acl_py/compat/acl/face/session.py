"""Sessions: what the calls of the module `acl` share: a runtime, handles for its objects, and failures as codes.

The first call begins the session of the process. The session has its own runtime, which any thread may use. As with the
vendor's runtime, each thread has its own current context, last error and last message. A new thread has no context
until it sets a device or a context.

Inside a simulation of the native API (acl_py.run, simulate, open) the calls of that thread go to the simulation
instead, so both interfaces share one device. There a call that waits drives simulated time itself, and the event loop
stands still until the call returns, as it would while a call blocks on a card.
"""

import gc
import sys
import threading
from collections.abc import Callable, Collection, Coroutine
from dataclasses import replace
from functools import partial
from sys import _getframe
from typing import Any, cast

from acl_py import log
from acl_py.codes import named_code
from acl_py.compat.acl.face import current
from acl_py.compat.acl.face.current import current_session as current_session
from acl_py.compat.acl.face.failed_calls import Failures, WorkFailures, sentence
from acl_py.compat.acl.face.handles import INVALID_PARAM as INVALID_PARAM  # of the C layer
from acl_py.compat.acl.face.handles import Handles
from acl_py.compat.acl.face.host_objects import objects
from acl_py.compat.acl.face.options import SessionOptions, brought_in
from acl_py.compat.acl.face.turns import NO_TURN, GuestTurn, Turn, is_barred
from acl_py.errors import AclError, Kind
from acl_py.faults import Guard
from acl_py.running import build
from acl_py.runtime.blocking import BlockingBridge, take_part
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import SUCCESS as NO_ERROR
from acl_py.runtime.scopes import Barred, Scope, last_error, opened, scope_var
from acl_py.simulation import recorder_of, simulation_of
from acl_py.sites import called_function, site_of
from acl_py.trace import Trace
from acl_py.verbs.kernels import Launches
from acl_py.wording import reword
from device_model.contexts import Context
from device_model.errors import DeviceError
from device_model.memory import DEVICE_BASE, Buffer
from device_model.rules import ContextGone

SUCCESS = 0
INVALID_FILE = 100003
PARSE_FILE = 100006
PARAM_INVALID = 107000  # of the runtime
INVALID_DEVICE = 107001
CONTEXT_NULL = 107002
NOT_SUPPORTED = 207000

_IN_THE_MIDDLE = (
    "a __del__ calls it in the middle of another call, and only calls that give nothing but a code can be put off to "
    "the end of that: make this call elsewhere, such as in a close() of the object"
)
_LONGEST_KERNEL_S = {"ascend910": 1091, "ascend310p": 547}  # by family of cards


class Session(Handles):
    """A runtime with handles for its objects. The thread that holds the *turn* makes calls; see `turn_here`."""

    turn: Turn

    def __init__(self, runtime: Runtime, trace: Trace | None, options: SessionOptions) -> None:
        super().__init__(runtime)
        self.trace = trace
        self.options = options
        self.inits = 0  # init minus finalize_reference
        self.shares_messages = False  # get_recent_err_msg() returns those of all threads
        self.last_message: str | None = None  # of any thread
        self.words = "acl"  # a function that the script may call: see wording.py
        self.failures = Failures()
        self._beyond: set[tuple[str, str]] = set()  # functions and lines that go beyond the end of an object
        self.unsupported: dict[str, int] = {}  # functions that are not simulated and were called: their codes
        self.warned: dict[str, None] = {}  # other findings, each logged once
        self.notes: dict[Any, Any] = {}  # settings without an effect here, for scripts to read back
        self.of_dvpp: set[int] = set()  # the serial numbers of the memory that dvpp_malloc() gave
        self.pending: list[tuple[int, Callable[[], object]]] = []  # what calls made due: see `make_due`
        self.longest_kernel_ns = _longest_kernel_s(runtime.profile.name) * 10**9

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.runtime!r} handles={len(self.objects)}>"

    def join(self) -> None:
        """Let the calling thread make calls; it has no context yet."""
        raise NotImplementedError

    # --- calls: functions that only run a verb do so in a wrapper of their own, see binding.runs

    def turn_here(self) -> Turn:
        """Return the turn that the calling code takes before it makes a call."""
        return NO_TURN if is_barred() else self.turn

    def run(self, verb: Coroutine[Any, Any, Any]) -> Any:
        """Run *verb* to its end and return its result, for a function that `gives` it.

        Raises:
            AclError: The verb failed, or a finalizer calls in the middle of another call: it cannot have a value.
            DeadlockError: The verb would wait forever.
        """
        try:
            if self.is_in_the_middle():
                raise self.error(NOT_SUPPORTED, _IN_THE_MIDDLE)
            with self.turn_here():
                verb.send(None)
        except StopIteration as end:
            return end.value
        finally:
            verb.close()  # it is over, unless this thread may not make calls
        raise AssertionError(f"{verb!r} suspended, and its bridge is a blocking one")

    def call(self, verb: Coroutine[Any, Any, Any], answers: Collection[Kind] = ()) -> tuple[Any, int]:
        """Run *verb* to its end. Return its result and 0, or None and the code of its failure; see `run`, `failed`."""
        try:
            answer = self.run(verb), SUCCESS
        except AclError as error:
            answer = None, self.failed(error, answers)
        if self.pending:
            self.do_pending()
        return answer

    def ret(self, verb: Coroutine[Any, Any, Any]) -> int:
        """Run *verb* to its end and return its code; 0 if it was put off."""
        if self.put_off(self.ret, verb):
            return SUCCESS
        return self.call(verb)[1]

    def put_off(self, function: Callable[..., object], *args: Any) -> bool:
        """If this thread is in the middle of a call, arrange for *function* at its end, and return True.

        That is so when Python runs a script's `__del__`. It must not run in the middle: the call may have changed only
        half of what it changes. What fails then is listed as of the call that has ended.
        """
        if not self.is_in_the_middle():
            return False
        self.make_due(partial(function, *args))
        return True

    def is_in_the_middle(self) -> bool:
        """Whether a finalizer calls in the middle of a call. What a host function or a kernel calls is refused instead,
        by the verb.
        """
        scope = scope_var.get()
        calling = None if scope is None or isinstance(scope.context, Barred) else scope.context.device.calling
        return calling is None and self.turn_here()._is_owned()

    def make_due(self, function: Callable[[], object]) -> None:
        """Let *function* be called at the end of the call that this thread makes."""
        self.pending.append((threading.get_ident(), function))

    def do_pending(self) -> None:
        """Do what the last call of this thread made due; a call of a kernel or a finalizer, in the middle of another
        one, leaves it to that one.
        """
        own = threading.get_ident()
        while not is_barred() and not self.is_in_the_middle():
            due = next((each for each in list(self.pending) if each[0] == own), None)
            if due is None:
                return
            self.pending.remove(due)
            due[1]()

    def failed(self, error: AclError, answers: Collection[Kind] = ()) -> int:
        """Keep the message of *error*, list the failed call, and return the code. The last error is set already.

        An error of one of the kinds *answers* is not listed: it answers a question that scripts ask again and again.
        """
        mine.error = last_error.get()
        self._keep(str(error))
        if error.kind not in answers:
            self.failures.add_call(error.code, f"{error.name} ({error.code}): {sentence(error)}")
        return error.code

    def refuse(self, code: int, what: str = "", *, is_answer: bool = False) -> int:
        """Make *code* the thread's last error, with *what* as its message, and return it. Unless it *is_answer*, it is
        listed as a failed call.
        """
        named = named_code(code)
        last_error.set(named)
        mine.error = named
        text = f"{named.name} ({code})" + (f": {what}" if what else "")
        self._keep(text)
        if not is_answer:
            self.failures.add_call(code, text)
        return code

    def unknown(self, handle: int, kind: type) -> int:
        """Return the code of a call whose *handle* does not stand for a *kind*."""
        return self.refuse(INVALID_PARAM, self.explain(handle, kind))

    def _keep(self, text: str) -> None:
        mine.message = text
        self.last_message = text

    def take_message(self) -> str | None:
        """Return the message of this thread's last failing call, or None; each is returned once."""
        if self.shares_messages:
            text, self.last_message = self.last_message, None
        else:
            text, mine.message = mine.message, None
        return text and reword(text)

    # --- memory

    def place(self, address: int, nbytes: int, role: str) -> Buffer:
        """Return the *nbytes* at *address*: part of an allocation, or host memory, which counts as pageable.

        *role* is the caller's name for this memory. As "dst" it must be writable, and must not go beyond the end of the
        object whose address acl.util returned.

        Raises:
            AclError: There is no such memory.
        """
        if address < DEVICE_BASE:
            self.check_extent(address, nbytes, role)
        return self.runtime.memory.at(address, nbytes, role)

    def check_extent(self, address: int, nbytes: int, role: str = "src") -> None:
        """Check that *nbytes* of host memory at *address* do not go beyond the end of the object acl.util was given.

        Going beyond it is a finding.

        Raises:
            AclError: The memory is to be written (*role* is "dst").
        """
        holder = objects.holder(address)
        if holder is None or address + nbytes <= holder[2]:
            return
        known, begin, end = holder
        left = f"only {end - address} are left of the {end - begin} that {known.taker}() was given at {known.made}"
        site = site_of(_getframe(1))
        function = called_function(site)
        if (function, f"{site}") not in self._beyond:
            self._beyond.add((function, f"{site}"))
            does = "writes" if role == "dst" else "reads"
            self.warn_once(f"{function}() at {site} {does} {nbytes} bytes where {left}")
        if role == "dst":
            raise self.error(PARAM_INVALID, f"{nbytes} bytes are written where {left}; make it larger, or copy less")

    # --- what is not simulated

    def not_supported(self, name: str) -> int:
        """Return the code of a function that has no meaning on a simulated device, after `warn_unsupported`."""
        self.warn_unsupported(f"acl.{name}")
        return self.refuse(NOT_SUPPORTED, f"acl.{name}() is not simulated")

    def warn_unsupported(self, function: str, code: int = NOT_SUPPORTED) -> None:
        """Say once that *function* is not simulated and returns *code*, in the log or on the standard error."""
        if function not in self.unsupported:
            self.unsupported[function] = code
            if not log.warn("not simulated", function=function, ret=code):
                print(f"acl: {function} is not simulated: it returns {code}", file=sys.stderr)

    def warn_once(self, what: str) -> None:
        """Note once what a script does that a card would not complain about; it is logged and a finding."""
        if what not in self.warned:
            self.warned[what] = None
            log.warn(what)


class Face:
    """The session that calls of `acl` on a runtime go through."""

    __slots__ = ("session",)

    def __init__(self) -> None:
        self.session: Session | None = None


class OwnSession(Session):
    """The session of the process, in which any thread may make calls."""

    def __init__(self, options: SessionOptions) -> None:
        runtime, trace = build(options.of_simulation())
        super().__init__(runtime, trace, options)
        self.bridge = runtime.bridge = BlockingBridge(runtime)
        self.bridge.on_hang = options.on_hang
        self.bridge.after_call = self.pending
        self.turn = cast("Turn", self.bridge.lock)
        self._nowhere = _no_context(runtime) if runtime.rules.context_gone is ContextGone.NONE else None
        runtime.state(Launches).limit(self.longest_kernel_ns)
        runtime.hooks.add(WorkFailures(runtime, self.failures))
        runtime.state(Face).session = self
        self.fault_rules = [Guard(runtime, [fault]).rules[0] for fault in options.fault_rules()]

    def join(self) -> None:
        """Let the calling thread make calls. Under rules that allow it, the thread has no context yet.

        A thread that has joined before comes here when its code runs in a task of an event loop: the current context of
        the thread is then the task's too.
        """
        if mine.scope is not None and mine.scope.runtime is self.runtime:
            scope_var.set(mine.scope)
            return
        take_part(self.runtime, self._nowhere)
        mine.error, mine.message = NO_ERROR, None
        mine.scope = scope_var.get()


class GuestSession(Session):
    """A session inside a simulation of the native API, for the thread of its event loop."""

    def __init__(self, runtime: Runtime, trace: Trace | None, options: SessionOptions) -> None:
        super().__init__(runtime, trace, options)
        self.failures = guest_failures  # of work that fails the native API tells itself
        self.turn = GuestTurn(runtime, options)
        runtime.state(Face).session = self

    def join(self) -> None:
        """Do nothing: the tasks of a simulation make calls already."""


def _longest_kernel_s(card: str) -> int:
    """Return how many seconds a kernel may run by default (documented: aclrtSetOpExecuteTimeOut); 0 is no limit."""
    return next((seconds for family, seconds in _LONGEST_KERNEL_S.items() if card.startswith(family)), 0)


def _no_context(runtime: Runtime) -> Context:
    return nowhere(runtime, "call acl.rt.set_device() or acl.rt.set_context() in it first")


def nowhere(runtime: Runtime, remedy: str) -> Context:
    """Return the current context of a thread that has set no device; every use of it fails, and *remedy* says what to
    do.
    """
    device = runtime.device(0)
    context = Context(device, -1, primary=False, made=None)
    device.stream_ids.give(0)  # the script cannot use its streams
    context.destroyed = "the start of the thread"
    context.lose(
        DeviceError(
            Kind.INVALID_CONTEXT,
            "no context is current in this thread",
            remedy,
        )
    )
    return context


class _Mine(threading.local):
    """What the calling thread sees of the session of the process.

    Context variables will not do: a task has its own, and a thread may run in a copy of another thread's.
    """

    scope: Scope | None = None
    error = NO_ERROR  # of the last failing call of any task of the thread
    message: str | None = None  # its message


mine = _Mine()
options = SessionOptions(**current.asked)
guest_failures = Failures()  # in all simulations of the native API
ended: list[Session] = []  # sessions of the process that have ended, for reports
_lock = threading.RLock()  # re-entrant: a finalizer may call during `end`


def session() -> Session:
    """Return the session of the calling thread's calls; the thread joins it, unless a device calls."""
    scope = scope_var.get()
    if scope is not None and scope.runtime.takes_guests:
        here: Session | None = scope.runtime.state(Face).session
        if here is not None:
            if scope is not mine.scope and isinstance(here, OwnSession) and not is_barred():
                here.join()
            return here
        if scope.runtime.closed is None:
            return _guest(scope.runtime)
        scope_var.set(None)  # of a session that has ended
    if opened and opened[-1].runtime.takes_guests:
        return opened[-1].runtime.state(Face).session or _guest(opened[-1].runtime)
    own = own_session()
    own.join()
    return own


def prefer(device: str, rules: str) -> None:
    """Let the session of the process, if it has not begun, have this *device* and *rules* where no option says
    otherwise.
    """
    global options
    if current.own is None:
        options = replace(options, device=options.device or device, rules=options.rules or rules)


def own_session() -> OwnSession:
    """Return the session of the process; it begins with the first call outside a simulation."""
    if current.own is None:
        with _lock, _NoCollection():
            if current.own is None:
                current.own = OwnSession(options)
    return current.own


class _NoCollection:
    """Turns the garbage collector off for a while: it may run a script's `__del__`, which calls `acl`."""

    def __enter__(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_enabled:
            gc.enable()


def forget_failures() -> None:
    """Forget which calls have failed."""
    guest_failures.clear()
    if current.own is not None:
        current.own.failures.clear()


def begin_anew(chosen: SessionOptions) -> None:
    """End the session, and let the next one have the options *chosen*."""
    global options
    end()
    guest_failures.clear()
    brought_in.clear()
    objects.clear()
    options = chosen


def end() -> Session | None:
    """End the session of the process and add it to `ended`; the next call begins another session."""
    with _lock:
        over, current.own = current.own, None
    if over is None:
        return None
    with over.bridge.lock:
        over.runtime.close("the session has ended")
        over.runtime.state(Face).session = None
    ended.append(over)
    scope = scope_var.get()
    if scope is not None and scope.runtime is over.runtime:
        scope_var.set(None)
    last_error.set(NO_ERROR)
    mine.error, mine.message = NO_ERROR, None
    return over


def _guest(runtime: Runtime) -> Session:
    native = simulation_of(runtime)
    assert native is not None, f"{runtime!r} is neither a simulation's nor a session's"
    return GuestSession(runtime, recorder_of(native), options)


def handle_of(thing: Any) -> int:
    """Return the int by which functions of the module know *thing*, an object of the native API.

        stream = await acl_py.CreateStream()
        acl.rt.synchronize_stream(handle_of(stream))

    Returns:
        The address of a `Buffer`; a handle for any other object.
    """
    return thing.address if isinstance(thing, Buffer) else session().handle(thing)


def object_of(handle: int) -> Any:
    """Return the object of the native API that a script knows as *handle*.

    Args:
        handle: A handle that a function of the module returned, or the address of memory that acl.rt allocated.

    Returns:
        The object: a stream, an event, a context, ...; for an address the `Buffer` that begins there.

    Raises:
        LookupError: *handle* is neither.
    """
    here = session()
    thing = here.objects.get(handle) or here.buffers.get(handle)
    if thing is None:
        raise LookupError(f"{handle:#x} is neither a handle nor the address of memory that acl.rt allocated")
    return thing
