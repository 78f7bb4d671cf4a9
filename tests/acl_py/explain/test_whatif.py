"""What-if: each edit on a small program, edits that cannot be made, and operations over another number of streams."""

from random import Random

import pytest
from listed import MIB, case, copy, copy_now, fill, launch, program, record, step, sync, wait

from acl_py.causes.relation import Relation
from acl_py.explain.cases import EditError
from acl_py.explain.edits import FORMS, apply, parse, parse_all
from acl_py.explain.whatif import Asker, answers_text
from acl_py.trace.rows.reading import site_of_call
from device_model.profile import load

PIPELINE = program(
    copy("d", "g", "A"), launch("A", touches="d"), copy("h", "d", "A"),
    copy("e", "p", "B"), launch("B", touches="e", name="other"), copy("q", "e", "B"), sync(),
)  # fmt: skip


def ask(text, before=PIPELINE, **options):
    return Asker(case(before, **options)).ask(parse_all(text))


def after(text, before=PIPELINE, **options):
    """The case with the edits of *text*."""
    changed = case(before, **options)
    for edit in parse_all(text):
        changed = apply(edit, changed)
    return changed


def spaces(changed):
    return {name: options["space"] for name, options in changed.program.buffers.items()}


def test_pinned_changes_all_pageable_buffers_or_the_one_that_is_named():
    assert set(spaces(after("pinned")).values()) == {"device", "pinned"}
    assert spaces(after("pinned=g"))["g"] == "pinned"
    assert spaces(after("pinned=g"))["h"] == "pageable"
    assert ask("pinned").gain_ns > ask("pinned=g").gain_ns > 0


def test_nonblocking_frees_streams_from_the_legacy_stream():
    before = program(launch("A"), launch("legacy"), launch("A"))
    assert ask("nonblocking", before).gain_ns == ask("nonblocking=A", before).gain_ns > 0
    assert ask("nonblocking=B", before).gain_ns == 0


def test_nonblocking_holds_for_streams_that_the_program_makes():
    before = program(step("create_stream", name="C"), launch("C"), launch("legacy"), launch("C"))
    assert ask("nonblocking=C", before).gain_ns > 0


def test_per_thread_moves_the_work_of_the_legacy_stream():
    before = program(launch("A"), launch("legacy"), launch("A"))
    changed = after("per-thread", before)
    assert changed.rules.name == "cuda_per_thread"
    assert [each.fields["stream"] for each in changed.program.steps] == ["A", "per_thread", "A"]
    assert ask("per-thread", before).gain_ns > 0


def test_times_do_not_contain_the_synchronisation_that_ends_a_replay():
    before = program(launch("A"), sync("A"))
    assert ask("h2d=2x", before).before_ns == Asker(case(before)).timeline.end_ns


def test_bandwidth_divides_what_grows_with_the_size():
    before = load("h200").copies.h2d
    faster = after("h2d=2x").device.copies.h2d
    fixed = before.points[0][1]
    assert [time - fixed for _, time in faster.points] == [round((time - fixed) / 2) for _, time in before.points]
    assert after("d2h=0.5x").device.copies.d2h.points[-1][1] > load("h200").copies.d2h.points[-1][1]


def test_a_kernel_takes_its_part_of_the_time():
    changed = after("kernel:other=0.5x")
    assert [each.fields["us"] for each in changed.program.steps if each.op == "launch"] == [100, 50]


def test_a_core_kernel_gives_its_cores_back_in_proportion():
    cores = step("launch_cores", stream="A", us=10, cores=4, released=[[5, 2], [10, 2]], name="matmul")
    changed = after("kernel:matmul=2x", program(cores))
    assert changed.program.steps[0].fields["us"] == 20
    assert changed.program.steps[0].fields["released"] == [[10, 2], [20, 2]]


def test_cores_and_queues_of_the_device():
    before = program(*[launch("A", blocks=132, exclusive=True), launch("B", blocks=132, exclusive=True)])
    assert after("cores=264", before).device.cores.count == 264
    assert ask("cores=264", before).gain_ns > 90_000
    assert after("queue-depth=7").device.queues.depth == 7
    assert after("queue-depth=inf").device.queues.depth > 10**9


def test_another_device_lists_the_times_that_are_not_rescaled():
    answer = ask("device=ascend910b3")
    assert answer.case.device.name == "ascend910b3"
    assert answer.notes == ("the times of kernels are those of the run, not rescaled for ascend910b3: kernel, other",)


def test_edits_are_made_together():
    together = ask("pinned,h2d=2x")
    assert together.edits == "pinned, h2d=2x"
    assert together.gain_ns > max(ask("pinned").gain_ns, ask("h2d=2x").gain_ns)


def test_names_of_kernels_may_have_commas():
    assert [str(edit) for edit in parse_all("kernel:gemm,64=0.5x,pinned")] == ["kernel:gemm,64=0.5x", "pinned"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pined", "there is no what-if 'pined'; did you mean pinned?"),
        ("magic", f"there is no what-if 'magic'; there are {FORMS}"),
        ("", "there is no what-if ''"),
        ("streams", "'streams': is written streams=N"),
        ("per-thread=1", "'per-thread=1': is written per-thread"),
        ("kernel=2x", "'kernel=2x': is written kernel:NAME=0.5x"),
        ("h2d:x=2x", "'h2d:x=2x': is written h2d=2x"),
        ("pinned=w", "pinned=w: there is no buffer 'w'; pageable buffers: g, h"),
        ("pinned=p", "pinned=p: this buffer is pinned memory already"),
        ("nonblocking=C", "nonblocking=C: there is no stream 'C'; there are A, B, N"),
        ("kernel:k=2x", "kernel:k=2x: there is no kernel 'k'; there are kernel, other"),
        ("h2d=2", "h2d=2: the value must be a number from 1e-6 to 1e6 with an x, such as 2x"),
        ("h2d=nanx", "h2d=nanx: the value must be a number"),
        ("h2d=0x", "h2d=0x: the value must be a number"),
        ("cores=0", "cores=0: the value must be a whole number from 1 to 4,096"),
        ("cores=²", "cores=²: the value must be a whole number"),
        ("streams=1025", "streams=1025: the value must be a whole number from 1 to 1,024"),
        ("device=h300", "device=h300: there is no profile 'h300'; did you mean h200? There are ascend310"),
        ("queue-depth=deep", "queue-depth=deep: the value must be a whole number"),
    ],
)
def test_an_edit_that_cannot_be_made_says_why(text, message):
    with pytest.raises(EditError) as caught:
        after(text)
    assert str(caught.value).startswith(message)


def test_edits_that_this_program_or_these_rules_do_not_allow():
    with pytest.raises(EditError, match="the rules acl have no legacy default stream"):
        after("per-thread", rules="acl")
    with pytest.raises(EditError, match="cores=2: a kernel of this program takes 4 SMs at once"):
        after("cores=2", program(step("launch_cores", stream="A", us=10, cores=4)))
    with pytest.raises(EditError, match=r"streams=2: step 0 \(value_write\) needs its own stream"):
        after("streams=2", program(step("value_write", stream="A", buf="d", value=1)))
    too_large = program(size=1024 * MIB)
    with pytest.raises(EditError, match=r"device=tiny: the edited program does not run: .* memory"):
        Asker(case(too_large)).ask([parse("device=tiny")])


# --- other numbers of streams


def test_more_streams_take_prefetches_with_them_and_refuse_attachments():
    moves = [step("prefetch", buf="m", bytes=MIB, off=off * MIB, to="device", stream="A") for off in (0, 1)]
    before = program(*moves, launch("A", touches=["m"]), sync(), managed=["m"])
    steps = [(each.op, each.fields.get("stream")) for each in after("streams=2", before).program.steps]
    assert steps == [
        ("prefetch", "new stream 1"),
        ("prefetch", "new stream 2"),
        ("launch", "new stream 1"),
        ("sync_device", None),
    ]
    with pytest.raises(EditError, match=r"streams=2: step 0 \(attach\) needs its own stream"):
        after("streams=2", program(step("attach", buf="m", stream="A", to="single"), managed=["m"]))


def test_a_serial_program_overlaps_in_two_streams():
    before = program(
        copy("d", "p", "A"), launch("A", touches="d"), copy("e", "q", "A"), launch("A", touches="e"), sync("A")
    )
    answer = ask("streams=2", before)
    assert answer.gain_ns > 0
    assert answer.conflicts == ()
    assert len({op.stream for op in answer.after.ops}) == 2


def test_work_on_the_same_bytes_stays_in_order():
    before = program(copy("d", "p", "A"), launch("B", reads="d"), record("x", "B"), wait("x", "A"), fill("d", "A"))
    answer = ask("streams=3", before)
    relation = Relation(answer.after)
    ops = {op.name: index for index, op in enumerate(answer.after.ops)}
    assert relation.is_before(ops["h2d"], ops["kernel"])
    assert relation.is_before(ops["kernel"], ops["fill"])


def test_kernels_of_which_nobody_knows_the_bytes_keep_their_order():
    before = program(launch("A"), launch("A"), launch("B"), copy("d", "p", "A"))
    answer = ask("streams=4", before)
    relation = Relation(answer.after)
    names = sorted(range(4), key=lambda index: answer.after.ops[index].queued_ns)
    assert relation.is_before(names[0], names[1])
    assert relation.is_before(names[1], names[3])
    assert not relation.is_before(names[1], names[2])


def test_work_that_is_over_holds_no_place_in_a_stream():
    """The host has waited for what the last two kernels read and for what the streams had to do: they take turns."""
    before = program(
        launch("A", touches="d"), sync("A"), launch("A", touches="d"), sync("A"), launch("A", touches="e"),
        launch("A", touches="p"), sync("A"),
    )  # fmt: skip
    changed = after("streams=2", before).program.steps
    *_, one, two = [each.fields["stream"] for each in changed if each.op == "launch"]
    assert one != two
    waits = [each.fields["stream"] for each in changed if each.op == "sync_stream"][-2:]
    assert waits == [one, two]  # first the one that is over first


def test_a_synchronised_stream_is_waited_for_wherever_its_work_went():
    before = program(copy("d", "p", "A"), copy("q", "e", "A"), sync("A"), launch("B"))
    answer = ask("streams=2", before)
    relation = Relation(answer.after)
    ops = {op.name: index for index, op in enumerate(answer.after.ops)}
    assert relation.is_before(ops["h2d"], ops["kernel"])
    assert relation.is_before(ops["d2h"], ops["kernel"])


@pytest.mark.parametrize(("rules", "waits"), [("cuda", 0), ("acl", 1)])
def test_a_stream_that_is_destroyed_is_waited_for_where_the_rules_say_so(rules, waits):
    before = program(copy("d", "p", "A"), step("destroy_stream", name="A"), copy("q", "e", "B"), sync())
    changed = after("streams=2", before, rules=rules).program.steps
    assert [each.op for each in changed] == [
        "memcpy_async", "destroy_stream", *["sync_stream"] * waits, "memcpy_async", "sync_device",
    ]  # fmt: skip


def test_new_streams_are_made_in_the_context_that_the_program_makes():
    before = program(
        step("create_context", context="own"), step("create_stream", name="C"), copy("d", "p", "C"), launch("C"),
        sync("C"), step("destroy_stream", name="C"), step("destroy_context", context="own"), streams="",
    )  # fmt: skip
    answer = ask("streams=2", before, rules="acl")
    assert [call.ret for call in answer.run.host] == [0] * 9
    assert {op.stream for op in answer.after.ops} == {"stream 'new stream 1'"}


def test_contexts_without_work_do_not_keep_a_program_from_new_streams():
    """As where numba takes the primary context beside one of cuda.core that only loads a library."""
    pairs = [copy("d", "p", "A"), launch("A", touches="e"), sync("A")]
    gain_ns = ask("streams=2", program(*pairs)).gain_ns
    assert gain_ns > 0
    assert ask("streams=2", program(step("set_context", context="primary"), *pairs)).gain_ns == gain_ns
    other = step("create_context", context="other"), step("set_context", context="primary")
    answer = ask("streams=2", program(*other, *pairs))
    assert answer.gain_ns == gain_ns
    assert [call.ret for call in answer.run.host] == [0] * len(answer.run.host)


def test_new_streams_are_of_the_device_that_the_program_uses():
    work = [copy("x", "p", "C"), copy("y", "p", "C"), launch("C", touches="x"), sync("C")]
    made = [step("set_device", device=1), *(step("malloc", name=each, bytes=MIB) for each in "xy")]
    answer = ask("streams=2", program(*made, step("create_stream", name="C"), *work, streams=""))
    assert [call.ret for call in answer.run.host] == [0] * len(answer.run.host)
    assert {(op.stream, op.device) for op in answer.after.ops} == {
        ("stream 'new stream 1'", 1), ("stream 'new stream 2'", 1),
    }  # fmt: skip


WORK = step("create_stream", name="C"), copy("d", "p", "C")


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (
            [copy("d", "p", "A"), step("create_context", context="own"), *WORK],
            "in several contexts, 'primary' and 'own'",
        ),
        (
            [copy("d", "p", "A"), step("create_context", context="own"), sync()],
            "in several contexts, 'primary' and 'own'",
        ),
        ([copy("d", "p", "A"), step("set_device", device=1), *WORK], "uses several devices$"),
    ],
)
def test_work_in_several_contexts_keeps_its_streams(steps, said):
    with pytest.raises(EditError, match=f"^streams=2: the program .*{said}"):
        after("streams=2", program(*steps))


def test_an_edited_program_whose_calls_fail_is_no_answer():
    before = program(step("malloc", name="large", bytes=1 << 30), launch("A"))
    with pytest.raises(EditError, match=r"device=tiny: the edited program does not run: malloc fails with 2$"):
        ask("device=tiny", before)


def test_calls_and_operations_of_an_edited_run_have_the_lines_of_the_recorded_program():
    before = program(
        copy("d", "p", "A") | {"site": "app.py:4"}, launch("A", touches="d") | {"site": "app.py:5"},
        launch("B", touches="e"), copy("q", "d", "B") | {"site": "app.py:7"}, sync() | {"site": "no line"},
    )  # fmt: skip
    edited = ask("streams=2", before).after
    assert {(op.name, op.site) for op in edited.ops} == {
        ("h2d", "app.py:4"), ("kernel", "app.py:5"), ("kernel", "step:2"), ("d2h", "app.py:7"),
    }  # fmt: skip
    assert [(call.name, site_of_call(call)) for call in edited.calls if call.name != "LaunchKernel"] == [
        ("MemcpyAsync", "app.py:4"), ("MemcpyAsync", "app.py:7"), ("SynchronizeDevice", "step:4"),
    ]  # fmt: skip


@pytest.mark.one_in(8)
@pytest.mark.parametrize("seed", range(60))
def test_random_programs_have_no_new_conflicts_in_any_number_of_streams(seed):
    """Nor does work start before what the host had waited for."""
    random = Random(seed)
    steps = []
    for _ in range(25):
        stream, buffer = random.choice("AB"), random.choice("de")
        host = random.choice("pqgh")
        choices = [
            copy(buffer, host, stream, random.randrange(1, MIB)),
            copy(host, buffer, stream, random.randrange(1, MIB)),
            launch(stream, random.randrange(1, 50), touches=random.choice(("", "d", "e", "de"))),
            fill(buffer, stream),
            sync(random.choice((stream, None))),
            copy_now(buffer, host, 4096),
            record(random.choice("xy"), stream),
            wait(random.choice("xy"), stream),
            step("sync_event", event=random.choice("xy")),
        ]
        steps.append(random.choice(choices))
    asker = Asker(case(program(*steps, flags="nonblocking")))
    for count in (1, 2, 5):
        answer = asker.ask([parse(f"streams={count}")])
        assert answer.conflicts == (), answer.text
        assert len(answer.after.ops) == len(asker.timeline.ops)


# --- answers


def test_an_answer_as_text():
    answers = [ask("pinned"), ask("cores=132"), ask("d2h=0.5x")]
    first, *lines = answers_text(answers).splitlines()
    assert first.startswith("pinned: ")
    assert first.endswith(" %)")
    now = f"{answers[1].before_ns / 1000:,.1f} us"
    cores, d2h = [line for line in lines if not line.startswith("  not known")]
    assert cores == f"cores=132: {now} instead of {now}: no difference"
    assert " more (" in d2h


def test_an_edit_that_is_no_fix_says_so():
    before = program(launch("A", touches="d"), launch("legacy", reads="d"))
    answer = ask("nonblocking", before)
    assert answer.conflicts
    assert "  no fix: it leaves work on the same bytes without order: kernel 'kernel' (step:0) and " in answer.text


def test_a_run_as_it_is_has_its_own_conflicts_which_no_edit_is_blamed_for():
    before = program(launch("A", touches="d"), launch("B", touches="d"))
    assert ask("pinned", before).conflicts == ()
