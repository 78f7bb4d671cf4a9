"""Python processes that a server forks, so that none of them has to import acl_py again.

    done = forks.run("-m", "acl_py", "run", "script.py", cwd=folder)

is `subprocess.run([sys.executable, "-X", "utf8", "-W", "error", "-m", ...])` with captured output, in a twentieth of
the processor time. The process is a whole one: it has its own arguments, environment, folder, standard streams,
signals, threads and exit code. Only these differ from an interpreter that was started: modules that the server has
imported are there already, and are not taken apart at the end; options and variables that Python reads when it starts
are those of the server. A test of these starts an interpreter.

The server is `python -m tests.forks`. It starts with the first call, and ends with the process that called.
"""

import _thread
import atexit
import builtins
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Mapping
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
STREAMS = 3  # standard input, output and error
_UNCACHED = ("-p", "no:cacheprovider", "-o", "asyncio_default_fixture_loop_scope=function")


def run(
    *arguments: object,
    cwd: object = ".",
    env: Mapping[str, str] | None = None,
    text: str = "",
    is_joined: bool = False,
) -> "subprocess.CompletedProcess[str]":
    """Run `python *arguments` in the folder *cwd*, with *text* on its standard input, and return how it has ended.

    Args:
        arguments: `-u` if each line of output is to be written at once; `-W ACTION::CATEGORY` for another answer to
            warnings; then `-m` or `-c` and what follows it, or the path of a script; then the program's arguments.
        cwd: The folder it begins in.
        env: Its variables; by default those of this process.
        text: Its standard input.
        is_joined: Whether its errors go to its standard output, and not to a place of their own.
    """
    variables = dict(os.environ if env is None else env)
    request = {"arguments": [str(each) for each in arguments], "cwd": os.path.abspath(cwd), "env": variables}
    (output, its_output), (errors, its_errors) = os.pipe(), os.pipe()
    if is_joined:
        os.dup2(its_output, its_errors)
    with tempfile.TemporaryFile() as given:
        given.write(text.encode())
        given.seek(0)
        server = _server()
        pid = server.start(request, [given.fileno(), its_output, its_errors])
    os.close(its_output)
    os.close(its_errors)
    try:
        out, err = _read(output, errors)
    except BaseException:  # the limit of a test, or Ctrl-C
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        code = server.wait()
        os.close(output)
        os.close(errors)
    return subprocess.CompletedProcess(request["arguments"], code, *(_as_pure(each.decode()) for each in (out, err)))


def _as_pure(text: str) -> str:
    """Return *text* without the lines of reports that name the compiled core: all others are as on the pure core."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("  core: compiled"))


def run_pytest(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    """Run pytest in the folder of *pytester*, as `pytester.runpytest_subprocess()` does."""
    begin = time.perf_counter()
    done = run("-m", "pytest", "--basetemp=basetemp", *options, cwd=pytester.path)
    outlines, errlines = done.stdout.splitlines(), done.stderr.splitlines()
    return pytest.RunResult(done.returncode, outlines, errlines, time.perf_counter() - begin)


def _read(output: int, errors: int) -> list[bytes]:
    """What comes from both pipes, until nobody can write to them any more."""
    texts = {output: b"", errors: b""}
    with selectors.DefaultSelector() as selector:
        for each in texts:
            selector.register(each, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                data = os.read(key.fd, 1 << 16)
                texts[key.fd] += data
                if not data:
                    selector.unregister(key.fd)
    return list(texts.values())


class _Server:
    """The server of this process: it runs one program at a time."""

    def __init__(self):
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-X", "utf8", "-W", "error", "-m", "tests.forks", str(theirs.fileno())]
        variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": "", "PYTHONUNBUFFERED": ""}
        with theirs:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=variables, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        self._socket = ours
        self._answers = ours.makefile(encoding="utf-8")
        self._answer()  # it is ready

    def start(self, request, streams):
        """Return the id of the process that the server has forked for *request*."""
        socket.send_fds(self._socket, [b"."], streams)
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        return self._answer()

    def wait(self):
        """Wait for the end of the process, and return its exit code."""
        return self._answer()

    def _answer(self):
        line = self._answers.readline()
        assert line, f"the server of tests/forks.py has ended with {self._process.wait()}"
        return int(line)

    def end(self):
        """Let the server end: it reads that nobody asks any more."""
        self._answers.close()
        self._socket.close()
        self._process.wait()


@cache
def _server():
    server = _Server()
    atexit.register(server.end)
    return server


def _serve(ours):
    """Answer requests. Return in each forked process, with its request."""
    ours.sendall(b"0\n")
    while True:
        begin, streams, _, _ = socket.recv_fds(ours, 1, STREAMS)
        if not begin:  # the tests have ended
            sys.exit()
        line = b""
        while not line.endswith(b"\n"):
            line += ours.recv(1 << 16)
        pid = os.fork()
        if not pid:
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
        for stream in streams:
            os.close(stream)
        if not pid:
            return json.loads(line)
        ours.sendall(b"%d\n" % pid)
        _, status = os.waitpid(pid, 0)
        ours.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def _execute(arguments, paths):
    """Run a program as Python does that has these *arguments* and finds modules in *paths*."""
    kind, *rest = arguments
    if kind == "-u":
        sys.stdout.reconfigure(line_buffering=True)
        kind, *rest = rest
    if kind == "-W":
        action, _, category = rest[0].partition("::")
        warnings.simplefilter(action, getattr(builtins, category))
        kind, *rest = rest[1:]
    main = sys.modules["__main__"] = ModuleType("__main__")
    if kind == "-m":
        sys.argv, sys.path[:] = ["-m", *rest[1:]], [os.getcwd(), *paths]
        runpy._run_module_as_main(rest[0])
    elif kind == "-c":
        sys.argv, sys.path[:] = ["-c", *rest[1:]], ["", *paths]
        exec(compile(rest[0], "<string>", "exec", dont_inherit=True), vars(main))
    else:
        sys.argv, sys.path[:] = [kind, *rest], [str(Path(kind).resolve().parent), *paths]
        main.__file__ = kind
        exec(compile(Path(kind).read_bytes(), kind, "exec", dont_inherit=True), vars(main))


def _end(code):
    """End as an interpreter does that has no daemon threads; return if there are some.

    Objects of the program come to their end, but modules do not: to take apart what the server has imported takes ten
    times the processor time of an empty program.
    """
    threading._shutdown()
    if _thread._count():
        return
    atexit._run_exitfuncs()
    if main := sys.modules.get("__main__"):
        vars(main).clear()
    gc.collect()
    try:
        print(end="", flush=True)
        print(end="", flush=True, file=sys.stderr)
    except (OSError, ValueError):  # the interpreter knows what to say, and its exit code
        return
    os._exit(code)


def _prepare():
    """Import what programs may import, and let the command line and pytest import what they need.

    pytest runs here once, without tests: it imports its plug-ins itself, because it rewrites what they assert.
    """
    import numpy.ma  # by the first np.unique
    import numpy.random  # noqa: F401 - by the first session of acl
    from typer.testing import CliRunner

    import acl_py.asc
    import acl_py.compat.cuda.driver.early
    import acl_py.cta
    import acl_py.explain
    import acl_py.explore.preloaded
    import acl_py.ptx
    import acl_py.sanitizer.sanitizer
    import acl_py.tools.scripts
    import acl_py.trace  # noqa: F401
    from acl_py.cli import app

    assert CliRunner().invoke(app, ["devices"]).exit_code == 0
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()):
        assert pytest.main([*_UNCACHED, "--rootdir", folder, folder]) == pytest.ExitCode.NO_TESTS_COLLECTED


def _main():
    own = sys.path[1:]  # the first is the folder of `-m`
    _prepare()
    gc.freeze()  # the processes share these objects as long as no collection touches them
    with socket.socket(fileno=int(sys.argv[1])) as ours:
        request = _serve(ours)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    try:
        _execute(request["arguments"], [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *own])
    except SystemExit as ending:
        if not isinstance(ending.code, int | None):
            raise
        code = ending.code or 0
    else:
        code = 0
    _end(code)
    sys.exit(code)


if __name__ == "__main__":
    _main()
