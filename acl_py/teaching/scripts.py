"""Programs that a notebook runs as a script would: each in an event loop of its own."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from acl_py import running
from acl_py.waiting.browser import IN_BROWSER, set_aside

T = TypeVar("T")


async def run(main: Callable[..., Awaitable[T]], *args: Any, **options: Any) -> T:
    """Run `main(*args)` as a script would, with `acl_py.run`, and return what it returns.

    A notebook has an event loop of its own, and a thread has one loop at most. So the run gets another thread. Tasks of
    the notebook go on meanwhile. In a browser there are no threads: there the notebook waits until the run has ended.

    Args:
        main: The coroutine function.
        args: Its arguments.
        options: Those of `acl_py.run`, such as `device`.

    Raises:
        TypeError: there is no such option.
    """
    if not IN_BROWSER:
        return await asyncio.to_thread(running.run, main, *args, **options)
    with set_aside():
        return copy_context().run(partial(running.run, main, *args, **options))
