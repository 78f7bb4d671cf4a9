"""MP01 to MP10: memory of pools, and pinned memory that is freed while a copy is on its way."""

from tests.sanitizer.cases.case import (
    BEFORE_ALLOCATION,
    FREE_IN_USE,
    RACE,
    RELIES,
    Case,
    allocate,
    copy,
    give_back,
    reads,
    record,
    sync,
    wait,
    writes,
)

_FIRST = [allocate("m1", "s1"), writes("m1", "s1"), give_back("m1", "s1")]
_HANDED_ON = [allocate("m1", "s1"), writes("m1", "s1"), record("e1", "s1"), wait("e1", "s2"), reads("m1", "s2", us=80)]

CASES = [
    Case("MP01 the same stream", [*_FIRST, allocate("m2", "s1"), writes("m2", "s1"), give_back("m2", "s1")]),
    Case("MP01 another stream", [*_FIRST, allocate("m2", "s2"), writes("m2", "s2"), give_back("m2", "s2")]),
    Case(
        "MP01 used by a stream that knows nothing of the allocation",
        [allocate("m1", "s1"), writes("m1", "s2")],
        [("alloc m1", "W m1@s2", BEFORE_ALLOCATION)],
    ),
    Case(
        "MP03 again and again",
        [*_FIRST, allocate("m2", "s1"), give_back("m2", "s1"), allocate("m3", "s1"), sync("s1")],
    ),
    Case(
        "MP05 the free is handed on by an event",
        [*_FIRST, record("e1", "s1"), wait("e1", "s2"), allocate("m2", "s2"), writes("m2", "s2")],
    ),
    Case(
        "MP06 freed on another stream, which is destroyed",
        [
            allocate("m1", "s1"), writes("m1", "s1"), record("e1", "s1"), wait("e1", "s2"), give_back("m1", "s2"),
            {"op": "destroy_stream", "name": "s2"},
        ],
    ),
    Case(
        "MP06 freed on another stream without an event",
        [allocate("m1", "s1"), writes("m1", "s1"), sync("s1"), writes("m1", "s1", "again"), give_back("m1", "s2")],
        [("again", "free m1", FREE_IN_USE)],
    ),
    Case(
        "MP07 freed while the consumer is busy",
        [*_HANDED_ON, give_back("m1", "s1")],
        [("R m1@s2", "free m1", FREE_IN_USE)],
    ),
    Case("MP07 freed behind the consumer", [*_HANDED_ON, record("e2", "s2"), wait("e2", "s1"), give_back("m1", "s1")]),
    Case(
        "MP08 cuda: pinned memory freed during a copy",
        [copy("t1", "p1", "s1"), {"op": "free_host", "id": "free", "name": "p1"}],
        [("copy t1<-p1@s1", "free", RELIES)],
    ),
    Case(
        "MP08 acl: pinned memory freed during a copy",
        [copy("t1", "p1", "s1"), {"op": "free_host", "id": "free", "name": "p1"}],
        [("copy t1<-p1@s1", "free", FREE_IN_USE)],
        rules="acl",
    ),
    Case("MP08 freed after the copy", [copy("t1", "p1", "s1"), sync("s1"), {"op": "free_host", "name": "p1"}]),
    Case(
        "MP08 written by another copy meanwhile",
        [copy("t1", "p1", "s1"), copy("p1", "t2", "s2"), sync("s1"), sync("s2"), {"op": "free_host", "name": "p1"}],
        [("copy t1<-p1@s1", "copy p1<-t2@s2", RACE)],
    ),
]  # fmt: skip
ABSENT = {
    "MP02": "arenas of CuPy's own pool, which acl_py does not have",
    "MP04": "attributes of a pool, which order nothing; tests/acl_py/test_api_pool.py has them",
    "MP09": "CuPy's own pool of pinned memory, which acl_py does not have",
    "MP10": "codes of calls that are refused at once; tests/acl_py/test_api_memory.py has them",
}
