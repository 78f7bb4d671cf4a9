"""Prices: programs in two versions, before and after a person's edit. The price is the difference of the two runs."""

from dataclasses import replace

import pytest
from listed import MIB, case, copy, copy_now, fill, launch, program, record, step, sync, wait

from acl_py.causes.findings import Pitfall
from acl_py.explain.prices import MOST_PRICED, notes_of_prices, prices, prices_text
from acl_py.explain.whatif import Asker

BIG = 8 * MIB
K = launch("A")


def free(name="d"):
    return step("free", name=name)


MANAGED = [step("malloc_managed", name="m", bytes=MIB), step("host_touch", buf="m", bytes=MIB)]
PREFETCH = step("prefetch", buf="m", bytes=MIB, to="device", stream="A")
# The pitfall, its rules, and the steps before and after the edit.
PAIRS = {
    "legacy work between two kernels": (
        Pitfall.LEGACY, "cuda", program(K, launch("legacy"), K), program(K, launch("N"), K)),
    "legacy work behind a kernel": (
        Pitfall.LEGACY, "cuda", program(K, launch("legacy")), program(K, launch("N"))),
    "a fill of the default stream": (
        Pitfall.LEGACY, "cuda", program(K, step("memset", dst="e", bytes=MIB), K), program(K, fill("e", "N"), K)),
    "a record of the legacy stream": (
        Pitfall.LEGACY, "cuda", program(K, record("x", "legacy"), launch("B")),
        program(K, record("x", "N"), launch("B"))),
    "a wait of the legacy stream": (
        Pitfall.LEGACY, "cuda", program(K, record("x", "A"), wait("x", "legacy"), launch("B")),
        program(K, record("x", "A"), wait("x", "N"), launch("B"))),
    "a pageable upload": (
        Pitfall.PAGEABLE, "cuda", program(copy("d", "g", "A", BIG), K, launch("B"), size=BIG),
        program(copy("d", "g", "A", BIG), K, launch("B"), size=BIG, pinned="g")),
    "a small pageable upload": (
        Pitfall.PAGEABLE, "cuda", program(copy("d", "g", "A", 4096)), program(copy("d", "p", "A", 4096))),
    "a pageable download": (
        Pitfall.PAGEABLE, "cuda", program(K, copy("g", "d", "A"), launch("B")),
        program(K, copy("p", "d", "A"), launch("B"))),
    "pageable rows": (
        Pitfall.PAGEABLE, "cuda",
        program(step("memcpy2d_async", dst="d", src="g", dpitch=64, spitch=64, width=32, height=64, stream="A")),
        program(step("memcpy2d_async", dst="d", src="p", dpitch=64, spitch=64, width=32, height=64, stream="A"))),
    "a pageable upload under ACL": (
        Pitfall.PAGEABLE, "acl", program(K, copy("d", "g", "A"), launch("B")),
        program(K, copy("d", "p", "A"), launch("B"))),
    "a pageable download under ACL": (
        Pitfall.PAGEABLE, "acl", program(K, copy("g", "d", "A"), launch("B")),
        program(K, copy("p", "d", "A"), launch("B"))),
    "a free in the middle": (
        Pitfall.FREE, "cuda", program(K, free(), launch("B"), sync()), program(K, launch("B"), sync(), free())),
    "a free of pinned memory": (
        Pitfall.FREE, "cuda", program(step("malloc_host", name="m", bytes=MIB), K, step("free_host", name="m"), K),
        program(step("malloc_host", name="m", bytes=MIB), K, K, step("free_host", name="m"))),
    "an unregistration": (
        Pitfall.FREE, "cuda",
        program(step("host_register", name="m", bytes=MIB), launch("A", 3000), step("host_unregister", name="m"), K),
        program(step("host_register", name="m", bytes=MIB), launch("A", 3000), K, step("host_unregister", name="m"))),
    "a stream destroyed under ACL": (
        Pitfall.DESTROY, "acl", program(launch("B"), step("destroy_stream", name="B"), K),
        program(launch("B"), K, step("destroy_stream", name="B"))),
    "a synchronous upload": (
        Pitfall.SYNC_COPY, "cuda", program(copy_now("d", "p"), launch("legacy", touches="d")),
        program(copy("d", "p", "legacy"), launch("legacy", touches="d"))),
    "a synchronous download": (
        Pitfall.SYNC_COPY, "cuda", program(launch("legacy", touches="d"), copy_now("p", "d"), launch("N")),
        program(launch("legacy", touches="d"), copy("p", "d", "legacy"), launch("N"))),
    "a synchronous upload for another stream": (
        Pitfall.SYNC_COPY, "cuda", program(launch("A", touches="e"), copy_now("d", "p"), launch("A", touches="d")),
        program(launch("A", touches="e"), copy("d", "p", "A"), launch("A", touches="d"))),
    "a synchronous download from another stream": (
        Pitfall.SYNC_COPY, "cuda", program(launch("A", touches="d"), copy_now("p", "d"), launch("B", touches="d")),
        program(launch("A", touches="d"), copy("p", "d", "A"), launch("B", touches="d"))),
    "a synchronous pageable copy": (
        Pitfall.SYNC_COPY, "cuda", program(copy_now("d", "g"), launch("N")),
        program(copy("d", "p", "legacy"), launch("N"))),
    "a synchronous copy under ACL": (
        Pitfall.SYNC_COPY, "acl", program(copy_now("d", "p"), launch("B")),
        program(copy("d", "p", "legacy"), launch("B"))),
    "a synchronous fill under ACL": (
        Pitfall.SYNC_COPY, "acl", program(step("memset", dst="d", bytes=MIB), launch("B")),
        program(fill("d", "legacy"), launch("B"))),
    "page faults of a kernel": (
        Pitfall.PAGE_FAULTS, "cuda", program(*MANAGED, launch("A", touches="m"), launch("A", touches="m")),
        program(*MANAGED, PREFETCH, launch("A", touches="m"), launch("A", touches="m"))),
    "page faults of a kernel that touches": (
        Pitfall.PAGE_FAULTS, "cuda", program(*MANAGED, step("touch", buf="m", bytes=MIB, stream="A")),
        program(*MANAGED, PREFETCH, step("touch", buf="m", bytes=MIB, stream="A"))),
}  # fmt: skip


def priced(before, rules):
    asker = Asker(case(before, rules))
    return prices(asker, asker.timeline)


def makespan(program, rules):
    return Asker(case(program, rules)).before_ns


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", PAIRS)
def test_the_price_is_the_difference_of_the_two_versions(name):
    pitfall, rules, before, after = PAIRS[name]
    found = {each.answer.gain_ns for each in priced(before, rules) if each.finding.pitfall is pitfall}
    assert found == {makespan(before, rules) - makespan(after, rules)}


def test_page_faults_of_the_host_have_no_price():
    before = program(*MANAGED, launch("A", touches="m"), sync("A"), step("host_access", writes=[["m", 0, MIB]]))
    [problem] = [each.problem for each in priced(before, "cuda") if each.answer is None]
    assert problem.startswith("a prefetch to the host belongs behind the work that writes the pages")


@pytest.mark.slow
def test_a_full_queue_is_priced_with_a_queue_that_is_never_full():
    before = program(*[launch("A")] * 1100, sync())
    full = [each for each in priced(before, "cuda") if each.finding.pitfall is Pitfall.FULL_QUEUE]
    assert len(full) > 1  # each step is a line
    assert len({id(each.answer) for each in full}) == 1
    assert full[0].answer.case.device.queues.depth > 10**9
    assert sum(each.finding.held_ns for each in full) > 0
    assert full[0].answer.gain_ns == 0  # the host waits, but the device has work all the time


def test_only_the_longest_waits_are_priced():
    before = program(*[copy("d", "g", "A", 4096)] * (MOST_PRICED + 1))
    without = [each for each in priced(before, "cuda") if each.answer is None]
    assert [each.problem for each in without] == ["only the 20 longest waits are priced"]


def test_a_shared_queue_is_priced_with_a_queue_for_each_stream():
    """Nine streams: no queue is empty, and the last shares that of the first, whose head waits for an event."""
    streams = "ABCDEFGHI"
    before = program(
        launch("B", 300), record("x", "B"), launch("B"),
        *(step for each in "ACDEFGH" for step in (wait("x", each), launch(each))),
        launch("I", 200), launch("I", 200), streams=streams,
    )  # fmt: skip
    shared = [each for each in priced(before, "cuda") if each.finding.pitfall is Pitfall.SHARED_QUEUE]
    assert [each.answer.gain_ns > 0 for each in shared] == [True]


def test_a_finding_that_many_steps_share_has_one_price():
    repeated = [copy("d", "g", "A", BIG), launch("B")] * 3
    before, after = (program(*repeated, size=BIG, pinned=pinned) for pinned in ("", "g"))
    total = makespan(before, "cuda") - makespan(after, "cuda")
    alone = [each.answer.gain_ns for each in priced(before, "cuda")]
    assert len(alone) == 3  # each step is a line
    assert max(alone) < total


def test_the_edit_of_a_line_changes_all_its_calls():
    """The kernel of the legacy stream holds the second of the other kernels back, and has itself to wait for the first;
    both findings are about one line, so it is priced once.
    """
    loop = [launch("legacy", 10), K] * 2
    asker = Asker(case(program(*loop)))
    on_lines = replace(
        asker.timeline, ops=[op._replace(site=f"a.py:{2 if op.stream == 'legacy' else 3}") for op in asker.timeline.ops]
    )
    found = [each.answer.gain_ns for each in prices(asker, on_lines) if each.finding.pitfall is Pitfall.LEGACY]
    edited = program(*[launch("N", 10), K] * 2)
    assert found == [makespan(program(*loop), "cuda") - makespan(edited, "cuda")]


def test_a_synchronous_copy_of_another_task_holds_a_blocking_stream_back():
    """The second kernel is queued while the copy of pageable memory has begun and has not queued any part."""
    one = {**copy_now("d", "g"), "task": "one"}
    two = {**K, "task": "two"}
    first = [{**launch("A", 500), "task": "two"}, {**step("give_way"), "task": "two"}]
    before = program(*first, one, two, {**sync("A"), "task": "two"})
    found = [each for each in priced(before, "cuda") if each.finding.pitfall is Pitfall.LEGACY]
    assert {each.finding.site for each in found} == {"step:2"}
    edited = [each.answer.case.program.steps[2].op for each in found]
    assert set(edited) == {"memcpy_async"}


def test_work_that_only_the_rule_keeps_apart_gets_the_stream_of_the_work_on_its_bytes():
    """The kernel of the legacy stream reads what the blocking stream writes; in a stream of its own it waits for it."""
    before = program(launch("A", touches="d"), launch("legacy", reads="d", name="reader"))
    found = priced(before, "cuda")
    edited = program(launch("A", touches="d"), launch("A", reads="d", name="reader"))
    assert found[0].answer.gain_ns == makespan(before, "cuda") - makespan(edited, "cuda") > 0
    assert "Give it the stream of kernel (step:0)" in found[0].text
    assert [each.answer.conflicts for each in found] == [()] * len(found)


def test_a_copy_by_the_host_has_no_price():
    before = program(K, copy("h", "g", "A"))
    (found,) = priced(before, "cuda")
    assert found.answer is None
    assert found.text.endswith("No price: the host makes this copy, not the device")


def test_what_is_worth_less_than_a_percent_or_cannot_be_tried_goes_to_the_last_line():
    """A short wait of a free is worth little, and a copy that the host makes cannot be edited."""
    free = [step("malloc", name="m", bytes=MIB), launch("A", us=1), step("free", name="m")]
    asker = Asker(case(program(*free, launch("A", us=100_000), copy("h", "g", "A")), "cuda"))
    found = prices(asker, asker.timeline)
    assert sorted(each.answer is None for each in found) == [False, True]
    assert prices_text(found, []).splitlines() == [
        "findings: 2",
        "  2 of them worth less than 1 % of the run, or without a price: step:2 (free), step:4 (synchronous copy)",
    ]


def test_the_text_of_prices():
    assert (
        prices_text([], [])
        == "findings: none: no call and no operation waited without being asked to (races: see the sanitizer)"
    )
    asker = Asker(case(program(K, copy("g", "d", "A")), "cuda").noting("the run was measured"))
    found = prices(asker, asker.timeline)
    text = prices_text(found, notes_of_prices(asker, found))
    first, finding, *notes = text.splitlines()
    assert first == "findings: 1"
    assert finding.startswith("  step:1: a copy to pageable memory kept the host until it was done, for ")
    assert " Worth " in finding
    assert [note[:34] for note in notes] == [
        "  not known: the run was measured",
        "  not known: pinned memory costs t",
        "  not known: a copy to pinned memo",
    ]
