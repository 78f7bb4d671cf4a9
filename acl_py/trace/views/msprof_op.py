"""The instructions of kernels on AI cores as Ascend's operator simulator writes them: by core and pipe.

Each core is a process, such as "core1.veccore0", and each pipe is a lane. Flags are pairs of events in black, and an
arrow leads from the instruction that sets a flag to the end of the one that waits for it.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from acl_py.trace.rows.reading import as_timeline
from acl_py.trace.rows.recorder import Trace
from acl_py.trace.rows.timeline import CoreInstruction, Timeline
from acl_py.trace.views.jsontext import Quoted, write_list
from acl_py.whole_files import writing_text

_PIPES = {"S": "SCALAR", "MTE2": "MTE2", "MTE1": "MTE1", "M": "CUBE", "FIX": "FIXP", "V": "VECTOR", "MTE3": "MTE3"}
_COLOURS = {
    "SCALAR": "startup",
    "MTE2": "thread_state_iowait",
    "MTE1": "thread_state_running",
    "CUBE": "background_memory_dump",
    "FIXP": "thread_state_unknown",
    "VECTOR": "cq_build_failed",
    "MTE3": "rail_response",
}
_FLAGS = {"set": "SET_FLAG", "wait": "WAIT_FLAG"}


def write(trace: Trace | Timeline, path: str | Path) -> None:
    """Write the instructions of kernels on AI cores to the file *path*, in the form of the operator simulator.

    Raises ValueError if the trace has none, because the simulation did not keep them.
    """
    timeline = as_timeline(trace)
    rows = timeline.instructions
    if not any(row.pipe in _PIPES for row in rows):
        raise ValueError(
            "the trace has no instructions of kernels on AI cores: none was launched, or the simulation did not keep "
            "them; start it with instructions=, the number to keep of each launch"
        )
    with writing_text(path) as file:
        # Insight takes a file for one of an operator only if this comes before the first bracket of a list.
        begin = '{"profilingType":"op","schemaVersion":1,"displayTimeUnit":"ns","traceEvents":['
        write_list(file, begin, _events(rows), "]}")


def _events(rows: Sequence[CoreInstruction]) -> Iterator[str]:
    quoted = Quoted()
    for row in rows:
        if row.pipe not in _PIPES:  # of an SM
            continue
        pipe = _PIPES[row.pipe]
        place = f'"pid":"{_core(row.core)}","tid":"{pipe}"'
        args = f'"args":{{"code":{quoted[row.site]},"detail":{quoted[_detail(row)]}}}'
        begin, end = row.start_ns / 1000, row.end_ns / 1000
        if row.kind in _FLAGS:
            name = f'"name":"{_FLAGS[row.kind]}","cname":"black"'
            yield f'{{{name},"ph":"B",{place},"ts":{begin},{args}}},\n{{{name},"ph":"E",{place},"ts":{end}}}'
        else:
            name = f'"name":{quoted[row.name]},"cname":"{_COLOURS[pipe]}"'
            yield f'{{{name},"ph":"X",{place},"ts":{begin},"dur":{end - begin},{args}}}'
    for number, row in enumerate(rows, start=1):
        if row.pipe in _PIPES and row.kind == "wait" and row.waited_for is not None:
            setter = rows[row.waited_for]
            kind = f'"name":"flow","id":{number},"cat":"{_PIPES[setter.pipe]}To{_PIPES[row.pipe]}"'
            for phase, at, one in (("s", setter.start_ns, setter), ("t", row.end_ns, row)):
                place = f'"pid":"{_core(one.core)}","tid":"{_PIPES[one.pipe]}"'
                yield f'{{{kind},"ph":"{phase}",{place},"ts":{at / 1000}}}'


def _core(core: str) -> str:
    """Return the simulator's name of a core: a vector core is one of two beside a cube core."""
    core_type, number = core.split()
    if core_type == "AIC":
        return f"core{number}.cubecore0"
    return f"core{int(number) // 2}.veccore{int(number) % 2}"


def _detail(row: CoreInstruction) -> str:
    return f"block {row.block}, {row.bytes} bytes" if row.bytes else f"block {row.block}"
