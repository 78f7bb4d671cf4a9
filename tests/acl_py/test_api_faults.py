"""Fault rules through the API: what they strike, what the error says, and that they leave no trace when they end."""

import asyncio
import re

import numpy as np
import pytest
from histories import busy, calls, history, state, tiny

import acl_py as acl
from acl_py import faults

A, B = busy("A", 10), busy("B", 10)
N = 4096


async def failure(verb, *args):
    with pytest.raises(acl.AclError) as caught:
        await verb(*args)
    return caught.value


# --- calls


@tiny
async def test_the_nth_call_of_a_kind_fails_and_changes_nothing():
    sim = acl.current_simulation()
    with sim.fault(faults.fail(call="Malloc", nth=2, kind=acl.Kind.OUT_OF_MEMORY)) as rule:
        await acl.Malloc(64)
        before = state(sim)
        error = await failure(acl.Malloc, 64)
        assert state(sim) == before
        await acl.Malloc(64)
    assert (error.kind, error.code, rule.seen, rule.struck) == (acl.Kind.OUT_OF_MEMORY, 2, 3, 1)
    assert re.search(r"Malloc\(\) failed: injected by fault rule fail\(.*\) made at test_api_faults.py:\d+", str(error))


@pytest.mark.parametrize("verb", ["SetOpWaitTimeOut", "SetOpExecuteTimeOut"])
@tiny(rules="acl")
async def test_a_limit_that_is_refused_is_not_set(verb):
    sim = acl.current_simulation()
    with sim.fault(faults.fail(call=verb, code=507899)) as rule:
        error = await failure(getattr(acl, verb), 1)
    assert (error.code, rule.seen, rule.struck, repr(rule) in str(error)) == (507899, 1, 1, True)
    event, stream = await acl.CreateEventWithFlag(acl.EventFlag.SYNC), await acl.CreateStream()
    await acl.StreamWaitEvent(stream, event)  # longer than the limit that was refused
    await acl.HostWork(1.5e6)
    await acl.RecordEvent(event)
    await acl.LaunchKernel(busy("long", 2e6), 1, (), stream)
    await acl.SynchronizeStream(stream)


@tiny
async def test_a_code_of_either_vendor_may_be_given():
    with acl.current_simulation().fault(faults.fail(call="Create*", code=507899)):
        error = await failure(acl.CreateStream)
    assert (error.code, error.name) == (507899, "ACL_ERROR_RT_DRV_INTERNAL_ERROR")
    assert await acl.GetLastError() == 507899


@pytest.mark.parametrize(
    "verb", ["MemcpyAsync", "LaunchKernel", "RecordEvent", "StreamWaitEvent", "SetDevice", "HostWork"]
)
@tiny
async def test_every_kind_of_verb_can_be_struck(verb):
    sim = acl.current_simulation()
    device, host, event = await acl.Malloc(N), await acl.MallocHost(N), await acl.CreateEvent()
    args = {
        "MemcpyAsync": (device, N, host, N, acl.MemcpyKind.DEFAULT), "LaunchKernel": (A, 1), "RecordEvent": (event,),
        "StreamWaitEvent": (None, event), "SetDevice": (0,), "HostWork": (5,),
    }[verb]  # fmt: skip
    with sim.fault(faults.fail(call=verb)) as rule:
        before = state(sim)
        assert verb in str(await failure(getattr(acl, verb), *args))
        assert (state(sim), rule.struck) == (before, 1)
    await getattr(acl, verb)(*args)
    await acl.SynchronizeDevice()


@pytest.mark.parametrize("verb", ["StreamGetPriority", "GetEventTimestamp"])
@tiny
async def test_a_call_that_is_delayed_until_its_context_has_failed_is_refused(verb):
    sim, stream, event = acl.current_simulation(), await acl.CreateStream(), await acl.CreateEvent()
    with sim.fault(faults.fail(op="kernel", code=214), faults.delay(50, call=verb)):
        await acl.LaunchKernel(A, 1, (), stream)
        error = await failure(getattr(acl, verb), stream if verb == "StreamGetPriority" else event)
    assert error.code == 214


@tiny
async def test_a_call_that_is_delayed_takes_longer():
    sim = acl.current_simulation()
    begin = sim.now_ns
    with sim.fault(faults.delay(5, call="LaunchKernel")):
        await acl.LaunchKernel(A, 1)
    assert sim.now_ns - begin == 6_000


@tiny
async def test_out_of_memory_beyond_so_many_bytes():
    sim = acl.current_simulation()
    first = await acl.Malloc(1 << 20)
    free = (await acl.GetMemInfo())[0]
    with sim.fault(faults.out_of_memory(beyond=1 << 20)):
        assert (await failure(acl.Malloc, 64)).kind is acl.Kind.OUT_OF_MEMORY
        assert (await acl.GetMemInfo())[0] == free
        await acl.Free(first)
        await acl.Malloc(64)


@tiny
async def test_beyond_looks_at_what_is_asked_for_and_names_the_rule():
    sim = acl.current_simulation()
    with sim.fault(faults.out_of_memory(beyond=1024)) as rule:
        kept = [await acl.Malloc(512)]
        before = state(sim)
        for verb in (acl.Malloc, acl.MallocAsync):
            error = await failure(verb, 513)
            assert (error.kind, repr(rule) in str(error)) == (acl.Kind.OUT_OF_MEMORY, True)
            assert state(sim) == before
        kept.append(await acl.MallocAsync(512))
        await acl.MallocHost(4096)  # of the host, not of the device
    assert rule.struck == 2
    kept.append(await acl.Malloc(513))


@tiny
async def test_a_code_stands_for_the_kind_that_has_it():
    with acl.current_simulation().fault(faults.fail(call="Malloc", code=2)):
        assert (await failure(acl.Malloc, 64)).kind is acl.Kind.OUT_OF_MEMORY


# --- operations


@tiny
async def test_an_operation_that_fails_is_a_failure_of_its_context():
    sim, stream = acl.current_simulation(), await acl.CreateStream()
    begin = sim.now_ns
    with sim.fault(faults.fail(op="kernel", name="B")):
        await acl.LaunchKernel(A, 1, (), stream)
        await acl.LaunchKernel(B, 1, (), stream)
        error = await failure(acl.SynchronizeStream, stream)
    assert ("<B on stream 1" in str(error), "fail(op='kernel', name='B') made at" in str(error)) == (True, True)
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 11_000, 21_000)]
    assert (await failure(acl.LaunchKernel, A, 1)).kind is acl.Kind.UNKNOWN  # sticky, as a real failure
    await acl.ResetDevice(0)
    await acl.LaunchKernel(A, 1)
    await acl.SynchronizeDevice()


@pytest.mark.parametrize("op", ["h2d", "d2h", "d2d", "fill", "kernel", "host_function"])
@tiny(rules="acl")
async def test_every_kind_of_operation_can_fail_with_any_kind_of_failure(op):
    stream, device, host = await acl.CreateStream(), await acl.Malloc(N), await acl.MallocHost(N)

    async def queue():
        ends = {"h2d": (device, host), "d2h": (host, device), "d2d": (device + 64, device)}.get(op)
        if ends:
            await acl.MemcpyAsync(ends[0], 64, ends[1], 64, acl.MemcpyKind.DEFAULT, stream)
        elif op == "fill":
            await acl.MemsetAsync(device, N, 1, N, stream)
        elif op == "kernel":
            await acl.LaunchKernel(A, 1, (), stream)
        else:
            await acl.LaunchHostFunc(stream, lambda: None, us=1)

    for kind in (acl.Kind.ECC_ERROR, acl.Kind.LAUNCH_FAILURE, acl.Kind.ILLEGAL_ADDRESS):
        with acl.current_simulation().fault(faults.fail(op=op, kind=kind)) as rule:
            await queue()
            error = await failure(acl.SynchronizeStream, stream)
        assert (error.kind, rule.struck, repr(rule) in str(error)) == (kind, 1, True)
    await queue()
    await acl.SynchronizeStream(stream)


@tiny
async def test_an_operation_that_is_delayed_starts_later():
    sim, stream = acl.current_simulation(), await acl.CreateStream()
    begin = sim.now_ns
    with sim.fault(faults.delay(7, op="kernel", every=2)):
        for _ in range(2):
            await acl.LaunchKernel(A, 1, (), stream)
    await acl.SynchronizeStream(stream)
    assert history(sim, begin) == [("A", 1_000, 11_000), ("A", 11_000, 21_000)]  # it had to wait anyway
    begin = sim.now_ns
    with sim.fault(faults.delay(7, op="kernel", stream=stream.name)):
        await acl.LaunchKernel(A, 1, (), stream)
    await acl.SynchronizeStream(stream)
    assert history(sim, begin) == [("A", 8_000, 18_000)]


@tiny
async def test_a_hang_is_a_deadlock_that_names_the_rule_or_a_time_out():
    sim, stream, other = acl.current_simulation(), await acl.CreateStream(), await acl.CreateStream()
    with sim.fault(faults.hang(op="kernel", nth=1)) as rule:
        await acl.LaunchKernel(A, 1, (), stream)
    with pytest.raises(acl.DeadlockError) as caught:
        await acl.SynchronizeStream(stream)
    assert repr(rule) in caught.value.chain[-1]
    assert "remove the fault rule, or ResetDevice()" in str(caught.value)
    assert repr(rule) in str(await failure(acl.SynchronizeStreamWithTimeout, stream, 1))
    await acl.LaunchKernel(B, 1, (), other)
    await acl.SynchronizeStream(other)
    await acl.ResetDevice(0)
    for _ in range(sim.runtime.profile.queues.compute):  # no hardware queue is blocked any more
        await acl.LaunchKernel(A, 1, (), await acl.CreateStream())
    await acl.SynchronizeDevice()


@tiny
async def test_a_corrupted_copy_leaves_one_wrong_byte():
    sim, device, host = acl.current_simulation(), await acl.Malloc(N), await acl.MallocHost(N)
    host.numpy()[:] = 7
    with sim.fault(faults.corrupt(op="h2d")):
        await acl.MemcpyAsync(device, N, host, N, acl.MemcpyKind.DEFAULT)
        await acl.SynchronizeDevice()
    out = np.zeros(N, np.uint8)
    await acl.Memcpy(out, N, device, N, acl.MemcpyKind.DEFAULT)
    assert np.flatnonzero(out != 7).tolist() == [N // 2]
    assert out[N // 2] == 7 ^ 0xFF


@tiny(rules="acl")
async def test_an_ecc_error_strikes_who_touches_the_memory():
    sim, stream, bad, good = (
        acl.current_simulation(),
        await acl.CreateStream(),
        await acl.Malloc(N),
        await acl.Malloc(N),
    )
    with sim.fault(faults.ecc_error(bad[64:128])):
        for memory in (good, bad[:64], bad[128:]):
            await acl.MemsetAsync(memory, memory.nbytes, 1, memory.nbytes, stream)
        await acl.SynchronizeStream(stream)
        await acl.MemsetAsync(bad, N, 1, 65, stream)
        error = await failure(acl.SynchronizeStream, stream)
    assert (error.kind, error.code) == (acl.Kind.ECC_ERROR, 507054)


@pytest.mark.parametrize("rules", ["cuda", "acl"])
def test_a_lost_device_fails_everything_until_it_is_reset(rules):
    async def main():
        sim = acl.current_simulation()
        with sim.fault(faults.lose_device(op="kernel", nth=2)) as rule:
            await acl.LaunchKernel(A, 1)
            await acl.LaunchKernel(A, 1)
            for verb, args in ((acl.LaunchKernel, (A, 1)), (acl.SynchronizeDevice, ()), (acl.Malloc, (64,))):
                error = await failure(verb, *args)
                assert (error.kind, repr(rule) in str(error)) == (acl.Kind.DEVICE_LOST, True)
        await acl.ResetDevice(0)
        await acl.SetDevice(0)
        await acl.LaunchKernel(A, 1)
        await acl.SynchronizeDevice()

    acl.run(main, device="tiny", rules=rules)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"device": -1}, r"lose_device\(device=-1\): device must be the number of a device, from 0 on, not -1"),
        ({"device": "3"}, "device must be the number of a device, from 0 on, not '3'"),
        ({"device": 0, "call": "Malloc"}, "give since_us= or nothing with the number of a device, which is lost then"),
        ({"device": 0, "since_us": -1}, "since_us"),
    ],
)
def test_a_device_to_lose_is_a_number_and_perhaps_a_time(arguments, message):
    with pytest.raises(faults.FaultError, match=message):
        faults.lose_device(**arguments)


@pytest.mark.parametrize(
    "rule", ["fail call=Malloc since_us=5 until_us=3", "slow engine=H2D factor=2 since_us=5 until_us=5",
             "slow_link device=0 factor=2 until_us=0"],
)  # fmt: skip
def test_a_rule_that_would_end_before_it_begins_is_refused(rule):
    with pytest.raises(faults.FaultError, match=r"until_us must be more than since_us, which is \d, and not \d"):
        faults.parse(rule)


@tiny
async def test_a_device_is_lost_at_a_time_unless_the_rule_is_gone_by_then():
    sim = acl.current_simulation()
    with sim.fault(faults.parse("lose_device device=0 since_us=1000")):
        pass
    await acl.HostWork(2_000)
    await acl.SynchronizeDevice()
    with sim.fault(faults.lose_device(0, since_us=3_000)) as rule:
        await acl.SynchronizeDevice()
        await acl.HostWork(3_000)
        assert (await failure(acl.SynchronizeDevice)).kind is acl.Kind.DEVICE_LOST
    assert rule.struck == 1
    await acl.ResetDevice(0)


@tiny
async def test_a_device_that_is_not_there_cannot_be_lost():
    with pytest.raises(acl.AclError, match="there is no device 9"):
        acl.current_simulation().fault(faults.lose_device(9))


@pytest.mark.parametrize(
    ("engine", "expected"),
    [("H2D", (8_192, 4_096, 10_000)), ("D2H", (4_096, 8_192, 10_000)), ("cores", (4_096, 4_096, 20_000))],
)
@tiny
async def test_a_slow_engine(engine, expected):
    sim, device, host = acl.current_simulation(), await acl.Malloc(N), await acl.MallocHost(N)

    async def durations():
        begin = sim.now_ns
        await acl.MemcpyAsync(device, N, host, N, acl.MemcpyKind.DEFAULT)
        await acl.MemcpyAsync(host, N, device, N, acl.MemcpyKind.DEFAULT)
        await acl.LaunchKernel(A, 1)
        await acl.SynchronizeDevice()
        return tuple(end - start for _, start, end in history(sim, begin))

    with sim.fault(faults.slow(engine, 2)):
        assert await durations() == expected
    assert await durations() == (4_096, 4_096, 10_000)


@tiny
async def test_a_slow_engine_for_a_time_beside_others_and_other_rules():
    sim = acl.current_simulation()
    now = sim.now_ns / 1000
    until = sim.fault(faults.slow("cores", 2, since_us=now + 100, until_us=now + 200))
    always = sim.fault(faults.slow("cores", 3))
    with sim.fault(faults.fail(op="kernel", nth=3)) as fails:
        for _ in range(3):
            await acl.LaunchKernel(A, 1)
            await acl.SynchronizeStream() if fails.seen < 3 else await failure(acl.SynchronizeStream)
            await acl.HostWork(100)
    assert [op.end_ns - op.start_ns for op in sim.trace.ops] == [30_000, 60_000, 30_000]
    until.remove()  # not the one that came last
    await acl.ResetDevice(0)
    await acl.LaunchKernel(A, 1)
    await acl.SynchronizeDevice()
    assert (sim.trace.ops[-1].end_ns - sim.trace.ops[-1].start_ns, always.rules[0].struck) == (30_000, 4)
    always.remove()
    device = sim.runtime.device(0)
    assert type(device.cores.copy_time) is type(sim.runtime.profile.copies.d2d)
    assert sim.runtime.faults.rules == []


@pytest.mark.parametrize("first", ["cuda", "acl"])
def test_only_the_device_that_is_struck_is_lost_and_what_it_runs_has_no_effect(first):
    async def main():
        sim, device = acl.current_simulation(), await acl.Malloc(64)
        other = sim.runtime.device(1)
        host = await acl.MallocHost(64)
        host.numpy()[:] = 1
        await acl.LaunchKernel(acl.kernel(cost=acl.Cost(us=50))(lambda x: x.fill(7)), 1, (host,))
        with sim.fault(faults.lose_device(call="GetMemInfo")):
            assert (await failure(acl.GetMemInfo)).kind is acl.Kind.DEVICE_LOST
            assert (await failure(acl.SynchronizeDevice)).kind is acl.Kind.DEVICE_LOST
        assert other.primary.error is None
        await acl.HostWork(100)
        assert (host.numpy() == 1).all()
        await acl.ResetDevice(0)
        await acl.SetDevice(1)
        await acl.LaunchKernel(A, 1)
        await acl.SynchronizeDevice()
        assert device.allocation.freed is not None

    acl.run(main, device="h200", rules=first)


@tiny
async def test_who_waits_for_a_hang_is_told_when_the_device_is_lost():
    sim, stream = acl.current_simulation(), await acl.CreateStream()
    with sim.fault(faults.hang(op="kernel", nth=1), faults.lose_device(call="StreamQuery")):
        await acl.LaunchKernel(A, 1, (), stream)
        waiting = asyncio.create_task(acl.SynchronizeStream(stream))
        await asyncio.sleep(0)
        assert (await failure(acl.StreamQuery, stream)).kind is acl.Kind.DEVICE_LOST
        with pytest.raises(acl.AclError, match="lose_device"):
            await waiting


@tiny(rules="acl")
async def test_an_aborted_stream_does_not_hang_any_more():
    sim, stream = acl.current_simulation(), await acl.CreateStream()
    with sim.fault(faults.hang(op="kernel", nth=1)):
        await acl.LaunchKernel(A, 1, (), stream)
    await acl.StreamAbort(stream)
    assert (await failure(acl.SynchronizeStream, stream)).kind is acl.Kind.STREAM_ABORTED
    await acl.LaunchKernel(A, 1, (), stream)
    await acl.SynchronizeStream(stream)


@tiny
async def test_the_chunks_of_staged_copies_are_operations_too():
    sim, device = acl.current_simulation(), await acl.Malloc(1 << 16)
    with sim.fault(faults.fail(op="h2d", nth=3, kind=acl.Kind.ECC_ERROR)) as rule:
        error = await failure(acl.Memcpy, device, 1 << 16, np.zeros(1 << 16, np.uint8), 1 << 16, acl.MemcpyKind.DEFAULT)
    assert (error.kind, rule.struck) == (acl.Kind.ECC_ERROR, 1)


# --- rules


@tiny
async def test_the_first_verdict_wins_and_all_asked_have_counted():
    sim = acl.current_simulation()
    first, second = faults.fail(call="Malloc", nth=2, code=1), faults.fail(call="Malloc", nth=2, code=2)
    with sim.fault(first), sim.fault(second) as rule:
        await acl.Malloc(64)
        assert (await failure(acl.Malloc, 64)).code == 1
        assert (rule.seen, rule.struck) == (1, 0)
        assert (await failure(acl.Malloc, 64)).code == 2  # its own second one


@tiny
async def test_times_bound_a_rule():
    sim = acl.current_simulation()
    now = sim.now_ns / 1000
    with sim.fault(faults.fail(call="CreateStream", since_us=now + 10, until_us=now + 20)) as rule:
        await acl.CreateStream()
        await acl.HostWork(10)
        await failure(acl.CreateStream)
        await acl.HostWork(10)
        await acl.CreateStream()
    assert rule.struck == 1


@pytest.mark.parametrize("seed", [0, 1])
def test_chance_is_the_simulations_own(seed):
    def run():
        async def main():
            struck = []
            with acl.current_simulation().fault(faults.fail(call="CreateStream", chance=0.5)) as rule:
                for _ in range(20):
                    try:
                        await acl.CreateStream()
                    except acl.AclError:
                        struck.append(rule.seen)
            return struck

        return acl.run(main, device="tiny", seed=seed)

    assert run() == run()
    assert 0 < len(run()) < 20


@tiny
async def test_rules_end_with_their_block_and_nothing_is_left():
    sim = acl.current_simulation()

    async def times():
        begin = sim.now_ns
        await acl.LaunchKernel(A, 1)
        await acl.SynchronizeDevice()
        return calls(sim, begin), history(sim, begin)

    before = await times()
    with (
        pytest.raises(ZeroDivisionError),
        sim.fault(faults.fail(call="Free"), faults.delay(1, op="d2h"), faults.slow("D2H", 3)),
    ):
        raise ZeroDivisionError
    assert await times() == before
    assert (sim.runtime.faults.rules, "submit" in vars(sim.runtime)) == ([], False)


@tiny
async def test_a_guard_can_be_kept_and_removed_by_hand():
    sim = acl.current_simulation()
    guard = sim.fault(faults.fail(call="Malloc"), faults.delay(3, call="Malloc*"))
    await failure(acl.Malloc, 64)
    assert repr(guard) == ("<Guard of fail(call='Malloc'), struck 1 of 1, delay(call='Malloc*', us=3), struck 0 of 0>")
    guard.remove()
    guard.remove()
    await acl.Malloc(64)
    assert sim.runtime.faults.rules == []
    with pytest.raises(TypeError, match="one rule or more"):
        sim.fault()


async def test_faults_in_a_simulation_that_was_opened():
    sim = acl.open(device="tiny")
    try:
        with sim.fault(faults.fail(call="Malloc", nth=1)):
            await failure(acl.Malloc, 64)
            await acl.Malloc(64)
    finally:
        await sim.close()


@tiny
async def test_observers_are_told():
    told = []

    class Watch(acl.Observer):
        def fault(self, rule, subject, at_ns):
            told.append((rule.text, str(subject)))

    sim = acl.current_simulation()
    sim.observe(Watch())
    with sim.fault(faults.fail(call="Malloc"), faults.delay(1, op="kernel")):
        await failure(acl.Malloc, 64)
        await acl.LaunchKernel(A, 1)
    assert told[0] == ("fail(call='Malloc')", "Malloc")
    assert (told[1][0], told[1][1].startswith("<A")) == ("delay(op='kernel', us=1)", True)


@tiny
async def test_tasks_are_struck_in_the_order_of_their_calls():
    async def allocate():
        try:
            await acl.Malloc(64)
        except acl.AclError:
            return "struck"
        return "well"

    with acl.current_simulation().fault(faults.fail(call="Malloc", every=2)):
        assert await asyncio.gather(*(allocate() for _ in range(4))) == ["well", "struck", "well", "struck"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: faults.fail(nth=1), "give either call="),
        (lambda: faults.fail(call="Malloc", op="h2d"), "give either call="),
        (lambda: faults.fail(call="Malloc", name="A"), "name and stream belong to operations"),
        (lambda: faults.fail(call="Malloc", nth=0), "nth must be a whole number"),
        (lambda: faults.fail(call="Maloc"), "no verb 'Maloc'; similar: Malloc, MallocHost, MallocAsync"),
        (lambda: faults.fail(op="h2h"), "no operation 'h2h'; similar: h2d, d2h"),
        (lambda: faults.out_of_memory(beyond=-1), "a number of bytes"),
        (lambda: faults.out_of_memory(beyond=8, nth=2), "without other arguments"),
        (lambda: faults.slow("H2D", "2x"), "factor must be more than 0"),
        (lambda: faults.fail(call="Malloc", nht=1), "there is no argument nht; there are call, op"),
        (lambda: faults.fail(call="Malloc", kind="out_of_mem"), "has no 'out_of_mem'; similar: OUT_OF_MEMORY,"),
        (lambda: faults.fail(call="Malloc", kind="OOPS"), r"has no 'OOPS'; there are INVALID_VALUE, .* and \d+ more$"),
        (lambda: faults.fail(op="h2d", chance=2), "chance must lie between"),
        (lambda: faults.fail(op="h2d", chance="often"), "chance must lie between 0 and 1, not 'often'"),
        (lambda: faults.hang(op="kernel", name=3), r"name must be a text, such as 'copy\*', not 3"),
        (lambda: faults.ecc_error(stream=1.5), r"stream must be a text, such as 'copy\*', not 1.5"),
        (lambda: faults.hang(call="Malloc"), "strikes operations, not calls"),
        (lambda: faults.corrupt(call="Malloc"), "strikes operations, not calls"),
        (lambda: faults.delay(-1, op="h2d"), "us must be 0 or more"),
        (lambda: faults.slow("H2", 2), "must be H2D, D2H or cores"),
        (lambda: faults.slow("H2D", 0), "factor must be more than 0"),
        (lambda: faults.ecc_error(12), "memory must be a buffer"),
        (lambda: faults.parse("explode now"), "a fault rule begins with one of these words:\n  fail "),
        (lambda: faults.parse("fail Malloc"), "'Malloc' must be name=value"),
        (lambda: faults.parse("delay op=h2d"), "us"),
    ],
)
def test_rules_that_cannot_be_are_refused(make, message):
    with pytest.raises(faults.FaultError, match=message):
        make()


def test_the_list_of_rules_names_each_rule_and_argument_and_fits_into_80_columns():
    with pytest.raises(faults.FaultError) as caught:
        faults.parse("list")
    lines = str(caught.value).splitlines()
    words = [line.split()[0] for line in lines if re.match(r"  \S", line)]
    arguments = ["call", "op", "name", "stream", "nth", "every", "chance", "since_us", "until_us"]
    assert words == [*faults.MAKERS, *(f"{argument}=" for argument in arguments)]
    assert [line for line in lines if len(line) > 76 or re.search(r"\*\w+\*", line)] == []


def test_rules_can_be_written():
    assert (
        repr(faults.parse("fail call=Malloc nth=3 kind=OUT_OF_MEMORY"))
        == "<Fault fail(call='Malloc', nth=3, kind='OUT_OF_MEMORY')>"
    )
    said = repr(faults.parse("delay us=2.5 op=kernel name='my kernel'"))
    assert said == "<Fault delay(op='kernel', name='my kernel', us=2.5)>"
    assert repr(faults.parse("slow engine=H2D factor=2")) == "<Fault slow(engine='H2D', factor=2)>"


@tiny
async def test_a_name_of_digits_in_a_written_rule_is_a_name():
    sim = acl.current_simulation()
    stream = await acl.CreateStream(name="1")
    with sim.fault(faults.parse("fail op=kernel stream=1 name=A kind=ECC_ERROR")) as rule:
        await acl.LaunchKernel(A, 1, (), stream)
        with pytest.raises(acl.AclError, match="ECC_ERROR"):
            await acl.SynchronizeStream(stream)
    assert rule.struck == 1
