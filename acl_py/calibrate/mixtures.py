"""Random programs as applications make them: calls of all kinds in turn, beside work.

What a call costs depends on the calls before it. One kind of call in a loop is faster than a mixture, because the code
and the data of the driver are in the caches. So the costs of the common calls are those in mixtures.
"""

from collections.abc import Iterator
from random import Random
from typing import Any

_STREAMS = 4
_SIZES = (256, 4096, 32768, 65536, 262144, 1048576, 4194304)
_TIMES_US = (3, 8, 20, 60, 150, 400)
_BLOCKS = (1, 8, 33, 66, 132)
_STEPS = 48
# How often each kind of call is drawn.
_WEIGHTS = {
    "launch": 30, "copy": 18, "on_device": 4, "fill": 5, "order": 9, "query": 4, "host_func": 3, "sync_stream": 3,
    "pool": 2,
}  # fmt: skip
_MOST = max(_SIZES)


def mixture(number: int) -> dict[str, Any]:
    """Return the program with this *number*; it ends with a synchronisation of the device."""
    random = Random(number)
    steps: list[dict[str, Any]] = []
    while len(steps) < _STEPS:
        [kind] = random.choices([*_WEIGHTS], [*_WEIGHTS.values()])
        steps += _steps(kind, random, len(steps))
    steps += [{"op": "sync_device"}] * 2
    return {
        "id": f"mixture {number}",
        "buffers": {
            "d": {"space": "device", "bytes": 4 * _MOST},
            "p": {"space": "pinned", "bytes": 2 * _MOST},
        },
        "streams": {f"s{index}": {} for index in range(_STREAMS)},
        "events": {step["event"]: {"timing": False} for step in steps if step["op"] == "record"},
        "steps": steps,
    }


def _steps(kind: str, random: Random, place: int) -> Iterator[dict[str, Any]]:
    """Yield the steps of one draw; *place* is that of the first in its program."""
    stream, other = (f"s{index}" for index in random.sample(range(_STREAMS), 2))
    nbytes = random.choice(_SIZES)
    match kind:
        case "launch":
            us, blocks = random.choice(_TIMES_US), random.choice(_BLOCKS)
            yield {"op": "launch", "stream": stream, "us": us, "blocks": blocks, "exclusive": random.random() < 0.5}
        case "copy":
            ends = ("d", "p") if random.random() < 0.5 else ("p", "d")
            yield {"op": "memcpy_async", "dst": ends[0], "src": ends[1], "bytes": nbytes, "stream": stream}
        case "on_device":
            off = 2 * _MOST
            yield {"op": "memcpy_async", "dst": "d", "src": "d", "bytes": nbytes, "stream": stream, "dst_off": off}
        case "fill":
            yield {"op": "memset_async", "dst": "d", "bytes": nbytes, "stream": stream}
        case "order":
            yield {"op": "record", "event": f"e{place}", "stream": stream}
            yield {"op": "wait", "event": f"e{place}", "stream": other}
        case "query":
            yield {"op": "query_stream", "stream": stream}
        case "host_func":
            yield {"op": "host_func", "stream": stream, "us": 0}
        case "sync_stream":
            yield {"op": "sync_stream", "stream": stream}
        case "pool":
            name = f"pooled {place}"
            yield {"op": "malloc_async", "name": name, "bytes": 1 << 20, "stream": stream}
            yield {"op": "free_async", "name": name, "stream": stream}
