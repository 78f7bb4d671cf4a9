"""A rank that comes late to collectives: the finding, and the critical path, which goes through that rank."""

from bisect import bisect_right

import numpy as np
import pytest
from histories import busy

import acl_py as acl
from acl_py.causes.findings import Pitfall, findings
from acl_py.causes.lines import by_line
from acl_py.causes.path import critical_path
from acl_py.explain.prices import prices
from acl_py.explain.recordings import asker_of
from device_model.profile import load

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
        "Give rank 2 less work before it: it waited for long (test_late_ranks.py:30)",
    )
    assert late.often == ", 3 times"
    assert late.held_ns == sum(end - begin for begin, end in late.waits)
    assert 3 * 350_000 < late.held_ns < 3 * 450_000


def test_a_rank_that_the_host_serves_late_is_one_too():
    timeline = recorded([None, None], late_us=200.0)
    [late] = findings(timeline)
    assert late.waits == waits_for(timeline, 1)
    assert late.text == (
        "test_late_ranks.py:33: rank 1 of comm 'data parallel' is late: the others wait in AllReduce 1, "
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


def priced(timeline):
    return prices(asker_of(timeline, "run"), timeline)


def test_its_price_is_a_run_in_which_the_late_rank_comes_with_the_others():
    before = recorded([short, short, long, short])
    [late] = priced(before)
    [(since, start)] = late.finding.waits
    faster = busy("long", 500 - (start - since) / 1000)
    after = asker_of(recorded([short, short, faster, short]), "run")
    assert late.answer.after_ns == after.before_ns
    assert late.text == f"{late.finding.text}. Worth {late.answer.gain_ns / 1000:,.1f} us of {worked(late):,.1f} us."
    assert 0 < late.answer.gain_ns <= late.finding.held_ns
    [note] = [note for note in late.answer.notes if "late" in note]
    assert note.startswith("how the late rank could do its work faster")


def worked(late):
    return late.answer.worked_ns[0] / 1000


def test_all_rounds_and_the_work_of_the_host_count():
    [late] = priced(recorded([short, short, long, short], 3))
    assert late.finding.held_ns == pytest.approx(late.answer.gain_ns, rel=0.01)
    [late] = priced(recorded([None, None], late_us=200.0))
    assert late.answer.gain_ns == 200_000


def behind(*works, nbytes=1 << 24):
    """Two ranks meet in a Barrier. Rank 0 copies 4 MiB before, rank 1 does *works*: copies of *nbytes*, fills."""

    async def main():
        ranks = []
        for device, comm in enumerate(await acl.CommInitAll(2)):
            await acl.SetDevice(device)
            ranks.append((comm, await acl.CreateStream(), await acl.Malloc(1 << 28), await acl.MallocHost(1 << 24)))
        for device, (comm, stream, memory, host) in enumerate(ranks):
            await acl.SetDevice(device)
            for work in works if device else ("copy",):
                if work == "copy":
                    size = nbytes if device else 1 << 22
                    await acl.MemcpyAsync(memory, size, host, size, acl.MemcpyKind.HOST_TO_DEVICE, stream)
                else:
                    await acl.MemsetAsync(memory, 1 << 28, 0, 1 << 28, stream)
            await acl.Barrier(comm, stream)
        for device in range(2):
            await acl.SetDevice(device)
            await acl.SynchronizeDevice()
        return acl.current_simulation().trace.timeline()

    return acl.run(main, device="h200")


def test_a_rank_that_is_late_because_of_a_copy_has_the_price_of_a_smaller_one():
    timeline = behind("copy")
    [late] = priced(timeline)
    [(since, start)] = late.finding.waits
    curve = load("h200").copies.h2d
    most = curve[1 << 24] - (start - since)
    fewer = bisect_right(range(1 << 24), most, key=lambda nbytes: curve[nbytes]) - 1
    assert curve[fewer] <= most < curve[fewer + 64]
    after = asker_of(behind("copy", nbytes=fewer), "run").before_ns
    assert late.answer.gain_ns == pytest.approx(asker_of(timeline, "run").before_ns - after, abs=2)
    assert 0 < late.answer.gain_ns <= late.finding.held_ns


def test_of_several_copies_the_last_ones_become_shorter():
    [late] = priced(behind("copy", "copy", "copy"))
    assert late.answer.gain_ns == pytest.approx(late.finding.held_ns, rel=0.03)


def test_a_rank_that_is_late_because_of_a_fill_has_a_bound():
    [late] = priced(behind("fill", "fill", "fill"))
    assert late.worth == f"Worth {late.finding.held_ns / 1000:,.1f} us at most."
    assert not late.is_minor
    assert late.problem == "the late rank has waited for nothing that could be shorter"


async def hands_on(*kernels, nbytes=1 << 25):
    """Rank 0 sends to rank 1; each has its kernel before."""
    ranks = []
    for device, comm in enumerate(await acl.CommInitAll(2, name="pair")):
        await acl.SetDevice(device)
        ranks.append((comm, await acl.CreateStream(), await acl.Malloc(nbytes)))
    for device, (kernel, (comm, stream, memory)) in enumerate(zip(kernels, ranks, strict=True)):
        await acl.SetDevice(device)
        await kernel[1, stream]()
        call = acl.Recv if device else acl.Send
        await call(memory, nbytes, "uint8", 1 - device, comm, stream)
    for device in range(2):
        await acl.SetDevice(device)
        await acl.SynchronizeDevice()
    return acl.current_simulation().trace.timeline()


@pytest.mark.parametrize(
    ("kernels", "late", "other", "kind"), [((long, short), 0, 1, "Recv"), ((short, long), 1, 0, "Send")]
)
def test_a_late_send_and_a_late_recv_are_findings(kernels, late, other, kind):
    timeline = acl.run(hands_on, *kernels, device="h200")
    [found] = findings(timeline)
    parts = {op.device: op for op in timeline.ops if op.kind == "collective"}
    assert found.what == f"rank {late} of comm 'pair' is late: rank {other} waits in {kind} 1"
    assert found.waits == [(parts[other].start_ns, parts[late].start_ns)]
    path = critical_path(timeline)
    assert {timeline.ops[part.op].device for part in path if part.op is not None} == {late}


async def small(*kernels):
    return await hands_on(*kernels, nbytes=1 << 12)


def test_a_send_that_does_not_wait_makes_no_rank_late():
    assert findings(acl.run(small, short, long, device="h200")) == []
