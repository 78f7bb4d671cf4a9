"""`python -m ais_bench`: executes a model file, and prints how long that takes."""

import sys

from acl_py.compat.acl.inference.benchmark import main

if __name__ == "__main__":
    sys.exit(main())
