"""Suppressions: which findings they accept, where they are found, and what is wrong with them."""

import pytest

from acl_py.sanitizer.suppressions import Suppression, SuppressionError, find
from tests.sanitizer.made import LEAK, RACE


@pytest.mark.parametrize(
    ("pattern", "accepts"),
    [
        ("demo.py:38", True),  # either access
        ("demo.py:41", True),
        ("demo.py:4", False),
        ("*.py:41", True),
        ("demo.py:*", True),
        ("src/demo.py:41", True),
        ("src/*.py:*", True),
        ("other/demo.py:41", False),
        ("/home/me/project/src/demo.py:41", True),
    ],
)
def test_a_site_pattern(pattern, accepts):
    assert Suppression("why", site=pattern).matches(RACE) is accepts


def test_an_id_accepts_one_finding():
    assert Suppression("why", id=RACE.id).matches(RACE)
    assert not Suppression("why", id=RACE.id).matches(LEAK)


def write(folder, text):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")


def test_the_nearest_table_above_a_folder_is_taken(tmp_path):
    write(tmp_path, '[tool.acl_py.sanitizer]\nsuppress = [{ id = "race-00ff00ff", reason = "outer" }]')
    write(tmp_path / "project", '[tool.acl_py.sanitizer]\nsuppress = [{ site = "a.py:*", reason = "inner" }]')
    write(tmp_path / "project" / "src", '[project]\nname = "mine"')  # has no such table
    (found,) = find(tmp_path / "project" / "src")
    assert (found.site, found.reason, found.where) == ("a.py:*", "inner", str(tmp_path / "project" / "pyproject.toml"))
    (found,) = find(tmp_path)
    assert found.id == "race-00ff00ff"
    write(tmp_path, "")
    assert find(tmp_path) == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("suppress = 3", "suppress in [tool.acl_py.sanitizer] must be a list of tables, each { id = "),
        ("ignore = []", "[tool.acl_py.sanitizer] has the key 'ignore', but there is only suppress"),
        ('suppress = ["race-00ff00ff"]', "suppression 1 is 'race-00ff00ff'; write { id = "),
        ('suppress = [{ id = "race-00ff00ff" }]', "suppression 1 is {'id': 'race-00ff00ff'}; write { id = "),
        ('suppress = [{ id = "race-00ff00ff", reason = "" }]', "with a reason in both"),
        ('suppress = [{ id = "rce-00ff00ff", reason = "x" }]', "suppression 1: no finding has the id 'rce-00ff00ff'"),
        ('suppress = [{ id = "race-00ff00f", reason = "x" }]', "no finding has the id 'race-00ff00f'; an id is a kind"),
        ('suppress = [{ id = "race-00ff00ff", site = "a.py:1", reason = "x" }]', "suppression 1 is {'id'"),
        ("suppress = [", "cannot be read: "),
    ],
)
def test_a_table_that_cannot_be_used_is_a_sentence(tmp_path, text, words):
    write(tmp_path, f"[tool.acl_py.sanitizer]\n{text}")
    with pytest.raises(SuppressionError) as refused:
        find(tmp_path)
    assert words in str(refused.value)
    assert str(tmp_path / "pyproject.toml") in str(refused.value)
