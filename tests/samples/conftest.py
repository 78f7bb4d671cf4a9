"""The apps import what lies beside them, as they do when they are run."""

import sys
from pathlib import Path

SAMPLES = Path(__file__).parent.parent.parent / "samples"

sys.path += [str(SAMPLES / app) for app in ("moe", "attention", "server", "flash", "parallel")]
