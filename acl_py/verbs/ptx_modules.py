"""Modules in PTX, the text that compilers for CUDA write: they are loaded, and have kernels and variables.

`load` reads a text, and `compile` makes one of CUDA C with the user's own NVRTC.
"""

from collections.abc import Iterator, Mapping
from sys import _getframe
from typing import Any

from acl_py.runtime.scopes import current_scope
from acl_py.sites import site_of
from acl_py.verbs.ptx_kernels import PtxKernel, sms_of
from device_model.completions import AllOf
from device_model.errors import shown
from device_model.memory import Buffer
from device_model.ptx.code.compiler import check, compile_kernel
from device_model.ptx.code.stack import with_stack
from device_model.ptx.text.errors import PtxError, Refusal
from device_model.ptx.text.parser import parse
from device_model.ptx.text.syntax import Module

_BINARIES = {
    b"\x7fELF": "machine code (a cubin)", b"\x50\xed\x55\xba": "a container of machine code (a fatbin)",
    b"BC\xc0\xde": "code for a linker (LTO-IR)", b"\xed\x43\x4e\x7f": "code for a linker (LTO-IR)",
}  # fmt: skip
_EMPTY = Module((0, 0), "", 64, {}, {}, {})  # of what is unloaded


async def load(text: str | bytes, *, hazards: bool = True) -> "PtxModule":
    """Load PTX text on the current device, and give its variables memory there.

        module = await acl_py.ptx.load(text)
        await module["add"][grid, block, stream](x, y, z, n)

    Stands for cuModuleLoadData. Loading takes no simulated time: what a driver's compiler takes is not modelled.

    Args:
        text: PTX of version 3.0 to 9.5, for a target up to sm_90a.
        hazards: Whether the run looks for accesses without order and for reads of bytes that nobody wrote. Without
            this look it is faster.

    Returns:
        The module; its kernels are `module[name]`.

    Raises:
        PtxError: The text is no PTX, or has an instruction that is not simulated; the message has the line.
        AclError: OUT_OF_MEMORY if its variables do not fit on the device; NOT_SUPPORTED on a card without SMs.
    """
    scope = current_scope()
    runtime = scope.runtime
    sms_of(runtime, "a module in PTX")
    source = _text_of(text)
    module = parse(source)
    check(module)
    module = with_stack(module)
    variables = runtime.load_module(module, source, site_of(_getframe(1)))
    return PtxModule(module, variables, hazards=hazards)


class PtxModule(Mapping[str, "PtxKernel"]):
    """A module that is loaded. It maps the names of its kernels to them; `variable(name)` is the memory of a
    variable.
    """

    def __init__(self, module: Module, variables: Mapping[str, Buffer], *, hazards: bool) -> None:
        self._module = module
        self._hazards = hazards
        self._variables = variables
        self._kernels: dict[str, PtxKernel] = {}

    def __repr__(self) -> str:
        return f"<PTX module of {', '.join(self)}>"

    def __getitem__(self, name: str) -> "PtxKernel":
        kernel = self._kernels.get(name)
        if kernel is None:
            function = self._module.functions.get(name)
            if function is None or not function.is_entry or function.body is None:
                raise KeyError(f"there is no kernel {name!r} in the module; it has {', '.join(self) or 'none'}")
            addresses = {name: each.address for name, each in self._variables.items()}
            program = compile_kernel(self._module, name, addresses)
            kernel = self._kernels[name] = PtxKernel(self._module, program, hazards=self._hazards)
        return kernel

    def __iter__(self) -> Iterator[str]:
        return iter(self._module.entries)

    def __len__(self) -> int:
        return len(self._module.entries)

    def variable(self, name: str) -> Buffer:
        """Return the memory of the variable *name* in global or constant memory.

        Stands for cuModuleGetGlobal.

        Raises:
            KeyError: There is no such variable.
        """
        if name not in self._variables:
            raise KeyError(
                f"there is no variable {name!r} in the module; it has {', '.join(self._variables) or 'none'}"
            )
        return self._variables[name]

    async def unload(self) -> None:
        """Give the memory of the variables back, once the device is idle; it has no kernels and variables then.

        Stands for cuModuleUnload. Apart from the wait it takes no simulated time.
        """
        held = list({each.allocation: None for each in self._variables.values() if each.allocation.freed is None})
        module, self._module, self._kernels, self._variables = self._module, _EMPTY, {}, {}
        scope = current_scope()
        runtime, site = scope.runtime, site_of(_getframe(1))
        if held:
            device = runtime.device(held[0].device)
            work = AllOf([device.work()])
            await runtime.wait(work, "the unload of a module", site, [device], promised=False, sleeps=not work.done)
            runtime.check_context(scope.context)
        for allocation in held:
            runtime.workers.flush(allocation)
            runtime.memory.free(Buffer(allocation, 0, allocation.nbytes), site)
        if module is not _EMPTY:
            runtime.unload_module(module)


def _text_of(given: Any) -> str:
    """Return what `load` is given as text; refuse code of a machine."""
    if isinstance(given, str):
        return given
    if not isinstance(given, bytes | bytearray | memoryview):
        raise TypeError(f"a module is the text of PTX, as str or bytes, not {shown(given)}")
    held = bytes(given)
    for begin, what in _BINARIES.items():
        if held.startswith(begin):
            remedy = "compile to PTX, as ptx.compile() and nvcc -ptx do"
            raise PtxError(1, f"this is {what}, and PTX is a text", remedy, kind=Refusal.NOT_SIMULATED)
    return held.decode(errors="replace")
