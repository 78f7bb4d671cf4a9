"""CS01 to CS20: the published cases of PyTorch's stream sanitizer. Its stream 0 is s0 here, an ordinary stream."""

from tests.sanitizer.cases.case import (
    RACE,
    Case,
    kernel,
    reads,
    record,
    sync,
    sync_device,
    sync_event,
    wait,
    writes,
)

_MANY = range(1, 10)
_CHAIN = [step for i in range(10) for step in (record(f"e{i}", f"s{i}"), wait(f"e{i}", f"s{i + 1}"))]


def _readers(count: int) -> list[dict]:
    return [step for i in range(1, count + 1) for step in (reads("t1", f"s{i}"), record(f"e{i}", f"s{i}"))]


_WAITS = [wait(f"e{i}", "s0") for i in _MANY]
_DELETED = [reads("t1", "s1"), record("e0", "s1")]
_DELETE, _CREATE = {"op": "destroy_event", "event": "e0"}, {"op": "create_event", "event": "e0"}
_LOST = ("R t1@s1", "W t1@s2", RACE)

CASES = [
    Case("CS01 empty_kernel_launch", [kernel("s0")]),
    Case("CS02 simple_passing", [reads("t1", "s1"), reads("t1", "s2")]),
    Case("CS03 simple_error", [reads("t1", "s1"), writes("t1", "s2")], [("R t1@s1", "W t1@s2", RACE)]),
    Case("CS04 simple_sync", [reads("t1", "s1"), record("e0", "s1"), wait("e0", "s2"), writes("t1", "s2")]),
    Case(
        "CS05 reads_check_last_write",
        [writes("t1", "s1"), record("e0", "s1"), wait("e0", "s2"), reads("t1", "s2"), reads("t1", "s3")],
        [("W t1@s1", "R t1@s3", RACE)],
    ),
    Case(
        "CS06 branch_sync",
        [
            writes("t1", "s1"), record("e0", "s1"), wait("e0", "s2"), wait("e0", "s3"),
            reads("t1", "s2"), reads("t1", "s3"), writes("t1", "s2"),
        ],
        [("R t1@s3", "W t1@s2", RACE)],
    ),
    Case("CS07 chain_sync", [reads("t1", "s0"), *_CHAIN, writes("t1", "s10")]),
    Case(
        "CS08 expired_record",
        [reads("t1", "s1"), record("e0", "s1"), reads("t1", "s1", "again"), wait("e0", "s2"), writes("t1", "s2")],
        [("again", "W t1@s2", RACE)],
    ),
    Case(
        "CS09 deleted_record: deleted and created",
        [*_DELETED, _DELETE, _CREATE, wait("e0", "s2"), writes("t1", "s2")],
        [_LOST],
    ),
    Case(
        "CS09 deleted_record: deleted",
        [*_DELETED, _DELETE, wait("e0", "s2", id="wait"), writes("t1", "s2")],
        [_LOST],
        failed=["wait"],
    ),
    Case("CS09 deleted_record: created", [*_DELETED, _CREATE, wait("e0", "s2"), writes("t1", "s2")], [_LOST]),
    Case(
        "CS10 all_reads_checked_failing",
        [*_readers(10), *_WAITS, writes("t1", "s0")],
        [("R t1@s10", "W t1@s0", RACE)],
    ),
    Case("CS11 all_reads_checked_passing", [*_readers(9), *_WAITS, writes("t1", "s0")]),
    Case(
        "CS12 multiple_errors",
        [*(writes(f"t{i}", "s0") for i in range(10)), *(writes(f"t{i}", "s1") for i in range(10))],
        [(f"W t{i}@s0", f"W t{i}@s1", RACE) for i in range(10)],
    ),
    Case(
        "CS13 correct_state_merging",
        [
            writes("t1", "s1"), writes("t2", "s2"), record("e1", "s1"), record("e2", "s2"),
            writes("t1", "s1", "t1 again"), writes("t2", "s2", "t2 again"), wait("e1", "s2"), wait("e2", "s1"),
            record("e3", "s2"), wait("e3", "s1"), writes("t1", "s1", "t1 last"), writes("t2", "s1", "t2 last"),
        ],
    ),
    Case(
        "CS14 record_override",
        [
            reads("t1", "s1"), reads("t2", "s2"), record("e1", "s1"), record("e1", "s2"),
            wait("e1", "s3"), writes("t1", "s3"),
        ],
        [("R t1@s1", "W t1@s3", RACE)],
    ),
    Case(
        "CS15 multiple_wait",
        [
            writes("t1", "s1"), record("e1", "s1"), wait("e1", "s2"), wait("e1", "s3"),
            reads("t1", "s2"), reads("t1", "s3"),
        ],
    ),
    Case(
        "CS16 device_synchronize",
        [*(writes(f"t{i}", f"s{i}") for i in _MANY), sync_device(), *(writes(f"t{i}", "s0") for i in _MANY)],
    ),
    Case(
        "CS17 device_sync_expired",
        [writes("t1", "s1"), sync_device(), writes("t1", "s1", "again"), writes("t1", "s2")],
        [("again", "W t1@s2", RACE)],
    ),
    Case(
        "CS18 new_stream_is_synchronized",
        [writes("t1", "s1"), sync_device(), {"op": "create_stream", "name": "s2"}, writes("t1", "s2")],
    ),
    Case(
        "CS19 stream_synchronize",
        [
            writes("t1", "s0"), writes("t2", "s1"), sync("s0"),
            reads("t1", "s2"), reads("t1", "s3"), reads("t2", "s4"),
        ],
        [("W t2@s1", "R t2@s4", RACE)],
    ),
    Case(
        "CS20 event_synchronize",
        [
            writes("t1", "s1"), record("e1", "s1"), writes("t2", "s1"), sync_event("e1"),
            writes("t1", "s2"), writes("t2", "s2"),
        ],
        [("W t2@s1", "W t2@s2", RACE)],
    ),
]  # fmt: skip
