"""TK01 to TK04: what tasks of one event loop know from one another. A task "b" that waits begins first."""

from tests.sanitizer.cases.case import (
    RACE,
    Case,
    Step,
    copy,
    host_reads,
    host_writes,
    kernel,
    reads,
    record,
    sync,
    writes,
)

_BEGIN: Step = {"op": "host_work", "us": 1, "task": "b"}


def _of_b(step: Step, after: int | None = None) -> Step:
    return step | {"task": "b"} | ({} if after is None else {"after": after})


CASES = [
    Case(
        "TK01 a task waits for another one that has synchronised",
        [_BEGIN, writes("t1", "s1"), sync("s1"), _of_b(reads("t1", "s2"), after=2)],
    ),
    Case(
        "TK01 without a wait",
        [writes("t1", "s1"), sync("s1"), _of_b(reads("t1", "s2"))],
        [("W t1@s1", "R t1@s2", RACE)],
    ),
    Case("TK02 the host of two tasks", [_BEGIN, host_writes("p1"), _of_b(host_reads("p1"), after=1)]),
    Case(
        "TK02 without a wait",
        [host_writes("p1"), _of_b(host_reads("p1"))],
        [("host W p1", "host R p1", RACE)],
    ),
    Case(
        "TK03 a stream that both tasks use hands on what one of them did",
        [host_writes("p1"), kernel("s1"), sync("s2"), _of_b(copy("t1", "p1", "s1"))],
    ),
    Case(
        "TK03 another stream does not",
        [host_writes("p1"), kernel("s1"), sync("s2"), _of_b(copy("t1", "p1", "s2"))],
        [("host W p1", "copy t1<-p1@s2", RACE)],
    ),
    Case(
        "TK03 a record on the legacy stream hands it on to blocking streams",
        [host_writes("p1"), record("e1", "legacy"), _of_b(copy("t1", "p1", "s1"), after=1)],
    ),
    Case(
        "TK04 what a task has waited for, another task does not know",
        [writes("p1", "s1"), sync("s1"), host_reads("p1") | {"id": "own"}, _of_b(host_reads("p1"))],
        [("W p1@s1", "host R p1", RACE)],
    ),
]
