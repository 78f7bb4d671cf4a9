"""Call sites: the line of the user's program that made a call.

Every call takes one, so that is cheap; a site becomes a text only when a report needs it.

A verb takes the frame that awaits it. If that frame is not the user's (since Python 3.12 asyncio.wait_for awaits in its
own frame), the site is the nearest frame outside asyncio, anyio and this package. If the task has no frame of the
user's (gather and create_task make a task of the verb itself), the site is the line that made the task. A task factory
notes this line for every task whose coroutine is not the user's own. A call of a script may have no line either: a
finalizer at its end makes it, or a thread of C. Its site says so.
"""

import os
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from inspect import CO_COROUTINE
from pathlib import Path
from types import CodeType, CoroutineType, FrameType
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

import device_model
from acl_py.late_imports import imported

if TYPE_CHECKING:
    import asyncio

# The folder of acl_py: the one constant from which paths in the package and to its files are made.
PACKAGE = str(Path(__file__).parent) + os.sep
MODEL = str(Path(device_model.__file__).parent) + os.sep
NO_LINE = "no line of the script"  # where a finalizer or a thread of C calls a function of acl or of the driver
RUNNER = f"{PACKAGE}tools{os.sep}scripts.py"  # of scripts: the frames that called it are not those of a script
_WRAPPER = ".py: "  # in the file name of the wrapper of a function of acl, before the function's name: see binding.py
_DEMOS = f"{PACKAGE}tools{os.sep}demo"  # programs like a user's, though they come with the package
_TESTS = f"{os.sep}tests{os.sep}"  # in a library: programs like a user's
_LIBRARIES = (
    "asyncio", "concurrent.futures", "contextlib", "anyio", "uvloop", "pytest_asyncio", "numpy", "cuda", "numba",
    "numba_cuda", "numba_cuda_mlir",
)  # fmt: skip

_Coroutine: TypeAlias = "CoroutineType[Any, Any, Any]"  # no subscript at run time before Python 3.13


@cache
def _foreign() -> tuple[str, ...]:
    """Return the beginnings of paths of code that is never the user's."""
    specs = (find_spec(name) for name in _LIBRARIES)
    places = (place for spec in specs if spec is not None for place in _places(spec))
    return (PACKAGE, "<frozen", *places)


def _places(spec: ModuleSpec) -> Iterator[str]:
    """Yield the folders of a package, which may be several, or the file of a module."""
    if spec.submodule_search_locations is not None:
        yield from (f"{folder}{os.sep}" for folder in spec.submodule_search_locations)
    elif spec.origin is not None:
        yield spec.origin


@cache
def _is_foreign(file: str) -> bool:
    start = next((each for each in _foreign() if file.startswith(each)), None)
    return start is not None and not file.startswith(_DEMOS) and _TESTS not in file[len(start) - 1 :]


def is_foreign(code: CodeType) -> bool:
    """Whether *code* belongs to asyncio, anyio or this package, so that no call site lies in it."""
    return _is_foreign(code.co_filename)


@lru_cache(maxsize=4096)
def _last_part(file: str) -> str:
    return Path(file).name


class Site:
    """One place in the code; str() gives "file.py:12". The same place is always the same object.

    A place that calls functions of the module acl is a site for each of them: *function* has its name, as
    "acl.rt.free". It is "" for a place that awaits verbs.
    """

    __slots__ = ("_text", "code", "foreign", "function", "lasti")

    def __init__(self, code: CodeType, lasti: int, function: str = "") -> None:
        self.code = code
        self.lasti = lasti
        self.function = function
        self.foreign = is_foreign(code)
        self._text = ""  # made when it is first asked for: a finding names each of its lines several times

    @property
    def file(self) -> str:
        """The path of the file, as its code object has it; "no line of the script" if the call has none."""
        return NO_LINE if _function_of(self.code) else self.code.co_filename

    @property
    def line(self) -> int:
        """The number of the line in the file; 0 if the call has none."""
        if _function_of(self.code):
            return 0
        for start, stop, line in self.code.co_lines():
            if start <= self.lasti < stop and line is not None:
                return line
        return self.code.co_firstlineno

    def __str__(self) -> str:
        self._text = self._text or (self.file if _function_of(self.code) else f"{_last_part(self.file)}:{self.line}")
        return self._text

    def __repr__(self) -> str:
        return f"<Site {self}>"


class _Wrapper(dict[int, Any]):
    """The sites that call one function of the module acl, by the id of their code object, and by the instruction in it.

    *code* is that of the function's wrapper, which is the frame above such a site.
    """

    def __init__(self, code: CodeType) -> None:
        super().__init__()
        self.code = code  # alive, so that its id stays its own
        self.function = _function_of(code)


# Sites by the id of their code object and by the instruction in it. The id is the key because to hash a code object
# reads all of it; a site keeps its code object alive, so that the id stays its own.
_sites: dict[int, dict[int, Site]] = {}
# The sites in the user's code, by the same keys; those behind a wrapper; _FOREIGN for other code of this package or of
# a library, whose caller counts.
known: dict[int, dict[Any, Site]] = {}
_NOWHERE: dict[Any, Site] = {}
_FOREIGN: dict[Any, Site] = {}  # stays empty
_made: WeakKeyDictionary["_Coroutine", Site] = WeakKeyDictionary()  # where the task of a coroutine was made
# What a task runs, if its own coroutine runs that in a greenlet (acl_py/waiting/own_hosts.py).
hosted: WeakKeyDictionary["asyncio.Task[Any]", "_Coroutine"] = WeakKeyDictionary()


def coroutine_of(task: "asyncio.Task[Any]") -> object:
    """Return the coroutine whose frames show where *task* is."""
    return hosted.get(task) or task.get_coro()


def site_of(frame: FrameType) -> Site:
    """Return the site of *frame*, or the nearest one in the user's code if *frame* is not the user's."""
    # This is the hot path: most frames are the user's, and have called from this place before.
    return known.get(id(frame.f_code), _NOWHERE).get(frame.f_lasti) or _find(frame)


def _find(frame: FrameType) -> Site:
    inside: FrameType | None = frame
    while inside is not None:
        places = known.get(id(inside.f_code), _NOWHERE)
        if places is not _FOREIGN:
            site = places.get(inside.f_lasti)
            if site is not None:
                return site
            if (caller := inside.f_back) is not None:  # of a wrapper: no other code has an id as a key
                wrapped: dict[int, Any] = places
                behind: dict[int, Site] = wrapped.get(id(caller.f_code), _NOWHERE)
                site = behind.get(caller.f_lasti)
                if site is not None:
                    return site
            break
        inside = inside.f_back  # frames of the blocking calls, or of asyncio.wait_for
    return _nearest(frame) or _at(frame)


def _nearest(frame: FrameType) -> Site | None:
    """Return the site in the user's code that is nearest to *frame*.

    Frames of the running task come first, then the line that made the task, then the frames that run the loop. None if
    no frame is the user's and none is that of a wrapper. If a wrapper of a function of the module acl lies between, the
    site has the outermost one.
    """
    coroutine = _running()
    first = None if coroutine is None else coroutine.cr_frame
    edge = None if first is None else first.f_back  # from here on the frames belong to the loop or its caller
    in_task = True
    wrapper: FrameType | None = None
    inside: FrameType | None = frame
    while inside is not None:
        if coroutine is not None and inside is edge:
            if coroutine in _made:
                return _made[coroutine]
            in_task = False
        code = inside.f_code
        if code.co_filename == RUNNER:
            break
        if not is_foreign(code):
            if wrapper is not None:
                return _behind(wrapper.f_code, inside)
            site = _at(inside)
            if in_task:
                known[id(code)] = _sites[id(code)]
            return site
        if _function_of(code):
            wrapper = inside
        elif in_task and (code.co_flags & CO_COROUTINE or code.co_filename.startswith(PACKAGE)):
            _at(inside)  # keeps its code alive
            known[id(code)] = _FOREIGN
        inside = inside.f_back
    return None if wrapper is None else _behind(wrapper.f_code, wrapper)


def _behind(code: CodeType, frame: FrameType) -> Site:
    """Return the site of *frame* as the caller of the wrapper that has *code*."""
    wrapper = known.get(id(code))
    if not isinstance(wrapper, _Wrapper):
        wrapper = known[id(code)] = _Wrapper(code)
    places = wrapper.setdefault(id(frame.f_code), {})
    if frame.f_lasti not in places:
        places[frame.f_lasti] = Site(frame.f_code, frame.f_lasti, wrapper.function)
    site: Site = places[frame.f_lasti]
    return site


def _function_of(code: CodeType) -> str:
    """Return the function of the module acl whose wrapper has *code*; "" if it is no wrapper."""
    return code.co_filename.rpartition(_WRAPPER)[2] if _WRAPPER in code.co_filename and _is_own(code) else ""


def _is_own(code: CodeType) -> bool:
    return code.co_filename.startswith(PACKAGE)


def _running() -> "_Coroutine | None":
    """Return the coroutine of the running task; None without a task, or if its coroutine shows no frame."""
    asyncio = imported("asyncio")
    try:
        task = None if asyncio is None else asyncio.current_task()
    except RuntimeError:
        return None  # no loop: a blocking call
    coroutine = None if task is None else coroutine_of(task)
    return coroutine if isinstance(coroutine, CoroutineType) else None


def _at(frame: FrameType) -> Site:
    places = _sites.setdefault(id(frame.f_code), {})
    site = places.get(frame.f_lasti)
    if site is None:
        site = places[frame.f_lasti] = Site(frame.f_code, frame.f_lasti)
    return site


def site_of_task(task: "asyncio.Task[Any]") -> Site | None:
    """Return the line that made *task*, if its coroutine is not the user's own; else None."""
    coroutine = coroutine_of(task)
    return _made.get(coroutine) if isinstance(coroutine, CoroutineType) else None


def path_to(site: object) -> tuple[str, ...]:
    """Return the lines by which the running code came to *site*, the outermost first, as "file.py:12 in main".

    They are lines of the running task; of the thread, if *site* is in no task. Lines of Python, of installed packages
    and of this one are left out. A function that the device calls has no line before it. () if nothing led to *site*,
    or if the running code is elsewhere.
    """
    if not isinstance(site, Site):
        return ()
    coroutine = _running()
    first = None if coroutine is None else coroutine.cr_frame
    edge = None if first is None else first.f_back
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (frame.f_code is not site.code or frame.f_lasti != site.lasti):
        frame = frame.f_back
    lines = []
    while frame is not None and frame.f_back is not edge:
        frame = frame.f_back
        if frame is None or frame.f_code.co_filename == RUNNER or frame.f_code.co_filename.startswith(MODEL):
            break
        if not is_installed(frame.f_code.co_filename):
            name = frame.f_code.co_qualname.rpartition("<locals>.")[2]
            lines.append(f"{_at(frame)} in {name}")
    return tuple(reversed(lines))


def is_in_model(site: object) -> bool:
    """Whether *site* is a line of the device model: it has called a function that is not the user's."""
    return isinstance(site, Site) and site.file.startswith(MODEL)


@cache
def is_installed(file: str) -> bool:
    """Whether *file* belongs to Python or to a package, so that it tells a user nothing about the way to a line."""
    if file.startswith(_DEMOS):
        return False
    places = "stdlib", "platstdlib", "purelib", "platlib", "scripts"
    folders = (f"{sysconfig.get_path(name)}{os.sep}" for name in places)
    return _is_foreign(file) or os.path.abspath(file).startswith(tuple(folders))  # "../env/bin/acl-py" is installed


def note_tasks(loop: "asyncio.AbstractEventLoop") -> None:
    """From now on note, for each task of *loop* that is nothing but a verb, the line that made it."""
    previous = loop.get_task_factory()
    if isinstance(previous, _Factory):
        previous.users += 1
    else:
        loop.set_task_factory(_Factory(previous))


def called_function(site: object, otherwise: str = "acl") -> str:
    """Return the function of the module acl that the program called at *site*, as "acl.rt.free"; *otherwise*, if it
    called none, as it awaits a verb.
    """
    return (site.function if isinstance(site, Site) else "") or otherwise


# The class of the tasks that some event loops make.
task_types: WeakKeyDictionary["asyncio.AbstractEventLoop", type["asyncio.Task[Any]"]] = WeakKeyDictionary()


class _Factory:
    """A task factory that notes the line that makes a task, and lets *previous* make it. Simulations share one."""

    def __init__(self, previous: Any) -> None:
        self.previous = previous
        self.users = 1

    def __call__(self, loop: "asyncio.AbstractEventLoop", coro: Any, **options: Any) -> Any:
        note_task(coro)  # before the task is made: an eager one begins at once
        return make_task(self.previous, loop, coro, options)


def note_task(coro: Any) -> None:
    """Note the line that makes a task, if *coro* is not the user's own."""
    if isinstance(coro, CoroutineType) and is_foreign(coro.cr_code):
        site = _nearest(sys._getframe(1))
        if site is not None:
            _made[coro] = site


def make_task(factory: Any, loop: "asyncio.AbstractEventLoop", coro: Any, options: dict[str, Any]) -> Any:
    """Return a task that *factory* makes, or Python where that is None."""
    if factory is None:
        return (task_types.get(loop) or imported("asyncio").Task)(coro, loop=loop, **options)
    return factory(loop, coro, **options)


def forget_tasks(loop: "asyncio.AbstractEventLoop") -> None:
    """Give *loop* back its earlier task factory, unless the program has set another one."""
    factory: object = loop.get_task_factory()
    if isinstance(factory, _Factory):
        factory.users -= 1
        if not factory.users:
            loop.set_task_factory(factory.previous)
