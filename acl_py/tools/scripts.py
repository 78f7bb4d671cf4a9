"""`acl-py run`: run scripts that say `import acl`, or that use CUDA, unmodified.

A script runs as `python script.py` would run it: as `__main__`, with its arguments, its folder on the path, its output
and its exit code. So do a module (`python -m`) and the text of a program (`python -c`, or on standard input). When the
script has ended, with its threads and its finalizers, a summary goes to standard error. A script that would hang on a
card ends at that call, with exit code 3 and the reason. SIGTERM ends it with the summary, unless the script handles
this signal itself.

The exit code is the script's own. If that is 0, it is 4 if the run is *strict* and calls failed or the sanitizer found
something, or if the run is *sanitized*, with a full report, and the sanitizer found something. It is 5 if a file that
was asked for could not be written; this comes before 4.
"""

import ast
import atexit
import os
import re
import runpy
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from enum import Enum
from functools import partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from acl_py.compat.acl import hanging, processes
from acl_py.compat.acl.face.current import current_session
from acl_py.compat.acl.face.modules import install_at_import
from acl_py.compat.acl.face.tracebacks import hide_own_frames, hide_own_frames_of_uncaught_errors
from acl_py.compat.acl.hanging import View
from acl_py.compat.cuda import standing, switching
from acl_py.errors import DeadlockError, full_text
from acl_py.late_imports import imported
from acl_py.sites import PACKAGE
from acl_py.tools.own_modules import compile_on_simulated_clock, import_on_simulated_clock, reads_clock

if TYPE_CHECKING:
    from acl_py.sanitizer.watch import Watch
    from acl_py.tools.own_simulations import OwnSimulations
    from acl_py.tools.sanitizing import Sanitized
    from acl_py.trace.rows.timeline import Timeline

_INTERRUPTED = 130
_FAILED = 4  # calls failed, or there are findings
_UNWRITTEN = 5  # a file that was asked for could not be written
_PACKAGES = {  # that bring a module which a script for CUDA imports
    "cuda": "'acl-py[cuda]'",
    "numba": "'acl-py[cuda]' numba-cuda",
}
_OF_CARDS = ("cupy", "torch_npu")  # modules that nothing here stands for


class ScriptError(Exception):
    """The script cannot be read."""


class Form(Enum):
    """How a program is given; the values are Python's options."""

    FILE = ""  # a path; "-" is standard input
    MODULE = "-m"  # the name of a module
    TEXT = "-c"  # the program itself


# What Python says when it throws such a coroutine away, with the line that made it.
_NEVER_AWAITED = re.compile(r"coroutine '(\w+)' was never awaited")
_MADE_AT = re.compile(r'^ +File "(.+)", line (\d+)', re.MULTILINE)
_OWN_FRAME = re.compile(rf'^ +File "{re.escape(PACKAGE)}.*\n(?: {{4}}.*\n)?', re.MULTILINE)
# The options of `acl-py run`, which are missed if they stand behind the script. The command line is above this module,
# and takes long to load; a test compares them with its own.
OPTIONS = frozenset(
    ("--clock", "--device", "--devices", "--effects", "--explain", "--fault", "--findings", "--findings-format",
     "--fix", "--format", "--hang-after", "--host-time", "--instructions", "--log", "--models", "--no-sanitize",
     "--overlay", "--register", "--report", "--rules", "--sanitize", "--strict", "--trace", "--what-if", "--workers")
)  # fmt: skip
# How a script reads its arguments.
_READS_ARGUMENTS = re.compile(r"argv|argparse|optparse|getopt|click|typer|docopt|fire|absl")
_ORIGIN_DEPTH = 2  # frames that Python notes: `kernel[...](...)` makes the coroutine in a method of the kernel


class Clock(Enum):
    """What `time` means in a script's own modules."""

    REAL = "real"
    SIMULATED = "simulated"


class Main(NamedTuple):
    """A program that can run as `__main__`: *execute* gets the module."""

    name: str  # sys.argv[0]
    folder: str  # the first place where modules are looked for
    source: bytes | str | None  # None for a module
    execute: Callable[[ModuleType], object]


_Compiler = Callable[[bytes | str, str], CodeType]  # of a text and the name of its file


def run(
    program: str,
    arguments: Sequence[str] = (),
    register: Sequence[Path] = (),
    views: Iterable[View] = (),
    *,
    form: Form = Form.FILE,
    strict: bool = False,
    sanitized: "Sanitized | None" = None,
    watch: "Watch | None" = None,
    own: "OwnSimulations | None" = None,
    clock: Clock = Clock.REAL,
    check: Callable[[ModuleType], object] | None = None,
    is_simulated: bool = True,
    **options: Any,
) -> int:
    """Run *program* with *arguments* in this process, which must end soon afterwards, and return its exit code.

    The *register* files run first: they register the functions of models and operators. Each of the *views* gets the
    recordings that *watch* has kept, after the summary, however the run ends, unless a signal kills it. The watch ends
    before. *own* prints the summary of a program of verbs. *options* are those of `acl_py.compat.acl.install`. With a
    simulated *clock* the script's own modules have another `time` (own_modules.py); in processes that the script starts
    again, `time` is Python's. A *strict* run returns 4 instead of 0 if the summary lists failed calls or findings. So
    does a *sanitized* one, if its report is not brief and there are findings; they come before the views. Before both,
    it is 5 instead of 0 if a view could not write its file. *check* is called with the script's module when the script
    has ended well; if it raises, the script has failed. Unless it *is_simulated*, the driver of CUDA is the one that
    this machine has, for programs of verbs on a card. The summary comes after the script's threads, its atexit
    functions and the finalizers of its globals, because scripts free memory in all of these.

    Raises:
        ScriptError: the script cannot be read, or *check* raised it.
    """
    main = _main(program, form, compile_on_simulated_clock if clock is Clock.SIMULATED else _compile)
    if not os.environ.get("ACL_PY_DEVICE", "").startswith("npu:"):  # there `acl` is the vendor's
        install_at_import(on_hang=hanging.end_process, **options)
    driver = switching.driver_of_script() if is_simulated else nullcontext()
    with driver, standing.watching(), _told_of_unawaited() as unawaited:
        hanging.views[:] = [*_first_views(main, arguments, clock, own, sanitized), *views]
        hanging.recording[:] = [] if watch is None else [watch]
        if is_simulated:
            processes.hand_on(register, options)
        hide_own_frames_of_uncaught_errors()
        _take_sigterm()
        for file in register:
            try:
                runpy.run_path(str(file))
            except Exception as error:
                _show(error)
                return 1
        sys.argv = [main.name, *arguments]
        if not sys.flags.safe_path:
            sys.path[0] = main.folder
        if clock is Clock.SIMULATED:
            import_on_simulated_clock(main.folder)
        module = ModuleType("__main__")
        code = _execute(main.execute, module)
        if check is not None and not code:
            code = _execute(check, module)
        del module
        failed, is_written = _end()
        failed += len(unawaited)
        if not code and check is None and own is not None and not own.has_begun:
            _tell_uncalled(main)
        if code or not is_written:
            return code or _UNWRITTEN
        found = (
            sanitized is not None and (strict or not sanitized.is_brief) and (sanitized.report().findings or unawaited)
        )
        return _FAILED if found or (strict and failed) else 0


def _first_views(
    main: Main, arguments: Sequence[str], clock: Clock, own: "OwnSimulations | None", sanitized: "Sanitized | None"
) -> Iterator[View]:
    """Yield what comes before the views that the command line asks for."""
    if clock is Clock.REAL:
        yield partial(_tell_clock, main)
    if own is not None:
        yield partial(_tell_misplaced, main, arguments)
        yield own.show
    if sanitized is not None:
        yield partial(_show_findings, sanitized)


@contextmanager
def _told_of_unawaited() -> Iterator[list[str]]:
    """Print a line for each verb called without `await`, in place of Python's warning; yield what was printed."""
    told: list[str] = []
    show, depth = warnings.showwarning, sys.get_coroutine_origin_tracking_depth()

    def tell(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        from acl_py.calls.table import all_verbs  # imported here: few programs forget an `await`

        text = _OWN_FRAME.sub("", str(message))
        found = _NEVER_AWAITED.match(text) if category is RuntimeWarning else None
        if found is None or found[1] not in all_verbs():
            show(message if found is None else category(text), category, *rest, **more)
            return
        places = _MADE_AT.findall(text)
        where = f" at {Path(places[-1][0]).name}:{places[-1][1]}" if places else ""
        told.append(f"{found[1]}(){where} was not awaited, so it has done nothing: write `await` before it")
        print(f"acl-py: {told[-1]}", file=sys.stderr)

    warnings.showwarning = tell
    sys.set_coroutine_origin_tracking_depth(_ORIGIN_DEPTH)
    try:
        yield told
    finally:
        warnings.showwarning = show
        sys.set_coroutine_origin_tracking_depth(depth)


def folder_of(program: str, form: Form) -> Path:
    """Return the folder of *program*; of a module or a text, the working directory."""
    return Path(program).parent if form is Form.FILE and program != "-" else Path.cwd()


def _tell_clock(main: Main, _: "Sequence[Timeline]") -> bool:
    """Say in a line which clock the script has read, if it reads one and has used a card; it writes no file."""
    if current_session() is not None and any(map(_reads_clock, _own_sources(main))):
        print("  time: time.* is real time in this script; `--clock simulated` gives the card's", file=sys.stderr)
    return True


def _tell_misplaced(main: Main, arguments: Sequence[str], _: "Sequence[Timeline]") -> bool:
    """Say which *arguments* are options of `acl-py run`, if the script itself looks at no arguments."""
    meant = [word for word in arguments if word.partition("=")[0] in OPTIONS]
    source = main.source.decode(errors="replace") if isinstance(main.source, bytes) else main.source
    if meant and source is not None and not _READS_ARGUMENTS.search(source):
        print(
            f"acl-py: {meant[0]} stands behind {main.name}, so it is an argument of the script, which reads none: "
            "write options of acl-py run before the script",
            file=sys.stderr,
        )
    return True


def _tell_uncalled(main: Main) -> None:
    """Say how to run the function `main` of a script for verbs that has only defined it."""
    if main.source is None or current_session() is not None:
        return
    tree = ast.parse(main.source)
    functions = (each for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
    function = next((each for each in functions if each.name == "main"), None)
    if function is None or function.decorator_list or any(map(_names_main, ast.walk(tree))):
        return
    if any(map(_imports_acl_py, ast.walk(tree))):
        print(
            f"acl-py: {main.name} has called nothing of acl_py: it defines main(), and nothing runs it. Write "
            "acl_py.run(main) at its end",
            file=sys.stderr,
        )


def _names_main(node: ast.AST) -> bool:
    return (isinstance(node, ast.Name) and node.id == "main") or (
        isinstance(node, ast.Constant) and node.value == "main"
    )


def _imports_acl_py(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name.partition(".")[0] == "acl_py" for alias in node.names)
    return isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "acl_py"


def _own_sources(main: Main) -> Iterator[bytes | str]:
    """Yield the texts of the script, and of the modules that it has imported from its folder."""
    if main.source is not None:
        yield main.source
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and main.folder and os.path.dirname(file) == main.folder and file.endswith(".py"):
            with suppress(OSError):  # it may be gone by now
                yield Path(file).read_bytes()


def _reads_clock(source: bytes | str) -> bool:
    try:
        return reads_clock(source)
    except SyntaxError:  # the script's own end says so
        return False


def _show_findings(sanitized: "Sanitized", _: "Sequence[Timeline]") -> bool:
    try:
        sanitized.show()
    except OSError as error:
        print(f"acl-py: {error.filename}: cannot be written: {error.strerror}", file=sys.stderr)
        return False
    return True


def _main(program: str, form: Form, compiler: _Compiler) -> Main:
    if form is Form.MODULE:
        # It also sets sys.argv[0], and says what Python says if there is no such module.
        return Main("-m", str(Path.cwd()), None, lambda _: runpy._run_module_as_main(program))  # type: ignore[attr-defined]
    if form is Form.TEXT:
        return Main("-c", "", program, partial(_run_source, compiler, program, "<string>"))
    if program == "-":
        source = sys.stdin.buffer.read()
        return Main("-", "", source, partial(_run_source, compiler, source, "<stdin>"))
    try:
        source = Path(program).read_bytes()
    except OSError as error:
        raise ScriptError(f"can't open file {program!r}: {error.strerror}") from error
    return Main(program, str(Path(program).resolve().parent), source, partial(_run_file, compiler, source, program))


def _run_file(compiler: _Compiler, source: bytes, name: str, main: ModuleType) -> None:
    main.__file__ = name
    vars(main).update(__cached__=None)
    _run_source(compiler, source, name, main)


def _run_source(compiler: _Compiler, source: bytes | str, name: str, main: ModuleType) -> None:
    exec(compiler(source, name), vars(main))


def _compile(source: bytes | str, name: str) -> CodeType:
    return compile(source, name, "exec", dont_inherit=True)


def _end() -> hanging.Summary:
    """Do what Python does at the end of a script, except for the threads of its pools. Then print the summary."""
    pool = imported("concurrent.futures.thread")
    of_pools = () if pool is None else pool._threads_queues
    for thread in threading.enumerate():  # join() shows which thread is awaited: see threads.py
        if not (thread is threading.current_thread() or thread.daemon or thread in of_pools):
            thread.join()
    atexit._run_exitfuncs()
    processes.let_go_of_script()
    if signal.getsignal(signal.SIGTERM) is _end_on_sigterm:  # the summary comes once
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return hanging.summarize()


def _take_sigterm() -> None:
    """Let SIGTERM end the script with the summary, unless something handles it already."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end_on_sigterm)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=_hold_sigterm, after_in_parent=_let_sigterm_come, after_in_child=_end_at_once_on_sigterm
            )


def _end_on_sigterm(*_: object) -> None:
    """Print the summary, and end as a process without a handler does."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    hanging.note_end("ended by SIGTERM")
    try:
        hanging.summarize()
    except Exception as error:  # the script must not catch it and live on
        sys.excepthook(type(error), error, error.__traceback__)
    sys.stdout.flush()
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGTERM)


_masks: dict[int, Iterable[int]] = {}  # the signals that a thread that forks had blocked before


def _hold_sigterm() -> None:
    """Block SIGTERM while this thread forks: Python forgets signals that come before the new process has begun."""
    _masks[threading.get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _let_sigterm_come() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _masks.pop(threading.get_ident()))


def _end_at_once_on_sigterm() -> None:
    """Let a forked process, which has no summary, end by SIGTERM without any Python.

    A handler in Python runs between two instructions. A worker of a pool that is about to wait in C when the signal
    comes would wait without end. The pool ends its workers in this way, and would wait for the worker.
    """
    if signal.getsignal(signal.SIGTERM) is _end_on_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _let_sigterm_come()


def _execute(program: Callable[[ModuleType], object], main: ModuleType) -> int:
    """Run *program* with *main* as the module `__main__`, and return its exit code."""
    vars(main).update(__builtins__=__builtins__, __annotations__={})
    sys.modules["__main__"] = main
    try:
        program(main)
    except SystemExit as end:
        return _code_of(end)
    except ScriptError:
        raise
    except KeyboardInterrupt as error:
        _show(error)
        hanging.note_end(full_text(error))
        return _INTERRUPTED
    except DeadlockError as error:  # raised in a worker of a pool
        hanging.show(error)
        hanging.note_end(full_text(error))
        return hanging.HUNG
    except BaseException as error:
        _show(error)
        hanging.note_end(full_text(error))
        return 1
    return 0


def _code_of(end: SystemExit) -> int:
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code
    print(end.code, file=sys.stderr)
    return 1


def _help_for(error: ModuleNotFoundError) -> str:
    """Return what brings the module that *error* has not found, or that nothing does; "" for other modules."""
    module = (error.name or "").partition(".")[0]
    if module in _OF_CARDS:
        return f"{module} needs a card. docs/coming_from.md has the calls of acl_py that stand for its own"
    packages = _PACKAGES.get(module)
    return f"pip install {packages} (in a clone of acl_py, '.[cuda]')" if packages else ""


def _show(error: BaseException) -> None:
    """Print the traceback as Python would, without our own frames."""
    hide_own_frames(error)
    sys.excepthook(type(error), error, error.__traceback__)
    if isinstance(error, ModuleNotFoundError) and (text := _help_for(error)):
        print(f"acl-py: {text}", file=sys.stderr)
    traceback.clear_frames(error.__traceback__)
