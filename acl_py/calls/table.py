"""The table of verbs: what is known of each verb, written where the verb is defined.

    @verb(acl="aclrtRecordEvent", cuda="cudaEventRecord", aliases=("EventRecord",))
    async def RecordEvent(event: Event, stream: StreamLike = None) -> None: ...

`verb` gives the function back, so that a call pays nothing for it. `all_verbs` loads all modules that define verbs
itself: the table is the same whatever a program has imported. Call it when a name is looked up, never while a module is
loaded.
"""

from collections.abc import Callable, Coroutine, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, TypeVar

from acl_py.late_imports import standard_library_first
from device_model.frozen import Frozen
from device_model.rules import HostCall
from device_model.work import Label

FAULTS = "HostPageFaults"  # what an access of the host is called that had to wait for pages of managed memory
_VERBS = "acl_py.verbs"
# They have no verbs, and are slow to load.
VERBLESS = frozenset({"block_kernels", "core_kernels", "ptx_compiler", "ptx_kernels", "ptx_modules"})
_F = TypeVar("_F", bound=Callable[..., Coroutine[Any, Any, Any]])


class Verb(Frozen):
    """One verb.

    Args:
        name: The name of the function, by which fault rules, traces and messages know it.
        noun: The module that defines it, such as "events".
        acl: ACL's function of the same meaning; None if ACL has none.
        cuda: CUDA's function of the same meaning, or for a wait with a limit that of the wait; None if CUDA has none.
        does: What a capture beside a call may forbid of it; None if nothing.
        step: The step of a stream program that makes the same call; None if the format has none.
        aliases: Other names of the same function.
        is_setting: Whether it changes what later calls do, although its act does not say it and it has no step.
    """

    name: str
    noun: str
    acl: str | None
    cuda: str | None
    does: HostCall | None
    step: str | None
    aliases: tuple[str, ...]
    is_setting: bool


_TABLE: dict[str, Verb] = {}


def verb_of(label: Label) -> str:
    """Return the name of the verb that queues the work with *label* and does nothing else."""
    return "LaunchKernel" if label.kind == "kernel" else "MemcpyAsync"


def verb(
    *,
    acl: str | None = None,
    cuda: str | None = None,
    does: HostCall | None = None,
    step: str | None = None,
    aliases: tuple[str, ...] = (),
    is_setting: bool = False,
) -> Callable[[_F], _F]:
    """Enter the decorated coroutine function in the table, and give it back unchanged. The arguments are those of
    `Verb`.
    """

    def enter(function: _F) -> _F:
        name, noun = function.__name__, function.__module__.rpartition(".")[2]
        assert name not in _TABLE, f"two verbs are called {name}"
        _TABLE[name] = Verb(name, noun, acl, cuda, does, step, aliases, is_setting)
        return function

    return enter


@cache
def all_verbs() -> Mapping[str, Verb]:
    """Return every verb by its name."""
    with standard_library_first():
        from pkgutil import iter_modules  # only who looks a verb up needs it

        package = import_module(_VERBS)
        for module in iter_modules(package.__path__):
            if module.name not in VERBLESS:
                import_module(f"{_VERBS}.{module.name}")
    return MappingProxyType(_TABLE)


def verbs_for(name: str) -> list[str]:
    """Return the names of the verbs that stand for the vendor's function *name*, with or without its prefix."""
    wanted = _without_prefix(name)
    return [
        each.name
        for each in all_verbs().values()
        if wanted in (_without_prefix(vendors) for vendors in (each.acl, each.cuda) if vendors)
    ]


def _without_prefix(name: str) -> str:
    for prefix in ("aclrt", "acl", "cuda", "cu"):
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name
