"""Stacks: the lines that led to the accesses of a finding."""

from acl_py.sites import path_to


class Stacks:
    """The stacks of one simulation: *paths* has, for each line that makes accesses, the path of its first call.

    To keep the path of every call would cost each call a walk over its frames. So the stack of an earlier access is the
    path by which its line was called first in this simulation. It may differ from the path of the very call.
    """

    __slots__ = ("paths",)

    def __init__(self) -> None:
        self.paths: dict[object, tuple[str, ...]] = {}

    def __repr__(self) -> str:
        return f"<Stacks: {len(self.paths)} lines>"

    def note(self, site: object) -> tuple[str, ...]:
        """Return the path of the first call of *site*, which is the running one if none was noted before."""
        path = self.paths.get(site)
        if path is None:
            path = self.paths[site] = path_to(site)
        return path

    def now(self, site: object) -> tuple[str, ...]:
        """Return the path of the running call of *site*; that of its first call if the running code is elsewhere."""
        return path_to(site) or self.note(site)
