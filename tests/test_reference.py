"""The API reference that docs/make/reference.py writes: a page for each noun of acl_py, to which old addresses lead."""

import importlib.util
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

import acl_py

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def reference():
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "make" / "reference.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def pages(reference, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    reference.write(folder)
    return folder


def documented(page):
    """The names of acl_py that a page in reStructuredText documents."""
    found = re.findall(r"^\.\. (?:autoclass|autofunction|py:data):: (\S+)", page.read_text("utf-8"), re.MULTILINE)
    return [name.removeprefix("acl_py.") for name in found]


def test_each_name_is_documented_on_the_page_of_one_noun(reference, pages):
    counted = Counter(name for page in (pages / "acl_py").iterdir() for name in documented(page))
    assert counted == dict.fromkeys(reference.names_of("acl_py"), 1)


def test_a_type_is_on_the_page_of_its_verbs(pages):
    for page, names in {
        "stream": {"Stream", "CreateStream", "StreamWaitEvent"},
        "event": {"Event", "RecordEvent"},
        "graph": {"Graph", "Node", "Executable", "GraphLaunch"},
        "buffer": {"Buffer", "Array", "Malloc"},
        "collective": {"Communicator", "AllReduce"},
    }.items():
        assert names <= set(documented(pages / "acl_py" / f"{page}.rst")), page


def test_the_old_address_of_a_name_and_of_a_member_leads_to_its_line_in_the_overview(reference, pages):
    overview = (pages / "acl_py.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\* ((?:<a id=\"[^\"]+\"></a>)+)\{py:obj\}`(\w+) <acl_py\.\2>`", overview, re.MULTILINE)
    assert sorted(name for _, name in lines) == reference.names_of("acl_py")
    places = {name: set(re.findall(r'id="([^"]+)"', anchors)) for anchors, name in lines}
    assert all(f"acl_py.{name}" in anchors for name, anchors in places.items())
    assert "acl_py.Simulation.timeline" in places["Simulation"]


def test_the_overview_leads_to_each_noun(pages):
    overview = (pages / "acl_py.md").read_text(encoding="utf-8")
    linked = re.findall(r"\]\(acl_py/(\w+)\.rst\)", overview)
    assert sorted(linked) == sorted(page.stem for page in (pages / "acl_py").iterdir())


def test_a_name_of_no_noun_is_named(reference, monkeypatch):
    class Stray:
        __module__ = "acl_py.verbs.new"

    monkeypatch.setattr(acl_py, "Stray", Stray, raising=False)
    with pytest.raises(ValueError, match=r"acl_py\.Stray, of acl_py\.verbs\.new, belongs to no noun: add its module"):
        reference.by_noun()


def test_pages_of_an_older_build_are_removed(reference, tmp_path):
    (tmp_path / "acl_py.rst").write_text("of an older build")
    reference.write(tmp_path)
    assert not (tmp_path / "acl_py.rst").exists()
    assert (tmp_path / "acl_py.md").exists()
