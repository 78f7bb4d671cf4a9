"""CUDA C becomes PTX, by the user's own NVRTC."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

from device_model.errors import shown


class CompileError(ValueError):
    """NVRTC refuses a source; the message is its log."""


def compile(source: str, options: Sequence[str] = (), *, name: str = "kernel.cu") -> str:  # noqa: A001 - as ptx.compile
    """Return the PTX that NVRTC makes of CUDA C++.

    It needs no GPU and no running simulation. Lines of the source are kept (`-lineinfo`), and the target is sm_90,
    unless *options* say otherwise.

    Args:
        source: The text of the kernels.
        options: Options of NVRTC, such as "--gpu-architecture=sm_86" or "-I/usr/include".
        name: What messages call the source.

    Raises:
        CompileError: NVRTC refuses the source.
        TypeError: *source* is no str, or *options* is one.
        ImportError: The package is not installed; the message says which extra has it.
    """
    return build(source, options, name=name).ptx


class Compiled(NamedTuple):
    """What NVRTC makes of a source: PTX, and the code of one architecture, which is empty if none was named."""

    ptx: str
    cubin: bytes


def build(source: str, options: Sequence[str], *, name: str) -> Compiled:
    """Return what NVRTC makes of a source; arguments and errors are those of `compile`."""
    if not isinstance(source, str):
        raise TypeError(f"the source must be a str, not {shown(source)}")
    if isinstance(options, str):
        raise TypeError(f"options is a sequence of strings, such as [{options!r}], not one string")
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
            log = _held(nvrtc, program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
            raise CompileError(_text(log).strip())
        ptx = _held(nvrtc, program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
        return Compiled(_text(ptx), _held(nvrtc, program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN))
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def version() -> tuple[int, int]:
    """Return the version of NVRTC. Raises ImportError if there is none."""
    nvrtc = _nvrtc()
    major, minor = _checked(nvrtc, nvrtc.nvrtcVersion())
    return major, minor


def architectures() -> list[int]:
    """Return the architectures that NVRTC knows, as 90 for sm_90. Raises ImportError if there is no NVRTC."""
    nvrtc = _nvrtc()
    return [int(each) for each in _checked(nvrtc, nvrtc.nvrtcGetSupportedArchs())]


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
    return values[0] if len(values) == 1 else values


def _held(nvrtc: ModuleType, program: Any, size: Any, get: Any) -> bytes:
    """Return bytes of *program*, which NVRTC gives through two functions."""
    held: bytes = b" " * _checked(nvrtc, size(program))
    _checked(nvrtc, get(program, held))
    return held


def _text(held: bytes) -> str:
    return held.rstrip(b"\0").decode()
