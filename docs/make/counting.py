"""How far a build of the site has come, on a terminal: pages that are read, and then pages that are written."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from os import getpid

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from acl_py.cli.common import progress


class Pages:
    """Counts the pages of the build of *app*. Processes that Sphinx forks to read do not show anything: it tells what
    they have read when it has it.
    """

    def __init__(self, app: Sphinx) -> None:
        self._process = getpid()
        self._phase = ExitStack()
        self._advance: Callable[[], object] | None = None
        app.connect("env-before-read-docs", lambda _app, _env, names: self._begin("pages read", len(names)))
        app.connect("source-read", lambda *_: self._count())
        app.connect("env-merge-info", lambda _app, _env, names, _other: self._count(len(names)))
        app.connect("env-updated", lambda *_: self._end())
        app.connect("doctree-resolved", lambda app, *_: self._written(app.env))
        app.connect("build-finished", lambda *_: self._end())

    def _begin(self, what: str, total: int) -> None:
        self._end()
        self._advance = self._phase.enter_context(progress(what, total))

    def _end(self) -> Sequence[str]:
        self._advance = None
        self._phase.close()
        return []

    def _count(self, pages: int = 1) -> None:
        if getpid() == self._process and self._advance is not None:
            for _ in range(pages):
                self._advance()

    def _written(self, env: BuildEnvironment) -> None:
        if self._advance is None:
            self._begin("pages written", len(env.found_docs))
        self._count()
