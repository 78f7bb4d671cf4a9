"""The version of the driver: a value of the profile, or that of the newest compilers that are installed.

A driver refuses PTX that is newer than itself, so one that is older than the compilers would be of no use.
"""

import re
from functools import cache

from acl_py.compat.cuda.face.state import Driver
from acl_py.late_imports import import_late

_OLDEST = 13000  # whose answers were measured
_COMPILERS = ("nvidia-cuda-nvrtc", "nvidia-nvjitlink", "nvidia-nvvm")  # wheels; those for older CUDA have other names
_NUMBERS = re.compile(r"(\d+)\.(\d+)")


def version_of(driver: Driver) -> int:
    """Return the version of *driver*, such as 13000 for 13.0."""
    return driver.runtime.profile.driver or _of_compilers()


def newest_ptx(driver: Driver) -> tuple[int, int]:
    """Return the newest version of PTX that *driver* takes: CUDA 13.1 came with PTX 9.1, and so on.

    CUDA 12.5 and 12.6 have both come with PTX 8.5.
    """
    major, rest = divmod(version_of(driver), 1000)
    minor = rest // 10
    return major - 4, minor - (major == 12 and minor > 5)


@cache
def _of_compilers() -> int:
    return max(_OLDEST, *map(_installed, _COMPILERS))


def _installed(package: str) -> int:
    """Return the version of CUDA that *package* is of; 0 if it is not installed."""
    metadata = import_late("importlib.metadata")
    try:
        found = _NUMBERS.match(metadata.version(package))
    except metadata.PackageNotFoundError:
        return 0
    return int(found[1]) * 1000 + int(found[2]) * 10 if found else 0
