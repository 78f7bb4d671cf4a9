"""What a test may ask of a run that it has made ready first: which share overlaps, and its time from then on."""

import numpy as np
import pytest

import acl_py as acl
from acl_py import MemcpyKind

HALF, BATCHES = 1 << 20, 4


@acl.kernel(cost=acl.Cost(us=60))
def square(x: acl.InOut):
    x *= x


async def batches(streams):
    """Copy and square BATCHES times, in *streams* in turn; the host memory is pinned before."""
    hosts = [await acl.MallocHost(HALF) for _ in range(BATCHES)]
    devices = [acl.Array(await acl.Malloc(HALF), np.float32) for _ in range(BATCHES)]
    made = [await acl.CreateStream() for _ in range(streams)]
    begin_us = acl.current_simulation().now_ns / 1000
    for number, (host, device) in enumerate(zip(hosts, devices, strict=True)):
        stream = made[number % streams]
        await acl.MemcpyAsync(device, HALF, host, HALF, MemcpyKind.HOST_TO_DEVICE, stream)
        await square[1, stream](device)
    await acl.SynchronizeDevice()
    return begin_us


@pytest.mark.acl(device="h200")
def test_an_exercise_asks_for_the_share_of_the_copies_that_kernels_hide(acl_sim):
    acl_sim.run(batches, 2)
    timeline = acl_sim.simulation.trace.timeline()
    copies = [(op.start_ns, op.end_ns) for op in timeline.ops if op.kind == "h2d"]
    kernels = [(op.start_ns, op.end_ns) for op in timeline.ops if op.kind == "kernel"]
    both = sum(any(b <= at < e for b, e in kernels) for begin, end in copies for at in range(begin, end, 10)) * 10
    share = both / sum(end - begin for begin, end in copies)
    assert 0.4 < share < 0.95
    acl_sim.assert_overlaps("h2d", "square", share=share - 0.01)
    with pytest.raises(AssertionError) as failed:
        acl_sim.assert_overlaps("h2d", "square", share=share + 0.01)
    assert str(failed.value).splitlines()[0] == (
        f"'h2d' and 'square' run at the same time for {100 * share:.1f} % of the time of 'h2d', "
        f"not for {100 * (share + 0.01):g} %:"
    )


@pytest.mark.acl(device="h200")
def test_one_operation_with_both_names_does_not_run_beside_itself(acl_sim):
    acl_sim.run(batches, 2)
    kernels = [(op.start_ns, op.end_ns) for op in acl_sim.simulation.trace.timeline().ops if op.kind == "kernel"]
    running = [sum(begin <= at < end for begin, end in kernels) for at in range(kernels[0][0], kernels[-1][1], 10)]
    share = sum(number > 1 for number in running) / sum(number > 0 for number in running)
    assert 0 < share < 0.9
    acl_sim.assert_overlaps("kernel", "square", share=share - 0.01)
    with pytest.raises(AssertionError, match=rf"^'kernel' and 'square' run at the same time for {100 * share:.1f} %"):
        acl_sim.assert_overlaps("kernel", "square", share=share + 0.01)
    with pytest.raises(ValueError, match="share must be a number from 0 to 1, not 50"):
        acl_sim.assert_overlaps("h2d", "square", share=50)


@pytest.mark.acl(device="h200")
def test_what_a_test_makes_ready_first_does_not_count(acl_sim):
    begin_us = acl_sim.run(batches, 2)
    end_us = acl_sim.now_us
    assert begin_us > 1000
    acl_sim.assert_within_us(end_us - begin_us + 0.001, since_us=begin_us)
    acl_sim.assert_time(round(end_us - begin_us, 3), since_us=begin_us)
    with pytest.raises(AssertionError, match=rf"^the run from {begin_us:,.1f} us on took .* us more than 100\n"):
        acl_sim.assert_within_us(100, since_us=begin_us)
    with pytest.raises(AssertionError) as failed:
        acl_sim.assert_within_us(1000)
    first_us = min(op.queued_ns for op in acl_sim.simulation.trace.timeline().ops) / 1000
    said = str(failed.value).splitlines()[0]
    assert said.startswith(f"the run took {end_us:,.1f} us, ")
    assert said.endswith(f"; nothing was queued in the first {first_us:,.1f} us: with since_us= they do not count")
    for wrong_us in (-1, begin_us * 1000, float("nan")):  # nothing would take too long from there on
        with pytest.raises(ValueError, match=rf"^since_us must be in the run, from 0 to {end_us:,.3f} us, not "):
            acl_sim.assert_within_us(100, since_us=wrong_us)
    acl_sim.assert_time(0, since_us=end_us)
