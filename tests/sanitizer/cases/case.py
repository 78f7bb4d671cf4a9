"""What a case is, and the words that cases are written in: each makes one step of a stream program."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from acl_py.programs.format import Program, parse

RACE, RELIES = "race", "relies"
BEFORE_ALLOCATION, FREE_IN_USE = "before allocation", "free in use"
SIZE = 64

Step = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A program, and what is wrong with it: (id of the first step, id of the second, kind), in the order of the second.

    `failed` and `complete` have the ids of calls that fail and of queries that are answered "complete".
    """

    name: str
    steps: Sequence[Step]
    expected: Sequence[tuple[str, str, str]] = ()
    rules: str = "cuda"
    failed: Sequence[str] = ()
    complete: Sequence[str] = ()

    @property
    def row(self) -> str:
        """The row of the document."""
        return self.name.split()[0]

    @property
    def program(self) -> Program:
        """The checked program. Everything that its steps name, and do not make, is declared."""
        return parse(document(self.name, self.steps))

    def places(self, ids: Sequence[str]) -> set[int]:
        """The indices of the steps with these *ids*."""
        return {index for index, step in enumerate(self.steps) if step.get("id") in ids}

    @property
    def pairs(self) -> set[tuple[int, int, str]]:
        """`expected`, as indices of steps."""
        place = {step["id"]: index for index, step in enumerate(self.steps) if "id" in step}
        return {(place[first], place[second], kind) for first, second, kind in self.expected}


def document(name: str, steps: Sequence[Step]) -> dict[str, Any]:
    """The document of a program. Names tell what they are: streams s1, n1 (non-blocking) and x1 (on device 1), events
    e..., device memory t... (u... on device 1), pinned memory p..., pageable memory g...
    """
    made = {step.get("name") for step in steps if step["op"] in ("malloc_async", "create_stream")}
    made |= {step["event"] for step in steps if step["op"] == "create_event" and step.get("new")}
    names = sorted({name for step in steps for name in _names(step)} - made)
    steps = [{field: value for field, value in step.items() if field != "new"} for step in steps]
    spaces = {"t": "device", "u": "device", "p": "pinned", "g": "pageable"}
    return {
        "id": name,
        "buffers": {
            name: {"space": spaces[name[0]], "bytes": SIZE, "device": int(name[0] == "u")}
            for name in names
            if name[0] in spaces
        },
        "streams": {
            name: {"flags": "nonblocking" if name[0] == "n" else "blocking", "device": int(name[0] == "x")}
            for name in names
            if name[0] in "snx"
        },
        "events": {name: {} for name in names if name[0] == "e"},
        "steps": steps,
    }


def _names(step: Step) -> list[str]:
    fields = [step.get(field) for field in ("dst", "src", "buf", "stream", "event", "start", "end")]
    fields += [step["name"]] if step["op"].startswith(("free", "destroy_stream")) else []
    fields += [extent[0] for field in ("reads", "writes") for extent in step.get(field, ())]
    return [name for name in fields if isinstance(name, str) and name not in ("legacy", "per_thread")]


# --- words. The first letter of an id that is not given: R, W, K ... and the names.


def reads(name: str, stream: str, id_: str = "", us: float = 10) -> Step:
    """A kernel reads *name*."""
    id_ = id_ or f"R {name}@{stream}"
    return {"op": "launch", "id": id_, "stream": stream, "us": us, "name": "read", "reads": [[name, 0, SIZE]]}


def writes(name: str, stream: str, id_: str = "", us: float = 10) -> Step:
    """A kernel writes *name*."""
    id_ = id_ or f"W {name}@{stream}"
    return {"op": "launch", "id": id_, "stream": stream, "us": us, "name": "write", "writes": [[name, 0, SIZE]]}


def kernel(stream: str) -> Step:
    """A kernel that touches nothing."""
    return {"op": "launch", "stream": stream, "us": 10}


def record(event: str, stream: str, **more: Any) -> Step:
    return {"op": "record", "event": event, "stream": stream, **more}


def wait(event: str, stream: str, **more: Any) -> Step:
    return {"op": "wait", "event": event, "stream": stream, **more}


def sync(stream: str) -> Step:
    return {"op": "sync_stream", "stream": stream}


def sync_event(event: str) -> Step:
    return {"op": "sync_event", "event": event}


def sync_device() -> Step:
    return {"op": "sync_device"}


def query(stream: str, **more: Any) -> Step:
    return {"op": "query_stream", "stream": stream, **more}


def host_reads(name: str) -> Step:
    return {"op": "host_read", "id": f"host R {name}", "buf": name}


def host_writes(name: str) -> Step:
    return {"op": "host_write", "id": f"host W {name}", "buf": name, "value": 7}


def copy(dst: str, src: str, stream: str, **more: Any) -> Step:
    id_ = f"copy {dst}<-{src}@{stream}"
    return {"op": "memcpy_async", "id": id_, "dst": dst, "src": src, "bytes": SIZE, "stream": stream, **more}


def allocate(name: str, stream: str) -> Step:
    return {"op": "malloc_async", "id": f"alloc {name}", "name": name, "bytes": SIZE, "stream": stream}


def give_back(name: str, stream: str) -> Step:
    return {"op": "free_async", "id": f"free {name}", "name": name, "stream": stream}
