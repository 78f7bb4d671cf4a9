"""The parser: PTX text becomes a `Module`.

It knows the form of the text and the names of registers and variables. Which instructions there are, and what their
operands may be, is known where they are translated (`device_model.ptx.code`).
"""

import re
from math import prod
from typing import NamedTuple

from device_model.errors import printable
from device_model.ptx.text.constants import constant, count, whole
from device_model.ptx.text.cursor import Cursor
from device_model.ptx.text.errors import PtxError
from device_model.ptx.text.initial import initial
from device_model.ptx.text.lexer import Mark, Token, tokens
from device_model.ptx.text.syntax import (
    Address,
    Function,
    Instruction,
    Label,
    Location,
    Module,
    Not,
    Number,
    Operand,
    Pair,
    Register,
    Sink,
    Space,
    Special,
    Symbol,
    Variable,
    Vector,
)
from device_model.ptx.text.types import TYPES, Type

OLDEST, NEWEST = (6, 0), (9, 5)
NEWEST_TARGET = 90
_MOST_REGISTERS = 1 << 20  # of a function
_MOST_BYTES = 1 << 40  # of a variable
_TARGET = re.compile(r"sm_(\d+)([af]?)|compute_(\d+)([af]?)")
_LINKAGE = (".extern", ".visible", ".weak", ".common")
_SPACES = {f".{space.value}": space for space in Space}
_LIMITS = {
    ".maxntid",
    ".reqntid",
    ".minnctapersm",
    ".maxnctapersm",
    ".maxnreg",
    ".maxclusterrank",
    ".reqnctapercluster",
}
_FLAGS = {".noreturn", ".explicitcluster", ".blocksareclusters", ".unique"}
_RANGE = re.compile(r"(.*?)(0|[1-9]\d{0,8})")


def parse(text: str) -> Module:
    """Return what *text* says.

    Raises:
        PtxError: The text is no PTX of the versions 6.0 to 9.5, or for a target newer than sm_90a.
    """
    return _Parser(text).module()


class _Scope:
    """The names between two braces; a name that is not there is looked up in the scope outside."""

    def __init__(self, outer: "_Scope | None") -> None:
        self.outer = outer
        self.registers: dict[str, Register] = {}
        self.ranges: dict[str, tuple[int, Type]] = {}  # by prefix: how many, of which type
        self.variables: dict[str, str] = {}  # the unique names of variables
        self.labels: dict[str, str] = {}  # the unique names of labels


class _Jump(NamedTuple):
    """An instruction that names labels, by its place in the body, and the scope that it is in."""

    place: int
    scope: _Scope


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

    # The module

    def module(self) -> Module:
        at = self.at
        if at.ahead.text != ".version":
            raise at.error("the text does not begin with .version, as PTX does")
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
            raise PtxError(token.line, f"{printable(token.text)} is no version")
        self.version = int(parts[0]), int(parts[1])
        if not OLDEST <= self.version <= NEWEST:
            raise PtxError(
                token.line, f"PTX {token.text} is not supported", "use a compiler that writes version 6.0 to 9.5"
            )

    def _target(self) -> None:
        self.at.take()
        token = self.at.word("a target such as sm_90")
        match = _TARGET.fullmatch(token.text)
        if match is None:
            raise PtxError(token.line, f"{printable(token.text)} is no target", "write one such as sm_90")
        if int(match[1] or match[3]) > NEWEST_TARGET:
            raise PtxError(
                token.line, f"{token.text} is newer than the cards that are simulated", "compile for sm_90 or older"
            )
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
        elif at.ahead.text in _SPACES:
            for variable in self.declared():
                variable.is_extern = ".extern" in linkage
                self._add_variable(variable)
        else:
            raise at.error(f"{printable(at.ahead.text)!r} begins no declaration")

    def _add_variable(self, variable: Variable) -> None:
        known = self.variables.get(variable.name)
        if known is not None and not (known.is_extern or variable.is_extern):
            raise PtxError(variable.line, f"{variable.name} is declared twice, the first time in line {known.line}")
        if known is None or known.is_extern:
            self.variables[variable.name] = variable

    # Variables

    def declared(self) -> list[Variable]:
        """Read the variables of one declaration, with its semicolon."""
        variables = [first := self._variable()]
        while self.at.accepts(","):
            variables.append(self._named(first))
        self.at.expect(";")
        return variables

    def _variable(self) -> Variable:
        """Read one declaration of a variable, up to its end without the semicolon."""
        at = self.at
        token = at.take()
        space, bank = _SPACES.get(token.text), token.text
        if space is None:
            raise PtxError(token.line, f"{bank} is no state space of a variable")
        align, vector, type_, is_pointer = 0, 1, None, False
        while at.ahead.mark is Mark.DIRECTIVE:
            directive = at.take().text
            if directive == ".align":
                found = self._align()
                align = align if is_pointer else found  # else it is that of what the pointer is to
            elif directive in (".v2", ".v4", ".v8"):
                vector = int(directive[2:])
            elif directive == ".ptr":
                is_pointer = True
            elif is_pointer and directive in _SPACES:
                continue
            elif directive == ".attribute":
                at.expect("(")
                at.skip_to(")")
            elif directive[1:] in TYPES:
                type_ = TYPES[directive[1:]]
            else:
                raise at.error(f"{directive} is not supported for a variable", line=token.line)
        if type_ is None or type_.bits < 8:
            raise at.error("the type of the variable is missing", line=token.line)
        like = Variable("", space, type_, align or type_.nbytes * vector, (), token.line, vector, is_pointer=is_pointer)
        return self._named(like)

    def _align(self) -> int:
        align = whole(self.at, 1, 1 << 16)
        if align & align - 1:
            raise self.at.error(f".align {align} is no power of 2")
        return align

    def _named(self, like: Variable) -> Variable:
        """Read the name, the dimensions and the initial values of a variable that is otherwise *like* that one."""
        at = self.at
        token = at.word("the name of a variable")
        shape: list[int] = []
        while at.accepts("["):
            shape.append(0 if at.ahead.text == "]" else whole(at, 0, _MOST_BYTES))
            at.expect("]")
        variable = Variable(token.text, like.space, like.type, like.align, tuple(shape), token.line, like.vector,
                            is_pointer=like.is_pointer)  # fmt: skip
        if prod(max(1, length) for length in shape) * like.type.nbytes * like.vector > _MOST_BYTES:
            raise PtxError(token.line, f"{printable(token.text)} is larger than any memory")
        if at.accepts("="):
            variable.shape, variable.data, variable.relocations = initial(at, variable)
        return variable

    # Functions

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
        _Body(self, function).read()

    def _parameters(self) -> list[Variable]:
        at = self.at
        at.expect("(")
        parameters: list[Variable] = []
        while not at.accepts(")"):
            if parameters:
                at.expect(",")
            if at.ahead.text == ".reg":
                token = at.take()
                type_ = self.type()
                name = at.word("the name of a parameter").text
                parameters.append(Variable(name, Space.PARAM, type_, max(1, type_.nbytes), (), token.line))
            else:
                parameters.append(self._variable())
        return parameters

    def _limits(self, function: Function) -> None:
        at = self.at
        while at.ahead.mark is Mark.DIRECTIVE:
            directive = at.take().text
            if directive in _LIMITS:
                values = [whole(at, 0, 2**31 - 1)]
                while at.accepts(","):
                    values.append(whole(at, 0, 2**31 - 1))
                function.limits[directive[1:]] = tuple(values)
            elif directive == ".pragma":
                at.skip_to(";")
            elif directive == ".abi_preserve" or directive == ".abi_preserve_control":
                whole(at)
            elif directive not in _FLAGS:
                raise at.error(f"{directive} is not supported for a function")
            else:
                function.limits[directive[1:]] = ()

    def type(self) -> Type:
        """Read a type, such as .b32."""
        token = self.at.take()
        type_ = TYPES.get(token.text[1:])
        if type_ is None or token.mark is not Mark.DIRECTIVE:
            raise PtxError(token.line, f"{printable(token.text)} is no type")
        return type_


class _Body:
    """Reads the body of one function."""

    def __init__(self, parser: _Parser, function: Function) -> None:
        self.parser = parser
        self.at = parser.at
        self.function = function
        self.scope = _Scope(None)
        self.body: list[Instruction | Label] = []
        self.jumps: list[_Jump] = []
        self.source: Location | None = None
        self.names: set[str] = set()  # of labels and variables
        self.tables: list[tuple[str, tuple[str, ...], _Scope]] = []

    def read(self) -> None:
        """Read from the opening brace to the closing one."""
        for variable in (*self.function.parameters, *self.function.results):
            self._declare(variable)
        self._block()
        for place, scope in self.jumps:
            instruction = self.body[place]
            assert isinstance(instruction, Instruction), "labels do not jump"
            operands = tuple(self._target(each, scope) for each in instruction.operands)
            self.body[place] = instruction._replace(operands=operands)
        for name, labels, scope in self.tables:
            self.function.tables[name] = tuple(_label(label, scope) or label for label in labels)
        self.function.body = self.body

    def _target(self, operand: Operand, scope: _Scope) -> Operand:
        if isinstance(operand, Symbol) and (name := _label(operand.name, scope)) is not None:
            return Symbol(name, operand.offset)
        return operand

    def _declare(self, variable: Variable) -> None:
        if variable.name in self.scope.variables:
            raise PtxError(variable.line, f"{variable.name} is declared twice")
        name = self._unique(variable.name)
        self.scope.variables[variable.name] = name
        self.function.variables[name] = variable
        variable.name = name

    def _unique(self, name: str) -> str:
        unique, number_ = name, 2
        while unique in self.names:
            unique, number_ = f"{name}@{number_}", number_ + 1
        self.names.add(unique)
        return unique

    def _block(self) -> None:
        at = self.at
        at.expect("{")
        with at.deeper():
            while not at.accepts("}"):
                self._statement()

    def _statement(self) -> None:
        at = self.at
        token = at.ahead
        if token.text == "{":
            self.scope = _Scope(self.scope)
            self._block()
            outer = self.scope.outer
            assert outer is not None, "a block is inside another"
            self.scope = outer
        elif token.text == ".loc":
            self._location()
        elif token.text == ".reg":
            self._registers()
        elif token.text in _SPACES:
            for variable in self.parser.declared():
                self._declare(variable)
        elif token.text == ".pragma":
            at.skip_to(";")
        elif token.text == ";":
            at.take()
        elif token.mark is Mark.WORD and at.after.text == ":":
            self._label()
        elif token.mark is Mark.WORD or token.text == "@":
            self._instruction()
        else:
            raise at.error(f"{printable(token.text)!r} begins no statement")

    def _location(self) -> None:
        at = self.at
        at.take()
        self.source = Location(whole(at), whole(at), whole(at))
        while at.accepts(","):
            name = at.word("function_name or inlined_at").text
            if name == "function_name":
                at.word("the name of a function")
                if at.accepts("+"):
                    whole(at)
            else:
                whole(at), whole(at), whole(at)

    def _registers(self) -> None:
        at = self.at
        at.take()
        type_ = self.parser.type()
        while True:
            token = at.word("the name of a register")
            if at.accepts("<"):
                self.scope.ranges[token.text] = count(at, _MOST_REGISTERS), type_
                at.expect(">")
            else:
                if token.text in self.scope.registers:
                    raise PtxError(token.line, f"{printable(token.text)} is declared twice")
                self._register(token.text, type_)
            if not at.accepts(","):
                break
        at.expect(";")

    def _register(self, name: str, type_: Type) -> Register:
        register = Register(len(self.function.registers), name, type_)
        self.function.registers.append(register)
        self.scope.registers[name] = register
        return register

    def _label(self) -> None:
        at = self.at
        token = at.take()
        at.expect(":")
        if at.ahead.text in (".branchtargets", ".calltargets", ".callprototype"):
            kind = at.take().text
            names = []
            while not at.accepts(";"):
                part = at.take()
                names.append(part.text)
            labels = tuple(each for each in names if each != ",") if kind != ".callprototype" else ()
            name = self._unique(token.text)
            self.scope.labels[token.text] = name
            self.tables.append((name, labels, self.scope))
            return
        if token.text in self.scope.labels:
            raise PtxError(token.line, f"the label {printable(token.text)} is there twice")
        name = self._unique(token.text)
        self.scope.labels[token.text] = name
        self.body.append(Label(name, token.line))

    # Instructions

    def _instruction(self) -> None:
        at = self.at
        guard = None
        line = at.ahead.line
        if at.accepts("@"):
            is_turned = at.accepts("!")
            token = at.word("a predicate")
            predicate = self._named(token)
            if not isinstance(predicate, Register) or predicate.type.name != "pred":
                raise PtxError(line, f"{printable(token.text)} is no predicate")
            guard = predicate, is_turned
        opcode = at.word("an instruction")
        name, *modifiers = opcode.text.split(".")
        operands: list[Operand] = []
        while not at.accepts(";"):
            if operands:
                at.expect(",")
            operands.append(self._operand(is_call=name == "call"))
        if name in ("bra", "brx", "call"):
            self.jumps.append(_Jump(len(self.body), self.scope))
        self.body.append(Instruction(name, tuple(modifiers), tuple(operands), guard, opcode.line, self.source))

    def _operand(self, *, is_call: bool = False) -> Operand:
        at = self.at
        token = at.ahead
        if token.text == "[":
            return self._address()
        if token.text == "{" or (is_call and token.text == "("):
            at.take()
            return self._vector("}" if token.text == "{" else ")")
        if token.mark is Mark.WORD and token.text != "WARP_SZ":
            at.take()
            operand = self._named(token)
            if at.accepts("|"):
                return Pair(self._result(operand), self._result(self._named(at.word("a register"))))
            return operand
        if token.text == "!" and at.after.mark is Mark.WORD:
            at.take()
            operand = self._named(at.take())
            if not isinstance(operand, Register | Special):
                raise PtxError(token.line, "! stands before a predicate")
            return Not(operand)
        return constant(at)

    def _vector(self, end: str) -> Vector:
        parts: list[Operand] = []
        with self.at.deeper():
            while not self.at.accepts(end):
                if parts:
                    self.at.expect(",")
                parts.append(self._operand())
        return Vector(tuple(parts))

    def _result(self, operand: Operand) -> Register | None:
        if isinstance(operand, Sink):
            return None
        if not isinstance(operand, Register):
            raise self.at.error("a register is missing beside |")
        return operand

    def _address(self) -> Operand:
        at = self.at
        line = at.expect("[").line
        with at.deeper():
            base = self._operand()
            if at.ahead.text == ",":
                parts = [base]
                while at.accepts(","):
                    parts.append(self._operand())
                at.expect("]")
                return Vector(tuple(parts))
        offset = 0
        if isinstance(base, Symbol):
            base, offset = Symbol(base.name), base.offset
        if at.ahead.text in ("+", "-"):
            offset += self._offset()
        at.expect("]")
        if not isinstance(base, Register | Symbol | Number):
            raise PtxError(line, "an address is a register, a name or a number, and an offset")
        return Address(base, offset)

    def _offset(self) -> int:
        at = self.at
        sign = -1 if at.take().text == "-" else 1
        return sign * whole(at, -(2**63), 2**63 - 1)

    def _named(self, token: Token) -> Operand:
        """Return what a name stands for here."""
        name = token.text
        if name == "_":
            return Sink()
        scope: _Scope | None = self.scope
        while scope is not None:
            register = scope.registers.get(name) or self._of_range(scope, name)
            if register is not None:
                return register
            if name in scope.variables:
                return self._symbol(scope.variables[name])
            scope = scope.outer
        if name[0] == "%":
            return Special(name)
        return self._symbol(name)

    def _of_range(self, scope: _Scope, name: str) -> Register | None:
        match = _RANGE.fullmatch(name)
        if match is None or match[1] not in scope.ranges:
            return None
        length, type_ = scope.ranges[match[1]]
        if int(match[2]) >= length:
            return None
        register = Register(len(self.function.registers), name, type_)
        self.function.registers.append(register)
        scope.registers[name] = register
        return register

    def _symbol(self, name: str) -> Symbol:
        return Symbol(name, self._offset() if self.at.ahead.text in ("+", "-") else 0)


def _label(name: str, scope: _Scope | None) -> str | None:
    """Return the unique name of a label as *scope* sees it; None if there is none."""
    while scope is not None:
        if name in scope.labels:
            return scope.labels[name]
        scope = scope.outer
    return None
