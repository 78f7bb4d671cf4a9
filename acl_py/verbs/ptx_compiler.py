"""CUDA C becomes PTX, by the user's own NVRTC."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any


class CompileError(ValueError):
    """NVRTC refuses a source; the message is its log."""


def compile(source: str, options: Sequence[str] = (), *, name: str = "kernel.cu") -> str:  # noqa: A001 - as ptx.compile
    """Return the PTX that NVRTC makes of CUDA C++.

    It needs no GPU and no running simulation. Lines of the source are kept (`-lineinfo`), and the target is sm_90,
    unless
    *options* say otherwise.

    Args:
        source: The text of the kernels.
        options: Options of NVRTC, such as "--gpu-architecture=sm_86" or "-I/usr/include".
        name: What messages call the source.

    Raises:
        CompileError: NVRTC refuses the source.
        ImportError: The package is not installed; the message says which extra has it.
    """
    nvrtc = _nvrtc()
    given = [*options]
    if not any(each.startswith(("--gpu-architecture", "-arch")) for each in given):
        given.append("--gpu-architecture=sm_90")
    if not any(each in ("-lineinfo", "--generate-line-info", "-G", "--device-debug") for each in given):
        given.append("-lineinfo")
    program = _checked(nvrtc, nvrtc.nvrtcCreateProgram(source.encode(), name.encode(), 0, [], []))
    try:
        (error,) = nvrtc.nvrtcCompileProgram(program, len(given), [each.encode() for each in given])
        if error:
            raise CompileError(_text(nvrtc, program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).strip())
        return _text(nvrtc, program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _nvrtc() -> ModuleType:
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise ImportError("ptx.compile() needs NVRTC: pip install 'acl_py[cuda]'") from error
    module: ModuleType = nvrtc
    return module


def _checked(nvrtc: ModuleType, answer: tuple[Any, ...]) -> Any:
    error, *values = answer
    if error:
        raise CompileError(f"NVRTC fails: {nvrtc.nvrtcGetErrorString(error)[1].decode()}")
    return values[0] if values else None


def _text(nvrtc: ModuleType, program: Any, size: Any, get: Any) -> str:
    """Return a text of *program*, which NVRTC gives through two functions."""
    held = b" " * _checked(nvrtc, size(program))
    _checked(nvrtc, get(program, held))
    return str(held.rstrip(b"\0").decode())
