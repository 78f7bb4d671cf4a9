"""The overlap optimiser, and operations in parts."""

import pytest
from listed import MIB, case, copy, launch, program, step, sync

from acl_py.causes.relation import Relation
from acl_py.explain.cases import EditError
from acl_py.explain.edits import parse
from acl_py.explain.optimiser import document, optimise, write_program
from acl_py.explain.whatif import Asker
from acl_py.programs.format import load
from acl_py.programs.format import parse as program_of

BIG = 16 * MIB


def kernel(*buffers, us=300):
    extents = [[name, 0, BIG] for name in buffers]
    return step("launch", stream="A", us=us, name="layer", reads=extents, writes=extents)


SERIAL = program(copy("d", "g", "A", BIG), kernel("d"), copy("h", "d", "A", BIG), sync("A"), size=BIG)


@pytest.fixture(scope="module")
def proposal():
    """What makes the serial pipeline faster."""
    return optimise(Asker(case(SERIAL)))


@pytest.mark.slow
def test_a_serial_pipeline_gets_pinned_memory_parts_and_streams(proposal):
    assert {edit.name for edit in proposal.edits} == {"pinned", "chunks", "streams"}
    assert proposal.together.gain_ns > 0.7 * proposal.together.before_ns
    assert proposal.together.conflicts == ()
    assert [answer.gain_ns > 0 for answer in proposal.alone] == [True, False, False]
    first, *others = proposal.text.splitlines()
    assert first.startswith("proposal: pinned, chunks=")
    assert sum(line.endswith(" us") for line in others) == 3  # each edit alone


def test_a_program_that_nothing_makes_faster_gets_no_proposal():
    proposal = optimise(Asker(case(program(launch("A"), sync("A")))))
    assert proposal.together is None
    assert proposal.text == "proposal: none: no pinned memory, parts or streams make this program faster"


def test_edits_that_are_worth_nothing_are_left_out():
    """Two streams exist already: pinned memory is all that is missing."""
    proposal = optimise(Asker(case(program(copy("d", "g", "A", 4096), sync()))))
    assert [str(edit) for edit in proposal.edits] == ["pinned"]


def test_the_edited_program_can_be_written_and_replayed(proposal, tmp_path):
    path = tmp_path / "faster.json"
    together = proposal.together
    write_program(together.case.program, path)
    (read,) = load(path)
    assert read == together.case.program
    assert Asker(case(read)).before_ns == together.after_ns


def test_each_part_goes_through_all_operations_before_the_next():
    answer = Asker(case(SERIAL)).ask([parse("chunks=2")])
    ops = [(each.op, each.fields.get("dst")) for each in answer.case.program.steps]
    part = [("memcpy_async", "d"), ("launch", None), ("memcpy_async", "h")]
    assert ops == [*part, *part, ("sync_stream", None)]


def test_a_program_as_a_document_and_back():
    more = program(
        step("create_event", event="z", timing=False),
        step("launch", id="k", stream="A", us=1.5, task="other"),
        step("sync_op", of="k", task="other"),
        step("sync_stream", stream="A", limit_ms=3, after=2),
        step("sync_device", thread="second"),
    )
    for each in (SERIAL, more):
        assert program_of(document(each)) == each


# --- parts


def parts(before, count=4):
    return Asker(case(before)).ask([parse(f"chunks={count}")])


def test_parts_have_all_bytes_and_all_time():
    after = parts(program(copy("d", "p", "A", BIG), kernel("d"), size=BIG)).case.program.steps
    copies = [(each.fields["dst_off"], each.fields["bytes"]) for each in after if each.op == "memcpy_async"]
    assert copies == [(number * BIG // 4, BIG // 4) for number in range(4)]
    launches = [each.fields for each in after if each.op == "launch"]
    assert [each["writes"] for each in launches] == [[["d", begin, begin + size]] for begin, size in copies]
    assert sum(each["us"] for each in launches) == 300


def test_parts_begin_at_multiples_of_256_bytes():
    before = program(copy("d", "p", "A", BIG - 100), size=BIG)
    sizes = [each.fields["bytes"] for each in parts(before, 3).case.program.steps]
    assert sum(sizes) == BIG - 100
    assert [size % 256 for size in sizes[:-1]] == [0, 0]


def test_memory_that_is_not_copied_in_parts_is_whole_for_each_part():
    """The weights of a layer."""
    before = program(copy("e", "q", "A", 4096), copy("d", "p", "A", BIG), kernel("d", "e"), size=BIG)
    after = [each.fields["reads"] for each in parts(before).case.program.steps if each.op == "launch"]
    assert [each[1] for each in after] == [["e", 0, BIG]] * 4
    answer = Asker(case(before)).ask([parse("chunks=4"), parse("streams=2")])
    assert answer.conflicts == ()
    relation, ops = Relation(answer.after), answer.after.ops
    weights = next(index for index, op in enumerate(ops) if op.bytes == 4096)
    assert all(relation.is_before(weights, index) for index, op in enumerate(ops) if op.kind == "kernel")


def test_the_note_names_the_kernels():
    answer = parts(SERIAL)
    assert any("kernels work on parts" in note and note.endswith(": layer") for note in answer.notes)


AWAITED = program(copy("d", "p", "A", BIG) | {"id": "up"}, step("sync_op", of="up"), kernel("d"), sync(), size=BIG)


def test_a_wait_for_an_operation_becomes_a_wait_for_all_of_its_parts():
    asker = Asker(case(AWAITED))
    for more in ([], [parse("streams=3")]):
        answer = asker.ask([parse("chunks=4"), *more])
        steps = [each for each in answer.case.program.steps if each.op in ("memcpy_async", "sync_op")]
        ids = [f"up, part {number}" for number in (1, 2, 3, 4)]
        assert [each.id or each.fields["of"] for each in steps] == [*ids, *ids]
        kernels = [op for op in answer.after.ops if op.kind == "kernel"]
        copies = [op for op in answer.after.ops if op.kind == "h2d"]
        assert min(op.queued_ns for op in kernels) > max(op.end_ns for op in copies)
        assert program_of(document(answer.case.program)) == answer.case.program


def test_other_streams_need_no_event_behind_a_wait_for_an_operation():
    ops = [copy("d", "p", "A", BIG) | {"id": "up"}, copy("e", "q", "A", BIG), step("sync_op", of="up")]
    answer = Asker(case(program(*ops, kernel("d", "e"), sync(), size=BIG))).ask([parse("streams=2")])
    new = [each.op for each in answer.case.program.steps]
    assert new == ["memcpy_async", "memcpy_async", "sync_op", "launch", "sync_device"]
    assert answer.conflicts == ()


def test_a_program_without_large_copies_cannot_be_in_parts():
    with pytest.raises(EditError, match="chunks=4: no asynchronous copy has 1,048,576 bytes or more"):
        parts(program(copy("d", "p", "A", 4096)))
