"""The packages of the extra `onnx`: imported when a model needs them, and named in a sentence if they are missing."""

from types import ModuleType
from typing import Any

from acl_py.late_imports import import_late


class GraphError(ValueError):
    """An ONNX file that cannot be used here; the message says what about it, and what to do."""


def onnx(submodule: str = "") -> Any:
    """Return the package onnx, or a module of it.

    Raises:
        GraphError: It is not installed.
    """
    return _package("onnx", submodule)


def onnxruntime() -> Any:
    """Return the package onnxruntime.

    Raises:
        GraphError: It is not installed.
    """
    return _package("onnxruntime", "")


def _package(name: str, submodule: str) -> ModuleType:
    try:
        return import_late(f"{name}.{submodule}" if submodule else name)
    except ImportError as error:
        raise GraphError(
            f"ONNX models need onnx and onnxruntime ({error}): install them with `pip install acl-py[onnx]`"
        ) from error
