"""How many kernels follow folders of each public repository, and how many mistakes are planted: `python -m
tests.aicore.shown`. test_aicore_public.py and test_aicore_planted.py run them.

`--folders` lists the folders.
"""

import sys
from collections import Counter
from pathlib import Path

from tests.aicore.names import REPOSITORIES

HERE = Path(__file__).parent


def report(cases, planted, *, folders=False):
    """The lines that count *cases* by repository, and mistakes."""
    of_repository = Counter(case.folder.split("/")[0] for case in cases)
    for repository in REPOSITORIES:
        yield f"{repository:16}{of_repository[repository]:4} kernels"
        if folders:
            yield from sorted(f"    {case.folder}" for case in cases if case.folder.startswith(f"{repository}/"))
    yield f"{'together':16}{len(cases):4} kernels, {len(planted)} planted mistakes"


def main():
    """Print the report."""
    sys.path[:0] = [str(HERE), str(HERE.parent / "acl_py")]  # as pytest does
    import test_aicore_planted
    import test_aicore_public

    print(*report(test_aicore_public.CASES, test_aicore_planted.PLANTED, folders="--folders" in sys.argv), sep="\n")


if __name__ == "__main__":
    main()
