"""Reports of findings: text, JSON, SARIF 2.1.0 and annotations of GitHub.

data/sarif-2.1.0-rtm.5.json is the schema as the npm package @microsoft/jest-sarif 1.0.0-beta.0 has it (MIT license).
"""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from acl_py.sanitizer.reports import Report, judge
from acl_py.sanitizer.suppressions import Suppression
from tests.sanitizer.made import LEAK, MISTAKE, RACE, in_ptx

ROOT = Path("/home/me/project")
ACCEPTED = Suppression("the copy is 5 us long", id=RACE.id, where="pyproject.toml")
STALE = Suppression("no longer used", site="old.py:*", where="pyproject.toml")
SCHEMA = json.loads(Path(__file__).with_name("data").joinpath("sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8"))


def test_the_text_has_both_accesses_the_missing_edge_and_the_fix():
    report = Report((RACE, MISTAKE), notes=("what C code does with an exported buffer is not seen",))
    assert report.text().split("\n") == [
        "the sanitizer found 2 findings (race, kernel)",
        (
            f"race: kernel 'add' at demo.py:41 may read 'weights' before the copy at demo.py:38 has written it (3 "
            f"times) [{RACE.id}]"
        ),
        "    demo.py:38: h2d 'weights' in stream 'copies' by task 'loader', which writes",
        "        from demo.py:60 in load",
        "        from demo.py:90 in main",
        "    demo.py:41: kernel 'add' in stream 2",
        "    bytes: 'weights'[0:4,096]",
        "    missing: stream 2 behind stream 'copies'",
        "    fix: record on `copies` after demo.py:38, wait on `stream` before demo.py:41",
        f"kernel add: RAW in block 0 (AIV): GetValue (S) at add.py:5 reads UB[0:4]; missing MTE2_S [{MISTAKE.id}]",
        "note: what C code does with an exported buffer is not seen",
    ]


def test_what_is_suppressed_does_not_count_and_keeps_its_reason():
    report = judge([RACE, LEAK], [ACCEPTED, STALE])
    assert (report.findings, report.suppressed, report.unused) == ((LEAK,), ((RACE, ACCEPTED),), (STALE,))
    assert report.text().split("\n") == [
        "the sanitizer found 1 finding (leak), 1 suppressed",
        f"leak: 4,096 bytes of device memory, made at ünit 1%.py:7, are never freed [{LEAK.id}]",
        "    ünit 1%.py:7: Malloc",
        f"suppressed: {RACE.id}: the copy is 5 us long (3 times)",
        "unused: the suppression of site 'old.py:*' in pyproject.toml accepts no finding: take it out",
    ]


def test_nothing_found():
    assert Report(()).text() == "the sanitizer found nothing"


def test_json_has_all_fields():
    document = json.loads(judge([RACE, MISTAKE], [ACCEPTED]).json())
    (mistake,) = document["findings"]
    assert (mistake["rule"], mistake["kernel"], mistake["where"]) == ("RAW", "add", "block 0 (AIV)")
    (race,) = document["suppressed"]
    assert (race["id"], race["count"], race["reason"]) == (RACE.id, 3, "the copy is 5 us long")
    assert race["accesses"][0] == {
        "what": "h2d 'weights'", "writes": True, "caller": "task 'loader'", "stream": "stream 'copies'",
        "site": "demo.py:38", "stack": ["demo.py:90 in main", "demo.py:60 in load"], "at_ns": 1_000,
        "file": "/home/me/project/src/demo.py",
    }  # fmt: skip
    assert race["spans"] == [{"buffer": "'weights'", "start": 0, "stop": 4096}]


@pytest.mark.parametrize("findings", [[], [RACE], [RACE, LEAK, MISTAKE, replace(RACE, accesses=())]])
def test_sarif_is_valid(findings):
    text = judge(findings, [ACCEPTED], ["a note"]).sarif("1.2.3", ROOT)
    jsonschema.Draft4Validator(SCHEMA).validate(json.loads(text))


def test_the_schema_finds_what_is_wrong():
    document = json.loads(Report((RACE,)).sarif("1.2.3", ROOT))
    document["runs"][0]["results"][0]["level"] = "bad"
    with pytest.raises(jsonschema.ValidationError, match="'bad' is not one of"):
        jsonschema.Draft4Validator(SCHEMA).validate(document)


def test_sarif_has_places_relative_to_the_root_and_the_reasons_of_suppressions():
    (run,) = json.loads(judge([RACE, LEAK], [ACCEPTED]).sarif("1.2.3", ROOT))["runs"]
    leak, race = run["results"]
    assert (run["tool"]["driver"]["version"], race["ruleId"], race["partialFingerprints"]) == (
        "1.2.3", "race", {"acl_py/v1": RACE.id},
    )  # fmt: skip
    (place,) = race["locations"]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "src/demo.py", "uriBaseId": "ROOT"},
        "region": {"startLine": 41},
    }
    assert race["relatedLocations"][0]["physicalLocation"]["region"] == {"startLine": 38}
    (stack,) = race["stacks"]
    innermost, *callers = [frame["location"] for frame in stack["frames"]]
    assert innermost == race["relatedLocations"][0]
    assert [each["message"]["text"] for each in callers] == ["demo.py:60 in load", "demo.py:90 in main"]
    assert race["suppressions"] == [{"kind": "external", "justification": "the copy is 5 us long"}]
    assert leak["locations"][0]["physicalLocation"]["artifactLocation"] == {
        "uri": "file:///elsewhere/%C3%BCnit%201%25.py"
    }
    assert run["originalUriBaseIds"] == {"ROOT": {"uri": "file:///home/me/project/"}}


def test_annotations_of_github_are_a_line_each_with_what_a_line_cannot_have_escaped():
    report = Report((RACE, LEAK, replace(RACE, accesses=(), fix="", count=1)))
    assert report.github(ROOT).split("\n") == [
        f"::warning file=src/demo.py,line=41,title={RACE.id}::race: {RACE.text} (3 times)%0Afix: {RACE.fix}",
        f"::warning file=/elsewhere/ünit 1%25.py,line=7,title={LEAK.id}::leak: {LEAK.text.replace('%', '%25')}",
        f"::warning::race: {RACE.text}",
        "",
    ]


def test_a_line_of_ptx_stands_for_that_of_its_source():
    report = Report((in_ptx("PTX line 80 (rev.py:12)"), in_ptx("PTX line 75")))
    with_source, without = report.findings
    assert report.github(ROOT / "nowhere").split("\n") == [
        f"::warning file={Path('rev.py').resolve()},line=12,title={with_source.id}::{with_source}",
        f"::warning::{without}",
        "",
    ]
    document = json.loads(report.sarif("1.2.3", Path.cwd()))
    jsonschema.Draft4Validator(SCHEMA).validate(document)
    (place,), (bare,) = (result["locations"] for result in document["runs"][0]["results"])
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "rev.py", "uriBaseId": "ROOT"},
        "region": {"startLine": 12},
    }
    assert bare == {"message": {"text": "PTX line 75: kernel 'rev' in stream 1"}}


@pytest.mark.parametrize(("site", "notes"), [("PTX line 80 (rev.py:12)", 0), ("PTX line 75", 1)])
def test_a_kernel_without_lines_of_its_source_is_told_how_it_gets_them(site, notes):
    report = Report((in_ptx(site),))
    assert [text.count("note: a kernel has no lines of its source") for text in (report.text(), report.brief())] == [
        notes,
        notes,
    ]
