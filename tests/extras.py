"""What each extra installs: `python -m tests.extras` prints versions, megabytes and licences of what is installed here.

docs/installing.md has its numbers from it. Packages that they bring in turn are not counted.
"""

import re
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).parent.parent


def extras():
    """The names of the packages of each extra; "" stands for those that acl_py always needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {"": project["dependencies"]} | project["optional-dependencies"]
    return {extra: [re.split(r"[\[<>=; ]", line)[0] for line in lines] for extra, lines in named.items()}


def megabytes(found: Distribution):
    """How large the files of a package are."""
    files = (Path(found.locate_file(file)) for file in found.files or ())
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


def licence(found: Distribution):
    """The licence that a package names: an expression, a line, or its classifiers."""
    words = found.metadata
    classified = [each.rpartition("::")[2].strip() for each in words.get_all("Classifier", []) if "License ::" in each]
    return words.get("License-Expression") or ", ".join(classified) or words.get("License", "").partition("\n")[0]


def main():
    for extra, names in extras().items():
        print(extra or "always")
        for name in names:
            try:
                found = distribution(name)
            except PackageNotFoundError:
                print(f"  {name}: not installed here")
            else:
                print(f"  {name} {found.version}: {megabytes(found):.1f} MB, {licence(found)}")


if __name__ == "__main__":
    main()
