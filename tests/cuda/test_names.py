"""Names of streams and memory: those of the variables of the program."""

import sys
from types import ModuleType, SimpleNamespace

from acl_py.compat.cuda.face.names import Names, stored


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
