"""Print the lowest version of each dependency that pyproject.toml allows, as constraints for pip.

python tests/lowest.py > constraints.txt
"""

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
TOOLS = ("ruff", "types-greenlet", "matplotlib")  # no test runs the first two; matplotlib 3.8.0 takes no NumPy 2


def constraints():
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    for requirement in [*project["dependencies"], *extras["media"], *extras["dev"]]:
        name, version = re.match(r"([\w.-]+)>=([\w.]+)", requirement).groups()
        if name not in TOOLS:
            yield f"{name}=={version}"


if __name__ == "__main__":
    print("\n".join(constraints()))
