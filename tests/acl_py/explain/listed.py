"""Stream programs in few words: a step is a function, and a program a list of them."""

from acl_py.explain.cases import Case
from acl_py.programs.format import parse
from device_model.profile import load
from device_model.rules import RULES

MIB = 1 << 20
DEVICES = {"cuda": "h200", "cuda_per_thread": "h200", "acl": "ascend910b3"}


def step(op, **fields):
    return {"op": op, **fields}


def launch(stream, us=100, touches=(), *, reads=(), name="kernel", **more):
    """A kernel that changes all of the buffers *touches*, and reads those of *reads*."""
    extents = [[each, 0, MIB] for each in touches]
    named = {"reads": [*extents, *([each, 0, MIB] for each in reads)], "writes": extents}
    return step("launch", stream=stream, us=us, name=name, **named, **more)


def copy(dst, src, stream, size=MIB):
    return step("memcpy_async", dst=dst, src=src, bytes=size, stream=stream)


def copy_now(dst, src, size=MIB):
    return step("memcpy", dst=dst, src=src, bytes=size)


def fill(dst, stream):
    return step("memset_async", dst=dst, bytes=MIB, stream=stream)


def sync(stream=None):
    return step("sync_device") if stream is None else step("sync_stream", stream=stream)


def record(event, stream):
    return step("record", event=event, stream=stream)


def wait(event, stream):
    return step("wait", event=event, stream=stream)


def program(*steps, flags="blocking", streams="AB", size=MIB, pinned=(), managed=()):
    """Device buffers d and e, pinned p and q, pageable g and h, *managed* ones twice as large, and those streams."""
    spaces = {"d": "device", "e": "device", "p": "pinned", "q": "pinned", "g": "pageable", "h": "pageable"}
    spaces |= dict.fromkeys(pinned, "pinned")
    return parse(
        {
            "id": "program",
            "gap_us": 0,
            "buffers": {name: {"space": space, "bytes": size} for name, space in spaces.items()}
            | {name: {"space": "managed", "bytes": 2 * size} for name in managed},
            "streams": {name: {"flags": flags} for name in streams} | {"N": {"flags": "nonblocking"}},
            "events": {"x": {}, "y": {}},
            "steps": list(steps),
        }
    )


def case(program, rules="cuda", device=None):
    return Case(program, load(device or DEVICES[rules]), RULES[rules])
