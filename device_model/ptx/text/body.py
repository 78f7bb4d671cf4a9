"""The body of a function: its instructions, labels and registers.

It knows the form of the text and the scopes of names. Which instructions there are, and what their operands may be, is
known where they are translated (`device_model.ptx.code`).
"""

from collections.abc import Mapping
from typing import NamedTuple

from device_model.ptx.text import passing
from device_model.ptx.text.constants import constant, count, whole
from device_model.ptx.text.cursor import Cursor
from device_model.ptx.text.declarations import SPACES, check_length, declared, type_of
from device_model.ptx.text.errors import PtxError
from device_model.ptx.text.lexer import Mark, Token
from device_model.ptx.text.scopes import Scope
from device_model.ptx.text.syntax import (
    Address,
    Function,
    Instruction,
    Label,
    Location,
    Not,
    Number,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
)

_MOST_REGISTERS = 1 << 20  # of a function


class _Jump(NamedTuple):
    """An instruction that names labels, by its place in the body, and the scope that it is in."""

    place: int
    scope: Scope


class Body:
    """Reads the body of one function."""

    def __init__(self, at: Cursor, function: Function, functions: Mapping[str, Function]) -> None:
        self.at = at
        self.function = function
        self.functions = functions  # that are declared so far
        self.given_back: list[tuple[Variable, Register]] = []  # results in registers
        self.scope = Scope(None)
        self.body: list[Instruction | Label] = []
        self.jumps: list[_Jump] = []
        self.source: Location | None = None
        self.names: set[str] = set()  # of labels and variables
        self.tables: list[tuple[str, tuple[str, ...], Scope]] = []

    def read(self) -> None:
        """Read from the opening brace to the closing one."""
        function = self.function
        first = Instruction("ld", (), (), None, function.line, None)
        for variable in function.parameters:
            if register := self._parameter(variable):
                self.body.append(passing.load(register, variable, first))
        for variable in function.results:
            if register := self._parameter(variable):
                self.given_back.append((variable, register))
        self._block()
        if self.given_back:  # a function may end without a return
            self._append(Instruction("ret", (), (), None, self.at.ahead.line, self.source))
        for place, scope in self.jumps:
            instruction = self.body[place]
            assert isinstance(instruction, Instruction), "labels do not jump"
            operands = tuple(self._target(each, scope) for each in instruction.operands)
            self.body[place] = instruction._replace(operands=operands)
        for name, labels, scope in self.tables:
            self.function.tables[name] = tuple(scope.label(label) or label for label in labels)
        self.function.body = self.body

    def _target(self, operand: Operand, scope: Scope) -> Operand:
        if isinstance(operand, Symbol) and (name := scope.label(operand.name)) is not None:
            return Symbol(name, operand.offset)
        return operand

    def _declare(self, variable: Variable) -> None:
        if variable.name in self.scope.variables:
            raise PtxError(variable.line, f"{variable.name} is declared twice")
        name = self._unique(variable.name)
        self.scope.variables[variable.name] = name
        self.function.variables[name] = variable
        variable.name = name

    def _parameter(self, variable: Variable) -> Register | None:
        """Declare a parameter or a result; return the register that it is in, if it is in one."""
        if not variable.is_register:
            self._declare(variable)
            return None
        name = variable.name
        if name in self.scope.registers:
            raise PtxError(variable.line, f"{name} is declared twice")
        self._declare_hidden(variable)
        return self.scope.add(name, variable.type, self.function)

    def _declare_hidden(self, variable: Variable) -> None:
        """Declare a variable that the text cannot name."""
        variable.name = self._unique(f"{variable.name}@")
        self.function.variables[variable.name] = variable

    def _append(self, instruction: Instruction) -> None:
        """Add an instruction, with what brings values in registers to calls and back."""
        if instruction.name == "ret":
            self.body += [passing.store(variable, register, instruction) for variable, register in self.given_back]
        if instruction.name != "call":
            self.body.append(instruction)
            return
        for each in passing.through_memory(instruction, self.functions, self._declare_hidden):
            if each.name == "call":
                self.jumps.append(_Jump(len(self.body), self.scope))
            self.body.append(each)

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
            self.scope = Scope(self.scope)
            self._block()
            outer = self.scope.outer
            assert outer is not None, "a block is inside another"
            self.scope = outer
        elif token.text == ".loc":
            self._location()
        elif token.text == ".reg":
            self._registers()
        elif token.text in SPACES:
            for variable in declared(at):
                check_length(variable)
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
            raise at.error(f"{token.text!r} begins no statement")

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
        type_ = type_of(at)
        while True:
            token = at.word("the name of a register")
            if at.accepts("<"):
                self.scope.ranges[token.text] = count(at, _MOST_REGISTERS), type_
                at.expect(">")
            else:
                if token.text in self.scope.registers:
                    raise PtxError(token.line, f"{token.text} is declared twice")
                self.scope.add(token.text, type_, self.function)
            if not at.accepts(","):
                break
        at.expect(";")

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
            raise PtxError(token.line, f"the label {token.text} is there twice")
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
                raise PtxError(line, f"{token.text} is no predicate")
            guard = predicate, is_turned
        opcode = at.word("an instruction")
        name, *modifiers = opcode.text.split(".")
        operands: list[Operand] = []
        while not at.accepts(";"):
            if operands:
                at.expect(",")
            operands.append(self._operand(is_call=name == "call"))
        if name in ("bra", "brx"):
            self.jumps.append(_Jump(len(self.body), self.scope))
        self._append(Instruction(name, tuple(modifiers), tuple(operands), guard, opcode.line, self.source))

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
        known = self.scope.find(name, self.function)
        if isinstance(known, Register):
            return known
        return Special(name) if known is None and name[0] == "%" else self._symbol(known or name)

    def _symbol(self, name: str) -> Symbol:
        return Symbol(name, self._offset() if self.at.ahead.text in ("+", "-") else 0)
