"""The parser: PTX text becomes a `Module`. Variables are read by `declarations`, functions' instructions by `body`."""

import re

from device_model.ptx.text.body import Body
from device_model.ptx.text.constants import whole
from device_model.ptx.text.cursor import Cursor
from device_model.ptx.text.declarations import SPACES, check_length, declared, type_of, variable
from device_model.ptx.text.errors import PtxError, Refusal
from device_model.ptx.text.lexer import Mark, tokens
from device_model.ptx.text.syntax import Function, Module, Space, Variable

OLDEST, NEWEST = (3, 0), (9, 5)
NEWEST_TARGET = 90
_PARAMETER_BYTES = 4352, 32764  # of a kernel, before PTX 8.1 and since
_TARGET = re.compile(r"sm_(\d+)([af]?)|compute_(\d+)([af]?)")
_LINKAGE = (".extern", ".visible", ".weak", ".common")
_LIMITS = {
    ".maxntid": 3,
    ".reqntid": 3,
    ".minnctapersm": 1,
    ".maxnreg": 1,
    ".maxclusterrank": 1,
    ".reqnctapercluster": 3,
}
_FLAGS = {".noreturn", ".explicitcluster", ".blocksareclusters", ".unique"}


def parse(text: str) -> Module:
    """Return what *text* says.

    Raises:
        PtxError: The text is no PTX of the versions 3.0 to 9.5, or for a target newer than sm_90a.
    """
    return _Parser(text).module()


class _Parser:
    """Reads one text."""

    def __init__(self, text: str) -> None:
        self.at = Cursor(tokens(text))
        self.version = (0, 0)
        self.target = ""
        self.address_bits = 64
        self.variables: dict[str, Variable] = {}
        self.functions: dict[str, Function] = {}
        self.files: dict[int, str] = {}

    def module(self) -> Module:
        at = self.at
        if at.ahead.text != ".version":
            remedy = "give the text itself; ptx.compile() makes it of CUDA C++"
            raise at.error("the text does not begin with .version, as PTX does", remedy)
        while at.ahead.mark is not Mark.END:
            self._item()
        if not self.target:
            raise at.error("the text names no .target")
        return Module(self.version, self.target, self.address_bits, self.variables, self.functions, self.files)

    def _item(self) -> None:
        at = self.at
        token = at.ahead
        match token.text:
            case ".version":
                self._version()
            case ".target":
                self._target()
            case ".address_size":
                at.take()
                self.address_bits = whole(at)
                if self.address_bits not in (32, 64):
                    raise at.error(f".address_size {self.address_bits}: addresses have 32 or 64 bits")
            case ".file":
                self._file()
            case ".section":
                at.take()
                at.skip_to_braces()
                at.skip_braces()
            case ".pragma" | ".alias":
                at.skip_to(";")
            case ";":
                at.take()
            case _:
                self._declaration()

    def _version(self) -> None:
        self.at.take()
        token = self.at.take()
        parts = token.text.split(".")
        if len(parts) != 2 or not all(part.isdecimal() for part in parts):
            raise PtxError(token.line, f"{token.text} is no version")
        self.version = int(parts[0]), int(parts[1])
        if not OLDEST <= self.version <= NEWEST:
            kind = Refusal.NEWER_VERSION if self.version > NEWEST else Refusal.NOT_SIMULATED
            remedy = "use a compiler that writes version 3.0 to 9.5"
            raise PtxError(token.line, f"PTX {token.text} is not supported", remedy, kind=kind)

    def _target(self) -> None:
        self.at.take()
        token = self.at.word("a target such as sm_90")
        match = _TARGET.fullmatch(token.text)
        if match is None:
            raise PtxError(token.line, f"{token.text} is no target", "write one such as sm_90")
        if int(match[1] or match[3]) > NEWEST_TARGET:
            what = f"{token.text} is newer than the cards that are simulated"
            raise PtxError(token.line, what, "compile for sm_90 or older", kind=Refusal.NEWER_TARGET)
        self.target = token.text
        while self.at.accepts(","):
            self.at.word("an option of .target")

    def _file(self) -> None:
        at = self.at
        at.take()
        index = whole(at)
        token = at.take()
        if token.mark is not Mark.STRING:
            raise PtxError(token.line, "the name of the file is missing")
        self.files[index] = token.text[1:-1]
        while at.accepts(","):
            whole(at, 0, 2**63 - 1)

    def _declaration(self) -> None:
        at = self.at
        linkage = set()
        while at.ahead.text in _LINKAGE:
            linkage.add(at.take().text)
        if at.ahead.text in (".entry", ".func"):
            self._function(is_extern=".extern" in linkage)
        elif at.ahead.text in SPACES:
            for variable in declared(at):
                variable.is_extern = ".extern" in linkage
                check_length(variable)
                if variable.space in (Space.LOCAL, Space.PARAM):
                    what = f"{variable.name} is in .{variable.space.value} memory, and in no function"
                    raise PtxError(variable.line, what, "declare it in the function that uses it")
                self._add_variable(variable)
        else:
            raise at.error(f"{at.ahead.text!r} begins no declaration")

    def _add_variable(self, variable: Variable) -> None:
        known = self.variables.get(variable.name)
        if known is not None and not (known.is_extern or variable.is_extern):
            raise PtxError(variable.line, f"{variable.name} is declared twice, the first time in line {known.line}")
        if known is None or known.is_extern:
            self.variables[variable.name] = variable

    def _function(self, *, is_extern: bool) -> None:
        at = self.at
        is_entry = at.take().text == ".entry"
        results = self._parameters() if at.ahead.text == "(" else []
        while at.ahead.text in _FLAGS:
            at.take()
        name = at.word("the name of a function")
        function = Function(name.text, is_entry, name.line, results=results)
        if at.ahead.text == "(":
            function.parameters = self._parameters()
        self._limits(function)
        known = self.functions.get(name.text)
        if at.accepts(";"):
            self.functions.setdefault(name.text, function)
            return
        if known is not None and known.body is not None:
            raise PtxError(name.line, f"{name.text} is defined twice, the first time in line {known.line}")
        if is_extern:
            raise PtxError(name.line, f"{name.text} is .extern and has a body")
        self.functions[name.text] = function
        if is_entry and any(each.is_register for each in function.parameters):
            raise PtxError(name.line, f"{name.text} is a kernel and has a parameter in a register", "write .param")
        if is_entry:
            self._check_parameters(function)
        Body(at, function, self.functions).read()

    def _check_parameters(self, function: Function) -> None:
        most, nbytes = _PARAMETER_BYTES[self.version >= (8, 1)], 0
        for each in function.parameters:
            nbytes += -nbytes % each.align + each.nbytes
        if nbytes > most:
            raise PtxError(function.line, f"the parameters of {function.name} have {nbytes} bytes, more than {most}")

    def _parameters(self) -> list[Variable]:
        at = self.at
        at.expect("(")
        parameters: list[Variable] = []
        while not at.accepts(")"):
            if parameters:
                at.expect(",")
            if at.ahead.text == ".reg":
                token = at.take()
                type_ = type_of(at)
                name = at.word("the name of a parameter").text
                if type_.bits < 8:
                    raise PtxError(token.line, f"the parameter {name} is a predicate", "give a number")
                parameters.append(Variable(name, Space.PARAM, type_, type_.nbytes, (), token.line, is_register=True))
            else:
                parameters.append(variable(at))
        return parameters

    def _limits(self, function: Function) -> None:
        at = self.at
        while at.ahead.mark is Mark.DIRECTIVE:
            directive = at.take().text
            if directive in _LIMITS:
                function.limits[directive[1:]] = self._limit(directive)
            elif directive == ".pragma":
                at.skip_to(";")
            elif directive == ".abi_preserve" or directive == ".abi_preserve_control":
                whole(at)
            elif directive == ".maxnctapersm":
                raise at.error(".maxnctapersm is not in PTX any more", "write .minnctapersm")
            elif directive not in _FLAGS:
                raise at.error(f"{directive} is no directive for a function")
            else:
                function.limits[directive[1:]] = ()
        if "maxntid" in function.limits and "reqntid" in function.limits:
            raise PtxError(function.line, f"{function.name} has .maxntid and .reqntid", "leave one of them")

    def _limit(self, directive: str) -> tuple[int, ...]:
        """Read the numbers of a performance directive."""
        at = self.at
        line = at.ahead.line
        values = [whole(at, 1)]
        while at.accepts(","):
            values.append(whole(at, 1))
        if len(values) > _LIMITS[directive]:
            raise PtxError(line, f"{directive} has up to {_LIMITS[directive]} numbers, not {len(values)}")
        if directive == ".reqnctapercluster" and values != [1] * len(values):
            what = f"{directive} is not supported: clusters are not simulated"
            raise PtxError(line, what, kind=Refusal.NOT_SIMULATED)
        return tuple(values)
