"""A rank that comes late to collectives: the finding, and the critical path, which goes through that rank."""

import numpy as np
import pytest
from histories import busy

import acl_py as acl
from acl_py.causes.findings import Pitfall, findings
from acl_py.causes.lines import by_line
from acl_py.causes.path import critical_path
from acl_py.explain.prices import prices, prices_text
from acl_py.explain.recordings import case_of
from acl_py.explain.whatif import Asker

short, long = busy("short", 100), busy("long", 500)


async def steps(kernels, rounds=1, *, late_us=0.0):
    """In each round each rank does its kernel, and all reduce 16 KiB; the host is late for the last one."""
    lanes = []
    for device, comm in enumerate(await acl.CommInitAll(len(kernels), name="data parallel")):
        await acl.SetDevice(device)
        lanes.append((comm, await acl.CreateStream(), acl.Array(await acl.Malloc(1 << 14), np.float32)))
    for _ in range(rounds):
        for device, (kernel, (comm, stream, array)) in enumerate(zip(kernels, lanes, strict=True)):
            await acl.SetDevice(device)
            if kernel is not None:
                await kernel[1, stream]()
            if device == len(lanes) - 1 and late_us:
                await acl.HostWork(late_us)
            await acl.AllReduce(array, array, None, None, acl.ReduceOp.SUM, comm, stream)
    for device in range(len(lanes)):
        await acl.SetDevice(device)
        await acl.SynchronizeDevice()


def recorded(*args, **options):
    async def main():
        await steps(*args, **options)
        return acl.current_simulation().trace.timeline()

    return acl.run(main, device="h200")


def waits_for(timeline, rank):
    """When the last of the others, and *rank*, had their turn in each round."""
    parts = [op for op in timeline.ops if op.kind == "collective"]
    ends = sorted({op.end_ns for op in parts})
    rounds = [{op.device: op.start_ns for op in parts if op.end_ns == end} for end in ends]
    return [(max(start for device, start in each.items() if device != rank), each[rank]) for each in rounds]


def test_a_rank_with_more_work_is_a_finding_with_its_work():
    timeline = recorded([short, short, long, short], 3)
    [late] = findings(timeline)
    assert late.waits == waits_for(timeline, 2)
    assert (late.pitfall, late.what, late.edit) == (
        Pitfall.LATE_RANK,
        "rank 2 of comm 'data parallel' is late: the others wait in AllReduce 1 to 3",
        "Give rank 2 less work before it: it waited for long (test_late_ranks.py:28)",
    )
    assert late.often == ", 3 times"
    assert late.held_ns == sum(end - begin for begin, end in late.waits)
    assert 3 * 350_000 < late.held_ns < 3 * 450_000


def test_a_rank_that_the_host_serves_late_is_one_too():
    timeline = recorded([None, None], late_us=200.0)
    [late] = findings(timeline)
    assert late.waits == waits_for(timeline, 1)
    assert late.text == (
        "test_late_ranks.py:31: rank 1 of comm 'data parallel' is late: the others wait in AllReduce 1, "
        f"for {late.held_ns / 1000:,.1f} us. Queue it earlier on rank 1"
    )


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_ranks_whose_calls_one_task_makes_in_turn_are_not_late(ranks):
    assert findings(recorded([short] * ranks, 3)) == []


def test_the_critical_path_goes_through_the_rank_that_came_last():
    timeline = recorded([short, short, long, short], 3)
    path = critical_path(timeline)
    on_path = [timeline.ops[part.op] for part in path if part.op is not None]
    assert {op.device for op in on_path} == {2}
    lines = {next(iter(line.names), ""): line for line in by_line(timeline, path)}
    work, reduce, host = lines.pop("short"), lines.pop("AllReduce"), lines.values()
    assert (work.names, work.ranks, work.ranks_text) == ({"short": 9, "long": 3}, {2}, "rank 2")
    assert (reduce.names, reduce.ranks) == ({"AllReduce": 12}, {2})
    assert all(line.ranks == set() for line in host)


def test_a_report_has_the_finding_with_its_bound():
    timeline = recorded([short, long])
    asker = Asker(case_of(timeline, "run"))
    text = prices_text(prices(asker, timeline), ())
    [late] = findings(timeline)
    assert text.splitlines() == ["findings: 1", f"  {late.text}. Worth {late.held_ns / 1000:,.1f} us at most."]
