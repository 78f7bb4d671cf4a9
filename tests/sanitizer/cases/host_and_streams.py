"""HS01 to HS10: what the test suites of CuSan and of PyTorch's sanitizer try, besides the rows of the documents."""

from typing import Any

from tests.sanitizer.cases.case import (
    FREE_IN_USE,
    RACE,
    RELIES,
    Case,
    Step,
    copy,
    host_reads,
    host_writes,
    query,
    reads,
    record,
    sync,
    sync_device,
    sync_event,
    wait,
    writes,
)

_QUARTERS = range(0, 64, 16)
_COPY_OUT = {"op": "memcpy", "id": "copy out", "dst": "p1", "src": "t1", "bytes": 64}


def _memset(name: str, stream: str = "") -> Step:
    step = {"op": "memset_async", "stream": stream} if stream else {"op": "memset"}
    return {**step, "id": "memset", "dst": name, "bytes": 64}


def _free(op: str, name: str, **more: Any) -> Step:
    return {"op": op, "id": "free", "name": name, **more}


def _adds(name: str, stream: str) -> Step:
    """A kernel that reads and writes *name*."""
    return writes(name, stream, f"A {name}@{stream}") | {"reads": [[name, 0, 64]]}


def _quarter(start: int, stream: str, **more: Any) -> Step:
    return copy("p1", "t1", stream, id=f"copy {start}", bytes=16, dst_off=start, src_off=start, **more)


CASES = [
    # fills
    Case("HS01 a memset of host memory keeps the host", [_memset("p1"), host_reads("p1")]),
    Case("HS01 an asynchronous one does not", [_memset("p1", "s1"), host_reads("p1")], [("memset", "host R p1", RACE)]),
    Case("HS01 with a synchronisation", [_memset("p1", "s1"), sync("s1"), host_reads("p1")]),
    Case("HS01 a memset of device memory, then a blocking stream", [_memset("t1"), reads("t1", "s1")]),
    Case(
        "HS01 then a nonblocking stream",
        [_memset("t1"), reads("t1", "n1")],
        [("memset", "R t1@n1", RACE)],
    ),
    Case("HS01 under acl it is over", [_memset("t1"), reads("t1", "n1")], rules="acl"),
    Case(
        "HS01 under acl it does not wait for the stream before",
        [writes("t1", "s1"), _memset("t1")],
        [("W t1@s1", "memset", RACE)],
        rules="acl",
    ),
    # copies of pageable memory
    Case(
        "HS02 pageable, to the device",
        [copy("t1", "g1", "s1"), reads("t1", "s2")],
        [("copy t1<-g1@s1", "R t1@s2", RACE)],
    ),
    Case("HS02 pageable, to the device, then a sync", [copy("t1", "g1", "s1"), sync("s1"), reads("t1", "s2")]),
    Case(
        "HS02 pageable, to the host, of what another stream writes",
        [writes("t1", "s1"), copy("g1", "t1", "s2"), sync("s2")],
        [("W t1@s1", "copy g1<-t1@s2", RACE)],
    ),
    Case(
        "HS02 with a sync between them",
        [writes("t1", "s1"), sync("s1"), copy("g1", "t1", "s2"), sync("s2")],
    ),
    Case(
        "HS02 another stream overwrites what was copied",
        [copy("g1", "t1", "s1"), writes("t1", "s2")],
        [("copy g1<-t1@s1", "W t1@s2", RELIES)],
    ),
    Case(
        "HS02 under acl the copy is promised to be over", [copy("g1", "t1", "s1"), writes("t1", "s2")], rules="acl"
    ),
    # the host
    Case(
        "HS03 registered memory",
        [{"op": "host_register", "name": "p1", "bytes": 64, "fill": True}, copy("t1", "p1", "s1"), host_writes("p1")],
        [("copy t1<-p1@s1", "host W p1", RACE)],
    ),
    Case("HS03 host reads what a copy reads", [copy("t1", "p1", "s1"), host_reads("p1")]),
    Case(
        "HS03 the host reads while its memory is filled, and then waits",
        [copy("p1", "t1", "s1"), host_reads("p1"), sync("s1")],
        [("copy p1<-t1@s1", "host R p1", RACE)],
    ),
    Case(
        "HS03 the host waits for another stream",
        [copy("p1", "t1", "n1"), sync("n2"), host_reads("p1")],
        [("copy p1<-t1@n1", "host R p1", RACE)],
    ),
    Case("HS03 the host waits for the device", [copy("p1", "t1", "n1"), sync_device(), host_reads("p1")]),
    # frees
    Case(
        "HS04 cuda: a free waits, but need not",
        [writes("t1", "s1"), _free("free", "t1")],
        [("W t1@s1", "free", RELIES)],
    ),
    Case(
        "HS04 acl: a free does not wait",
        [writes("t1", "s1"), _free("free", "t1")],
        [("W t1@s1", "free", FREE_IN_USE)],
        rules="acl",
    ),
    Case("HS04 acl: a free that synchronises", [writes("t1", "s1"), _free("free", "t1", sync=True)], rules="acl"),
    Case("HS04 a free behind a sync", [writes("t1", "s1"), sync("s1"), _free("free", "t1")], rules="acl"),
    Case(
        "HS04 what only a free waits for",
        [writes("t1", "s1"), _free("free", "t2"), reads("t1", "s2")],
        [("W t1@s1", "R t1@s2", RELIES)],
    ),
    # default streams
    Case("HS05 the copy of the legacy stream is behind blocking streams", [writes("t1", "s1"), _COPY_OUT]),
    Case(
        "HS05 that of the per-thread stream is not",
        [writes("t1", "s1"), _COPY_OUT],
        [("W t1@s1", "copy out", RACE)],
        rules="cuda_per_thread",
    ),
    Case(
        "HS05 that of the per-thread stream is behind the legacy stream",
        [writes("t1", "legacy"), _COPY_OUT],
        rules="cuda_per_thread",
    ),
    Case(
        "HS05 acl has no such rule",
        [writes("t1", "legacy"), reads("t1", "s1")],
        [("W t1@legacy", "R t1@s1", RACE)],
        rules="acl",
    ),
    Case(
        "HS05 a nonblocking stream and the per-thread one",
        [writes("t1", "per_thread"), reads("t1", "n1")],
        [("W t1@per_thread", "R t1@n1", RACE)],
    ),
    # events
    Case(
        "HS06 recorded before the kernel",
        [record("e1", "s1"), writes("t1", "s1"), wait("e1", "s2"), reads("t1", "s2")],
        [("W t1@s1", "R t1@s2", RACE)],
    ),
    Case(
        "HS06 recorded in the wrong stream",
        [writes("t1", "s1"), record("e1", "s2"), wait("e1", "s2"), reads("t1", "s2")],
        [("W t1@s1", "R t1@s2", RACE)],
    ),
    Case(
        "HS06 awaited by the wrong stream",
        [writes("t1", "s1"), record("e1", "s1"), wait("e1", "s3"), reads("t1", "s2")],
        [("W t1@s1", "R t1@s2", RACE)],
    ),
    Case(
        "HS06 awaited before the record",
        [wait("e1", "s2"), writes("t1", "s1"), record("e1", "s1"), reads("t1", "s2")],
        [("W t1@s1", "R t1@s2", RACE)],
    ),
    Case(
        "HS06 awaited behind the kernel that needs it",
        [writes("t1", "s1"), record("e1", "s1"), reads("t1", "s2"), wait("e1", "s2"), _adds("t1", "s2")],
        [("W t1@s1", "R t1@s2", RACE)],
    ),
    Case(
        "HS06 the host waits for an event that was recorded too early",
        [record("e1", "s1"), copy("p1", "t1", "s1"), sync_event("e1"), host_reads("p1")],
        [("copy p1<-t1@s1", "host R p1", RACE)],
    ),
    Case(
        "HS06 two kernels of the same stream need no event",
        [writes("t1", "s1"), reads("t1", "s1"), _adds("t1", "s1")],
    ),
    # order over several streams
    Case(
        "HS07 over three streams",
        [
            writes("t1", "s1"), record("e1", "s1"), wait("e1", "s2"), record("e2", "s2"), wait("e2", "s3"),
            writes("t1", "s3"),
        ],
    ),
    Case(
        "HS07 the second record comes before the first wait",
        [
            writes("t1", "s1"), record("e1", "s1"), record("e2", "s2"), wait("e1", "s2"), wait("e2", "s3"),
            writes("t1", "s3"),
        ],
        [("W t1@s1", "W t1@s3", RACE)],
    ),
    Case(
        "HS07 one event for both directions",
        [
            writes("t1", "s1"), record("e1", "s1"), wait("e1", "s2"), _adds("t1", "s2"), record("e1", "s2"),
            wait("e1", "s1"), reads("t1", "s1"),
        ],
    ),
    Case(
        "HS07 one direction is missing",
        [writes("t1", "s1"), record("e1", "s1"), wait("e1", "s2"), _adds("t1", "s2"), reads("t1", "s1")],
        [("A t1@s2", "R t1@s1", RACE)],
    ),
    Case(
        "HS07 the host waits for an event, then queues elsewhere",
        [writes("t1", "s1"), record("e1", "s1"), sync_event("e1"), _adds("t1", "s2")],
    ),
    Case(
        "HS07 the host waits behind what it has queued elsewhere",
        [writes("t1", "s1"), record("e1", "s1"), _adds("t1", "s2"), sync_event("e1")],
        [("W t1@s1", "A t1@s2", RACE)],
    ),
    Case(
        "HS07 each record has waits of its own",
        [
            writes("t1", "s1"), record("e1", "s1"), wait("e1", "s2"), writes("t2", "s1"), record("e1", "s1"),
            wait("e1", "s3"), reads("t1", "s2"), reads("t2", "s3"), reads("t2", "s2"),
        ],
        [("W t2@s1", "R t2@s2", RACE)],
    ),
    # arguments
    Case("HS08 two streams read", [reads("t1", "s1"), reads("t1", "s2")]),
    Case("HS08 two streams add", [_adds("t1", "s1"), _adds("t1", "s2")], [("A t1@s1", "A t1@s2", RACE)]),
    Case("HS08 one adds, one reads", [_adds("t1", "s1"), reads("t1", "s2")], [("A t1@s1", "R t1@s2", RACE)]),
    Case("HS08 one reads, one adds", [reads("t1", "s1"), _adds("t1", "s2")], [("R t1@s1", "A t1@s2", RACE)]),
    # queries
    Case("HS09 a loop of queries of the stream", [writes("t1", "s1"), query("s1", until=True), reads("t1", "s2")]),
    Case(
        "HS09 one query that is answered too early",
        [writes("t1", "s1", us=90), query("s1"), reads("t1", "s2")],
        [("W t1@s1", "R t1@s2", RACE)],
    ),
    Case(
        "HS09 a loop of queries of another stream",
        [writes("t1", "s1"), query("n2", until=True), reads("t1", "n2")],
        [("W t1@s1", "R t1@n2", RACE)],
    ),
    # parts of a buffer
    Case(
        "HS10 four streams copy a quarter each",
        [
            writes("t1", "s9"), sync("s9"), *(_quarter(start, f"s{start}") for start in _QUARTERS),
            *(sync(f"s{start}") for start in _QUARTERS), host_reads("p1"),
        ],
    ),
    Case(
        "HS10 the host reads the first quarter behind its stream",
        [*(_quarter(start, f"s{start}") for start in _QUARTERS), sync("s0"), host_reads("p1")],
    ),
    Case(
        "HS10 the host has waited for another quarter",
        [*(_quarter(start, f"s{start}") for start in _QUARTERS), sync("s16"), host_reads("p1")],
        [("copy 0", "host R p1", RACE)],
    ),
]  # fmt: skip
