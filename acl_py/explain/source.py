"""The source of a run: the statements of its lines, and how a call in one of them gets another stream.

Nothing of a file is run: it is read and parsed, if it is there. A recording may come from somebody else, and names its
files itself; so only files of Python are read.
"""

import ast
import copy
import linecache
from functools import lru_cache
from typing import NamedTuple

from acl_py.trace.rows.reading import site_of_call
from acl_py.trace.rows.timeline import Timeline
from acl_py.wording import reword

_STREAM_AT = {  # where a call has its stream, and how many arguments it has then; acl's functions have one place more
    "RecordEvent": (1, 2), "record_event": (1, 2), "StreamWaitEvent": (0, 2), "stream_wait_event": (0, 2),
    "MemcpyAsync": (5, 6), "memcpy_async": (5, 6), "MemsetAsync": (4, 5), "memset_async": (4, 5),
}  # fmt: skip
_ASYNCHRONOUS = {"Memcpy": "MemcpyAsync", "Memset": "MemsetAsync", "memcpy": "memcpy_async", "memset": "memset_async"}


class Source:
    """The statements of the lines of the run in *timeline*, which are named as in "file.py:12"."""

    def __init__(self, timeline: Timeline) -> None:
        calls = [call for call in timeline.calls if call.file.endswith(".py")]
        self._lines = {site_of_call(call): (call.file, call.line) for call in calls}
        self._function = next((call.function for call in timeline.calls if call.function), "")  # of a script

    def text(self, site: str) -> str:
        """Return the text of the line, or of the whole statement in one line; "" if it is not known."""
        if site not in self._lines:
            return ""
        file, line = self._lines[site]
        found = _statements(file).get(line)
        lines = (line, line) if found is None else (found.lineno, found.end_lineno or found.lineno)
        return " ".join(each.strip() for each in linecache.getlines(file)[lines[0] - 1 : lines[1]])

    def stream(self, site: str) -> str:
        """Return the expression for the stream of the call at *site*; "" if it is not known."""
        found = self._call(site)
        stream = None if found is None else _stream_of(found.call, is_script=bool(self._function))
        return "" if stream is None else ast.unparse(stream)

    def in_stream(self, site: str, stream: str, *, asynchronous: bool) -> str:
        """Return the statement at *site* whose call gets the *stream*, an expression, and becomes *asynchronous* if it
        is not; "" if it is not known how.
        """
        found = self._call(site)
        if found is None:
            return ""
        expression = ast.parse(stream, mode="eval").body
        if asynchronous and not _rename(found.call):
            return ""
        is_set = _set_stream(found.call, expression, is_script=bool(self._function))
        return ast.unparse(found.statement) if is_set else ""

    def written(self, call: str) -> str:
        """Return *call*, of a verb, as the program would write it."""
        return reword(call, self._function) if self._function else f"await {call}"

    def _call(self, site: str) -> "_Found | None":
        """Return a copy of the statement at *site*, and the call in it that reaches the device."""
        file, line = self._lines.get(site, ("", 0))
        statement = _statements(file).get(line)
        if statement is None:
            return None
        statement = copy.deepcopy(statement)
        awaited = [node.value for node in ast.walk(statement) if isinstance(node, ast.Await)]
        calls = [node for node in awaited or ast.walk(statement) if isinstance(node, ast.Call) and _is_known(node)]
        return _Found(statement, calls[0]) if len(calls) == 1 else None


class _Found(NamedTuple):
    statement: ast.stmt
    call: ast.Call


@lru_cache(maxsize=64)
def _statements(file: str) -> dict[int, ast.stmt]:
    """Return the simple statements of *file*, each at all of its lines; none if the file cannot be read."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):  # it is another file by now, or none of Python
        return {}
    simple = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and not hasattr(node, "body")]
    return {line: node for node in simple for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def _name(call: ast.Call) -> str:
    function = call.func
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _is_known(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Subscript) or _name(call) in (*_STREAM_AT, *_ASYNCHRONOUS)


def _launch_of(function: ast.Subscript, *, is_script: bool) -> tuple[list[ast.expr], int]:
    """Return what a launch says in brackets, and the place of its stream there.

    That is kernel[blocks, stream], and in a script kernel[grid, block, stream], as numba has it.
    """
    said = [*function.slice.elts] if isinstance(function.slice, ast.Tuple) else [function.slice]
    return said, 2 if is_script else 1


def _stream_of(call: ast.Call, *, is_script: bool) -> ast.expr | None:
    """Return the argument of *call* that is its stream; of a kernel, that of its launch."""
    if isinstance(call.func, ast.Subscript):
        said, place = _launch_of(call.func, is_script=is_script)
        return said[place] if len(said) > place else None
    named = next((keyword.value for keyword in call.keywords if keyword.arg == "stream"), None)
    place, count = _STREAM_AT.get(_name(call), (0, -1))
    return call.args[place] if named is None and len(call.args) == count else named


def _set_stream(call: ast.Call, stream: ast.expr, *, is_script: bool) -> bool:
    """Give *call* another stream; return whether that was possible."""
    if isinstance(call.func, ast.Subscript):
        said, place = _launch_of(call.func, is_script=is_script)
        if len(said) < place:
            return False
        call.func.slice = ast.Tuple([*said[:place], stream, *said[place + 1 :]], ast.Load())
        return True
    place, count = _STREAM_AT.get(_name(call), (0, -1))
    if len(call.args) == count:
        call.args[place] = stream
    elif len(call.args) == count - 1 and place == count - 1:
        call.keywords = [each for each in call.keywords if each.arg != "stream"]
        call.args.append(stream)
    else:
        return False
    return True


def _rename(call: ast.Call) -> bool:
    """Let *call* be the asynchronous form of a copy or fill; return whether it has one."""
    name = _ASYNCHRONOUS.get(_name(call))
    if name is None:
        return False
    if isinstance(call.func, ast.Attribute):
        call.func.attr = name
    elif isinstance(call.func, ast.Name):
        call.func.id = name
    return True
