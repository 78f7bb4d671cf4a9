"""`python -m tests.acl_py.misuse` writes docs/errors.md and the pages in docs/errors."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # histories.py

from tests import parts
from tests.acl_py.misuse.page import pages

if __name__ == "__main__":
    parts.write(pages())
