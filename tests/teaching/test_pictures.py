"""Pictures have an alternative text, and need neither a display nor colours."""

import html
import re
import sys

import pytest

import acl_py as acl
from acl_py import teaching


@acl.kernel(cost=acl.Cost(us=10))
def work():
    pass


@acl.kernel(cost=acl.Cost(us=10))
def fill(x: acl.Out):
    x[:] = 1


async def pageable():
    """A copy to pageable memory behind a kernel: its call waits."""
    stream, device = await acl.CreateStream(name="maths"), await acl.Malloc(4096)
    await acl.Memset(device, 4096, 0, 4096)
    await work[1, stream]()
    await acl.MemcpyAsync(bytearray(4096), 4096, device, 4096, acl.MemcpyKind.DEVICE_TO_HOST, stream)
    return acl.current_simulation().trace


@pytest.fixture
def trace():
    return acl.run(pageable, device="tiny")


@pytest.fixture
def matplotlib():
    return pytest.importorskip("matplotlib", reason="pip install -e '.[notebooks]'")


def test_a_timeline_has_its_rows_and_times_as_alternative_text(trace, matplotlib, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "tkagg")  # needs a display
    shown = teaching.show({"a run": trace}, rows="both")
    assert shown.png.startswith(b"\x89PNG")
    assert shown.alt.splitlines()[0] == "a run:"
    assert [line.split(",")[0] for line in shown.alt.splitlines()[1:]] == [
        "  host", "  legacy", "  stream 'maths'", "  cores", "  copy out",
    ]  # fmt: skip
    assert "  cores, from 1 to 15 us: kernel 10 us, fill 4 us" in shown.alt


def test_a_mark_is_a_line_at_its_moment_and_a_line_of_the_text(trace, matplotlib):
    from acl_py.trace.views.figure import draw

    marks = {"a run": {"the host reads": 20}}
    assert teaching.show({"a run": trace}, marks=marks).alt.splitlines()[-1] == "  the host reads, at 20 us"
    (ax,) = draw({"a run": trace.timeline()}, marks=marks).axes
    assert {line.get_xdata()[0] for line in ax.lines} == {20}
    assert [text.get_text().strip() for text in ax.texts][-1] == "the host reads"


def test_a_mark_that_the_picture_cannot_show_is_refused(trace, matplotlib):
    with pytest.raises(ValueError, match="there are marks for 'another run', which is no title of a timeline"):
        teaching.show({"a run": trace}, marks={"another run": {"here": 20}})
    with pytest.raises(ValueError, match=r"the mark 'here' of 'a run' is 1\.5 us before"):
        teaching.show({"a run": trace}, marks={"a run": {"here": -1.5}})


def test_the_caption_has_the_microseconds_of_implicit_waits(trace, matplotlib):
    shown = teaching.show({"a run": trace})
    wait = r"pageable copy 21 us \(test_pictures.py:\d+\), legacy stream 3 us \(test_pictures.py:\d+\)"
    assert re.fullmatch(f"a run: implicit waits: {wait}", shown.caption)


def test_a_picture_is_html_with_an_alternative_text(trace, matplotlib):
    shown = teaching.show({"<a> & 'b'": trace})
    (alt,) = re.findall('<img alt="([^"]*)"', shown._repr_html_())
    assert html.unescape(alt) == shown.alt
    assert repr(shown) == f"{shown.alt}\n{shown.caption}"


def test_a_picture_of_nothing_is_refused(matplotlib):
    with pytest.raises(ValueError, match="there is no timeline to draw"):
        teaching.show({})


def test_a_picture_without_a_text_is_refused(matplotlib):
    from matplotlib.figure import Figure

    with pytest.raises(teaching.NotebookError, match="say what it shows"):
        teaching.picture(Figure(), " ")


def test_a_table_names_wrong_predictions(matplotlib):
    answers = {("a", "a"): True, ("a", "b"): False, ("b", "a"): True, ("b", "b"): False}
    guess = teaching.predict_table("a b\na w w\nb w ?")
    assert teaching.matrix(answers, guess).alt.splitlines() == [
        "a, then a: waits",
        "a, then b: beside (you: waits)",
        "b, then a: waits",
        "b, then b: beside",
    ]


def test_a_table_of_other_names_is_refused(matplotlib):
    with pytest.raises(teaching.NotebookError, match="The prediction has 'c then a', which the table does not have"):
        teaching.matrix({("a", "a"): True}, teaching.predict_table("a\nc w"))


def test_without_the_extra_a_sentence_says_what_to_install(trace, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(teaching.NotebookError) as refused:
        teaching.show({"a run": trace})
    assert str(refused.value) == "Pictures need matplotlib: pip install 'acl-py[notebooks]', then restart the kernel."


def test_a_price_is_what_the_edit_of_a_wait_is_worth(trace, capsys):
    teaching.price(trace)
    said = capsys.readouterr().out
    assert re.search(r"test_pictures.py:\d+: a copy to pageable memory kept the host .* Worth \d", said)


def test_a_run_that_waited_for_nothing_has_no_price(capsys):
    async def program():
        await work[1, await acl.CreateStream()]()
        await acl.SynchronizeDevice()
        return acl.current_simulation().trace

    teaching.price(acl.run(program, device="tiny"))
    assert capsys.readouterr().out == "Nothing waited without being asked to.\n"


def test_kinds_of_work_differ_without_colours_in_their_hatching_or_their_brightness(matplotlib):
    """So a picture can be read when it is printed in grey, and by readers who see other colours."""
    from itertools import combinations

    from matplotlib.colors import to_rgb

    from acl_py.trace.views.figure import STYLES

    def grey(style):
        return sum(
            share * part for share, part in zip((0.30, 0.59, 0.11), to_rgb(teaching.COLOURS[style]), strict=True)
        )

    def form(style):
        look = STYLES[style][1]
        return look.get("hatch"), look.get("linestyle")

    alike = [(a, b) for a, b in combinations(STYLES, 2) if form(a) == form(b) and abs(grey(a) - grey(b)) < 0.3]
    assert alike == []


def test_a_picture_of_timelines_has_their_page_and_another_picture_has_none(trace, matplotlib):
    from matplotlib.figure import Figure

    shown = teaching.show({"a run": trace, "again": trace})
    assert [run.title for run in shown.page.runs] == ["a run", "again"]
    assert all(run.critical for run in shown.page.runs)
    page = shown._repr_html_().partition("<details><summary>The same as a page: click an operation")[2]
    assert page.count("<iframe srcdoc=") == 1
    assert "<details>" not in teaching.picture(Figure(), "nothing")._repr_html_()


def test_a_report_has_the_path_the_advice_and_the_findings_with_their_prices(capsys):
    async def program():
        streams, buffers = [[await make() for _ in range(2)] for make in (acl.CreateStream, lambda: acl.Malloc(64))]
        for _ in range(2):
            await fill[1, streams[0]](buffers[0])
            await acl.SynchronizeStream(streams[0])
            await fill[1, streams[1]](buffers[1])
        await acl.SynchronizeDevice()
        return acl.current_simulation().trace

    teaching.report(acl.run(program, device="tiny", sanitize="device,host"), top=2)
    path, advice, findings = re.fullmatch(
        r"(critical path: .*?)\n(advice: .*?)\n(findings: .*?)\n", capsys.readouterr().out, re.DOTALL
    ).groups()
    assert re.search(r"by line:\n(    .*\n){2}.*more lines", path)
    assert re.search(r"test_pictures.py:\d+: SynchronizeStream\(\) orders nothing .* Worth \d", advice)
    assert findings.startswith("findings: none")
