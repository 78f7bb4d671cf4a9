"""The README and docs/ show what happens: the outputs of their examples, the times of the apps, the picture.

`python tests/test_readme.py` rewrites the outputs and times, `python docs/make/picture.py` the picture.
"""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from acl_py.calls.table import all_verbs
from tests import forks
from tests.extras import extras
from tests.parts import anchor_of

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
INDEX = ROOT / "docs" / "index.md"
AICORE = ROOT / "docs" / "aicore.md"
PTX = ROOT / "docs" / "ptx.md"
CTA = ROOT / "docs" / "cta.md"
GRAPHS = ROOT / "docs" / "graphs.md"
MANAGED = ROOT / "docs" / "managed.md"
SWEEPS = ROOT / "docs" / "sweeps.md"
VALUES = ROOT / "docs" / "values.md"
COLLECTIVES = ROOT / "docs" / "collectives.md"
TEACHING = ROOT / "docs" / "teaching.md"
TIME = ROOT / "docs" / "time.md"
SANITIZER = ROOT / "docs" / "sanitizer.md"
EXPLANATIONS = ROOT / "docs" / "traces" / "explanations.md"
APPS_PAGE = ROOT / "docs" / "apps.md"
WITH_EXAMPLES = (
    README, INDEX, AICORE, CTA, PTX, GRAPHS, MANAGED, COLLECTIVES, VALUES, SWEEPS, TIME, SANITIZER, TEACHING,
    EXPLANATIONS,
)  # fmt: skip
HOWTO = sorted((ROOT / "docs" / "howto").glob("*.md"))
# A long page is an overview, beside a folder of its name that has its parts.
PARTS = sorted(part for page in (ROOT / "docs").glob("*.md") for part in page.with_suffix("").glob("*.md"))
TOP = [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
PAGES = [*TOP, *sorted((ROOT / "docs").glob("*.md")), *PARTS, *HOWTO]
APPS = {  # the rows of two versions in an app's output
    "samples/moe/moe": ("naive", "pipelined"),
    "samples/attention/five_stages": ("naive", "pipelined"),
    "samples/attention/streaming": ("naive", "double-buffered"),
    "samples/server/server": ("batches of up to 32, one stream", "batches of up to 32, four streams"),
}
AS_TORCH = {  # the row of an app as torch calls it: its output, and its versions
    "samples/moe/as_torch": ("samples/moe/moe", ("naive", "pipelined", "batched")),
    "samples/attention/stages": ("samples/attention/five_stages", ("naive", "pipelined", "captured")),
}
EXAMPLE = re.compile(r"```python\n(?P<program>(?:(?!```).)*)```\n\n```text\n(?P<output>.*?)```", re.DOTALL)


def name_of(page: Path) -> str:
    """The name of *page* in tests, such as "README", "cuda" or "accuracy/ptx"."""
    return page.with_suffix("").relative_to(ROOT / "docs").as_posix() if page not in TOP else page.stem


def examples_of(page: Path) -> list[re.Match[str]]:
    """The programs of *page*, each with the output below it."""
    return list(EXAMPLE.finditer(page.read_text(encoding="utf-8")))


def example_of(page: Path) -> re.Match[str]:
    """The only program of *page*."""
    (example,) = examples_of(page)
    return example


def output_of(program: str) -> str:
    with TemporaryDirectory() as folder:
        Path(folder, "demo.py").write_text(program, encoding="utf-8")
        done = forks.run("demo.py", cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(example, id=f"{name_of(page)} {number}")
        for page in WITH_EXAMPLES
        for number, example in enumerate(examples_of(page), 1)
    ],
)
def test_an_example_prints_what_its_page_says(example):
    assert output_of(example["program"]) == example["output"]


def test_every_page_with_examples_has_one():
    assert all(map(examples_of, WITH_EXAMPLES))


def test_the_example_of_the_sanitizers_page_is_wrong_with_weak_effects():
    program = example_of(SANITIZER)["program"]
    end = 'sanitize="device,host,uninitialised")'
    assert program.count(end) == 1
    assert output_of(program.replace(end, 'effects="weak")')) == "right, by luck: False\n"


def test_the_readmes_first_program_is_on_the_simulated_clock():
    program = example_of(README)["program"]
    head = "async def main():\n"
    assert program.count(head) == 1
    watched = program.replace(head, f"{head}    print(__import__('asyncio').get_running_loop().time())\n")
    assert output_of(watched).startswith("0.0\n")  # the clock of the machine is later


def with_times(text: str) -> str:
    """The page *text* with the last two cells of the row of each app as its output has them."""
    for app, versions in APPS.items():
        output = (ROOT / app).with_suffix(".out").read_text(encoding="utf-8")
        cells = [time(output, version) for version in versions]
        row = re.compile(rf"^(\| \[.*\]\(../{app}\.py\) \| .* )\| .* \| .* \|$", re.MULTILINE)
        text, rows = row.subn(rf"\1| {cells[0]} | {cells[1]} |", text)
        assert rows == 1, f"docs/apps.md has {rows} rows for {app}"
    for app, (sample, versions) in AS_TORCH.items():
        output = (ROOT / sample).with_suffix(".out").read_text(encoding="utf-8")
        part = output.partition("as torch")[2].partition("\n\n")[0]
        cells = [time(part, version) for version in versions] + [card(part, version) for version in versions[:2]]
        row = re.compile(rf"^(\| \[.*\]\(../{app}\.py\) ).*$", re.MULTILINE)
        text, rows = row.subn(rf"\1| {' | '.join(cells)} |", text)
        assert rows == 1, f"docs/apps.md has {rows} rows for {app}"
    return text


def card(output: str, version: str) -> str:
    """What *version* took on a card, by an *output*."""
    (us,) = re.findall(rf"^ *{version} .* an H200: +([\d,]+ us)", output, re.MULTILINE)
    return us


def time(output: str, version: str) -> str:
    """The time of *version* in the last case of an *output*; a server has a rate instead."""
    number, unit = re.findall(rf"^ *{version} +([\d,.]+)( us)?", output, re.MULTILINE)[-1]
    return number + (unit or " answers per ms")


def test_the_times_of_the_apps_are_those_of_their_outputs():
    text = APPS_PAGE.read_text(encoding="utf-8")
    assert with_times(text) == text


@pytest.mark.slow
def test_the_first_picture_is_the_page_with_a_finding_and_its_price(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "docs" / "make")
    import picture
    from PIL import Image

    with Image.open(picture.PICTURE) as image:
        told = image.text["Description"]
        assert image.size == tuple(picture.SCALE * side for side in picture.SIZE.values())
    assert told == picture.report(tmp_path)
    [(worth, whole)] = re.findall(r"^upload\.py:20: .* Worth ([\d,.]+) us of ([\d,.]+) us\.$", told, re.MULTILINE)
    text = " ".join(README.read_text(encoding="utf-8").split())
    assert f"line 20 the host waits for copies of pageable memory: {worth} of {whole} us." in text
    assert picture.PICTURE.stat().st_size < 1_000_000
    for page in (README, INDEX):
        shown = re.findall(r"!\[[^]]*\]\(([^)]*)\)", page.read_text(encoding="utf-8"))
        assert (page.parent / shown[0]).resolve() == picture.PICTURE


def test_the_readme_is_short_and_begins_with_three_readers_the_picture_and_the_demo():
    """For each kind of reader, what it gives them, with a number and its command."""
    text = README.read_text(encoding="utf-8")
    lines = text.splitlines()
    assert len(lines) <= 120
    readers, _, begin = text.partition("![")
    assert len(re.findall(r"^\* \*\*You .*\d(?:.|\n)*?: `(?:python -m tests|pytest)", readers, re.MULTILINE)) == 3
    assert len(readers.splitlines()) <= 11
    assert "acl-py demo --report demo.html " in begin.partition("```sh")[2].partition("```")[0]


def test_the_claims_of_the_readme_count_what_is_there():
    from tests.cuda.public_scripts import table
    from tests.sanitizer.cases import CASES

    text = " ".join(README.read_text(encoding="utf-8").split())
    wrong = sum(bool(case.pairs) for case in CASES)
    assert f" {len(CASES)} small programs, {wrong} of them with accesses that nothing orders" in text
    ended = next(line for line in table() if "come to their right end" in line)
    assert f" {ended.partition(' come')[0]} public scripts" in text


@pytest.mark.slow
def test_the_errors_in_the_readme_are_those_of_the_commands():
    from tests.conformance.criteria import distribution, makespan_error, measured, replayed

    text = " ".join(README.read_text(encoding="utf-8").split())
    programs = measured("timelines")
    median, p90, _ = distribution([makespan_error(each, replayed("timelines", each["id"])) for each in programs])
    assert f" {len(programs)} random programs" in text
    assert (
        f"within {median:.2f} % (median; {p90:.2f} % at the 90th percentile): `python -m tests.bench accuracy`" in text
    )
    assert f"| {median:.2f} % | {p90:.2f} % | `python -m tests.bench accuracy` |" in text
    parts = sorted((ROOT / "docs" / "accuracy").glob("*.md"))
    others = "\n".join(part.read_text(encoding="utf-8") for part in parts)  # other tests hold their rows
    for row in (
        r"\| all sizes, 8 bytes to 1 GiB \| \d+ \| ([\d.]+) \| ([\d.]+) \|",
        r"\| cp_async\.json \| .*? median error ([\d.]+) %, 90th percentile ([\d.]+) %",
        r"\| other kernels \| \d+ \| ([\d.]+) %, ([\d.]+) % \|",
    ):
        [(there, beyond)] = re.findall(row, others)
        assert f"| {there} % | {beyond} % |" in text


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_prose_has_at_most_120_columns(page):
    """Tables, code and messages, which are quoted, are as wide as they are."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert [line for line in prose.splitlines() if len(line) > 120 and not line.startswith(("|", "> "))] == []


def test_the_page_of_installing_names_each_extra_and_its_packages():
    table = (ROOT / "docs" / "installing.md").read_text(encoding="utf-8").partition("| extra |")[2]
    all_extras = extras()
    rows = {row.split(" | ")[0].strip("| "): row for row in table.splitlines() if row.startswith("| ")}
    of_rows = {name: row for names, row in rows.items() for name in re.findall(r"`(\w+)`", names)}
    assert of_rows.keys() == all_extras.keys() - {""}
    for extra, names in all_extras.items():
        row = of_rows.get(extra, rows["(none)"])
        if "CONTRIBUTING" not in row:
            assert [name for name in names if name not in row] == [], extra


def test_the_verbs_of_coming_from_another_library_are_there():
    """In the last column of each table but the last, words with a capital and an argument list are verbs."""
    tables = (ROOT / "docs" / "coming_from.md").read_text(encoding="utf-8").partition("## numba")[0]
    cells = [line.rstrip(" |").rpartition(" | ")[2] for line in tables.splitlines() if line.startswith("| ")]
    verbs = {name for cell in cells for name in re.findall(r"\b([A-Z]\w+)\(", cell)}
    assert len(verbs) > 15
    assert verbs <= all_verbs().keys()


def headings(page: Path) -> list[str]:
    """The headings of *page*, the title first."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"^#+ (.*)$", prose, re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The anchors of *page*: those of its headings, as they are made on the web, and those that it sets itself."""
    return set(map(anchor_of, headings(page))) | set(
        re.findall(r'<a id="([^"]+)"></a>', page.read_text(encoding="utf-8"))
    )


@pytest.mark.parametrize("part", PARTS, ids=name_of)
def test_an_overview_leads_to_each_part_and_its_sections(part):
    """So an address from before a page was divided still leads to its section."""
    overview = part.parent.with_suffix(".md")
    text = " ".join(overview.read_text(encoding="utf-8").split())
    title, *sections = headings(part)
    place = f"{part.parent.name}/{part.name}"
    assert f"[{title}]({place})" in text
    assert [each for each in sections if f"[{each}]({place}#" not in text] == []
    assert anchors(part) - anchors(overview) <= {*map(anchor_of, [title])}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    prose = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for file, anchor in re.findall(r"\]\(([^)#:]*)#?([^):]*)\)", prose):
        target = page.parent / file if file else page
        if file.startswith("built/"):  # make docs writes it; tests/test_site.py follows these links
            continue
        assert target.exists(), f"{page.name} links to {file}"
        assert not anchor or anchor in anchors(target), f"{page.name} links to {file}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_function_that_labels_a_link_is_in_the_file(page):
    """[`Stream.enqueue`](.../streams.py): the class and the function are defined there."""
    for label, file in re.findall(r"\[`([\w.]+)`\]\(([^)#:]+\.py)\)", page.read_text(encoding="utf-8")):
        source = (page.parent / file).read_text(encoding="utf-8")
        for name in label.split("."):
            assert re.search(rf"^\s*(async def|def|class) {name}\b", source, re.MULTILINE), f"{file} has no {label}"


if __name__ == "__main__":
    for page in WITH_EXAMPLES:
        text = page.read_text(encoding="utf-8")
        for example in reversed(examples_of(page)):
            begin, end = example.span("output")
            text = text[:begin] + output_of(example["program"]) + text[end:]
        page.write_text(text, encoding="utf-8")
    APPS_PAGE.write_text(with_times(APPS_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
