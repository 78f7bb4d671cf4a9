"""Runs on an Ascend card, which is that of the drop-in module `acl`: the same programs as on the model."""

import asyncio
import gc
import sys

import numpy as np
import pytest

import acl_py
import acl_py.compat.acl
from acl_py.calls.table import all_verbs
from acl_py.card.npu.driver import AclDriver
from acl_py.card.npu.runtime import refused
from acl_py.compat.acl.face.session import current_session
from acl_py.errors import AclError, DeadlockError, Kind
from acl_py.findings import Kind as FindingKind
from acl_py.verbs.callbacks import CallbackBlock
from tests import forks
from tests.card.acl_programs import CARD
from tests.forks import ROOT

pytestmark = pytest.mark.filterwarnings("error")
H2D, D2H = acl_py.MemcpyKind.HOST_TO_DEVICE, acl_py.MemcpyKind.DEVICE_TO_HOST
NBYTES = 4096


@acl_py.kernel(cost=acl_py.Cost(us=5))
def double(x: acl_py.InOut) -> None:
    x *= 2


@acl_py.kernel(cost=acl_py.Cost(us=5))
def broken(x: acl_py.InOut) -> None:
    raise RuntimeError("the body has a mistake")


async def upload(values):
    buffer = await acl_py.Malloc(values.nbytes)
    await acl_py.Memcpy(buffer, values.nbytes, values, values.nbytes, H2D)
    return buffer


async def download(buffer):
    values = np.zeros(buffer.nbytes // 4, np.uint32)
    await acl_py.Memcpy(values, values.nbytes, buffer, values.nbytes, D2H)
    return values


async def codes(*calls):
    """The codes with which *calls* end, 0 if they do not fail."""
    ends = []
    for call in calls:
        try:
            await call
            ends.append(0)
        except AclError as error:
            ends.append(error.code)
    return ends


def both(main, **options):
    """What *main* returns on the model and through pyACL."""
    return acl_py.run(main, device=CARD, rules="acl"), acl_py.run(main, device="npu:0", **options)


# --- what ACL has and CUDA has not


def test_streams_wait_for_notifies_flags_and_words(npu):
    async def main():
        first, second = await acl_py.CreateStream(), await acl_py.CreateStream()
        notify, flag = await acl_py.CreateNotify(), await acl_py.CreateEventWithFlag(acl_py.EventFlag.SYNC)
        word = await upload(np.zeros(2, np.uint32))
        order = []
        for wait, give in (
            (acl_py.WaitAndResetNotify(notify, second), acl_py.RecordNotify(notify, first)),
            (acl_py.StreamWaitEvent(second, flag), acl_py.RecordEvent(flag, first)),
            (acl_py.ValueWait(word, 7, acl_py.Compare.EQ, second), acl_py.ValueWrite(word, 7, 0, first)),
        ):
            await wait
            asked = await acl_py.StreamQuery(second)
            await give
            await acl_py.SynchronizeStream(second)
            order.append((asked, await acl_py.StreamQuery(second)))
        recorded = await acl_py.QueryEventStatus(flag), await acl_py.QueryEventWaitStatus(flag)
        await acl_py.ResetEvent(flag, second)
        await acl_py.SynchronizeDevice()
        await acl_py.DestroyNotify(notify)
        await acl_py.DestroyEvent(flag)
        return order, recorded, await codes(acl_py.RecordNotify(notify, first), acl_py.RecordEvent(flag, first))

    on_model, through_acl = both(main)
    assert through_acl == on_model
    waited = acl_py.Status.NOT_READY, acl_py.Status.COMPLETE
    assert through_acl == ([waited] * 3, (acl_py.Status.COMPLETE,) * 2, [107017, 107017])


@pytest.mark.parametrize("block", CallbackBlock)
def test_callbacks_run_in_the_task_that_has_subscribed(npu, block):
    async def main():
        stream, told = await acl_py.CreateStream(), []
        buffer = await upload(np.zeros(NBYTES // 4, np.uint32))

        async def see(what):
            told.append((what, (await acl_py.StreamQuery(stream)) is acl_py.Status.NOT_READY))

        async def serve():
            await acl_py.SubscribeReport(None, stream)
            subscribed.set()
            for _ in range(2):
                await acl_py.ProcessReport(60_000)
            await acl_py.UnsubscribeReport(None, stream)

        subscribed = asyncio.Event()
        server = asyncio.create_task(serve())
        await subscribed.wait()
        for what in ("first", "second"):
            await acl_py.MemsetAsync(buffer, NBYTES, 1, NBYTES, stream)
            await acl_py.LaunchCallback(see, what, block, stream)
        await server
        await acl_py.SynchronizeStream(stream)
        return told, await codes(acl_py.LaunchCallback(see, "late", block, stream), acl_py.ProcessReport(5))

    on_model, through_acl = both(main)
    assert [what for what, _ in through_acl[0]] == ["first", "second"]
    assert through_acl[1] == on_model[1] == [107015, 107012]
    if block:
        assert through_acl == on_model == ([("first", True), ("second", True)], [107015, 107012])


def test_a_wait_of_a_stream_that_takes_too_long_is_a_failure_of_the_stream(npu):
    async def main():
        stream, notify, event = await acl_py.CreateStream(), await acl_py.CreateNotify(), await acl_py.CreateEvent()
        await acl_py.WaitAndResetNotify(notify, stream, 1)
        await acl_py.RecordEvent(event, stream)
        return await codes(*[acl_py.SynchronizeStream(stream) for _ in range(2)])

    on_model = acl_py.run(main, device=CARD, rules="acl")

    async def blocking():
        session = current_session()
        with session.bridge.lock:  # a second of simulated time, which nothing else lets pass
            session.runtime.pay(2 * 10**9)

    async def through_acl():
        helper = asyncio.create_task(asyncio.sleep(0.05))
        helper.add_done_callback(lambda _: asyncio.ensure_future(blocking()))
        return await main()

    assert acl_py.run(through_acl, device="npu:0") == on_model == [107020, 0]


def test_work_of_a_stream_is_dropped(npu):
    async def main():
        stream, notify, ended = await acl_py.CreateStream(), await acl_py.CreateNotify(), []
        buffer = await upload(np.zeros(4, np.uint32))
        for drop in (acl_py.StreamAbort, acl_py.DestroyStreamForce):
            await acl_py.WaitAndResetNotify(notify, stream)
            await acl_py.MemsetAsync(buffer, 16, 1, 16, stream)
            await drop(stream)
            ended += await codes(acl_py.SynchronizeStream(stream))
        return ended, (await download(buffer)).tolist()

    on_model, through_acl = both(main)
    assert through_acl == on_model
    assert through_acl[1] == [0] * 4


def test_a_callback_that_is_dropped_does_not_run_and_the_next_one_does(npu):
    async def main():
        stream, notify, told = await acl_py.CreateStream(), await acl_py.CreateNotify(), []
        await acl_py.SubscribeReport(None, stream)
        await acl_py.WaitAndResetNotify(notify, stream)
        await acl_py.LaunchCallback(told.append, "dropped", CallbackBlock.BLOCK, stream)
        await acl_py.StreamAbort(stream)
        ended = await codes(acl_py.SynchronizeStream(stream), acl_py.ProcessReport(2))
        await acl_py.LaunchCallback(told.append, "kept", CallbackBlock.BLOCK, stream)
        before = await acl_py.StreamQuery(stream)
        await acl_py.ProcessReport(60_000)
        await acl_py.SynchronizeStream(stream)
        return told, ended, before

    on_model, through_acl = both(main)
    assert through_acl == on_model
    assert through_acl[0] == ["kept"]
    assert through_acl[2] is acl_py.Status.NOT_READY


def test_contexts_have_streams_of_their_own_and_end_with_their_work(npu):
    async def main():
        first, values = await acl_py.GetCurrentContext(), np.arange(NBYTES // 4, dtype=np.uint32)
        buffer, pinned = await upload(values), await acl_py.MallocHost(NBYTES)
        notify, copied = await acl_py.CreateNotify(), await acl_py.CreateNotify()
        other = await acl_py.CreateContext(0)
        stream = await acl_py.CreateStream()
        await acl_py.WaitAndResetNotify(notify, stream)
        await acl_py.MemcpyAsync(pinned, NBYTES, buffer, NBYTES, D2H, stream)
        await acl_py.RecordNotify(copied, stream)
        await acl_py.MemsetAsync(buffer, 4, 0, 4)  # in the default stream of this context
        await acl_py.SynchronizeStream()
        await acl_py.SetCurrentContext(first)
        ends = await codes(acl_py.SynchronizeStream(), acl_py.MemsetAsync(buffer, 4, 1, 4, stream))
        await acl_py.DestroyContext(other)
        ends += await codes(acl_py.SetCurrentContext(other), acl_py.DestroyStream(stream))
        await acl_py.RecordNotify(notify)
        await acl_py.WaitAndResetNotify(copied)
        await acl_py.SynchronizeStream()
        again = await acl_py.CreateContext(0)
        await acl_py.DestroyContext(again)
        ends += await codes(acl_py.Malloc(64), acl_py.SetDevice(0), acl_py.SynchronizeDevice())
        return ends, pinned.numpy(np.uint32).tolist() == [0, *values[1:].tolist()]

    on_model, through_acl = both(main)
    assert through_acl == on_model
    assert through_acl[1] is True
    default, *others = current_session().runtime.devices[0].contexts
    assert default.destroyed is None
    assert all(context.destroyed is not None for context in others)  # those of pyACL are gone, too


# --- kernels and functions


def test_a_body_in_python_runs_on_the_host_if_it_may(npu):
    async def main():
        stream, values = await acl_py.CreateStream(), np.arange(NBYTES // 4, dtype=np.uint32)
        array = acl_py.Array(await upload(values), np.uint32)
        await acl_py.LaunchKernel(double, 8, (array,), stream)
        await acl_py.SynchronizeStream(stream)
        return (await download(array.buffer)).tolist()

    assert acl_py.run(main, device="npu:0", bodies="host") == list(range(0, NBYTES // 2, 2))
    with pytest.raises(AclError, match=r"kernel double has a body in Python, which no card runs; choose bodies='host'"):
        acl_py.run(main, device="npu:0")


def test_what_a_function_raises_comes_out_of_the_next_wait(npu):
    def wrong():
        raise KeyError("lost")

    async def main():
        stream, array = await acl_py.CreateStream(), acl_py.Array(await acl_py.Malloc(16), np.uint32)
        await acl_py.Memset(array, 16, 0, 16)
        await acl_py.LaunchHostFunc(stream, wrong)
        ends = await codes(acl_py.SynchronizeStream(stream))
        await acl_py.LaunchKernel(broken, 1, (array,), stream)
        return ends + await codes(acl_py.SynchronizeStream(stream), acl_py.SynchronizeStream(stream))

    on_model, through_acl = both(main, bodies="host")
    assert through_acl == on_model
    assert through_acl[-1] == 0


# --- the run


def test_a_call_of_acl_in_a_run_leaves_the_run_as_it_is(npu):
    async def main():
        import acl

        stream, values = await acl_py.CreateStream(), np.arange(4, dtype=np.uint32)
        ret = acl.rt.malloc(16, 0)[1]
        refused_call = acl.rt.free(1)
        buffer = await upload(values)
        assert current_session().runtime is not acl_py.current_simulation().runtime
        return (
            ret,
            refused_call != 0,
            stream.context.device.runtime.closed,
            (await download(buffer)).tolist(),
            (await acl_py.PeekAtLastError()),
        )

    assert acl_py.run(main, device="npu:0") == (0, True, None, [0, 1, 2, 3], 0)


def test_two_cards_copy_from_one_to_the_other(npu):
    async def main():
        values = np.arange(NBYTES // 4, dtype=np.uint32)
        first = await upload(values)
        can = await acl_py.DeviceCanAccessPeer(0, 1)
        await acl_py.SetDevice(1)
        await acl_py.DeviceEnablePeerAccess(0)
        stream, second = await acl_py.CreateStream(), await acl_py.Malloc(NBYTES)
        await acl_py.MemcpyAsync(second, NBYTES, first, NBYTES, acl_py.MemcpyKind.DEVICE_TO_DEVICE, stream)
        await acl_py.SynchronizeStream(stream)
        return can, (await download(second)).tolist() == values.tolist()

    assert acl_py.run(main, device="npu:0") == (1, True)


def test_pinned_memory_stays_as_long_as_there_are_arrays_over_it(npu):
    async def main():
        buffer = await acl_py.MallocHost(NBYTES)
        buffer.numpy(np.uint32)[:] = 5
        array = buffer.numpy(np.uint32)
        await acl_py.FreeHost(buffer)
        return array

    array = acl_py.run(main, device="npu:0")
    gc.collect()
    acl_py.run(main, device="npu:0")
    assert array.tolist() == [5] * (NBYTES // 4)


def test_pinned_memory_that_ends_in_another_run_is_no_part_of_it(npu):
    async def makes():
        owners.append(acl_py.current_simulation().runtime.memory.pinned(NBYTES)[1])

    async def ends():
        owners.clear()
        return [call.name for call in acl_py.current_simulation().trace.timeline().calls]

    owners = []
    acl_py.run(makes, device="npu:0")
    assert acl_py.run(ends, device=CARD) == []


def test_the_trace_has_the_operations_and_the_sanitizer_its_findings(npu):
    async def main():
        first, second = await acl_py.CreateStream(), await acl_py.CreateStream()
        buffer, pinned = await acl_py.Malloc(NBYTES), await acl_py.MallocHost(NBYTES)
        pinned.numpy()[:] = 1
        await acl_py.MemcpyAsync(buffer, NBYTES, pinned, NBYTES, H2D, first)
        await acl_py.MemsetAsync(buffer, NBYTES, 0, NBYTES, second)
        await acl_py.SynchronizeDevice()
        sim = acl_py.current_simulation()
        return sim.trace.timeline().ops, [each.kind for each in sim.findings]

    ops, findings = acl_py.run(main, device="npu:0", sanitize=True)
    assert [(op.name, op.stream, op.bytes) for op in ops] == [
        ("h2d", "stream 1", NBYTES), ("fill", "stream 2", NBYTES)
    ]  # fmt: skip
    assert all(op.called_ns <= op.start_ns < op.end_ns for op in ops if op.called_ns >= 0)
    assert findings == [FindingKind.RACE]


def test_a_wait_that_never_ends_is_a_deadlock_and_the_next_run_has_the_card(npu):
    async def hangs():
        stream, notify = await acl_py.CreateStream(), await acl_py.CreateNotify()
        await acl_py.WaitAndResetNotify(notify, stream)
        with pytest.raises(DeadlockError):
            await acl_py.SynchronizeStream(stream)

    async def works():
        return (await download(await upload(np.arange(4, dtype=np.uint32)))).tolist()

    acl_py.run(hangs, device="npu:0", hang_after=0.05)
    assert AclDriver.standing.lost is None
    assert acl_py.run(works, device="npu:0") == [0, 1, 2, 3]


# --- what is refused


def test_what_the_card_refuses_has_its_code_and_what_it_said(npu):
    async def main():
        with pytest.raises(AclError) as caught:
            await acl_py.Malloc(1 << 50)
        return caught.value.kind, caught.value.code

    on_model, through_acl = both(main)
    assert through_acl == on_model == (Kind.OUT_OF_MEMORY, 207001)

    async def refused_call():
        await acl_py.Malloc(1 << 50)

    with pytest.raises(AclError, match=r"acl.rt.malloc\(\) answers 207001: .*; free memory that is no longer used"):
        acl_py.run(refused_call, device="npu:0")


def test_a_verb_without_a_function_is_refused_by_name(npu):
    async def main():
        stream = await acl_py.CreateStream()
        texts = []
        for call in (acl_py.MallocAsync(64, stream), acl_py.BeginCapture(stream), acl_py.ResetDevice(0)):
            with pytest.raises(AclError) as caught:
                await call
            assert caught.value.kind is Kind.NOT_SUPPORTED
            texts.append(caught.value.remedy)
        return texts

    assert acl_py.run(main, device="npu:0") == [
        "use Malloc(): pyACL has no pools",
        "pyACL has no such function: run the program on the model",
        "end the process: torch_npu lives in the same context",
    ]


def test_an_older_module_refuses_what_it_does_not_have(npu, monkeypatch):
    import acl

    monkeypatch.delattr(acl.rt, "create_notify")

    async def main():
        await acl_py.CreateNotify()

    with pytest.raises(AclError, match=r"this module acl has no acl.rt.create_notify: use that of a newer CANN"):
        acl_py.run(main, device="npu:0")


async def nothing():
    pass


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"device": "npu:2"}, AclError, r"there is no 'npu:2': this machine has 2 cards"),
        ({"device": "npu:0", "rules": "cuda"}, ValueError, r"rules='cuda' on an Ascend card: it has those of ACL"),
        ({"device": "npu:0", "bodies": "time"}, ValueError, r"bodies='time' with device='npu:0': pyACL has no kernel"),
        ({"device": "npu:0", "workers": 2}, ValueError, r"workers=2 with device='npu:0': the card does the work"),
    ],
)
def test_what_no_ascend_card_has_is_refused_in_one_sentence(npu, options, error, text):
    with pytest.raises(error, match=text):
        acl_py.run(nothing, **options)


def test_without_the_module_acl_the_run_says_where_it_comes_from(monkeypatch):
    monkeypatch.setitem(sys.modules, "acl", None)
    with pytest.raises(ImportError, match=r"device='npu:N' needs the module acl, which comes with CANN"):
        acl_py.run(nothing, device="npu:0")


def test_the_environment_names_the_card(npu, monkeypatch):
    async def main():
        return acl_py.current_simulation().runtime.profile.description

    monkeypatch.setenv("ACL_PY_DEVICE", "npu:1")
    assert acl_py.run(main, device="h200", workers=2) == "Ascend910B3, device 1 of this machine"


def test_the_command_line_takes_the_vendors_module_and_not_ours(tmp_path):
    script = tmp_path / "main.py"
    script.write_text("import acl_py\nasync def main(): pass\nacl_py.run(main)\n", encoding="utf-8")
    done = forks.run("-m", "acl_py", "run", "--device", "npu:0", script, cwd=tmp_path)
    assert done.returncode == 1
    assert "ImportError: device='npu:N' needs the module acl" in done.stderr


def test_the_page_names_every_verb_of_an_ascend_card(npu):
    page = (ROOT / "docs" / "card" / "ascend.md").read_text("utf-8")
    rows = page.split("| verb | functions of `acl.rt` |")[1].split("\n\n")[0].splitlines()[2:]
    named = [name.strip() for row in rows for name in row.split("|")[1].split(",")]
    assert sorted(named) == sorted(set(all_verbs()) - set(refused(AclDriver(AclError).rt)))
