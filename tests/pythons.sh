#!/usr/bin/env bash
# Print the interpreters that the suite is for, a line each: the first of every version from 3.11 to 3.14 that is found
# by name, else among those of pyenv. Versions that are given as arguments, as in `tests/pythons.sh 3.11`, are left out.
set -euo pipefail
shopt -s nullglob

for version in 3.11 3.12 3.13 3.14; do
    if [[ " $* " == *" $version "* ]]; then
        continue
    fi
    for python in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version."*"/bin/python$version"; do
        # A name may be a shim that finds nothing behind it, so it has to run.
        if "$python" -c 'import venv' 2>/dev/null; then
            echo "$python"
            break
        fi
    done
done
