"""Entries: what each call of the runtime does besides its verb.

Where no context is current in the thread, a call makes the primary context of the thread's device current, and the
first such call retains it. Codes are those of the runtime, cudaError_t, and the last one of each thread is kept.

A program replaces the functions when it imports the package, and may call none. So the modules of their verbs, and of
the driver, are imported by the first call.
"""

import threading
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from acl_py.compat.cuda.driver import early
from acl_py.compat.cuda.face import codes, exports
from acl_py.compat.cuda.face.calls import Entry, Verb, not_simulated, verb_of
from acl_py.compat.cuda.face.codes import RefusedError
from acl_py.compat.cuda.face.state import Driver
from acl_py.compat.cuda.library import signatures
from acl_py.compat.cuda.library.callbacks import Answer
from acl_py.compat.cuda.runtime.table import Function, function_of
from acl_py.errors import AclError
from device_model.contexts import Context
from device_model.rules import CUDA

_V = TypeVar("_V", bound=Verb)
_STICKY = {700, 702, 710, 714, 715, 716, 717, 718, 719}  # codes that stay the last error
_NAMES = {code.value: code.name for code in CUDA.codes.values()} | {
    20: "cudaErrorInvalidChannelDescriptor",
    98: "cudaErrorInvalidDeviceFunction", 200: "cudaErrorInvalidKernelImage", 209: "cudaErrorNoKernelImageForDevice",
    218: "cudaErrorInvalidPtx", 222: "cudaErrorUnsupportedPtxVersion", 301: "cudaErrorFileNotFound",
    500: "cudaErrorSymbolNotFound",
}  # fmt: skip
_verbs: dict[str, Verb] = {}


def answers(*names: str) -> Callable[[_V], _V]:
    """Let calls of the runtime's functions *names* run the decorated coroutine."""

    def make(verb: _V) -> _V:
        _verbs.update(dict.fromkeys(names, verb))
        return verb

    return make


def answered() -> frozenset[str]:
    """Return the functions that a coroutine of the runtime answers."""
    load()
    return frozenset(_verbs)


@cache
def load() -> None:
    """Import the modules of all functions, which makes their verbs known."""
    early.load()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        import_module(f"{__package__}.{file.stem}")


class _Thread(threading.local):
    """What the runtime keeps for each thread."""

    device = 0
    last_error = codes.SUCCESS


class Kept:
    """What the runtime keeps in a simulation."""

    def __init__(self) -> None:
        self.thread = _Thread()
        self.retained: set[Context] = set()  # primary contexts
        self.flags = 0

    def take_error(self) -> int:
        """Return the last error of the thread, and forget it unless it is one that stays."""
        last = self.thread.last_error
        if last not in _STICKY:
            self.thread.last_error = codes.SUCCESS
        return last


def kept(driver: Driver) -> Kept:
    """Return what the runtime keeps in the simulation of *driver*."""
    return driver.runtime.state(Kept)


async def use_device(driver: Driver, ordinal: int) -> None:
    """Make the primary context of a device current."""
    from acl_py.compat.cuda.driver import contexts  # imported here: with the first call
    from acl_py.compat.cuda.driver.devices import device

    known, primary = kept(driver).retained, device(driver, ordinal).primary
    if primary not in known:
        await contexts.retain(driver, ordinal)
        known.add(primary)
    await contexts.set_current(driver, primary)


async def have_context(driver: Driver) -> None:
    """Make the primary context of the thread's device current, unless a context is."""
    if not driver.thread.has_context or _is_gone(driver.thread.context):
        await use_device(driver, kept(driver).thread.device)


def _is_gone(context: Context) -> bool:
    """Whether a reset has put another primary context in the place of *context*."""
    return context.primary and context is not context.device.primary


class RuntimeEntry(Entry):
    """One function of the runtime; one that is not simulated has no verb."""

    def __init__(self, function: Function, *, is_twin: bool, is_simulated: bool = True) -> None:
        super().__init__(function.signature, not_simulated, codes.SUCCESS, is_twin=is_twin)
        self._needs_context = function.needs_context
        self._same = function.same
        self._is_found = not is_simulated  # whether its verb is

    @property
    def is_direct(self) -> bool:
        """False: a call does more than its verb."""
        return False

    def refused(self, driver: Driver, error: Exception) -> int:
        """Keep the code if it is an error."""
        code = super().refused(driver, error)
        if code != codes.NOT_READY:
            kept(driver).thread.last_error = code
        return code

    async def act(self, driver: Driver, raw: tuple[Any, ...]) -> None:
        """Run the verb in a context."""
        if not exports.has("cuCtxSynchronize"):
            await early.init(driver, 0)
        if not self._is_found:
            self._find()
        if self._needs_context:
            await have_context(driver)
        await super().act(driver, raw)

    def _find(self) -> None:
        """Find the verb, once its module is imported."""
        load()
        if self._same:
            self.verb, self._question = verb_of(self._same)
        else:
            self.verb = _verbs.get(self.signature.name, not_simulated)
        self._is_found = True

    def code_of(self, error: AclError) -> int:
        """Return the runtime's code of a failed verb."""
        return CUDA.codes[error.kind].value

    def named(self, code: int) -> str:
        """Return the name of a code."""
        return _NAMES.get(code) or f"CUDA_{codes.NAMES[code]}"


class _LastError(RuntimeEntry):
    """cudaGetLastError or cudaPeekAtLastError: their code is an answer."""

    def __init__(self, function: Function, *, is_twin: bool) -> None:
        super().__init__(function, is_twin=is_twin)
        self._reads = True

    async def act(self, driver: Driver, raw: tuple[Any, ...]) -> None:  # noqa: ARG002
        """Answer with the last error of the thread."""
        here = kept(driver)
        code = here.take_error() if self.signature.name == _TAKE else here.thread.last_error
        if code != codes.SUCCESS:
            raise RefusedError(code, "the last error")

    def refused(self, _: Driver, error: Exception) -> int:
        """Return the answer."""
        assert isinstance(error, RefusedError), "nothing else is raised"
        return error.code


_TAKE, _PEEK = "cudaGetLastError", "cudaPeekAtLastError"


def answer_of(name: str, count: int, *, is_per_thread: bool) -> Answer:
    """Return what answers the function *name*. It is not simulated unless the table has it with *count* arguments."""
    function = function_of(name, count)
    if function is None:
        function = Function(signatures.signature(name, ()), False, "")
        return RuntimeEntry(function, is_twin=False, is_simulated=False).answer
    kind = _LastError if name in (_TAKE, _PEEK) else RuntimeEntry
    return kind(function, is_twin=is_per_thread and function.has_twin).answer
