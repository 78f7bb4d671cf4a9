"""The page has all rows of a timeline, in one file that needs nothing else and is the same for every run."""

import asyncio
from html import unescape
from itertools import pairwise

import numpy as np
import pytest
from pages import Parts, data_of, rows_of

import acl_py
from acl_py import asc, faults
from acl_py.causes.pages import explained
from acl_py.trace.page import Finding, Page, PathPart, Run
from acl_py.trace.rows.reading import queuing_calls, site_of_call
from acl_py.trace.rows.timeline import Mark, Operation, StreamStep, Timeline

ODD = "</script><script>alert('1')</script> \"quoted\" & ü 流 \u2028 \udc80"


def page_of(timeline, **run):
    return Page([Run("a run", timeline, **run)])


def first_run(page):
    return data_of(page.html())["runs"][0]


def test_the_page_has_every_operation(any_trace):
    timeline = any_trace.timeline()
    queued_by = queuing_calls(timeline.ops, timeline.calls)
    texts = [f"text:{name}" for name in ("name", "kind", "stream", "engine", "site")]
    columns = ["device", "queued", "start", "lasts", "bytes", "why", "back", "call"]
    assert rows_of(first_run(page_of(timeline)), "ops", *texts, *columns) == [
        (op.name, op.kind, op.stream, op.engine, op.site, op.device, op.queued_ns, op.start_ns, op.end_ns - op.start_ns,
         op.bytes, op.why, 0 if op.after is None else index - op.after, -1 if call is None else call)
        for index, (op, call) in enumerate(zip(timeline.ops, queued_by, strict=True))
    ]  # fmt: skip


def test_the_page_has_every_call(any_trace):
    timeline = any_trace.timeline()
    columns = ["text:name", "text:caller", "text:site", "start", "lasts", "after"]
    assert rows_of(first_run(page_of(timeline)), "calls", *columns) == [
        (call.name, call.caller, site_of_call(call), call.enter_ns, call.exit_ns - call.enter_ns,
         -1 if call.after is None else call.after)
        for call in timeline.calls
    ]  # fmt: skip
    assert rows_of(first_run(page_of(timeline)), "sleeps", "call", "start", "lasts") == [
        (index, sleep.begin_ns, sleep.end_ns - sleep.begin_ns)
        for index, call in enumerate(timeline.calls)
        for sleep in call.sleeps
    ]


def test_the_page_has_every_lane(any_trace):
    timeline = any_trace.timeline()
    run = first_run(page_of(timeline))
    assert {(device, run["texts"][name]) for device, name in run["streams"]} == {
        (op.device, op.stream) for op in timeline.ops
    }
    hosts = {host for (host,) in rows_of(run, "calls", "host")}
    assert hosts == set(range(len(run["hosts"])))


def test_the_page_has_steps_of_streams_and_marks():
    timeline = Timeline(
        steps=[
            StreamStep("record", "copied", "stream 1", 0, 10, 20, "a.py:1", "task 1", after=None),
            StreamStep("wait", "copied", "stream 2", 0, 30, -1, "a.py:2", "task 1", record=0),
        ],
        marks=[Mark("QKV", 5, 9, "a.py:3", "task 1")],
    )
    run = first_run(page_of(timeline))
    columns = ["text:kind", "text:name", "text:stream", "text:site", "queued", "start", "record", "after"]
    assert rows_of(run, "steps", *columns) == [
        ("record", "copied", "stream 1", "a.py:1", 10, 20, -1, -1),
        ("wait", "copied", "stream 2", "a.py:2", 30, -1, 0, -1),
    ]
    assert rows_of(run, "marks", "text:name", "start", "lasts") == [("QKV", 5, 4)]


def test_the_page_has_the_instructions_of_core_kernels_in_picoseconds():
    timeline = core_kernel()
    columns = ["operation", "text:core", "block", "text:pipe", "text:kind", "text:name", "start", "lasts", "back"]
    rows = rows_of(first_run(page_of(timeline)), "instructions", *columns)
    assert rows == [
        (row.operation, row.core, row.block, row.pipe, row.kind, row.name, round(row.start_ns * 1000),
         round(row.end_ns * 1000) - round(row.start_ns * 1000), 0 if row.waited_for is None else index - row.waited_for)
        for index, row in enumerate(timeline.instructions)
    ]  # fmt: skip
    assert [row[5] for row in rows] == ["DataCopy", "Adds", "PipeBarrier<ALL>"]


def core_kernel():
    @asc.kernel
    def copies_without_a_flag(x: asc.In):
        x_gm = asc.GlobalTensor(asc.half).SetGlobalBuffer(x, 256)
        pipe = asc.TPipe()
        queue = asc.TQue(asc.TPosition.VECIN, 1)
        pipe.InitBuffer(queue, 1, 512)
        x_local = queue.AllocTensor(asc.half)
        asc.DataCopy(x_local, x_gm, 256)
        asc.Adds(x_local, x_local, 1, 256)  # no flag, and no FreeTensor

    async def main():
        async with acl_py.simulate(device="ascend910b1", instructions=100) as sim:
            x = await acl_py.Malloc(512)
            await acl_py.Memset(x, 512, 0, 512)
            await acl_py.LaunchKernel(copies_without_a_flag, 1, [acl_py.Array(x, "float16")])
            await acl_py.SynchronizeDevice()
            return sim.trace.timeline()

    return asyncio.run(main())


def test_numbers_of_any_size_survive():
    times = [0, 2**61, 5, 2**40, 2**40 + 127, 2**40 + 255]
    ops = [Operation("op", "kernel", "stream 1", "cores", at, at, at + 1, 0, "a.py:1", 0) for at in times]
    assert rows_of(first_run(page_of(Timeline(ops=ops))), "ops", "start") == [(at,) for at in times]


def test_ten_thousand_operations_take_at_most_a_megabyte(traced):
    async def program(sim):
        device, streams = await acl_py.Malloc(100), [await acl_py.CreateStream() for _ in range(8)]
        for number in range(10_001):
            await acl_py.MemsetAsync(device, 1 + number % 99, 0, 1 + number % 99, streams[number % 7])
        await acl_py.SynchronizeDevice()

    timeline = traced(program).timeline()
    assert len(timeline.ops) > 10_000
    assert len(page_of(timeline).html().encode()) <= 1_000_000


def test_names_cannot_break_the_page():
    op = Operation(ODD, "kernel", ODD, "cores", 0, 1, 2, 0, f"{ODD}.py:1", 0)
    page = Page([Run(ODD, Timeline(ops=[op], error=ODD), [Finding(ODD)])], ODD)
    assert [tag for tag, _, _ in Parts(page.html()).elements].count("script") == 2
    data = data_of(page.html())
    (run,) = data["runs"]
    assert (data["title"], run["title"], run["error"], run["findings"][0]["text"]) == (ODD, ODD, ODD, ODD)
    assert ODD in run["texts"]


def test_a_name_that_is_no_unicode_can_be_written(tmp_path):
    page = Page([Run("bad \udc80", Timeline())])
    page.write(tmp_path / "page.html")
    assert "bad \\udc80" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_page_needs_no_other_file_and_no_network():
    html = page_of(Timeline()).html()
    parts = Parts(html)
    assert not {"link", "img", "iframe"} & {tag for tag, _, _ in parts.elements}
    assert not any({"src", "href"} & attrs.keys() for _, attrs, _ in parts.elements)
    policy = next(attrs["content"] for tag, attrs, _ in parts.elements if "http-equiv" in attrs)
    assert policy.startswith("default-src 'none';")
    assert "url(" not in html
    assert "://" not in html


def test_two_runs_of_a_program_give_the_same_bytes(traced):
    one, other = (page_of(traced("named").timeline()).html() for _ in range(2))
    assert one == other


def test_findings_have_their_places():
    op = Operation("up", "h2d", "stream 1", "H2D", 0, 10, 20, 0, "a.py:1", 0)
    found = Finding("It waits\nUse pinned memory.", "a.py:1", 0, 10, ops=(0,), calls=(3,), held_ns=7, waits=[(0, 7)])
    (shown,) = first_run(page_of(Timeline(ops=[op]), findings=[found]))["findings"]
    waits = rows_of(shown, "waits", "start", "lasts")
    assert Finding(**shown)._replace(waits=waits) == found._replace(ops=[0], calls=[3], waits=[(0, 7)])


def test_the_page_has_the_critical_path():
    op = Operation("up", "h2d", "stream 1", "H2D", 0, 10, 20, 0, "a.py:1", 0)
    path = [PathPart(0, 10, "engine", 0), PathPart(10, 20, "work", 0), PathPart(20, 25, "program")]
    run = first_run(page_of(Timeline(ops=[op]), critical=path))
    assert rows_of(run, "path", "text:cause", "start", "lasts", "op", "call") == [
        ("engine", 0, 10, 0, -1),
        ("work", 10, 10, 0, -1),
        ("program", 20, 5, -1, -1),
    ]


def test_an_explained_page_has_findings_and_a_path_that_adds_up(traced):
    timeline = traced("pageable").timeline()
    run = first_run(explained(page_of(timeline, findings=[Finding("mine")])))
    texts = [finding["text"].split("\n")[0] for finding in run["findings"]]
    assert texts[0] == "mine"
    assert "A copy to pageable memory kept the host until it was done, 3 times" in texts
    for finding in run["findings"][1:]:
        waits = rows_of(finding, "waits", "start", "lasts")
        assert sum(lasts for _, lasts in waits) == finding["held_ns"] > 0
        assert finding["begin_ns"] <= waits[0][0] <= sum(waits[-1]) <= finding["end_ns"]
    parts = rows_of(run, "path", "start", "lasts")
    assert parts[0][0] == 0
    assert all(start + lasts == after for (start, lasts), (after, _) in pairwise(parts))
    assert sum(lasts for _, lasts in parts) == max(call.exit_ns for call in timeline.calls)


def test_strikes_of_fault_rules_and_mistakes_in_kernels_are_findings(traced):
    async def program(sim):
        with sim.fault(faults.delay(5, call="Malloc")):
            await acl_py.Malloc(100)

    (struck,) = first_run(page_of(traced(program).timeline()))["findings"]
    assert (struck["text"], struck["begin_ns"]) == ("delay(call='Malloc', us=5) struck Malloc", 0)
    mistakes = first_run(page_of(core_kernel()))["findings"]
    assert [(mistake["ops"], mistake["text"].split()[0]) for mistake in mistakes] == [
        ([1], "RAW"),
        ([1], "TENSOR_NOT_FREED"),
    ]


def test_an_empty_run_is_a_page():
    run = first_run(page_of(Timeline(device="tiny", rules="cuda")))
    assert (run["ops"]["rows"], run["calls"]["rows"], run["since"], run["until"]) == (0, 0, 0, 0)


def test_the_timeline_of_a_simulation_has_what_waited_and_why():
    async def main():
        memory = await acl_py.Malloc(1 << 20)
        await acl_py.Memcpy(memory, 1 << 20, np.zeros(1 << 20, np.uint8), 1 << 20, acl_py.MemcpyKind.HOST_TO_DEVICE)
        return acl_py.current_simulation().timeline()

    page = acl_py.run(main, device="tiny")
    [run] = page.runs
    [text] = [found.text.splitlines()[0] for found in run.findings]
    assert (
        text
        == "In Memcpy(), a copy from pageable memory kept the host, which copied the bytes to buffers of the driver"
    )
    assert sum(part.end_ns - part.begin_ns for part in run.critical) == run.timeline.end_ns
    assert first_run(page)["findings"]


def test_the_timeline_of_a_simulation_says_what_prices_of_the_run_would_not_contain():
    async def main():
        memory = await acl_py.Malloc(1 << 20)
        stream = await acl_py.CreateStream()
        await acl_py.MemsetAsync(memory, 1 << 20, 0, 1 << 20, stream)
        if await acl_py.StreamQuery(stream) is acl_py.Status.NOT_READY:
            await acl_py.HostWork(5)
        await acl_py.SynchronizeStream(stream)
        return acl_py.current_simulation().timeline()

    [note] = first_run(acl_py.run(main, device="tiny"))["notes"]
    assert note.endswith(': a query was answered "not yet"; what the host did then is fixed here')


def test_a_run_that_ended_in_a_deadlock_has_its_chain():
    sims = []

    async def main():
        sims.append(acl_py.current_simulation())
        stream = await acl_py.CreateStream()
        memory = await acl_py.Malloc(100)
        await acl_py.MemsetAsync(memory, 100, 0, 100, stream)
        await acl_py.HostWork(50)
        await acl_py.WaitAndResetNotify(await acl_py.CreateNotify(), stream)
        await acl_py.SynchronizeStream(stream)

    with pytest.raises(acl_py.DeadlockError) as raised:
        acl_py.run(main, device="tiny", rules="acl")
    (sim,) = sims
    run = first_run(sim.timeline())
    assert run["error"] == f"DeadlockError: {raised.value}"
    assert rows_of(run, "steps", "text:kind", "start") == [("notify_wait", -1)]
    assert run["until"] == sim.trace.timeline().end_ns  # the page shows what was queued last


def test_a_run_that_ended_with_a_lost_device_says_so():
    sims = []

    async def program():
        sims.append(acl_py.current_simulation())
        with sims[0].fault(faults.lose_device(op="fill")):
            memory = await acl_py.Malloc(100)
            await acl_py.MemsetAsync(memory, 100, 0, 100)
            await acl_py.SynchronizeDevice()

    with pytest.raises(acl_py.AclError) as raised:
        acl_py.run(program, device="tiny")
    assert first_run(sims[0].timeline())["error"] == f"AclError: {raised.value}"


def test_an_error_that_the_program_has_handled_is_not_its_end(traced):
    async def program(sim):
        with pytest.raises(acl_py.AclError):
            await acl_py.Malloc(2**60)

    assert first_run(page_of(traced(program).timeline()))["error"] == ""


def test_a_page_without_a_run_is_refused():
    with pytest.raises(ValueError, match="a page needs at least one run"):
        Page([])


def test_the_page_shows_the_time_from_the_first_call_that_queued_something_to_the_last_wait_or_what_it_is_told(traced):
    timeline = traced("one_of_each").timeline()
    queued_by = queuing_calls(timeline.ops, timeline.calls)
    first = min(timeline.calls[index].enter_ns for index in queued_by)
    assert first > 0
    shown = first_run(page_of(timeline))
    assert (shown["since"], shown["until"]) == (first, max(call.exit_ns for call in timeline.calls))
    shown = first_run(page_of(timeline, since_ns=7, until_ns=9))
    assert (shown["since"], shown["until"]) == (7, 9)


def test_a_notebook_shows_the_page_in_a_frame(traced):
    page = page_of(traced("one_of_each").timeline())
    ((tag, attrs, _),) = Parts(page._repr_html_()).elements
    assert tag == "iframe"
    assert unescape(attrs["srcdoc"]) == page.html()
