"""Run the microbenchmarks of ASTRA-sim: `python -m tests.chakra DIR`.

DIR is the folder examples/workload/microbenchmarks of a checkout of astra-sim/astra-sim, or any folder in which folders
have traces; nothing is fetched. Each trace is loaded and run, and its collectives are compared, to the nanosecond, with
programs that call the verbs. The exit code is 1 if one differs or cannot be run.
"""

import sys
from pathlib import Path

from acl_py.programs.chakra import files_of
from acl_py.programs.format import ProgramError
from tests.chakra import collectives_of, of_trace, of_verbs


def traces_in(folder: Path) -> list[Path]:
    """What the names of the files of each trace begin with."""
    return sorted({each.parent / each.name.removesuffix(f".0{each.suffix}") for each in folder.rglob("*.0.*")})


def main(folder: str) -> int:
    """Print a line for each trace; return how many are wrong."""
    wrong = 0
    traces = traces_in(Path(folder))
    for path in traces:
        name = path.relative_to(folder)
        try:
            files = files_of(path)
            found = of_trace(path, len(files))
            expected = [ns for each in collectives_of(files[0]) for ns in of_verbs(*each, len(files))]
        except (ProgramError, KeyError) as error:
            wrong += 1
            print(f"{name}: {error}")
            continue
        is_equal = found == expected
        wrong += not is_equal
        said = ", ".join(f"{ns / 1000:.3f}" for ns in found)
        print(f"{name}: {len(files)} ranks, {said} us, {'equal' if is_equal else f'not equal to {expected} ns'}")
    print(f"{len(traces) - wrong} of {len(traces)} traces run, and take as long as the same verbs")
    return 1 if wrong or not traces else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
