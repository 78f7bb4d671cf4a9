"""The compiled core of acl-py: device_model.compiled finds it, and checks that it fits."""

from pathlib import Path

from acl_py_fast import made


class BUILD:
    """What this build is made of."""

    FOLDER = str(Path(__file__).parent)
    VERSION = made.VERSION
    DIGEST = made.DIGEST
    MODULES = made.MODULES
