"""DS01 to DS14: what the default streams order, and what they do not. Managed memory of the rows is pinned here."""

from tests.sanitizer.cases.case import (
    RACE,
    RELIES,
    Case,
    copy,
    host_reads,
    kernel,
    query,
    reads,
    sync,
    sync_device,
    writes,
)

_TEN = range(1, 11)
_H2H = {"op": "memcpy", "dst": "p8", "src": "p9", "bytes": 4}
_OTHER_MEMSET = {"op": "memset", "dst": "p9", "bytes": 64}
_COPY_2D = {"op": "memcpy2d", "dst": "t8", "src": "t9", "dpitch": 8, "spitch": 8, "width": 4, "height": 2}


def _race(first: str, second: str, *, if_: bool = True) -> list[tuple[str, str, str]]:
    return [(first, second, RACE)] if if_ else []


def _asked(created: str, default: str) -> Case:
    """DS01: a query of a default stream that is answered "complete"."""
    return Case(
        f"DS01 {created} and {default}",
        [writes("p1", created), query(default, until=True), host_reads("p1")],
        _race(f"W p1@{created}", "host R p1", if_=(created, default) != ("s1", "legacy")),
    )


def _idle(created: str, default: str) -> Case:
    """DS02: an idle stream is complete, whatever a default stream does."""
    return Case(
        f"DS02 {created} and {default}",
        [writes("p1", default), query(created, id="asked"), host_reads("p1")],
        _race(f"W p1@{default}", "host R p1"),
        complete=["asked"],
    )


def _of_each(row: str, steps, race) -> list[Case]:
    """The row with a blocking stream, which is clean, and with a non-blocking one."""
    return [
        Case(f"{row} blocking", steps("s1")),
        Case(f"{row} nonblocking", steps("n1"), _race(*race("n1"))),
    ]


CASES = [
    *(_asked(created, default) for created in ("s1", "n1") for default in ("legacy", "per_thread")),
    *(_idle(created, default) for created in ("s1", "n1") for default in ("legacy", "per_thread")),
    Case(
        "DS03 sync of the legacy stream",
        [*(writes(f"p{i}", f"s{i}") for i in _TEN), sync("legacy"), *(host_reads(f"p{i}") for i in _TEN)],
    ),
    Case(
        "DS04 sync of one stream",
        [writes("p1", "s1", us=50), writes("p2", "s2", us=200), sync("s1"), host_reads("p1"), host_reads("p2")],
        _race("W p2@s2", "host R p2"),
    ),
    Case(
        "DS05 per-thread, then legacy",
        [writes("p1", "per_thread"), kernel("legacy"), sync("legacy"), host_reads("p1")],
    ),
    *_of_each(
        "DS06 a legacy kernel between two streams",
        lambda s: [writes("t1", s), kernel("legacy"), writes("t1", "s2")],
        lambda s: (f"W t1@{s}", "W t1@s2"),
    ),
    Case(
        "DS07 legacy kernel and sync", [writes("p1", "s1", us=90), kernel("legacy"), sync("legacy"), host_reads("p1")]
    ),
    Case(
        "DS07 without the sync",
        [writes("p1", "s1", us=90), kernel("legacy"), host_reads("p1")],
        _race("W p1@s1", "host R p1"),
    ),
    *_of_each(
        "DS08 legacy, then a stream that is synchronised",
        lambda s: [writes("p1", "legacy"), kernel(s), sync(s), host_reads("p1")],
        lambda s: ("W p1@legacy", "host R p1"),
    ),
    Case(
        "DS08 nonblocking, device sync",
        [writes("p1", "legacy"), kernel("n1"), sync("n1"), sync_device(), host_reads("p1")],
    ),
    *_of_each(
        "DS09 sync of the legacy stream",
        lambda s: [writes("p1", s), sync("legacy"), host_reads("p1")],
        lambda s: (f"W p1@{s}", "host R p1"),
    ),
    Case(
        "DS10 transitive",
        [writes("p1", "s1"), kernel("legacy"), kernel("s2"), sync("s2"), host_reads("p1")],
    ),
    *_of_each(
        "DS11 a memset of host memory",
        lambda s: [writes("p1", s), _OTHER_MEMSET, writes("p2", "s2"), sync("s2"), host_reads("p1")],
        lambda s: (f"W p1@{s}", "host R p1"),
    ),
    *_of_each(
        "DS12 a copy between host addresses",
        lambda s: [writes("t1", s), _H2H, copy("p1", "t1", "s2"), sync("s2")],
        lambda s: (f"W t1@{s}", "copy p1<-t1@s2"),
    ),
    *(
        Case(
            f"DS13 {op} is no synchronisation",
            [writes("t1", "s1"), {"op": op, "name": "new", "bytes": 64}, copy("p1", "t1", "s2"), sync("s2")],
            _race("W t1@s1", "copy p1<-t1@s2"),
        )
        for op in ("malloc", "malloc_host")
    ),
    Case(
        "DS13 a copy to pageable memory promises nothing",
        [writes("p1", "s1"), copy("g1", "t1", "s1"), host_reads("p1")],
        [("W p1@s1", "host R p1", RELIES)],
    ),
    Case("DS14 Memcpy2D between two streams", [writes("t1", "s1"), _COPY_2D, reads("t1", "s2")]),
    Case(
        "DS04 a stream that was destroyed is waited for too",
        [writes("p1", "s1", us=90), {"op": "destroy_stream", "name": "s1"}, sync_device(), host_reads("p1")],
    ),
    Case("DS14 without it", [writes("t1", "s1"), reads("t1", "s2")], _race("W t1@s1", "R t1@s2")),
]
