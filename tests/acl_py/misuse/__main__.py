"""`python -m tests.acl_py.misuse > docs/errors.md`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # histories.py

from tests.acl_py.misuse.page import page

if __name__ == "__main__":
    sys.stdout.write(page())
