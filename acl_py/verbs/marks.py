"""Marks: names that a program gives to parts of its run, for traces and reports."""

from sys import _getframe
from types import TracebackType

from acl_py.runtime.scopes import Scope, current_scope
from acl_py.sites import Site, site_of
from device_model.completions import Nanoseconds
from device_model.names import check_given_name


def mark(name: str) -> None:
    """Mark this instant of the host as *name*. It costs no simulated time.

    Stands for nvtxMark and aclprofMarkEx. `annotate` marks a time.

    Args:
        name: What traces and reports call it: 1 to 200 printable characters.

    Raises:
        AclError: NOT_INITIALIZED if no simulation runs here; NOT_PERMITTED in a kernel or a host function.
        TypeError: *name* is not a str.
        ValueError: *name* is empty, too long or not printable.
    """
    check_given_name(name)
    scope = _scope("mark")
    _tell(scope, name, scope.runtime.host_ns, site_of(_getframe(1)))


class annotate:  # noqa: N801 - it is used as a function
    """Mark the time that a block takes on the host as *name*. It costs no simulated time.

        with acl_py.annotate("QKV"):
            await project[8, stream](x)

    Stands for nvtxRangePush and nvtxRangePop, aclprofRangePushEx and aclprofRangePop. Blocks may lie in one another,
    and other tasks may run meanwhile.

    Args:
        name: What traces and reports call it: 1 to 200 printable characters.

    Raises:
        AclError: NOT_INITIALIZED if no simulation runs where the block begins; NOT_PERMITTED if that is in a kernel or
            a host function.
        TypeError: *name* is not a str.
        ValueError: *name* is empty, too long or not printable.
    """

    __slots__ = ("_begun", "_name")

    def __init__(self, name: str) -> None:
        check_given_name(name)
        self._name = name
        self._begun: list[tuple[Scope, Nanoseconds, Site]] = []  # blocks that have not ended

    def __enter__(self) -> None:
        scope = _scope("annotate")
        self._begun.append((scope, scope.runtime.host_ns, site_of(_getframe(1))))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        scope, begin_ns, site = self._begun.pop()
        _tell(scope, self._name, begin_ns, site)


def _scope(name: str) -> Scope:
    scope = current_scope()
    if scope.context.alert:
        scope.runtime.refuse_nested(scope.context, name)
    return scope


def _tell(scope: Scope, name: str, begin_ns: Nanoseconds, site: Site) -> None:
    runtime = scope.runtime
    if runtime.hooks.marked is not None:
        runtime.hooks.marked(name, begin_ns, runtime.host_ns, site)
