"""What kernels in Python bring for a card: CUDA C, which is compiled and launched, or functions that call a library.

The arguments are packed as those of a kernel in PTX, by the types that the compiled text declares. So a number is
rounded or widened as C would, and what does not fit is refused before the launch, by the name of its parameter.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from acl_py.card.cuda.compiled import compiled
from acl_py.card.cuda.kernels import Entry
from acl_py.runtime.scopes import Barred
from acl_py.verbs.arrays import Array
from acl_py.verbs.card_code import CardWork, CudaKernel
from acl_py.verbs.ptx_compiler import architectures
from device_model.errors import shown
from device_model.memory import Buffer
from device_model.ops import Op
from device_model.ptx.arguments import pack, text_of
from device_model.ptx.launch import Shape
from device_model.ptx.text.parser import parse
from device_model.ptx.text.syntax import Function

if TYPE_CHECKING:
    from acl_py.card.cuda.contexts import CudaDevice
    from acl_py.card.streams import CardStream

_TELLS_LAYOUT = 12040  # the first version of the driver that does
_NEWER_PTX = 222  # what a driver answers that is older than the compiler


class Codes:
    """The code that one card has of kernels in Python."""

    def __init__(self, device: "CudaDevice") -> None:
        self._device = device
        self._driver = device.driver
        self._cu = device.driver.cu
        self._loaded: dict[tuple[CudaKernel, str], tuple[Entry, Function]] = {}
        self._modules: list[Any] = []

    def launch(self, stream: "CardStream", op: Op) -> None:
        """Launch CUDA C, or call the function that queues the work."""
        work: Any = op.work
        if isinstance(work.code, CudaKernel):
            self._launch(stream, work)
        else:
            Barred(self._device.runtime, work).run(work.code, stream, *work.args)

    def _launch(self, stream: "CardStream", work: CardWork) -> None:
        assert isinstance(work.code, CudaKernel), f"{work.code!r} is a function"
        entry, declared = self._kernel(work.code, work.entry)
        if work.packed is None:
            work.packed = pack(declared, self._values(work, declared))
        entry.launch(self._driver, stream, Shape(work.grid, work.block, work.code.shared), work.packed)

    def _values(self, work: CardWork, declared: Function) -> list[Any]:
        names, args = self._arguments(work)
        if len(args) != len(declared.parameters):
            raise TypeError(
                f"kernel {work.entry} takes {len(declared.parameters)} arguments in CUDA C, and the launch has "
                f"{len(args)}, {', '.join(names)}"
            )
        return [
            self._value(work, name, arg, parameter)
            for name, arg, parameter in zip(names, args, declared.parameters, strict=True)
        ]

    @staticmethod
    def _arguments(work: CardWork) -> tuple[Sequence[str], Sequence[Any]]:
        """Return the arguments for the text, with a name for each."""
        code = work.code
        assert isinstance(code, CudaKernel), f"{code!r} is a function"
        if code.arguments is None:
            return work.names, work.args
        args = code.arguments(*work.args)
        if not isinstance(args, tuple | list):
            raise TypeError(f"arguments= of the CUDA C of kernel {work.label} gave {shown(args)}: give a tuple")
        return [str(number) for number in range(len(args))], args

    def _value(self, work: CardWork, name: str, arg: Any, parameter: Any) -> Any:
        """Return an argument as `pack` takes it."""
        if isinstance(arg, Buffer):
            arg = Array(arg)
        if isinstance(arg, Array):
            if parameter.nbytes != 8 or parameter.shape:
                raise TypeError(
                    f"argument {name} of kernel {work.entry} is {shown(arg)}, and its CUDA C declares "
                    f"{text_of(parameter)}, which is no pointer"
                )
            return arg.buffer.allocation.address + arg.buffer.offset
        return arg

    def _kernel(self, code: CudaKernel, entry: str) -> tuple[Entry, Function]:
        """Return the kernel *entry* of *code*, and what it declares."""
        known = self._loaded.get((code, entry))
        if known is None:
            made = compiled(code.text, (*code.options, *self._architecture(code)), f"{entry}.cu")
            declared = signature(made.ptx, entry)
            module = self._load(made.ptx.encode() + b"\0", made.cubin)
            function = self._driver(self._cu.cuModuleGetFunction, module, entry.encode())
            ready = Entry(function, declared.parameters)
            self._check_layout(ready, declared)
            known = self._loaded[code, entry] = ready, declared
        return known

    def _check_layout(self, entry: Entry, declared: Function) -> None:
        """Compare where the arguments are with what the driver says, if it is new enough to say it."""
        if self._driver(self._cu.cuDriverGetVersion) < _TELLS_LAYOUT:
            return
        for number, (place, parameter) in enumerate(zip(entry.places, declared.parameters, strict=True)):
            told = self._driver(self._cu.cuFuncGetParamInfo, entry.function, number)
            ours = place, parameter.nbytes
            assert tuple(map(int, told)) == ours, f"argument {number} of {declared.name} is at {told}, and not {ours}"

    def _architecture(self, code: CudaKernel) -> list[str]:
        """Return the option that names the architecture of the card, if *code* names none; of a card that is newer
        than the compiler, the newest that this knows.
        """
        if any(each.startswith(("--gpu-architecture", "-arch")) for each in code.options):
            return []
        kinds, handle = self._cu.CUdevice_attribute, self._device.handle
        major, minor = (
            self._driver(self._cu.cuDeviceGetAttribute, kind, handle)
            for kind in (
                kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
            )
        )  # fmt: skip
        return [f"--gpu-architecture=sm_{best(10 * major + minor, architectures())}"]

    def _load(self, ptx: bytes, cubin: bytes) -> Any:
        """Return the module; a driver that is older than the compiler reads no PTX of it, but the code of a card."""
        code, module = self._cu.cuModuleLoadData(ptx)
        if code == _NEWER_PTX and cubin:
            code, module = self._cu.cuModuleLoadData(cubin)
        if code:
            raise self._driver.error(int(code), "cuModuleLoadData")
        self._modules.append(module)
        return module

    def close(self) -> None:
        """Unload everything."""
        for module in self._modules:
            self._cu.cuModuleUnload(module)


def best(card: int, known: Sequence[int]) -> int:
    """Return the newest of the *known* architectures that a *card* of its own architecture runs; its own if none."""
    return max((each for each in known if each <= card), default=card)


def signature(ptx: str, entry: str) -> Function:
    """Return what the kernel *entry* of a text in PTX declares. Its body may have instructions of any kind."""
    head = re.search(rf"\.entry\s+{re.escape(entry)}\s*(\([^)]*\))?", ptx)
    if head is None:
        found = ", ".join(re.findall(r"\.entry\s+(\w+)", ptx)) or "none"
        raise ValueError(f'the CUDA C has no kernel {entry!r} that is extern "C"; it has {found}')
    text = f".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry {entry}{head[1] or '()'}\n{{ ret; }}"
    return parse(text).functions[entry]
