"""EV01 to EV10: events. A row about codes of calls that fail is here if the failure changes the order."""

from tests.sanitizer.cases.case import (
    RACE,
    Case,
    host_reads,
    kernel,
    reads,
    record,
    sync_device,
    sync_event,
    wait,
    writes,
)

_TO_1 = {"op": "set_device", "device": 1}
_POLL = {"op": "query_event", "event": "e1", "until": True}

CASES = [
    Case(
        "EV01 a wait for an event that was never recorded",
        [writes("t1", "s1"), wait("e1", "s2"), writes("t1", "s2")],
        [("W t1@s1", "W t1@s2", RACE)],
    ),
    Case(
        "EV01 query and sync of it",
        [writes("p1", "s1"), {"op": "query_event", "event": "e1", "id": "asked"}, sync_event("e1"), host_reads("p1")],
        [("W p1@s1", "host R p1", RACE)],
        complete=["asked"],
    ),
    Case(
        "EV02 the second of two events",
        [record("e1", "s1"), writes("p1", "s1", us=80), record("e2", "s1"), sync_event("e2"), host_reads("p1")],
    ),
    Case(
        "EV03 the time of a pending event orders nothing",
        [
            record("e1", "s1"), writes("p1", "s1", us=80), record("e2", "s1"),
            {"op": "elapsed", "start": "e1", "end": "e2", "id": "asked"}, host_reads("p1"),
        ],
        [("W p1@s1", "host R p1", RACE)],
        failed=["asked"],
    ),
    Case(
        "EV04 recorded again after the wait",
        [
            writes("t1", "s1"), record("e1", "s1"), wait("e1", "s2"), writes("t2", "s1"), record("e1", "s1"),
            reads("t1", "s2"), reads("t2", "s2"),
        ],
        [("W t2@s1", "R t2@s2", RACE)],
    ),
    Case(
        "EV05 destroyed while a stream waits",
        [
            writes("t1", "s1", us=80), record("e1", "s1"), wait("e1", "s2"),
            {"op": "destroy_event", "event": "e1"}, reads("t1", "s2"),
        ],
    ),
    Case(
        "EV06 recorded in a stream of another device",
        [
            _TO_1, writes("u1", "x1"), record("e1", "x1", id="record"), wait("e1", "x2"), reads("u1", "x2"),
        ],
        [("W u1@x1", "R u1@x2", RACE)],
        failed=["record"],
    ),
    Case(
        "EV06 waited for by another device",
        [
            writes("p1", "s1"), record("e1", "s1"), _TO_1, wait("e1", "x1"),
            {"op": "memcpy_async", "id": "in", "dst": "u1", "src": "p1", "bytes": 64, "stream": "x1"},
        ],
    ),
    Case("EV08 a loop of queries", [writes("p1", "s1", us=80), record("e1", "s1"), _POLL, host_reads("p1")]),
    Case(
        "EV08 without the loop",
        [
            writes("p1", "s1", us=80), record("e1", "s1"), {"op": "query_event", "event": "e1"}, host_reads("p1"),
        ],
        [("W p1@s1", "host R p1", RACE)],
    ),
    Case("EV09 wait", [writes("t1", "s1"), record("e1", "s1"), wait("e1", "s2"), reads("t1", "s2")]),
    Case(
        "EV09 without the wait",
        [writes("t1", "s1"), record("e1", "s1"), reads("t1", "s2")],
        [("W t1@s1", "R t1@s2", RACE)],
    ),
    Case(
        "EV09 wait of the legacy stream: blocking",
        [writes("t1", "n1"), record("e1", "n1"), wait("e1", "legacy"), reads("t1", "s1")],
    ),
    Case(
        "EV09 wait of the legacy stream: nonblocking",
        [writes("t1", "n1"), record("e1", "n1"), wait("e1", "legacy"), reads("t1", "n2")],
        [("W t1@n1", "R t1@n2", RACE)],
    ),
    Case(
        "EV10 an event carries its device",
        [writes("p1", "s1", us=80), record("e1", "s1"), _TO_1, sync_event("e1"), host_reads("p1")],
    ),
    Case(
        "EV10 a device sync covers one device",
        [writes("p1", "s1", us=80), _TO_1, kernel("x1"), sync_device(), host_reads("p1")],
        [("W p1@s1", "host R p1", RACE)],
    ),
]  # fmt: skip
ABSENT = {"EV07": "codes of calls that are refused at once; tests/acl_py/test_api_events.py has them"}
