"""Every function of the binding as its vendor would test all of them: arity, argument types, and what bad values give.

What is called, with what, and what it gives stands in signatures.txt.
"""

import importlib
import re
import threading
from importlib import resources
from typing import NamedTuple

import card
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("own_folder")
GARBAGE, BIG = 0xDEAD0, (1 << 64) - 1
FITS = {"k": 0, "i": 0, "u": 0, "q": 0, "f": 0.0, "s": "x", "y": b"x", "l": [], "d": {}, "O": None}
MISFITS = {
    "k": ["1", 1.5, [1], b"1", np.int64(1), np.uint64(1)],
    "i": ["1", 1.5, [1], b"1", 1 << 31, -(1 << 31) - 1],
    "u": ["1", 1.5, [1], b"1"],
    "q": ["1", 1.5, [1], 1 << 63],
    "f": ["1", [1.0], b"1"],
    "s": [1, b"x", ["x"]],
    "y": [1, "x", [1]],
    "l": [(1,), 1, np.zeros(1), {}],
    "d": [[], 1, "x", ()],
    "O": [],
}
BAD = {  # by letter: values that a call takes, and of which nothing good can come
    "k": [0, GARBAGE, BIG, 1, -1],
    "i": [0, 7777, -1, 2**31 - 1, np.int32(5)],
    "u": [0, 7777, 2**32 - 1, np.int64(5), 3],
    "q": [0, 7777, -1, 2**63 - 1, np.int64(5)],
    "f": [0.0, 1e300, -1.0, float("nan"), 1],
    "s": ["", "no such thing"] * 3,
    "y": [b"", b"no"] * 3,
    "l": [[], [0], [GARBAGE], ["x"], [None]],
    "d": [{}, {"no": "such"}, {1: None}] * 2,
    "O": [None, 0, "x", [], object()],
}
LOOKED_AT = {"wait_and_reset_notify", "get_function_name"}  # where a number may be a ValueError
RAW = {"util.ptr_to_bytes", "util.ptr_to_numpy"}  # read any address, here as with the vendor
EMPTY = {"": 0, "k": 0, "i": 0, "u": 0, "q": 0, "f": 0.0, "s": "", "l": [], "d": {}, "O": None}


class Signature(NamedTuple):
    name: str
    required: str
    optional: str
    gives: tuple[str, ...]  # the letters of what it gives besides the code
    has_code: bool

    def __str__(self):
        return self.name

    @property
    def short(self):
        return self.name.rpartition(".")[2]

    def of(self, acl):
        """The function itself."""
        for part in self.name.split("."):
            acl = getattr(acl, part)
        return acl


def _letters(text):
    return "".join(each.split()[0] for each in text.split(",") if each.strip())


def _read(line):
    name, arguments, gives = re.fullmatch(r"([\w.]+)\((.*?)\) -> (.*)", line).groups()
    required, _, optional = arguments.partition("|")
    parts = [each.strip().split() for each in gives.removesuffix("*").strip("() ").split(",")]
    has_code = parts[-1] == ["ret"]
    values = parts[:-1] if has_code else parts
    letters = tuple(each[0] if len(each) > 1 else "" for each in values)
    return Signature(name, _letters(required), _letters(optional), letters, has_code)


TEXT = (resources.files("acl_py") / "signatures.txt").read_text(encoding="utf-8")
SIGNATURES = [_read(line) for line in TEXT.splitlines() if line and not line.startswith("#")]


def calls(signature, values):
    """The arguments of a call, each the one that *values* has for its letter."""
    return [values[letter] for letter in signature.required]


# --- arguments


def takes(function, *arguments, errors=TypeError, says="", **named):
    """Whether *function* takes these arguments, or refuses them with an error that does not say *says*."""
    try:
        function(*arguments, **named)
    except errors as error:
        return says not in "\n".join([str(error), *getattr(error, "__notes__", ())])
    return True


def of_another_number(signature):
    """Arguments that fit, but are one too few or too many, or have a name."""
    arguments = calls(signature, FITS)
    yield arguments, {"a0": 1}
    if arguments or signature.optional:
        yield [*arguments, *(FITS[letter] for letter in signature.optional), 0], {}
    if arguments:
        yield arguments[:-1], {}
        yield arguments[:-1], {"stream": 0}


def test_arguments_are_positional_and_just_as_many():
    with card.module() as acl:
        taken = [
            (signature.name, arguments, named)
            for signature in SIGNATURES
            for arguments, named in of_another_number(signature)
            if takes(signature.of(acl), *arguments, **named)
        ]
    assert taken == []


def misfits(signature):
    """Arguments of which one does not fit its letter, with the errors that refuse it, and what they say."""
    fit = calls(signature, FITS)
    for place, letter in enumerate(signature.required):
        if letter != "O":
            yield [*fit[:place], None, *fit[place + 1 :]], TypeError, signature.short
        for misfit in MISFITS[letter]:
            yield [*fit[:place], misfit, *fit[place + 1 :]], (TypeError, ValueError), ""


def test_what_does_not_fit_a_letter():
    with card.module() as acl:
        taken = [
            (signature.name, arguments)
            for signature in SIGNATURES
            for arguments, errors, says in misfits(signature)
            if takes(signature.of(acl), *arguments, errors=errors, says=says)
        ]
    assert taken == []


# --- what comes of bad values


def check(signature, answer, values):
    """Has *answer* the shape that the signature says, and is it made of plain values?"""
    echoes = [value % (1 << 64) for value in values if isinstance(value, int)] + [0xFFFFFFFF]
    told = f"{signature.name}{tuple(values)} gave {answer!r}"
    if signature.has_code and signature.gives:
        assert type(answer) is tuple, told
        assert len(answer) == len(signature.gives) + 1, told
        *rest, ret = answer
        assert type(ret) is int, told
        if ret:
            for letter, value in zip(signature.gives, rest, strict=True):
                empty = EMPTY[letter]
                echo = type(value) is int and value in echoes  # of add_dataset_buffer, and "none" of get_aipp_type
                keeps = letter == "d" and type(value) is dict  # a structure, filled or not
                assert letter == "O" or echo or keeps or (type(value) is type(empty) and value == empty), told
    elif signature.has_code:
        assert type(answer) is int, told
    elif len(signature.gives) > 1:
        assert type(answer) is tuple, told
    else:
        (letter,) = signature.gives
        kind = type(EMPTY[letter])
        assert letter == "O" or answer is None or type(answer) is kind, told


def sweep(acl, signature):
    function = signature.of(acl)
    for turn in range(5):
        values = [BAD[letter][turn] for letter in signature.required]
        try:
            answer = function(*values)
        except (TypeError, ValueError):
            # Lists, dicts and objects are looked at in depth, as is a time-out; else a bad value is a code.
            assert set(signature.required) & set("ldOs") or signature.short in LOOKED_AT, values
        else:
            check(signature, answer, values)


@pytest.mark.one_in(10)
@pytest.mark.parametrize("signature", SIGNATURES, ids=str)
def test_bad_values_are_codes_and_the_shape_stays(signature):
    if signature.name in RAW:
        pytest.skip("reads any address, here as with the vendor")
    with card.module() as acl:
        sweep(acl, signature)
        acl.rt.reset_device_force(0)


@pytest.mark.parametrize("part", ["", "rt", "mdl", "op", "media", "util"])
def test_bad_values_in_a_thread_without_a_context(part):
    """And before acl.init: nothing is raised, and nothing hangs."""
    chosen = [s for s in SIGNATURES if s.name.rpartition(".")[0] == part and s.name not in RAW]
    caught = []

    def run():
        try:
            for signature in chosen:
                sweep(acl, signature)
        except BaseException as error:  # of a thread, to be raised in the test
            caught.append(error)

    with card.module() as acl:
        acl.finalize()
        thread = threading.Thread(target=run)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
    if caught:
        raise caught[0]


# --- what is in the modules


def test_dir_is_honest(acl):
    """Nothing public but functions of the binding and its sub-modules."""
    names = {signature.name for signature in SIGNATURES}
    for part in ("rt", "mdl", "op", "media", "util"):
        module = getattr(acl, part)
        assert {f"{part}.{name}" for name in dir(module) if not name.startswith("_")} == {
            name for name in names if name.startswith(f"{part}.")
        }
    top = {name for name in dir(acl) if not name.startswith("_")}
    submodules = {"rt", "mdl", "op", "media", "util", "prof", "blas", "himpi", "fv"}
    assert top - submodules == {name for name in names if "." not in name}


def test_no_constants_are_exported(acl):
    for module in (acl, acl.rt, acl.mdl, acl.op, acl.media, acl.util):
        for name in dir(module):
            value = getattr(module, name)
            assert name.startswith("_") or callable(value) or type(value) is type(acl), name


def test_submodules_are_modules(acl):
    for part in ("rt", "mdl", "op", "media", "util", "prof", "blas", "himpi", "fv"):
        assert importlib.import_module(f"acl.{part}") is getattr(acl, part)
    from acl.rt import memcpy

    assert memcpy is acl.rt.memcpy


def test_features_are_detected_as_in_the_wild(acl):
    assert "bytes_to_ptr" in dir(acl.util)
    assert hasattr(acl.rt, "create_stream_with_config")
    assert not hasattr(acl.rt, "launch_host_func")
    assert not hasattr(acl.mdl, "ri_capture_begin")
