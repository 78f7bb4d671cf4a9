"""Scripts that would hang on a card: the process ends at once, with exit code 3, and prints the reason."""

import builtins
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

from acl_py.compat.acl.face import current
from acl_py.compat.acl.face.current import current_session
from acl_py.errors import DeadlockError, full_text
from acl_py.late_imports import import_late, imported
from acl_py.sanitizer import watch
from acl_py.sites import RUNNER, Site
from acl_py.waiting.frames import current_frames

if TYPE_CHECKING:
    from acl_py.trace.rows.timeline import Timeline

# What makes something of the recordings of a run's simulations; False if it could not write a file that was asked for.
View = Callable[[Sequence["Timeline"]], bool]


class Summary(NamedTuple):
    """What a summary has told: how many calls and operations failed, and whether all files were written."""

    failed: int
    is_written: bool


HUNG = 3
_WORDING = "acl_py.wording"  # imported where there is something to say, as the module of callers
_STDLIB = str(Path(os.__file__).parent) + os.sep
_EXECUTORS_WORKER = "concurrent.futures.process", "_process_worker"
views: list[View] = []  # of this run; they follow its summary
recording: list[watch.Watch] = []  # the watch that keeps the recordings of this run, if the views need them
_ending = threading.Lock()  # never released: several threads may hang, and one ends the process


def end_process(error: DeadlockError) -> None:
    """End the process, which would stand still on a card, and print *error* and the summary.

    A worker of a pool does not end: its parent would wait for the result forever, or learn only that the worker is
    gone. There the waiting call raises *error*, and the pool hands it to the parent. A session of a person at a prompt
    or in a notebook does not end either.
    """
    if _is_pool_worker() or hasattr(sys, "ps1") or hasattr(builtins, "__IPYTHON__"):
        return
    _ending.acquire()
    show(error)
    note_end(full_text(error))
    summarize()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(HUNG)


def note_end(text: str) -> None:
    """Note in the trace of the process's session, if it has one, with what error the script ends.

    The summary and the sanitizer list no leaks then.
    """
    session = current_session()
    if session is None:
        return
    if session.trace is not None:
        session.trace.error = import_late(_WORDING).reword(text, session.words)
    if session.runtime.sanitizer is not None:
        session.runtime.sanitizer.end_with_error()


def _is_pool_worker() -> bool:
    """Return whether this process belongs to a multiprocessing.Pool or a ProcessPoolExecutor."""
    frame = current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) == _EXECUTORS_WORKER:
            return True
        frame = frame.f_back
    processes = sys.modules.get("multiprocessing.process")  # a worker of a pool has it
    return processes is not None and "PoolWorker" in processes.current_process().name


def show(error: DeadlockError) -> None:
    """Print what hangs, and where each thread of the script is, to the standard error."""
    lines = [f"acl-py: on a card this would hang\n{error}", *getattr(error, "__notes__", ())]
    lines += ["where the threads of the script are:", *(f"  {line}" for line in _whereabouts(error))]
    session = current_session()
    text = import_late(_WORDING).reword("\n".join(lines), "acl" if session is None else session.words)
    print(text, file=sys.stderr)


def summarize() -> Summary:
    """Print the summary of the process's session, if it has one, and the calls that failed inside simulations of the
    native API. Then make the views; a process that the script started makes none.
    """
    with suppress(OSError, ValueError):  # a closed output: Python reports it itself when it ends
        print(end="", flush=True)  # what the script printed comes first, also where both outputs go into one file
    session = current_session()
    if session is not None:
        report = import_late("acl_py.compat.acl.report")  # late: a script that makes no call needs none of it
        print(f"acl-py: {report.report(session)}", file=sys.stderr)
    guest_failures = getattr(imported("acl_py.compat.acl.face.session"), "guest_failures", ())
    if guest_failures:
        print("\n".join(["acl-py: inside simulations of the native API", *guest_failures.lines()]), file=sys.stderr)
    written = []
    if not current.are_failures_told_at_once:
        timelines = list(_timelines())
        written = [view(timelines) for view in views]
    failed = len(guest_failures) + (0 if session is None else len(session.failures))
    return Summary(failed, all(written))


def _timelines() -> "Iterator[Timeline]":
    """Yield the recordings of the simulations that did something, in the order of their beginnings. Views may run
    programs, whose simulations are not the script's.
    """
    while recording:
        ended = recording.pop()
        watch.end(ended)
        for trace in ended.traces or ():
            timeline = trace.timeline()
            if timeline.ops or timeline.calls or timeline.error:
                yield timeline


def _whereabouts(error: DeadlockError) -> Iterator[str]:
    """Yield where in the script each of its threads is; the main thread may have finished, or have raised *error*."""
    frames = current_frames()
    raised = [(frame, line) for frame, line in walk_tb(error.__traceback__) if _is_scripts(frame)]
    for thread in threading.enumerate():
        is_main = thread is threading.main_thread()
        frame = frames.get(thread.ident or 0)
        while frame is not None and not _is_scripts(frame):
            frame = None if frame.f_code.co_filename == RUNNER else frame.f_back
        if frame is not None:
            where = _place(frame, frame.f_lineno)
        elif is_main:
            where = _place(*raised[-1]) if raised else "has finished the script and waits for the other threads"
        else:
            continue
        name = "the main thread" if is_main else import_late("acl_py.callers").described(thread)
        yield f"{name}: {where}"


def _place(frame: FrameType, line: int) -> str:
    return f"{Path(frame.f_code.co_filename).name}:{line}, in {frame.f_code.co_qualname}"


def _is_scripts(frame: FrameType) -> bool:
    return not (Site(frame.f_code, frame.f_lasti).foreign or frame.f_code.co_filename.startswith(_STDLIB))
