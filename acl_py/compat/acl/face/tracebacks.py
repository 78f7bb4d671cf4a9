"""Tracebacks as scripts expect them: without the frames of this project, which stands for the vendor's binding.

A binding in C has no frames. So the frames between two of the script's are left out, and an error that the binding
raises on purpose ends at the call of the script. The error of a script that cannot be compiled has no frame. Any other
error that begins in this project is a mistake in it: its traceback stays whole from the script's first frame on.
"""

import dis
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import device_model
from acl_py.sites import PACKAGE
from device_model.compiled import SOURCES

_RAISE = dis.opmap["RAISE_VARARGS"]
# runpy and importlib run modules for us.
_OWN = (PACKAGE, str(Path(device_model.__file__).parent) + os.sep, "<frozen ", SOURCES)


def hide_own_frames(error: BaseException) -> None:
    """Take our own frames out of the traceback of *error*, and of the errors that led to it or are in its group."""
    for each in _with_others(error, set()):
        frames = list(_frames(each.__traceback__))
        if frames and _is_own(frames[-1]) and not _is_on_purpose(each, frames[-1]):
            each.__traceback__ = next((frame for frame in frames if not _is_own(frame)), frames[0])
            continue
        following = None
        for frame in reversed(frames):
            if not _is_own(frame):
                frame.tb_next = following
                following = frame
        each.__traceback__ = following


def traceback_text(error: BaseException) -> str:
    """Return the traceback of *error* as Python prints it, without our own frames and without the last line break."""
    hide_own_frames(error)
    return "".join(traceback.format_exception(error)).rstrip()


def _with_others(error: BaseException | None, seen: set[int]) -> Iterator[BaseException]:
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    yield error
    others = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    for each in (error.__cause__, error.__context__, *others):
        yield from _with_others(each, seen)


def _frames(frame: TracebackType | None) -> Iterator[TracebackType]:
    while frame is not None:
        yield frame
        frame = frame.tb_next


def _is_own(frame: TracebackType) -> bool:
    return frame.tb_frame.f_code.co_filename.startswith(_OWN)


def _is_on_purpose(error: BaseException, frame: TracebackType) -> bool:
    """Whether a `raise` in *frame* raised *error*; `assert` has the same instruction. A SyntaxError is the script's.

    Compiled functions have no instructions to look at: there all but an AssertionError count as raised.
    """
    if isinstance(error, SyntaxError):
        return True
    if frame.tb_frame.f_code.co_filename.startswith(SOURCES):
        return not isinstance(error, AssertionError)
    return frame.tb_frame.f_code.co_code[frame.tb_lasti] == _RAISE and not isinstance(error, AssertionError)


def hide_own_frames_of_uncaught_errors() -> None:
    """From now on print what threads, and the process itself, do not catch without our own frames."""
    print_uncaught, print_in_thread = sys.excepthook, threading.excepthook

    def uncaught(kind: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
        hide_own_frames(error)
        print_uncaught(kind, error, error.__traceback__)

    def in_thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None:
            hide_own_frames(args.exc_value)
            args = threading.ExceptHookArgs((args.exc_type, args.exc_value, args.exc_value.__traceback__, args.thread))
        print_in_thread(args)

    sys.excepthook, threading.excepthook = uncaught, in_thread
