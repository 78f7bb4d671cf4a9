"""`acl-py run`: run scripts that say `import acl`, unmodified.

A script runs as `python script.py` would run it: as `__main__`, with its arguments, its folder on the path, its output
and its exit code. When the script has ended, with its threads and its finalizers, a summary goes to standard error. A
script that would hang on a card ends at that call, with exit code 3 and the reason.

The exit code is the script's own. If that is 0, calls failed and the run is *strict*, it is 4.
"""

import atexit
import gc
import runpy
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import thread as pool
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from acl_py.compat.acl import hanging, install, processes
from acl_py.compat.acl.face import binding
from acl_py.errors import DeadlockError

_INTERRUPTED = 130
_CALLS_FAILED = 4


class ScriptError(Exception):
    """The script cannot be read."""


def run(
    script: Path,
    arguments: Sequence[str] = (),
    register: Sequence[Path] = (),
    *,
    strict: bool = False,
    **options: Any,
) -> int:
    """Run *script* with *arguments* in this process, which must end soon afterwards, and return its exit code.

    The *register* files run first: they register the functions of models and operators. *options* are those of
    `acl_py.compat.acl.install`. A *strict* run returns 4 instead of 0 if the summary lists failed calls. The summary
    comes after the script's threads, its atexit functions and the finalizers of its globals, because scripts free
    memory in all of these.

    Raises:
        ScriptError: the script cannot be read.
    """
    try:
        source = script.read_bytes()
    except OSError as error:
        raise ScriptError(f"can't open file {str(script)!r}: {error.strerror}") from error
    install(replace=True, on_hang=hanging.end_process, **options)
    processes.hand_on(register, options)
    for file in register:
        try:
            runpy.run_path(str(file))
        except Exception as error:
            _show(error, str(file))
            return 1
    sys.argv = [str(script), *arguments]
    if not sys.flags.safe_path:
        sys.path[0] = str(script.resolve().parent)
    code = _execute(source, str(script))
    failed = _end()
    return code or (_CALLS_FAILED if strict and failed else 0)


def _end() -> int:
    """Do what Python does at the end of a script, except for the threads of its pools. Then print the summary.

    Returns:
        The number of calls that failed.
    """
    for thread in threading.enumerate():  # join() shows which thread is awaited: see threads.py
        if not (thread is threading.current_thread() or thread.daemon or thread in pool._threads_queues):
            thread.join()
    atexit._run_exitfuncs()
    del sys.modules["__main__"]
    gc.collect()
    return hanging.summarize()


def _execute(source: bytes, name: str) -> int:
    """Run *source* as `__main__`, and return its exit code."""
    main = ModuleType("__main__")
    main.__file__ = name
    vars(main).update(__builtins__=__builtins__, __cached__=None, __annotations__={})
    sys.modules["__main__"] = main
    try:
        exec(compile(source, name, "exec", dont_inherit=True), vars(main))
    except SystemExit as end:
        return _code_of(end)
    except KeyboardInterrupt as error:
        _show(error, name)
        return _INTERRUPTED
    except DeadlockError as error:  # raised in a worker of a pool
        hanging.show(error)
        return hanging.HUNG
    except BaseException as error:
        _show(error, name)
        return 1
    return 0


def _entries(entry: TracebackType | None) -> Iterator[TracebackType]:
    while entry is not None:
        yield entry
        entry = entry.tb_next


def _is_binding(entry: TracebackType) -> bool:
    return entry.tb_frame.f_code.co_filename.startswith(binding.__file__)


def _code_of(end: SystemExit) -> int:
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code
    print(end.code, file=sys.stderr)
    return 1


def _show(error: BaseException, file: str) -> None:
    """Print the traceback as Python would: from the first frame in *file*, without our own frames.

    If a function of the module `acl` refuses its arguments, the traceback ends at the call.
    """
    inside: TracebackType | None = error.__traceback__
    while inside is not None and inside.tb_frame.f_code.co_filename != file:
        inside = inside.tb_next
    entries = list(_entries(inside))
    if entries and entries[-1].tb_frame.f_code.co_filename == binding.__file__:
        call = next(each for each in entries if each.tb_next is None or _is_binding(each.tb_next))
        call.tb_next = None
    error = error.with_traceback(inside)
    sys.excepthook(type(error), error, inside)
    traceback.clear_frames(inside)
