"""The steps to a release that can be tested without building anything, and the long description of the package."""

import shutil

import pytest

import hatch_build
from tests import release

ROOT = release.ROOT


def test_all_files_name_one_version():
    assert release.one_version() == release.versions(ROOT)["CHANGELOG.md"]


@pytest.mark.parametrize("file", release.versions(ROOT))
def test_another_version_in_one_file_is_named(file, tmp_path):
    for each in release.versions(ROOT):
        (tmp_path / each).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / each, tmp_path / each)
    text = (tmp_path / file).read_text(encoding="utf-8")
    version = release.versions(ROOT)[file]
    (tmp_path / file).write_text(text.replace(version, "9.9.9"), encoding="utf-8")
    with pytest.raises(release.Missing, match=r"9\.9\.9"):
        release.one_version(tmp_path)


def test_a_release_needs_a_date_and_an_address(tmp_path):
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.0, unreleased\n")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    with pytest.raises(release.Missing, match="no date: write it in place of 'unreleased'"):
        release.date(tmp_path)
    with pytest.raises(release.Missing, match="has no Source"):
        release.address(tmp_path)
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.0, 2026-12-01\n")
    (tmp_path / "pyproject.toml").write_text('[project.urls]\nSource = "https://example.org/acl_py"\n')
    assert release.date(tmp_path) == "## 1.0, 2026-12-01"
    assert release.address(tmp_path) == "https://example.org/acl_py"


def test_the_walk_says_what_is_done_and_what_is_missing(monkeypatch, capsys):
    def fails():
        raise release.Missing("no date")

    monkeypatch.setattr(release, "STEPS", {"a version": lambda: "1.0", "a date": fails})
    assert release.main() == 1
    assert capsys.readouterr().out == "1 done    a version: 1.0\n2 missing a date: no date\n"


def test_the_long_description_has_no_link_into_the_repository():
    text = "![A picture\nof two lines](docs/page.png)\n\nSee [times](docs/time.md#a), [a site](https://example.org).\n"
    assert hatch_build.described(text, None) == "See times, [a site](https://example.org).\n"
    assert hatch_build.described(text, "https://example.org/main/") == (
        "![A picture\nof two lines](https://example.org/main/docs/page.png)\n\n"
        "See [times](https://example.org/main/docs/time.md#a), [a site](https://example.org).\n"
    )
    readme = hatch_build.described((ROOT / "README.md").read_text(encoding="utf-8"), None)
    assert "](" not in readme
    assert "\n## Begin\n" in readme
