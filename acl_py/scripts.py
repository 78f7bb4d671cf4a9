"""Scripts that say `import acl`, run as they are: what `acl-py run` does.

A script runs as `python script.py` would run it: as `__main__`, with its arguments and its folder on the path, with its
output and its exit code. When all of it is over, its threads and its finalizers too, a summary goes to the standard
error. A script that would hang on a card ends there and then, with exit code 3 and the reason.
"""

import atexit
import gc
import os
import runpy
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import thread as pool
from pathlib import Path
from types import FrameType, ModuleType, TracebackType
from typing import Any, NoReturn

from acl_py.compat.acl import install, processes, report
from acl_py.compat.acl.session import current_session
from acl_py.errors import DeadlockError
from acl_py.sites import Site

HUNG = 3  # the exit code of a script that would hang on a card
_INTERRUPTED = 130
_STDLIB = str(Path(os.__file__).parent) + os.sep


class ScriptError(Exception):
    """There is no such script."""


def run(script: Path, arguments: Sequence[str] = (), register: Sequence[Path] = (), **options: Any) -> int:
    """Run *script* with *arguments* in this process, which must end soon afterwards; gives its exit code. The files
    *register* are run before it: they say what models and operators compute.

    *options* are those of `acl_py.compat.acl.install`. The summary comes when the script's threads, what it registered
    with atexit and the finalizers of its globals are through: scripts free what they have in all of these.

    Raises:
        ScriptError: it cannot be read.
    """
    try:
        source = script.read_bytes()
    except OSError as error:
        raise ScriptError(f"can't open file {str(script)!r}: {error.strerror}") from error
    install(replace=True, on_hang=_hang, **options)
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
    _end()
    return code


def _end() -> None:
    """What Python does when a script is through, but for its own pools; then the summary."""
    for thread in threading.enumerate():  # a join shows whom the main thread waits for: see threads.py
        if not (thread is threading.current_thread() or thread.daemon or thread in pool._threads_queues):
            thread.join()
    atexit._run_exitfuncs()
    del sys.modules["__main__"]
    gc.collect()
    _summarize()


def _execute(source: bytes, name: str) -> int:
    """Run the *source* as `__main__`: the exit code."""
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
    except BaseException as error:
        _show(error, name)
        return 1
    return 0


def _code_of(end: SystemExit) -> int:
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code
    print(end.code, file=sys.stderr)
    return 1


def _show(error: BaseException, file: str) -> None:
    """The traceback as Python shows it: from the first frame in *file*, without those that are ours."""
    inside: TracebackType | None = error.__traceback__
    while inside is not None and inside.tb_frame.f_code.co_filename != file:
        inside = inside.tb_next
    error = error.with_traceback(inside)
    sys.excepthook(type(error), error, inside)
    traceback.clear_frames(inside)


# --- what is told


def _summarize() -> None:
    session = current_session()
    if session is not None:
        print(f"acl-py: {report.report(session)}", file=sys.stderr)


_telling = threading.Lock()  # one of the threads that hang tells, for all


def _hang(error: DeadlockError) -> NoReturn:
    """End the process: on a card it would stand still now."""
    _telling.acquire()
    lines = [f"acl-py: on a card this would hang\n{error}", *getattr(error, "__notes__", ())]
    lines += ["where the threads of the script are:", *(f"  {line}" for line in _whereabouts())]
    print("\n".join(lines), file=sys.stderr)
    _summarize()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(HUNG)


def _whereabouts() -> Iterator[str]:
    """Where in the script each of its threads is; the main one may be through."""
    frames = sys._current_frames()
    for thread in threading.enumerate():
        is_main = thread is threading.main_thread()
        frame = frames.get(thread.ident or 0)
        while frame is not None and not _is_scripts(frame) and frame.f_code is not run.__code__:
            frame = frame.f_back
        if frame is None:
            continue
        if frame.f_code is run.__code__:
            where = "through with the script, it waits for the others"
        else:
            where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}, in {frame.f_code.co_qualname}"
        yield f"{'the main thread' if is_main else f'thread {thread.name}'}: {where}"


def _is_scripts(frame: FrameType) -> bool:
    return not (Site(frame.f_code, frame.f_lasti).foreign or frame.f_code.co_filename.startswith(_STDLIB))
