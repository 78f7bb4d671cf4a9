"""Whether the packages for CUDA are installed that the recorded outputs of samples and of a notebook are from."""

from importlib.metadata import PackageNotFoundError, version

import pytest

REASON = "the packages for CUDA are not installed, or others: make test-cuda"


def are_there():
    """Whether they are, in the versions that tests/cuda/constraints.txt names."""
    try:
        return version("numba-cuda").startswith("0.30.") and version("nvidia-cuda-nvrtc").startswith("13.0.")
    except PackageNotFoundError:
        return False


needs_packages = pytest.mark.skipif(not are_there(), reason=REASON)
