"""The check of instructions against their forms: no modifier and no operand is passed over.

What PTX has not is bad text. What PTX has, and is not simulated, is refused as that.
"""

from collections.abc import Sequence

from device_model.errors import listed
from device_model.ptx.code.forms.form import FORMS, Form, forms_of
from device_model.ptx.code.forms.limits import misfit
from device_model.ptx.code.forms.operands import Misfit, Names, check_operands, names_of
from device_model.ptx.code.opcodes import opcode_of
from device_model.ptx.text.errors import PtxError, Refusal
from device_model.ptx.text.syntax import Function, Instruction, Module


def check_function(module: Module, function: Function) -> None:
    """Refuse *function* if one of its instructions is not simulated, or none that PTX has.

    Raises:
        PtxError: The message has the line of the first one.
    """
    names = names_of(module, function)
    for item in function.body or ():
        if isinstance(item, Instruction):
            opcode_of(item)
            _check_form(names, item)
            what = misfit(module, item)
            if what:
                raise PtxError(item.line, f"{item}: {what}")
    for name, labels in function.tables.items():
        missing = [each for each in labels if each not in names.labels and each not in names.functions]
        if missing:
            raise PtxError(function.line, f"{name} in {function.name} has {missing[0]}, which is no label")


def _check_form(names: Names, item: Instruction) -> None:
    """Refuse *item* unless one of the forms of its name has its modifiers and operands.

    Raises:
        PtxError: The message names the modifier or the operand that does not fit.
    """
    forms = forms_of(item.name, item.modifiers)
    if not forms:
        raise _bad_modifier(item)
    misfits: list[tuple[int, str]] = []
    for form in forms:
        try:
            check_operands(names, form, item)
        except Misfit as error:
            misfits.append((error.place, error.what))
            continue
        if form.is_simulated:
            return
        has_clusters = any("cluster" in each for each in item.modifiers)
        what = "clusters are" if has_clusters else "this form of it is"
        raise PtxError(item.line, f"{item} is not supported: {what} not simulated", kind=Refusal.NOT_SIMULATED)
    raise PtxError(item.line, f"{item}: {max(misfits)[1]}")


def _bad_modifier(item: Instruction) -> PtxError:
    forms = FORMS[item.name]
    words = set().union(*(form.words() for form in forms))
    unknown = next((each for each in item.modifiers if each not in words), None)
    if unknown is not None:
        what, remedy = f"{item.name} has no modifier .{unknown}", f"it takes {_dotted(sorted(words))}"
    else:
        what, remedy = _misplaced(item, forms), f"forms of it: {_texts(item, forms)}"
    return PtxError(item.line, f"{item!s}: {what}", remedy)


def _misplaced(item: Instruction, forms: Sequence[Form]) -> str:
    fitting = max(form.fits(item.modifiers)[0] for form in forms)
    if fitting == len(item.modifiers):
        return "a modifier is missing"
    before = f" behind .{item.modifiers[fitting - 1]}" if fitting else ""
    return f".{item.modifiers[fitting]} does not fit{before}"


def _texts(item: Instruction, forms: Sequence[Form]) -> str:
    """Return the forms that fit best."""
    best = max(form.fits(item.modifiers)[0] for form in forms)
    return listed((f"{item.name} {form.text}" for form in forms if form.fits(item.modifiers)[0] == best), 3)


def _dotted(words: Sequence[str]) -> str:
    return listed((f".{word}" for word in words), 20)
