"""Names of streams and memory: those of the variables of the program."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from acl_py.compat.cuda.face.names import Names, stored
from acl_py.wording import plain


def name(beside=()):
    """What stands for a call of the driver in a program: it returns the name that its result gets."""
    caller = sys._getframe(1)
    found = stored(caller.f_code, caller.f_lasti)
    return (*beside, found) if beside else found


def test_an_object_has_the_name_of_its_variable():
    copies = name()
    assert copies == "copies"


def test_the_next_object_of_a_variable_has_a_number(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings", ModuleType("cuda.bindings"))
    names, seen = Names(), []
    for _ in range(3):
        work = names.name("stream")
        seen.append(work)
    other = names.name("memory")
    assert (seen, other) == (["work", "work (2)", "work (3)"], "other")


def test_what_a_call_by_ctypes_is_assigned_to_is_a_code_and_no_name(monkeypatch):
    monkeypatch.delitem(sys.modules, "cuda.bindings", raising=False)
    code = Names().name("stream")
    assert code is None


def test_a_code_beside_the_result_and_a_check_around_the_call_do_not_matter():
    error, stream = name(beside=[0])
    checked = str(name())
    assert (error, stream, checked) == (0, "stream", "checked")


def test_several_objects_of_one_line_have_the_names_of_their_variables():
    held = SimpleNamespace()
    first, second = name(), name()
    one, two, three = name(), str(object=name()), name()
    (a, b), c, d, e = (name(), name()), name(), len([]) + 5, name()
    held.uploads, error, (code, stream) = name(), 0, name(beside=[0])
    pair = name(), name()
    program = {"name": name}
    exec("first, second = name(), name()", program)
    assert [first, second] == [program["first"], program["second"]] == ["first", "second"]
    assert [one, two, three, a, b, c, d, e] == ["one", "two", "three", "a", "b", "c", 5, "e"]
    assert (held.uploads, error, code, stream, pair) == ("uploads", 0, 0, "stream", (None, None))


def test_an_attribute_is_a_name():
    held = SimpleNamespace()
    held.uploads = name()
    assert held.uploads == "uploads"


def test_a_global_is_a_name():
    program = {"name": name}
    exec("uploads = name()", program)
    assert program["uploads"] == "uploads"


def test_a_call_inside_an_expression_has_no_name():
    def both(*objects):
        return objects

    several = both(name(), name(), 1)
    inside = [name() for _ in range(1)]
    name()
    assert (several, inside) == ((None, None, 1), [None])


@pytest.mark.parametrize(
    ("mangled", "written"),
    [
        ("_Z3addIfEvPKT_S2_PS0_m", "add"),
        ("_ZN8__main__7add_oneB2v1B92cw51cXTLS", "add_one"),
        ("_ZN5outer5inner4copyEPf", "copy"),
        ("add", "add"),
        ("_Z", "_Z"),
    ],
)
def test_a_kernel_has_the_name_that_the_program_has_written(mangled, written):
    assert plain(mangled) == written
