"""Where a kernel's instruction was issued: the offset is that of an instruction, not of a cache behind it."""

import dis
import sys

from device_model.kernel.sites import frame_of_kernel, instruction_of

ROUNDS = 30  # so often the interpreter sees a line before it specialises it
STEPS = ("PRECALL", "CALL", "CALL_KW", "CALL_FUNCTION_EX", "BINARY_SUBSCR", "BINARY_OP", "LOAD_ATTR")


class Asked:
    """Each way of asking it tells which instruction of its caller asks."""

    def __getitem__(self, _):
        return caller()

    def __add__(self, _):
        return caller()

    def __call__(self, *_, **__):
        return caller()

    @property
    def attribute(self):
        return caller()


def caller():
    return instruction_of(sys._getframe(2))


def every_way(asked):
    return [
        asked[0],
        asked + 1,
        asked(),
        asked(1, 2),
        asked(key=3),
        asked(*(4,)),
        asked.attribute,
    ]


def test_an_offset_is_that_of_an_instruction_however_often_its_line_has_run():
    named = {each.offset: each.opname for each in dis.get_instructions(every_way)}
    first = every_way(Asked())
    assert {code for code, _ in first} == {every_way.__code__}
    asks = [named[offset] for _, offset in first]
    assert all(each.startswith(STEPS) for each in asks)
    assert len({offset for _, offset in first}) == len(first)
    for _ in range(ROUNDS):
        assert every_way(Asked()) == first


def in_package(package):
    """A function that calls another one, as a function of *package* would."""
    names = {"__package__": package}
    exec("def call(function): return function()", names)
    return names["call"]


def test_the_line_of_a_kernel_is_outside_of_languages_and_of_numpy():
    def innermost():
        return frame_of_kernel(sys._getframe(1))

    own = sys._getframe()
    for package in ("device_model.aicore.core", "device_model.cta.language", "numpy._core"):
        call = in_package(package)
        assert call(innermost) is own
    for package in ("kernels_of_a_user", None):
        call = in_package(package)
        assert call(innermost).f_code is call.__code__
    bare = in_package("numpy")
    del bare.__globals__["__package__"]
    assert bare(innermost).f_code is bare.__code__
