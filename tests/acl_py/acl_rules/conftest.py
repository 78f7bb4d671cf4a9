"""What the tests of ACL's rules share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # histories.py
