"""NPU rows: problems that users of ACL have reported, by the number of the row. Those about order are programs here."""

from tests.sanitizer.cases.case import (
    FREE_IN_USE,
    RACE,
    Case,
    allocate,
    copy,
    give_back,
    host_reads,
    host_writes,
    kernel,
    reads,
    record,
    sync,
    sync_event,
    wait,
    writes,
)


def _event(name: str, kind: str) -> dict:
    return {"op": "create_event", "event": name, "kind": kind, "new": True}


def _acl(name: str, steps: list[dict], expected: list[tuple[str, str, str]] | tuple[()] = ()) -> Case:
    return Case(name, steps, expected, rules="acl")


_ROUND = [record("e1", "s1"), wait("e1", "s2")]
_NOTIFIED = [
    {"op": "record_notify", "notify": "n1", "stream": "s1"},
    {"op": "wait_notify", "notify": "n1", "stream": "s2"},
]
_PRODUCED = [_event("e1", "snapshot"), writes("t1", "s1")]

CASES = [
    _acl(
        "NPU02 a flag that was not reset lets the next round pass",
        [
            _event("e1", "flag"), *_ROUND, writes("t1", "s1"), *_ROUND, reads("t1", "s2"),
        ],
        [("W t1@s1", "R t1@s2", RACE)],
    ),
    _acl(
        "NPU02 reset behind the wait, and the host waits before the next round",
        [
            _event("e1", "flag"), *_ROUND, {"op": "reset", "event": "e1", "stream": "s2"}, sync("s2"),
            writes("t1", "s1"), *_ROUND, reads("t1", "s2"),
        ],
    ),
    _acl(
        "NPU02 reset while the next round may already have recorded",
        [
            _event("e1", "flag"), *_ROUND, {"op": "reset", "event": "e1", "stream": "s1"},
            writes("t1", "s1"), record("e1", "s1"), wait("e1", "s3"), reads("t1", "s3"),
        ],
        [("W t1@s1", "R t1@s3", RACE)],
    ),
    _acl(
        "NPU02 another stream sets the flag too, so the wait may end early",
        [
            _event("e1", "flag"), writes("t1", "s1"), *_ROUND, reads("t1", "s2"), record("e1", "s3"), sync("s3"),
        ],
        [("W t1@s1", "R t1@s2", RACE)],
    ),
    _acl(
        "NPU02 a wait is not ended by the set behind it",
        [
            _event("e1", "flag"), wait("e1", "s2"), reads("t1", "s2"), record("e1", "s2"), writes("t1", "s1"),
            record("e1", "s1"), sync("s2"),
        ],
    ),
    *(
        _acl(
            f"NPU02 the host waits for the reset, then {first} comes first",
            [
                _event("e1", "flag"), record("e1", "s1"), sync_event("e1"),
                {"op": "reset", "event": "e1", "stream": "s2"}, sync("s2"), *round_, sync("s2"), host_reads("p1"),
            ],
        )
        for first, round_ in (
            ("the wait", [
                wait("e1", "s2"), reads("t1", "s2"), copy("p1", "t1", "s2"), writes("t1", "s1"), record("e1", "s1"),
            ]),
            ("the record", [
                writes("t1", "s1"), record("e1", "s1"), wait("e1", "s2"), reads("t1", "s2"), copy("p1", "t1", "s2"),
            ]),
        )
    ),
    _acl(
        "NPU02 a notify in place of the flag: each round waits for its own",
        [
            {"op": "create_notify", "notify": "n1"}, *_NOTIFIED, writes("t1", "s1"), *_NOTIFIED, reads("t1", "s2"),
        ],
    ),
    _acl(
        "NPU03 the wait is the wrong way around",
        [*_PRODUCED, record("e1", "s2"), wait("e1", "s1"), reads("t1", "s2")],
        [("W t1@s1", "R t1@s2", RACE)],
    ),
    _acl("NPU03 the right way around", [*_PRODUCED, *_ROUND, reads("t1", "s2")]),
    _acl("NPU04 the host waits where an event would do", [writes("t1", "s1"), sync("s1"), reads("t1", "s2")]),
    _acl(
        "NPU06 memory goes back to the pool while another stream reads it",
        [
            _event("e1", "snapshot"), allocate("m1", "s1"), writes("m1", "s1"), *_ROUND, reads("m1", "s2", us=80),
            give_back("m1", "s1"), allocate("m2", "s1"), writes("m2", "s1"),
        ],
        [("R m1@s2", "free m1", FREE_IN_USE)],
    ),
    _acl(
        "NPU16 the host writes a buffer that is still being copied",
        [host_writes("p1") | {"id": "first"}, copy("t1", "p1", "s1"), host_writes("p1")],
        [("copy t1<-p1@s1", "host W p1", RACE)],
    ),
    _acl(
        "NPU16 an event says when it may",
        [_event("e1", "snapshot"), copy("t1", "p1", "s1"), record("e1", "s1"), sync_event("e1"), host_writes("p1")],
    ),
    _acl(
        "NPU20 a wait of the stream that recorded",
        [*_PRODUCED, record("e1", "s1"), wait("e1", "s1"), reads("t1", "s1")],
    ),
    _acl(
        "NPU03 in each class of events",
        [
            step
            for number, kind in enumerate(("default", "flag", "snapshot"))
            for step in (
                _event(f"e{number}", kind), writes(f"t{number}", "s1"), record(f"e{number}", "s1"),
                wait(f"e{number}", "s2"), reads(f"t{number}", "s2"),
            )
        ],
    ),
    _acl(
        "NPU23 a copy of pageable memory waits for its stream",
        [copy("p1", "t1", "s1"), kernel("s1"), copy("g1", "t2", "s1"), host_reads("p1")],
    ),
    _acl(
        "NPU23 a copy of pinned memory does not",
        [copy("p1", "t1", "s1"), kernel("s1"), copy("p2", "t2", "s1"), host_reads("p1")],
        [("copy p1<-t1@s1", "host R p1", RACE)],
    ),
]  # fmt: skip
ABSENT = {
    "NPU01": "streams that captured graphs hold; there are no graphs yet",
    "NPU05": "a wait with a time limit: its error, not an order",
    "NPU07": "collectives over several devices, which acl_py does not have",
    "NPU08": "a kernel that runs too long: an error and its line",
    "NPU09": "calls that a capture forbids; there are no graphs yet",
    "NPU10": "calls that a capture forbids; there are no graphs yet",
    "NPU11": "an error that shows at a later call",
    "NPU12": "an error that shows at a later call",
    "NPU13": "a wait with a time limit: its error, not an order",
    "NPU14": "a thread without a context: the call is refused",
    "NPU15": "a copy whose kind does not fit its addresses: the call is refused",
    "NPU17": "a lock of the Python interpreter",
    "NPU18": "task groups of captured graphs; there are no graphs yet",
    "NPU19": "hangs whose cause was not found",
    "NPU21": "the number of event ids",
    "NPU22": "events in captured graphs; there are no graphs yet",
}
