"""The packages for CUDA that are installed: which of them cannot find or use the driver, in a sentence each."""

import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib.machinery import PathFinder

OWN_RUNTIME = ("cupy", "torch")  # they bring a runtime that asks a driver for tables which are not documented
_ELSEWHERE = "NUMBA_CUDA_DRIVER"  # the path of the driver that numba loads
_WHEELS = ("cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-nvvm", "nvidia-nvjitlink")
_MAJORS = (12, 13)  # of wheels that fit the driver, the newest last


def troubles() -> Iterator[str]:
    """Yield a sentence for each thing that keeps a package from the driver, before any of them is imported."""
    if path := os.environ.get(_ELSEWHERE):
        yield f"{_ELSEWHERE} is {path!r}, so numba loads that and not the simulated card: unset the variable"
    for name, installed in _versions().items():
        major = int(installed.partition(".")[0])
        if major not in _MAJORS:
            remedy = f"install '{name}=={_MAJORS[-1]}.*'"
            yield f"{name} {installed} is for CUDA {major}, and the simulated driver for CUDA {_MAJORS[-1]}: {remedy}"


def _versions() -> dict[str, str]:
    """Return the versions of the wheels that are installed.

    The name of the folder of metadata has it. To read the metadata takes longer than everything else before a script.
    """
    end = ".dist-info"
    files = (file for folder in reversed(sys.path) if os.path.isdir(folder) for file in os.listdir(folder))
    found = dict(file.removesuffix(end).rpartition("-")[::2] for file in files if file.endswith(end))
    return {name: found[key] for name in _WHEELS if (key := name.replace("-", "_")) in found}


def failed_before() -> str:
    """Return the package that has looked for a driver in vain and will not look again; "" if there is none."""
    numba = sys.modules.get("numba.cuda.cudadrv.driver")
    driver = getattr(numba, "driver", None)
    return "numba.cuda" if getattr(driver, "initialization_error", None) else ""


@cache
def tell_of_runtime(name: str) -> None:
    """Tell once that the simulated card is not there for the package *name*, if it is installed."""
    if PathFinder.find_spec(name) is not None:
        print(
            f"acl-py: {name} brings a CUDA runtime of its own, which needs a real driver: it finds no card here. "
            "Such a program has to be ported: the page 'Coming from another library' has the calls",
            file=sys.stderr,
        )
