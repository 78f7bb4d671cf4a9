"""Messages in the words of a script: where the core names a verb, scripts know a function of acl, or one of CUDA."""

import re
from functools import cache

from acl_py.calls.table import all_verbs
from acl_py.package_words import has_words, in_words_of, package_of
from acl_py.signatures import read

_VERB = re.compile(r"\b([A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)*)\(")  # as in "SetDevice()"
_MANGLED, _LENGTH = re.compile(r"^_ZN?"), re.compile(r"\d+")  # a name of C++; how long a part of it is
_OTHERWISE = {  # the Python binding has other names for these than the C functions
    "SetCurrentContext": "acl.rt.set_context",
    "GetCurrentContext": "acl.rt.get_context",
}


def reword(text: str, function: str = "acl") -> str:
    """Return *text* with functions in the place of verbs: "SetDevice()" becomes "acl.rt.set_device()". If the script
    calls the *function* of CUDA's driver, such as "cuMemAlloc_v2", it becomes "cudaSetDevice()". If *function* is a
    package, as `words_at` gives it, it has the words of that: "cuda.synchronize()".
    """
    if has_words(function):
        text, function = in_words_of(function, text), "cu"
    names = _of_cuda if function.startswith("cu") else _functions  # called late: a text may name no verb
    return _VERB.sub(lambda match: names().get(match[1], match[1]) + "(", text)


def words_at(file: str, function: str) -> str:
    """Return the words for `reword` in a program that has called *function* in *file*: that, or a package of CUDA."""
    return (package_of(file) if function.startswith("cu") else "") or function


def plain(name: str) -> str:
    """Return a kernel's name as the program writes it: "add" for "_Z3addIfEvPKT_S2_PS0_m" of C++ or numba."""
    rest = _MANGLED.sub("", name)
    while rest != name and (length := _LENGTH.match(rest)):
        end = length.end() + int(length[0])
        found, rest = rest[length.end() : end], rest[end:]
        if not (name.startswith("_ZN") and _LENGTH.match(rest)):
            return found or name
    return name


def freeing(maker: str) -> str | None:
    """Return the function of the module acl that frees what the function *maker* allocates; None if it is none of those
    that do so: "acl.media.dvpp_free" for "acl.media.dvpp_malloc_with_cfg".
    """
    stem, malloc, rest = maker.partition("malloc")
    return next((each for each in (f"{stem}free{rest}", f"{stem}free") if malloc and each in _full_names()), None)


@cache
def _of_cuda() -> dict[str, str]:
    """Return the functions of CUDA by the verb that they stand for."""
    return {name: verb.cuda for name, verb in all_verbs().items() if verb.cuda}


@cache
def _full_names() -> frozenset[str]:
    return frozenset(each.full_name for each in read())


@cache
def _functions() -> dict[str, str]:
    """Return the functions by the verb that they stand for."""
    named = [each for each in read() if each.module in ("acl", "acl.rt")]
    functions = {"".join(part[0].upper() + part[1:] for part in each.name.split("_")): each.full_name for each in named}
    stems = {name: (verb.acl or name).removeprefix("aclrt") for name, verb in all_verbs().items()}
    return functions | {name: functions[stem] for name, stem in stems.items() if stem in functions} | _OTHERWISE
