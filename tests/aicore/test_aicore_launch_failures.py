"""Core kernels through the verbs: what goes wrong in them, and what they print."""

import numpy as np
import pytest
import structlog
from core_kernels import (
    TILE,
    add_number,
    calls_the_runtime,
    copy_through,
    forgets_a_flag,
    halves,
    increment,
    increment_slowly,
    read,
    simulation,
    speaks,
    waits_for_ever,
)
from structlog.testing import LogCapture

import acl_py as acl
from acl_py import asc, log


async def test_a_kernel_that_raises_is_found_later_and_has_written_nothing():
    @asc.kernel
    def breaks(x: asc.InOut):
        copy_through(x, x, lambda result, tile: asc.Adds(result, tile, 1, TILE))
        if asc.GetBlockIdx() == 3:
            raise ZeroDivisionError("the third")

    class Listener(acl.Observer):
        def failed(self, op, error):
            failures.append((op.work.label.name, str(error.__cause__)))

    failures = []
    async with simulation() as sim:
        sim.observe(Listener())
        x = await acl.MallocHost(8 * TILE)
        x.numpy()[:] = 1
        await breaks[4](acl.Array(x, np.float16))
        with pytest.raises(
            acl.AclError, match="kernel breaks raised ZeroDivisionError: the third; the exception is the cause"
        ) as caught:
            await acl.SynchronizeDevice()
        assert caught.value.kind is acl.Kind.LAUNCH_FAILURE
        cause = caught.value.__cause__
        assert isinstance(cause, ZeroDivisionError)
        assert "breaks" in [entry.name for entry in caught.traceback] or cause.__traceback__ is not None
        assert (x.numpy() == 1).all()
    assert failures == [("breaks", "the third")]


@pytest.mark.parametrize(
    ("kind", "exception", "timeout"),
    [
        (asc.KernelType.AIV_ONLY, 507035, 507034),
        (asc.KernelType.AIC_ONLY, 507015, 507014),
        (asc.KernelType.MIX_AIC_1_2, 507015, 507014),
    ],
)
async def test_what_fails_on_cube_cores_has_codes_of_its_own(kind, exception, timeout):
    @asc.kernel(kind=kind)
    def breaks():
        raise ZeroDivisionError

    @asc.kernel(kind=kind)
    def slow():
        asc.WaitFlag(asc.HardEvent.MTE3_MTE2, 0, timeout_us=1_500_000)

    async with simulation(rules="acl"):
        stream = await acl.CreateStream()
        await acl.SetOpExecuteTimeOut(1)
        codes = []
        for kernel in (breaks, slow):
            await kernel[1, stream]()
            with pytest.raises(acl.AclError) as caught:
                await acl.SynchronizeStream(stream)
            codes.append(caught.value.code)
    assert codes == [exception, timeout]


async def test_a_kernel_that_runs_longer_than_allowed_fails_after_that_time_and_has_written_nothing():
    @asc.kernel
    def slow(x: asc.InOut):
        asc.WaitFlag(asc.HardEvent.MTE3_MTE2, 0, timeout_us=1_500_000)
        copy_through(x, x, lambda result, tile: asc.Adds(result, tile, 1, TILE))

    ends = []

    class Listener(acl.Observer):
        def failed(self, op, error):
            ends.append(op.end_ns - op.start_ns)

    async with simulation(rules="acl") as sim:
        sim.observe(Listener())
        stream = await acl.CreateStream()
        x = await acl.MallocHost(2 * TILE)
        x.numpy()[:] = 1
        await acl.SetOpExecuteTimeOut(1)
        await slow[1, stream](acl.Array(x, np.float16))
        with pytest.raises(acl.AclError, match=r"kernel slow would have run 1\.5.* s, longer than SetOp") as caught:
            await acl.SynchronizeStream(stream)
        assert caught.value.kind is acl.Kind.OP_EXECUTE_TIMEOUT
        assert (x.numpy() == 1).all()
        await acl.SetOpExecuteTimeOut(2)
        await slow[1, stream](acl.Array(x, np.float16))
        await acl.SynchronizeStream(stream)
        assert (x.numpy().view(np.float16) == np.full(2 * TILE, 1, np.uint8).view(np.float16) + 1).all()
    assert ends == [10**9]


async def test_a_wait_that_nobody_ends_is_a_failure_and_no_hang():
    async with simulation():
        await waits_for_ever[2](await halves(1))
        with pytest.raises(acl.AclError, match=r"kernel waits_for_ever raised KernelHangError: .*WaitFlag<MTE2_V>"):
            await acl.SynchronizeDevice()


@pytest.mark.parametrize("wait_us", [0, 300])
async def test_memory_that_is_freed_before_it_starts_or_ends_fails_it(wait_us):
    """Freed in a stream that nothing orders behind the launch: while it is queued, and while it runs."""

    @acl.kernel(cost=acl.Cost(us=250))
    def holds_the_stream():
        pass

    async with simulation() as sim:
        one, other = await acl.CreateStream(), await acl.CreateStream()
        x = await acl.MallocAsync(2 * TILE, other)
        await holds_the_stream[1, one]()
        op = await increment_slowly[1, one](x, 0)
        await acl.HostWork(wait_us)
        assert (op.start_ns >= 0, op.done) == (wait_us > 0, False)
        await acl.FreeAsync(x, other)
        with pytest.raises(
            acl.AclError,
            match=r"found that its argument .* freed at test_aicore_launch_failures.py:\d+> was gone before it ran",
        ):
            await acl.SynchronizeDevice()
    assert [each.name for each in sim.trace.ops] == ["holds_the_stream", "increment_slowly"]


async def test_memory_that_was_freed_before_the_launch_is_refused():
    async with simulation():
        x = await halves(1)
        await acl.Free(x.buffer)
        with pytest.raises(acl.AclError, match=r"<Buffer .* was freed|freed at"):
            await increment[1](x)


async def test_a_finding_does_not_fail_the_kernel_and_is_told_once(capsys):
    async with simulation() as sim:
        x, y = await halves(1, 3.0), await halves(1)
        for _ in range(3):
            op = await forgets_a_flag[1](x, y)
        await acl.SynchronizeDevice()
        assert (await read(y) == 3).all()
        [finding] = op.work.result.findings
        assert (finding.rule, finding.missing) == (asc.Rule.RAW, "MTE2_MTE3")
        [mistake] = sim.findings
        assert (mistake.kernel, mistake.rule, mistake.count) == ("forgets_a_flag", asc.Rule.RAW, 3)
        assert [site.split(":")[0] for site in mistake.sites] == ["core_kernels.py", "core_kernels.py"]
        told = capsys.readouterr().err.splitlines()
        assert told == [f"kernel forgets_a_flag: RAW in {mistake.where}: {mistake.text}"]
        assert f"finding: kernel forgets_a_flag: RAW in {mistake.where}: {mistake.text} (3 times)" in sim.report()


async def test_a_log_gets_the_findings_instead(capsys):
    capture = LogCapture()
    log.enable(structlog.wrap_logger(structlog.testing.ReturnLogger(), processors=[capture]))
    try:
        async with simulation():
            await forgets_a_flag[1](await halves(1), await halves(1))
            await acl.SynchronizeDevice()
    finally:
        log.disable()
    [event] = [entry for entry in capture.entries if entry["log_level"] == "warning"]
    assert (event["event"], event["kernel"], event["rule"]) == ("finding", "forgets_a_flag", "RAW")
    assert "missing MTE2_MTE3" in event["text"]
    assert capsys.readouterr().err == ""


async def test_with_hazards_off_nothing_is_found():
    careless = asc.kernel(hazards=False)(forgets_a_flag.function)
    async with simulation() as sim:
        await careless[1](await halves(1), await halves(1))
        await acl.SynchronizeDevice()
    assert sim.findings == []


async def test_in_weak_mode_a_reader_really_sees_the_old_bytes():
    weak = asc.kernel(weak=True)(forgets_a_flag.function)
    async with simulation() as sim:
        x, y = await halves(1, 3.0), await halves(1)
        await weak[1](x, y)
        await acl.SynchronizeDevice()
        assert not (await read(y) == 3).any()
    assert [mistake.rule for mistake in sim.findings] == [asc.Rule.RAW]


# --- what it says


async def test_what_it_prints_comes_out_at_its_end(capsys):
    class Listener(acl.Observer):
        def op_ended(self, op):
            print(f"{op.work.label} ends")

    async with simulation() as sim:
        x = await halves(1)
        await acl.SynchronizeDevice()
        sim.observe(Listener())
        await speaks[2](x, 2)
        assert capsys.readouterr().out == ""
        await acl.SynchronizeDevice()
    said = capsys.readouterr().out
    assert said.startswith("speaks ends\n[block 1 (AIV), cycle ")
    assert said.endswith("] 1 of 2\n")


async def test_what_it_printed_before_it_failed_comes_out_too(capsys):
    async with simulation():
        await speaks[2](await halves(1), 4)
        with pytest.raises(acl.AclError, match=r"kernel speaks raised KernelAssertionError.*it is too much"):
            await acl.SynchronizeDevice()
    assert "it is too much" in capsys.readouterr().out


async def test_observers_are_told_of_runs_and_findings():
    class Listener(acl.Observer):
        def ran(self, op, result):
            told.append(
                (op.work.label.name, len(result.programs), result.timeline.duration_ns == op.end_ns - op.start_ns)
            )

        def finding(self, op, finding):
            told.append((op.work.label.name, finding.rule))

    told = []
    async with simulation() as sim:
        sim.observe(Listener())
        x, y = await halves(2), await halves(2)
        await add_number[2](x, y, 1)
        await forgets_a_flag[1](x, await halves(1))
        await acl.Memset(x.buffer, x.nbytes, 0, x.nbytes)
        await acl.SynchronizeDevice()
    assert told == [("add_number", 2, True), ("forgets_a_flag", 1, True), ("forgets_a_flag", asc.Rule.RAW)]


async def test_a_kernel_cannot_call_the_runtime():
    async with simulation() as sim:
        x = await acl.Malloc(64)
        await calls_the_runtime[2](x)
        with pytest.raises(acl.AclError, match="inside <core kernel calls_the_runtime>") as caught:
            await acl.SynchronizeDevice()
        assert caught.value.kind is acl.Kind.NOT_PERMITTED
        assert [call.name for call in sim.trace.calls] == ["Malloc", "LaunchKernel", "SynchronizeDevice"]
