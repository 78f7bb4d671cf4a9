"""Where the runs of a command take place: options that several commands have."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Annotated

import typer

from acl_py.late_imports import import_late
from acl_py.many.crew import Crew

OF_CREWS = "Many runs"

Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        help="How many runs take place at the same time. What comes out is the same for any number.",
        rich_help_panel=OF_CREWS,
    ),
]
Dask = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        help="Run on the Dask cluster of this scheduler, such as tcp://10.0.0.1:8786.",
        show_default=False,
        rich_help_panel=OF_CREWS,
    ),
]


class CrewError(ValueError):
    """There is nobody who could run anything."""


@contextmanager
def crew_of(workers: int | None, dask: str) -> Iterator[Crew]:
    """Give the crew that the options name; without any, one process for each processor.

    Raises:
        CrewError: Both are given, the package distributed is missing, or nobody answers.
    """
    if not dask:
        with Crew(workers=workers) as crew:
            yield crew
        return
    if workers is not None:
        raise CrewError("--workers and --dask: a cluster has its own workers, so give one of the two")
    try:
        distributed = import_late("distributed")
    except ImportError as error:
        raise CrewError("--dask needs the package distributed: pip install 'acl_py[dask]'") from error
    try:
        client = distributed.Client(dask, timeout="10s")
    except (OSError, ValueError) as error:
        raise CrewError(
            f"--dask {dask}: nobody answers there; is it the address that `dask scheduler` prints?"
        ) from error
    with client, Crew(client.get_executor(pure=False)) as crew:
        yield crew


@contextmanager
def crew_of_processes(workers: int | None, dask: str) -> Iterator[Crew]:
    """Give the crew that the options name, for runs that begin processes of their own; without any, one run at a time.

    Raises:
        CrewError: As `crew_of`.
    """
    if dask or workers is None or workers == 1:
        with crew_of(workers if dask else 1, dask) as crew:
            yield crew
        return
    threads = ThreadPoolExecutor(workers)  # they only wait
    try:
        with Crew(threads, ahead=2 * workers) as crew:
            yield crew
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
